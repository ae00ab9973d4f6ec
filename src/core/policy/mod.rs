//! A policy: profile, thresholds, per-tool rules. Written by people ([`raw`]), checked all at once ([`validate`]), then only read.

mod detector;
mod patterns;
mod profile;
pub mod raw;
mod settings;
mod tool;
pub mod validate;

pub use detector::{Detector, Mode};
pub use patterns::TextPatterns;
pub use profile::{PROFILES, Profile};
pub use settings::*;
pub use tool::{ToolClass, ToolPolicy};
pub use validate::Problem;

use crate::identity::{Digest, FingerprintRules, OutcomeRules};

/// A complete, valid set of rules. Resolved once; the loop over steps has no configuration left to decide.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Name of the profile it came from.
    pub profile: String,
    /// SHA-256 of the effective policy as canonical JSON.
    pub hash: Digest,
    /// Steps kept per session.
    pub history_steps: usize,
    /// A call without a result is closed unobserved after this. Milliseconds.
    pub open_call_ms: i64,
    /// A session without events is forgotten after this. Milliseconds.
    pub idle_ms: i64,
    /// The same after `session_end`. Milliseconds.
    pub ended_ms: i64,
    /// Call identity and fingerprints.
    pub identity: IdentityPolicy,
    /// Outcome identity.
    pub outcomes: OutcomePolicy,
    /// What counts as progress.
    pub progress: ProgressPolicy,
    /// From findings to commands.
    pub episodes: EpisodePolicy,
    /// What evidence may hold.
    pub evidence: EvidencePolicy,
    /// Confidence fusion.
    pub fusion: FusionPolicy,
    /// Settings of each detector; `mode` is already `Off` for those not in `only`.
    pub detectors: Detectors,
    /// Rank of each detector by number; smaller speaks first.
    pub priority: [u8; Detector::COUNT],
    /// Per-tool policies.
    pub tools: ToolTable,
    /// What the running detectors need to know of a step; the rest is not computed.
    pub needs: Needs,
}

/// How calls are identified.
#[derive(Debug, Clone, Default)]
pub struct IdentityPolicy {
    /// Fingerprints and shell commands.
    pub fingerprint: FingerprintRules,
    /// The event's description stands for tool and arguments in `state_repeat` and `semantic_repeat` (corteX).
    pub use_description: bool,
    /// Identical calls of one turn are one piece of evidence.
    pub same_turn_once: bool,
    /// What a tool of class `mutates` is told in `command` or `action` where it is to change nothing.
    pub looks: Vec<String>,
}

/// How outcomes are compared.
#[derive(Debug, Clone, Default)]
pub struct OutcomePolicy {
    /// Masks, cut, volatile fields.
    pub rules: OutcomeRules,
    /// Whole answers that say nothing, lower case.
    pub generic: Vec<String>,
    /// Successful answers of at most so many characters say nothing either (`available`, `landed`); 0 = none. Off in IronCurtain,
    /// whose own tests answer `r1`.
    pub generic_chars: usize,
    /// Short successes in which one of these is found say nothing from the second time on.
    pub receipts: TextPatterns,
    /// Unless one of these is found too.
    pub denials: TextPatterns,
    /// Successes that are one of these as a whole say that there is nothing, however few characters they have.
    pub empty: TextPatterns,
    /// What may be progress brings no block: successes that are only the same once ids are masked, known answers that differ, a second round of
    /// known calls, looks a minute apart; and failures of a shell that change with each edit are no row.
    pub spare_moving: bool,
    /// Failures that are an outage, not a loop.
    pub retryable: TextPatterns,
}

/// What a person's message does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UserMessage {
    /// Forget, but blocks and `call_rate` stay.
    #[default]
    Reset,
    /// Only `text_only` restarts.
    Text,
    /// Nothing.
    Ignore,
}

/// What counts as progress (page `detection`).
#[derive(Debug, Clone, Copy, Default)]
pub struct ProgressPolicy {
    /// What a person's message does.
    pub user_message: UserMessage,
    /// A successful mutation ends the look back of window counts for a call that failed or is a test run.
    pub mutation: bool,
    /// A successful mutation by a call not made before begins the run of `near_repeat` anew, and counts for nothing in `stuck`. Never
    /// without `mutation`.
    pub new_mutation: bool,
    /// A `progress` event or a changed `state` does the same to every run and window.
    pub world_state: bool,
}

