//! Lanes as threads: start, orders, heartbeat, end. One lane that ends by itself ends them all; a lane that hangs ends the process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::{thread, thread::JoinHandle, time::Duration};

use loopwarden_core::policy::Policy;
use loopwarden_log::{InputEnd, Log, clock};

use crate::thread::lane::{Lane, Order, Turn};
use crate::view::ask::{Ask, TaskView};
use crate::{metrics::intake::IntakeReport, metrics::stats::Stats, settings::Clock, task::poison::guarded, thread::exit::Exit};

/// A lane silent for longer is hung, and the process ends (rule C11). Milliseconds.
const HEARTBEAT_MS_MAX: u64 = 30_000;
/// How often the watchdog looks. Milliseconds.
const WATCH_MS: u64 = 1_000;
/// How often a lane publishes its counters. Milliseconds.
const REPORT_MS: u64 = 250;
/// Orders a lane may leave unread.
const ORDERS_MAX: usize = 64;

/// The clocks of the machine.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    origin: clock::Stopwatch,
}

impl SystemClock {
    /// Starts at 0.
    pub fn start() -> Self {
        Self { origin: clock::Stopwatch::start() }
    }
}

impl Clock for SystemClock {
    fn mono_us(&self) -> u64 {
        self.origin.elapsed().as_micros() as u64
    }

    fn wall_ms(&self) -> i64 {
        clock::now_ms()
    }
}

/// What a lane shows of itself, a few times a second.
#[derive(Debug, Clone, Default)]
pub struct LaneReport {
    /// Counters.
    pub stats: Stats,
    /// Tasks as of their last commit.
    pub tasks: Vec<TaskView>,
    /// Uncommitted work. Bytes.
    pub overlay_bytes: usize,
    /// Cached sessions. Bytes.
    pub cache_bytes: usize,
    pub sessions_cached: usize,
    /// Its log is open: it has its identity, and takes the tasks it is given.
    pub has_opened: bool,
    /// It cannot commit or read.
    pub is_held_up: bool,
    /// How long a broker has not answered, where that is too long. Milliseconds.
    pub silent_ms: Option<u64>,
    /// Its foreign topic, where it reads one. Its tasks are none of the group of the lanes that judge, and are not listed.
    pub intake: Option<IntakeReport>,
    /// Where the inputs of its tasks end, as far as known.
    pub ends: Vec<InputEnd>,
    /// Changelog offsets that restores still have to read, by stage: session, swarm.
    pub restore_left: [u64; 2],
    /// Sessions of its tasks, and live blocks in force.
    pub census: [u64; 2],
    /// Counters of its swarm tasks.
    pub swarm_counters: u64,
}

impl LaneReport {
    /// Records a task is behind, where known: nothing for one that does not run.
    pub fn lag(&self, task: &TaskView) -> Option<u64> {
        let position = task.position.as_ref()?;
        let end = self.ends.iter().find(|end| end.task == task.id)?;
        Some(end.end.saturating_sub(position.next_offset.0))
    }
}

/// The outside of a lane.
#[derive(Debug, Clone)]
pub struct LaneHandle {
    orders: SyncSender<Order>,
    report: Arc<Mutex<LaneReport>>,
    beat_ms: Arc<AtomicU64>,
}

impl LaneHandle {
    /// Its last report.
    pub fn report(&self) -> LaneReport {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// When it turned last, by the fleet's clock in milliseconds; far in the future before its first turn and once it has ended.
    pub fn beat_ms(&self) -> u64 {
        self.beat_ms.load(Ordering::Acquire)
    }

    /// Asks it; false where it does not listen any more, or is too busy.
    pub fn ask(&self, ask: Ask) -> bool {
        self.orders.try_send(Order::Ask(ask)).is_ok()
    }
}

impl Lane {
    /// What it shows of itself.
    pub fn report(&mut self) -> LaneReport {
        let (overlay_bytes, cache_bytes) = self.bytes();
        if let Some(foreign) = &self.work.foreign {
            return LaneReport {
                intake: Some(foreign.report(&self.stats, &self.tasks, &self.log.input_ends())),
                overlay_bytes,
                has_opened: true,
                is_held_up: self.is_held_up(),
                ..LaneReport::default()
            };
        }
        LaneReport {
            stats: self.stats(),
            tasks: self.tasks(),
            overlay_bytes,
            cache_bytes,
            sessions_cached: self.sessions_cached(),
            has_opened: true,
            is_held_up: self.is_held_up(),
            silent_ms: self.log.silent_ms(),
            intake: None,
            ends: self.log.input_ends(),
            restore_left: self.restore_left(),
            census: self.census(),
            swarm_counters: self.swarm_counters(),
        }
    }
}

/// The lanes of a process.
pub struct Fleet {
    handles: Vec<LaneHandle>,
    threads: Vec<JoinHandle<()>>,
    exits: std::sync::mpsc::Receiver<(usize, Exit)>,
    exits_sender: SyncSender<(usize, Exit)>,
    clock: SystemClock,
    watchdog: Option<(SyncSender<()>, JoinHandle<()>)>,
}

impl Fleet {
    /// No lanes yet. `lanes` is how many there will be.
    pub fn new(clock: SystemClock, lanes: usize) -> Self {
        let (exits_sender, exits) = sync_channel(lanes.max(1));
        Self { handles: Vec::new(), threads: Vec::new(), exits, exits_sender, clock, watchdog: None }
    }

