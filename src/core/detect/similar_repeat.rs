//! `similar_repeat`: one call, or nearly the same one, again and again with much the same answer. Page `detection`.

use crate::detect::detector::Detector;
use crate::detect::evidence::Marks;
use crate::detect::finding::{Finding, evidence_identity};
use crate::detect::history::History;
use crate::detect::news::{self, Likeness, NEWS_PERCENT, Tally, Turns, is_answered_alike, likeness};
use crate::detect::rule::{About, Rule};
use crate::detect::step::{Flags, Step};
use crate::detect::words::{Said, Words};
use crate::setting::{BlockScope, MODE, Mode, Needs, Shared, ToolPolicy, count, settings};

/// The threshold for which the next two are meant; with another one they grow in proportion.
const PROPORTION: u32 = 3;
/// Equal calls of a finding where something new came between them.
const AMONG_NEWS: u32 = 5;
/// Answers in a row to one call that stand still, of a finding whatever was changed between them.
const STANDING_STILL: u32 = 6;

settings! {
    /// `detectors.similar_repeat`.
    pub struct Settings {
        mode: Mode = r#""off""#, MODE, "on in the profile default";
        threshold: u32 = "3", count(1), "equal calls of a finding; of two that are nearly equal each counts as half a call";
        window_steps: u32 = "12", count(2), "completed steps looked at; for looks at what runs elsewhere poll_factor times as many";
    }
}

impl Rule for Settings {
    const ABOUT: About = About {
        title: "One call, or nearly the same one, with much the same answer.",
        rule: "Of the last `window_steps` steps, `threshold` are equal calls whose answers share three fifths of their runs of three words. \
            Nearly equal calls count half. A change ends the look back. Where a call not made before has brought news, five equal calls are asked for; the first of them is \
            such a call itself.",
        example: "A page is loaded again and again, and only its element references change.",
        silent: &[
            "The answers differ: the call brings news (`default/each-page-is-another`).",
            "Something was changed in between: edit, then run again, is work (`default/edit-and-run-again`).",
            "The agent waits: looks at what runs elsewhere need `poll_factor` times as many, slow ones that factor once more.",
        ],
        repeats_call: true,
        on_result: true,
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
        BlockScope::Fingerprint
    }

    fn needs(&self, _: &Shared) -> Needs {
        Needs { evidence: true, ..Needs::default() }
    }

    fn words(&self, words: &Words<'_>) -> Said {
        let (n, tool, span) = (words.count(), words.tool, words.span());
        let text = format!(
            "The same or nearly the same {tool} call has returned much the same {} {n} times{span}. Another call of this kind is not likely to \
             bring anything new. Use what is known already, or take another way.",
            if words.flags.has(Flags::OK) { "result" } else { "failure" }
        );
        Said::new(text, format!("{tool}: {n} similar calls with similar answers{span}"))
    }
}

/// Compares the completed step with those before it.
#[must_use]
pub fn observe(settings: &Settings, tool: &ToolPolicy, history: &History, step: &Step) -> Option<Finding> {
    let factor = news::patience(tool, step);
    let threshold = settings.threshold.saturating_mul(factor);
    let window = settings.window_steps.saturating_mul(factor) as usize;
    let brings_nothing = step.evidence().news <= NEWS_PERCENT && !step.evidence().marks.has(Marks::LITTLE);
    let mut turns = Turns::of(step);
    let (mut alike, mut equal) = (Tally::of(step), Tally::of(step));
    // Nearly equal calls count half; so the others count once more.
    let (mut others, mut is_among_news, mut are_equal) = (1_u32, false, true);
    for earlier in news::since_message(history, step).take(window.saturating_sub(1)) {
        let marks = earlier.evidence().marks;
        if marks.has(Marks::CHANGE) {
            break;
        }
        is_among_news |= marks.has(Marks::NOVEL) && !earlier.failed() && earlier.evidence().news > NEWS_PERCENT;
        let likeness = likeness(step, earlier);
        let ends_alike = is_answered_alike(step, earlier)
            || (likeness == Likeness::Equal && brings_nothing && step.failed() == earlier.failed());
        let is_series = likeness == Likeness::Near && news::is_of_series(step);
        if likeness == Likeness::Other || is_series || !ends_alike || !turns.is_first(earlier) {
            continue;
        }
        let is_equal = likeness == Likeness::Equal;
        if !is_among_news {
            alike.add(earlier);
            others += u32::from(is_equal);
            are_equal &= is_equal;
        }
        if is_equal {
            equal.add(earlier);
        }
    }
    alike.count = u32::midpoint(alike.count, others);
    let needed = |calls: u32| threshold.saturating_mul(calls).div_ceil(PROPORTION);
    let counts = [(alike, threshold), (equal, needed(AMONG_NEWS)), (standing_still(history, step), needed(STANDING_STILL))];
    let reached = counts.into_iter().filter(|(tally, needed)| tally.count >= *needed).map(|(tally, _)| tally);
    reached.max_by_key(|tally| tally.count).map(|tally| {
        let finding = Finding::new(Detector::SimilarRepeat, settings.mode, evidence_identity(), tally.count, threshold)
            .confident(0.7, 0.05)
            .within(window as u64)
            .spanning(tally.first, step.sequence)
            .patient(factor);
        let scope = if are_equal { BlockScope::Fingerprint } else { BlockScope::Tool };
        // Nearly equal calls with ever new arguments may be a search that goes on.
        let is_conclusive = factor == 1 && !step.flags.has(Flags::CUT) && (are_equal || step.evidence().news <= NEWS_PERCENT);
        if is_conclusive { finding.blocking_at(threshold).covering(scope) } else { finding }
    })
}

/// How often in a row the call got an answer that stands still, whatever was done in between.
fn standing_still(history: &History, step: &Step) -> Tally {
    let (mut turns, mut still) = (Turns::of(step), Tally::of(step));
    let equal = news::remembered(history, step).filter(|earlier| earlier.call == step.call);
    for earlier in equal.take_while(|earlier| news::stands_still(step, earlier)) {
        if turns.is_first(earlier) {
            still.add(earlier);
        }
    }
    still
}
