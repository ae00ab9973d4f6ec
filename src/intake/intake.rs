//! One foreign topic, read by one thread: poll, map, commit. The rules are those of a lane (page `commit`); what a lane restores from its
//! changelog an intake asks of the group, whose offsets moved with the events (rule C6).

use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use loopwarden_core::event::{NextOffset, TaskId};
use loopwarden_core::limits::{BREAKER_RECORDS, BREAKER_SENDERS, CONFIRM_WAIT};
use loopwarden_lane::{Clock, Exit, LaneReport, OnInputLoss, Order, RetryState, Sender, Turn, Worker};
use loopwarden_log::{Changelog, Flow, Log, LogError, LogEvent};

use crate::batch::Pending;
use crate::form::Form;
use crate::settings::IntakeSettings;
use crate::source_partition::{SourcePartition, State};
use crate::stats::IntakeReport;

/// Pause between two attempts to replace the producer. Milliseconds.
const REOPEN_AGAIN_MS: u64 = 500;
/// Pause before the group is asked again where a partition stands. Milliseconds.
const ASK_AGAIN_MS: u64 = 100;

/// Whether records flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Feeding,
    /// Everything is paused until then, monotonic ms.
    BackingOff(u64),
    /// Everything is paused until the producer was replaced.
    Reopening(u64),
}

/// Reads a foreign topic and writes its events.
pub struct Intake<L> {
    pub(crate) log: L,
    /// Asks for the group's offsets and the ends of partitions.
    pub(crate) offsets: Box<dyn Changelog>,
    pub(crate) form: Form,
    pub(crate) settings: IntakeSettings,
    pub(crate) report: Arc<Mutex<IntakeReport>>,
    pub(crate) places: BTreeMap<TaskId, SourcePartition>,
    pub(crate) phase: Phase,
    pub(crate) pending: Pending,
    pub(crate) commits: RetryState,
    pub(crate) polls: RetryState,
    /// Questions to the group, seeks, and replacing the producer.
    pub(crate) standstill: RetryState,
    pub(crate) orders: Option<Receiver<Order>>,
    pub(crate) has_hinted: bool,
    pub(crate) exit: Option<Exit>,
    pub(crate) turned_ms: u64,
}

impl<L: Log> Intake<L> {
    /// An intake over a log; `report` is shown to others.
    pub fn new(
        log: L,
        offsets: Box<dyn Changelog>,
        form: Form,
        settings: IntakeSettings,
        report: Arc<Mutex<IntakeReport>>,
    ) -> Self {
        Self {
            log,
            offsets,
            form,
            settings,
            report,
            places: BTreeMap::new(),
            phase: Phase::Feeding,
            pending: Pending::default(),
            commits: RetryState::default(),
            polls: RetryState::default(),
            standstill: RetryState::default(),
            orders: None,
            has_hinted: false,
            exit: None,
            turned_ms: 0,
        }
    }

    fn next(&mut self, clock: &dyn Clock) -> Result<bool, Exit> {
        let now_ms = clock.mono_ms();
        match self.orders.as_ref().and_then(|orders| orders.try_recv().ok()) {
            Some(Order::Stop { leave }) => {
                self.commit(clock)?;
                self.rewind(now_ms);
                self.log.close(leave).map_err(|error| Exit::Failed(format!("closing: {error}")))?;
                return Err(Exit::Stopped);
            }
            // Policies and sessions are no matter of an intake.
            Some(Order::Policy(_) | Order::Ask(_)) => return Ok(true),
            None => {}
        }
        let mut wait_ms = self.settings.poll_ms_max;
        match self.phase {
            Phase::BackingOff(until_ms) if until_ms <= now_ms => return self.resume(clock).map(|()| true),
            Phase::Reopening(at_ms) if at_ms <= now_ms => return self.reopen(clock).map(|()| true),
            Phase::BackingOff(until_ms) | Phase::Reopening(until_ms) => wait_ms = wait_ms.min(until_ms - now_ms),
            Phase::Feeding => {
                let asking = self.places.iter().filter_map(|(id, place)| match place.state {
                    State::Asking(at_ms) => Some((at_ms, *id)),
                    _ => None,
                });
                match asking.min() {
                    Some((at_ms, id)) if at_ms <= now_ms => return self.ask(id, clock).map(|()| true),
                    Some((at_ms, _)) => wait_ms = wait_ms.min(at_ms - now_ms),
                    None => {}
                }
                match self.commit_due_in(now_ms) {
                    Some(0) => return self.commit(clock).map(|()| true),
                    Some(due_ms) => wait_ms = wait_ms.min(due_ms),
                    None => {}
                }
            }
        }
        let polled = self.poll(Duration::from_millis(wait_ms), clock);
        if polled.is_ok() && self.polls.is_quiet(clock.mono_ms()) {
            self.polls.reset();
        }
        match polled {
            Ok(LogEvent::Records(0)) => return Ok(false),
            Ok(LogEvent::Records(_)) => self.stop_tripped(clock)?,
            Ok(LogEvent::Assigned(ids)) => self.on_assigned(&ids, clock)?,
            Ok(LogEvent::Revoked(ids) | LogEvent::Lost(ids)) => self.on_revoked(&ids, clock)?,
            Ok(LogEvent::End) => {
                self.commit(clock)?;
                return if self.phase == Phase::Feeding { Err(Exit::Done) } else { Ok(true) };
            }
            Err(error) => self.on_log_error(error, clock)?,
        }
        Ok(true)
    }

