//! Detects whether anything reads the new content after an action: one inotify instance for some seconds.
//!
//! Watches the directories of one generation; changes nothing. The kernel reports no process with an event
//! (inotify(7)), so what podnudge and its programs read at the same time is told apart by counting: see
//! [`OwnReads`]. Reads in other containers, and by the kubelet when it compares the content, look like reads
//! by the application: that something was read proves nothing. That nothing was read does, where inotify reports what
//! other containers do.

use std::ffi::{CStr, OsStr};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::fs::{CWD, FileType, Mode, RawDir, openat, stat};
use rustix::io::Errno;

use super::filter;
use super::reader::DIRECTORY;
use super::tree::LISTING_BUFFER;
use podnudge_config::KeyFilter;

/// The most directories to watch. A ConfigMap volume has one for each first part of a nested path.
const MAX_DIRECTORIES: usize = 64;
/// The most entries to look at when searching for directories.
const MAX_ENTRIES: usize = 20_000;
/// Room for some events, each with a name of at most 255 bytes.
const EVENTS_BUFFER: usize = 4096;
/// The most events to take at once: the kernel keeps 16,384, and more may follow meanwhile.
const MAX_EVENTS: usize = 20_000;
/// The most directories of keys to watch before a signal. Each takes some microseconds, and delays the signal.
const AT_ONCE: usize = 4;

/// How the keys lie in the directories that are watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Layout {
    /// In each directory there are keys, side by side, and nothing else. The positions of the directories, in the
    /// order in which to watch them.
    Flat(Vec<usize>),
    Unknown,
}

/// What has become of the new content since an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opened {
    /// No key was opened.
    Nothing,
    /// A key was opened, and not by podnudge.
    Key,
    /// Whether a key was opened cannot be told.
    Unknown,
}

/// Counts the reads of volumes by podnudge itself, and the programs that it runs.
#[derive(Debug)]
struct OwnReads {
    begun: AtomicU64,
    ended: AtomicU64,
}

static OWN_READS: OwnReads = OwnReads::new();

/// A read by podnudge itself, or by a program that it has started, for as long as it lives.
#[derive(Debug)]
pub(crate) struct OwnRead(&'static OwnReads);

impl OwnRead {
    pub(crate) fn begin() -> Self {
        Self::counted_by(&OWN_READS)
    }

    fn counted_by(reads: &'static OwnReads) -> Self {
        reads.begun.fetch_add(1, Ordering::SeqCst);
        Self(reads)
    }
}

impl Drop for OwnRead {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::SeqCst);
    }
}

impl OwnReads {
    const fn new() -> Self {
        Self { begun: AtomicU64::new(0), ended: AtomicU64::new(0) }
    }

    /// How many have begun, if none is in progress.
    fn count(&self) -> Option<u64> {
        let ended = self.ended.load(Ordering::SeqCst);
        let begun = self.begun.load(Ordering::SeqCst);
        (begun == ended).then_some(begun)
    }
}

/// A watch for reads of one generation of a rule's content, from just before an action on.
#[derive(Debug)]
pub(crate) struct ReadWatch(Mutex<State>);

#[derive(Debug)]
struct State {
    /// `None` once there is nothing more to find out.
    watch: Option<Watch>,
    opened: Opened,
}

#[derive(Debug)]
struct Watch {
    inotify: OwnedFd,
    /// The key, or the directory's part of the keys, of each watch.
    places: Vec<(i32, Place)>,
    /// Directories of keys, side by side, that are not watched yet.
    others: Vec<PathBuf>,
    /// How many entries of directories may still be looked at.
    entries_left: usize,
    filter: KeyFilter,
    /// Whether there is a key to be opened at all.
    has_keys: bool,
    own_reads: &'static OwnReads,
    /// How many of them had ended at the last look.
    own: Option<u64>,
}

#[derive(Debug, Clone)]
enum Place {
    Directory(Vec<u8>),
    File,
}

impl ReadWatch {
    /// Watches what is at these paths now: directories of keys, or files. Of many directories that are known to be flat, only
    /// some: see [`Self::watch_others`]. If that is not possible, the watch knows nothing.
    pub(crate) fn start(paths: &[PathBuf], layout: &Layout, filter: &KeyFilter) -> Self {
        let watch = Watch::start(paths, layout, filter, &OWN_READS).ok();
        let opened = if watch.is_some() { Opened::Nothing } else { Opened::Unknown };
        Self(Mutex::new(State { watch, opened }))
    }

