//! `state_repeat`: back in a state where the agent has been, anywhere in a window (corteX exact). Page `detection`.

use crate::detect::detector::Detector;
use crate::detect::finding::{Finding, repeat_identity};
use crate::detect::rule::{About, Rule};
use crate::detect::steps::history::History;
use crate::detect::steps::step::{Flags, Step};
use crate::detect::words::{Advice, Said, Words};
use crate::setting::{MODE, Mode, Needs, Shared, ToolPolicy, WINDOW, count, settings};

settings! {
    /// `detectors.state_repeat`.
    pub struct Settings {
        mode: Mode = r#""off""#, MODE, "";
        threshold: u32 = "5", count(1), "equal states of a finding; 3 meets ordinary edit and run again";
        window_steps: u32 = "100", WINDOW, "completed steps looked at";
    }
}

impl Rule for Settings {
    const ABOUT: About = About {
        title: "Same call and same answer anywhere in a window: interleaved loops (A, x, A, y, A).",
        rule: "The same call had the same answer `threshold` times within the last `window_steps` steps, whatever \
            lies between.",
        example: "The agent runs `kubectl get pods` five times and gets the same list, with other calls between.",
        silent: &["The output changes in a detail that is not masked, or it was cut."],
        ..About::CALL
    };

    fn threshold(&self) -> u32 {
        self.threshold
    }

    fn needs(&self, policy: &Shared) -> Needs {
        Needs { fingerprint: true, state: true, outcome: !policy.use_description, ..Needs::default() }
    }

    fn words(&self, words: &Words<'_>) -> Said {
        let (n, tool, window) = (words.count(), words.tool, words.finding.window);
        let text = format!(
            "[System] {tool} has led to the same state {n} times in the last {window} steps. Make a new plan instead of returning to it."
        );
        Said::new(text, format!("{tool}: the same state {n} times in {window} steps")).advising(Advice::Replan)
    }
}

/// Counts the completed step's state in the window.
#[must_use]
pub fn observe(settings: &Settings, tool: &ToolPolicy, history: &History, step: &Step) -> Option<Finding> {
    let threshold = step.scaled(tool, settings.threshold);
    // The index counts the whole ring: below the threshold there, below it in any window.
    let has_none = !step.state.is_some() || step.flags.any(Flags(Flags::ARGS_ONLY.0 | Flags::CUT.0));
    if has_none || history.seen_state(step.state) < threshold {
        return None;
    }
    let mut count = 0;
    let mut first = step.sequence;
    let window = history.complete_back_from(step).take(settings.window_steps as usize);
    for earlier in window.filter(|earlier| earlier.state == step.state) {
        count += 1;
        first = earlier.sequence;
    }
    (count >= threshold).then(|| {
        Finding::new(Detector::StateRepeat, settings.mode, repeat_identity(step.fingerprint), count, threshold)
            .confident(0.5, 0.15)
            .within(u64::from(settings.window_steps))
            .spanning(first, step.sequence)
    })
}
