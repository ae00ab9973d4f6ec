//! Changelog tail to store (page `commit`), as a machine that is stepped: by restore threads, by tests.
//!
//! The store may be anything older than the changelog's end; afterwards it is the changelog's end, and the Position says where the
//! input goes on. Whatever interrupts it, the next attempt starts from what is durable.

use std::{sync::Arc, time::Duration};

use loopwarden_core::event::{EventTime, NextOffset, TaskId};
use loopwarden_log::{Changelog, Flow, LogError};
use loopwarden_state::{Growth, Position, StateStore, StoreError};

use crate::health::{Since, TROUBLE_MS_MAX};
use crate::settings::{Clock, LaneSettings, OnTrouble};
use crate::task::outcome::{Ready, RestoreError, RestoreStep, Waited};
use crate::task::state::{Restoring, Task};
use crate::{restore::loader::Loader, task::retention::is_too_old};

/// One wait for the group's stable offset. Milliseconds.
const ASK_MS: u64 = 1_000;
/// The first one: where it is withheld, there is something else to do meanwhile. Milliseconds.
const ASK_FIRST_MS: u64 = 250;
/// Pause between two looks at the changelog's end, and the shortest between two tries. Milliseconds.
const AGAIN_MS: u64 = 50;
/// Longest pause between two tries: brokers that are away for long need not be asked more often. Milliseconds.
const AGAIN_MS_MAX: u64 = 1_000;
/// A pause is one part in so many of how long it has failed.
const AGAIN_PART: u64 = 4;
/// Added to the transaction timeout: the broker's scan, and slack.
const MARKER_MS: u64 = 30_000;
/// Between two tries to end what a dead owner left open. Milliseconds.
const EVICT_AGAIN_MS: u64 = 2_000;
/// How often an offset behind the Position is asked for again.
const ASKS_MAX: u32 = 5;

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// Look at the store and the range of the changelog.
    Begin,
    /// Ask for the group's offset, before the end is trusted (R3).
    Ask { from: u64 },
    /// Read to the end.
    Read { from: u64, group: Asked },
}

/// What the group has said.
#[derive(Debug, Clone, Copy)]
enum Asked {
    /// Nothing: it withholds an offset while a transaction on it is open. What is committed is read meanwhile.
    Withheld,
    /// Its offset, or that it has none.
    Said(Option<NextOffset>),
}

/// The restore of one task.
pub struct Restore {
    task: Option<Task<Restoring>>,
    id: TaskId,
    loader: Loader,
    settings: Arc<LaneSettings>,
    phase: Phase,
    began_us: Option<u64>,
    /// End of the changelog as of the first look.
    end: u64,
    /// Whether a transaction was open in the changelog, or its marker on its way, when the group's offset was known.
    is_open: bool,
    /// For a marker.
    waiting: Since,
    /// For a log that answers.
    failing: Since,
    /// The changelog was read once to its end: its Position says who wrote last.
    was_read: bool,
    /// When it was last tried to end what that owner left open, monotonic ms.
    evicted_ms: Option<u64>,
    asks: u32,
    is_second: bool,
    waited: Waited,
}

/// A failure of a step: the log's, or final.
enum StepError {
    Log(LogError),
    Final(RestoreError),
}

impl From<LogError> for StepError {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}

impl From<StoreError> for StepError {
    fn from(error: StoreError) -> Self {
        Self::Final(RestoreError::Store(error))
    }
}

fn stop(code: &'static str, message: String) -> StepError {
    StepError::Final(RestoreError::Stop { code, message })
}

impl Restore {
    /// Begins to restore a task into a store.
    pub fn new(task: Task<Restoring>, store: Box<dyn StateStore>, settings: Arc<LaneSettings>) -> Self {
        let task_id = task.id();
        Self {
            id: task_id,
            task: Some(task),
            loader: Loader::new(task_id, store),
            settings,
            phase: Phase::Begin,
            began_us: None,
            end: 0,
            is_open: false,
            waiting: Since::default(),
            failing: Since::default(),
            was_read: false,
            evicted_ms: None,
            asks: 0,
            is_second: false,
            waited: Waited::default(),
        }
    }

