//! One lane: one thread's worth of log, tasks and sessions, as a closed loop over one enum. A production thread calls [`Lane::turn`]
//! until it ends; tests and the simulator do the same, with a clock of their own.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use crate::engine::Effects;
use crate::engine::SessionEngine;
use crate::engine::SwarmEngine;
use crate::event::Reason;
use crate::event::Record;
use crate::event::TaskId;
use crate::log::Flow;
use crate::log::Log;
use crate::log::LogError;
use crate::log::LogEvent;
use crate::policy::Policy;
use crate::store::StateStore;
use crate::store::StoreError;
use crate::task::Slot;
use crate::task::cache::Cache;
use crate::task::commit::Pacing;
use crate::task::commit::Trouble;
use crate::task::counters::Counters;
use crate::task::encode::Encoder;
use crate::task::lease::Leases;
use crate::task::overlay::Overlay;
use crate::task::poison::Culprit;
use crate::task::poison::KillerFile;
use crate::task::poison::Marks;
use crate::task::poison::Suspect;
use crate::task::restorer::Answer;
use crate::task::restorer::Restorer;
use crate::task::session::Handled;
use crate::task::session::Machine;
use crate::task::session::Stage;
use crate::task::settings::Clock;
use crate::task::settings::LaneSettings;
use crate::task::stats::Stats;
use crate::task::view::Ask;

/// Failed polls in a row after which the lane looks whether its input still holds what it wants to read (I12): the error of a client
/// names no partition, restoring compares each task with its input.
const FAILURES_BEFORE_RESTORE: u32 = 10;

/// Counters of the swarm stage may take one part in so many of what sessions may.
const COUNTERS_SHARE: usize = 4;

/// Why a lane ended. The process ends with it, except for the first two.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Exit {
    /// Bounded input was read to its end, and all of it is committed.
    #[error("end of input")]
    Done,
    /// It was told to.
    #[error("stopped")]
    Stopped,
    /// Another process has this identity.
    #[error("E0501: fenced: {0}")]
    Fenced(String),
    /// The store failed; the changelog has what is missing.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Configuration, permission, a vanished topic, moved offsets.
    #[error("{code}: {message}")]
    Fatal {
        /// Documented code.
        code: &'static str,
        /// What happened, where, what to do.
        message: String,
    },
    /// It could not go on, and restarting may help.
    #[error("{0}")]
    Failed(String),
}

/// What a turn came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// Nothing was to be done.
    Idle,
    /// Something was done.
    Worked,
    /// The lane is over; further turns say the same.
    Ended(Exit),
}

/// What a lane is told from outside.
#[derive(Debug)]
pub enum Order {
    /// Commit, close, end. With `leave` the lane leaves the group (scaling in).
    Stop {
        /// Whether to leave the group.
        leave: bool,
    },
    /// A new policy, from the next commit boundary on (rule I13).
    Policy(Arc<Policy>),
    /// A question about committed state.
    Ask(Ask),
}

/// Everything that can happen to a lane.
#[derive(Debug)]
enum LaneEvent {
    /// A record asked for something that cannot be done while records are handed over.
    Interrupted(Interrupt),
    /// Somebody outside wants something.
    Ordered(Order),
    /// A restore ended.
    Restored(Answer),
    /// The former owner in this process let go of a task.
    Leased(TaskId),
    /// It is time to commit.
    CommitDue,
    /// The pause after an aborted commit is over.
    Resume,
    /// The producer must be replaced.
    ReopenDue,
    /// The log answered a poll.
    Polled(Result<LogEvent, LogError>),
}

