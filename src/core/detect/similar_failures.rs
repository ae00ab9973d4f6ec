//! `similar_failures`: calls of one tool fail alike, however they are varied. Page `detection`.

use crate::detect::detector::Detector;
use crate::detect::evidence::Marks;
use crate::detect::finding::{Finding, evidence_identity};
use crate::detect::history::History;
use crate::detect::news::{self, Likeness, Turns, fails_alike, likeness};
use crate::detect::rule::{About, Rule};
use crate::detect::step::Step;
use crate::detect::words::{Said, Words};
use crate::setting::{BlockScope, MODE, Mode, Needs, Shared, ToolPolicy, count, settings};

settings! {
    /// `detectors.similar_failures`.
    pub struct Settings {
        mode: Mode = r#""off""#, MODE, "on in the profile default";
        threshold: u32 = "4", count(2), "failures alike of a finding";
        window_steps: u32 = "15", count(2), "completed steps looked at";
    }
}

impl Rule for Settings {
    const ABOUT: About = About {
        title: "Calls of one tool fail alike, however they are varied.",
        rule: "Of the last `window_steps` steps, `threshold` are calls of one tool whose failures say the same once the words of each call, \
            quoted names, numbers and ids are left out. A success of a call like it ends the look back, and a change. Another success of the tool \
            leaves only nearly equal calls to count. A person's message ends nothing.",
        example: "Ids are guessed against one endpoint, and each answer names the id that was not found.",
        silent: &[
            "The call worked in between (`default/a-guess-that-hits`).",
            "An outage (rate limits, resets, 5xx): it needs `poll_factor` times as many, and blocks nothing.",
        ],
        looks_through: true,
        ..About::AGENT
    };

    fn threshold(&self) -> u32 {
        self.threshold
    }

    fn block_at(&self) -> Option<u32> {
        Some(self.threshold)
    }

    fn block_scope(&self) -> BlockScope {
        BlockScope::Tool
    }

    fn needs(&self, _: &Shared) -> Needs {
        Needs { evidence: true, ..Needs::default() }
    }

    fn words(&self, words: &Words<'_>) -> Said {
        let (n, tool) = (words.count(), words.tool);
        let text = format!(
            "{n} of the last {tool} calls have failed in the same way, whatever was varied. Find out why before the next try, or take another \
             way."
        );
        Said::new(text, format!("{tool}: {n} failures alike{}", words.span()))
    }
}

/// Counts the failures like that of the completed step.
#[must_use]
pub fn observe(settings: &Settings, tool: &ToolPolicy, history: &History, step: &Step) -> Option<Finding> {
    if !step.failed() {
        return None;
    }
    let factor = news::patience(tool, step);
    let threshold = settings.threshold.saturating_mul(factor);
    let window = settings.window_steps.saturating_mul(factor);
    let mut turns = Turns::of(step);
    let (mut count, mut first, mut has_worked) = (1_u32, step.sequence, false);
    for earlier in news::remembered(history, step).take(window.saturating_sub(1) as usize) {
        if earlier.tool != step.tool {
            continue;
        }
        let is_like = likeness(step, earlier) != Likeness::Other;
        if !earlier.failed() {
            if is_like || earlier.evidence().marks.has(Marks::CHANGE) {
                break;
            }
            has_worked = true;
        } else if (is_like || !has_worked) && fails_alike(step, earlier) && turns.is_first(earlier) {
            (count, first) = (count + 1, earlier.sequence);
        }
    }
    (count >= threshold).then(|| {
        let finding = Finding::new(Detector::SimilarFailures, settings.mode, evidence_identity(), count, threshold)
            .confident(0.6, 0.05)
            .within(u64::from(window))
            .spanning(first, step.sequence)
            .patient(factor);
        if factor == 1 { finding.blocking_at(threshold).covering(BlockScope::Tool) } else { finding }
    })
}
