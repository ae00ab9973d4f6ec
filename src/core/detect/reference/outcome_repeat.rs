//! `outcome_repeat`: the same answer to the same call, volatile text masked (rockbot). Page `detection`.

use crate::detect::finding::{Family, Finding, halves, loop_identity, repeat_identity};
use crate::detect::rule::{About, CountSettings, Rule};
use crate::detect::steps::step::{Flags, Step};
use crate::detect::text::{CommandText, TextContext};
use crate::detect::{detector::Detector, steps::tally::Tally};
use crate::identity::Hash64;
use crate::setting::{BLOCK_SCOPE, BlockAt, BlockScope, MODE, Mode, Needs, SharedSettings, ToolPolicy, count, settings};

settings! {
    pub struct Settings {
        mode: Mode = r#""off""#, MODE, "";
        threshold: u32 = "3", count(1),
            "equal answers of a finding; the count then starts again, so findings come at 3, 6, 9";
        block_at: u32 = "12", BlockAt, "equal answers of a block: the fourth finding; 0 = never";
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

    fn counts(&self) -> CountSettings {
        CountSettings::new(Detector::OutcomeRepeat, self.mode, self.threshold).blocking(self.block_at, self.block_scope)
    }

    fn needs(&self, _: &SharedSettings) -> Needs {
        Needs { fingerprint: true, outcome: true, ..Needs::default() }
    }

    fn text(&self, context: &TextContext<'_>) -> CommandText {
        let (n, tool) = (context.count(), context.tool);
        let summary = format!("{tool}: {n} calls{}, same arguments, same answer{}", context.span(), context.failing());
        if context.is_block {
            let text = format!(
                "[System] BLOCKED: {tool} gave the same answer to the same call {n} times in a row. Further calls of this kind are refused \
                 until the block expires. Change the arguments, use a different approach, or report what blocks you."
            );
            return CommandText::new(text, summary);
        }
        let reminder =
            if context.nudges > 0 { format!(" You were told after {} calls.", context.finding.threshold) } else { String::new() };
        let text = format!(
            "[System] {tool} gave the same answer to the same call {n} times in a row. Change the arguments, use a different approach, or \
             report what blocks you.{reminder}"
        );
        CommandText::new(text, summary)
    }
}

/// `outcome_repeat`: equal answers to equal calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutcomeRun {
    /// Hash of the call and its outcome.
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
    let outcome = if step.flags.contains(Flags::ARGS_ONLY) { 0 } else { step.outcome.0 };
    if outcome == 0 && !step.flags.contains(Flags::ARGS_ONLY) {
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
    let counts = settings.counts().scaled(step, tool);
    if run.count < counts.threshold {
        return None;
    }
    run.count = 0;
    run.triggers = run.triggers.saturating_add(1);
    let answers = Tally { count: counts.threshold.saturating_mul(run.triggers), first: run.first };
    let finding = counts.finding(answers, step.sequence, || repeat_identity(step.fingerprint))?;
    Some(Finding { tier: run.triggers.min(3) as u8, ..finding.confident(0.8, 0.05) })
}
