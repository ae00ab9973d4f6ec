//! What reader and lanes share: bounded queues of chunks, and the swarm counts on their way.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;

use crate::event::partition_of;
use crate::log::Destination;
use crate::log::LogError;
use crate::log::Output;
use crate::log::file::REPLAY_PARTITIONS;

/// Chunks that wait for a lane. With the reader's bounds on a chunk, this bounds what is read ahead.
const CHUNKS_MAX: usize = 4;

/// One line, placed. Its bytes stand in the chunk.
#[derive(Debug, Clone)]
pub(super) struct PlacedLine {
    pub(super) value: std::ops::Range<usize>,
    pub(super) key: Option<std::ops::Range<usize>>,
    pub(super) line: u64,
    pub(super) partition: u32,
    pub(super) offset: u64,
    pub(super) timestamp_ms: i64,
    pub(super) topic: Option<Arc<str>>,
}

/// Lines of one lane, in order.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    pub(super) bytes: Vec<u8>,
    pub(super) lines: Vec<PlacedLine>,
    /// Line up to which the input is covered: the lane has no other line before it.
    pub(super) upto: u64,
}

/// A report on its way to the swarm stage.
#[derive(Debug)]
pub(super) struct SwarmRecord {
    pub(super) partition: u32,
    pub(super) offset: u64,
    /// How far in the input the commit was that sent it.
    pub(super) position: u64,
    pub(super) output: Output,
}

#[derive(Debug)]
struct LaneState {
    chunks: VecDeque<Chunk>,
    /// Everything before this line is committed; `u64::MAX` at the end.
    committed: u64,
    closed: bool,
}

#[derive(Debug)]
struct State {
    lanes: Vec<LaneState>,
    /// Every line has been handed to a queue, or reading failed.
    read: bool,
    failed: Option<LogError>,
    files: Vec<(u64, String)>,
    /// Reports by how far their commit was, lane, order within the lane.
    waiting: BTreeMap<(u64, u32, u64), Output>,
    staged: u64,
    swarm: Vec<VecDeque<SwarmRecord>>,
    swarm_next: Vec<u64>,
}

impl State {
    /// Lets reports through that no lane can overtake any more.
    fn release(&mut self) {
        let floor = self.lanes.iter().map(|lane| lane.committed).min().unwrap_or(u64::MAX);
        while let Some(first) = self.waiting.first_entry().filter(|first| first.key().0 <= floor) {
            let ((position, ..), output) = first.remove_entry();
            let partition = match output.destination {
                Destination::SwarmPartition { partition } => partition % REPLAY_PARTITIONS,
                _ => partition_of(&output.key, REPLAY_PARTITIONS),
            };
            let owner = partition as usize % self.lanes.len().max(1);
            if self.lanes.get(owner).is_none_or(|lane| lane.closed) {
                continue;
            }
            let (Some(queue), Some(next)) = (self.swarm.get_mut(partition as usize), self.swarm_next.get_mut(partition as usize))
            else {
                continue;
            };
            queue.push_back(SwarmRecord { partition, offset: *next, position, output });
            *next += 1;
        }
    }

    fn owns(&self, lane: u32, partition: u32) -> bool {
        partition % self.lanes.len().max(1) as u32 == lane
    }

    fn has_swarm(&self, lane: u32) -> bool {
        (0..).zip(&self.swarm).any(|(partition, queue)| self.owns(lane, partition) && !queue.is_empty())
    }

    fn lane(&mut self, lane: u32) -> Option<&mut LaneState> {
        self.lanes.get_mut(lane as usize)
    }

    fn has_chunk(&self, lane: u32) -> bool {
        self.lanes.get(lane as usize).is_some_and(|lane| !lane.chunks.is_empty())
    }

    /// Nothing is left for anybody.
    fn is_over(&self) -> bool {
        self.read
            && self.waiting.is_empty()
            && self.lanes.iter().all(|lane| lane.closed || lane.committed == u64::MAX)
            && self.swarm.iter().all(VecDeque::is_empty)
    }
}

/// What a lane finds when it asks for more.
#[derive(Debug)]
pub(super) enum More {
    Chunk(Chunk),
    Swarm(Vec<SwarmRecord>),
    /// Nothing within the wait.
    Nothing,
    /// The lane's lines are read to the end.
    Read,
    /// Everything is done, also what other lanes could still send.
    Over,
}