    /// Watches the directories that [`Self::start`] has left out.
    pub(crate) fn watch_others(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.watch.as_mut().is_some_and(|watch| watch.add_others().is_err()) {
            *state = State { watch: None, opened: Opened::Unknown };
        }
    }

    /// What was opened since the start. Ends the watch once a key was.
    pub(crate) fn look(&self) -> Opened {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(watch) = &mut state.watch {
            let opened = watch.look();
            if opened != Opened::Nothing {
                *state = State { watch: None, opened };
            }
        }
        state.opened
    }
}

impl Watch {
    fn start(
        paths: &[PathBuf],
        layout: &Layout,
        filter: &KeyFilter,
        own_reads: &'static OwnReads,
    ) -> io::Result<Self> {
        // Before the watch: what begins later may be seen by it.
        let own = own_reads.count();
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let mut watch = Self {
            inotify,
            places: Vec::new(),
            others: Vec::new(),
            entries_left: MAX_ENTRIES,
            filter: filter.clone(),
            has_keys: false,
            own_reads,
            own,
        };
        match layout {
            Layout::Flat(order) => {
                let ordered = order.iter().filter_map(|n| paths.get(*n).cloned());
                let mut at_once: Vec<PathBuf> = ordered.collect();
                watch.others = at_once.split_off(at_once.len().min(AT_ONCE));
                at_once.iter().try_for_each(|path| watch.add_content(path, true))?;
            }
            Layout::Unknown => paths.iter().try_for_each(|path| watch.add_content(path, false))?,
        }
        if watch.has_keys { Ok(watch) } else { Err(io::Error::other("there are no keys")) }
    }

    fn add_others(&mut self) -> io::Result<()> {
        let others = std::mem::take(&mut self.others);
        others.iter().try_for_each(|path| self.add_content(path, true))
    }

    /// Watches a directory of keys, or a file.
    fn add_content(&mut self, path: &Path, is_flat: bool) -> io::Result<()> {
        // Through `..data`: the watch is on this generation, whatever is swapped in later. In a copy of a volume it
        // may be a directory, beside the keys.
        let data = path.join("..data");
        let data = if data.is_symlink() { &data } else { path };
        if is_flat && (self.add_flat(data)? || self.add_flat(path)?) {
            // It need not be listed, which would delay the action.
            self.has_keys = true;
        } else if is_directory(data) {
            self.add_directories(data, b"")?;
        } else if is_directory(path) {
            self.add_directories(path, b"")?;
        } else {
            self.add(path, Place::File)?;
            self.has_keys = true;
        }
        Ok(())
    }

    /// Watches a directory and those below it.
    ///
    /// # Errors
    /// Also if there are too many, or a link, behind which a read would not be seen.
    fn add_directories(&mut self, path: &Path, prefix: &[u8]) -> io::Result<()> {
        let unknown = |why: &str| Err(io::Error::other(why));
        self.add(path, Place::Directory(prefix.to_vec()))?;
        let fd = openat(CWD, path, DIRECTORY, Mode::empty())?;
        let mut buffer = [MaybeUninit::uninit(); LISTING_BUFFER];
        let mut listing = RawDir::new(&fd, &mut buffer);
        while let Some(entry) = listing.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let left = self.entries_left.checked_sub(1);
            let Some(left) = left else { return unknown("too many entries") };
            self.entries_left = left;
            let key = [prefix, name].concat();
            match entry.file_type() {
                FileType::RegularFile => {
                    self.has_keys |= filter::is_included(&self.filter, &key);
                }
                FileType::Directory => {
                    let below = path.join(OsStr::from_bytes(name));
                    self.add_directories(&below, &[&key, b"/".as_slice()].concat())?;
                }
                _ => return unknown("an entry that is read elsewhere"),
            }
        }
        Ok(())
    }

    /// Watches a directory that has no others below it; `false` if it is not a directory.
    fn add_flat(&mut self, path: &Path) -> io::Result<bool> {
        match self.add(path, Place::Directory(Vec::new())) {
            Ok(()) => Ok(true),
            Err(error) if is_no_directory(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn add(&mut self, path: &Path, place: Place) -> io::Result<()> {
        if self.places.len() >= MAX_DIRECTORIES {
            return Err(io::Error::other("too many directories"));
        }
        let mut events = WatchFlags::OPEN | WatchFlags::ACCESS;
        if matches!(place, Place::Directory(_)) {
            events |= WatchFlags::ONLYDIR;
        }
        let number = inotify::add_watch(&self.inotify, path, events)?;
        self.places.push((number, place));
        Ok(())
    }

    fn look(&mut self) -> Opened {
        let before = self.own_reads.count();
        let is_opened = self.take_events();
        let after = self.own_reads.count();
        let is_alone = self.own.is_some() && self.own == before && self.own == after;
        self.own = after;
        match is_opened {
            Ok(false) => Opened::Nothing,
            Ok(true) if is_alone => Opened::Key,
            Ok(true) | Err(_) => Opened::Unknown,
        }
    }

    /// Whether a key was opened or read since the last call.
    fn take_events(&self) -> io::Result<bool> {
        let mut buffer = [MaybeUninit::uninit(); EVENTS_BUFFER];
        let mut events = inotify::Reader::new(&self.inotify, &mut buffer);
        let mut is_opened = false;
        for _ in 0..MAX_EVENTS {
            let event = match events.next() {
                Ok(event) => event,
                Err(Errno::WOULDBLOCK) => return Ok(is_opened),
                Err(error) => return Err(error.into()),
            };
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                return Err(io::Error::other("events were lost"));
            }
            // Whoever lists a directory opens it, too.
            if event.events().intersects(ReadFlags::ISDIR | ReadFlags::IGNORED) {
                continue;
            }
            is_opened |= self.is_key(event.wd(), event.file_name().map(CStr::to_bytes));
        }
        Ok(is_opened)
    }

    /// Whether an event is about a key that counts.
    fn is_key(&self, number: i32, name: Option<&[u8]>) -> bool {
        let mut places = self.places.iter().filter(|(place, _)| *place == number);
        places.any(|(_, place)| match (place, name) {
            (Place::File, _) => true,
            (Place::Directory(prefix), Some(name)) => {
                let key = [prefix.as_slice(), name].concat();
                filter::is_included(&self.filter, &key)
            }
            (Place::Directory(_), None) => false,
        })
    }
}

fn is_no_directory(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::NOTDIR))
}

