//! Reading and watching real files, tested below the level of the whole agent.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;

use podnudge::volume::mounts;
use podnudge::volume::scan::{ReadError, Reading, generation, read};
use podnudge::volume::watch::{Hints, Pending, Synced, Watcher};
use podnudge_config::KeyFilter;
use podnudge_core::event::VolumeId;
use podnudge_core::snapshot::{Digest, Snapshot, digest};
use proptest::prelude::{any, prop, prop_assert_eq, prop_assert_ne, proptest};

use crate::support::{Kubelet, Scene, command, in_namespace, payload, wait_until};

fn look(path: &Path) -> Reading {
    read(path, &KeyFilter::default()).unwrap()
}

fn snapshot(path: &Path) -> Snapshot {
    look(path).snapshot.unwrap()
}

fn keys(path: &Path) -> Vec<String> {
    snapshot(path).keys.keys().map(ToString::to_string).collect()
}

#[test]
fn a_volume_is_flat_if_its_keys_are_files_of_one_directory_and_nothing_else_is_there() {
    let is_flat = |keys: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let keys: Vec<_> = keys.iter().map(|key| (*key, "text")).collect();
        let mut kubelet = Kubelet::new(folder.path());
        kubelet.write(&payload(&keys));
        look(folder.path()).is_flat
    };
    assert!(is_flat(&["a.conf", "b.conf"]));
    assert!(!is_flat(&["a.conf", "sites/b.conf"]), "a directory comes last");
    assert!(!is_flat(&["a/b/c.conf"]) && !is_flat(&[]));
    let plain = tempfile::tempdir().unwrap();
    fs::write(plain.path().join("a.conf"), "text").unwrap();
    assert!(look(plain.path()).is_flat);
    assert!(!look(&plain.path().join("a.conf")).is_flat && !look(&plain.path().join("b")).is_flat);
    symlink("/etc/hostname", plain.path().join("b.conf")).unwrap();
    assert!(!look(plain.path()).is_flat, "it is read elsewhere");
}

#[test]
fn a_volume_written_at_full_speed_is_never_read_torn() {
    let folder = tempfile::tempdir().unwrap();
    let mut kubelet = Kubelet::new(folder.path());
    let content = |n: usize| {
        let text = format!("generation {n}");
        payload(&[("a", &text), ("b", &text), ("c/d", &text), ("e", &text)])
    };
    kubelet.write(&content(0));
    let path = folder.path().to_owned();
    let writer = thread::spawn(move || (1..=2000).for_each(|n| kubelet.write_anyway(&content(n))));
    let (mut whole, mut moving) = (0, 0);
    while !writer.is_finished() {
        match read(&path, &KeyFilter::default()) {
            Ok(reading) => {
                let keys = reading.snapshot.unwrap().keys;
                assert_eq!(keys.len(), 4);
                let contents: Vec<&Digest> = keys.values().collect();
                assert!(contents.windows(2).all(|pair| pair[0] == pair[1]), "torn");
                whole += 1;
            }
            Err(ReadError::Moving { .. }) => moving += 1,
            Err(error) => panic!("{error}"),
        }
    }
    writer.join().unwrap();
    println!("{whole} whole readings, {moving} postponed");
    assert!(whole > 100);
}

#[test]
fn the_generation_changes_with_every_swap_and_the_digest_with_the_content() {
    let folder = tempfile::tempdir().unwrap();
    let mut kubelet = Kubelet::new(folder.path().join("volume"));
    let same = payload(&[("a", "1")]);
    kubelet.write(&same);
    let plain = folder.path().join("plain");
    fs::create_dir_all(plain.join("deep")).unwrap();
    fs::write(plain.join("deep/a"), "1").unwrap();
    for path in [&kubelet.volume, &plain] {
        let read = snapshot(path).generation;
        assert_eq!(generation(path, &KeyFilter::default()).unwrap(), Some(read.clone()));
        assert_eq!(snapshot(path).generation, read);
    }
    let before = snapshot(&kubelet.volume);
    kubelet.write_anyway(&same);
    let after = snapshot(&kubelet.volume);
    assert_ne!(before.generation, after.generation);
    assert_eq!(before.digest(), after.digest());

    let before = snapshot(&plain);
    fs::write(plain.join("deep/a"), "2").unwrap();
    assert_ne!(generation(&plain, &KeyFilter::default()).unwrap(), Some(before.generation));
}