#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    pub(super) fn new(lanes: u32) -> Self {
        let state = State {
            lanes: (0..lanes).map(|_| LaneState { chunks: VecDeque::new(), committed: 0, closed: false }).collect(),
            read: false,
            failed: None,
            files: Vec::new(),
            waiting: BTreeMap::new(),
            staged: 0,
            swarm: (0..REPLAY_PARTITIONS).map(|_| VecDeque::new()).collect(),
            swarm_next: vec![0; REPLAY_PARTITIONS as usize],
        };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file begins at this line.
    pub(super) fn note_file(&self, first: u64, name: String) {
        self.lock().files.push((first, name));
    }

    pub(super) fn locate(&self, line: u64) -> Option<(String, u64)> {
        let state = self.lock();
        let (first, name) = state.files.iter().rev().find(|(first, _)| *first <= line)?;
        Some((name.clone(), line - first))
    }

    /// Gives each lane its chunk of a round; waits for room. False when no lane is left to read them.
    pub(super) fn push(&self, round: Vec<Chunk>) -> bool {
        for (index, chunk) in round.into_iter().enumerate() {
            let full =
                |state: &mut State| state.lanes.get(index).is_some_and(|lane| lane.chunks.len() >= CHUNKS_MAX && !lane.closed);
            let mut state = self.changed.wait_while(self.lock(), full).unwrap_or_else(PoisonError::into_inner);
            if let Some(lane) = state.lanes.get_mut(index).filter(|lane| !lane.closed) {
                lane.chunks.push_back(chunk);
            }
            drop(state);
            self.changed.notify_all();
        }
        !self.lock().lanes.iter().all(|lane| lane.closed)
    }

    /// The reader is done.
    pub(super) fn end(&self, failed: Option<LogError>) {
        let mut state = self.lock();
        state.read = true;
        state.failed = failed;
        drop(state);
        self.changed.notify_all();
    }

    /// What comes next for a lane; waits for it. `settled` is what the lane has behind it: the line before which all is committed,
    /// `None` while it holds uncommitted work.
    pub(super) fn next(&self, lane: u32, settled: Option<u64>, wait: Duration) -> Result<More, LogError> {
        let mut state = self.lock();
        if let Some(position) = settled {
            let done = state.read && !state.has_chunk(lane);
            if let Some(of_lane) = state.lane(lane) {
                of_lane.committed = if done { u64::MAX } else { of_lane.committed.max(position) };
            }
            state.release();
            self.changed.notify_all();
        }
        // With uncommitted work the end of the lines is an answer; without, only the end of everything is.
        let idle = |state: &mut State| {
            let read = state.read && (settled.is_none() || state.failed.is_some());
            let unsettled = settled.is_some() && state.read && state.lane(lane).is_some_and(|lane| lane.committed != u64::MAX);
            !state.has_chunk(lane) && !state.has_swarm(lane) && !read && !unsettled && !state.is_over()
        };
        let (mut state, _) = self.changed.wait_timeout_while(state, wait, idle).unwrap_or_else(PoisonError::into_inner);
        if state.has_swarm(lane) {
            let mine: BTreeSet<usize> = (0..state.swarm.len()).filter(|partition| state.owns(lane, *partition as u32)).collect();
            let queues = state.swarm.iter_mut().enumerate().filter(|(partition, _)| mine.contains(partition));
            return Ok(More::Swarm(queues.flat_map(|(_, queue)| queue.drain(..)).collect()));
        }
        if let Some(chunk) = state.lane(lane).and_then(|lane| lane.chunks.pop_front()) {
            drop(state);
            self.changed.notify_all();
            return Ok(More::Chunk(chunk));
        }
        if settled.is_none() && state.read {
            return Ok(More::Read);
        }
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        Ok(if state.is_over() { More::Over } else { More::Nothing })
    }

    /// Reports of a lane's commit, which covers its lines before `position`.
    pub(super) fn send(&self, lane: u32, position: u64, outputs: Vec<Output>) {
        let mut state = self.lock();
        for output in outputs {
            state.staged += 1;
            let key = (position, lane, state.staged);
            state.waiting.insert(key, output);
        }
        if let Some(lane) = state.lane(lane) {
            lane.committed = lane.committed.max(position);
        }
        state.release();
        drop(state);
        self.changed.notify_all();
    }

    /// The line before which every lane has committed.
    pub(super) fn floor(&self) -> u64 {
        self.lock().lanes.iter().map(|lane| lane.committed).min().unwrap_or(0)
    }

    /// The lane reads no more; nobody waits for it.
    pub(super) fn close(&self, lane: u32) {
        let mut state = self.lock();
        if let Some(lane) = state.lane(lane) {
            lane.closed = true;
            lane.committed = u64::MAX;
            lane.chunks.clear();
        }
        let mine: Vec<u32> = (0..REPLAY_PARTITIONS).filter(|partition| state.owns(lane, *partition)).collect();
        for partition in mine {
            if let Some(queue) = state.swarm.get_mut(partition as usize) {
                queue.clear();
            }
        }
        state.release();
        drop(state);
        self.changed.notify_all();
    }
}
