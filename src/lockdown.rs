//! Closes podnudge's process to its neighbours. In a shared process namespace, a process with the same
//! uid could read its memory and its environment, and reach its files through `/proc/PID/root`.

use nix::sys::prctl;

/// Makes this process not dumpable (`PR_SET_DUMPABLE`), and keeps the programs that it runs from gaining
/// privileges (`PR_SET_NO_NEW_PRIVS`). Call it first: threads and programs inherit the second.
pub fn begin() {
    // Kernels of this century know both; without them podnudge works all the same.
    _ = prctl::set_dumpable(false);
    _ = prctl::set_no_new_privs();
}
