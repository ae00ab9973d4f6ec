//! A policy: profile, thresholds, per-tool rules. Written by people, checked all at once ([`validate`]), then only read.

mod budgets;
mod prices;
mod tenants;
mod trial;
pub mod validate;

pub use budgets::{Budget, BudgetScope, BudgetStep, Budgets, Per, Quantity, Reached, Used};
pub use prices::Prices;
pub use tenants::TenantLimits;
pub use trial::{Arm, Trial};

pub use crate::detect::reference::exact_repeat::{Evaluate, RepeatCount};
pub use crate::detect::reference::fleet_rate::FleetKey;
pub use crate::detect::swarm_repeat::{Counted, Notify, Settings as SwarmRepeat, SwarmSteps, Worker};
pub use crate::detect::{Detector, Detectors, Weights};
use crate::identity::{Digest, FingerprintRules, OutcomeRules};
use crate::limits::{DESCRIPTION_CHARS_MAX, EPISODES_KEPT_MAX};
pub use crate::setting::{
    BlockScope, Mode, Needs, Problem, Section, Setting, TextPatterns, ToolClass, ToolPolicy, ToolTable, Value,
};
use crate::setting::{Flag, Growth, Share, chars, count, millis, one_of, settings, words};

/// A profile that ships with the program, as text: `config` parses and merges it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    pub name: &'static str,
    pub text: &'static str,
}

/// All shipped profiles: `default`, the base `plain`, and one per reference system.
pub const PROFILES: [Profile; 7] = [
    Profile { name: "default", text: include_str!("../../../config/profiles/default.toml") },
    Profile { name: "plain", text: include_str!("../../../config/profiles/plain.toml") },
    Profile { name: "hackeurope", text: include_str!("../../../config/profiles/hackeurope.toml") },
    Profile { name: "attocode", text: include_str!("../../../config/profiles/attocode.toml") },
    Profile { name: "cortex", text: include_str!("../../../config/profiles/cortex.toml") },
    Profile { name: "rockbot", text: include_str!("../../../config/profiles/rockbot.toml") },
    Profile { name: "ironcurtain", text: include_str!("../../../config/profiles/ironcurtain.toml") },
];

impl Profile {
    /// The profile that a policy without a base begins from, that every other one leads back to, and that names every key.
    pub const DEFAULT: Self = PROFILES[0];

    /// The shipped profile of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        PROFILES.into_iter().find(|profile| profile.name == name)
    }
}

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

words! {
    /// What a person's message does.
    pub enum UserMessage {
        /// Forget, but blocks and `call_rate` stay.
        Reset = "reset",
        /// The same where it brings something: a text like one of the last ones does not.
        News = "news",
        /// Only the counter of `text_only` begins again.
        Text = "text",
        Ignore = "ignore",
    }
}

words! {
    /// What the beginning and the end of a session let it forget. Both are claims of an agent about itself.
    pub enum SessionBounds {
        /// Everything, with the blocks in force.
        All = "all",
        /// What was counted; a block in force stands until it ends, or an operator lifts it.
        Counts = "counts",
    }
}

settings! {
    /// What counts as progress (page `detection`).
    #[derive(Copy)]
    pub struct ProgressPolicy {
        /// What a person's message does.
        user_message: UserMessage, one_of(UserMessage::WORDS);
        /// What `session_start` and `session_end` do.
        session_bounds: SessionBounds, one_of(SessionBounds::WORDS);
        /// A `progress` event or a changed `state` begins every run and window anew.
        world_state: bool, Flag;
    }
}

settings! {
    /// From findings to commands (page `detection`).
    #[derive(Copy)]
    pub struct EpisodePolicy {
        /// Steps with a current finding until the same loop is published again.
        renudge_hits: u32, count(1);
        /// Steps that raise the score from a nudge to a block.
        block_hits: u32, count(1);
        /// From the fifth command about a loop on, each waits so many times as long as the one before. Times, at least 1.
        renudge_factor: f64, Growth;
        /// Steps after which an unseen episode is forgotten.
        relapse_steps: u32, count(0);
        /// A block needs an earlier nudge of its loop.
        nudge_before_block: bool, Flag;
        /// Lifetime of a nudge. Milliseconds.
        nudge_ms: i64, millis(1);
        /// Lifetime of a block. Milliseconds.
        block_ms: i64, millis(1);
        /// Episodes that are kept of a session; the oldest goes first.
        kept: usize, chars(1, EPISODES_KEPT_MAX);
    }
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

settings! {
    #[derive(Copy)]
    pub struct EvidencePolicy {
        /// Content may leave, in evidence.
        excerpts: bool, Flag;
        /// Characters that an excerpt holds at most.
        chars: usize, chars(0, DESCRIPTION_CHARS_MAX);
    }
}

settings! {
    #[derive(Copy)]
    pub struct FusionPolicy {
        /// The recommended action is the action.
        decides: bool, Flag;
        /// Added to the mean for each further finding.
        bonus: f64, Share;
        /// Escalate strictly above this combined confidence.
        escalate_above: f64, Share;
        /// Escalate strictly above this count.
        escalate_count: u32, count(0);
    }
}
