//! Applications that reload on a request, or by a client program.

use super::super::seen::Seen;
use super::{COMMON, Subject};

pub(super) const REQUESTS: &[Subject] = &[
    Subject {
        preset: "alertmanager",
        package: "prometheus-alertmanager",
        process: "prometheus-alertmanager",
        command: &[
            "prometheus-alertmanager",
            "--config.file={dir}/alertmanager.yml",
            "--storage.path={run}/data",
            "--web.listen-address=127.0.0.1:9093",
            "--cluster.listen-address=",
        ],
        file: (
            "alertmanager.yml",
            "route:\n  receiver: \"{version}\"\nreceivers:\n- name: \"{version}\"\n",
        ),
        fault: "nothing: {",
        seen: Seen::Http(9093, "/api/v2/status"),
        mark: "receiver: \\\"{version}\\\"",
        ..COMMON
    },
    Subject {
        preset: "blackbox-exporter",
        package: "prometheus-blackbox-exporter",
        process: "prometheus-blackbox-exporter",
        command: &[
            "prometheus-blackbox-exporter",
            "--config.file={dir}/blackbox.yml",
            "--web.listen-address=127.0.0.1:9115",
        ],
        file: ("blackbox.yml", "modules:\n  \"{version}\":\n    prober: tcp\n"),
        fault: "nothing: {",
        seen: Seen::Http(9115, "/config"),
        programs: &[("blackbox_exporter", "/usr/bin/prometheus-blackbox-exporter")],
        ..COMMON
    },
    Subject {
        preset: "caddy",
        package: "caddy",
        process: "caddy",
        command: &["env", "HOME={run}", "caddy", "run", "--config", "{dir}/Caddyfile"],
        dir: "/etc/caddy",
        file: (
            "Caddyfile",
            "{\n\tadmin 127.0.0.1:2019\n\tauto_https off\n}\n\
             http://127.0.0.1:8080 {\n\trespond {version}\n}\n",
        ),
        fault: "nothing {",
        ..COMMON
    },
    Subject {
        preset: "prometheus",
        package: "prometheus",
        process: "prometheus",
        command: &[
            "prometheus",
            "--config.file={dir}/prometheus.yml",
            "--storage.tsdb.path={run}/data",
            "--web.listen-address=127.0.0.1:9090",
            "--web.enable-lifecycle",
        ],
        file: ("prometheus.yml", "global:\n  external_labels:\n    version: \"{version}\"\n"),
        fault: "nothing: {",
        seen: Seen::Http(9090, "/api/v1/status/config"),
        ..COMMON
    },
    Subject {
        preset: "varnish",
        package: "varnish",
        process: "varnishd",
        command: &[
            "varnishd",
            "-j",
            "none",
            "-F",
            "-a",
            "127.0.0.1:8080",
            "-f",
            "{dir}/default.vcl",
        ],
        dir: "/etc/varnish",
        file: (
            "default.vcl",
            "vcl 4.1;\nbackend default none;\n\
             sub vcl_recv { return (synth(200, \"{version}\")); }\n",
        ),
        prepare: "mount -t tmpfs -o mode=755 tmpfs /var/lib/varnish",
        ..COMMON
    },
];
