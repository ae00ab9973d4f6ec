//! Records that have numbers, read without a gap or not at all.

use std::ops::ControlFlow;

use loopwarden_core::event::TaskId;
use loopwarden_state::Area;

use crate::embedded::scan::{corrupt, scan};
use crate::embedded::shared::{Feed, Shared};
use crate::{LogError, embedded::layout, embedded::record::Stored};

/// Where records have numbers without a gap.
#[derive(Debug, Clone, Copy)]
pub(super) enum Series {
    Input(TaskId),
    Feed(Feed),
}

impl Series {
    pub(super) fn key(self, number: u64) -> Vec<u8> {
        match self {
            Self::Input(task) => layout::event_key(task, number).to_vec(),
            Self::Feed(feed) => layout::output_key(feed, number).to_vec(),
        }
    }

    pub(super) const fn area(self) -> Area {
        match self {
            Self::Input(_) => Area::Events,
            Self::Feed(_) => Area::Outputs,
        }
    }
}

impl std::fmt::Display for Series {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Input(task) => write!(f, "{task}"),
            Self::Feed(feed) => write!(f, "{feed:?}"),
        }
    }
}

/// Sees a record with its number and its size in bytes, and decides whether to go on.
pub(super) type VisitNumbered<'a> = dyn FnMut(u64, Stored<'_>, usize) -> Result<ControlFlow<()>, LogError> + 'a;

impl Shared {
    /// Visits the records of a series from number `from` up to `to`. Absent is only what retention has removed, before the first of them.
    ///
    /// # Errors
    /// [`LogError::Fatal`] `E0404` where a record is absent or unreadable; else as the store, and as `visit`.
    pub(super) fn numbered(&self, series: Series, from: u64, to: u64, visit: &mut VisitNumbered<'_>) -> Result<(), LogError> {
        let (mut next, mut is_ended) = (from, false);
        let missing = |number: u64| corrupt(&format!("record {number} of {series} is missing or unreadable"));
        scan(&self.store, series.area(), &series.key(from), &series.key(to), &mut |key, value| {
            let found = layout::number_of(key).zip(Stored::decode(value));
            let (number, record) = found.ok_or_else(|| missing(next))?;
            if number != next && (next != from || self.start(series) < number) {
                return Err(missing(next));
            }
            next = number + 1;
            let flow = visit(number, record, key.len() + value.len())?;
            is_ended = flow.is_break();
            Ok(flow)
        })?;
        let is_whole = is_ended || next >= to || (next == from && self.start(series) >= to);
        if is_whole { Ok(()) } else { Err(missing(next)) }
    }

    /// First number of a series that retention has left.
    fn start(&self, series: Series) -> u64 {
        let writer = self.writer();
        let extent = match series {
            Series::Input(task) => writer.inputs.get(&task),
            Series::Feed(feed) => writer.feeds.get(&feed),
        };
        extent.map_or(0, |extent| extent.start)
    }
}
