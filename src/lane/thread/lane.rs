//! One lane: one thread's worth of log, tasks and sessions, as a closed loop over one enum.
//!
//! Who runs a lane calls [`Lane::turn`] until it has [`Turn::Ended`], and nothing else has to come in between: a turn does one thing, and
//! waits in a poll at most. A thread of a [`Fleet`](crate::Fleet) does so, tests and the simulator too, with a clock of their own. What a
//! lane does follows from the answers of its log, of its restorer and of its orders; of the clock only *when* it commits and tries again.
//!
//! - What others see is committed: [`Lane::stats`], [`Lane::tasks`] and answers to [`Order::Ask`] hold nothing of the overlay.
//! - Every failure of the log has its fate (`on_log_error`): the lane tries again, gives its tasks up and goes on, or ends with an [`Exit`].
//! - Once ended it holds no task and no lease. What it had not committed never happened; another lane reads it again.

use std::collections::{BTreeMap, BTreeSet};
use std::{sync::Arc, sync::mpsc::Receiver, time::Duration};

use loopwarden_core::event::{Reason, Record, TaskId};
use loopwarden_core::{limits::POLL_RECORDS_MAX, policy::Policy};
use loopwarden_log::{Flow, Log, LogError, LogEvent};
use loopwarden_state::{Position, report::Sum};

use crate::settings::{Clock, LaneSettings};
use crate::stage::context::{Halt, Interrupt, RecordContext, Work};
use crate::{
    commit::pacing::CommitPacing, commit::recent::Recent, health::Health, metrics::stats::Stats, sums::sources::SourcePacing,
    task::outcome::Answer, task::tasks::Tasks, thread::exit::Exit, thread::pace::Keeping, view::ask::Ask,
};

/// Records of a poll from one look at the clock to the next, while a command waits. Under load one nearly always waits, and a look for
/// each record would be a part of its cost; so many records take far less time than the shortest pause between two commits.
const RECORDS_PER_LOOK: usize = 16;

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
    /// Budgets of a task are to be compared with another policy.
    Compare(TaskId),
    /// It is time to commit.
    CommitDue,
    /// The pause after an aborted commit is over.
    Resume,
    /// The producer must be replaced.
    ReopenDue,
    /// The log answered a poll.
    Polled(Result<LogEvent, LogError>),
}

/// Whether records flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phase {
    /// They do.
    Feeding,
    /// All tasks are paused until then, monotonic ms.
    BackingOff(u64),
    /// All tasks are paused until the producer was replaced; these are to be restored then.
    Reopening { at_ms: u64, restore: BTreeSet<TaskId> },
}

/// A lane over any log. Who makes one knows the type of its log, and can look at that between two turns; all that a lane does is compiled
/// once, for a log that is asked by batches.
pub struct Lane<L: ?Sized = dyn Log> {
    pub(crate) work: Work,
    pub(crate) tasks: Tasks,
    pub(crate) settings: Arc<LaneSettings>,
    pub(crate) pacing: CommitPacing,
    pub(crate) phase: Phase,
    pub(crate) health: Health,
    pub(crate) stats: Stats,
    /// When the first of the assignments came that are not yet restored, monotonic us.
    pub(crate) rebalancing_since_us: Option<u64>,
    /// Positions that the last transaction of unknown outcome would have made true.
    pub(crate) unknown: BTreeMap<TaskId, Position>,
    /// Where the last commands are shown.
    pub(crate) recent: Option<Recent>,
    pub(crate) orders: Option<Receiver<Order>>,
    pub(super) exit: Option<Exit>,
    /// When the last turn began, monotonic ms.
    pub(super) turned_ms: u64,
    pub(crate) sources: SourcePacing,
    pub(crate) keeping: Keeping,
    /// Last, so that its type can be left open.
    pub(crate) log: L,
}

impl Lane {
    /// Counters so far.
    pub fn stats(&self) -> Stats {
        let mut stats = self.stats.clone();
        stats.skipped += self.work.skipped;
        stats.cache = self.work.cache.look_ups;
        stats
    }

    /// Changelog offsets that restores still have to read, by stage: session, swarm.
    pub fn restore_left(&self) -> [u64; 2] {
        self.tasks.restore_left()
    }

    /// Bytes of the overlay, and of the cache.
    pub fn bytes(&self) -> (usize, usize) {
        (self.work.overlay.bytes, self.work.cache.bytes() + self.work.counters.bytes())
    }

    /// Sessions held in memory.
    pub fn sessions_cached(&self) -> usize {
        self.work.cache.len()
    }