    /// In how many milliseconds a commit is due; `None` where nothing waits.
    fn commit_due_in(&self, now_ms: u64) -> Option<u64> {
        let Pending { bytes, stats, since_ms, .. } = &self.pending;
        if self.places.values().any(SourcePartition::is_unwritten) {
            return Some(0);
        }
        if *bytes >= self.settings.bytes_max || stats.records >= self.settings.records_max {
            return Some(0);
        }
        since_ms.map(|since_ms| (since_ms + self.settings.commit_ms_max).saturating_sub(now_ms))
    }

    fn poll(&mut self, wait: Duration, clock: &dyn Clock) -> Result<LogEvent, LogError> {
        let Self { log, form, settings, places, phase, pending, .. } = self;
        let is_feeding = *phase == Phase::Feeding;
        let event = log.poll(wait, &mut |id, record| {
            let running = places.get_mut(&id).filter(|place| is_feeding && place.state == State::Running);
            // What is below the next offset was read already (rule C12); what is paused delivers nothing, or is read again after the seek.
            let Some(place) = running.filter(|place| record.meta.offset.0 >= place.next.0) else { return Flow::Continue };
            let is_malformed = pending.take(record, form, settings);
            place.next = NextOffset(record.meta.offset.0 + 1);
            let is_wave = is_malformed && place.window.note_malformed(Sender::of(record));
            if !is_malformed {
                place.window.note_event();
            }
            if is_wave {
                let why = format!(
                    "more than {BREAKER_SENDERS} senders sent what is no {}, within {BREAKER_RECORDS} records",
                    settings.form
                );
                place.state = State::Stopped(why);
                return Flow::Stop;
            }
            let is_full = pending.bytes >= settings.bytes_max || pending.stats.records >= settings.records_max;
            if is_full { Flow::Stop } else { Flow::Continue }
        });
        if pending.stats.records > 0 {
            pending.since_ms.get_or_insert_with(|| clock.mono_ms());
        }
        event
    }

    /// A wave of dead letters stops its partition (rule I10): a wrong form must not drain a topic. What was read of it is committed with
    /// the rest or not at all.
    fn stop_tripped(&mut self, clock: &dyn Clock) -> Result<(), Exit> {
        let is_new = |place: &SourcePartition| matches!(place.state, State::Stopped(_)) && place.committed != Some(place.next);
        let tripped: Vec<TaskId> = self.places.iter().filter(|(_, place)| is_new(place)).map(|(id, _)| *id).collect();
        if tripped.is_empty() {
            return Ok(());
        }
        self.commit(clock)?;
        for id in tripped {
            self.log.pause(id).or_else(|error| self.on_log_error(error, clock))?;
            if let Some(SourcePartition { state: State::Stopped(why), .. }) = self.places.get(&id) {
                tracing::error!(
                    code = "E0301",
                    topic = self.settings.topic,
                    partition = id.partition,
                    why,
                    "the partition is stopped"
                );
            }
        }
        self.show();
        Ok(())
    }