/// Why records stopped in the middle of a poll.
#[derive(Debug)]
pub(super) enum Interrupt {
    /// The overlay is full between two timers of this task: its record must be read again.
    Full(TaskId),
    /// A detector panicked.
    Panicked(TaskId, Culprit),
    /// Too many dead letters.
    Tripped(TaskId, &'static str),
    /// A read failed.
    Store(StoreError),
    /// The note about what is being applied cannot be written.
    Note(String),
}

/// Whether records flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    /// They do.
    Feeding,
    /// All tasks are paused until then, monotonic ms.
    BackingOff(u64),
    /// All tasks are paused until the producer was replaced; these are to be restored then.
    Reopening { at_ms: u64, restore: BTreeSet<TaskId> },
}

/// One lane.
pub struct Lane<L, S, M = SessionEngine> {
    pub(super) log: L,
    pub(super) work: Work<S, M>,
    pub(super) settings: Arc<LaneSettings>,
    pub(super) restorer: Box<dyn Restorer>,
    pub(super) leases: Leases,
    pub(super) pacing: Pacing,
    pub(super) phase: Phase,
    /// Of commits.
    pub(super) trouble: Trouble,
    /// Of polls and seeks.
    log_trouble: Trouble,
    pub(super) attempts: u64,
    pub(super) stats: Stats,
    orders: Option<Receiver<Order>>,
    exit: Option<Exit>,
}

/// What records meet; apart from the log, which hands them over.
pub(super) struct Work<S, M> {
    pub(super) store: S,
    pub(super) machine: M,
    pub(super) encoder: Encoder,
    pub(super) cache: Cache,
    pub(super) swarm: SwarmEngine,
    pub(super) counters: Counters,
    pub(super) overlay: Overlay,
    pub(super) effects: Effects,
    pub(super) marks: Marks,
    pub(super) tasks: BTreeMap<TaskId, Slot>,
    pub(super) killer: Option<KillerFile>,
    pub(super) interrupt: Option<Interrupt>,
    pub(super) skipped: u64,
    pub(super) strayed: u64,
}

impl<L: Log, S: StateStore, M: Machine> Lane<L, S, M> {
    /// A lane over a log and a store. `leases` is shared by the lanes of the process.
    #[must_use]
    pub fn new(log: L, store: S, machine: M, restorer: Box<dyn Restorer>, leases: Leases, settings: Arc<LaneSettings>) -> Self {
        let encoder = Encoder::new(machine.app(), machine.policy(), settings.mode, settings.dead_letters);
        let swarm = SwarmEngine::new(machine.app(), Arc::clone(machine.policy()));
        let work = Work {
            store,
            machine,
            encoder,
            swarm,
            counters: Counters::new(settings.cache_bytes_max / COUNTERS_SHARE),
            cache: Cache::new(settings.cache_bytes_max),
            overlay: Overlay::default(),
            effects: Effects::default(),
            marks: Marks::default(),
            tasks: BTreeMap::new(),
            killer: None,
            interrupt: None,
            skipped: 0,
            strayed: 0,
        };
        Self {
            log,
            work,
            pacing: Pacing::new(settings.trigger),
            settings,
            restorer,
            leases,
            phase: Phase::Feeding,
            trouble: Trouble::default(),
            log_trouble: Trouble::default(),
            attempts: 0,
            stats: Stats::default(),
            orders: None,
            exit: None,
        }
    }

    /// Takes orders from a channel.
    #[must_use]
    pub fn with_orders(mut self, orders: Receiver<Order>) -> Self {
        self.orders = Some(orders);
        self
    }

    /// Notes what it applies in a file, and treats as poison what kept killing the process (rule I11).
    #[must_use]
    pub fn with_killer_file(mut self, file: KillerFile, suspects: &[Suspect]) -> Self {
        for suspect in suspects.iter().filter(|suspect| suspect.is_condemned()) {
            tracing::error!(task = %suspect.task, offset = suspect.offset, deaths = suspect.deaths,
                "a record kept killing the process and becomes a dead letter");
            self.work.marks.add(suspect.task, Culprit::Record(suspect.offset), Reason::Crash);
        }
        self.work.killer = Some(file);
        self
    }

