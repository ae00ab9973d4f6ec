//! The log of one lane over recorded events. It is fed between two turns of its lane ([`Fed`]), and what the lane has committed is taken
//! from it there ([`Stepped`]): it waits for nothing and shares nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::{sync::mpsc::SyncSender, time::Duration};

use loopwarden_core::engine::Command;
use loopwarden_core::event::{EventTime, NextOffset, Record, RecordMeta, RecordOffset, Stage, TaskId};
use loopwarden_log::{Changelog, CommitOutcome, Flow, Log, LogError, LogEvent, Output, StagedSum};
use loopwarden_state::{StoreError, report::Sum};

use crate::{file::chunk::Chunk, file::options::FileOptions};

/// Dead letters of a lane that are kept with their place and reason. All are counted.
const DEAD_LETTERS_MAX: usize = 1_000;

/// How far the input of a lane is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputState {
    Open,
    /// Every line was fed, the newest of any lane recorded at this time; sums may follow.
    Read(Option<EventTime>),
    /// Nothing follows, and what was not handed over is left out.
    Over,
}

/// What a lane is fed before it is turned.
#[derive(Debug)]
pub(crate) struct Fed {
    pub(crate) chunk: Option<Chunk>,
    pub(crate) sums: Vec<SumRecord>,
    pub(crate) input: InputState,
}

/// What a lane has come to when it was turned until it had nothing to do.
#[derive(Debug, Default)]
pub(crate) struct Stepped {
    pub(crate) collected: Vec<Collected>,
    /// Sums for the swarm stage, with the line that each belongs to.
    pub(crate) sums: Vec<(u64, StagedSum)>,
    /// Line before which every line of the lane is committed.
    pub(crate) floor: u64,
    /// Line of the first sum that it holds uncommitted.
    pub(crate) held: Option<u64>,
}

/// A sum on its way to the swarm stage.
#[derive(Debug)]
pub(crate) struct SumRecord {
    pub(crate) partition: u32,
    pub(crate) offset: u64,
    /// The line that it belongs to.
    pub(crate) line: u64,
    pub(crate) staged: StagedSum,
}

/// What a lane has published.
#[derive(Debug, Clone, PartialEq)]
pub struct Collected {
    /// Line that caused it; of the swarm stage, that of the last call in the sums that caused it.
    pub line: u64,
    pub task: TaskId,
    pub published: Published,
}

/// Commands and dead letters: of all that a lane publishes, a reader of recorded events asks for no more.
#[derive(Debug, Clone, PartialEq)]
pub enum Published {
    /// A command; and its record, where the log was asked to write it.
    Command(Box<Command>, Option<Output>),
    /// What is no event: headers have its reason. Its value stands in the input.
    DeadLetter(Output),
}

/// What becomes of a record when a lane looks at it.
enum Verdict {
    Deliver,
    Skip,
    Wait,
}

/// The lines that a lane was fed, as far as they are not behind its last commit: it can rewind to that.
#[derive(Debug, Default)]
struct LineQueue {
    chunks: VecDeque<Chunk>,
    /// Chunk and line of it to look at next.
    cursor: (usize, usize),
    /// Line before which everything was looked at.
    position: u64,
}

/// The sums that a lane was fed, likewise.
#[derive(Debug, Default)]
struct SumQueue {
    records: VecDeque<SumRecord>,
    cursor: usize,
}

/// What has happened since the last commit.
#[derive(Debug)]
struct SinceCommit {
    records: u64,
    /// Lines of records whose offset is not their line.
    lines: BTreeMap<(TaskId, u64), u64>,
    /// Line of the record handed over last.
    last: u64,
    published: Vec<Collected>,
    sums: Vec<StagedSum>,
}

/// A lane's log over recorded events.
#[derive(Debug)]
pub struct RecordedLog {
    owner: String,
    options: FileOptions,
    /// Whether the records of commands are written.
    writes_commands: bool,
    used: Option<SyncSender<Chunk>>,
    input: InputState,
    /// Next offsets of the tasks that are read.
    next: BTreeMap<TaskId, u64>,
    /// Every task of the lane; and those of them that it is to be assigned.
    tasks: BTreeSet<TaskId>,
    to_assign: Vec<TaskId>,
    lines: LineQueue,
    sums: SumQueue,
    since_commit: SinceCommit,
    /// Sums that were handed over before the poll that follows.
    sums_polled: usize,
    letters_left: usize,
    stepped: Stepped,
}