    pub(crate) fn running(&self) -> Vec<TaskId> {
        self.places.iter().filter(|(_, place)| place.state == State::Running).map(|(id, _)| *id).collect()
    }

    /// Asks the group where a partition stands, and reads it from there. Where it stood nowhere, its beginning is committed first: a second
    /// start must not begin elsewhere.
    fn ask(&mut self, id: TaskId, clock: &dyn Clock) -> Result<(), Exit> {
        let found = match self.place_of(id) {
            Ok(found) => found,
            Err(LogError::Transient(cause)) => {
                if let Some(place) = self.places.get_mut(&id) {
                    place.state = State::Asking(clock.mono_ms() + ASK_AGAIN_MS);
                }
                return self.stands_still(&cause, clock);
            }
            Err(error) => return self.on_log_error(error, clock),
        };
        let (committed, next, lost) = found;
        if lost > 0 {
            let (topic, partition) = (&self.settings.topic, id.partition);
            tracing::error!(code = "E0503", topic, partition, lost, "input was deleted before it was read");
            if self.settings.on_input_loss == OnInputLoss::Stop {
                let message = format!("{lost} records of {topic}/{partition} were deleted before they were read");
                return Err(Exit::Fatal { code: "E0503", message });
            }
            self.report.lock().unwrap_or_else(PoisonError::into_inner).stats.input_lost += lost;
        }
        let Some(place) = self.places.get_mut(&id) else { return Ok(()) };
        place.run(committed, next);
        // Else it is started by the commit that is due now.
        if place.is_touched() { Ok(()) } else { self.start(id, clock) }
    }

    /// The group's offset of a partition, the one to read next, and how many records in between are gone.
    fn place_of(&mut self, id: TaskId) -> Result<(Option<NextOffset>, NextOffset, u64), LogError> {
        let Some(committed) = self.offsets.committed(id, CONFIRM_WAIT)? else {
            return Ok((None, self.offsets.first_offset(id)?, 0));
        };
        let range = self.offsets.input_range(id)?;
        // Beyond the end it stands where brokers have lost what they had acknowledged.
        let next = committed.0.clamp(range.start, range.end.max(range.start));
        Ok((Some(committed), NextOffset(next), range.start.saturating_sub(committed.0)))
    }

    /// Reads a partition from where it stands.
    pub(crate) fn start(&mut self, id: TaskId, clock: &dyn Clock) -> Result<(), Exit> {
        let Some(place) = self.places.get(&id).filter(|place| place.state == State::Running) else { return Ok(()) };
        if self.phase != Phase::Feeding {
            return Ok(());
        }
        match self.log.start(id, place.next) {
            Err(LogError::Transient(cause)) => {
                self.stands_still(&cause, clock)?;
                self.phase = Phase::BackingOff(clock.mono_ms() + self.standstill.backoff_ms());
                Ok(())
            }
            Err(error) => self.on_log_error(error, clock),
            Ok(()) => Ok(()),
        }
    }

    fn resume(&mut self, clock: &dyn Clock) -> Result<(), Exit> {
        self.phase = Phase::Feeding;
        // What a pause left half read is read again from the last commit.
        self.rewind(clock.mono_ms());
        self.running().into_iter().try_for_each(|id| self.start(id, clock))?;
        if self.phase == Phase::Feeding {
            self.standstill.reset();
        }
        Ok(())
    }

    fn reopen(&mut self, clock: &dyn Clock) -> Result<(), Exit> {
        match self.log.reopen() {
            Ok(()) => self.resume(clock),
            Err(LogError::Transient(cause)) => {
                self.phase = Phase::Reopening(clock.mono_ms() + REOPEN_AGAIN_MS);
                self.stands_still(&cause, clock)
            }
            Err(error) => self.on_log_error(error, clock),
        }
    }

    fn stands_still(&mut self, cause: &str, clock: &dyn Clock) -> Result<(), Exit> {
        tracing::warn!(cause, topic = self.settings.topic, "the intake stands still");
        if self.standstill.is_exhausted_by(clock.mono_ms()) {
            return Err(Exit::Failed(format!(
                "nothing could be read of topic {} for three minutes: {cause}",
                self.settings.topic
            )));
        }
        Ok(())
    }

