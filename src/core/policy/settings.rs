//! The validated settings of each detector. Ranges are checked by `validate`; nothing here can be out of bounds.

use crate::identity::{MaskSet, StopWords};
use crate::policy::detector::Mode;
use crate::policy::patterns::TextPatterns;

/// What a block covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BlockScope {
    /// Calls with the looping identity.
    #[default]
    Fingerprint,
    /// Calls of the tool.
    Tool,
    /// Every call of the agent.
    Session,
}

/// How `exact_repeat` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RepeatCount {
    /// Consecutive steps at the tail (attocode).
    #[default]
    Run,
    /// Anywhere in the last `window_steps` calls (HackEurope26).
    Window,
}

/// When `exact_repeat` answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Evaluate {
    /// At each call.
    #[default]
    Call,
    /// Once per turn, before the next begins.
    Turn,
}

/// `detectors.exact_repeat`.
#[derive(Debug, Clone, Default)]
pub struct ExactRepeat {
    /// What it may do.
    pub mode: Mode,
    /// Count of a finding.
    pub threshold: u32,
    /// Count of a block; 0 = never.
    pub block_at: u32,
    /// Equal calls in a row that all failed, of a finding whatever their errors say; 0 = never.
    pub failures_at: u32,
    /// How it counts.
    pub count: RepeatCount,
    /// Calls looked at with `RepeatCount::Window`.
    pub window_steps: u32,
    /// Tools of class `poll` are recorded but never the counted hash of a window.
    pub skip_poll: bool,
    /// Tools of class `read` likewise.
    pub skip_read: bool,
    /// Tools of class `normal` likewise.
    pub skip_normal: bool,
    /// Tools of class `mutates` likewise.
    pub skip_mutates: bool,
    /// A changed answer ends the run.
    pub result_aware: bool,
    /// When it answers.
    pub evaluate: Evaluate,
    /// The sentence that announces rejection is kept in every mode (attocode), not only in mode `block`.
    pub reject_notice_always: bool,
    /// What its block covers.
    pub block_scope: BlockScope,
}

/// `detectors.near_repeat`.
#[derive(Debug, Clone, Default)]
pub struct NearRepeat {
    /// What it may do.
    pub mode: Mode,
    /// Count of a finding.
    pub threshold: u32,
    /// Count of a block; 0 = never.
    pub block_at: u32,
    /// A changed answer restarts the run.
    pub result_aware: bool,
    /// What its block covers.
    pub block_scope: BlockScope,
}

/// `detectors.outcome_repeat`.
#[derive(Debug, Clone, Default)]
pub struct OutcomeRepeat {
    /// What it may do.
    pub mode: Mode,
    /// Count of a finding.
    pub threshold: u32,
    /// Count of a block; 0 = never.
    pub block_at: u32,
    /// What its block covers.
    pub block_scope: BlockScope,
}

/// `detectors.state_repeat`.
#[derive(Debug, Clone, Default)]
pub struct StateRepeat {
    /// What it may do.
    pub mode: Mode,
    /// Count of a finding.
    pub threshold: u32,
    /// Completed steps looked at.
    pub window_steps: u32,
    /// A step with a new call and a new answer ends the look back: coming back to a check after something new was tried is
    /// verification. Off in corteX.
    pub novelty_ends: bool,
}

/// `detectors.semantic_repeat`.
#[derive(Debug, Clone, Default)]
pub struct SemanticRepeat {
    /// What it may do.
    pub mode: Mode,
    /// Similar earlier steps of a finding.
    pub threshold: u32,
    /// Jaccard similarity; strictly greater is similar.
    pub similarity: f64,
    /// Earlier completed steps looked at.
    pub window_steps: u32,
    /// Characters of the output that enter the signature.
    pub output_chars: usize,
    /// Words that do not count. Sorted.
    pub stop_words: StopWords,
}

/// `detectors.oscillation`.
#[derive(Debug, Clone, Default)]
pub struct Oscillation {
    /// What it may do.
    pub mode: Mode,
    /// Cycles of a finding.
    pub threshold: u32,
    /// Steps looked at.
    pub window_steps: u32,
    /// Periods looked for. Sorted, each 2 … half the window.
    pub periods: Vec<u32>,
    /// A command needs that the last cycle repeats the one before in call or answer.
    pub needs_repeat: bool,
    /// Cycles that are enough without.
    pub cycles_alone: u32,
}

/// `detectors.dead_end`.
#[derive(Debug, Clone, Default)]
pub struct DeadEnd {
    /// What it may do.
    pub mode: Mode,
    /// Count of a finding.
    pub threshold: u32,
    /// Outages in a row of a finding, whatever was asked; 0 = never.
    pub outages_at: u32,
    /// Steps looked at.
    pub window_steps: u32,
    /// Characters of the error key.
    pub key_chars: usize,
    /// Masks of the error key; none where switched off.
    pub mask: MaskSet,
    /// Error texts that, matched whole, name no error.
    pub generic: TextPatterns,
}

