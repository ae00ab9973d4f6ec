//! Event time: Unix milliseconds, to and from RFC 3339.

/// A point in time taken from a record, in Unix milliseconds. Never the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EventTime(pub i64);

impl EventTime {
    /// This time, `ms` milliseconds later; saturating.
    #[must_use]
    pub const fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// This time, `ms` milliseconds earlier; saturating.
    #[must_use]
    pub const fn minus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_sub(ms))
    }
}
