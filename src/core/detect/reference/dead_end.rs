//! `dead_end`: the same error comes back, whatever is tried (corteX). Page `detection`.

use crate::detect::finding::{Family, Finding, loop_identity};
use crate::detect::rule::{About, CountSettings, Rule};
use crate::detect::text::{Advice, CommandText, TextContext};
use crate::detect::{detector::Detector, steps::history::History, steps::step::Step, steps::tally::Tally};
use crate::limits::ERROR_CHARS_MAX;
use crate::setting::{MODE, Mode, Needs, SharedSettings, ToolPolicy, Window, chars, count, settings};

settings! {
    pub struct Settings {
        mode: Mode = r#""off""#, MODE, "";
        threshold: u32 = "3", count(1), "equal errors of a finding";
        window_steps: u32 = "15", Window, "steps looked at, those without an error included";
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

    fn counts(&self) -> CountSettings {
        CountSettings::new(Detector::DeadEnd, self.mode, self.threshold)
    }

    fn needs(&self, _: &SharedSettings) -> Needs {
        Needs { error: true, ..Needs::default() }
    }

    fn text(&self, context: &TextContext<'_>) -> CommandText {
        let (n, tool) = (context.count(), context.tool);
        let text = format!(
            "[System] The same error came back {n} times. Undo to the point before it first appeared and take another way."
        );
        let summary = format!("{tool}: the same error {n} times in {} steps", context.finding.window);
        CommandText::new(text, summary).advising(Advice::Backtrack)
    }
}

/// Counts the completed step's error in the window; steps without one do not reset.
#[must_use]
pub fn observe(settings: &Settings, tool: &ToolPolicy, history: &History, step: &Step) -> Option<Finding> {
    if !step.error.is_some() {
        return None;
    }
    let window = history.counted_back_from(step).take(settings.window_steps as usize);
    let equal = Tally::of_window(window, step, |earlier| earlier.error == step.error);
    let identity = || loop_identity(Family::Error, &[step.error.0]);
    let finding = settings.counts().scaled(step, tool).finding(equal, step.sequence, identity)?;
    Some(finding.confident(0.6, 0.1).within(u64::from(settings.window_steps)))
}
