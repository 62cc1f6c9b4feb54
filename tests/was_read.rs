//! Whether a process has read the published content, by access times on real file systems.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use nix::unistd::{Uid, seteuid};
use podnudge::publish::Publisher;
use podnudge::volume::scan;
use podnudge_config::{KeyFilter, Publish};
use podnudge_core::clock::{Now, UnixTime};
use podnudge_core::event::Publication;
use podnudge_core::reason::Reason;
use podnudge_core::snapshot;
use podnudge_core::snapshot::Digest;
use tempfile::TempDir;

use crate::support::publish::publish_to;
use crate::support::{Kubelet, command, in_namespace, payload, wait_until};

/// A volume, and a publish directory that is a mount of its own.
struct Scene {
    folder: TempDir,
    kubelet: Kubelet,
    volumes: [PathBuf; 1],
    keys: KeyFilter,
    publish: Publish,
}

impl Scene {
    /// Mounts the publish directory with these options of mount(8).
    fn new(options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let dir = folder.path().join("config");
        mount(options, &dir);
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
        let kubelet = Kubelet::new(folder.path().join("volume"));
        let publish = publish_to(dir);
        let (volumes, keys) = ([kubelet.volume.clone()], KeyFilter::default());
        Self { folder, kubelet, volumes, keys, publish }
    }

    fn place(&self) -> Publisher<'_> {
        Publisher { publish: &self.publish, volumes: &self.volumes, keys: &self.keys }
    }

    /// Publishes this content, and waits for the next tick of the file clock: a read in the same
    /// tick may be missed.
    fn publish(&mut self, content: &str) -> Digest {
        self.kubelet.write(&payload(&[("a.conf", content), ("folder/b.conf", content)]));
        let read = scan::read(&self.volumes[0], &self.keys).unwrap();
        let digest = snapshot::digest([read.snapshot.unwrap().digest()]);
        assert_eq!(self.place().publish(digest, None, UnixTime::default()), Publication::Done);
        self.let_the_tick_pass();
        digest
    }

    fn let_the_tick_pass(&self) {
        let times = |path: &Path| {
            let found = fs::symlink_metadata(path).unwrap();
            (found.ctime(), found.ctime_nsec())
        };
        let published = times(&self.publish.dir.join("..data"));
        let now = self.folder.path().join("now");
        wait_until("file times are later than the publication", || {
            fs::write(&now, "").unwrap();
            times(&now) > published
        });
    }

    /// Reads a key.
    fn cat(&self) {
        read(&["cat"], &self.publish.dir, "a.conf");
    }

    fn was_read(&self) -> bool {
        self.place().was_read()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        drop(command("umount").args(["--lazy"]).arg(&self.publish.dir).status());
    }
}

/// Reads a key by a program, where the directory is mounted.
fn read(by: &[&str], mounted_at: &Path, key: &str) {
    let (program, arguments) = by.split_first().unwrap();
    let mut reader = command(program);
    reader.args(arguments).arg(mounted_at.join(key)).stdout(Stdio::null());
    assert!(reader.status().unwrap().success(), "{by:?}");
}

fn mount(options: &[&str], at: &Path) {
    fs::create_dir_all(at).unwrap();
    let mounted = command("mount").args(options).arg(at).status().unwrap();
    assert!(mounted.success(), "mount {options:?}");
}

/// A folder on the disk of the build directory.
fn on_disk() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

const TMPFS: [&str; 3] = ["-t", "tmpfs", "tmpfs"];

/// Runs a test with the publish directory in memory and on a disk.
fn on_each_file_system(test: impl Fn(Scene)) {
    test(Scene::new(&TMPFS));
    let disk = on_disk();
    test(Scene::new(&["--bind", disk.path().to_str().unwrap()]));
}

#[test]
fn reads_by_podnudge_itself_do_not_count() {
    in_namespace!();
    on_each_file_system(|mut scene| {
        assert!(!scene.was_read(), "nothing is published yet");
        let one = scene.publish("1");
        assert!(!scene.was_read());
        scene.place().open(Now::default()).unwrap();
        assert_eq!(scene.place().publish(one, None, UnixTime::default()), Publication::Done);
        assert!(!scene.was_read());
        scene.cat();
        assert!(scene.was_read(), "a read must be detected at all");
    });
}

#[test]
fn a_read_by_a_process_of_any_user_is_detected() {
    in_namespace!();
    let other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "cat"];
    on_each_file_system(|mut scene| {
        for (content, by, key) in
            [("1", &["cat"][..], "a.conf"), ("2", &other, "a.conf"), ("3", &other, "folder/b.conf")]
        {
            scene.publish(content);
            assert!(!scene.was_read(), "{content} is new");
            read(by, &scene.publish.dir, key);
            assert!(scene.was_read(), "{content} by {by:?}");
        }
    });
}

#[test]
fn reads_before_a_roll_back_do_not_count_after_it() {
    in_namespace!();
    on_each_file_system(|mut scene| {
        let one = scene.publish("1");
        scene.cat();
        let two = scene.publish("2");
        let bad = (two, Reason::new("it did not work"));
        assert_eq!(scene.place().roll_back(one, &bad), Publication::Done);
        assert!(!scene.was_read());
    });
}

#[test]
fn mounts_without_access_times_report_no_reads() {
    in_namespace!();
    let mut scene = Scene::new(&["-o", "noatime", "-t", "tmpfs", "tmpfs"]);
    scene.publish("1");
    scene.cat();
    assert!(!scene.was_read());

    // As mounted into the application's container with `readOnly: true`.
    on_each_file_system(|mut scene| {
        scene.publish("1");
        let application = scene.folder.path().join("application");
        mount(&["-o", "bind,ro", scene.publish.dir.to_str().unwrap()], &application);
        read(&["cat"], &application, "a.conf");
        assert!(!scene.was_read());
        drop(command("umount").arg(&application).status());
    });
}

/// `O_NOATIME` requires the owner of the file. For another user, podnudge's own read changes the
/// access time.
#[test]
fn files_that_podnudge_cannot_open_with_noatime_report_no_reads() {
    in_namespace!();
    on_each_file_system(|mut scene| {
        let one = scene.publish("1");
        let root = Uid::effective();
        seteuid(Uid::from_raw(65534)).unwrap();
        let published = scene.place().publish(one, None, UnixTime::default());
        let was_read = scene.was_read();
        seteuid(root).unwrap();
        assert_eq!((published, was_read), (Publication::Done, false));
        assert!(scene.was_read(), "podnudge's own read changed the access time");
    });
}