impl RecordedLog {
    /// The log of a lane, with nothing in it: it has every partition whose number mod `options.lanes` is the lane's.
    pub(crate) fn new(lane: u32, options: &FileOptions) -> Self {
        let mut log = Self {
            owner: format!("{}-replay-{lane}", options.app),
            options: options.clone(),
            writes_commands: false,
            used: None,
            input: InputState::Open,
            next: BTreeMap::new(),
            tasks: BTreeSet::new(),
            to_assign: Vec::new(),
            lines: LineQueue::default(),
            sums: SumQueue::default(),
            since_commit: SinceCommit { records: 0, lines: BTreeMap::new(), last: 0, published: Vec::new(), sums: Vec::new() },
            sums_polled: 0,
            letters_left: DEAD_LETTERS_MAX,
            stepped: Stepped::default(),
        };
        for partition in (0..options.partitions).filter(|partition| partition % options.lanes.max(1) == lane) {
            log.note_task(session(partition));
            log.note_task(TaskId { stage: Stage::Swarm, partition });
        }
        log
    }

    pub(crate) const fn partitions(&self) -> u32 {
        self.options.partitions
    }

    /// Writes the records of commands too.
    pub(crate) const fn writing_commands(mut self, writes_commands: bool) -> Self {
        self.writes_commands = writes_commands;
        self
    }

    /// Gives chunks back once they are behind a commit.
    pub(crate) fn giving_back(mut self, used: SyncSender<Chunk>) -> Self {
        self.used = Some(used);
        self
    }

    /// Takes what is to be handed over by the next polls. Partitions that only a `_record` names become tasks when they come.
    pub(crate) fn feed(&mut self, fed: Fed) {
        if let (InputState::Open, InputState::Read(Some(newest))) = (self.input, fed.input) {
            let sessions = self.next.iter().filter(|(task, _)| task.stage == Stage::Session);
            let ends = sessions.map(|(task, next)| (task.partition, *next));
            self.lines.chunks.push_back(Chunk::of_ticks(self.lines.position, newest, ends));
        }
        self.input = fed.input;
        self.sums.records.extend(fed.sums);
        let Some(chunk) = fed.chunk else { return };
        let mut last = None;
        for line in &chunk.lines {
            if line.partition >= self.options.partitions && last != Some(line.partition) {
                last = Some(line.partition);
                self.note_task(session(line.partition));
            }
        }
        self.lines.chunks.push_back(chunk);
    }

    /// Takes out what was committed, and notes how far the lane is.
    pub(crate) fn stepped(&mut self) -> Stepped {
        if self.since_commit.records == 0 {
            self.stepped.floor = self.lines.position;
        }
        self.stepped.held = self.sums.records.iter().map(|sum| sum.line).min();
        let Stepped { floor, held, .. } = self.stepped;
        std::mem::replace(&mut self.stepped, Stepped { floor, held, ..Stepped::default() })
    }

    /// Notes a task that the lane is to be assigned.
    fn note_task(&mut self, task: TaskId) {
        if self.tasks.insert(task) {
            self.to_assign.push(task);
        }
    }

    fn verdict(&self, task: TaskId, offset: u64) -> Verdict {
        match self.next.get(&task) {
            None => Verdict::Wait,
            Some(next) if offset >= *next => Verdict::Deliver,
            Some(_) => Verdict::Skip,
        }
    }

    /// Notes that a record is being handed over.
    fn note_handed_over(&mut self, task: TaskId, line: u64, offset: u64) {
        self.next.insert(task, offset + 1);
        if offset != line || task.stage == Stage::Swarm {
            self.since_commit.lines.insert((task, offset), line);
        }
        self.since_commit.last = line;
        self.since_commit.records += 1;
    }

