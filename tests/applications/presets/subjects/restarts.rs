//! Applications that read their configuration only at their start.

use super::super::seen::{Class, Seen};
use super::{COMMON, Subject};

pub(super) const RESTARTS: &[Subject] = &[
    Subject {
        preset: "dnsmasq",
        package: "dnsmasq-base",
        process: "dnsmasq",
        command: &["dnsmasq", "-k", "-C", "{dir}/dnsmasq.conf"],
        file: (
            "dnsmasq.conf",
            "port=5353\nlisten-address=127.0.0.1\nbind-interfaces\nno-resolv\nno-hosts\nuser=root\n\
             pid-file=\nlog-facility=-\ntxt-record=version.bind,{version}\n",
        ),
        seen: Seen::Dns(Class::Internet),
        ..COMMON
    },
    Subject {
        preset: "mariadb",
        package: "mariadb-server",
        process: "mariadbd",
        command: &["mariadbd", "--defaults-file={dir}/my.cnf"],
        file: (
            "my.cnf",
            "[mysqld]\nuser = root\ndatadir = {run}\nsocket = {run}/socket\npid-file = {run}/pid\n\
             bind-address = 127.0.0.1\nport = 3306\nskip-grant-tables\nskip-name-resolve\n\
             innodb-log-file-size = 4M\nversion = 10.11.{version}-MariaDB\n",
        ),
        fault: "nothing = here",
        seen: Seen::Tcp(3306, ""),
        ..COMMON
    },
    Subject {
        preset: "redis",
        package: "redis-server",
        process: "redis-server",
        command: &["redis-server", "{dir}/redis.conf"],
        file: (
            "redis.conf",
            "bind 127.0.0.1\nport 6379\nsave \"\"\ndir {run}\nslowlog-log-slower-than {version}\n",
        ),
        seen: Seen::Tcp(6379, "CONFIG GET slowlog-log-slower-than\r\n"),
        ..COMMON
    },
    Subject {
        preset: "rsyslog",
        package: "rsyslog",
        process: "rsyslogd",
        command: &["rsyslogd", "-n", "-f", "{dir}/rsyslog.conf", "-iNONE"],
        file: (
            "rsyslog.conf",
            "global(workDirectory=\"{run}\" abortOnUncleanConfig=\"on\"\n\
             processInternalMessages=\"on\")\n\
             action(type=\"omfile\" file=\"{run}/{version}.log\")\n",
        ),
        fault: "nothing(here",
        seen: Seen::OpenFile,
        mark: "/{version}.log",
        ..COMMON
    },
    Subject {
        preset: "stunnel",
        package: "stunnel4",
        process: "stunnel4",
        command: &["stunnel4", "{dir}/stunnel.conf"],
        file: (
            "stunnel.conf",
            "foreground = yes\npid =\n[web]\nclient = yes\naccept = 127.0.0.1:{version}\n\
             connect = 127.0.0.1:1\n",
        ),
        seen: Seen::Port,
        ..COMMON
    },
];