#[test]
fn special_files_and_broken_links_are_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("file"), "1").unwrap();
    fs::write(path.join(OsStr::from_bytes(b"not\xffutf8\n")), "1").unwrap();
    symlink("file", path.join("link")).unwrap();
    symlink("nowhere", path.join("dangling")).unwrap();
    symlink("loop", path.join("loop")).unwrap();
    symlink(".", path.join("circle")).unwrap();
    let _socket = UnixListener::bind(path.join("socket")).unwrap();
    assert!(command("mkfifo").arg(path.join("fifo")).status().unwrap().success());
    assert_eq!(keys(path), ["file", "link", "not\\xffutf8\\n"]);
}

#[test]
fn the_pause_key_is_seen_despite_the_key_filter_and_is_not_content() {
    let pattern = |text| vec![glob::Pattern::new(text).unwrap()];
    let keys = KeyFilter {
        only: pattern("*.conf"),
        ignore: pattern("p*"),
        pause: Some("pause".into()),
        ..KeyFilter::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let (managed, plain) = (folder.path().join("managed"), folder.path().join("plain"));
    let mut kubelet = Kubelet::new(&managed);
    kubelet.write(&payload(&[("a.conf", "1")]));
    fs::create_dir(&plain).unwrap();
    fs::write(plain.join("a.conf"), "1").unwrap();
    for path in [&managed, &plain] {
        let before = read(path, &keys).unwrap().snapshot.unwrap();
        if path == &plain {
            fs::write(plain.join("pause"), "").unwrap();
        } else {
            kubelet.write(&payload(&[("a.conf", "1"), ("pause", "")]));
        }
        let after = read(path, &keys).unwrap().snapshot.unwrap();
        assert!(!before.pauses && after.pauses, "{path:?}");
        assert_eq!(before.digest(), after.digest(), "{path:?}");
        let seen = generation(path, &keys).unwrap().unwrap();
        assert!(seen != before.generation && seen == after.generation, "{path:?}");
    }
}

#[test]
fn a_service_account_token_is_not_part_of_the_digest() {
    let folder = tempfile::tempdir().unwrap();
    let mut kubelet = Kubelet::new(folder.path());
    let token = |signature: &str| {
        let jwt = format!("eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrOHMifQ.{signature}");
        payload(&[("ca.crt", "pem"), ("namespace", "default"), ("token", &jwt)])
    };
    kubelet.write(&token("b25l"));
    let before = snapshot(folder.path());
    kubelet.write(&token("dHdv"));
    let after = snapshot(folder.path());
    assert_ne!(before.generation, after.generation);
    assert_eq!(before.digest(), after.digest());
    assert_eq!(keys(folder.path()), ["ca.crt", "namespace"]);
    // A file that only contains or begins with one is a key.
    let jwt = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrOHMifQ.b25l";
    let none = "eyJpc3MiOiJrOHMifQ.eyJpc3MiOiJrOHMifQ.b25l".to_owned();
    let long = format!("{jwt}{}", "AAAA".repeat(5000));
    for content in [format!("{jwt}\nlevel: debug\n"), format!("{jwt}\n"), none, long] {
        kubelet.write(&payload(&[("ca.crt", "pem"), ("namespace", "x"), ("app.conf", &content)]));
        assert_eq!(keys(folder.path()), ["app.conf", "ca.crt", "namespace"], "{content}");
    }
    // Without the other keys of a service account, the token is an ordinary key.
    kubelet.write(&payload(&[("token", "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrOHMifQ.b25l")]));
    assert_eq!(keys(folder.path()), ["token"]);
}

#[test]
fn a_single_watched_key_is_followed_through_swaps() {
    let folder = tempfile::tempdir().unwrap();
    let mut kubelet = Kubelet::new(folder.path());
    let file = folder.path().join("a");
    let mut digests = Vec::new();
    for (a, b) in [("1", "1"), ("1", "2"), ("2", "2")] {
        kubelet.write(&payload(&[("a", a), ("b", b)]));
        assert_eq!(keys(&file), ["a"]);
        digests.push(snapshot(&file).digest());
    }
    assert_eq!(digests[0], digests[1]);
    assert_ne!(digests[1], digests[2]);
    kubelet.write(&payload(&[("b", "2")]));
    assert_eq!(look(&file).snapshot, None);
}

#[test]
fn a_volume_without_a_committed_generation_is_absent() {
    let folder = tempfile::tempdir().unwrap();
    let kubelet = Kubelet::new(folder.path());
    let prepared = kubelet.prepare(&payload(&[("a", "1")]));
    assert_eq!(look(folder.path()).snapshot, None);
    kubelet.commit(&prepared);
    assert_eq!(keys(folder.path()), ["a"]);
}

#[test]
fn an_unreadable_file_is_reported_with_its_path_and_the_cause() {
    in_namespace!();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("secret.key"), "1").unwrap();
    let mode = fs::Permissions::from_mode(0o400);
    fs::set_permissions(folder.path().join("secret.key"), mode).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // This process runs only this test, so it may drop its privileges.
    nix::unistd::seteuid(nix::unistd::Uid::from_raw(65532)).unwrap();
    let error = read(folder.path(), &KeyFilter::default()).unwrap_err();
    nix::unistd::seteuid(nix::unistd::Uid::from_raw(0)).unwrap();
    let text = error.to_string();
    assert!(text.contains("secret.key") && text.contains("denied"), "{text}");
}

