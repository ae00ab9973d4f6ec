//! Changelog tail to store (page `commit`), as a machine that is stepped: by restore threads, by tests.
//!
//! The store may be anything older than the changelog's end; afterwards it is the changelog's end, and the Position says where the
//! input goes on. Whatever interrupts it, the next attempt starts from what is durable.

use std::sync::Arc;

use loopwarden_core::event::{EventTime, NextOffset, TaskId};
use loopwarden_core::limits::{RESTORE_BATCH_BYTES, RESTORE_FLUSH_BYTES};
use loopwarden_log::{Changelog, E_DAMAGED, Flow, LogError};
use loopwarden_state::{Change, KeyFamily, LoadBatch, Position, StateKey, StateStore, StoreError, migrate};

use crate::restored::{Ready, RestoreError, RestoreStep, Waited};
use crate::retention::is_too_old;
use crate::settings::{Clock, LaneSettings, OnInputLoss};
use crate::{Restoring, Task};

/// One wait for the group's stable offset. Milliseconds.
const ASK_MS: u64 = 1_000;
/// Pause between two looks at the changelog's end, and the shortest between two tries. Milliseconds.
const AGAIN_MS: u64 = 50;
/// Longest pause between two tries: brokers that are away for long need not be asked more often. Milliseconds.
const AGAIN_MS_MAX: u64 = 1_000;
/// A pause is one part in so many of how long it has failed.
const AGAIN_PART: u64 = 4;
/// How long errors that go away by themselves may last. Milliseconds.
const TRANSIENT_MS_MAX: u64 = 180_000;
/// Added to the transaction timeout: the broker's scan, and slack.
const MARKER_MS: u64 = 30_000;
/// How often an offset behind the Position is asked for again.
const ASKS_MAX: u32 = 5;

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// Look at the store and the range of the changelog.
    Begin,
    /// Ask for the group's offset, before the end is trusted (R3).
    Ask { from: u64 },
    /// Read to the end.
    Read { from: u64, group: Option<NextOffset> },
}

/// The restore of one task.
#[derive(Debug)]
pub struct Restore<S> {
    task: Option<Task<Restoring>>,
    id: TaskId,
    store: S,
    settings: Arc<LaneSettings>,
    phase: Phase,
    /// The Position in the store, or read since.
    position: Option<Position>,
    batch: LoadBatch,
    /// Loaded without a write-ahead log, not yet flushed.
    unflushed_bytes: u64,
    is_loaded: bool,
    /// When the store was last known to be at the end of its changelog: what is saved on the way there must not look younger.
    at_end_ms: i64,
    began_us: Option<u64>,
    /// End of the changelog as of the first look.
    end: u64,
    /// Whether a transaction was open in the changelog, or its marker on its way, when the group's offset was known.
    is_open: bool,
    waiting_since_ms: Option<u64>,
    failing_since_ms: Option<u64>,
    asks: u32,
    is_second: bool,
    bytes: u64,
    records: u64,
    waited: Waited,
}

/// A failure of a step: the log's, or final.
enum RetryState {
    Log(LogError),
    Final(RestoreError),
}

impl From<LogError> for RetryState {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}

impl From<StoreError> for RetryState {
    fn from(error: StoreError) -> Self {
        Self::Final(RestoreError::Store(error))
    }
}

fn stop(code: &'static str, message: String) -> RetryState {
    RetryState::Final(RestoreError::Stop { code, message })
}