    /// Counters so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = self.stats.clone();
        stats.skipped += self.work.skipped;
        let [hits, misses] = &mut stats.cache;
        (*hits, *misses) = (self.work.cache.hits, self.work.cache.misses);
        stats
    }

    /// The log, to look at.
    pub const fn log(&self) -> &L {
        &self.log
    }

    /// Bytes of the overlay, and of the cache.
    #[must_use]
    pub fn bytes(&self) -> (usize, usize) {
        (self.work.overlay.bytes, self.work.cache.bytes() + self.work.counters.bytes())
    }

    /// Sessions held in memory.
    #[must_use]
    pub fn sessions_cached(&self) -> usize {
        self.work.cache.len()
    }

    /// Whether every task it was given is running, and none is stopped.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.exit.is_none() && self.work.tasks.values().all(|slot| matches!(slot, Slot::Running(_)))
    }

    /// Does the next thing: at most one event, one poll, one commit. Waits only in a poll.
    pub fn turn(&mut self, clock: &dyn Clock) -> Turn {
        if let Some(exit) = &self.exit {
            return Turn::Ended(exit.clone());
        }
        let event = self.next_event(clock);
        match self.on_event(event, clock) {
            Ok(true) => Turn::Worked,
            Ok(false) => Turn::Idle,
            Err(exit) => {
                self.end(&exit);
                self.exit = Some(exit.clone());
                Turn::Ended(exit)
            }
        }
    }

    fn next_event(&mut self, clock: &dyn Clock) -> LaneEvent {
        if let Some(interrupt) = self.work.interrupt.take() {
            return LaneEvent::Interrupted(interrupt);
        }
        if let Some(order) = self.orders.as_ref().and_then(|orders| orders.try_recv().ok()) {
            return LaneEvent::Ordered(order);
        }
        if let Some(answer) = self.restorer.poll(clock) {
            return LaneEvent::Restored(answer);
        }
        let waiting = self.work.tasks.iter().find(|(_, slot)| matches!(slot, Slot::Waiting));
        if let Some((id, _)) = waiting.filter(|(id, _)| self.leases.is_free(**id)) {
            return LaneEvent::Leased(*id);
        }
        let now_ms = clock.mono_ms();
        let mut wait_ms = self.settings.poll_ms_max;
        match &self.phase {
            Phase::Feeding => match self.commit_due_in(now_ms) {
                Some(0) => return LaneEvent::CommitDue,
                Some(due_ms) => wait_ms = wait_ms.min(due_ms),
                None => {}
            },
            Phase::BackingOff(until_ms) if *until_ms <= now_ms => return LaneEvent::Resume,
            Phase::BackingOff(until_ms) => wait_ms = wait_ms.min(until_ms - now_ms),
            Phase::Reopening { at_ms, .. } if *at_ms <= now_ms => return LaneEvent::ReopenDue,
            Phase::Reopening { at_ms, .. } => wait_ms = wait_ms.min(at_ms - now_ms),
        }
        if self.restorer.needs_turns() {
            wait_ms = wait_ms.min(5);
        }
        LaneEvent::Polled(self.poll(Duration::from_millis(wait_ms), clock))
    }

    fn poll(&mut self, wait: Duration, clock: &dyn Clock) -> Result<LogEvent, LogError> {
        let Self { log, work, settings, pacing, phase, .. } = self;
        let is_feeding = *phase == Phase::Feeding;
        let event = log.poll(wait, &mut |id, record| {
            if !is_feeding {
                // Paused tasks deliver nothing; a record already on its way is read again after the seek.
                work.strayed += 1;
                return Flow::Continue;
            }
            let flow = work.record(id, record, settings);
            if flow == Flow::Continue && work.overlay.command_waits && pacing.is_over(clock) { Flow::Stop } else { flow }
        });
        if let Some(killer) = &mut work.killer
            && let Err(error) = killer.clear()
        {
            work.interrupt.get_or_insert(Interrupt::Note(error.to_string()));
        }
        if !work.overlay.is_empty() && work.overlay.since_ms.is_none() {
            work.overlay.since_ms = Some(clock.mono_ms());
        }
        event
    }

    /// True when something was done.
    fn on_event(&mut self, event: LaneEvent, clock: &dyn Clock) -> Result<bool, Exit> {
        if matches!(event, LaneEvent::Polled(Ok(_))) {
            self.log_trouble.is_over();
        }
        match event {
            LaneEvent::Interrupted(interrupt) => self.on_interrupt(interrupt, clock)?,
            LaneEvent::Ordered(order) => self.on_order(order, clock)?,
            LaneEvent::Restored(answer) => self.on_restored(answer, clock)?,
            LaneEvent::Leased(id) => self.restore(id),
            LaneEvent::CommitDue => self.commit(clock)?,
            LaneEvent::Resume => self.resume(clock)?,
            LaneEvent::ReopenDue => self.reopen(clock)?,
            LaneEvent::Polled(Ok(LogEvent::Records(0))) => {
                if !self.only_reports_wait() {
                    return Ok(false);
                }
                self.commit(clock)?;
            }
            LaneEvent::Polled(Ok(LogEvent::Records(_))) => {}
            LaneEvent::Polled(Ok(LogEvent::Assigned(ids))) => self.on_assigned(&ids)?,
            LaneEvent::Polled(Ok(LogEvent::Revoked(ids))) => self.on_revoked(&ids, clock)?,
            LaneEvent::Polled(Ok(LogEvent::Lost(ids))) => self.on_lost(&ids, clock)?,
            LaneEvent::Polled(Ok(LogEvent::End)) => self.on_end(clock)?,
            LaneEvent::Polled(Err(error)) => self.on_log_error(error, clock)?,
        }
        Ok(true)
    }

    /// Cut by the input, a commit of reports alone moves no cut, and nothing else may come to carry them.
    fn only_reports_wait(&self) -> bool {
        let is_cut_by_input = matches!(self.settings.trigger, crate::task::CommitTrigger::EveryRecords(_));
        is_cut_by_input && self.work.overlay.events == 0 && !self.work.overlay.is_empty()
    }

    fn on_interrupt(&mut self, interrupt: Interrupt, clock: &dyn Clock) -> Result<(), Exit> {
        match interrupt {
            Interrupt::Full(id) => {
                self.commit(clock)?;
                self.start(id, clock)
            }
            Interrupt::Panicked(id, culprit) => {
                tracing::error!(task = %id, ?culprit, "a detector panicked; running again without this input");
                self.stats.panics += 1;
                self.work.marks.add(id, culprit, Reason::Panic);
                self.rewind(clock)
            }
            Interrupt::Tripped(id, why) => {
                self.commit(clock)?;
                if let Some(Slot::Running(task)) = self.work.tasks.remove(&id) {
                    tracing::error!(task = %id, code = "E0301", why, next = %task.state.next(), "task stopped");
                    self.work.tasks.insert(id, Slot::Poisoned(task.poison(why.to_owned())));
                }
                self.log.pause(id).or_else(|error| self.on_log_error(error, clock))
            }
            Interrupt::Store(error) => Err(Exit::Store(error)),
            Interrupt::Note(error) => Err(StoreError::Io(format!("cannot note what is being applied: {error}")).into()),
        }
    }

    fn on_order(&mut self, order: Order, clock: &dyn Clock) -> Result<(), Exit> {
        match order {
            Order::Stop { leave } => {
                self.commit(clock)?;
                self.drop_overlay();
                self.release_all();
                self.log.close(leave).map_err(|error| Exit::Failed(format!("closing: {error}")))?;
                Err(Exit::Stopped)
            }
            Order::Policy(policy) => {
                self.commit(clock)?;
                self.swap_policy(policy);
                Ok(())
            }
            Order::Ask(ask) => {
                self.answer(ask);
                Ok(())
            }
        }
    }

    pub(super) fn on_log_error(&mut self, error: LogError, clock: &dyn Clock) -> Result<(), Exit> {
        match error {
            LogError::Transient(cause) => {
                tracing::warn!(cause, "log in trouble");
                if self.log_trouble.lasts_too_long(clock.mono_ms()) {
                    return Err(Exit::Failed(format!("log in trouble for too long: {cause}")));
                }
                if self.log_trouble.in_row().is_multiple_of(FAILURES_BEFORE_RESTORE) && self.phase == Phase::Feeding {
                    self.restore_all(clock)?;
                }
                Ok(())
            }
            LogError::Lost(cause) => Err(Exit::Fenced(cause)),
            LogError::Fatal { code, message } => Err(Exit::Fatal { code, message }),
        }
    }

    /// Reads a running task from where it stands; to be tried again after a pause if the log is in trouble.
    pub(super) fn start(&mut self, id: TaskId, clock: &dyn Clock) -> Result<(), Exit> {
        let Some(Slot::Running(task)) = self.work.tasks.get(&id) else { return Ok(()) };
        if self.phase != Phase::Feeding {
            // Everything starts together when the lane goes on.
            return Ok(());
        }
        let next = task.state.next();
        match self.log.start(id, next) {
            Err(LogError::Transient(cause)) => {
                self.phase = Phase::BackingOff(clock.mono_ms() + self.log_trouble.backoff_ms());
                self.on_log_error(LogError::Transient(cause), clock)
            }
            Err(error) => self.on_log_error(error, clock),
            Ok(()) => Ok(()),
        }
    }

    /// Lets records flow again.
    pub(super) fn resume(&mut self, clock: &dyn Clock) -> Result<(), Exit> {
        self.phase = Phase::Feeding;
        let running: Vec<TaskId> = self.running().collect();
        running.into_iter().try_for_each(|id| self.start(id, clock))
    }

    pub(super) fn running(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.work.tasks.iter().filter(|(_, slot)| matches!(slot, Slot::Running(_))).map(|(id, _)| *id)
    }

    fn swap_policy(&mut self, policy: Arc<Policy>) {
        tracing::info!(policy = %policy.hash, profile = policy.profile, "another policy is in force");
        self.work.machine.swap(policy);
        let policy = self.work.machine.policy();
        self.work.swarm = SwarmEngine::new(self.work.machine.app(), Arc::clone(policy));
        self.work.encoder = Encoder::new(self.work.machine.app(), policy, self.settings.mode, self.settings.dead_letters);
        let hash = policy.hash.0;
        for slot in self.work.tasks.values_mut() {
            if let Slot::Running(task) = slot {
                task.state.adopt_policy(hash);
            }
        }
    }

    fn on_end(&mut self, clock: &dyn Clock) -> Result<(), Exit> {
        let is_restoring = |slot: &Slot| matches!(slot, Slot::Waiting | Slot::Restoring { .. });
        if self.phase != Phase::Feeding || self.work.tasks.values().any(is_restoring) {
            return Ok(());
        }
        if self.settings.run_timers_at_end {
            self.work.run_timers(&self.settings);
            if self.work.interrupt.is_some() {
                return Ok(());
            }
        }
        let has_work = self.has_work();
        self.commit(clock)?;
        // What the commit sends to the swarm stage comes back, and then the end again; so does everything that was not committed.
        if !has_work && self.phase == Phase::Feeding && self.work.interrupt.is_none() { Err(Exit::Done) } else { Ok(()) }
    }

    fn end(&mut self, exit: &Exit) {
        self.drop_overlay();
        self.release_all();
        match exit {
            Exit::Done | Exit::Stopped => tracing::info!(%exit, "lane ended"),
            _ => tracing::error!(%exit, "lane ended"),
        }
    }
}

