//! `similar_failures`: calls of one tool fail alike, however they are varied. Page `detection`.

use crate::detect::detector::Detector;
use crate::detect::finding::{Finding, evidence_identity};
use crate::detect::history::History;
use crate::detect::news::{self, fails_alike};
use crate::detect::rule::{About, Rule};
use crate::detect::step::Step;
use crate::detect::words::{Said, Words};
use crate::setting::{BlockScope, MODE, Mode, Needs, Shared, count, settings};

settings! {
    /// `detectors.similar_failures`.
    pub struct Settings {
        mode: Mode = r#""off""#, MODE, "on in the profile evidence";
        threshold: u32 = "4", count(2), "failures alike of a finding";
        window_steps: u32 = "15", count(2), "completed steps looked at";
    }
}

impl Rule for Settings {
    const ABOUT: About = About {
        title: "Calls of one tool fail alike, however they are varied.",
        rule: "Of the last `window_steps` steps, `threshold` are calls of one tool whose failures say the same once the words of each call, \
            quoted names, numbers and ids are left out. A success of that tool ends the look back; a person's message does not.",
        example: "Ids are guessed against one endpoint, and each answer names the id that was not found.",
        silent: &[
            "The tool worked in between (`evidence/a-guess-that-hits`).",
            "An outage: rate limits, resets and 5xx are left to the rates.",
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
pub fn observe(settings: &Settings, history: &History, step: &Step) -> Option<Finding> {
    if !step.failed() {
        return None;
    }
    let mut turns = vec![step.turn];
    let (mut count, mut first) = (1_u32, step.sequence);
    let steps = news::remembered(history, step).take(settings.window_steps.saturating_sub(1) as usize);
    for earlier in steps.take_while(|earlier| earlier.failed() || earlier.tool != step.tool) {
        let counts = earlier.failed() && earlier.tool == step.tool && fails_alike(step, earlier);
        if counts && (earlier.turn == 0 || !turns.contains(&earlier.turn)) {
            turns.push(earlier.turn);
            (count, first) = (count + 1, earlier.sequence);
        }
    }
    (count >= settings.threshold).then(|| {
        Finding::new(Detector::SimilarFailures, settings.mode, evidence_identity(), count, settings.threshold)
            .confident(0.6, 0.05)
            .within(u64::from(settings.window_steps))
            .spanning(first, step.sequence)
            .blocking_at(settings.threshold)
            .covering(BlockScope::Tool)
    })
}