    /// Goes one step further: a question to the log, or a bounded part of the changelog. `changelog` is `None` where the state is
    /// the log itself, or nothing outlives the process.
    pub fn step(&mut self, changelog: Option<&mut (dyn Changelog + '_)>, clock: &dyn Clock) -> RestoreStep {
        let (phase, step_us) = (self.phase, clock.mono_us());
        let first_us = *self.began_us.get_or_insert(step_us);
        let result = match changelog {
            Some(changelog) => self.try_step(changelog, clock),
            None => self.take_stored(),
        };
        let waited = match phase {
            Phase::Begin => &mut self.waited.range_ms,
            Phase::Ask { .. } => &mut self.waited.group_ms,
            Phase::Read { .. } => &mut self.waited.read_ms,
        };
        *waited += clock.mono_us().saturating_sub(step_us) / 1_000;
        match result {
            Ok(mut step) => {
                self.failing = Since::default();
                if let RestoreStep::Ready(ready) = &mut step {
                    ready.took_us = clock.mono_us().saturating_sub(first_us);
                    // The last step counts too.
                    ready.waited = self.waited;
                }
                step
            }
            Err(StepError::Final(error)) => RestoreStep::Failed(error),
            Err(StepError::Log(LogError::Transient(cause) | LogError::OutOfRange(cause))) => {
                let failing_ms = self.failing.lasts_ms(clock.mono_ms());
                if failing_ms < TROUBLE_MS_MAX {
                    tracing::debug!(task = %self.id, cause, "restore waits");
                    return RestoreStep::Again((failing_ms / AGAIN_PART).clamp(AGAIN_MS, AGAIN_MS_MAX));
                }
                let message = format!("changelog of {} cannot be read: {cause}", self.id);
                RestoreStep::Failed(RestoreError::Stop { code: "E0101", message })
            }
            Err(StepError::Log(error)) => RestoreStep::Failed(error.into()),
        }
    }

    /// Changelog offsets still to be read, as of the first look at its end.
    pub fn left(&self) -> u64 {
        match self.phase {
            Phase::Begin => 0,
            Phase::Ask { from } | Phase::Read { from, .. } => self.end.saturating_sub(from),
        }
    }

    fn take_stored(&mut self) -> Result<RestoreStep, StepError> {
        let position = self.loader.stored()?;
        let is_first = position.is_none();
        Ok(self.ready(position.unwrap_or_else(|| first(NextOffset(0))), is_first, None))
    }

    fn try_step(&mut self, changelog: &mut (dyn Changelog + '_), clock: &dyn Clock) -> Result<RestoreStep, StepError> {
        match self.phase {
            Phase::Begin => self.begin(changelog, clock),
            Phase::Ask { from } => {
                let group = match changelog
                    .committed(self.id, Duration::from_millis(if self.was_read { ASK_MS } else { ASK_FIRST_MS }))
                {
                    Err(LogError::Transient(cause)) if !self.was_read => {
                        tracing::debug!(task = %self.id, cause, "the changelog is read before the group's offset is known");
                        self.phase = Phase::Read { from, group: Asked::Withheld };
                        return Ok(RestoreStep::Again(0));
                    }
                    Err(error) => {
                        self.evict(changelog, clock);
                        return Err(error.into());
                    }
                    Ok(group) => group,
                };
                let is_open = changelog.has_open_transaction(self.id)?;
                if self.is_open && !is_open {
                    self.waiting = Since::default();
                }
                self.is_open = is_open;
                self.phase = Phase::Read { from, group: Asked::Said(group) };
                Ok(RestoreStep::Again(0))
            }
            Phase::Read { from, group } => {
                let (next, is_end) = self.read(changelog, from)?;
                self.phase = Phase::Read { from: next, group };
                if !is_end {
                    return Ok(RestoreStep::Again(0));
                }
                self.was_read = true;
                match group {
                    Asked::Said(group) if !self.is_open => self.compare(changelog, next, group, clock),
                    _ => Ok(self.await_marker(changelog, next, clock)),
                }
            }
        }
    }

    /// R2, R8: may the store be trusted, and from where on must the changelog be read?
    fn begin(&mut self, changelog: &mut (dyn Changelog + '_), clock: &dyn Clock) -> Result<RestoreStep, StepError> {
        let range = changelog.range(self.id)?;
        let now_wall_ms = clock.wall_ms();
        self.end = range.end;
        let position = self.loader.stored()?;
        let trusted = match position {
            None => None,
            Some(position) if position.changelog_next > range.end => {
                if changelog.high_watermark(self.id)? >= position.changelog_next {
                    // It is all there: the last commit's marker is not.
                    self.tell_if_late(clock);
                    return Ok(RestoreStep::Again(AGAIN_MS));
                }
                tracing::error!(task = %self.id, changelog_next = position.changelog_next, end = range.end,
                    "the changelog lost acknowledged records; restoring what it has");
                None
            }
            Some(position) if position.changelog_next < range.start => {
                tracing::warn!(task = %self.id, changelog_next = position.changelog_next, start = range.start,
                    "state is older than the changelog; restoring all of it");
                None
            }
            Some(position) if is_too_old(&position, now_wall_ms, self.settings.delete_retention_ms) => {
                tracing::warn!(task = %self.id, at_end_ms = position.at_end_ms,
                    "state was away for longer than deletions are kept; restoring all of it");
                None
            }
            trusted => trusted,
        };
        let from = if let Some(position) = trusted {
            let from = position.changelog_next;
            self.loader.trust(position);
            from
        } else {
            self.loader.begin_anew(now_wall_ms)?;
            range.start
        };
        self.waiting = Since::default();
        self.phase = Phase::Ask { from };
        Ok(RestoreStep::Again(0))
    }

    /// R4: reads on; true when the end was reached.
    fn read(&mut self, changelog: &mut (dyn Changelog + '_), from: u64) -> Result<(u64, bool), StepError> {
        let mut failed = None;
        let mut is_end = true;
        let loader = &mut self.loader;
        let next = changelog.read(self.id, from, &mut |offset, key, value| {
            let flow = loader.take(offset, key, value).unwrap_or_else(|error| {
                failed = Some(error);
                Flow::Stop
            });
            is_end &= flow == Flow::Continue;
            flow
        })?;
        if let Some(error) = failed {
            return Err(error.into());
        }
        if !is_end {
            loader.load_up_to(next)?;
        }
        Ok((next, is_end))
    }

    /// R5: the changelog's Position against the group's offset.
    fn compare(
        &mut self,
        changelog: &mut (dyn Changelog + '_),
        next: u64,
        group: Option<NextOffset>,
        clock: &dyn Clock,
    ) -> Result<RestoreStep, StepError> {
        let Some(position) = self.loader.position.clone() else {
            let Some(group) = group else {
                self.loader.finish(next, None, clock.wall_ms())?;
                self.expect_grown()?;
                let position = first(changelog.first_offset(self.id)?);
                return Ok(self.ready(position, true, None));
            };
            if self.is_asked_again(next) {
                return Ok(RestoreStep::Again(AGAIN_MS));
            }
            let hint = reset_hint(self.id);
            return Err(stop(
                "E0105",
                format!("the group stands at {group} in the input of {}, but its changelog is empty; {hint}", self.id),
            ));
        };
        if let Some(group) = group {
            if position.next_offset < group {
                // A leader that is new may not show yet what its followers have. Not for ever.
                if self.is_late(clock) {
                    return self.start_over(&position, group);
                }
                self.phase = Phase::Ask { from: next };
                return Ok(RestoreStep::Again(AGAIN_MS));
            }
            if position.next_offset > group {
                if self.is_asked_again(next) {
                    return Ok(RestoreStep::Again(AGAIN_MS));
                }
                return self.start_over(&position, group);
            }
        }
        let input = changelog.input_range(self.id)?;
        if position.next_offset.0 > input.end {
            let message = format!(
                "{} stands at {}, but its input ends at {}: the topic was made anew; {}",
                self.id,
                position.next_offset,
                input.end,
                reset_hint(self.id)
            );
            return Err(stop("E0502", message));
        }
        let position = self.loader.finish(next, Some(position), clock.wall_ms())?.unwrap_or_default();
        self.complete(position, input.start)
    }

    /// Asks for the group's offset once more; false where it was asked often enough.
    const fn is_asked_again(&mut self, from: u64) -> bool {
        self.asks += 1;
        if self.asks < ASKS_MAX {
            self.phase = Phase::Ask { from };
        }
        self.asks < ASKS_MAX
    }

    /// The state is complete; of its input, what came before `input_start` is gone.
    fn complete(&mut self, position: Position, input_start: u64) -> Result<RestoreStep, StepError> {
        self.expect_grown()?;
        if position.next_offset.0 < input_start {
            let lost = (position.next_offset.0, input_start);
            if self.settings.on_input_loss == OnTrouble::Stop {
                let message = format!("input of {} was deleted before it was read: offsets {} to {}", self.id, lost.0, lost.1);
                return Err(stop("E0503", message));
            }
            let position = Position { next_offset: NextOffset(input_start), ..position };
            return Ok(self.ready(position, false, Some(lost)));
        }
        Ok(self.ready(position, false, None))
    }

    /// R10: sessions that are on their way to another task are judged by nobody.
    fn expect_grown(&self) -> Result<(), StepError> {
        let Some(Growth { from, to }) = self.loader.growth()? else { return Ok(()) };
        let message = format!(
            "the input of {} is growing from {from} to {to} partitions, and that has not ended; stop every process, then end it:\n  \
             loopwarden topics grow --partitions {to}",
            self.id
        );
        Err(stop("E0104", message))
    }

    /// Notes that a marker is waited for; true when it should have come by now, and then again each time as much has passed.
    fn is_late(&mut self, clock: &dyn Clock) -> bool {
        let now_ms = clock.mono_ms();
        let is_late = self.waiting.lasts_ms(now_ms) >= self.settings.transaction_timeout_ms + MARKER_MS;
        if is_late {
            self.waiting = Since::at(now_ms);
        }
        is_late
    }

    fn tell_if_late(&mut self, clock: &dyn Clock) {
        if self.is_late(clock) {
            tracing::warn!(task = %self.id, "a transaction in the changelog is not over; its outcome is waited for");
        }
    }

    /// A transaction was open when the end was asked for, or its marker on its way: both end, and what is read until then may lack the last
    /// commit. The group's offset need not show it, since a commit of timers alone moves none.
    fn await_marker(&mut self, changelog: &mut (dyn Changelog + '_), next: u64, clock: &dyn Clock) -> RestoreStep {
        self.tell_if_late(clock);
        self.evict(changelog, clock);
        self.phase = Phase::Ask { from: next };
        RestoreStep::Again(AGAIN_MS)
    }

    /// R9: ends the transaction of the task's last owner where the group has forgotten that lane. Else the broker does so, after the
    /// transaction's time-out and a scan. To be asked while something is waited for that an open transaction would explain.
    fn evict(&mut self, changelog: &mut (dyn Changelog + '_), clock: &dyn Clock) {
        let now_ms = clock.mono_ms();
        let Some(owner) = self.loader.position.as_ref().map(|position| position.owner.as_str()) else { return };
        if owner.is_empty() || self.evicted_ms.is_some_and(|before_ms| now_ms < before_ms + EVICT_AGAIN_MS) {
            return;
        }
        self.evicted_ms = Some(now_ms);
        match changelog.evict(owner) {
            Ok(true) => tracing::info!(task = %self.id, owner, "ended what a lane left open that the group has forgotten"),
            Ok(false) => {}
            Err(cause) => tracing::warn!(task = %self.id, owner, %cause, "an open transaction is left to its time-out"),
        }
    }

    /// Once: from the first record on. The second time somebody has moved the offsets.
    fn start_over(&mut self, position: &Position, group: NextOffset) -> Result<RestoreStep, StepError> {
        if self.is_second {
            let message = format!(
                "{} stands at {} in its changelog, but the group at {group}: somebody moved the offsets; {}",
                self.id,
                position.next_offset,
                reset_hint(self.id)
            );
            return Err(stop("E0502", message));
        }
        tracing::warn!(task = %self.id, next = %position.next_offset, group = %group, "changelog and group disagree; restoring everything once");
        self.is_second = true;
        self.waiting = Since::default();
        self.asks = 0;
        self.loader.begin_anew(0)?;
        self.phase = Phase::Begin;
        Ok(RestoreStep::Again(0))
    }

    fn ready(&mut self, position: Position, is_first: bool, lost: Option<(u64, u64)>) -> RestoreStep {
        match self.task.take() {
            Some(task) => RestoreStep::Ready(Box::new(Ready {
                task,
                position,
                is_first,
                lost,
                bytes: self.loader.bytes,
                records: self.loader.records,
                took_us: 0,
                waited: Waited::default(),
            })),
            // Stepped again after it was done.
            None => RestoreStep::Again(AGAIN_MS),
        }
    }

    /// The task's name.
    pub const fn id(&self) -> TaskId {
        self.id
    }
}

/// Where a task begins that nobody ever ran: no event has been, so no timer can be due.
fn first(next_offset: NextOffset) -> Position {
    Position { next_offset, watermark: EventTime(i64::MIN), ..Position::default() }
}

fn reset_hint(task: TaskId) -> String {
    format!("see what `loopwarden reset task {}:{}` would lose", task.stage.as_str(), task.partition)
}
