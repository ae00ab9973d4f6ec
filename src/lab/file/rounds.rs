//! Rounds of input: what the reading thread hands over at a time, a chunk for each lane, so that no lane gets far ahead of another.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use loopwarden_core::event::EventTime;

use crate::file::chunk::{Chunk, Placing};
use crate::{file::block::Block, file::read::ReadState};

/// Lines of a round, over all lanes.
const ROUND_LINES: u64 = 1_024;
/// Bytes after which a round ends early: what the lanes have read is in the caches still when it is filled again.
const ROUND_BYTES: usize = 1 << 20;
/// Rounds that are read ahead.
const AHEAD_MAX: usize = 3;
/// Chunks that are given back and not taken yet; more are dropped.
const USED_MAX: usize = 256;
/// Room that empty chunks and blocks may keep for the next ones, all together. Bytes.
const SPARE_BYTES_MAX: usize = 64 << 20;

/// The next part of an input: a chunk for each lane.
#[derive(Debug, Default)]
pub struct Round {
    pub(crate) chunks: Vec<Chunk>,
}

impl Round {
    /// How many records it has.
    pub fn records(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.lines.len()).sum()
    }

    /// When its newest record was recorded.
    pub(crate) fn newest(&self) -> Option<EventTime> {
        self.chunks.iter().flat_map(|chunk| &chunk.lines).map(|line| EventTime(line.timestamp_ms)).max()
    }
}

/// Memory that lanes are done with: it is warm, and fresh memory costs a reader more than reading.
struct Spare {
    used: Receiver<Chunk>,
    chunks: Vec<Chunk>,
    blocks: Vec<Vec<u8>>,
    bytes: usize,
}

impl Spare {
    /// Takes what was given back meanwhile.
    fn collect(&mut self) {
        for mut chunk in self.used.try_iter() {
            for block in chunk.clear().map(Block::into_bytes) {
                if self.bytes + block.capacity() <= SPARE_BYTES_MAX {
                    self.bytes += block.capacity();
                    self.blocks.push(block);
                }
            }
            if self.bytes + chunk.room() <= SPARE_BYTES_MAX {
                self.bytes += chunk.room();
                self.chunks.push(chunk);
            }
        }
    }

    fn chunk(&mut self) -> Chunk {
        let chunk = self.chunks.pop().unwrap_or_default();
        self.bytes -= chunk.room();
        chunk
    }

    fn block(&mut self) -> Vec<u8> {
        let block = self.blocks.pop().unwrap_or_default();
        self.bytes -= block.capacity();
        block
    }
}

/// The end of the rounds where they are taken, and where their chunks are given back.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) rounds: Receiver<Round>,
    pub(super) used: SyncSender<Chunk>,
}

/// The round that is being filled.
pub(super) struct Rounds {
    round: Vec<Chunk>,
    lanes: u32,
    /// Number of the line to be placed.
    line: u64,
    first_of_round: u64,
    bytes: usize,
    full: SyncSender<Round>,
    spare: Spare,
    state: Arc<ReadState>,
}

impl Rounds {
    pub(super) fn new(lanes: u32, state: Arc<ReadState>) -> (Self, Taken) {
        let (full, rounds) = sync_channel(AHEAD_MAX);
        let (back, used) = sync_channel(USED_MAX);
        let spare = Spare { used, chunks: Vec::new(), blocks: Vec::new(), bytes: 0 };
        let mut filled =
            Self { round: Vec::new(), lanes: lanes.max(1), line: 0, first_of_round: 0, bytes: 0, full, spare, state };
        filled.begin();
        (filled, Taken { rounds, used: back })
    }

    /// Number of the next line.
    pub(super) const fn line(&self) -> u64 {
        self.line
    }

    pub(super) fn state(&self) -> &ReadState {
        &self.state
    }

    pub(super) fn block(&mut self) -> Vec<u8> {
        self.spare.block()
    }

    /// A line that is no record only counts.
    pub(super) const fn skip(&mut self) {
        self.line += 1;
    }

    /// Puts the next line into the chunk of its lane.
    pub(super) fn put(&mut self, placing: &Placing<'_>) {
        let line = self.line;
        self.line += 1;
        let Some(chunk) = self.round.get_mut((placing.partition % self.lanes) as usize) else { return };
        self.bytes += placing.value.as_ref().map_or(0, |value| value.bytes().len());
        chunk.put(line, placing);
    }

    /// Hands the round over once it is full; false when nobody takes it.
    pub(super) fn end_if_full(&mut self) -> bool {
        let is_full = self.line - self.first_of_round >= ROUND_LINES || self.bytes >= ROUND_BYTES;
        !is_full || self.end()
    }

    /// Hands the round over; false when nobody takes it.
    pub(super) fn end(&mut self) -> bool {
        for chunk in &mut self.round {
            chunk.upto = self.line;
        }
        let chunks = std::mem::take(&mut self.round);
        self.begin();
        self.full.send(Round { chunks }).is_ok()
    }

    fn begin(&mut self) {
        self.spare.collect();
        self.round = (0..self.lanes).map(|_| self.spare.chunk()).collect();
        self.first_of_round = self.line;
        self.bytes = 0;
    }
}