impl<S: StateStore> Restore<S> {
    /// Begins to restore a task into a store.
    #[must_use]
    pub fn new(task: Task<Restoring>, store: S, settings: Arc<LaneSettings>) -> Self {
        let task_id = task.id();
        Self {
            id: task_id,
            task: Some(task),
            store,
            settings,
            phase: Phase::Begin,
            position: None,
            batch: LoadBatch::new(task_id),
            unflushed_bytes: 0,
            is_loaded: false,
            at_end_ms: 0,
            began_us: None,
            end: 0,
            is_open: false,
            waiting_since_ms: None,
            failing_since_ms: None,
            asks: 0,
            is_second: false,
            bytes: 0,
            records: 0,
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
                self.failing_since_ms = None;
                if let RestoreStep::Ready(ready) = &mut step {
                    ready.took_us = clock.mono_us().saturating_sub(first_us);
                    // The last step counts too.
                    ready.waited = self.waited;
                }
                step
            }
            Err(RetryState::Final(error)) => RestoreStep::Failed(error),
            Err(RetryState::Log(LogError::Transient(cause) | LogError::OutOfRange(cause))) => {
                let now = clock.mono_ms();
                let since = *self.failing_since_ms.get_or_insert(now);
                if now - since < TRANSIENT_MS_MAX {
                    tracing::debug!(task = %self.id, cause, "restore waits");
                    return RestoreStep::Again(((now - since) / AGAIN_PART).clamp(AGAIN_MS, AGAIN_MS_MAX));
                }
                let message = format!("changelog of {} cannot be read: {cause}", self.id);
                RestoreStep::Failed(RestoreError::Stop { code: "E0101", message })
            }
            Err(RetryState::Log(LogError::Damaged(message))) => {
                RestoreStep::Failed(RestoreError::Stop { code: E_DAMAGED, message })
            }
            Err(RetryState::Log(LogError::Lost(message))) => RestoreStep::Failed(RestoreError::Stop { code: "E0501", message }),
            Err(RetryState::Log(LogError::Fatal { code, message })) => RestoreStep::Failed(RestoreError::Stop { code, message }),
        }
    }

    /// Changelog offsets still to be read, as of the first look at its end.
    #[must_use]
    pub fn left(&self) -> u64 {
        match self.phase {
            Phase::Begin => 0,
            Phase::Ask { from } | Phase::Read { from, .. } => self.end.saturating_sub(from),
        }
    }

    fn take_stored(&mut self) -> Result<RestoreStep, RetryState> {
        let position = self.read_position()?;
        let is_first = position.is_none();
        Ok(self.ready(position.unwrap_or_else(|| first(NextOffset(0))), is_first, None))
    }

    fn try_step(&mut self, changelog: &mut (dyn Changelog + '_), clock: &dyn Clock) -> Result<RestoreStep, RetryState> {
        match self.phase {
            Phase::Begin => self.begin(changelog, clock),
            Phase::Ask { from } => {
                let group = changelog.committed(self.id, std::time::Duration::from_millis(ASK_MS))?;
                let is_open = changelog.has_open_transaction(self.id)?;
                if self.is_open && !is_open {
                    self.waiting_since_ms = None;
                }
                self.is_open = is_open;
                self.phase = Phase::Read { from, group };
                Ok(RestoreStep::Again(0))
            }
            Phase::Read { from, group } => {
                let (next, is_end) = self.read(changelog, from)?;
                self.phase = Phase::Read { from: next, group };
                if !is_end {
                    return Ok(RestoreStep::Again(0));
                }
                if self.is_open {
                    return Ok(self.await_marker(next, clock));
                }
                self.compare(changelog, next, group, clock)
            }
        }
    }

    fn read_position(&self) -> Result<Option<Position>, StoreError> {
        self.store.get(self.id, &StateKey::position())?.map(|bytes| Position::decode(&bytes)).transpose()
    }

    /// R2, R8: may the store be trusted, and from where on must the changelog be read?
    fn begin(&mut self, changelog: &mut (dyn Changelog + '_), clock: &dyn Clock) -> Result<RestoreStep, RetryState> {
        let range = changelog.range(self.id)?;
        let now_wall_ms = clock.wall_ms();
        self.end = range.end;
        let position = self.read_position()?;
        if let Some(position) = &position {
            self.expect_known(position)?;
        }
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
        let from = if let Some(position) = &trusted {
            self.at_end_ms = position.at_end_ms;
            position.changelog_next
        } else {
            self.store.wipe(self.id)?;
            // Whatever is read from here on is as young as that: its deletions stay in the log for long enough from now.
            self.at_end_ms = now_wall_ms;
            range.start
        };
        self.waiting_since_ms = None;
        self.position = trusted;
        self.phase = Phase::Ask { from };
        Ok(RestoreStep::Again(0))
    }

    /// R2: state of a newer program is not read, from the disk or from the changelog: values that look alike may mean something else.
    fn expect_known(&self, position: &Position) -> Result<(), StoreError> {
        let known = KeyFamily::ALL.into_iter().map(migrate::newest).max().unwrap_or_default();
        if position.codec <= u16::from(known) {
            return Ok(());
        }
        Err(StoreError::NewerFormat(format!(
            "{} has state of format {}, this program knows up to {known}; run the newer version",
            self.id, position.codec
        )))
    }

    /// R4: reads on; true when the end was reached.
    fn read(&mut self, changelog: &mut (dyn Changelog + '_), from: u64) -> Result<(u64, bool), RetryState> {
        let mut bad = None;
        let mut is_end = true;
        let next = changelog.read(self.id, from, &mut |offset, key, value| {
            let Some(family) = key.first().and_then(|byte| KeyFamily::from_byte(*byte)) else {
                bad = Some(StoreError::NewerFormat(format!("{}: unknown key in the changelog at offset {offset}", self.id)));
                is_end = false;
                return Flow::Stop;
            };
            self.records += 1;
            self.bytes += (key.len() + value.map_or(0, <[u8]>::len)) as u64;
            if family == KeyFamily::Position {
                let decoded = value.map(|value| Position::decode(value).and_then(|read| self.expect_known(&read).map(|()| read)));
                match decoded {
                    Some(Ok(position)) => self.position = Some(position),
                    Some(Err(error)) => {
                        bad = Some(error);
                        is_end = false;
                        return Flow::Stop;
                    }
                    None => self.position = None,
                }
                return Flow::Continue;
            }
            self.batch.push(key, value);
            if self.batch.bytes() < RESTORE_BATCH_BYTES {
                return Flow::Continue;
            }
            is_end = false;
            Flow::Stop
        })?;
        if let Some(error) = bad {
            return Err(error.into());
        }
        if !is_end {
            self.load()?;
            if self.unflushed_bytes >= RESTORE_FLUSH_BYTES {
                self.save_progress(next)?;
            }
        }
        Ok((next, is_end))
    }

    fn load(&mut self) -> Result<(), StoreError> {
        if !self.batch.is_empty() {
            self.store.load(&mut self.batch)?;
            self.is_loaded = true;
            self.unflushed_bytes += self.batch.bytes() as u64;
            self.batch.clear();
        }
        Ok(())
    }

    /// Position never ahead of data: first a flush of everything, then the Position. A second crash goes on from here.
    fn save_progress(&mut self, next: u64) -> Result<(), StoreError> {
        self.store.flush()?;
        self.unflushed_bytes = 0;
        // Halfway the state is a mixture of ages; whoever finds this Position reads on to the end before using it, and must know how
        // old the oldest part is: deletions of it may be in the tail that was not read.
        let position = self.position.clone().unwrap_or_default();
        let position = Position { changelog_next: next, at_end_ms: self.at_end_ms, ..position };
        self.store.commit(vec![self.position_change(&position)?])
    }

    fn position_change(&self, position: &Position) -> Result<Change, StoreError> {
        Ok(Change { task: self.id, key: StateKey::position(), value: Some(position.encode_for_store()?) })
    }

    /// R5: the changelog's Position against the group's offset.
    fn compare(
        &mut self,
        changelog: &mut (dyn Changelog + '_),
        next: u64,
        group: Option<NextOffset>,
        clock: &dyn Clock,
    ) -> Result<RestoreStep, RetryState> {
        let Some(position) = self.position.clone() else {
            let Some(group) = group else {
                self.finish(next, None, clock)?;
                let position = first(changelog.first_offset(self.id)?);
                return Ok(self.ready(position, true, None));
            };
            self.asks += 1;
            if self.asks < ASKS_MAX {
                self.phase = Phase::Ask { from: next };
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
                self.asks += 1;
                if self.asks < ASKS_MAX {
                    self.phase = Phase::Ask { from: next };
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
        let position = self.finish(next, Some(position), clock)?.unwrap_or_default();
        if position.next_offset.0 < input.start {
            let lost = (position.next_offset.0, input.start);
            if self.settings.on_input_loss == OnInputLoss::Stop {
                let message = format!("input of {} was deleted before it was read: offsets {} to {}", self.id, lost.0, lost.1);
                return Err(stop("E0503", message));
            }
            let position = Position { next_offset: NextOffset(input.start), ..position };
            return Ok(self.ready(position, false, Some(lost)));
        }
        Ok(self.ready(position, false, None))
    }

    /// Notes that a marker is waited for; true when it should have come by now, and then again each time as much has passed.
    fn is_late(&mut self, clock: &dyn Clock) -> bool {
        let now = clock.mono_ms();
        let since = *self.waiting_since_ms.get_or_insert(now);
        let is_late = now - since >= self.settings.transaction_timeout_ms + MARKER_MS;
        if is_late {
            self.waiting_since_ms = Some(now);
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
    fn await_marker(&mut self, next: u64, clock: &dyn Clock) -> RestoreStep {
        self.tell_if_late(clock);
        self.phase = Phase::Ask { from: next };
        RestoreStep::Again(AGAIN_MS)
    }

    /// Once: from the first record on. The second time somebody has moved the offsets.
    fn start_over(&mut self, position: &Position, group: NextOffset) -> Result<RestoreStep, RetryState> {
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
        self.waiting_since_ms = None;
        self.asks = 0;
        self.position = None;
        self.batch.clear();
        self.store.wipe(self.id)?;
        self.phase = Phase::Begin;
        Ok(RestoreStep::Again(0))
    }

    /// Makes what was read durable, the Position with it or after it.
    fn finish(&mut self, next: u64, position: Option<Position>, clock: &dyn Clock) -> Result<Option<Position>, StoreError> {
        let position = position.map(|position| Position { changelog_next: next, at_end_ms: clock.wall_ms(), ..position });
        if self.is_loaded {
            self.load()?;
            self.store.flush()?;
        }
        let mut changes = self.batch.to_changes();
        if let Some(position) = &position {
            changes.push(self.position_change(position)?);
        }
        self.store.commit(changes)?;
        self.batch.clear();
        Ok(position)
    }

    fn ready(&mut self, position: Position, is_first: bool, lost: Option<(u64, u64)>) -> RestoreStep {
        match self.task.take() {
            Some(task) => RestoreStep::Ready(Box::new(Ready {
                task,
                position,
                is_first,
                lost,
                bytes: self.bytes,
                records: self.records,
                took_us: 0,
                waited: Waited::default(),
            })),
            // Stepped again after it was done.
            None => RestoreStep::Again(AGAIN_MS),
        }
    }

    /// The task's name.
    #[must_use]
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
