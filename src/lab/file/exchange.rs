//! What reader and lanes share: bounded queues of chunks, and the swarm counts on their way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use loopwarden_core::event::{FieldAt, partition_of};
use loopwarden_log::{Destination, LogError, Output};

use crate::file::block::Block;
use crate::file::options::REPLAY_PARTITIONS;
use crate::file::read::Read;

/// Chunks that wait for a lane. With the reader's bounds on a chunk, this bounds what is read ahead.
const CHUNKS_MAX: usize = 4;
/// Room that empty chunks may keep for the next ones, all together.
const SPARE_BYTES_MAX: usize = 64 << 20;
/// Where the value of a line stands.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// In the bytes of the chunk.
    Own(Range<usize>),
    /// In one of its blocks; with the fields noted of it, where it is an object.
    InBlock { block: usize, at: Range<usize>, fields: Option<Range<usize>> },
}

/// One line, placed. Its bytes stand in the chunk.
#[derive(Debug, Clone)]
pub(super) struct PlacedLine {
    pub(super) value: Option<Value>,
    pub(super) key: Option<Range<usize>>,
    /// Names and values.
    pub(super) headers: Vec<(Range<usize>, Option<Range<usize>>)>,
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
    /// Those its lines stand in, in order; other lanes have them too.
    pub(super) blocks: Vec<Arc<Block>>,
    pub(super) fields: Vec<FieldAt>,
    pub(super) lines: Vec<PlacedLine>,
    /// Line up to which the input is covered: the lane has no other line before it.
    pub(super) upto: u64,
}

impl Chunk {
    fn clear(&mut self) {
        self.bytes.clear();
        self.blocks.clear();
        self.fields.clear();
        self.lines.clear();
        self.upto = 0;
    }
}

/// A report on its way to the swarm stage.
#[derive(Debug)]
pub(super) struct SwarmRecord {
    pub(super) partition: u32,
    pub(super) offset: u64,
    /// The line that it belongs to.
    pub(super) line: u64,
    pub(super) output: Output,
}

#[derive(Debug)]
struct LaneState {
    chunks: VecDeque<Chunk>,
    /// Everything before this line is committed; `u64::MAX` at the end.
    committed: u64,
    /// The line of the first report that the lane has taken and not committed.
    taken: Option<u64>,
    closed: bool,
}

#[derive(Debug)]
struct State {
    lanes: Vec<LaneState>,
    /// Every line has been handed to a queue, or reading failed.
    read: bool,
    failed: Option<LogError>,
    /// The lane for whose room the reader waits.
    awaited: Option<usize>,
    /// Reports by their line, lane, order within the lane.
    waiting: BTreeMap<(u64, u32, u64), Output>,
    staged: u64,
    swarm: Vec<VecDeque<SwarmRecord>>,
    swarm_next: Vec<u64>,
    /// Chunks and blocks that lanes are done with: their memory is warm, fresh memory costs a reader more than reading.
    spare: Vec<Chunk>,
    spare_blocks: Vec<Vec<u8>>,
    spare_bytes: usize,
}

