//! What the embedded log needs from time to time: ticks, so that timers fire where no agent says anything, and retention.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use loopwarden_log::embedded::{EmbeddedBroker, Retention};
use loopwarden_log::{LogError, clock};

/// Between two ticks. The row of a verdict in a silent partition outlives its time by as much, and by the lateness that is allowed.
const TICK_EVERY: Duration = Duration::from_secs(10);
/// Ticks between two looks at what is too old.
const TICKS_PER_RETENTION: u32 = 6;
/// Bytes of events kept; an append is refused at 8 GiB only.
const INPUT_BYTES: u64 = 6 << 30;
/// Bytes of commands and dead letters kept.
const OUTPUT_BYTES: u64 = 2 << 30;

/// The thread; it ends when told so.
pub(super) struct Housekeeping {
    stop: SyncSender<()>,
    thread: JoinHandle<()>,
}

impl Housekeeping {
    /// Starts it.
    ///
    /// # Errors
    /// The thread could not be started.
    pub(super) fn start(broker: EmbeddedBroker, retention_ms: i64) -> io::Result<Self> {
        let (stop, stopped) = sync_channel::<()>(1);
        let keep =
            Retention { input_ms: retention_ms, input_bytes: INPUT_BYTES, output_ms: retention_ms, output_bytes: OUTPUT_BYTES };
        let thread = std::thread::Builder::new().name("upkeep".to_owned()).spawn(move || {
            let mut ticks = 0_u32;
            while stopped.recv_timeout(TICK_EVERY) == Err(RecvTimeoutError::Timeout) {
                ticks = ticks.wrapping_add(1);
                // A failed write ends the lanes, with its code; a full log is made room for below.
                let ticked = broker.append_tick(clock::now_ms()).map(drop);
                let kept =
                    if ticks.is_multiple_of(TICKS_PER_RETENTION) || ticked.is_err() { make_room(&broker, &keep) } else { Ok(()) };
                for error in [ticked.err(), kept.err()].into_iter().flatten() {
                    crate::output::say(format!("warning: embedded log: {error}"));
                }
            }
        })?;
        Ok(Self { stop, thread })
    }

    /// Ends it.
    pub(super) fn stop(self) {
        drop(self.stop);
        // It does not panic; if it did, there is nothing left to do about it.
        let _ = self.thread.join();
    }
}

/// Removes all that is too old or too much. One call of [`EmbeddedBroker::retain`] looks at a bounded part of it.
fn make_room(broker: &EmbeddedBroker, keep: &Retention) -> Result<(), LogError> {
    while broker.retain(clock::now_ms(), keep)? > 0 {}
    Ok(())
}
