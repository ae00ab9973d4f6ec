//! What was written: a policy with all its layers merged, not yet checked. Nothing but [`validate`](super::validate) sees it.
//!
//! Words such as modes stay text and numbers stay as wide as TOML's, so that every problem can be told at once and with its key.

use serde::Deserialize;

/// A merged policy; the fields are the keys of `config/profiles/default.toml`, which documents each.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each field is the key of that name, documented in config/profiles/default.toml")]
pub struct RawPolicy {
    pub profile: String,
    pub history_steps: i64,
    pub open_call_ms: i64,
    pub idle_ms: i64,
    pub ended_ms: i64,
    pub poll_factor: f64,
    pub only: Vec<String>,
    pub priority: Vec<String>,
    pub identity: RawIdentity,
    pub outcomes: RawOutcomes,
    pub progress: RawProgress,
    pub episodes: RawEpisodes,
    pub evidence: RawEvidence,
    pub fusion: RawFusion,
    pub detectors: RawDetectors,
    pub tool: Vec<RawTool>,
}

/// `[identity]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawIdentity {
    pub fingerprint_args: Vec<String>,
    pub fingerprint_modifiers: Vec<String>,
    pub shell_tools: Vec<String>,
    pub shell_args: Vec<String>,
    pub shell_readers: Vec<String>,
    pub shell_writers: Vec<String>,
    pub waiters: Vec<String>,
    pub looks: Vec<String>,
    pub clean_paths: bool,
    pub use_description: bool,
    pub same_turn_once: bool,
}

/// `[outcomes]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawOutcomes {
    pub mask: bool,
    pub masks: Vec<Vec<String>>,
    pub chars: i64,
    pub volatile_fields: Vec<String>,
    pub generic: Vec<String>,
    pub generic_chars: i64,
    pub receipts: Vec<String>,
    pub denials: Vec<String>,
    pub empty: Vec<String>,
    pub spare_moving: bool,
    pub retryable: Vec<String>,
}

/// `[progress]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawProgress {
    pub user_message: String,
    pub mutation: bool,
    pub new_mutation: bool,
    pub world_state: bool,
}

/// `[episodes]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawEpisodes {
    pub renudge_hits: i64,
    pub renudge_factor: f64,
    pub relapse_steps: i64,
    pub nudge_before_block: bool,
    pub nudge_ms: i64,
    pub block_ms: i64,
    pub kept: i64,
}

/// `[evidence]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawEvidence {
    pub excerpts: bool,
    pub chars: i64,
}

/// `[fusion]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawFusion {
    pub decides: bool,
    pub bonus: f64,
    pub escalate_above: f64,
    pub escalate_count: i64,
}

/// `[detectors]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawDetectors {
    pub exact_repeat: RawExactRepeat,
    pub near_repeat: RawNearRepeat,
    pub outcome_repeat: RawOutcomeRepeat,
    pub state_repeat: RawStateRepeat,
    pub semantic_repeat: RawSemanticRepeat,
    pub oscillation: RawOscillation,
    pub dead_end: RawDeadEnd,
    pub stagnation: RawProgressMatrix,
    pub stuck: RawProgressMatrix,
    pub call_rate: RawCallRate,
    pub fleet_rate: RawFleetRate,
    pub test_fix: RawTestFix,
    pub shell_failures: RawShellFailures,
    pub text_only: RawTextOnly,
    pub exploration: RawExploration,
    pub swarm_repeat: RawSwarmRepeat,
}

/// `[detectors.exact_repeat]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawExactRepeat {
    pub mode: String,
    pub threshold: i64,
    pub block_at: i64,
    pub failures_at: i64,
    pub count: String,
    pub window_steps: i64,
    pub skip_classes: Vec<String>,
    pub result_aware: bool,
    pub evaluate: String,
    pub reject_notice: String,
    pub block_scope: String,
}

/// `[detectors.near_repeat]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawNearRepeat {
    pub mode: String,
    pub threshold: i64,
    pub block_at: i64,
    pub result_aware: bool,
    pub block_scope: String,
}

/// `[detectors.outcome_repeat]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawOutcomeRepeat {
    pub mode: String,
    pub threshold: i64,
    pub block_at: i64,
    pub block_scope: String,
}

/// `[detectors.state_repeat]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawStateRepeat {
    pub novelty_ends: bool,
    pub mode: String,
    pub threshold: i64,
    pub window_steps: i64,
}

/// `[detectors.semantic_repeat]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawSemanticRepeat {
    pub mode: String,
    pub threshold: i64,
    pub similarity: f64,
    pub window_steps: i64,
    pub output_chars: i64,
    pub stop_words: Vec<String>,
}

/// `[detectors.oscillation]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawOscillation {
    pub mode: String,
    pub threshold: i64,
    pub window_steps: i64,
    pub periods: Vec<i64>,
    pub needs_repeat: bool,
    pub cycles_alone: i64,
}

/// `[detectors.dead_end]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawDeadEnd {
    pub mode: String,
    pub threshold: i64,
    pub outages_at: i64,
    pub window_steps: i64,
    pub key_chars: i64,
    pub mask: bool,
    pub generic: Vec<String>,
}

/// `[detectors.stagnation]`, `[detectors.stuck]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawProgressMatrix {
    pub mode: String,
    pub threshold: i64,
    pub block_at: i64,
    pub tools: Vec<String>,
    pub block_scope: String,
}

/// `[detectors.call_rate]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawCallRate {
    pub mode: String,
    pub count: String,
    pub limit: i64,
    pub window_ms: i64,
    pub workers: i64,
}

/// `[detectors.fleet_rate]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawFleetRate {
    pub mode: String,
    pub limit: i64,
    pub window_ms: i64,
    pub key: String,
    pub tools: Vec<String>,
    pub keys_max: i64,
}

/// `[detectors.test_fix]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawTestFix {
    pub same_failure: bool,
    pub mode: String,
    pub threshold: i64,
    pub commands: Vec<String>,
    #[serde(rename = "match")]
    pub matching: String,
    pub zero_failed_fails: bool,
    pub logged_error_fails: bool,
}

/// `[detectors.shell_failures]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawShellFailures {
    pub mode: String,
    pub threshold: i64,
    pub file_tools: RawFileTools,
}

/// `detectors.shell_failures.file_tools`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawFileTools {
    pub create: String,
    pub edit: String,
    pub read: String,
}

/// `[detectors.text_only]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawTextOnly {
    pub mode: String,
    pub threshold: i64,
}

/// `[detectors.exploration]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawExploration {
    pub mode: String,
    pub threshold: i64,
    pub turns: i64,
    pub slice_turns: i64,
    pub slice_files: i64,
}

/// `[detectors.swarm_repeat]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawSwarmRepeat {
    pub mode: String,
    pub count: String,
    pub threshold: i64,
    pub workers_min: i64,
    pub window_ms: i64,
    pub pane_ms: i64,
    pub steps: String,
    pub block_at: i64,
    pub notify: String,
    pub cooldown_ms: i64,
    pub workers_max: i64,
    pub keys_max: i64,
}

/// `[[tool]]`; what is absent leaves what earlier entries said.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawTool {
    #[serde(default)]
    pub names: Vec<String>,
    pub class: Option<String>,
    pub identity: Option<String>,
    pub args: Option<Vec<String>>,
    pub args_ignored: Option<Vec<String>>,
    pub result_mask: Option<String>,
    pub result_ignored: Option<Vec<String>>,
    pub factor: Option<f64>,
}
