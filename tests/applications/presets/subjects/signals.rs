//! Applications that reload on a signal.

use super::super::seen::{Class, Seen};
use super::{COMMON, Subject};

pub(super) const SIGNALS: &[Subject] = &[
    Subject {
        preset: "apache",
        package: "apache2-bin",
        process: "apache2",
        command: &["apache2", "-d", "{run}", "-f", "{dir}/apache2.conf", "-DFOREGROUND"],
        file: (
            "apache2.conf",
            "LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so\n\
             LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so\n\
             LoadModule headers_module /usr/lib/apache2/modules/mod_headers.so\n\
             ServerName localhost\nListen 127.0.0.1:8080\nUser www-data\nGroup www-data\n\
             PidFile {run}/pid\nDefaultRuntimeDir {run}\nErrorLog /dev/stderr\n\
             DocumentRoot {run}\nHeader always set X-Version {version}\n",
        ),
        fault: "Lisen 8081",
        ..COMMON
    },
    Subject {
        preset: "bind9",
        package: "bind9",
        process: "named",
        command: &["named", "-f", "-u", "root", "-c", "{dir}/named.conf"],
        file: (
            "named.conf",
            "options { directory \"{run}\"; pid-file \"{run}/pid\"; session-keyfile \"{run}/key\";\n\
             listen-on port 5353 { 127.0.0.1; }; listen-on-v6 { none; };\n\
             version \"{version}\"; recursion no; };\ncontrols { };\n",
        ),
        fault: "nothing here;",
        seen: Seen::Dns(Class::Chaos),
        ..COMMON
    },
    Subject {
        preset: "dovecot",
        package: "dovecot-core",
        process: "dovecot",
        command: &["dovecot", "-F", "-c", "{dir}/dovecot.conf"],
        file: (
            "dovecot.conf",
            "protocols = pop3\nlisten = 127.0.0.1\nbase_dir = {run}/dovecot\n\
             log_path = /dev/stderr\nssl = no\nlogin_greeting = {version}\n\
             passdb {\n  driver = static\n  args = password=secret\n}\n\
             service pop3-login {\n  inet_listener pop3 {\n    port = 1110\n  }\n\
             inet_listener pop3s {\n    port = 0\n  }\n}\n",
        ),
        seen: Seen::Tcp(1110, "QUIT\r\n"),
        ..COMMON
    },
    Subject {
        preset: "gunicorn",
        package: "gunicorn",
        process: "gunicorn",
        command: &[
            "env",
            "PYTHONDONTWRITEBYTECODE=1",
            "gunicorn",
            "-c",
            "{dir}/gunicorn.conf.py",
            "-b",
            "127.0.0.1:8080",
        ],
        file: (
            "gunicorn.conf.py",
            "wsgi_app = 'app:app'\nchdir = '{run}'\nraw_env = ['VERSION={version}']\n",
        ),
        others: &[(
            "app.py",
            "import os, time\nhow = os.environ.get('VERSION')\nif how in ('ends', 'loops'): time.sleep(4); exit(3 if how == 'ends' else 1)\n\
             def app(environ, start):\n    start('200 OK', [])\n    \
             return [os.environ['VERSION'].encode()]\n",
        )],
        ..COMMON
    },
    Subject {
        preset: "haproxy",
        package: "haproxy",
        process: "haproxy",
        command: &["haproxy", "-W", "-db", "-f", "{dir}/haproxy.cfg"],
        file: (
            "haproxy.cfg",
            "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 5s\n\
             frontend web\n bind 127.0.0.1:8080\n \
             http-request return status 200 content-type text/plain string {version}\n",
        ),
        fault: "bogus keyword",
        ..COMMON
    },
    Subject {
        preset: "keepalived",
        package: "keepalived",
        process: "keepalived",
        command: &[
            "keepalived",
            "--dont-fork",
            "--log-console",
            "--use-file={dir}/keepalived.conf",
            "--pid={run}/pid",
            "--vrrp_pid={run}/vrrp.pid",
            "--checkers_pid={run}/checkers.pid",
        ],
        file: ("keepalived.conf", "static_ipaddress {\n  fd00::{version}/128 dev lo\n}\n"),
        seen: Seen::Address,
        ..COMMON
    },
    Subject {
        preset: "lighttpd",
        package: "lighttpd",
        process: "lighttpd",
        command: &["lighttpd", "-D", "-f", "{dir}/lighttpd.conf"],
        file: (
            "lighttpd.conf",
            "server.document-root = \"{run}\"\nserver.port = 8080\nserver.bind = \"127.0.0.1\"\n\
             server.tag = \"{version}\"\n",
        ),
        fault: "server.port = ",
        ..COMMON
    },
    Subject {
        preset: "mosquitto",
        package: "mosquitto",
        process: "mosquitto",
        command: &["mosquitto", "-c", "{dir}/mosquitto.conf"],
        file: (
            "mosquitto.conf",
            "user root\nlistener 1883 127.0.0.1\nallow_anonymous true\n\
             log_dest file {run}/{version}.log\n",
        ),
        seen: Seen::OpenFile,
        mark: "/{version}.log",
        ..COMMON
    },
    Subject {
        preset: "nats",
        package: "nats-server",
        process: "nats-server",
        command: &["nats-server", "-c", "{dir}/nats.conf"],
        file: (
            "nats.conf",
            "listen: 127.0.0.1:4222\nhttp: 127.0.0.1:8222\nmax_connections: {version}\n",
        ),
        fault: "listen: {",
        seen: Seen::Http(8222, "/varz"),
        mark: "\"max_connections\": {version}",
        ..COMMON
    },
    Subject {
        preset: "nginx",
        package: "nginx",
        process: "nginx",
        command: &["nginx", "-c", "{dir}/nginx.conf"],
        file: (
            "nginx.conf",
            "daemon off; user root; worker_processes 2; pid {run}/pid; error_log stderr; events {}\n\
             http { access_log off; server { listen 127.0.0.1:8080;\n\
             location / { return 200 {version}; } } }\n",
        ),
        fault: "lisen 80;",
        ..COMMON
    },
    Subject {
        preset: "pgbouncer",
        package: "pgbouncer",
        process: "pgbouncer",
        command: &[
            "setpriv",
            "--reuid=postgres",
            "--regid=postgres",
            "--init-groups",
            "pgbouncer",
            "{dir}/pgbouncer.ini",
        ],
        file: (
            "pgbouncer.ini",
            "[databases]\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = 6432\n\
             unix_socket_dir =\nauth_type = any\nadmin_users = postgres\n\
             server_check_query = select {version}\n",
        ),
        seen: Seen::Output(&[
            "psql",
            "--host=127.0.0.1",
            "--port=6432",
            "--username=postgres",
            "--command=show config",
            "pgbouncer",
        ]),
        ..COMMON
    },
    Subject {
        preset: "php-fpm",
        package: "php8.2-fpm",
        process: "php-fpm8.2",
        command: &["php-fpm8.2", "-F", "-O", "-y", "{dir}/php-fpm.conf"],
        file: (
            "php-fpm.conf",
            "[global]\nerror_log = /dev/stderr\n[{version}]\nuser = www-data\ngroup = www-data\n\
             listen = {run}/php.sock\npm = static\npm.max_children = 2\n",
        ),
        fault: "nothing = here",
        seen: Seen::Title,
        mark: "pool {version}",
        programs: &[("php-fpm", "/usr/sbin/php-fpm8.2")],
        ..COMMON
    },
    Subject {
        preset: "postgres",
        package: "postgresql-15",
        process: "postgres",
        command: &[
            "setpriv",
            "--reuid=postgres",
            "--regid=postgres",
            "--init-groups",
            "/usr/lib/postgresql/15/bin/postgres",
            "-D",
            "{run}/data",
            "-c",
            "config_file={dir}/postgresql.conf",
        ],
        file: (
            "postgresql.conf",
            "listen_addresses = '127.0.0.1'\nunix_socket_directories = ''\nfsync = off\n\
             podnudge.version = '{version}'\n",
        ),
        prepare: "setpriv --reuid=postgres --regid=postgres --init-groups \
                  /usr/lib/postgresql/15/bin/initdb \
                  --pgdata={run}/data --no-sync --auth=trust --username=postgres",
        seen: Seen::Output(&[
            "psql",
            "--host=127.0.0.1",
            "--username=postgres",
            "--command=show podnudge.version",
        ]),
        programs: &[("postgres", "/usr/lib/postgresql/15/bin/postgres")],
        ..COMMON
    },
    Subject {
        preset: "squid",
        package: "squid",
        process: "squid",
        command: &["squid", "-N", "-f", "{dir}/squid.conf"],
        file: (
            "squid.conf",
            "http_port 127.0.0.1:3128\nvisible_hostname {version}\npid_filename {run}/pid\n\
             cache_log {run}/cache.log\naccess_log none\ncoredump_dir {run}\nhttp_access deny all\n\
             shutdown_lifetime 1 second\n",
        ),
        fault: "acl nothing",
        seen: Seen::Http(3128, "http://127.0.0.1/"),
        ..COMMON
    },
    Subject {
        preset: "sshd",
        package: "openssh-server",
        process: "sshd",
        command: &["/usr/sbin/sshd", "-D", "-e", "-f", "{dir}/sshd_config"],
        file: (
            "sshd_config",
            "ListenAddress 127.0.0.1\nPort 2222\nHostKey {run}/key\nPidFile {run}/pid\n\
             VersionAddendum {version}\n",
        ),
        prepare: "mkdir -p /run/sshd; ssh-keygen -q -N '' -f {run}/key",
        fault: "Nothing here",
        seen: Seen::Tcp(2222, ""),
        ..COMMON
    },
    Subject {
        preset: "unbound",
        package: "unbound",
        process: "unbound",
        command: &["unbound", "-d", "-c", "{dir}/unbound.conf"],
        file: (
            "unbound.conf",
            "server:\n  interface: 127.0.0.1\n  port: 5353\n  version: \"{version}\"\n  \
             use-syslog: no\n  do-daemonize: no\n  chroot: \"\"\n  username: \"\"\n  \
             directory: \"{run}\"\n  pidfile: \"{run}/pid\"\n  module-config: \"iterator\"\n",
        ),
        seen: Seen::Dns(Class::Chaos),
        ..COMMON
    },
];
