//! php-fpm with a php.ini: it ignores one that it cannot parse, and its new workers run with the defaults.

use std::fs;

use super::plain::{Application, volume};
use crate::support::agent::Agent;
use crate::support::kubelet::payload;
use crate::support::pod::in_network;
use crate::support::wait::wait_until;

#[test]
fn php_fpm_with_a_php_ini_is_never_in_sync_by_new_workers() {
    in_network(|| is_never_in_sync("php.ini"));
}

#[test]
fn php_fpm_with_an_ini_file_in_a_folder_is_never_in_sync_by_new_workers() {
    in_network(|| is_never_in_sync("conf.d/99-app.ini"));
}

fn is_never_in_sync(key: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut kubelet = volume("/etc/php-test");
    let pool = "[global]\nerror_log = /dev/stderr\n[www]\nuser = www-data\ngroup = www-data\n\
                    listen = 127.0.0.1:9000\npm = static\npm.max_children = 2\n";
    let mut write = |ini: &str| {
        kubelet.write(&payload(&[("php-fpm.conf", pool), (key, ini)]));
    };
    write("memory_limit = 64M\n");
    let log = folder.path().join("php.log");
    let file = format!("/etc/php-test/{key}");
    let arguments = ["-F", "-O", "-y", "/etc/php-test/php-fpm.conf", "-c", &file];
    let _application = Application::start("php-fpm8.2", &arguments, &log);
    let has_said = |text: &str| fs::read_to_string(&log).is_ok_and(|log| log.contains(text));
    wait_until("it runs", || has_said("ready to handle connections"));
    let options = [
        ["--watch", "/etc/php-test", "--preset", "php-fpm"],
        ["--settle", "20ms", "--on-start", "never"],
    ];
    let agent = Agent::start(folder.path(), &options.concat());
    agent.wait_for("baseline", 1);
    for (number, ini) in ["memory_limit = 65M\n", "memory_limit = = 66M (\n"].iter().enumerate() {
        write(ini);
        wait_until("it is read", || {
            let status = agent.status();
            let rule = &status["rules"][0];
            assert!(number == 0 || rule["in_sync"] != "yes", "{}", agent.log());
            agent.count("delivered") > number && rule["state"] == "idle"
        });
        let rule = agent.status()["rules"][0].clone();
        assert_eq!((&rule["in_sync"], &rule["evidence"]), (&"unknown".into(), &"read".into()));
    }
    wait_until("it has ignored the broken one", || has_said("syntax error"));
    assert_eq!(agent.count("applied"), 0, "{}", agent.log());
}