    /// Starts a lane on a thread of its own. `make` runs on that thread: a log need not be sent between threads.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn spawn<L: Log + 'static>(
        &mut self,
        make: impl FnOnce() -> Result<Lane<L>, Exit> + Send + 'static,
    ) -> std::io::Result<()> {
        let number = self.handles.len();
        let (orders, receiver) = sync_channel(ORDERS_MAX);
        // A start waits for brokers and for an old transaction, with bounds of its own that add up to more than a heartbeat may.
        let beat_ms = Arc::new(AtomicU64::new(u64::MAX));
        let handle = LaneHandle { orders, report: Arc::default(), beat_ms };
        self.handles.push(handle.clone());
        let (clock, exits) = (self.clock, self.exits_sender.clone());
        let thread = thread::Builder::new().name(format!("lane-{number}"));
        self.threads.push(thread.spawn(move || {
            let run = || match make() {
                Ok(lane) => run(&mut lane.with_orders(receiver), clock, &handle),
                Err(exit) => exit,
            };
            let exit = guarded(run).unwrap_or_else(|_| Exit::Failed("a lane panicked".to_owned()));
            handle.beat_ms.store(u64::MAX, Ordering::Release);
            // Room for one exit per lane; if nobody listens the process is ending already.
            let _ = exits.try_send((number, exit));
        })?);
        Ok(())
    }

    /// Watches the heartbeats: a lane that hangs while others go on would hold its tasks for ever.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn watch(&mut self) -> std::io::Result<()> {
        if self.handles.is_empty() {
            return Ok(());
        }
        let (sender, stop) = sync_channel::<()>(1);
        let beats: Vec<Arc<AtomicU64>> = self.handles.iter().map(|handle| Arc::clone(&handle.beat_ms)).collect();
        let clock = self.clock;
        let thread = thread::Builder::new().name("watchdog".to_owned()).spawn(move || {
            while stop.recv_timeout(Duration::from_millis(WATCH_MS)) == Err(RecvTimeoutError::Timeout) {
                if let Some(lane) = hung(&beats, clock.mono_ms()) {
                    tracing::error!(lane, silent_ms = HEARTBEAT_MS_MAX, "a lane hangs; ending the process, which is always safe");
                    std::process::abort();
                }
            }
        })?;
        self.watchdog = Some((sender, thread));
        Ok(())
    }

    /// The lanes' outsides, for HTTP and metrics.
    pub fn handles(&self) -> &[LaneHandle] {
        &self.handles
    }

    /// Puts another policy in force, at each lane's next commit boundary.
    pub fn set_policy(&self, policy: &Arc<Policy>) {
        for handle in &self.handles {
            // Waits for room: all lanes take it, or the process is ending. One that does not read its orders ends the process too.
            let _ = handle.orders.send(Order::Policy(Arc::clone(policy)));
        }
    }

    /// The next lane that ended, waiting at most so long.
    pub fn next_exit(&self, wait: Duration) -> Option<(usize, Exit)> {
        self.exits.recv_timeout(wait).ok()
    }

    /// Stops every lane and waits for them: commit, close, end. Returns the gravest exit, `Stopped` if all went well.
    pub fn stop(self, leave: bool) -> Exit {
        for handle in &self.handles {
            // Blocks until the lane reads its orders; one that ended does not.
            let _ = handle.orders.send(Order::Stop { leave });
        }
        let mut gravest = Exit::Stopped;
        for thread in self.threads {
            if thread.join().is_err() {
                gravest = Exit::Failed("a lane panicked".to_owned());
            }
        }
        if let Some((stop, thread)) = self.watchdog {
            drop(stop);
            let _ = thread.join();
        }
        while let Ok((_, exit)) = self.exits.try_recv() {
            if !matches!(exit, Exit::Stopped | Exit::Done) {
                gravest = exit;
            }
        }
        gravest
    }
}

/// The first lane whose last heartbeat is too old; a lane that ended beats for ever.
fn hung(beats: &[Arc<AtomicU64>], now_ms: u64) -> Option<usize> {
    beats.iter().position(|beat| now_ms.saturating_sub(beat.load(Ordering::Acquire)) > HEARTBEAT_MS_MAX)
}

fn run(lane: &mut Lane, clock: SystemClock, handle: &LaneHandle) -> Exit {
    let mut reported_ms = 0;
    handle.beat_ms.store(clock.mono_ms(), Ordering::Release);
    loop {
        let turn = lane.turn(&clock);
        let now_ms = clock.mono_ms();
        handle.beat_ms.store(now_ms, Ordering::Release);
        if now_ms >= reported_ms + REPORT_MS || matches!(turn, Turn::Ended(_)) {
            reported_ms = now_ms;
            *handle.report.lock().unwrap_or_else(PoisonError::into_inner) = lane.report();
        }
        if let Turn::Ended(exit) = turn {
            return exit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_that_waits_for_its_start_does_not_hang() {
        use loopwarden_sim::MemoryLog;
        let mut fleet = Fleet::new(SystemClock::start(), 1);
        let (release, released) = sync_channel::<()>(1);
        let make = move || -> Result<Lane<MemoryLog>, Exit> {
            let _ = released.recv();
            Err(Exit::Failed("no broker".to_owned()))
        };
        fleet.spawn(make).unwrap();
        let beats = [Arc::clone(&fleet.handles()[0].beat_ms)];
        assert_eq!(hung(&beats, 10 * HEARTBEAT_MS_MAX), None);
        drop(release);
        assert_eq!(fleet.stop(false), Exit::Failed("no broker".to_owned()));
    }

    #[test]
    fn a_lane_silent_for_half_a_minute_hangs_and_one_that_ended_does_not() {
        let beats = [Arc::new(AtomicU64::new(u64::MAX)), Arc::new(AtomicU64::new(1_000))];
        assert_eq!(hung(&beats, 31_000), None);
        assert_eq!(hung(&beats, 31_001), Some(1));
    }
}