#[test]
fn a_subpath_mount_is_detected() {
    in_namespace!();
    let mut scene = Scene::new();
    let mounted = scene.path("a.conf");
    fs::write(&mounted, "").unwrap();
    let source = fs::canonicalize(scene.kubelet.volume.join("a.conf")).unwrap();
    let bind = |from: &Path, to: &Path| {
        let done = command("mount").arg("--bind").arg(from).arg(to).status().unwrap();
        assert!(done.success());
    };
    bind(&source, &mounted);
    let warning = mounts::subpath_warning(&mounted).expect("detected before the first swap");
    assert!(warning.message.contains("mounted with subPath"), "{warning}");
    scene.change("2");
    assert!(
        mounts::subpath_warning(&mounted).is_some(),
        "detected after it, when its generation is deleted"
    );
    assert_eq!(fs::read_to_string(&mounted).unwrap(), "1");
    let whole = scene.path("whole");
    fs::create_dir(&whole).unwrap();
    bind(&scene.kubelet.volume, &whole);
    assert_eq!(mounts::subpath_warning(&whole), None);
    let link = scene.path("link");
    symlink(mounted.parent().unwrap(), &link).unwrap();
    assert!(mounts::subpath_warning(&link.join("a.conf")).is_some(), "through a link");
    for path in [&mounted, &whole] {
        assert!(command("umount").arg(path).status().unwrap().success());
    }
}

/// Returns the hints that arrive within 50 ms.
fn hint(hints: &Hints) -> Option<Pending> {
    podnudge::run::runtime().unwrap().block_on(async {
        let limit = std::time::Duration::from_millis(50);
        tokio::time::timeout(limit, hints.next()).await.ok()
    })
}

/// Consumes hints until there is one for this volume.
fn wait_for_hint(hints: &Hints, volume: VolumeId) {
    wait_until("a hint comes", || {
        hint(hints).is_some_and(|pending| {
            pending.all || pending.volumes.iter().any(|(one, _)| *one == volume)
        })
    });
}

