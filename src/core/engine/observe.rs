//! The detectors, called once per event in a fixed order. What they answer depends on what was recorded, and on nothing else.

use crate::detect::reference::{
    dead_end, exact_repeat, exploration, near_repeat, oscillation, outcome_repeat, progress_matrix, semantic_repeat,
    shell_failures, state_repeat, test_fix,
};
use crate::detect::text_only::Text;
use crate::detect::{
    Fact, Facts, Finding, Flags, History, Marks, Score, Step, Streaks, Waiting, budget, call_rate, cycle, no_news, own_words,
    similar_failures, similar_repeat, text_only,
};
use crate::engine::context::Context;
use crate::event::Message;
use crate::identity::Hash64;
use crate::policy::{Detector, Mode, Policy, ToolPolicy};

/// What a detector finds, where it runs.
macro_rules! found {
    ($detectors:ident.$name:ident, $($recorded:expr),+) => {
        if $detectors.$name.mode.is_on() { $name::observe(&$detectors.$name, $($recorded),+) } else { None }
    };
}

/// What recording an event has left to look at.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Recorded<'p> {
    /// Sequence of the step that the event is about, with the rules of its tool.
    pub step: Option<(u64, &'p ToolPolicy)>,
    /// The step was requested by this event, and not refused then: `call_rate` judges it.
    pub is_requested: bool,
    /// The newest counted call is due to be compared with those before it.
    pub compares_calls: bool,
    /// The outcome of the step has become known.
    pub is_completed: bool,
    /// How the agent waits with it.
    pub waiting: Waiting,
    /// Block of the progress matrix under which the step ran.
    pub matrix_block: Option<MatrixBlock>,
    /// A text of the agent, and its turn + 1; 0 = unknown.
    pub text: Option<(&'p Message<'p>, Text)>,
}

/// A block of `stagnation` or `stuck` in force.
#[derive(Debug, Clone, Copy)]
pub(super) struct MatrixBlock {
    pub detector: Detector,
    /// Loop identity of its episode.
    pub identity: Hash64,
    /// The count that it was given at.
    pub count: u32,
}

/// What the detectors find in what was recorded. `streaks` are their counters: each detector advances its own.
pub(super) fn observe(context: &Context<'_>, recorded: &Recorded<'_>, history: &History, streaks: &mut Streaks) -> Vec<Finding> {
    let (mut findings, policy, detectors) = (Vec::new(), context.policy, &context.policy.detectors);
    if let Some((message, text)) = recorded.text {
        observe_text(policy, message, &text, history, streaks, &mut findings);
    }
    let step = recorded.step.and_then(|(sequence, tool)| Some((history.get(sequence)?, tool)));
    if let Some((step, tool)) = step.filter(|_| recorded.is_requested) {
        // A call that ran in spite of a block may have been requested long before.
        findings.extend(found!(detectors.call_rate, tool, history, step, context.time));
        findings.extend(found!(detectors.cycle, tool, history, step));
        if detectors.budget.mode.is_on() {
            findings.extend(budget::observe(&detectors.budget, &mut streaks.spent, history.tool(step), step));
        }
    }
    if recorded.compares_calls {
        findings.extend(compare_calls(policy, recorded, history, streaks));
    } else if let Some((step, tool)) = step.filter(|(step, _)| step.flags.contains(Flags::REFUSED))
        && detectors.exact_repeat.mode.is_on()
    {
        findings.extend(exact_repeat::still_in_window(&detectors.exact_repeat, tool, history, step));
    }
    if let Some((step, tool)) = step.filter(|_| recorded.is_completed) {
        if step.is_evidence() {
            findings.extend(observe_score(policy, tool, recorded.waiting, history, step, streaks.score));
        }
        if !step.is_transparent() {
            observe_outcome(policy, tool, recorded.matrix_block, history, step, streaks, &mut findings);
        }
    }
    findings
}

/// What looks at a text of the agent.
fn observe_text(
    policy: &Policy,
    message: &Message<'_>,
    text: &Text,
    history: &History,
    streaks: &mut Streaks,
    findings: &mut Vec<Finding>,
) {
    let detectors = &policy.detectors;
    findings.extend(found!(detectors.text_only, &mut streaks.texts, text));
    findings.extend(found!(detectors.own_words, &mut streaks.own_texts, history, message));
}

