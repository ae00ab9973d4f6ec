//! `dead_end`: the same error comes back, whatever is tried (corteX). Page `detection`.

use crate::detect::detector::Detector;
use crate::detect::finding::{Family, Finding, loop_identity};
use crate::detect::rule::{About, Rule};
use crate::detect::steps::history::History;
use crate::detect::steps::step::Step;
use crate::detect::words::{Advice, Said, Words};
use crate::limits::ERROR_CHARS_MAX;
use crate::setting::{MODE, Mode, Needs, Shared, ToolPolicy, WINDOW, chars, count, settings};

settings! {
    /// `detectors.dead_end`.
    pub struct Settings {
        mode: Mode = r#""off""#, MODE, "";
        threshold: u32 = "3", count(1), "equal errors of a finding";
        window_steps: u32 = "15", WINDOW, "steps looked at, those without an error included";
        key_chars: usize = "60", chars(1, ERROR_CHARS_MAX),
            "characters of the error that are compared: what follows is mostly detail; at most 4,096";
    }
}

impl Rule for Settings {
    const ABOUT: About = About {
        title: "The same error comes back.",
        rule: "The same error was met `threshold` times within the last `window_steps` steps, whatever lies \
            between. The first `key_chars` characters of an error are compared.",
        example: "The agent tries seven ways to install a package that has no version for this platform.",
        silent: &["The error begins with something that changes."],
        ..About::AGENT
    };

    fn threshold(&self) -> u32 {
        self.threshold
    }

    fn needs(&self, _: &Shared) -> Needs {
        Needs { error: true, ..Needs::default() }
    }

    fn words(&self, words: &Words<'_>) -> Said {
        let (n, tool) = (words.count(), words.tool);
        let text = format!(
            "[System] The same error came back {n} times. Undo to the point before it first appeared and take another way."
        );
        let summary = format!("{tool}: the same error {n} times in {} steps", words.finding.window);
        Said::new(text, summary).advising(Advice::Backtrack)
    }
}

/// Counts the completed step's error in the window; steps without one do not reset.
#[must_use]
pub fn observe(settings: &Settings, tool: &ToolPolicy, history: &History, step: &Step) -> Option<Finding> {
    if !step.error.is_some() {
        return None;
    }
    let threshold = step.scaled(tool, settings.threshold);
    let mut count = 0;
    let mut first = step.sequence;
    for earlier in history.counted_back_from(step).take(settings.window_steps as usize) {
        if earlier.error == step.error {
            count += 1;
            first = earlier.sequence;
        }
    }
    (count >= threshold).then(|| {
        Finding::new(Detector::DeadEnd, settings.mode, loop_identity(Family::Error, &[step.error.0]), count, threshold)
            .confident(0.6, 0.1)
            .within(u64::from(settings.window_steps))
            .spanning(first, step.sequence)
    })
}
