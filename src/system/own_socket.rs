//! The socket by which people reach podnudge from its own container, such as by `kubectl exec`: there, `podnudge status`
//! and `podnudge pause` need neither a port nor a setting.
//!
//! Its name is abstract, and so in no file system. All containers of a pod could connect to it: podnudge answers only
//! processes that have its own mounts, and are root or have its uid. Reads `/proc/PID/mountinfo`.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::PathBuf;

use tokio::net::{UnixListener, UnixStream};

/// Opens the socket. Must be called inside a tokio runtime.
///
/// # Errors
/// If another podnudge of this container has it, or if it is not known which container this is.
pub fn bind() -> io::Result<UnixListener> {
    UnixListener::bind(path()?)
}

/// The path for whoever connects to the podnudge of this container, if there is one. Another container may have taken the
/// name.
pub(crate) async fn path_of_running() -> Option<PathBuf> {
    let path = path().ok()?;
    let stream = UnixStream::connect(&path).await.ok()?;
    is_of_own_container(&stream).then_some(path)
}

/// Whether the other end is a process of podnudge's own container.
pub(crate) fn is_of_own_container(stream: &UnixStream) -> bool {
    let Ok(peer) = stream.peer_cred() else { return false };
    let is_same_user = [0, rustix::process::geteuid().as_raw()].contains(&peer.uid());
    if !is_same_user {
        return false;
    }
    // There is no pid for a process that podnudge does not see.
    let mount = peer.pid().and_then(|pid| root_mount(&pid.to_string()).ok());
    mount.is_some_and(|mount| root_mount("self").is_ok_and(|own| own == mount))
}

fn path() -> io::Result<PathBuf> {
    Ok(format!("\0podnudge-in-{}", root_mount("self")?).into())
}

/// The number of the mount at `/` of a process: each mount namespace has others. The file begins with it, and may be long.
fn root_mount(process: &str) -> io::Result<u64> {
    let mut start = [0; 64];
    let length = File::open(format!("/proc/{process}/mountinfo"))?.read(&mut start)?;
    let start = String::from_utf8_lossy(start.get(..length).unwrap_or_default());
    let number = start.split_ascii_whitespace().next().and_then(|number| number.parse().ok());
    number.ok_or_else(|| io::ErrorKind::InvalidData.into())
}
