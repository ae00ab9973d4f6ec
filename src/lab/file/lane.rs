//! The log of one lane of a replay.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use loopwarden_core::engine::Command;
use loopwarden_core::event::{EventTime, Header, NextOffset, Outline, Record, RecordMeta, RecordOffset, Stage, TaskId};
use loopwarden_log::{Changelog, CommitOutcome, Destination, Flow, InputNames, Log, LogError, LogEvent, Output};

use crate::file::collector::{Collected, Collector};
use crate::file::exchange::{Chunk, More, PlacedLine, Shared, SwarmRecord, Value};
use crate::file::options::{FileOptions, REPLAY_PARTITIONS};
use crate::file::watch::Watcher;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Running {
    /// Assigned, not started yet: its first record waits.
    NotYet,
    Yes,
    /// Its records pass by.
    No,
}

#[derive(Debug, Clone, Copy)]
struct Reading {
    next: u64,
    running: Running,
}

/// What is left of a poll's bound.
struct Room {
    left: usize,
    handed_over: usize,
    /// Of them, those of the session stage.
    events: u64,
}

/// Where a record ends up when a lane looks at it.
enum Verdict {
    Deliver,
    Skip,
    Wait,
}

/// A lane's view of a replay. What it has handed over stays until the commit, so that a lane can rewind to its last one.
#[derive(Debug)]
pub struct FileLog {
    lane: u32,
    owner: String,
    names: InputNames,
    value_bytes_max: usize,
    poll_records_max: usize,
    shared: Arc<Shared>,
    collector: Collector,
    readings: BTreeMap<TaskId, Reading>,
    /// Tasks the lane was told of, or is to be told of.
    told: BTreeSet<TaskId>,
    to_tell: Vec<TaskId>,
    chunks: VecDeque<Chunk>,
    /// Chunk and line of it to look at next.
    cursor: (usize, usize),
    reports: VecDeque<SwarmRecord>,
    report_cursor: usize,
    /// Line before which everything was looked at.
    position: u64,
    /// Records handed over since the last commit.
    uncommitted: u64,
    /// Lines of records since the last commit whose offset is not their line.
    lines: BTreeMap<(TaskId, u64), u64>,
    last: (TaskId, u64),
    staged: Vec<Collected>,
    watcher: Option<Watcher>,
}

impl FileLog {
    pub(super) fn new(lane: u32, options: &FileOptions, shared: Arc<Shared>, collector: Collector) -> Self {
        let mut log = Self {
            lane,
            owner: format!("{}-replay-{lane}", options.app),
            names: options.names.clone(),
            value_bytes_max: options.value_bytes_max,
            poll_records_max: options.poll_records_max,
            shared,
            collector,
            readings: BTreeMap::new(),
            told: BTreeSet::new(),
            to_tell: Vec::new(),
            chunks: VecDeque::new(),
            cursor: (0, 0),
            reports: VecDeque::new(),
            report_cursor: 0,
            position: 0,
            uncommitted: 0,
            lines: BTreeMap::new(),
            last: (session(0), 0),
            staged: Vec::new(),
            watcher: None,
        };
        for partition in (0..REPLAY_PARTITIONS).filter(|partition| partition % options.lanes.max(1) == lane) {
            log.note_task(session(partition));
            log.note_task(TaskId { stage: Stage::Swarm, partition });
        }
        log
    }

    pub(crate) fn watched_by(mut self, watcher: Watcher) -> Self {
        self.watcher = Some(watcher);
        self
    }

    /// Notes the tasks of the lane that it is to be told of.
    fn note_task(&mut self, task: TaskId) {
        if self.told.insert(task) {
            self.to_tell.push(task);
        }
    }

    /// Partitions that only a `_record` names become tasks when they come.
    fn note_tasks(&mut self, chunk: &Chunk) {
        let mut last = None;
        for line in &chunk.lines {
            if line.partition >= REPLAY_PARTITIONS && last != Some(line.partition) {
                last = Some(line.partition);
                self.note_task(session(line.partition));
            }
        }
    }

