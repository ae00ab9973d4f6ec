//! Rare paths, named: each mark belongs to a golden case that reaches it.

/// A rare path that an input took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// The ring was full and its oldest step left.
    RingWrapped,
    /// A session was re-slotted because `history_steps` changed.
    RingResized,
    /// An open call was closed unobserved.
    CallClosed,
    /// A result was joined by tool, not by `call_id`.
    JoinedByTool,
    /// An episode was left and entered again.
    Relapsed,
    /// A block went out as a nudge because none had been given.
    NudgedBeforeBlock,
    /// A block was published again.
    BlockRenewed,
    /// An episode was dropped because as many as `kept` were newer.
    EpisodeDropped,
    /// A step was transparent: refused under a block of ours.
    Refused,
    /// A step was transparent: the same call in the same turn.
    SameTurn,
}

impl Mark {
    pub const ALL: [Self; 10] = [
        Self::RingWrapped,
        Self::RingResized,
        Self::CallClosed,
        Self::JoinedByTool,
        Self::Relapsed,
        Self::NudgedBeforeBlock,
        Self::BlockRenewed,
        Self::EpisodeDropped,
        Self::Refused,
        Self::SameTurn,
    ];
}
