//! `outcome_repeat`: the same answer to the same call, volatile text masked (rockbot). Page `detection`.

use crate::detect::detector::Detector;
use crate::detect::finding::{Family, Finding, halves, loop_identity, repeat_identity};
use crate::detect::rule::{About, Rule};
use crate::detect::steps::step::{Flags, Step};
use crate::detect::words::{Said, Words};
use crate::identity::Hash64;
use crate::setting::{BLOCK_AT, BLOCK_SCOPE, BlockScope, MODE, Mode, Needs, Shared, ToolPolicy, count, settings};

settings! {
    /// `detectors.outcome_repeat`.
    pub struct Settings {
        mode: Mode = r#""off""#, MODE, "";
        threshold: u32 = "3", count(1),
            "equal answers of a finding; the count then starts again, so findings come at 3, 6, 9";
        block_at: u32 = "12", BLOCK_AT, "equal answers of a block: the fourth finding; 0 = never";
        block_scope: BlockScope = r#""fingerprint""#, BLOCK_SCOPE, "as above";
    }
}

impl Rule for Settings {
    const ABOUT: About = About {
        title: "Same answer to the same call.",
        rule: "The same call has the same masked outcome `threshold` times in a row. The count then starts again, \
            so the next finding needs another full run.",
        example: "`get_report {\"id\":7}` answers `no data` three times, each time with a new request id.",
        silent: &[
            "The answer holds a fresh value that no mask knows.",
            "The answers differ in what they say (`rockbot/answer-real-difference`).",
            "A tool of class `poll` has its counts multiplied by `poll_factor`.",
        ],
        ..About::CALL
    };

    fn threshold(&self) -> u32 {
        self.threshold
    }

    fn block_at(&self) -> Option<u32> {
        Some(self.block_at)
    }

    fn block_scope(&self) -> BlockScope {
        self.block_scope
    }

    fn needs(&self, _: &Shared) -> Needs {
        Needs { fingerprint: true, outcome: true, ..Needs::default() }
    }

    fn words(&self, words: &Words<'_>) -> Said {
        let (n, tool) = (words.count(), words.tool);
        let summary = format!("{tool}: {n} calls{}, same arguments, same answer{}", words.span(), words.failing());
        if words.is_block {
            let text = format!(
                "[System] BLOCKED: {tool} gave the same answer to the same call {n} times in a row. Further calls of this kind are refused \
                 until the block expires. Change the arguments, use a different approach, or report what blocks you."
            );
            return Said::new(text, summary);
        }
        let told =
            if words.nudges > 0 { format!(" You were told after {} calls.", words.finding.threshold) } else { String::new() };
        let text = format!(
            "[System] {tool} gave the same answer to the same call {n} times in a row. Change the arguments, use a different approach, or \
             report what blocks you.{told}"
        );
        Said::new(text, summary)
    }
}

/// `outcome_repeat`: equal answers to equal calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutcomeRun {
    /// Call and outcome.
    pub key: Hash64,
    /// How often since the last finding.
    pub count: u32,
    /// Findings of this key in a row.
    pub triggers: u32,
    /// First step of the row.
    pub first: u64,
}

/// Takes a completed step; finds at each full run.
pub fn observe(settings: &Settings, tool: &ToolPolicy, run: &mut OutcomeRun, step: &Step) -> Option<Finding> {
    let outcome = if step.flags.has(Flags::ARGS_ONLY) { 0 } else { step.outcome.0 };
    if outcome == 0 && !step.flags.has(Flags::ARGS_ONLY) {
        return None;
    }
    let [high, low] = halves(step.call);
    let key = loop_identity(Family::Outcome, &[high, low, outcome]);
    if run.key == key {
        if run.count == 0 && run.triggers == 0 {
            run.first = step.sequence;
        }
        run.count += 1;
    } else {
        *run = OutcomeRun { key, count: 1, triggers: 0, first: step.sequence };
    }
    let threshold = step.scaled(tool, settings.threshold);
    if run.count < threshold {
        return None;
    }
    run.count = 0;
    run.triggers = run.triggers.saturating_add(1);
    let count = threshold.saturating_mul(run.triggers);
    let mut finding = Finding::new(Detector::OutcomeRepeat, settings.mode, repeat_identity(step.fingerprint), count, threshold)
        .confident(0.8, 0.05)
        .blocking_at(step.scaled(tool, settings.block_at))
        .spanning(run.first, step.sequence);
    finding.tier = run.triggers.min(3) as u8;
    Some(finding)
}