    /// Whether what it tries has failed more than once in a row.
    pub const fn is_held_up(&self) -> bool {
        self.health.is_held_up(self.turned_ms)
    }

    /// Whether every task it was given is running, none is stopped, and records flow.
    pub fn is_ready(&self) -> bool {
        self.exit.is_none() && !self.is_held_up() && self.tasks.is_all_running()
    }

    /// Does the next thing: at most one event, one poll, one commit. Waits only in a poll.
    pub fn turn(&mut self, clock: &dyn Clock) -> Turn {
        if let Some(exit) = &self.exit {
            return Turn::Ended(exit.clone());
        }
        self.turned_ms = clock.mono_ms();
        let paced = self.keep_pace(clock);
        let event = self.next_event(clock);
        match paced.and_then(|()| self.on_event(event, clock)) {
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
        if let Some(answer) = self.tasks.poll(clock) {
            return LaneEvent::Restored(answer);
        }
        if let Some(id) = self.tasks.freed() {
            return LaneEvent::Leased(id);
        }
        let now_ms = clock.mono_ms();
        if self.phase == Phase::Feeding
            && let Some(id) = self.tasks.compares_budgets()
        {
            return LaneEvent::Compare(id);
        }
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
        if self.tasks.needs_turns() {
            wait_ms = wait_ms.min(5);
        }
        LaneEvent::Polled(self.poll(Duration::from_millis(wait_ms), clock))
    }

    fn poll(&mut self, wait: Duration, clock: &dyn Clock) -> Result<LogEvent, LogError> {
        let Self { log, work, tasks, pacing, phase, .. } = self;
        let is_feeding = *phase == Phase::Feeding;
        let mut is_cut = false;
        let mut taken = 0_usize;
        let mut take = |id, record: &Record<'_>, sum: Option<&Sum>| {
            if !is_feeding {
                // Paused tasks deliver nothing; a record already on its way is read again after the seek.
                work.strayed += 1;
                return Flow::Continue;
            }
            let flow = work.record(tasks, id, record, sum);
            taken += 1;
            let is_due = taken.is_multiple_of(RECORDS_PER_LOOK) && work.overlay.command_waits && pacing.is_over(clock);
            is_cut = flow == Flow::Stop || is_due;
            if is_cut { Flow::Stop } else { Flow::Continue }
        };
        let mut flow = Flow::Continue;
        let sums = log.poll_sums(&mut |id, record, sum| {
            flow = take(id, record, Some(sum));
            flow
        });
        let event = match flow {
            Flow::Continue => log.poll(wait, &mut |id, record| take(id, record, None)),
            Flow::Stop => Ok(LogEvent::Records(sums)),
        };
        if let Ok(LogEvent::Records(records)) = event {
            pacing.polled(is_cut || records >= POLL_RECORDS_MAX);
            work.overlay.command_waits |= records > 0 && log.is_awaited();
        }
        if let Some(killer) = &mut work.killer
            && let Err(error) = killer.clear()
        {
            work.interrupt.get_or_insert(Interrupt::unnoted(&error));
        }
        if !work.overlay.is_empty() && work.overlay.since_ms.is_none() {
            work.overlay.since_ms = Some(clock.mono_ms());
        }
        event
    }

    /// True when something was done.
    fn on_event(&mut self, event: LaneEvent, clock: &dyn Clock) -> Result<bool, Exit> {
        if matches!(event, LaneEvent::Polled(Ok(_))) && self.health.polls.is_quiet(clock.mono_ms()) {
            self.health.polls.reset();
        }
        match event {
            LaneEvent::Interrupted(interrupt) => self.on_interrupt(interrupt, clock)?,
            LaneEvent::Ordered(order) => self.on_order(order, clock)?,
            LaneEvent::Restored(answer) => self.on_restored(answer, clock)?,
            LaneEvent::Leased(id) => self.tasks.restore(id),
            LaneEvent::Compare(id) => self.compare_budgets(id, clock)?,
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
            LaneEvent::Polled(Ok(LogEvent::Assigned(ids))) => self.on_assigned(&ids, clock)?,
            LaneEvent::Polled(Ok(LogEvent::Revoked(ids))) => self.on_revoked(&ids, clock)?,
            LaneEvent::Polled(Ok(LogEvent::Lost(ids))) => self.on_lost(&ids, clock)?,
            LaneEvent::Polled(Ok(LogEvent::End)) => self.on_end(clock)?,
            LaneEvent::Polled(Err(error)) => self.on_log_error(error, clock)?,
        }
        Ok(true)
    }

