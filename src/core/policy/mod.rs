//! A policy: profile, thresholds, per-tool rules. Written by people, checked all at once ([`validate`]), then only read.

mod budgets;
mod detectors;
mod prices;
mod profile;
mod tenants;
mod trial;
pub mod validate;

pub use budgets::{Budget, BudgetStep, Budgets, Per, Quantity, Reached, Used};
pub use prices::Prices;
pub use profile::{PROFILES, Profile};
pub use tenants::TenantLimits;
pub use trial::{Arm, Trial};

pub use crate::detect::reference::exact_repeat::{Evaluate, RepeatCount};
pub use crate::detect::reference::fleet_rate::FleetKey;
pub use crate::detect::swarm_repeat::{Counted, Notify, Settings as SwarmRepeat, SwarmSteps, Worker};
pub use crate::detect::{Detector, Detectors, Weights};
use crate::identity::{Digest, FingerprintRules, OutcomeRules};
pub use crate::setting::{BlockScope, Mode, Needs, Problem, Setting, TextPatterns, ToolClass, ToolPolicy, ToolTable, Value};

/// A complete, valid set of rules. Resolved once; the loop over steps has no configuration left to decide.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Name of the profile it came from.
    pub profile: String,
    /// SHA-256 of the effective policy as canonical JSON.
    pub hash: Digest,
    /// Steps that are kept of a session.
    pub history_steps: usize,
    /// A call without a result is closed unobserved after this. Milliseconds.
    pub open_call_ms: i64,
    /// A session without events is forgotten after this. Milliseconds.
    pub idle_ms: i64,
    /// The same after `session_end`. Milliseconds.
    pub ended_ms: i64,
    pub identity: IdentityPolicy,
    pub outcomes: OutcomePolicy,
    pub progress: ProgressPolicy,
    pub episodes: EpisodePolicy,
    pub evidence: EvidencePolicy,
    pub fusion: FusionPolicy,
    /// What facts weigh, and from which sum on there is a finding.
    pub score: Weights,
    /// Settings of each detector; `mode` is already `Off` for those not in `only`.
    pub detectors: Detectors,
    /// Rank of each detector by number; smaller speaks first.
    pub priority: [u8; Detector::COUNT],
    pub tools: ToolTable,
    /// How many events of a tenant are judged.
    pub tenants: TenantLimits,
    /// Which sessions are only watched, for comparison.
    pub trial: Trial,
    /// What many may use together.
    pub budgets: Budgets,
    /// What tokens cost, where events do not give it.
    pub prices: Prices,
    /// What the running detectors need to know of a step; the rest is not computed.
    pub needs: Needs,
}

#[derive(Debug, Clone, Default)]
pub struct IdentityPolicy {
    pub fingerprint: FingerprintRules,
    /// The event's description stands for tool and arguments in `state_repeat` and `semantic_repeat` (corteX).
    pub use_description: bool,
    /// Identical calls of one turn are one piece of evidence.
    pub same_turn_once: bool,
    /// What a tool of class `mutates` is given in `command` or `action` where it is to change nothing.
    pub looks: Vec<String>,
}

#[derive(Debug, Clone, Default)]
pub struct OutcomePolicy {
    pub rules: OutcomeRules,
    /// Failures that are an outage, not a loop.
    pub retryable: TextPatterns,
}

/// What a person's message does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UserMessage {
    /// Forget, but blocks and `call_rate` stay.
    #[default]
    Reset,
    /// The same where it brings something: a text like one of the last ones does not.
    News,
    /// Only the counter of `text_only` begins again.
    Text,
    Ignore,
}

/// What the beginning and the end of a session let it forget. Both are claims of an agent about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SessionBounds {
    /// Everything, with the blocks in force.
    #[default]
    All,
    /// What was counted; a block in force stands until it ends, or an operator lifts it.
    Counts,
}

/// What counts as progress (page `detection`).
#[derive(Debug, Clone, Copy, Default)]
pub struct ProgressPolicy {
    /// What a person's message does.
    pub user_message: UserMessage,
    /// What `session_start` and `session_end` do.
    pub session_bounds: SessionBounds,
    /// A `progress` event or a changed `state` begins every run and window anew.
    pub world_state: bool,
}

/// From findings to commands (page `detection`).
#[derive(Debug, Clone, Copy, Default)]
pub struct EpisodePolicy {
    /// Steps with a current finding until the same loop is published again.
    pub renudge_hits: u32,
    /// Steps that raise the score from a nudge to a block.
    pub block_hits: u32,
    /// From the fifth command about a loop on, each waits so many times as long as the one before. Times, at least 1.
    pub renudge_factor: f64,
    /// Steps after which an unseen episode is forgotten.
    pub relapse_steps: u32,
    /// A block needs an earlier nudge of its loop.
    pub nudge_before_block: bool,
    /// Lifetime of a nudge. Milliseconds.
    pub nudge_ms: i64,
    /// Lifetime of a block. Milliseconds.
    pub block_ms: i64,
    /// Episodes that are kept of a session; the oldest goes first.
    pub kept: usize,
}

/// Commands about a loop that come at an even pace.
const EVEN_COMMANDS: u32 = 4;

impl EpisodePolicy {
    /// Steps with a current finding until a loop is published again that was published so many times: each time it takes longer.
    #[must_use]
    pub fn hits_until_nudge(&self, nudges: u32) -> u32 {
        let exponent = nudges.saturating_sub(EVEN_COMMANDS).min(u32::BITS);
        // A cast from floating point saturates.
        (f64::from(self.renudge_hits) * self.renudge_factor.powi(exponent as i32)).ceil() as u32
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub struct EvidencePolicy {
    /// Content may leave, in evidence.
    pub excerpts: bool,
    /// Characters that an excerpt holds at most.
    pub chars: usize,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct FusionPolicy {
    /// The recommended action is the action.
    pub decides: bool,
    /// Added to the mean for each further finding.
    pub bonus: f64,
    /// Escalate strictly above this combined confidence.
    pub escalate_above: f64,
    /// Escalate strictly above this count.
    pub escalate_count: u32,
}