/// `exact_repeat`, and where it has no finding `near_repeat`, on the newest counted call.
fn compare_calls(policy: &Policy, recorded: &Recorded<'_>, history: &History, streaks: &mut Streaks) -> Option<Finding> {
    let step = history.counted_back().next()?;
    let tool = match recorded.step {
        Some((sequence, tool)) if sequence == step.sequence => tool,
        _ => policy.tools.get(history.tool(step)),
    };
    let detectors = &policy.detectors;
    let exact = found!(detectors.exact_repeat, tool, &streaks.exact, history, step);
    let mut found = exact.or_else(|| found!(detectors.near_repeat, tool, &streaks.near, step))?;
    if found.is_current && found.tier > 0 {
        streaks.near_tier = streaks.near_tier.max(found.tier);
        found.tier = streaks.near_tier;
    }
    Some(found)
}

/// What looks at the outcome of a counted step.
fn observe_outcome(
    policy: &Policy,
    tool: &ToolPolicy,
    matrix_block: Option<MatrixBlock>,
    history: &History,
    step: &Step,
    streaks: &mut Streaks,
    findings: &mut Vec<Finding>,
) {
    let detectors = &policy.detectors;
    findings.extend(found!(detectors.outcome_repeat, tool, &mut streaks.outcome, step));
    if detectors.stagnation.mode.is_on() || detectors.stuck.mode.is_on() {
        findings.extend(match matrix_block {
            // Steps under its block are not analysed; one that ran publishes the block again.
            Some(block) => Some(under_block(block, streaks, step)),
            None => progress_matrix::observe(&detectors.stagnation, &detectors.stuck, tool, &mut streaks.matrix, step),
        });
    }
    findings.extend(found!(detectors.state_repeat, tool, history, step));
    findings.extend(found!(detectors.semantic_repeat, tool, history, step));
    findings.extend(found!(detectors.oscillation, history, step));
    findings.extend(found!(detectors.dead_end, tool, history, step));
    findings.extend(found!(detectors.test_fix, &mut streaks.tests, step));
    findings.extend(found!(detectors.shell_failures, &mut streaks.shell, step));
    findings.extend(found!(detectors.exploration, &mut streaks.exploration, history, step));
}

/// A step with which the score is at its bound or above it, put into the words of the detector that describes it most tightly. Outages
/// included.
fn observe_score(
    policy: &Policy,
    tool: &ToolPolicy,
    waiting: Waiting,
    history: &History,
    step: &Step,
    score: Score,
) -> Option<Finding> {
    let (weights, facts) = (&policy.score, step.evidence().facts);
    if score.sum < weights.nudge_at || weights.sum(facts) <= 0 || score.raised_by != step.sequence {
        return None;
    }
    let detectors = &policy.detectors;
    let is_like = facts.any(Facts::EQUAL) || (!step.failed() && facts.any(Facts::LIKE) && !facts.has(Fact::Quiet3));
    let repeat = is_like.then(|| similar_repeat::describe(&detectors.similar_repeat, history, step));
    // A single call repeats nothing: what it brought was known from others.
    let mut finding = match repeat.filter(|repeat| repeat.count > 1) {
        Some(repeat) => repeat,
        None if step.failed() => similar_failures::describe(&detectors.similar_failures, history, step),
        None => no_news::describe(&detectors.no_news, history, step),
    };
    if !finding.mode.is_on() {
        return None;
    }
    finding.confidence = score.confidence();
    // Who waits, and what takes its time, is nudged at the most: a block is for what was compared and found the same.
    let is_conclusive = waiting == Waiting::No && facts.any(Facts::CONCLUSIVE) && !step.flags.contains(Flags::CUT);
    let is_slow = !step.failed() && step.evidence().marks.contains(Marks::SLOW);
    if is_conclusive && !is_slow && score.sum >= weights.block_at {
        finding = finding.blocking_at(1);
    }
    finding.poll_factor = if waiting == Waiting::No && !is_slow { 1 } else { tool.scaled(1, true) };
    Some(finding)
}

/// The finding that renews a block of the progress matrix.
fn under_block(block: MatrixBlock, streaks: &Streaks, step: &Step) -> Finding {
    let mut finding = Finding::new(block.detector, Mode::Block, block.identity, block.count, block.count)
        .blocking_at(block.count.max(1))
        .spanning(step.sequence, step.sequence);
    finding.category = streaks.matrix.category;
    finding
}