    /// Cut by the input, a commit of reports alone moves no cut, and nothing else may come to carry them.
    fn only_reports_wait(&self) -> bool {
        let is_cut_by_input = matches!(self.settings.trigger, crate::CommitTrigger::EveryRecords(_));
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
                self.tasks.poison(id, why);
                self.log.pause(id).or_else(|error| self.on_log_error(error, clock))
            }
            Interrupt::Store(error) => Err(Exit::Store(error)),
        }
    }

    fn compare_budgets(&mut self, id: TaskId, clock: &dyn Clock) -> Result<(), Exit> {
        let Self { work, tasks, .. } = self;
        let Some(task) = tasks.get_mut(id) else { return Ok(()) };
        match (RecordContext { id, task, work }).compare_budgets() {
            Ok(()) => Ok(()),
            Err(Halt::Store(error)) => Err(Exit::Store(error)),
            Err(Halt::Full | Halt::Tripped(_)) => self.commit(clock),
            Err(Halt::Panicked(_)) => {
                tracing::error!(task = %id, "comparing budgets with another policy panicked; each is compared when it is used next");
                self.stats.panics += 1;
                self.rewind(clock)?;
                let Self { work, tasks, .. } = self;
                if let Some(task) = tasks.get_mut(id) {
                    task.end_comparison(work.engine.policy());
                }
                Ok(())
            }
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
                if self.phase != Phase::Feeding {
                    // What could not be committed is decided by the new policy: everything is read again when the lane goes on.
                    self.drop_overlay();
                }
                self.work.swap_policy(policy)?;
                self.tasks.adopt(self.work.engine.policy());
                Ok(())
            }
            Order::Ask(ask) => {
                self.answer(ask);
                Ok(())
            }
        }
    }

    pub(crate) fn on_log_error(&mut self, error: LogError, clock: &dyn Clock) -> Result<(), Exit> {
        match error {
            LogError::Transient(cause) => {
                tracing::warn!(cause, "log in trouble");
                if self.health.polls.is_exhausted_by(clock.mono_ms()) {
                    return Err(Exit::Failed(format!("log in trouble for too long: {cause}")));
                }
                Ok(())
            }
            LogError::OutOfRange(cause) => {
                tracing::warn!(cause, "comparing every task with its input");
                self.restore_all(clock)
            }
            LogError::Damaged(_) => {
                // All that was handed over lies before it, and need not be read again. A commit that fails is not the last one: what it
                // covered is read again, up to here.
                self.commit(clock)?;
                if self.phase == Phase::Feeding { Err(error.into()) } else { Ok(()) }
            }
            LogError::Lost(cause) => self.rejoin(&cause, clock),
            LogError::Fatal { code, message } => Err(Exit::Fatal { code, message }),
        }
    }

    /// Reads a running task from where it stands; to be tried again after a pause if the log is in trouble.
    pub(crate) fn start(&mut self, id: TaskId, clock: &dyn Clock) -> Result<(), Exit> {
        let Some(task) = self.tasks.get(id) else { return Ok(()) };
        if self.phase != Phase::Feeding {
            // Everything starts together when the lane goes on.
            return Ok(());
        }
        let next = task.next();
        match self.log.start(id, next) {
            Err(LogError::Transient(cause)) => {
                self.stands_still(&cause, clock)?;
                self.phase = Phase::BackingOff(clock.mono_ms() + self.health.standstill.backoff_ms());
                Ok(())
            }
            Err(error) => self.on_log_error(error, clock),
            Ok(()) => {
                self.note_started(id, clock);
                Ok(())
            }
        }
    }

    /// Notes that the lane cannot go on; ends it when that lasts too long.
    pub(crate) fn stands_still(&mut self, cause: &str, clock: &dyn Clock) -> Result<(), Exit> {
        tracing::warn!(cause, "the lane stands still");
        if self.health.standstill.is_exhausted_by(clock.mono_ms()) {
            return Err(Exit::Failed(format!("nothing could be read or committed for three minutes: {cause}")));
        }
        Ok(())
    }

    /// Lets records flow again.
    pub(crate) fn resume(&mut self, clock: &dyn Clock) -> Result<(), Exit> {
        self.phase = Phase::Feeding;
        self.tasks.running_ids().into_iter().try_for_each(|id| self.start(id, clock))?;
        if self.phase == Phase::Feeding {
            self.health.standstill.reset();
        }
        Ok(())
    }

    fn on_end(&mut self, clock: &dyn Clock) -> Result<(), Exit> {
        if self.phase != Phase::Feeding || self.tasks.is_restoring() {
            return Ok(());
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
