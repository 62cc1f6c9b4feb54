//! Files of every kind, in a plain directory.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use nix::sys::stat::{Mode, SFlag, mknod};
use nix::unistd::mkfifo;
use podnudge::volume::scan;
use podnudge_config::KeyFilter;

use super::{Input, Scene};
use crate::support::wait_until;

/// The volume cannot be read.
const UNREADABLE: &str = "unreadable";
/// The volume is read.
const APPLIED: &str = "applied|unread";
/// A directory elsewhere may have too many files.
const EITHER: &str = "applied|unread|unreadable";

type Put = fn(&Path);

fn sparse(path: &Path, bytes: u64) {
    File::create(path).unwrap().set_len(bytes).unwrap();
}

fn all() -> Vec<(&'static str, Put, &'static str)> {
    vec![
        ("a sparse file of 1 TiB", |at| sparse(&at.join("x"), 1 << 40), UNREADABLE),
        (
            "files of 75 MiB together",
            |at| (0..5).for_each(|n| sparse(&at.join(format!("x{n}")), 15 << 20)),
            UNREADABLE,
        ),
        ("a file of 15 MiB", |at| sparse(&at.join("x"), 15 << 20), APPLIED),
        ("a FIFO", |at| mkfifo(&at.join("x"), Mode::S_IRWXU).unwrap(), APPLIED),
        ("a socket", |at| drop(UnixListener::bind(at.join("x")).unwrap()), APPLIED),
        (
            "a device that never ends",
            |at| {
                mknod(&at.join("x"), SFlag::S_IFCHR, Mode::S_IRWXU, nix::sys::stat::makedev(1, 5))
                    .unwrap();
            },
            APPLIED,
        ),
        ("a link to a file outside", |at| symlink("/etc/passwd", at.join("x")).unwrap(), APPLIED),
        ("a link to a directory outside", |at| symlink("/proc", at.join("x")).unwrap(), EITHER),
        ("a link to a device", |at| symlink("/dev/zero", at.join("x")).unwrap(), APPLIED),
        ("a link to itself", |at| symlink("x", at.join("x")).unwrap(), APPLIED),
        ("a link to nothing", |at| symlink("nothing", at.join("x")).unwrap(), APPLIED),
        ("a link to the directory above", |at| symlink("..", at.join("x")).unwrap(), EITHER),
        (
            "many files",
            |at| {
                fs::create_dir(at.join("x")).unwrap();
                (0..25_000).for_each(|n| drop(File::create(at.join(format!("x/{n}"))).unwrap()));
            },
            UNREADABLE,
        ),
        (
            "19,000 files with long names",
            |at| {
                fs::create_dir(at.join("x")).unwrap();
                let name = "x".repeat(240);
                (0..19_000)
                    .for_each(|n| drop(File::create(at.join(format!("x/{name}{n}"))).unwrap()));
            },
            UNREADABLE,
        ),
        (
            "19,000 files",
            |at| {
                fs::create_dir(at.join("x")).unwrap();
                let name = "x".repeat(40);
                (0..19_000)
                    .for_each(|n| drop(File::create(at.join(format!("x/{name}{n}"))).unwrap()));
            },
            APPLIED,
        ),
        (
            "deep directories",
            |at| fs::create_dir_all(at.join(vec!["x"; 100].join("/"))).unwrap(),
            UNREADABLE,
        ),
        ("a name of 255 bytes", |at| fs::write(at.join("x".repeat(255)), "").unwrap(), APPLIED),
        (
            "control characters in a name",
            |at| fs::write(at.join("x\n\u{1b}[2J"), "").unwrap(),
            APPLIED,
        ),
        (
            "a file as the link to the generation",
            |at| fs::write(at.join("..data"), "x").unwrap(),
            APPLIED,
        ),
        (
            "a forged link to the root",
            |at| {
                // Whoever is the first to read a file of this machine is charged for its pages in the cache.
                drop(scan::read(Path::new("/"), &KeyFilter::default()));
                symlink("/", at.join("..data")).unwrap();
            },
            EITHER,
        ),
        (
            "a forged link to nothing",
            |at| symlink("..x", at.join("..data")).unwrap(),
            "unreadable|volume-missing|applied|unread",
        ),
        (
            "a forged generation with a huge file",
            |at| {
                fs::create_dir(at.join("..2026_11_22_10_00_00.1")).unwrap();
                sparse(&at.join("..2026_11_22_10_00_00.1/x"), 1 << 40);
                symlink("..2026_11_22_10_00_00.1", at.join("..data")).unwrap();
            },
            UNREADABLE,
        ),
    ]
}

/// Empties the directory, and waits until it is read.
fn clear(scene: &mut Scene) {
    let folder = scene.path("files");
    let before = scene.events("files", APPLIED);
    for entry in fs::read_dir(&folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            fs::remove_dir_all(entry.path()).unwrap();
        } else {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    scene.writes += 1;
    fs::write(folder.join("a"), scene.writes.to_string()).unwrap();
    wait_until("the directory is read again", || scene.events("files", APPLIED) > before);
}

pub(super) fn inputs() -> Vec<Input> {
    let input = |(what, put, outcome): (&'static str, Put, &'static str)| Input {
        rule: "files",
        what: what.to_owned(),
        put: Box::new(move |scene| {
            let (staged, folder) = (scene.path("staged"), scene.path("files"));
            fs::create_dir(&staged).unwrap();
            put(&staged);
            for entry in fs::read_dir(&staged).unwrap() {
                let entry = entry.unwrap();
                let found = entry.path().symlink_metadata().unwrap();
                // The pages that podnudge is the first to read would be charged to its group.
                if found.is_file() && found.len() < 1 << 30 {
                    drop(fs::read(entry.path()).unwrap());
                }
                fs::rename(entry.path(), folder.join(entry.file_name())).unwrap();
            }
            fs::remove_dir(&staged).unwrap();
            scene.writes += 1;
            fs::write(folder.join("a"), scene.writes.to_string()).unwrap();
        }),
        outcome,
        remove: Some(Box::new(clear)),
    };
    all().into_iter().map(input).collect()
}
