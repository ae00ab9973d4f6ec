//! The parts of the database.

/// A part of the database with its own keys. One batch may write to all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Area {
    State,
    /// Records of the embedded log's inputs.
    Events,
    /// Records of the embedded log's outputs.
    Outputs,
    /// What the database itself is, and the embedded log's counters.
    Meta,
}

impl Area {
    pub const ALL: [Self; 4] = [Self::State, Self::Events, Self::Outputs, Self::Meta];

    /// Name of the column family.
    pub(super) const fn column_family(self) -> &'static str {
        match self {
            Self::State => rocksdb::DEFAULT_COLUMN_FAMILY_NAME,
            Self::Events => "events",
            Self::Outputs => "outputs",
            Self::Meta => "meta",
        }
    }
}