/// `detectors.stagnation`, `detectors.stuck`.
#[derive(Debug, Clone, Default)]
pub struct ProgressMatrix {
    /// What it may do.
    pub mode: Mode,
    /// Streak of a finding.
    pub threshold: u32,
    /// Streak of a block; 0 = never.
    pub block_at: u32,
    /// Tools that take part; empty = all. Sorted.
    pub tools: Vec<String>,
    /// What its block covers.
    pub block_scope: BlockScope,
}

/// `detectors.call_rate`.
#[derive(Debug, Clone, Default)]
pub struct CallRate {
    /// What it may do.
    pub mode: Mode,
    /// Which calls count; key `count`, `unproductive` or `all`.
    pub count: Counted,
    /// So many pass, the next is refused. Already multiplied by `workers`.
    pub limit: u32,
    /// Sliding window, event time. Milliseconds.
    pub window_ms: i64,
}

/// What `fleet_rate` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FleetKey {
    /// Call identity.
    #[default]
    Call,
    /// Canonical arguments alone: a definition.
    Args,
}

/// `detectors.fleet_rate`.
#[derive(Debug, Clone, Default)]
pub struct FleetRate {
    /// What it may do.
    pub mode: Mode,
    /// So many pass in a window; 0 = off.
    pub limit: u32,
    /// Fixed window aligned to the Unix epoch. Milliseconds; 0 = off.
    pub window_ms: i64,
    /// What is counted.
    pub key: FleetKey,
    /// Tools it counts. Sorted.
    pub tools: Vec<String>,
    /// Counters kept per task.
    pub keys_max: u32,
}

/// `detectors.test_fix`.
#[derive(Debug, Clone, Default)]
pub struct TestFix {
    /// What it may do.
    pub mode: Mode,
    /// Failing runs of a finding.
    pub threshold: u32,
    /// What makes a shell command a test run.
    pub commands: Vec<String>,
    /// Entries match as words; else anywhere.
    pub match_words: bool,
    /// `0 failed` is a failure (attocode's code).
    pub zero_failed_fails: bool,
    /// `ERROR` and `FAILED` in a run that worked and counts passed tests are a failure (attocode's code); else only numbers are there.
    pub logged_error_fails: bool,
    /// Only a failure that has been seen before counts: tests that fail in a new way are work that moves. Off in attocode.
    pub same_failure: bool,
}

/// `detectors.shell_failures`.
#[derive(Debug, Clone, Default)]
pub struct ShellFailures {
    /// What it may do.
    pub mode: Mode,
    /// Failures in a row of a finding.
    pub threshold: u32,
    /// Name of the tool that creates files, for the text.
    pub create_tool: String,
    /// Name of the tool that edits files, for the text.
    pub edit_tool: String,
    /// Name of the tool that reads files, for the text.
    pub read_tool: String,
}

/// `detectors.text_only`.
#[derive(Debug, Clone, Default)]
pub struct TextOnly {
    /// What it may do.
    pub mode: Mode,
    /// Text turns of a finding.
    pub threshold: u32,
}

/// `detectors.exploration`.
#[derive(Debug, Clone, Default)]
pub struct Exploration {
    /// What it may do.
    pub mode: Mode,
    /// Distinct files of a finding.
    pub threshold: u32,
    /// Turns of a finding.
    pub turns: u32,
    /// Turns looked at for new files.
    pub slice_turns: u32,
    /// Fewer new files than this in the slice is saturation.
    pub slice_files: u32,
}

/// Which steps of a swarm counter are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SwarmSteps {
    /// The threshold, and in mode `block` `block_at`.
    #[default]
    Once,
    /// The threshold, its double, its fourfold …
    Double,
    /// Every count from the threshold on (attocode).
    Each,
}

/// Whom a swarm command addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Notify {
    /// Each agent at its next matching call.
    #[default]
    Contributors,
    /// The agent whose call came last (attocode).
    Latest,
}

/// Which calls `call_rate` and `swarm_repeat` count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Counted {
    /// Calls that got nowhere: they failed, or brought their agent an answer it already had. A swarm's are counted when the outcome is known: fifty
    /// workers that read one popular file are work; fifty that meet one dead endpoint are a loop. `call_rate` counts also those not answered yet.
    #[default]
    Unproductive,
    /// Every call, when it is requested (attocode, IronCurtain).
    All,
}

/// `detectors.swarm_repeat`.
#[derive(Debug, Clone, Default)]
pub struct SwarmRepeat {
    /// What it may do.
    pub mode: Mode,
    /// Which calls count; key `count`, `unproductive` or `all`.
    pub count: Counted,
    /// Calls of a finding.
    pub threshold: u32,
    /// Distinct agents of a finding.
    pub workers_min: u32,
    /// Sliding window, event time; 0 = never forgets, and has one endless period. Milliseconds.
    pub window_ms: i64,
    /// Slice of the window. Milliseconds.
    pub pane_ms: i64,
    /// Which steps are told.
    pub steps: SwarmSteps,
    /// Calls of a block in mode `block`; 0 = never.
    pub block_at: u32,
    /// Whom a command addresses.
    pub notify: Notify,
    /// Period within which a step is told once; 0 = one endless period. Milliseconds.
    pub cooldown_ms: i64,
    /// Agents kept per counter; more saturate the number.
    pub workers_max: u32,
    /// Counters kept per task; longest unseen first out.
    pub keys_max: u32,
}