    fn on_assigned(&mut self, ids: &[TaskId], clock: &dyn Clock) -> Result<(), Exit> {
        tracing::info!(topic = self.settings.topic, partitions = ids.len(), "partitions assigned");
        if let Err(error) = self.log.assign(ids) {
            return self.refused(error, clock);
        }
        let now_ms = clock.mono_ms();
        self.places.extend(ids.iter().map(|id| (*id, SourcePartition::new(now_ms))));
        Ok(())
    }

    /// What is not committed is dropped (rule B3); the other partitions are read again from their last commit.
    fn on_revoked(&mut self, ids: &[TaskId], clock: &dyn Clock) -> Result<(), Exit> {
        tracing::info!(topic = self.settings.topic, partitions = ids.len(), "partitions revoked or lost");
        self.rewind(clock.mono_ms());
        self.places.retain(|id, _| !ids.contains(id));
        self.show();
        self.log.unassign(ids).or_else(|error| self.refused(error, clock))?;
        self.running().into_iter().try_for_each(|id| self.start(id, clock))
    }

    /// The client refused an answer about the assignment: it and the intake no longer agree.
    fn refused(&mut self, error: LogError, clock: &dyn Clock) -> Result<(), Exit> {
        match error {
            LogError::Transient(cause) | LogError::OutOfRange(cause) => Err(Exit::Failed(format!("assignment refused: {cause}"))),
            other => self.on_log_error(other, clock),
        }
    }

    pub(crate) fn on_log_error(&mut self, error: LogError, clock: &dyn Clock) -> Result<(), Exit> {
        let now_ms = clock.mono_ms();
        match error {
            LogError::Transient(cause) => {
                tracing::warn!(cause, topic = self.settings.topic, "log in trouble");
                if self.polls.is_exhausted_by(now_ms) {
                    return Err(Exit::Failed(format!("log in trouble for too long: {cause}")));
                }
                Ok(())
            }
            LogError::OutOfRange(cause) => {
                tracing::warn!(cause, topic = self.settings.topic, "asking the group where every partition stands");
                self.rewind(now_ms);
                for id in self.running() {
                    self.log.pause(id).or_else(|error| self.refused(error, clock))?;
                    if let Some(place) = self.places.get_mut(&id) {
                        place.state = State::Asking(now_ms);
                    }
                }
                Ok(())
            }
            // All that was handed over lies before it. A commit that fails is not the last one: what it covered is read again, up to here.
            LogError::Damaged(_) => {
                self.commit(clock)?;
                if self.phase == Phase::Feeding { Err(error.into()) } else { Ok(()) }
            }
            LogError::Lost(cause) => match self.log.rejoin(&cause) {
                Err(error @ (LogError::Lost(_) | LogError::Fatal { .. })) => Err(error.into()),
                joined => {
                    self.rewind(now_ms);
                    self.places.clear();
                    joined.or_else(|error| self.on_log_error(error, clock))
                }
            },
            LogError::Fatal { code, message } => Err(Exit::Fatal { code, message }),
        }
    }
}

impl<L: Log> Worker for Intake<L> {
    fn listen(&mut self, orders: Receiver<Order>) {
        self.orders = Some(orders);
    }

    fn turn(&mut self, clock: &dyn Clock) -> Turn {
        if let Some(exit) = &self.exit {
            return Turn::Ended(exit.clone());
        }
        self.turned_ms = clock.mono_ms();
        match self.next(clock) {
            Ok(true) => Turn::Worked,
            Ok(false) => Turn::Idle,
            Err(exit) => {
                self.rewind(self.turned_ms);
                match exit {
                    Exit::Done | Exit::Stopped => tracing::info!(%exit, topic = self.settings.topic, "intake ended"),
                    _ => tracing::error!(%exit, topic = self.settings.topic, "intake ended"),
                }
                self.exit = Some(exit.clone());
                Turn::Ended(exit)
            }
        }
    }

    fn report(&mut self) -> LaneReport {
        self.show();
        let failing = self.commits.in_row_at(self.turned_ms) + self.standstill.in_row_at(self.turned_ms);
        LaneReport {
            overlay_bytes: self.pending.bytes,
            has_opened: true,
            is_held_up: failing > 1 || self.polls.in_row_at(self.turned_ms) > 1,
            stopped: self.places.values().filter(|place| matches!(place.state, State::Stopped(_))).count(),
            ..LaneReport::default()
        }
    }
}
