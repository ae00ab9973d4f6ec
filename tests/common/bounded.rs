//! A bound for waits that have none of their own: for the first line of a process, or for its end.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::{process::Command, time::Duration};

/// A process that is not ready by then never will be.
pub(crate) const START_WAIT: Duration = Duration::from_secs(120);

/// Does what waits for a process, and kills that one where it takes too long: then its output ends, and with it the wait.
pub(crate) fn bounded<T>(pid: u32, patience: Duration, wait: impl FnOnce() -> T) -> T {
    let (done, is_done) = sync_channel::<()>(1);
    let killer = std::thread::spawn(move || {
        if is_done.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        }
    });
    let result = wait();
    drop(done);
    killer.join().expect("a thread");
    result
}