#[test]
fn a_volume_root_that_is_recreated_is_watched_again() {
    let folder = tempfile::tempdir().unwrap();
    let volume = VolumeId(3);
    let hints = Hints::default();
    let mut watcher = Watcher::start(hints.clone()).unwrap();
    let path = folder.path().join("volume");
    let mut kubelet = Kubelet::new(&path);
    for n in 0..3 {
        kubelet.write(&payload(&[("a", &n.to_string())]));
        assert_eq!(watcher.sync(volume, &look(&path).directories), Ok(Synced::Changed));
        assert_eq!(watcher.sync(volume, &look(&path).directories), Ok(Synced::Unchanged));
        kubelet.write(&payload(&[("a", "swapped")]));
        wait_for_hint(&hints, volume);
        kubelet.remove();
        wait_for_hint(&hints, volume);
        // The parent folder is watched while the volume is missing.
        assert_eq!(watcher.sync(volume, &look(&path).directories), Ok(Synced::Changed));
        kubelet = Kubelet::new(&path);
        wait_for_hint(&hints, volume);
    }
}

#[test]
fn a_directory_moved_away_and_back_is_watched_recursively() {
    let folder = tempfile::tempdir().unwrap();
    let (conf, aside) = (folder.path().join("conf"), folder.path().join("aside"));
    fs::create_dir_all(conf.join("deep")).unwrap();
    let volume = VolumeId(0);
    let hints = Hints::default();
    let mut watcher = Watcher::start(hints.clone()).unwrap();
    watcher.sync(volume, &look(folder.path()).directories).unwrap();
    for _ in 0..2 {
        fs::rename(&conf, &aside).unwrap();
        fs::rename(&aside, &conf).unwrap();
        wait_for_hint(&hints, volume);
        // Both moves may come as one hint or as two.
        wait_until("the watches are set up again", || {
            let synced = watcher.sync(volume, &look(folder.path()).directories);
            synced == Ok(Synced::Changed)
        });
        wait_until("a change in the subfolder gives a hint", || {
            drop(watcher.sync(volume, &look(folder.path()).directories));
            drop(hint(&hints));
            fs::write(conf.join("deep/a.conf"), "1").unwrap();
            hint(&hints).is_some()
        });
    }
}

#[test]
fn two_volumes_at_one_directory_both_get_hints() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (VolumeId(1), VolumeId(2));
    let path = folder.path().join("volume");
    let link = folder.path().join("link");
    let mut kubelet = Kubelet::new(&path);
    kubelet.write(&payload(&[("a", "1")]));
    symlink(&path, &link).unwrap();
    let hints = Hints::default();
    let mut watcher = Watcher::start(hints.clone()).unwrap();
    watcher.sync(one, &look(&path).directories).unwrap();
    watcher.sync(two, &look(&link).directories).unwrap();
    kubelet.write(&payload(&[("a", "2")]));
    let mut hinted = std::collections::BTreeSet::new();
    wait_until("both volumes get a hint", || {
        hinted.extend(hint(&hints).unwrap_or_default().volumes);
        hinted.len() == 2
    });
    // Removing one of them does not affect the other.
    watcher.sync(one, &[]).unwrap();
    kubelet.write(&payload(&[("a", "3")]));
    wait_for_hint(&hints, two);
}

#[test]
fn switching_a_symlink_gives_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let volume = VolumeId(0);
    let link = folder.path().join("current");
    for n in 0..4 {
        fs::create_dir(folder.path().join(format!("release{n}"))).unwrap();
    }
    symlink("release0", &link).unwrap();
    let hints = Hints::default();
    let mut watcher = Watcher::start(hints.clone()).unwrap();
    for n in 1..4 {
        watcher.sync(volume, &look(&link).directories).unwrap();
        // As by git-sync.
        symlink(format!("release{n}"), folder.path().join("tmp")).unwrap();
        fs::rename(folder.path().join("tmp"), &link).unwrap();
        wait_for_hint(&hints, volume);
    }
    // For a link to a file, the directory of the file is watched.
    let (file, link) = (folder.path().join("release0/a.conf"), folder.path().join("a.conf"));
    fs::write(&file, "1").unwrap();
    symlink(&file, &link).unwrap();
    watcher.sync(volume, &look(&link).directories).unwrap();
    while hint(&hints).is_some() {}
    fs::write(&file, "2").unwrap();
    wait_for_hint(&hints, volume);
}

