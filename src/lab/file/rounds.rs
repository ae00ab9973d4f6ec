//! Rounds of input: what the reading thread hands to the lanes, so that no lane gets far ahead of another.

use std::ops::Range;
use std::sync::Arc;

use loopwarden_core::event::{FieldAt, Header};

use crate::file::block::Block;
use crate::file::exchange::{Chunk, PlacedLine, Shared, Value};

/// Lines of a round, over all lanes.
const ROUND_LINES: u64 = 8_192;
/// Bytes after which a round ends early.
const ROUND_BYTES: usize = 8 << 20;

/// The value of a record on its way into a round.
#[derive(Clone)]
pub(super) enum Given<'a> {
    /// To be copied.
    Bytes(&'a [u8]),
    /// A line of a block, and what is noted of its fields.
    Line { block: &'a Arc<Block>, at: Range<usize>, fields: Option<&'a [FieldAt]> },
}

impl<'a> Given<'a> {
    pub(super) fn bytes(&self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Line { block, at, .. } => block.bytes().get(at.clone()).unwrap_or_default(),
        }
    }
}

/// One record on its way into a round.
pub(super) struct Placing<'a> {
    pub(super) value: Option<Given<'a>>,
    pub(super) key: Option<&'a [u8]>,
    pub(super) headers: &'a [Header<'a>],
    pub(super) partition: u32,
    pub(super) offset: u64,
    pub(super) timestamp_ms: i64,
    pub(super) topic: Option<Arc<str>>,
}

impl Chunk {
    /// Takes a value in.
    fn take(&mut self, value: &Given<'_>) -> Value {
        match value {
            Given::Bytes(bytes) => {
                let start = self.bytes.len();
                self.bytes.extend_from_slice(bytes);
                Value::Own(start..self.bytes.len())
            }
            Given::Line { block, at, fields } => {
                if self.blocks.last().is_none_or(|last| !Arc::ptr_eq(last, block)) {
                    self.blocks.push(Arc::clone(block));
                }
                let fields = fields.map(|fields| {
                    let start = self.fields.len();
                    self.fields.extend_from_slice(fields);
                    start..self.fields.len()
                });
                Value::InBlock { block: self.blocks.len() - 1, at: at.clone(), fields }
            }
        }
    }
}

/// The round that is being filled.
pub(super) struct Rounds {
    round: Vec<Chunk>,
    lanes: u32,
    /// Number of the line to be placed.
    line: u64,
    first_of_round: u64,
    bytes: usize,
    shared: Arc<Shared>,
}

impl Rounds {
    pub(super) fn new(lanes: u32, shared: Arc<Shared>) -> Self {
        let mut rounds = Self { round: Vec::new(), lanes: lanes.max(1), line: 0, first_of_round: 0, bytes: 0, shared };
        rounds.begin();
        rounds
    }

    /// Number of the next line.
    pub(super) const fn line(&self) -> u64 {
        self.line
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
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
        let bytes = &mut chunk.bytes;
        let mut add = |part: &[u8]| {
            let start = bytes.len();
            bytes.extend_from_slice(part);
            start..bytes.len()
        };
        let key = placing.key.map(&mut add);
        let headers = placing.headers.iter().map(|(name, value)| (add(name.as_bytes()), value.map(&mut add))).collect();
        self.bytes += placing.value.as_ref().map_or(0, |value| value.bytes().len());
        let value = placing.value.as_ref().map(|value| chunk.take(value));
        chunk.lines.push(PlacedLine {
            value,
            key,
            headers,
            line,
            partition: placing.partition,
            offset: placing.offset,
            timestamp_ms: placing.timestamp_ms,
            topic: placing.topic.clone(),
        });
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
        let round = std::mem::take(&mut self.round);
        self.begin();
        self.shared.push(round)
    }

    fn begin(&mut self) {
        self.round = (0..self.lanes).map(|_| self.shared.chunk()).collect();
        self.first_of_round = self.line;
        self.bytes = 0;
    }
}