impl State {
    /// Lets reports through that no lane can overtake any more.
    fn release(&mut self) {
        let floor = self.lanes.iter().map(|lane| lane.committed).min().unwrap_or(u64::MAX);
        while let Some(first) = self.waiting.first_entry().filter(|first| first.key().0 < floor) {
            let ((line, ..), output) = first.remove_entry();
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
            queue.push_back(SwarmRecord { partition, offset: *next, line, output });
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
    read: Mutex<Read>,
    /// How much of the input is read: bytes of files as they lie on disk, records of a topic.
    progress: Arc<AtomicU64>,
}

impl Shared {
    pub(super) fn new(lanes: u32) -> Self {
        let state = State {
            lanes: (0..lanes).map(|_| LaneState { chunks: VecDeque::new(), committed: 0, taken: None, closed: false }).collect(),
            read: false,
            failed: None,
            awaited: None,
            waiting: BTreeMap::new(),
            staged: 0,
            swarm: (0..REPLAY_PARTITIONS).map(|_| VecDeque::new()).collect(),
            swarm_next: vec![0; REPLAY_PARTITIONS as usize],
            spare: Vec::new(),
            spare_blocks: Vec::new(),
            spare_bytes: 0,
        };
        Self { state: Mutex::new(state), changed: Condvar::new(), read: Mutex::default(), progress: Arc::default() }
    }

    /// What is known of the input.
    pub(super) fn read(&self) -> MutexGuard<'_, Read> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note_read(&self, amount: u64) {
        self.progress.fetch_add(amount, Ordering::Relaxed);
    }

    /// The counter itself, for readers that count by themselves.
    pub(super) fn reading(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.progress)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives each lane its chunk of a round; waits for room. False when no lane is left to read them.
    pub(super) fn push(&self, round: Vec<Chunk>) -> bool {
        for (index, chunk) in round.into_iter().enumerate() {
            let full =
                |state: &mut State| state.lanes.get(index).is_some_and(|lane| lane.chunks.len() >= CHUNKS_MAX && !lane.closed);
            let mut state = self.lock();
            state.awaited = Some(index);
            let mut state = self.changed.wait_while(state, full).unwrap_or_else(PoisonError::into_inner);
            state.awaited = None;
            if let Some(lane) = state.lanes.get_mut(index).filter(|lane| !lane.closed) {
                lane.chunks.push_back(chunk);
            }
            drop(state);
            self.changed.notify_all();
        }
        !self.is_abandoned()
    }

    /// An empty chunk, with room in it where a lane has given one back.
    pub(super) fn chunk(&self) -> Chunk {
        let mut state = self.lock();
        let chunk = state.spare.pop().unwrap_or_default();
        state.spare_bytes -= chunk.bytes.capacity();
        chunk
    }

    /// Memory for a block.
    pub(super) fn block(&self) -> Vec<u8> {
        let mut state = self.lock();
        let block = state.spare_blocks.pop().unwrap_or_default();
        state.spare_bytes -= block.capacity();
        block
    }

    /// A lane is done with these.
    pub(super) fn give_back(&self, chunks: impl Iterator<Item = Chunk>) {
        let mut state = self.lock();
        for mut chunk in chunks {
            // The last lane that had lines of a block gives it back.
            for block in chunk.blocks.drain(..).filter_map(Arc::into_inner).map(Block::into_bytes) {
                if state.spare_bytes + block.capacity() <= SPARE_BYTES_MAX {
                    state.spare_bytes += block.capacity();
                    state.spare_blocks.push(block);
                }
            }
            let room = chunk.bytes.capacity();
            if state.spare_bytes + room <= SPARE_BYTES_MAX {
                chunk.clear();
                state.spare.push(chunk);
                state.spare_bytes += room;
            }
        }
    }

    /// No lane is left that would read.
    pub(super) fn is_abandoned(&self) -> bool {
        self.lock().lanes.iter().all(|lane| lane.closed)
    }

    /// The reader is done. With `ends_at_damage` the lanes come to their end with what was read; else each is told why not.
    pub(super) fn end(&self, failed: Option<LogError>, ends_at_damage: bool) {
        let failed = if ends_at_damage {
            self.read().end(failed);
            None
        } else {
            failed
        };
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
                of_lane.taken = None;
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
            let taken: Vec<SwarmRecord> = queues.flat_map(|(_, queue)| queue.drain(..)).collect();
            if let Some(lane) = state.lane(lane) {
                lane.taken = taken.iter().map(|report| report.line).chain(lane.taken).min();
            }
            return Ok(More::Swarm(taken));
        }
        if let Some(chunk) = state.lane(lane).and_then(|lane| lane.chunks.pop_front()) {
            // Nobody but the reader waits for room, and it for that of one lane: others would wake it for nothing.
            let is_awaited = state.awaited == Some(lane as usize);
            drop(state);
            if is_awaited {
                self.changed.notify_all();
            }
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

    /// A lane's commit, which covers its lines before `position`: its reports with their lines, and the line of the first report it
    /// holds that is not behind it.
    pub(super) fn send(&self, lane: u32, position: u64, outputs: Vec<(u64, Output)>, held: Option<u64>) {
        let mut state = self.lock();
        for (line, output) in outputs {
            state.staged += 1;
            let key = (line, lane, state.staged);
            state.waiting.insert(key, output);
        }
        if let Some(lane) = state.lane(lane) {
            lane.committed = lane.committed.max(position);
            lane.taken = held;
        }
        state.release();
        drop(state);
        self.changed.notify_all();
    }

    /// The line before which no lane has anything left to say, of neither stage.
    pub(super) fn floor(&self) -> u64 {
        let state = self.lock();
        let committed = state.lanes.iter().map(|lane| lane.committed);
        let taken = state.lanes.iter().filter_map(|lane| lane.taken);
        let queued = state.swarm.iter().flatten().map(|report| report.line);
        let waiting = state.waiting.keys().map(|(line, ..)| *line).take(1);
        committed.chain(taken).chain(queued).chain(waiting).min().unwrap_or(0)
    }

    /// The lane reads no more; nobody waits for it.
    pub(super) fn close(&self, lane: u32) {
        let mut state = self.lock();
        if let Some(lane) = state.lane(lane) {
            lane.closed = true;
            lane.committed = u64::MAX;
            lane.taken = None;
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
