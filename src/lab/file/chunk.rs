//! Records of one lane on their way to it: their places, and where in memory they stand.

use std::{ops::Range, sync::Arc};

use loopwarden_core::event::{EventTime, Header, Record, RecordMeta, RecordOffset, Stage};
use loopwarden_log::{InputNames, embedded::TICK_HEADER};

use crate::file::block::Block;

/// The value of a record on its way into a chunk.
#[derive(Clone)]
pub(crate) enum Given<'a> {
    Bytes(&'a [u8]),
    /// A line of a block.
    Line(&'a Arc<Block>, Range<usize>),
}

impl<'a> Given<'a> {
    pub(super) fn bytes(&self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Line(block, at) => block.bytes().get(at.clone()).unwrap_or_default(),
        }
    }
}

/// One record on its way into a chunk.
pub(crate) struct Placing<'a> {
    pub(crate) value: Option<Given<'a>>,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) headers: &'a [Header<'a>],
    pub(crate) partition: u32,
    pub(crate) offset: u64,
    pub(crate) timestamp_ms: i64,
    pub(crate) topic: Option<Arc<str>>,
}

/// Where the value of a line stands.
#[derive(Debug, Clone)]
enum Value {
    /// In the bytes of the chunk.
    Own(Range<usize>),
    /// In one of its blocks.
    InBlock(usize, Range<usize>),
}

/// One line, placed. Its bytes stand in the chunk.
#[derive(Debug, Clone)]
pub(super) struct PlacedLine {
    value: Option<Value>,
    key: Option<Range<usize>>,
    headers: Vec<(Range<usize>, Option<Range<usize>>)>,
    pub(super) line: u64,
    pub(super) partition: u32,
    pub(super) offset: u64,
    pub(super) timestamp_ms: i64,
    topic: Option<Arc<str>>,
}

/// Lines of one lane, in order.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    bytes: Vec<u8>,
    /// Those its lines stand in, in order; other lanes have them too.
    blocks: Vec<Arc<Block>>,
    pub(super) lines: Vec<PlacedLine>,
    /// Line up to which the input is covered: the lane has no other line before it.
    pub(super) upto: u64,
}

impl Chunk {
    /// A tick behind the last record of each partition, all of them as one line: time has passed there as far as anywhere, as in a log that
    /// runs. Else it would depend on what shares a partition with a silent agent whether its outcome is due.
    pub(super) fn of_ticks(line: u64, time: EventTime, ends: impl Iterator<Item = (u32, u64)>) -> Self {
        let mut chunk = Self::default();
        let headers: &[Header<'_>] = &[(TICK_HEADER, Some(b"1"))];
        for (partition, offset) in ends {
            chunk.put(line, &Placing { value: None, key: None, headers, partition, offset, timestamp_ms: time.0, topic: None });
        }
        chunk
    }

    /// Takes a record in, as the line with this number.
    pub(crate) fn put(&mut self, line: u64, placing: &Placing<'_>) {
        let bytes = &mut self.bytes;
        let mut add = |part: &[u8]| {
            let start = bytes.len();
            bytes.extend_from_slice(part);
            start..bytes.len()
        };
        let key = placing.key.map(&mut add);
        let headers = placing.headers.iter().map(|(name, value)| (add(name.as_bytes()), value.map(&mut add))).collect();
        let value = placing.value.as_ref().map(|value| self.take(value));
        self.lines.push(PlacedLine {
            value,
            key,
            headers,
            line,
            partition: placing.partition,
            offset: placing.offset,
            timestamp_ms: placing.timestamp_ms,
            topic: placing.topic.clone(),
        });
        self.upto = self.upto.max(line + 1);
    }

    fn take(&mut self, value: &Given<'_>) -> Value {
        match value {
            Given::Bytes(bytes) => {
                let start = self.bytes.len();
                self.bytes.extend_from_slice(bytes);
                Value::Own(start..self.bytes.len())
            }
            Given::Line(block, at) => {
                if self.blocks.last().is_none_or(|last| !Arc::ptr_eq(last, block)) {
                    self.blocks.push(Arc::clone(block));
                }
                Value::InBlock(self.blocks.len() - 1, at.clone())
            }
        }
    }

    /// One of its lines as a record.
    pub(super) fn record<'a>(&'a self, line: &'a PlacedLine, names: &'a InputNames, value_bytes_max: usize) -> Record<'a> {
        let meta = RecordMeta {
            topic: line.topic.as_deref().unwrap_or_else(|| names.of(Stage::Session)),
            partition: line.partition,
            offset: RecordOffset(line.offset),
            timestamp: EventTime(line.timestamp_ms),
            key: line.key.as_ref().and_then(|key| self.bytes.get(key.clone())),
            headers: line.headers.iter().filter_map(|header| self.header(header)).collect(),
            value_bytes_max,
        };
        let value = line.value.as_ref().and_then(|value| match value {
            Value::Own(at) => self.bytes.get(at.clone()),
            Value::InBlock(block, at) => self.blocks.get(*block)?.bytes().get(at.clone()),
        });
        Record::new(meta, value)
    }

    fn header<'a>(&'a self, (name, value): &'a (Range<usize>, Option<Range<usize>>)) -> Option<Header<'a>> {
        let name = std::str::from_utf8(self.bytes.get(name.clone())?).ok()?;
        Some((name, value.as_ref().and_then(|value| self.bytes.get(value.clone()))))
    }

    /// Bytes of memory it has of its own.
    pub(super) const fn room(&self) -> usize {
        self.bytes.capacity()
    }

    /// Empties it and keeps its memory; the blocks that nobody else holds come out.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = Block> + '_ {
        self.bytes.clear();
        self.lines.clear();
        self.upto = 0;
        self.blocks.drain(..).filter_map(Arc::into_inner)
    }
}
