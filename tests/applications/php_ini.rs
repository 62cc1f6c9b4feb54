//! php-fpm with a php.ini: it ignores one that it cannot parse, and its new workers run with the defaults.

use std::fs;

use crate::support::{Scene, in_network, payload, wait_until};

#[test]
fn php_fpm_with_a_php_ini_is_never_in_sync_by_new_workers() {
    in_network!(is_never_in_sync("php.ini"));
}

#[test]
fn php_fpm_with_an_ini_file_in_a_folder_is_never_in_sync_by_new_workers() {
    in_network!(is_never_in_sync("conf.d/99-app.ini"));
}

fn is_never_in_sync(key: &str) {
    let pool = "[global]\nerror_log = /dev/stderr\n[www]\nuser = www-data\ngroup = www-data\n\
                    listen = 127.0.0.1:9000\npm = static\npm.max_children = 2\n";
    let content = |ini: &str| payload(&[("php-fpm.conf", pool), (key, ini)]);
    let mut scene = Scene::on_tmpfs("/etc/php-test", &content("memory_limit = 64M\n"));
    let file = format!("/etc/php-test/{key}");
    let pool = "/etc/php-test/php-fpm.conf";
    let log = scene.run(&["php-fpm8.2", "-F", "-O", "-y", pool, "-c", &file]).1;
    let has_said = |text: &str| fs::read_to_string(&log).is_ok_and(|log| log.contains(text));
    wait_until("it runs", || has_said("ready to handle connections"));
    let agent = scene.nudge(&["--preset", "php-fpm"]);
    for (number, ini) in ["memory_limit = 65M\n", "memory_limit = = 66M (\n"].iter().enumerate() {
        scene.kubelet.write(&content(ini));
        wait_until("it is read", || {
            let rule = agent.rule();
            assert!(number == 0 || rule["in_sync"] != "yes", "{}", agent.log());
            agent.count("delivered") > number && rule["state"] == "idle"
        });
        let rule = agent.rule();
        assert_eq!((&rule["in_sync"], &rule["evidence"]), (&"unknown".into(), &"read".into()));
    }
    wait_until("it has ignored the broken one", || has_said("syntax error"));
    assert_eq!(agent.count("applied"), 0, "{}", agent.log());
}
