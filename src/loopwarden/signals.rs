//! Signals: the first asks for a graceful end, the second ends the process at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::{io, thread};
use std::{sync::Arc, time::Duration};

use loopwarden_log::clock::Stopwatch;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit_code;

/// Signals to stop within this time of the first are the same one.
const ONE_SIGNAL: Duration = Duration::from_millis(500);

/// What was asked for from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// End: finish, commit, close.
    Stop,
    /// The same, and leave the group.
    Leave,
    /// Load policy and log filter again.
    Reload,
}

/// Listens from now on. Each signal comes through the channel; after a stop, the next stop ends the process.
///
/// # Errors
/// The operating system refuses.
pub fn listen() -> io::Result<Receiver<Asked>> {
    listen_from(Arc::new(AtomicBool::new(true)))
}

/// The same; until the flag is raised the first stop ends the process, since nothing is under way that must be brought to an end.
///
/// # Errors
/// The operating system refuses.
pub fn listen_from(has_begun: Arc<AtomicBool>) -> io::Result<Receiver<Asked>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (sender, receiver) = sync_channel(16);
    // The handlers are in place when this returns, not some time later.
    let signals = {
        let _entered = runtime.enter();
        [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::user_defined1(), SignalKind::hangup()]
            .into_iter()
            .map(signal)
            .collect::<io::Result<Vec<Signal>>>()?
    };
    thread::Builder::new().name("signals".to_owned()).spawn(move || runtime.block_on(forward(signals, &sender, &has_begun)))?;
    Ok(receiver)
}

async fn forward(signals: Vec<Signal>, sender: &SyncSender<Asked>, has_begun: &AtomicBool) {
    let Ok([mut terminate, mut interrupt, mut leave, mut reload]) = <[Signal; 4]>::try_from(signals) else { return };
    let mut stopping_since: Option<Stopwatch> = None;
    loop {
        let asked = tokio::select! {
            Some(()) = terminate.recv() => Asked::Stop,
            Some(()) = interrupt.recv() => Asked::Stop,
            Some(()) = leave.recv() => Asked::Leave,
            Some(()) = reload.recv() => Asked::Reload,
            else => return,
        };
        if asked != Asked::Reload {
            if !has_begun.load(Ordering::Acquire) {
                exit_code::end(exit_code::DONE);
            }
            match &stopping_since {
                // `timeout` tells the process and then its group: that is one signal.
                Some(first) if first.elapsed() < ONE_SIGNAL => continue,
                // Nothing is lost: what was not committed is read again.
                Some(_) => exit_code::end(exit_code::SECOND_SIGNAL),
                None => stopping_since = Some(Stopwatch::start()),
            }
        }
        // Full only when nobody listens any more.
        let _ = sender.try_send(asked);
    }
}

/// A flag that the first signal to stop raises.
///
/// # Errors
/// The operating system refuses.
pub fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    let signals = listen()?;
    let flag = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&flag);
    thread::Builder::new().name("stop-flag".to_owned()).spawn(move || {
        while let Ok(asked) = signals.recv() {
            if asked != Asked::Reload {
                raised.store(true, Ordering::Release);
            }
        }
    })?;
    Ok(flag)
}