    /// Hands over sums; how many.
    fn read_sums(&mut self, room: usize, handler: &mut dyn FnMut(TaskId, &Record<'_>, &Sum) -> Flow) -> usize {
        let mut handed_over = 0;
        let sums = std::mem::take(&mut self.sums.records);
        let names = self.options.names.clone();
        while let Some(sum) = sums.get(self.sums.cursor) {
            let task = TaskId { stage: Stage::Swarm, partition: sum.partition };
            match self.verdict(task, sum.offset) {
                Verdict::Wait => break,
                Verdict::Skip => self.sums.cursor += 1,
                Verdict::Deliver if handed_over == room => break,
                Verdict::Deliver => {
                    let meta = RecordMeta {
                        topic: names.of(Stage::Swarm),
                        partition: sum.partition,
                        offset: RecordOffset(sum.offset),
                        timestamp: EventTime(sum.staged.timestamp_ms),
                        key: Some(&sum.staged.key),
                        headers: Vec::new(),
                        value_bytes_max: self.options.value_bytes_max,
                    };
                    self.note_handed_over(task, sum.line, sum.offset);
                    handed_over += 1;
                    // It stays where the lane stops at it: the lane may ask for it again after a commit. Else it is passed by.
                    if handler(task, &Record::new(meta, None), &sum.staged.sum) == Flow::Stop {
                        break;
                    }
                    self.sums.cursor += 1;
                }
            }
        }
        self.sums.records = sums;
        handed_over
    }

    fn read_lines(&mut self, mut room: usize, handler: &mut dyn FnMut(TaskId, &Record<'_>) -> Flow) {
        let chunks = std::mem::take(&mut self.lines.chunks);
        let names = self.options.names.clone();
        'chunks: while let Some(chunk) = chunks.get(self.lines.cursor.0) {
            while let Some(line) = chunk.lines.get(self.lines.cursor.1) {
                let task = session(line.partition);
                match self.verdict(task, line.offset) {
                    Verdict::Wait => break 'chunks,
                    Verdict::Skip => {}
                    Verdict::Deliver if room == 0 => break 'chunks,
                    Verdict::Deliver => {
                        let record = chunk.record(line, &names, self.options.value_bytes_max);
                        // As with sums.
                        self.note_handed_over(task, line.line, line.offset);
                        if handler(task, &record) == Flow::Stop {
                            break 'chunks;
                        }
                        room -= 1;
                    }
                }
                self.lines.position = self.lines.position.max(line.line + 1);
                self.lines.cursor.1 += 1;
            }
            self.lines.position = self.lines.position.max(chunk.upto);
            self.lines.cursor = (self.lines.cursor.0 + 1, 0);
        }
        self.lines.chunks = chunks;
    }

    /// Passes by the records that the lane has stopped at, where the offsets that it commits are behind them.
    fn pass_by(&mut self, offsets: &[(TaskId, NextOffset)]) {
        let is_done = |task, offset| offsets.iter().any(|(of, next)| *of == task && offset < next.0);
        if let Some(sum) = self.sums.records.get(self.sums.cursor)
            && is_done(TaskId { stage: Stage::Swarm, partition: sum.partition }, sum.offset)
        {
            self.sums.cursor += 1;
        }
        if let Some(chunk) = self.lines.chunks.get(self.lines.cursor.0)
            && let Some(line) = chunk.lines.get(self.lines.cursor.1)
            && is_done(session(line.partition), line.offset)
        {
            self.lines.position = self.lines.position.max(line.line + 1);
            self.lines.cursor.1 += 1;
            if self.lines.cursor.1 == chunk.lines.len() {
                self.lines.position = self.lines.position.max(chunk.upto);
                self.lines.cursor = (self.lines.cursor.0 + 1, 0);
            }
        }
    }

    /// Drops what is behind the last commit.
    fn forget(&mut self) {
        for chunk in self.lines.chunks.drain(..self.lines.cursor.0.min(self.lines.chunks.len())) {
            if let Some(used) = &self.used {
                // A reader that is gone, or has enough, needs no memory.
                let _ = used.try_send(chunk);
            }
        }
        self.lines.cursor.0 = 0;
        self.sums.records.drain(..self.sums.cursor.min(self.sums.records.len()));
        self.sums.cursor = 0;
        self.since_commit.lines.clear();
    }

    /// Sums with the line they belong to: the first of this commit that was recorded as late as the last call they sum up.
    fn placed(&self, sums: &mut Vec<StagedSum>) -> Vec<(u64, StagedSum)> {
        if sums.is_empty() {
            return Vec::new();
        }
        let (chunk, line) = self.lines.cursor;
        let whole = self.lines.chunks.iter().take(chunk).flat_map(|chunk| &chunk.lines);
        let begun = self.lines.chunks.get(chunk).into_iter().flat_map(|chunk| chunk.lines.iter().take(line));
        // The latest time up to each line: it never falls, so the first line at or after a time is found by halving.
        let mut latest_ms = i64::MIN;
        let read: Vec<(i64, u64)> = whole
            .chain(begun)
            .map(|line| {
                latest_ms = latest_ms.max(line.timestamp_ms);
                (latest_ms, line.line)
            })
            .collect();
        let line_at = |time_ms| {
            let found = read.get(read.partition_point(|(latest_ms, _)| *latest_ms < time_ms));
            found.map_or_else(|| self.lines.position.saturating_sub(1), |(_, line)| *line)
        };
        sums.drain(..).map(|sum| (line_at(sum.timestamp_ms), sum)).collect()
    }

    fn publish(&mut self, (task, offset): (TaskId, RecordOffset), published: Published) {
        let known = self.since_commit.lines.get(&(task, offset.0)).copied();
        let line = known.unwrap_or(if task.stage == Stage::Session { offset.0 } else { self.since_commit.last });
        self.since_commit.published.push(Collected { line, task, published });
    }
}

const fn session(partition: u32) -> TaskId {
    TaskId { stage: Stage::Session, partition }
}

impl Log for RecordedLog {
    fn swarm_partitions(&self) -> u32 {
        self.options.partitions
    }

