//! What is old or too much is deleted, but no input that its stage has not consumed (rule M4).

use std::{collections::BTreeMap, ops::ControlFlow};

use loopwarden_state::Area;

use crate::embedded::{scan::fatal, series::Series};
use crate::{LogError, SteadyClock};
use crate::{embedded::broker::EmbeddedBroker, embedded::layout, embedded::shared::Extent};

/// Records looked at per partition or feed and call. The rest waits for the next call.
const RECORDS_MAX: usize = 100_000;

/// How long and how much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Age up to which input is kept, by record timestamp. Milliseconds.
    pub input_ms: i64,
    /// Bytes of input kept over all partitions.
    pub input_bytes: u64,
    /// Age up to which outputs are kept. Milliseconds.
    pub output_ms: i64,
    /// Bytes of outputs kept over all feeds; state rows stay.
    pub output_bytes: u64,
}

/// Bytes that are too many, shared out by size; what one series cannot give, the next ones do.
struct Quota {
    excess: u64,
    total: u64,
}

impl Quota {
    fn of<'a>(extents: impl Iterator<Item = &'a Extent>, keep: u64) -> Self {
        let total = extents.map(Extent::bytes).sum::<u64>();
        Self { excess: total.saturating_sub(keep), total }
    }

    fn share(&self, extent: &Extent) -> u64 {
        let share = u128::from(self.excess) * u128::from(extent.bytes());
        share.div_ceil(u128::from(self.total.max(1))) as u64
    }

    fn note(&mut self, extent: &Extent, gone: u64) {
        self.excess = self.excess.saturating_sub(gone);
        self.total = self.total.saturating_sub(extent.bytes());
    }
}

impl EmbeddedBroker {
    /// The clock that says how old a record is, as an earlier process left it; in a new log it believes `wall_ms`.
    ///
    /// # Errors
    /// [`LogError::Fatal`] where the disk fails.
    pub fn age_clock(&self, wall_ms: i64, mono_ms: u64, doubt_ms_max: i64) -> Result<SteadyClock, LogError> {
        let kept = self.shared.store.get_raw(Area::Meta, layout::CLOCK).map_err(fatal)?;
        let kept = kept.and_then(|bytes| SteadyClock::decode(&bytes, mono_ms, doubt_ms_max));
        Ok(kept.unwrap_or_else(|| SteadyClock::new(wall_ms, mono_ms, doubt_ms_max)))
    }

    /// Keeps it for a later process.
    ///
    /// # Errors
    /// [`LogError::Fatal`] where the disk fails.
    pub fn keep_age_clock(&self, clock: &SteadyClock) -> Result<(), LogError> {
        let mut batch = self.shared.store.batch();
        batch.put(Area::Meta, layout::CLOCK, &clock.encode());
        let mut writer = self.shared.writer();
        self.write(&mut writer, batch).map(drop)
    }

    /// Deletes from the old end what is older or more than `keep` allows. One caller at a time, now and then. Returns bytes removed.
    ///
    /// # Errors
    /// [`LogError::Fatal`] where the disk fails.
    pub fn retain(&self, now_ms: i64, keep: &Retention) -> Result<u64, LogError> {
        let (inputs, feeds, offsets) = {
            let writer = self.shared.writer();
            let durable = self.shared.durable();
            // What readers cannot see yet stays. Where the rest begins, only the writer knows: what was synced last may be of before the last cut.
            let visible = |feed| durable.feeds.get(feed).map_or(0, |synced| synced.next);
            let feeds: BTreeMap<_, _> =
                writer.feeds.iter().map(|(feed, extent)| (*feed, Extent { next: visible(feed), ..*extent })).collect();
            (writer.inputs.clone(), feeds, writer.offsets.clone())
        };
        let mut removed = 0;
        let mut quota = Quota::of(inputs.values(), keep.input_bytes);
        for (task, extent) in &inputs {
            let end = extent.next.min(offsets.get(task).copied().unwrap_or(0));
            let before_ms = now_ms.saturating_sub(keep.input_ms);
            let gone = self.cut(Series::Input(*task), extent, end, before_ms, quota.share(extent))?;
            quota.note(extent, gone);
            removed += gone;
        }
        let mut quota = Quota::of(feeds.values(), keep.output_bytes);
        for (feed, extent) in &feeds {
            let before_ms = now_ms.saturating_sub(keep.output_ms);
            let gone = self.cut(Series::Feed(*feed), extent, extent.next, before_ms, quota.share(extent))?;
            quota.note(extent, gone);
            removed += gone;
        }
        Ok(removed)
    }

    /// Cuts one series: records before `end` that are older than `before_ms`, or as many as free `excess` bytes.
    fn cut(&self, series: Series, extent: &Extent, end: u64, before_ms: i64, excess: u64) -> Result<u64, LogError> {
        let (mut start, mut bytes, mut looked_at) = (extent.start, 0, 0);
        if start >= end {
            return Ok(0);
        }
        self.shared.numbered(series, start, end, &mut |_, record, size| {
            if looked_at == RECORDS_MAX || (record.timestamp_ms >= before_ms && bytes >= excess) {
                return Ok(ControlFlow::Break(()));
            }
            looked_at += 1;
            start += 1;
            bytes += size as u64;
            Ok(ControlFlow::Continue(()))
        })?;
        if bytes == 0 {
            return Ok(0);
        }
        let mut batch = self.shared.store.batch();
        batch.delete_range(series.area(), &series.key(extent.start), &series.key(start));
        let mut writer = self.shared.writer();
        let current = match series {
            Series::Input(task) => writer.inputs.get_mut(&task),
            Series::Feed(feed) => writer.feeds.get_mut(&feed),
        };
        let Some(current) = current else { return Ok(0) };
        current.start = start;
        current.removed_bytes += bytes;
        let current = *current;
        match series {
            Series::Input(task) => layout::put_input(&mut batch, task, &current),
            Series::Feed(feed) => layout::put_feed(&mut batch, feed, &current),
        }
        self.write(&mut writer, batch)?;
        Ok(bytes)
    }
}