/// From findings to commands (page `detection`).
#[derive(Debug, Clone, Copy, Default)]
pub struct EpisodePolicy {
    /// Steps with a fresh finding until the same loop is told again.
    pub renudge_hits: u32,
    /// From the fifth telling of a loop on, each waits so many times as long as the one before. Times, at least 1.
    pub renudge_factor: f64,
    /// Steps after which an unseen episode is forgotten.
    pub relapse_steps: u32,
    /// A block needs an earlier nudge of its loop.
    pub nudge_before_block: bool,
    /// Lifetime of a nudge. Milliseconds.
    pub nudge_ms: i64,
    /// Lifetime of a block. Milliseconds.
    pub block_ms: i64,
    /// Episodes kept per session.
    pub kept: usize,
}

/// Tellings of a loop that come at an even pace.
const EVEN_TELLINGS: u32 = 4;

impl EpisodePolicy {
    /// Steps with a fresh finding until a loop is told again that was told so many times: who has heard it often is told ever less often.
    #[must_use]
    pub fn patience_hits(&self, tellings: u32) -> u32 {
        let exponent = tellings.saturating_sub(EVEN_TELLINGS).min(u32::BITS);
        // A cast from floating point saturates.
        (f64::from(self.renudge_hits) * self.renudge_factor.powi(exponent as i32)).ceil() as u32
    }
}

/// What evidence may hold.
#[derive(Debug, Clone, Copy, Default)]
pub struct EvidencePolicy {
    /// Content may leave, in evidence.
    pub excerpts: bool,
    /// Characters of an excerpt.
    pub chars: usize,
}

/// Confidence fusion (page `detection`).
#[derive(Debug, Clone, Copy, Default)]
pub struct FusionPolicy {
    /// The recommended action is the action.
    pub decides: bool,
    /// Added per further finding.
    pub bonus: f64,
    /// Escalate strictly above this combined confidence.
    pub escalate_above: f64,
    /// Escalate strictly above this count.
    pub escalate_count: u32,
}

/// Settings of every detector.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "each field is the detector of that name")]
pub struct Detectors {
    pub exact_repeat: ExactRepeat,
    pub near_repeat: NearRepeat,
    pub outcome_repeat: OutcomeRepeat,
    pub state_repeat: StateRepeat,
    pub semantic_repeat: SemanticRepeat,
    pub oscillation: Oscillation,
    pub dead_end: DeadEnd,
    pub stagnation: ProgressMatrix,
    pub stuck: ProgressMatrix,
    pub call_rate: CallRate,
    pub fleet_rate: FleetRate,
    pub test_fix: TestFix,
    pub shell_failures: ShellFailures,
    pub text_only: TextOnly,
    pub exploration: Exploration,
    pub swarm_repeat: SwarmRepeat,
}

impl Detectors {
    /// The mode of a detector.
    #[must_use]
    pub const fn mode(&self, detector: Detector) -> Mode {
        match detector {
            Detector::ExactRepeat => self.exact_repeat.mode,
            Detector::NearRepeat => self.near_repeat.mode,
            Detector::OutcomeRepeat => self.outcome_repeat.mode,
            Detector::StateRepeat => self.state_repeat.mode,
            Detector::SemanticRepeat => self.semantic_repeat.mode,
            Detector::Oscillation => self.oscillation.mode,
            Detector::DeadEnd => self.dead_end.mode,
            Detector::Stagnation => self.stagnation.mode,
            Detector::Stuck => self.stuck.mode,
            Detector::CallRate => self.call_rate.mode,
            Detector::FleetRate => self.fleet_rate.mode,
            Detector::TestFix => self.test_fix.mode,
            Detector::ShellFailures => self.shell_failures.mode,
            Detector::TextOnly => self.text_only.mode,
            Detector::Exploration => self.exploration.mode,
            Detector::SwarmRepeat => self.swarm_repeat.mode,
        }
    }

    /// Whether a detector may place blocks by its own count: in mode `block`, unless that count is switched off.
    #[must_use]
    pub const fn blocks_alone(&self, detector: Detector) -> bool {
        matches!(self.mode(detector), Mode::Block) && self.block_at(detector) > 0
    }

    /// Detectors in mode `block` that have no count of a block: by themselves they nudge at the most.
    #[must_use]
    pub fn that_only_nudge(&self) -> Vec<Detector> {
        let only_nudges = |detector: &Detector| self.mode(*detector) == Mode::Block && self.count_of_blocks(*detector).is_none();
        Detector::ALL.into_iter().filter(only_nudges).collect()
    }

    /// Count of a block by a detector alone, before factors of tools; 0 = never.
    #[must_use]
    pub const fn block_at(&self, detector: Detector) -> u32 {
        match self.count_of_blocks(detector) {
            Some(count) => count,
            None => 0,
        }
    }