#[test]
fn keys_behind_a_symlinked_directory_are_read_and_link_cycles_are_cut() {
    let mut scene = Scene::with(&[("conf.d/a.conf", "1"), ("b", "1")]);
    symlink(".", scene.path("circle")).unwrap();
    assert_eq!(keys(scene.folder.path()), ["volume/b", "volume/conf.d/a.conf"]);
    let before = snapshot(scene.folder.path());
    assert_eq!(
        generation(scene.folder.path(), &KeyFilter::default()).unwrap().as_ref(),
        Some(&before.generation)
    );
    scene.kubelet.write(&payload(&[("conf.d/a.conf", "2"), ("b", "1")]));
    let changes = before.changes(&snapshot(scene.folder.path()));
    assert_eq!(format!("{:?}", changes.changed), "[\"volume/conf.d/a.conf\"]");
}

#[test]
fn the_commit_time_of_a_moved_file_is_the_time_of_the_move() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume");
    fs::create_dir(&path).unwrap();
    let old = folder.path().join("a.conf");
    fs::write(&old, "1").unwrap();
    let long_ago = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_hours(1);
    fs::File::options().write(true).open(&old).unwrap().set_modified(long_ago).unwrap();
    fs::rename(&old, path.join("a.conf")).unwrap();
    let age = fs::metadata("/proc/self").unwrap().modified().unwrap();
    let committed = snapshot(&path).committed;
    assert!(std::time::SystemTime::UNIX_EPOCH + committed.0 >= age, "{committed:?}");
}

#[test]
fn an_inotify_queue_overflow_is_a_hint_for_every_volume() {
    in_namespace!();
    let queue = Path::new("/proc/sys/fs/inotify/max_queued_events");
    let usual = fs::read_to_string(queue).unwrap();
    // An inotify instance takes the limit that is set when it is created.
    fs::write(queue, "4").unwrap();
    let hints = Hints::default();
    let started = Watcher::start(hints.clone());
    fs::write(queue, usual).unwrap();
    let mut watcher = started.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let directories = look(folder.path()).directories;
    watcher.sync(VolumeId(0), &directories).unwrap();
    let runtime = podnudge::run::runtime().unwrap();
    let mut n = 0;
    wait_until("the queue has overflowed", || {
        for _ in 0..1000 {
            n += 1;
            fs::write(folder.path().join(format!("{}", n % 10)), "x").unwrap();
        }
        runtime.block_on(hints.next()).all
    });
}

proptest! {
    #[test]
    fn a_printed_digest_parses_to_the_same_digest(bytes in any::<[u8; 32]>()) {
        let digest = Digest(bytes);
        prop_assert_eq!(digest.to_string().parse::<Digest>(), Ok(digest));
    }

    /// Moving a byte between names, contents or volumes changes the digest.
    #[test]
    fn different_volumes_have_different_digests(
        one in prop::collection::vec(prop::collection::btree_map("[ab]{1,3}", any::<u8>(), 0..3), 1..3),
        other in prop::collection::vec(prop::collection::btree_map("[ab]{1,3}", any::<u8>(), 0..3), 1..3),
    ) {
        let snapshots = |volumes: &[std::collections::BTreeMap<String, u8>]| -> Digest {
            let snapshot = |volume: &std::collections::BTreeMap<String, u8>| Snapshot {
                generation: podnudge_core::snapshot::Generation(String::new()),
                committed: podnudge_core::clock::UnixTime::default(),
                pauses: false,
                keys: volume
                    .iter()
                    .map(|(key, content)| {
                        let key = podnudge_core::snapshot::Key(key.clone().into_bytes());
                        (key, Digest([*content; 32]))
                    })
                    .collect(),
            };
            digest(volumes.iter().map(snapshot).map(|snapshot| snapshot.digest()))
        };
        let (first, second) = (snapshots(&one), snapshots(&other));
        if one == other {
            prop_assert_eq!(first, second);
        } else {
            prop_assert_ne!(first, second);
        }
    }
}
