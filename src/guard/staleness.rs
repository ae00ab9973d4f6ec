//! How far verdicts can be trusted: by when their source was heard last, and how far its judging was behind.

use loopwarden_core::event::EventTime;

use crate::wire::answer::{Freshness, Source};

/// Verdicts of so long ago are stale. Milliseconds.
pub const STALE_AFTER_MS: i64 = 10_000;
/// Blocks that are known stand for so many times as long.
const BLOCKS_STAND: i64 = 3;

/// How much is known at the moment of a decision.
#[derive(Debug, Clone, Copy)]
pub struct Knowledge {
    /// When their source was heard last; none: never, or not in time.
    pub as_of: Option<EventTime>,
    /// How far its judging was behind the events then. Milliseconds.
    pub late_ms: i64,
    /// Where verdicts come from; answers show it.
    pub source: Source,
}

/// How far verdicts can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Verdicts are of now: all of them hold.
    Fresh,
    /// Blocks still stand; a nudge may be outdated.
    Aging,
    /// Verdicts are too old to hold any of them.
    Gone,
}

impl Knowledge {
    /// A source that is not heard may have lifted any block since. One that is heard but behind has not lifted those that are known, and
    /// whoever floods it must not do so either.
    ///
    /// What was kept over a restart at `kept_at` stands as long as what was heard then, and is stale.
    pub(crate) fn trust(self, stale_after_ms: i64, kept_at: Option<EventTime>, now: EventTime) -> (Trust, Freshness) {
        let Self { as_of, late_ms, source } = self;
        let since = |time: EventTime| now.0.saturating_sub(time.0).max(0);
        let (unheard_ms, known_ms) = (as_of.map(since), as_of.max(kept_at).map(since));
        let lag_ms = unheard_ms.map(|unheard_ms| unheard_ms.saturating_add(late_ms.max(0)));
        let trust = match (known_ms, lag_ms) {
            (_, Some(lag_ms)) if lag_ms <= stale_after_ms => Trust::Fresh,
            (Some(known_ms), _) if known_ms <= stale_after_ms.saturating_mul(BLOCKS_STAND) => Trust::Aging,
            _ => Trust::Gone,
        };
        let freshness = Freshness {
            as_of: lag_ms.map(|lag_ms| now.plus_ms(-lag_ms).to_rfc3339()),
            lag_ms: lag_ms.map(i64::unsigned_abs),
            stale: trust != Trust::Fresh,
            source,
        };
        (trust, freshness)
    }
}