    /// The same; `None` where the detector has no such setting.
    const fn count_of_blocks(&self, detector: Detector) -> Option<u32> {
        Some(match detector {
            Detector::ExactRepeat => self.exact_repeat.block_at,
            Detector::NearRepeat => self.near_repeat.block_at,
            Detector::OutcomeRepeat => self.outcome_repeat.block_at,
            Detector::Stagnation => self.stagnation.block_at,
            Detector::Stuck => self.stuck.block_at,
            Detector::SwarmRepeat => self.swarm_repeat.block_at,
            // A rate refuses what is above its limit.
            Detector::CallRate => self.call_rate.limit.saturating_add(1),
            Detector::FleetRate => self.fleet_rate.limit.saturating_add(1),
            Detector::StateRepeat
            | Detector::SemanticRepeat
            | Detector::Oscillation
            | Detector::DeadEnd
            | Detector::TestFix
            | Detector::ShellFailures
            | Detector::TextOnly
            | Detector::Exploration => return None,
        })
    }

    /// The mode of a detector, to change it.
    pub(crate) const fn mode_mut(&mut self, detector: Detector) -> &mut Mode {
        match detector {
            Detector::ExactRepeat => &mut self.exact_repeat.mode,
            Detector::NearRepeat => &mut self.near_repeat.mode,
            Detector::OutcomeRepeat => &mut self.outcome_repeat.mode,
            Detector::StateRepeat => &mut self.state_repeat.mode,
            Detector::SemanticRepeat => &mut self.semantic_repeat.mode,
            Detector::Oscillation => &mut self.oscillation.mode,
            Detector::DeadEnd => &mut self.dead_end.mode,
            Detector::Stagnation => &mut self.stagnation.mode,
            Detector::Stuck => &mut self.stuck.mode,
            Detector::CallRate => &mut self.call_rate.mode,
            Detector::FleetRate => &mut self.fleet_rate.mode,
            Detector::TestFix => &mut self.test_fix.mode,
            Detector::ShellFailures => &mut self.shell_failures.mode,
            Detector::TextOnly => &mut self.text_only.mode,
            Detector::Exploration => &mut self.exploration.mode,
            Detector::SwarmRepeat => &mut self.swarm_repeat.mode,
        }
    }
}

/// Tool policies by name: exact names first looked up, then prefixes; a tool without an entry has the default.
#[derive(Debug, Clone, Default)]
pub struct ToolTable {
    /// Resolved policies of exact names, sorted by [`ToolTable::rank`]. A prefix entry that also covers the name is already merged in.
    pub(crate) exact: Vec<(String, ToolPolicy)>,
    /// Policies of prefixes (written `name*`), longest prefix first, each with all entries that cover it merged in file order.
    pub(crate) prefixes: Vec<(String, ToolPolicy)>,
    /// Policy of every other tool.
    pub(crate) other: ToolPolicy,
}

impl ToolTable {
    /// The policy of a tool. One of a server, as `mcp__jobs__get_status`, has that of its last name where it has none of its own.
    #[must_use]
    pub fn get(&self, tool: &str) -> &ToolPolicy {
        // Names are short: a loop finds it sooner than a search for texts is set up.
        let own_name = || tool.get(tool.as_bytes().windows(2).rposition(|pair| pair == b"__")? + 2..);
        self.find(tool).or_else(|| self.find(own_name()?)).unwrap_or(&self.other)
    }

    fn find(&self, tool: &str) -> Option<&ToolPolicy> {
        if let Ok(found) = self.exact.binary_search_by(|(name, _)| Self::rank(name).cmp(&Self::rank(tool))) {
            return self.exact.get(found).map(|(_, policy)| policy);
        }
        self.prefixes.iter().find(|(prefix, _)| tool.starts_with(prefix.as_str())).map(|(_, policy)| policy)
    }

    /// What exact names are sorted by: length first, so that nearly every step of a search compares two numbers.
    const fn rank(name: &str) -> (usize, &str) {
        (name.len(), name)
    }
}

/// What the running detectors need to know of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// Fingerprints.
    pub fingerprint: bool,
    /// Outcome identities.
    pub outcome: bool,
    /// State hashes (`state_repeat`).
    pub state: bool,
    /// Token signatures (`semantic_repeat`).
    pub tokens: bool,
    /// Error keys (`dead_end`).
    pub error: bool,
    /// Test signals (`test_fix`).
    pub test: bool,
    /// Read targets (`exploration`).
    pub read_target: bool,
    /// Counts for the swarm stage.
    pub swarm: bool,
}