    fn poll_sums(&mut self, handler: &mut dyn FnMut(TaskId, &Record<'_>, &Sum) -> Flow) -> usize {
        let is_open = self.to_assign.is_empty() && self.input != InputState::Over;
        self.sums_polled = if is_open { self.read_sums(self.options.poll_records_max.max(1), handler) } else { 0 };
        self.sums_polled
    }

    /// Never waits. With uncommitted work, [`LogEvent::End`] asks for a commit; an `End` with nothing uncommitted is the last.
    fn poll(&mut self, _wait: Duration, handler: &mut dyn FnMut(TaskId, &Record<'_>) -> Flow) -> Result<LogEvent, LogError> {
        if !self.to_assign.is_empty() {
            return Ok(LogEvent::Assigned(std::mem::take(&mut self.to_assign)));
        }
        if self.input == InputState::Over {
            return Ok(LogEvent::End);
        }
        let sums = std::mem::take(&mut self.sums_polled);
        let before = self.since_commit.records.saturating_sub(sums as u64);
        self.read_lines(self.options.poll_records_max.max(1).saturating_sub(sums), handler);
        if self.since_commit.records == 0 {
            self.forget();
        }
        let handed_over = self.since_commit.records - before;
        let is_at_end = self.lines.cursor.0 >= self.lines.chunks.len() && self.sums.cursor >= self.sums.records.len();
        Ok(match self.input {
            InputState::Read(_) if handed_over == 0 && is_at_end && before > 0 => LogEvent::End,
            _ => LogEvent::Records(handed_over as usize),
        })
    }

    fn assign(&mut self, _tasks: &[TaskId]) -> Result<(), LogError> {
        Ok(())
    }

    /// Reaches back to the last commit, not further.
    fn start(&mut self, task: TaskId, next: NextOffset) -> Result<(), LogError> {
        self.next.insert(task, next.0);
        // What other tasks have had passes by.
        match task.stage {
            Stage::Session => self.lines.cursor = (0, 0),
            Stage::Swarm => self.sums.cursor = 0,
        }
        Ok(())
    }

    /// Records of a paused task wait, and so do those behind them: nothing pauses a task for good.
    fn pause(&mut self, task: TaskId) -> Result<(), LogError> {
        self.next.remove(&task);
        Ok(())
    }

    fn unassign(&mut self, tasks: &[TaskId]) -> Result<(), LogError> {
        tasks.iter().try_for_each(|task| self.pause(*task))
    }

    /// State rows are as many as the commands, and nobody asks for them. Sums come as values.
    fn stage(&mut self, _: Output) {}

    fn stage_sum(&mut self, sum: StagedSum) -> Result<(), StoreError> {
        self.since_commit.sums.push(sum);
        Ok(())
    }

    fn stage_from(&mut self, cause: (TaskId, RecordOffset), letter: Output) {
        self.publish(cause, Published::DeadLetter(Output { value: None, ..letter }));
    }

    fn stage_command(&mut self, cause: (TaskId, RecordOffset), command: &Command, write: &mut dyn FnMut(&Command) -> Output) {
        let record = self.writes_commands.then(|| write(command));
        self.publish(cause, Published::Command(Box::new(command.clone()), record));
    }

    fn discard(&mut self) {
        self.since_commit.published.clear();
        self.since_commit.sums.clear();
    }

    fn commit(&mut self, offsets: &[(TaskId, NextOffset)]) -> CommitOutcome {
        if offsets.is_empty() {
            self.discard();
            return CommitOutcome::Aborted { cause: "a transaction without offsets would be unfenced".to_owned(), reopen: false };
        }
        for collected in std::mem::take(&mut self.since_commit.published) {
            if matches!(collected.published, Published::DeadLetter(_)) {
                let Some(left) = self.letters_left.checked_sub(1) else { continue };
                self.letters_left = left;
            }
            self.stepped.collected.push(collected);
        }
        // The record that the lane has stopped at is among those that its sums belong to.
        self.pass_by(offsets);
        let mut sums = std::mem::take(&mut self.since_commit.sums);
        let placed = self.placed(&mut sums);
        self.stepped.sums.extend(placed);
        self.since_commit.sums = sums;
        self.since_commit.records = 0;
        self.stepped.floor = self.lines.position;
        self.forget();
        CommitOutcome::Committed { changelog_next: Vec::new() }
    }

    fn reopen(&mut self) -> Result<(), LogError> {
        self.discard();
        Ok(())
    }

    fn changelog(&self) -> Result<Option<Box<dyn Changelog>>, LogError> {
        Ok(None)
    }

    fn keeps_changelog(&self) -> bool {
        self.options.keeps_state
    }

    fn commits_state(&self) -> bool {
        false
    }

    fn owner(&self) -> &str {
        &self.owner
    }

    fn close(&mut self, _leave: bool) -> Result<(), LogError> {
        self.input = InputState::Over;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