    fn verdict(&self, task: TaskId, offset: u64) -> Verdict {
        match self.readings.get(&task) {
            None | Some(Reading { running: Running::NotYet, .. }) => Verdict::Wait,
            Some(Reading { running: Running::Yes, next }) if offset >= *next => Verdict::Deliver,
            Some(_) => Verdict::Skip,
        }
    }

    fn hand_over(
        &mut self,
        task: TaskId,
        line: u64,
        record: &Record<'_>,
        room: &mut Room,
        handler: &mut dyn FnMut(TaskId, &Record<'_>) -> Flow,
    ) {
        let offset = record.meta.offset.0;
        if let Some(reading) = self.readings.get_mut(&task) {
            reading.next = offset + 1;
        }
        if offset != line || task.stage == Stage::Swarm {
            self.lines.insert((task, offset), line);
        }
        self.last = (task, line);
        self.uncommitted += 1;
        room.handed_over += 1;
        room.events += u64::from(task.stage == Stage::Session);
        room.left = if handler(task, record) == Flow::Stop { 0 } else { room.left - 1 };
    }

    /// Hands over reports of the swarm stage that have arrived.
    fn read_reports(&mut self, room: &mut Room, handler: &mut dyn FnMut(TaskId, &Record<'_>) -> Flow) {
        let reports = std::mem::take(&mut self.reports);
        let names = self.names.clone();
        while let Some(report) = reports.get(self.report_cursor) {
            let task = TaskId { stage: Stage::Swarm, partition: report.partition };
            match self.verdict(task, report.offset) {
                Verdict::Wait => break,
                Verdict::Skip => self.report_cursor += 1,
                Verdict::Deliver if room.left == 0 => break,
                Verdict::Deliver => {
                    let meta = RecordMeta {
                        topic: names.of(Stage::Swarm),
                        partition: report.partition,
                        offset: RecordOffset(report.offset),
                        timestamp: EventTime(report.output.timestamp_ms),
                        key: Some(&report.output.key),
                        headers: report.output.headers.iter().map(|(name, value)| (name, Some(value))).collect(),
                        value_bytes_max: self.value_bytes_max,
                    };
                    self.report_cursor += 1;
                    self.hand_over(task, report.line, &Record::new(meta, report.output.value.as_deref()), room, handler);
                }
            }
        }
        self.reports = reports;
    }

    /// Hands over lines that have been read.
    fn read_lines(&mut self, room: &mut Room, handler: &mut dyn FnMut(TaskId, &Record<'_>) -> Flow) {
        let chunks = std::mem::take(&mut self.chunks);
        let names = self.names.clone();
        'chunks: while let Some(chunk) = chunks.get(self.cursor.0) {
            while let Some(line) = chunk.lines.get(self.cursor.1) {
                let task = session(line.partition);
                match self.verdict(task, line.offset) {
                    Verdict::Wait => break 'chunks,
                    Verdict::Skip => {}
                    Verdict::Deliver if room.left == 0 => break 'chunks,
                    Verdict::Deliver => {
                        let record = record(chunk, line, &names, self.value_bytes_max);
                        self.hand_over(task, line.line, &record, room, handler);
                    }
                }
                self.position = self.position.max(line.line + 1);
                self.cursor.1 += 1;
            }
            self.position = self.position.max(chunk.upto);
            self.cursor = (self.cursor.0 + 1, 0);
        }
        self.chunks = chunks;
        if self.uncommitted == 0 {
            self.forget();
        }
    }

    /// The next records, within a bound, or what comes instead.
    fn next_event(
        &mut self,
        wait: Duration,
        room: &mut Room,
        handler: &mut dyn FnMut(TaskId, &Record<'_>) -> Flow,
    ) -> Result<LogEvent, LogError> {
        let mut wait = wait;
        loop {
            if !self.to_tell.is_empty() {
                return Ok(LogEvent::Assigned(std::mem::take(&mut self.to_tell)));
            }
            self.read_reports(room, handler);
            self.read_lines(room, handler);
            if room.handed_over > 0 || self.chunks.len() > self.cursor.0 || self.reports.len() > self.report_cursor {
                return Ok(LogEvent::Records(room.handed_over));
            }
            let settled = (self.uncommitted == 0).then_some(self.position);
            match self.shared.next(self.lane, settled, wait)? {
                More::Chunk(chunk) => {
                    self.note_tasks(&chunk);
                    self.chunks.push_back(chunk);
                }
                More::Swarm(reports) => self.reports.extend(reports),
                More::Nothing => return Ok(LogEvent::Records(0)),
                More::Read | More::Over => return Ok(LogEvent::End),
            }
            wait = Duration::ZERO;
        }
    }

    /// Drops what is behind the last commit.
    fn forget(&mut self) {
        self.shared.give_back(self.chunks.drain(..self.cursor.0.min(self.chunks.len())));
        self.cursor.0 = 0;
        self.reports.drain(..self.report_cursor.min(self.reports.len()));
        self.report_cursor = 0;
        self.lines.clear();
    }

    /// Reports with the line they belong to: the first of this commit that was recorded as late as the last call they sum up.
    fn placed(&self, reports: Vec<Output>) -> Vec<(u64, Output)> {
        if reports.is_empty() {
            return Vec::new();
        }
        let (chunk, line) = self.cursor;
        let whole = self.chunks.iter().take(chunk).flat_map(|chunk| &chunk.lines);
        let begun = self.chunks.get(chunk).into_iter().flat_map(|chunk| chunk.lines.iter().take(line));
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
            found.map_or_else(|| self.position.saturating_sub(1), |(_, line)| *line)
        };
        reports.into_iter().map(|output| (line_at(output.timestamp_ms), output)).collect()
    }

    /// The line of a cause; where it is not known, the one handed over last.
    fn line_of(&self, cause: Option<(TaskId, RecordOffset)>) -> (TaskId, u64) {
        let Some((task, offset)) = cause else { return self.last };
        let line = self.lines.get(&(task, offset.0)).copied();
        (task, line.unwrap_or(if task.stage == Stage::Session { offset.0 } else { self.last.1 }))
    }
}

const fn session(partition: u32) -> TaskId {
    TaskId { stage: Stage::Session, partition }
}

fn record<'a>(chunk: &'a Chunk, line: &'a PlacedLine, names: &'a InputNames, value_bytes_max: usize) -> Record<'a> {
    let meta = RecordMeta {
        topic: line.topic.as_deref().unwrap_or_else(|| names.of(Stage::Session)),
        partition: line.partition,
        offset: RecordOffset(line.offset),
        timestamp: EventTime(line.timestamp_ms),
        key: line.key.as_ref().and_then(|key| chunk.bytes.get(key.clone())),
        headers: line.headers.iter().filter_map(|header| header_of(chunk, header)).collect(),
        value_bytes_max,
    };
    let (value, outline) = match &line.value {
        None => (None, None),
        Some(Value::Own(at)) => (chunk.bytes.get(at.clone()), None),
        Some(Value::InBlock { block, at, fields }) => {
            let block = chunk.blocks.get(*block);
            let fields = fields.as_ref().and_then(|fields| chunk.fields.get(fields.clone()));
            let outline = fields.and_then(|fields| Some(Outline { text: block?.text(at.clone())?, fields }));
            (block.and_then(|block| block.bytes().get(at.clone())), outline)
        }
    };
    Record { meta, value, outline }
}

