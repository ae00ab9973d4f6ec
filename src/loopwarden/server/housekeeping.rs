//! What the embedded log needs from time to time: ticks, so that timers fire where no agent says anything, and retention.
//!
//! Both make things end, for good. So neither follows a wall clock that jumps ahead before the monotonic one has agreed with it.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::{thread::JoinHandle, time::Duration};

use loopwarden_log::clock::Stopwatch;
use loopwarden_log::embedded::{EmbeddedBroker, Retention};
use loopwarden_log::{LogError, SteadyClock, clock};

use crate::failure::Failure;

/// Between two ticks. The row of a verdict in a silent partition outlives its time by as much, and by the lateness that is allowed.
const TICK_EVERY: Duration = Duration::from_secs(10);
/// Ticks between two looks at what is too old.
const TICKS_PER_RETENTION: u32 = 6;
/// Bytes of events kept; an append is refused at 8 GiB only.
const INPUT_BYTES: u64 = 6 << 30;
/// Bytes of commands and dead letters kept.
const OUTPUT_BYTES: u64 = 2 << 30;
/// How long ticks doubt a jump. It ends what has a time: a block, a session. Milliseconds.
const TICK_DOUBT_MS: i64 = 600_000;

/// What is to be done now and then, and by which clocks.
#[derive(Debug)]
pub struct Upkeep {
    keep: Retention,
    ticked: u32,
    ticks: SteadyClock,
    ages: SteadyClock,
}

impl Upkeep {
    /// What a log needs whose records are kept for `retention_ms`, from these times on: Unix ms, monotonic ms.
    ///
    /// # Errors
    /// The log's.
    pub fn new(broker: &EmbeddedBroker, retention_ms: i64, (wall_ms, mono_ms): (i64, u64)) -> Result<Self, LogError> {
        let keep =
            Retention { input_ms: retention_ms, input_bytes: INPUT_BYTES, output_ms: retention_ms, output_bytes: OUTPUT_BYTES };
        // Whoever has been ahead for as long as anything is kept is right, as far as anybody can tell.
        let ages = broker.age_clock(wall_ms, mono_ms, retention_ms)?;
        broker.keep_age_clock(&ages)?;
        Ok(Self { keep, ticked: 0, ticks: SteadyClock::new(ages.now_ms(), mono_ms, TICK_DOUBT_MS), ages })
    }

    /// A turn, each `TICK_EVERY`: a tick, and each sixth time what is too old. What went wrong.
    pub fn turn(&mut self, broker: &EmbeddedBroker, (wall_ms, mono_ms): (i64, u64)) -> Vec<LogError> {
        self.ticked = self.ticked.wrapping_add(1);
        let now_ms = self.ages.look(wall_ms, mono_ms);
        // A failed write ends the lanes, with its code; a full log is made room for below.
        let ticked = broker.append_tick(self.ticks.look(wall_ms, mono_ms)).map(drop);
        let is_due = self.ticked.is_multiple_of(TICKS_PER_RETENTION) || ticked.is_err();
        let kept = if is_due { self.make_room(broker, now_ms) } else { Ok(()) };
        [ticked.err(), kept.err()].into_iter().flatten().collect()
    }

    /// Removes all that is too old or too much. One call of [`EmbeddedBroker::retain`] looks at a bounded part of it.
    fn make_room(&self, broker: &EmbeddedBroker, now_ms: i64) -> Result<(), LogError> {
        broker.keep_age_clock(&self.ages)?;
        while broker.retain(now_ms, &self.keep)? > 0 {}
        Ok(())
    }
}

/// The thread; it ends when told so.
pub(super) struct Housekeeping {
    stop: SyncSender<()>,
    thread: JoinHandle<()>,
}

impl Housekeeping {
    /// Starts it.
    ///
    /// # Errors
    /// The thread could not be started, or the log cannot be read or written.
    pub(super) fn start(broker: EmbeddedBroker, retention_ms: i64) -> Result<Self, Failure> {
        let (stop, stopped) = sync_channel::<()>(1);
        let since = Stopwatch::start();
        let now = move || (clock::now_ms(), u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX));
        let mut upkeep = Upkeep::new(&broker, retention_ms, now())?;
        let thread = std::thread::Builder::new().name("upkeep".to_owned()).spawn(move || {
            while stopped.recv_timeout(TICK_EVERY) == Err(RecvTimeoutError::Timeout) {
                for error in upkeep.turn(&broker, now()) {
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