impl<S: StateStore, M: Machine> Work<S, M> {
    fn record(&mut self, id: TaskId, record: &Record<'_>, settings: &LaneSettings) -> Flow {
        let Some(Slot::Running(task)) = self.tasks.get_mut(&id) else {
            self.strayed += 1;
            return Flow::Continue;
        };
        if record.meta.offset.0 < task.state.next().0 {
            self.skipped += 1;
            return Flow::Continue;
        }
        if let Some(killer) = &mut self.killer
            && let Err(error) = killer.before(id, record.meta.offset.0)
        {
            self.interrupt = Some(Interrupt::Note(error.to_string()));
            return Flow::Stop;
        }
        let mut stage = Stage {
            id,
            task: &mut task.state,
            store: &self.store,
            machine: &mut self.machine,
            encoder: &self.encoder,
            cache: &mut self.cache,
            overlay: &mut self.overlay,
            effects: &mut self.effects,
            marks: &self.marks,
            settings,
            swarm: &self.swarm,
            counters: &mut self.counters,
        };
        let handled = stage.record(record);
        self.handled(id, handled, settings)
    }

    fn handled(&mut self, id: TaskId, handled: Result<Handled, StoreError>, settings: &LaneSettings) -> Flow {
        self.interrupt = Some(match handled {
            Ok(Handled::Done) if self.is_full(settings) => return Flow::Stop,
            Ok(Handled::Done) => return Flow::Continue,
            Ok(Handled::Full) => Interrupt::Full(id),
            Ok(Handled::Panicked(culprit)) => Interrupt::Panicked(id, culprit),
            Ok(Handled::Tripped(why)) => Interrupt::Tripped(id, why),
            Err(error) => Interrupt::Store(error),
        });
        Flow::Stop
    }

