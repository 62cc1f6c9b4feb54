//! What a neighbour does in the publish directory.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::{Input, Scene};
use crate::support::wait_until;

type Put = fn(&Path);

const RECORD: &str = "..podnudge.json";

fn all() -> Vec<(&'static str, Put)> {
    vec![
        ("an empty directory", |at| clear(at)),
        ("a generation without its files", |at| clear(&at.join("..data/"))),
        ("a link to a directory outside", |at| {
            fs::remove_file(at.join("..data")).unwrap();
            symlink("/etc", at.join("..data")).unwrap();
        }),
        ("a directory in the place of the link", |at| {
            fs::remove_file(at.join("..data")).unwrap();
            fs::create_dir_all(at.join("..data/x")).unwrap();
        }),
        ("planted temporary names", |at| {
            for name in ["..data_tmp", "..new", "..podnudge-0123456789abcdef"] {
                symlink("/etc/passwd", at.join(name)).unwrap();
            }
        }),
        ("a FIFO as a key", |at| {
            fs::remove_file(at.join("a")).unwrap();
            mkfifo(&at.join("a"), Mode::S_IRWXU).unwrap();
        }),
        ("a record of 2 MiB", |at| fs::write(at.join(RECORD), vec![b'['; 2 << 20]).unwrap()),
        ("a directory in the place of the record", |at| {
            fs::remove_file(at.join(RECORD)).unwrap();
            fs::create_dir_all(at.join(RECORD).join("x")).unwrap();
        }),
        ("a replaced lock", |at| {
            drop(fs::remove_file(at.join("..podnudge.lock")));
            fs::write(at.join("..podnudge.lock"), "x").unwrap();
        }),
        ("10,000 files", |at| {
            fs::create_dir(at.join("many")).unwrap();
            (0..10_000).for_each(|n| drop(File::create(at.join(format!("many/{n}"))).unwrap()));
        }),
        ("10,000 names of generations", |at| {
            for n in 0..10_000 {
                symlink("x", at.join(format!("..2026_11_22_10_00_00.{n}"))).unwrap();
            }
        }),
        ("a file of 1 TiB in the generation", |at| {
            File::create(at.join("..data/x")).unwrap().set_len(1 << 40).unwrap();
        }),
    ]
}

/// Removes what is in a directory, from which podnudge may remove something at the same time.
fn clear(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        drop(fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path)));
    }
}

/// Empties the directory, and waits until podnudge has filled it again.
fn refill(scene: &mut Scene) {
    let folder = scene.path("publish");
    clear(&folder);
    scene.nudge("published");
    let content = scene.writes.to_string();
    wait_until("it is published again", || {
        fs::read_to_string(folder.join("a")).is_ok_and(|found| found == content)
    });
}

pub(super) fn inputs() -> Vec<Input> {
    let input = |(what, put): (&'static str, Put)| Input {
        rule: "published",
        what: what.to_owned(),
        put: Box::new(move |scene| {
            put(&scene.path("publish"));
            scene.nudge("published");
        }),
        outcome: "applied|unread|gave-up|refused|publication-lost|rolled-back",
        remove: Some(Box::new(refill)),
    };
    all().into_iter().map(input).collect()
}
