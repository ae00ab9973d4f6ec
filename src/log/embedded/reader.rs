//! Outputs as readers see them: only what is synced (rule M3).

use std::ops::{ControlFlow, Range};
use std::{sync::PoisonError, time::Duration};

use loopwarden_core::event::TaskId;
use loopwarden_state::Area;

use crate::embedded::scan::{corrupt, scan};
use crate::{
    LogError, embedded::broker::EmbeddedBroker, embedded::layout, embedded::record::Stored, embedded::series::Series,
    embedded::shared::Feed, embedded::shared::Written,
};

/// Takes the key and the value of a row.
type RowVisitor<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// One output, with its number in its feed: from 0, without gaps, for ever the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddedOutput {
    pub sequence: u64,
    pub key: Vec<u8>,
    pub value: Option<Vec<u8>>,
    /// Headers in order; a value may be null.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// Record timestamp, Unix ms.
    pub timestamp_ms: i64,
}

/// One event that was appended, with its offset in its partition. Ticks are none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddedEvent {
    pub offset: u64,
    /// Record timestamp, Unix ms.
    pub timestamp_ms: i64,
    /// Record key: the session.
    pub key: Vec<u8>,
    /// Record value: the event, as it was sent.
    pub value: Vec<u8>,
}

/// Key and value of a state row.
pub type StateRow = (Vec<u8>, Vec<u8>);

/// Reads outputs and state rows. Any number of readers, on any thread; each holds its own place.
#[derive(Debug, Clone)]
pub struct EmbeddedReader {
    broker: EmbeddedBroker,
}

impl EmbeddedBroker {
    /// A reader of outputs and state rows.
    pub fn reader(&self) -> EmbeddedReader {
        EmbeddedReader::new(self.clone())
    }
}

impl EmbeddedReader {
    pub(super) const fn new(broker: EmbeddedBroker) -> Self {
        Self { broker }
    }

    /// First and next number of a feed, as far as it may be seen.
    pub fn range(&self, feed: Feed) -> Range<u64> {
        let start = self.broker.shared.writer().feeds.get(&feed).map_or(0, |extent| extent.start);
        let end = self.broker.shared.durable().feeds.get(&feed).map_or(0, |extent| extent.next);
        start.min(end)..end
    }

    /// Visits outputs from `from` on, as many as may be seen. Returns the number to go on from. Where retention has removed some
    /// of them, the first one visited has a higher number than asked for.
    ///
    /// # Errors
    /// [`LogError::Fatal`] where the disk fails, or a record is absent.
    pub fn read(&self, feed: Feed, from: u64, visit: &mut dyn FnMut(EmbeddedOutput) -> ControlFlow<()>) -> Result<u64, LogError> {
        let range = self.range(feed);
        let mut next = from.max(range.start);
        if next >= range.end {
            return Ok(next);
        }
        self.broker.shared.numbered(Series::Feed(feed), next, range.end, &mut |sequence, record, _| {
            next = sequence + 1;
            Ok(visit(owned(sequence, &record)))
        })?;
        Ok(next)
    }

    /// Visits events of a task's input from `from` on, up to `to`. Returns the offset to go on from: `to`, unless it was stopped. Where
    /// retention has removed some of them, the first one visited has a higher offset than asked for.
    ///
    /// # Errors
    /// [`LogError::Fatal`] where the disk fails, or a record is absent.
    pub fn events(
        &self,
        task: TaskId,
        from: u64,
        to: u64,
        visit: &mut dyn FnMut(EmbeddedEvent) -> ControlFlow<()>,
    ) -> Result<u64, LogError> {
        let mut next = to;
        self.broker.shared.numbered(Series::Input(task), from, to, &mut |offset, record, _| {
            let (Some(key), Some(value)) = (record.key, record.value) else { return Ok(ControlFlow::Continue(())) };
            let event = EmbeddedEvent { offset, timestamp_ms: record.timestamp_ms, key: key.to_vec(), value: value.to_vec() };
            let flow = visit(event);
            if flow.is_break() {
                next = offset + 1;
            }
            Ok(flow)
        })?;
        Ok(next)
    }

    /// Waits until output `from` may be seen; at most `wait`. Whether it may.
    ///
    /// # Errors
    /// [`LogError::Fatal`] after a failed write or sync: nothing will come any more.
    pub fn wait(&self, feed: Feed, from: u64, wait: Duration) -> Result<bool, LogError> {
        let shared = &self.broker.shared;
        let has = |feeds: &std::collections::BTreeMap<Feed, _>| {
            feeds.get(&feed).is_some_and(|extent: &crate::embedded::shared::Extent| extent.next > from)
        };
        let waiting =
            shared.synced.wait_timeout_while(shared.durable(), wait, |durable| !has(&durable.feeds) && durable.failed.is_none());
        let (durable, _) = waiting.unwrap_or_else(PoisonError::into_inner);
        if has(&durable.feeds) {
            return Ok(true);
        }
        durable.failed.clone().map_or(Ok(false), Err)
    }

    /// State rows whose key begins with `prefix` and whose value `is_wanted`, in key order, at most `rows_max`. Waits at most `wait` until what it read is synced.
    ///
    /// # Errors
    /// [`LogError::Transient`] when the sync does not come; [`LogError::Fatal`] where the disk fails.
    pub fn rows(
        &self,
        prefix: &[u8],
        is_wanted: &dyn Fn(&[u8]) -> bool,
        rows_max: usize,
        wait: Duration,
    ) -> Result<Vec<StateRow>, LogError> {
        let mut rows = Vec::new();
        self.visit_rows(prefix, &mut |key, value| {
            if rows.len() >= rows_max {
                return ControlFlow::Break(());
            }
            if is_wanted(value) {
                rows.push((key.to_vec(), value.to_vec()));
            }
            ControlFlow::Continue(())
        })?;
        let written = Written(self.broker.shared.writer().written);
        if self.broker.wait_synced(written, wait)? { Ok(rows) } else { Err(LogError::Transient("no sync in time".to_owned())) }
    }

    /// Visits state rows whose key begins with `prefix`, in key order: as the lanes have committed them, synced or not. A power cut may
    /// still take back what was seen, and then the events behind it too.
    ///
    /// # Errors
    /// [`LogError::Fatal`] where the disk fails.
    pub fn visit_rows(&self, prefix: &[u8], visit: RowVisitor<'_>) -> Result<(), LogError> {
        let (from, mut to) = (layout::row_key(prefix), layout::row_key(prefix));
        while to.last() == Some(&u8::MAX) {
            to.pop();
        }
        // The first byte is the mark of rows, which is not 0xff: there is always a byte left to raise.
        if let Some(last) = to.last_mut() {
            *last += 1;
        }
        scan(&self.broker.shared.store, Area::Outputs, &from, &to, &mut |key, value| {
            let value =
                Stored::decode(value).and_then(|record| record.value).ok_or_else(|| corrupt("a state row is unreadable"))?;
            Ok(visit(key.get(1..).unwrap_or_default(), value))
        })
    }
}

fn owned(sequence: u64, record: &Stored<'_>) -> EmbeddedOutput {
    EmbeddedOutput {
        sequence,
        key: record.key.unwrap_or_default().to_vec(),
        value: record.value.map(<[u8]>::to_vec),
        headers: record.headers.iter().map(|(name, value)| ((*name).to_owned(), value.map(<[u8]>::to_vec))).collect(),
        timestamp_ms: record.timestamp_ms,
    }
}
