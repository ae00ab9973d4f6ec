//! What a detector has found, and which loop it means.

use crate::detect::{detector::Detector, reference::category::Category};
use crate::event::EventTime;
use crate::identity::{Hash64, Hash128};
use crate::setting::{BlockScope, Mode};

/// A detector's yes at one event.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The detector that has found it.
    pub detector: Detector,
    pub mode: Mode,
    /// What the detector takes for one loop (page `detection`).
    pub identity: Hash64,
    /// What was counted: steps, calls, texts or what a budget is of.
    pub count: u32,
    /// Count from which on there is a finding.
    pub threshold: u32,
    /// Count of a block under this tool's factor; 0 = never.
    pub block_at: u32,
    /// Window the count was made in: steps, or ms for the rates; 0 = a run.
    pub window: u64,
    /// Steps of one round (`oscillation`, `cycle`), words of a phrase (`own_words`), else 0.
    pub period: u32,
    /// 1 … 3 for detectors with tiers, else 0.
    pub tier: u8,
    /// How certain the detector is, from 0 to 1.
    pub confidence: f64,
    /// Class of the step in the progress matrix.
    pub category: Category,
    /// First step that was counted.
    pub first: u64,
    /// Last step that was counted.
    pub last: u64,
    /// The current step takes part. One that is not current is recorded, never published.
    pub is_current: bool,
    /// When its block would pass again by itself (`call_rate`).
    pub free_at: Option<EventTime>,
    /// What its block covers, where the finding knows better than the detector's settings.
    pub scope: Option<BlockScope>,
    /// The calls that were counted share their fingerprint, and differ in other arguments: a block of a call is one of all that share it.
    pub varies: bool,
    /// Times as many steps as usual until it is published again: above 1 for an agent that waits.
    pub poll_factor: u32,
    /// What was used up (`budget`).
    pub quantity: Option<Quantity>,
}

impl Finding {
    /// A current finding without window, tier or block.
    #[must_use]
    pub fn new(detector: Detector, mode: Mode, identity: Hash64, count: u32, threshold: u32) -> Self {
        Self {
            detector,
            mode,
            identity,
            count,
            threshold,
            block_at: 0,
            window: 0,
            period: 0,
            tier: 0,
            confidence: 1.0,
            category: Category::None,
            first: 0,
            last: 0,
            is_current: true,
            free_at: None,
            scope: None,
            varies: false,
            poll_factor: 1,
            quantity: None,
        }
    }

    /// Confidence that grows with the count: base + slope · (count − threshold), clamped to 1.
    #[must_use]
    pub fn confident(mut self, base: f64, slope: f64) -> Self {
        self.confidence = slope.mul_add(f64::from(self.count.saturating_sub(self.threshold)), base).clamp(0.0, 1.0);
        self
    }

    /// First and last step counted.
    #[must_use]
    pub const fn spanning(mut self, first: u64, last: u64) -> Self {
        self.first = first;
        self.last = last;
        self
    }

    /// Blocks from this count on; 0 = never.
    #[must_use]
    pub const fn blocking_at(mut self, block_at: u32) -> Self {
        self.block_at = block_at;
        self
    }

    /// Sets the window that the count was made in.
    #[must_use]
    pub const fn within(mut self, window: u64) -> Self {
        self.window = window;
        self
    }

    /// Whether a block may follow: mode `block`, and there is a count of a block.
    #[must_use]
    pub const fn can_block(&self) -> bool {
        matches!(self.mode, Mode::Block) && self.block_at > 0
    }

    /// Whether it asks for a block: mode `block`, and the count is reached.
    #[must_use]
    pub const fn wants_block(&self) -> bool {
        self.can_block() && self.count >= self.block_at
    }
}

/// What a budget is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Quantity {
    Calls = 1,
    ToolCalls = 2,
    Turns = 3,
    /// Input and output tokens of all events.
    Tokens = 4,
    /// Millionths of a US dollar.
    Cost = 5,
    /// Seconds of event time since the first event.
    Wall = 6,
}

/// Loop families (page `detection`): within one, equal hashes are one loop, whoever saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Family {
    /// Exact, near, outcome and state repeats, stagnation.
    Repeat = 1,
    /// Oscillation, and cycles without answers.
    Cycle = 2,
    /// Known outcomes of new calls: `stuck`.
    Outcome = 3,
    /// An error that comes back: `dead_end`.
    Error = 4,
    /// Variations of one idea: `semantic_repeat`.
    Meaning = 5,
    Test = 6,
    Shell = 7,
    /// Text turns, and texts that repeat.
    Text = 8,
    Explore = 9,
    Swarm = 10,
    Rate = 11,
    /// Steps that bring nothing, whichever detector sees them.
    Evidence = 12,
    Budget = 13,
}

/// Identity of a loop: its family and what is repeated in it. Stored with episodes, so the mixing never changes.
#[must_use]
pub fn loop_identity(family: Family, parts: &[u64]) -> Hash64 {
    let mut state = 0x6c6f_6f70_7761_7264 ^ u64::from(family as u8);
    for part in parts {
        // The finaliser of SplitMix64: every bit of a part reaches every bit of the state.
        state = (state ^ part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^= state >> 31;
    }
    Hash64(state.max(1))
}

/// The two halves of a long hash.
#[must_use]
pub const fn halves(hash: Hash128) -> [u64; 2] {
    [(hash.0 >> 64) as u64, hash.0 as u64]
}

/// Loop identity of the detectors of evidence: findings that share steps are one loop, whoever sees it. An agent is in one such loop at a time.
#[must_use]
pub fn evidence_identity() -> Hash64 {
    loop_identity(Family::Evidence, &[])
}

/// Loop identity of the repeat family: the fingerprint, which holds the tool.
#[must_use]
pub fn repeat_identity(fingerprint: Hash128) -> Hash64 {
    loop_identity(Family::Repeat, &halves(fingerprint))
}