fn is_directory(path: &Path) -> bool {
    stat(path).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A kubelet's volume with these keys, each with a text of its name.
    fn volume(keys: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let generation = folder.path().join("..2026_11_25_00_00_00.1");
        for key in keys {
            let path = generation.join(key);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(path, key).expect("a key");
        }
        symlink("..2026_11_25_00_00_00.1", folder.path().join("..data")).expect("a link");
        folder
    }

    fn read(folder: &tempfile::TempDir, key: &str) {
        fs::read(folder.path().join("..data").join(key)).expect("the key");
    }

    #[test]
    fn a_directory_that_is_known_to_be_flat_is_watched_through_its_link() {
        static READS: OwnReads = OwnReads::new();
        let kubelets = volume(&["a.conf"]);
        let plain = tempfile::tempdir().expect("a folder");
        fs::write(plain.path().join("a.conf"), "a").expect("a key");
        for path in [kubelets.path().join("..data/a.conf"), plain.path().join("a.conf")] {
            let paths = [kubelets.path().to_owned(), plain.path().to_owned()];
            let filter = KeyFilter::default();
            let mut watch =
                Watch::start(&paths, &Layout::Flat(vec![0, 1]), &filter, &READS).expect("a watch");
            assert_eq!(watch.look(), Opened::Nothing);
            fs::read(path).expect("a key");
            assert_eq!(watch.look(), Opened::Key);
        }
    }

    #[test]
    fn directories_beyond_the_first_four_are_watched_later() {
        static READS: OwnReads = OwnReads::new();
        let volumes: Vec<_> = (0..=AT_ONCE).map(|_| volume(&["a.conf"])).collect();
        let paths: Vec<PathBuf> = volumes.iter().map(|volume| volume.path().to_owned()).collect();
        let order = Layout::Flat((0..=AT_ONCE).rev().collect());
        let first = volumes.last().expect("a volume");
        let last = volumes.first().expect("a volume");
        for (read_at_once, read_later, is_seen) in
            [(Some(first), None, true), (Some(last), None, false), (None, Some(last), true)]
        {
            let filter = KeyFilter::default();
            let mut watch = Watch::start(&paths, &order, &filter, &READS).expect("a watch");
            if let Some(volume) = read_at_once {
                read(volume, "a.conf");
            }
            watch.add_others().expect("watches");
            if let Some(volume) = read_later {
                read(volume, "a.conf");
            }
            assert_eq!(watch.look() == Opened::Key, is_seen);
        }
    }

    fn watch(paths: &[&Path], filter: &KeyFilter, reads: &'static OwnReads) -> io::Result<Watch> {
        let paths: Vec<PathBuf> = paths.iter().map(|path| path.to_path_buf()).collect();
        Watch::start(&paths, &Layout::Unknown, filter, reads)
    }

    #[test]
    fn a_key_that_is_opened_at_any_depth_is_seen_and_a_listing_is_not() {
        static READS: OwnReads = OwnReads::new();
        let folder = volume(&["a.conf", "sites/b.conf", "sites/deep/c.conf"]);
        for key in ["a.conf", "sites/b.conf", "sites/deep/c.conf"] {
            let mut watch =
                watch(&[folder.path()], &KeyFilter::default(), &READS).expect("a watch");
            assert_eq!(watch.look(), Opened::Nothing);
            fs::read_dir(folder.path().join("..data/sites")).expect("a listing").for_each(drop);
            assert_eq!(watch.look(), Opened::Nothing, "listed only");
            read(&folder, key);
            assert_eq!(watch.look(), Opened::Key, "{key}");
        }
    }

    #[test]
    fn keys_of_a_later_generation_and_keys_that_do_not_count_are_not_seen() {
        static READS: OwnReads = OwnReads::new();
        let folder = volume(&["a.conf", "README.md"]);
        let ignore = vec![glob::Pattern::new("*.md").expect("a pattern")];
        let filter = KeyFilter { ignore, ..KeyFilter::default() };
        let mut watch = watch(&[folder.path()], &filter, &READS).expect("a watch");
        read(&folder, "README.md");
        let newer = folder.path().join("..2026_11_25_00_01_00.2");
        fs::create_dir(&newer).expect("a directory");
        fs::write(newer.join("a.conf"), "2").expect("a key");
        symlink("..2026_11_25_00_01_00.2", folder.path().join("..data_tmp")).expect("a link");
        fs::rename(folder.path().join("..data_tmp"), folder.path().join("..data")).expect("a swap");
        read(&folder, "a.conf");
        assert_eq!(watch.look(), Opened::Nothing);
    }

    #[test]
    fn the_keys_of_a_copied_volume_are_not_those_in_its_copy_of_the_generation() {
        static READS: OwnReads = OwnReads::new();
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("..data")).expect("a directory");
        for key in ["..data/a.conf", "a.conf"] {
            fs::write(folder.path().join(key), "a").expect("a key");
        }
        for layout in [Layout::Flat(vec![0]), Layout::Unknown] {
            let paths = [folder.path().to_owned()];
            let filter = KeyFilter::default();
            let mut watch = Watch::start(&paths, &layout, &filter, &READS).expect("a watch");
            fs::read(folder.path().join("a.conf")).expect("a key");
            assert_eq!(watch.look(), Opened::Key);
        }
    }

    #[test]
    fn what_podnudge_reads_itself_is_told_apart_or_unknown() {
        static READS: OwnReads = OwnReads::new();
        let folder = volume(&["a.conf"]);
        let start = || watch(&[folder.path()], &KeyFilter::default(), &READS).expect("a watch");
        let mut during = start();
        drop(OwnRead::counted_by(&READS));
        assert_eq!(during.look(), Opened::Nothing, "nothing was opened");
        let own = OwnRead::counted_by(&READS);
        read(&folder, "a.conf");
        assert_eq!(during.look(), Opened::Unknown, "during an own read");
        let mut begun_before = start();
        read(&folder, "a.conf");
        drop(own);
        assert_eq!(begun_before.look(), Opened::Unknown, "an own read had begun before");
        let mut alone = start();
        read(&folder, "a.conf");
        assert_eq!(alone.look(), Opened::Key);
    }

    #[test]
    fn a_single_file_is_watched_and_links_no_keys_or_too_many_directories_are_not() {
        static READS: OwnReads = OwnReads::new();
        let folder = volume(&["a.conf", "b.conf"]);
        let file = folder.path().join("..data/a.conf");
        let mut of_file = watch(&[&file], &KeyFilter::default(), &READS).expect("a watch");
        read(&folder, "b.conf");
        assert_eq!(of_file.look(), Opened::Nothing);
        read(&folder, "a.conf");
        assert_eq!(of_file.look(), Opened::Key);

        symlink("/etc/hostname", folder.path().join("..data/c.conf")).expect("a link");
        assert!(watch(&[folder.path()], &KeyFilter::default(), &READS).is_err());
        let names: Vec<String> = (0..MAX_DIRECTORIES).map(|n| format!("{n}/key")).collect();
        let none = KeyFilter {
            ignore: vec![glob::Pattern::new("*").expect("a pattern")],
            ..KeyFilter::default()
        };
        let keys = volume(&["a.conf"]);
        assert!(watch(&[keys.path()], &none, &READS).is_err(), "no key counts");
        let many = volume(&names.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(watch(&[many.path()], &KeyFilter::default(), &READS).is_err());
    }
}
