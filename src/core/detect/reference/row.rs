//! Failures in a row, which other steps do not interrupt.

/// Failures in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Row {
    /// How many.
    pub count: u32,
    /// Sequence of the first.
    pub first: u64,
}

impl Row {
    /// Takes one more.
    pub const fn extend(&mut self, sequence: u64) {
        if self.count == 0 {
            self.first = sequence;
        }
        self.count = self.count.saturating_add(1);
    }
}
