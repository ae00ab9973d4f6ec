//! `state_repeat`: back in a state where the agent has been, anywhere in a window (corteX exact). Page `detection`.

use crate::detect::finding::{Finding, repeat_identity};
use crate::detect::rule::{About, CountSettings, Rule};
use crate::detect::steps::step::{Flags, Step};
use crate::detect::text::{Advice, CommandText, TextContext};
use crate::detect::{detector::Detector, steps::history::History, steps::tally::Tally};
use crate::setting::{MODE, Mode, Needs, SharedSettings, ToolPolicy, Window, count, settings};

settings! {
    pub struct Settings {
        mode: Mode = r#""off""#, MODE, "";
        threshold: u32 = "5", count(1), "equal states of a finding; 3 meets ordinary edit and run again";
        window_steps: u32 = "100", Window, "completed steps looked at";
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

    fn counts(&self) -> CountSettings {
        CountSettings::new(Detector::StateRepeat, self.mode, self.threshold)
    }

    fn needs(&self, policy: &SharedSettings) -> Needs {
        Needs { fingerprint: true, state: true, outcome: !policy.use_description, ..Needs::default() }
    }

    fn text(&self, context: &TextContext<'_>) -> CommandText {
        let (n, tool, window) = (context.count(), context.tool, context.finding.window);
        let text = format!(
            "[System] {tool} has led to the same state {n} times in the last {window} steps. Make a new plan instead of returning to it."
        );
        CommandText::new(text, format!("{tool}: the same state {n} times in {window} steps")).advising(Advice::Replan)
    }
}

/// Counts the completed step's state in the window.
#[must_use]
pub fn observe(settings: &Settings, tool: &ToolPolicy, history: &History, step: &Step) -> Option<Finding> {
    let counts = settings.counts().scaled(step, tool);
    // The index counts the whole ring: below the threshold there, below it in any window.
    let has_none = !step.state.is_some() || step.flags.intersects(Flags::ARGS_ONLY | Flags::CUT);
    if has_none || history.seen_state(step.state) < counts.threshold {
        return None;
    }
    let window = history.complete_back_from(step).take(settings.window_steps as usize);
    let equal = Tally::of_window(window, step, |earlier| earlier.state == step.state);
    let finding = counts.finding(equal, step.sequence, || repeat_identity(step.fingerprint))?;
    Some(finding.confident(0.5, 0.15).within(u64::from(settings.window_steps)))
}