    /// Whether a commit must come before anything else: the overlay's own bounds, the cut of a replay, or sessions that cannot leave
    /// the cache before they are written.
    pub(super) fn is_full(&self, settings: &LaneSettings) -> bool {
        let is_cut = match settings.trigger {
            crate::task::CommitTrigger::EveryRecords(records) => self.overlay.events >= records,
            crate::task::CommitTrigger::Timed { .. } => false,
        };
        let held = self.cache.bytes().max(self.counters.bytes().saturating_mul(COUNTERS_SHARE));
        is_cut || self.overlay.is_full(settings) || held > settings.cache_bytes_max.saturating_mul(2)
    }

    /// Drops what is held of a task that is given away, or read back from the log.
    pub(super) fn forget_task(&mut self, id: TaskId) {
        self.cache.remove_task(id);
        self.counters.remove_task(id);
    }

    /// Lets every timer of every task fire: the end of time, for a report.
    fn run_timers(&mut self, settings: &LaneSettings) {
        let ids: Vec<TaskId> = self.tasks.keys().copied().collect();
        for id in ids {
            while let Some(Slot::Running(task)) = self.tasks.get_mut(&id) {
                let task = &mut task.state;
                let bytes = match task.timers.due(&self.store, id, crate::event::EventTime(i64::MAX)) {
                    Ok(Some(bytes)) => bytes,
                    Ok(None) => break,
                    Err(error) => {
                        self.interrupt = Some(Interrupt::Store(error));
                        return;
                    }
                };
                let meta = crate::event::RecordMeta {
                    topic: "",
                    partition: id.partition,
                    offset: crate::event::RecordOffset(task.next().0.saturating_sub(1)),
                    timestamp: task.now.watermark,
                    key: None,
                    headers: Vec::new(),
                    value_bytes_max: 0,
                };
                let mut stage = Stage {
                    id,
                    task,
                    store: &self.store,
                    machine: &mut self.machine,
                    encoder: &self.encoder,
                    cache: &mut self.cache,
                    overlay: &mut self.overlay,
                    effects: &mut self.effects,
                    marks: &self.marks,
                    settings,
                    swarm: &self.swarm,
                    counters: &mut self.counters,
                };
                let handled = stage.fire_one(&bytes, &Record { meta, value: None });
                if handled != Ok(Handled::Done) {
                    self.handled(id, handled, settings);
                    return;
                }
            }
        }
    }
}