fn header_of<'a>(chunk: &'a Chunk, (name, value): &'a (Range<usize>, Option<Range<usize>>)) -> Option<Header<'a>> {
    let name = std::str::from_utf8(chunk.bytes.get(name.clone())?).ok()?;
    Some((name, value.as_ref().and_then(|value| chunk.bytes.get(value.clone()))))
}

impl Log for FileLog {
    fn swarm_partitions(&self) -> u32 {
        REPLAY_PARTITIONS
    }

    /// [`LogEvent::End`] comes when every line was handed over. With uncommitted work, it asks for a commit: what that sends to the
    /// swarm stage, and what other lanes still send, comes with the polls after it. An `End` with nothing uncommitted is the last.
    fn poll(&mut self, wait: Duration, handler: &mut dyn FnMut(TaskId, &Record<'_>) -> Flow) -> Result<LogEvent, LogError> {
        if self.watcher.as_ref().is_some_and(Watcher::is_over) {
            return Ok(LogEvent::End);
        }
        let mut room = Room { left: self.poll_records_max.max(1), handed_over: 0, events: 0 };
        let event = self.next_event(wait, &mut room, handler);
        if let Some(watcher) = &self.watcher {
            watcher.handed_over(room.events);
        }
        event
    }

    fn assign(&mut self, tasks: &[TaskId]) -> Result<(), LogError> {
        self.readings.extend(tasks.iter().map(|task| (*task, Reading { next: 0, running: Running::NotYet })));
        Ok(())
    }

    /// Reaches back to the last commit, not further.
    fn start(&mut self, task: TaskId, next: NextOffset) -> Result<(), LogError> {
        let Some(reading) = self.readings.get_mut(&task) else {
            return Err(LogError::Transient(format!("{task} is not assigned")));
        };
        if next.0 < reading.next {
            match task.stage {
                Stage::Session => self.cursor = (0, 0),
                Stage::Swarm => self.report_cursor = 0,
            }
        }
        *reading = Reading { next: next.0, running: Running::Yes };
        Ok(())
    }

    /// Records of a paused task pass by for good: a replay does not wait.
    fn pause(&mut self, task: TaskId) -> Result<(), LogError> {
        if let Some(reading) = self.readings.get_mut(&task) {
            reading.running = Running::No;
        }
        Ok(())
    }

    fn unassign(&mut self, tasks: &[TaskId]) -> Result<(), LogError> {
        for task in tasks {
            self.pause(*task)?;
        }
        Ok(())
    }

    fn stage(&mut self, output: Output) {
        let (task, line) = self.line_of(None);
        self.staged.push(Collected { line, task, output });
    }

    fn stage_from(&mut self, cause: (TaskId, RecordOffset), output: Output) {
        let kept = match &mut self.watcher {
            Some(watcher) => watcher.take(output),
            None => Some(output),
        };
        let Some(output) = kept else { return };
        let (task, line) = self.line_of(Some(cause));
        self.staged.push(Collected { line, task, output });
    }

    fn stage_command(&mut self, cause: (TaskId, RecordOffset), command: &Command, write: &mut dyn FnMut(&Command) -> Output) {
        if self.watcher.as_mut().is_none_or(|watcher| watcher.take_command(command)) {
            let (task, line) = self.line_of(Some(cause));
            self.staged.push(Collected { line, task, output: write(command) });
        }
    }

    fn discard(&mut self) {
        self.staged.clear();
        if let Some(watcher) = &mut self.watcher {
            watcher.discard();
        }
    }

    fn commit(&mut self, offsets: &[(TaskId, NextOffset)]) -> CommitOutcome {
        let staged = std::mem::take(&mut self.staged);
        if offsets.is_empty() {
            self.discard();
            return CommitOutcome::Aborted { cause: "a transaction without offsets would be unfenced".to_owned(), reopen: false };
        }
        let (mut counts, mut outputs) = (Vec::new(), Vec::new());
        for collected in staged {
            match collected.output.destination {
                Destination::SwarmCounts | Destination::SwarmPartition { .. } => counts.push(collected.output),
                Destination::Changelog(_) | Destination::Events => {}
                Destination::Commands | Destination::State | Destination::DeadLetters { .. } => outputs.push(collected),
            }
        }
        self.collector.add(outputs);
        let counts = self.placed(counts);
        self.uncommitted = 0;
        self.forget();
        let held = self.reports.iter().map(|report| report.line).min();
        self.shared.send(self.lane, self.position, counts, held);
        if let Some(watcher) = &mut self.watcher {
            watcher.committed();
        }
        CommitOutcome::Committed { changelog_next: Vec::new() }
    }

    fn reopen(&mut self) -> Result<(), LogError> {
        self.staged.clear();
        Ok(())
    }

    fn changelog(&self) -> Result<Option<Box<dyn Changelog>>, LogError> {
        Ok(None)
    }

    fn keeps_changelog(&self) -> bool {
        false
    }

    fn commits_state(&self) -> bool {
        false
    }

    fn owner(&self) -> &str {
        &self.owner
    }

    fn close(&mut self, _leave: bool) -> Result<(), LogError> {
        self.shared.close(self.lane);
        Ok(())
    }
}

impl Drop for FileLog {
    fn drop(&mut self) {
        self.shared.close(self.lane);
    }
}
