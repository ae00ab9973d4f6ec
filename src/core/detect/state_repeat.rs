//! `state_repeat`: back in a state where the agent has been, anywhere in a window (corteX exact). Page `detection`.

use crate::detect::detector::Detector;
use crate::detect::finding::{Finding, repeat_identity};
use crate::detect::history::History;
use crate::detect::rule::{About, Rule};
use crate::detect::step::{Flags, Step};
use crate::detect::words::{Advice, Said, Words};
use crate::setting::{FLAG, MODE, Mode, Needs, Shared, ToolPolicy, WINDOW, count, settings};

settings! {
    /// `detectors.state_repeat`.
    pub struct Settings {
        novelty_ends: bool = "true", FLAG,
            "a step with a new call and a new answer ends the look back: coming back to a check after it is verification";
        mode: Mode = r#""nudge""#, MODE, "a count without order is weaker evidence";
        threshold: u32 = "5", count(1), "equal states of a finding; 3 meets ordinary edit and run again";
        window_steps: u32 = "100", WINDOW, "completed steps looked at";
    }
}

impl Rule for Settings {
    const ABOUT: About = About {
        title: "Same call and same answer anywhere in a window: interleaved loops (A, x, A, y, A).",
        rule: "The same call had the same answer `threshold` times within the last `window_steps` steps, whatever \
            lies between. A step with a new call and a new answer, or a new edit, ends the look back \
            (`novelty_ends`). Twice as many are needed where acknowledgements leave open whether something has \
            changed: the state itself says nothing, or a new call that says nothing lies in between.",
        example: "The agent runs `kubectl get pods` five times and gets the same list. The calls between bring nothing \
            new.",
        silent: &[
            "Something new was tried between: coming back to a check is verification \
                (`equality/state-after-something-new`).",
            "A file was edited between two runs of a failing command or a test \
                (`equality/edit-then-test-is-work`).",
            "Each click on `Next` is answered alike, and a look shows a new page \
                (`equality/a-click-on-next-and-a-look`).",
            "The output changes in a detail that is not masked, or it was cut.",
        ],
        ..About::CALL
    };

    fn threshold(&self) -> u32 {
        self.threshold
    }

    fn needs(&self, policy: &Shared) -> Needs {
        Needs { fingerprint: true, state: true, outcome: self.novelty_ends || !policy.use_description, ..Needs::default() }
    }

    fn words(&self, words: &Words<'_>) -> Said {
        let (n, tool, window) = (words.count(), words.tool, words.finding.window);
        let text = format!(
            "[System] {tool} has led to the same state {n} times in the last {window} steps. Make a new plan instead of returning to it."
        );
        Said::new(text, format!("{tool}: the same state {n} times in {window} steps")).advising(Advice::Replan)
    }
}

/// So much more often a state must come back that says nothing, or between whose times something was tried that may have changed it.
const DOUBT_FACTOR: u32 = 2;

/// Counts the completed step's state in the window.
#[must_use]
pub fn observe(settings: &Settings, tool: &ToolPolicy, history: &History, step: &Step) -> Option<Finding> {
    let threshold = step.scaled(tool, settings.threshold);
    // The index counts the whole ring: below the threshold there, below it in any window.
    let has_none = !step.state.is_some() || step.flags.any(Flags(Flags::ARGS_ONLY.0 | Flags::CUT.0));
    if has_none || history.seen_state(step.state) < threshold {
        return None;
    }
    // A click on `Next` is answered alike on every page: who is shown something new in between is getting on.
    let is_receipt = step.flags.has(Flags::RECEIPT);
    // A new edit is something new, though its receipt may be the one that all edits bring.
    let is_novel = |earlier: &Step| {
        let flags = earlier.flags;
        let is_new_answer = !flags.has(Flags::SEEN_OUTCOME) && !flags.has(Flags::RECEIPT);
        flags.has(Flags::NEW_CHANGE) || (is_new_answer && (is_receipt || !flags.has(Flags::SEEN_CALL)))
    };
    // What was not done before and brought a receipt may have changed where the agent is, as another directory does, or nothing at all.
    let is_attempt = |earlier: &Step| earlier.flags.has(Flags::RECEIPT) && !earlier.flags.has(Flags::SEEN_CALL);
    let hard = step.failed() || step.flags.has(Flags::TEST);
    let mut count = 0;
    let mut first = step.sequence;
    // As far as nothing leaves it open whether anything has changed.
    let mut sure = (settings.novelty_ends && is_receipt).then_some((0, first));
    for earlier in history.complete_back_from(step).take(settings.window_steps as usize) {
        // Edit, then re-run, is work: a mutation by another call ends the look back of a failing call or a test run.
        if hard && earlier.flags.has(Flags::MUTATED) && earlier.call != step.call {
            break;
        }
        if earlier.state == step.state {
            count += 1;
            first = earlier.sequence;
        } else if settings.novelty_ends && is_novel(earlier) {
            break;
        } else if settings.novelty_ends && is_attempt(earlier) {
            sure.get_or_insert((count, first));
        }
    }
    let sure = sure.unwrap_or((count, first));
    let doubtful = (count, first, threshold.saturating_mul(DOUBT_FACTOR));
    let (count, first, threshold) = if sure.0 >= threshold { (sure.0, sure.1, threshold) } else { doubtful };
    (count >= threshold).then(|| {
        Finding::new(Detector::StateRepeat, settings.mode, repeat_identity(step.fingerprint), count, threshold)
            .confident(0.5, 0.15)
            .within(u64::from(settings.window_steps))
            .spanning(first, step.sequence)
    })
}
