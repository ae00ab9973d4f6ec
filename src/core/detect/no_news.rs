//! `no_news`: step after step brings nothing that was not known, whatever is called. Page `detection`.

use std::iter;

use crate::detect::detector::Detector;
use crate::detect::evidence::Marks;
use crate::detect::finding::{Finding, evidence_identity};
use crate::detect::history::History;
use crate::detect::news::{self, Tally};
use crate::detect::rule::{About, Rule};
use crate::detect::step::Step;
use crate::detect::words::{Said, Words};
use crate::setting::{BlockScope, MODE, Mode, Needs, Shared, ToolPolicy, count, settings};

/// Steps before a run in which a change makes it a check of that change.
const CHECKED_STEPS: usize = 6;

settings! {
    /// `detectors.no_news`.
    pub struct Settings {
        mode: Mode = r#""off""#, MODE, "on in the profile default";
        threshold: u32 = "5", count(2),
            "steps in a row of a finding, one fewer where all are known calls with known answers, one more after a change";
    }
}

impl Rule for Settings {
    const ABOUT: About = About {
        title: "Step after step brings nothing that was not known.",
        rule: "The newest `threshold` steps each repeat a known call with a known answer, or bring an answer of which four fifths were known. \
            The calls of one turn count once. One more is asked for shortly after a change, and one fewer where calls and answers are all known.",
        example: "A second sweep through a file that was read already, in other pieces.",
        silent: &[
            "A step in between changed something or brought news (`default/a-sweep-goes-on`).",
            "A person wrote something new in between.",
        ],
        looks_through: false,
        ..About::AGENT
    };

    fn threshold(&self) -> u32 {
        self.threshold
    }

    fn block_at(&self) -> Option<u32> {
        Some(self.threshold)
    }

    fn needs(&self, _: &Shared) -> Needs {
        Needs { evidence: true, ..Needs::default() }
    }

    fn words(&self, words: &Words<'_>) -> Said {
        let n = words.count();
        let text = format!(
            "The last {n} steps have brought nothing that was not known before them. Write down what is known, decide what is still missing, and \
             take a step that can bring it."
        );
        Said::new(text, format!("{n} steps in a row that brought nothing new{}", words.span()))
    }
}

/// Counts the steps at the tail that brought nothing.
#[must_use]
pub fn observe(settings: &Settings, tool: &ToolPolicy, history: &History, step: &Step) -> Option<Finding> {
    let factor = news::patience(tool, step);
    let marks = |step: &Step| step.evidence().marks;
    // The first counts back to a person's message, the second beyond it: what is the same in spite of the message is so.
    let (mut known, mut same, mut turn) = (Tally::none(step), Tally::none(step), 0);
    let mut steps = iter::once(step).chain(news::remembered(history, step));
    let mut before = None;
    for earlier in steps.by_ref() {
        if !marks(earlier).has(Marks::KNOWN) {
            before = Some(earlier);
            break;
        }
        if earlier.turn == 0 || earlier.turn != turn {
            if earlier.sequence >= history.floor() {
                known.add(earlier);
            }
            if marks(earlier).has(Marks::SAME) {
                same.add(earlier);
            }
        }
        turn = earlier.turn;
    }
    let is_check = before.into_iter().chain(steps).take(CHECKED_STEPS).any(|earlier| marks(earlier).has(Marks::CHANGE));
    let threshold = settings.threshold.saturating_add(u32::from(is_check)).saturating_mul(factor);
    let same_threshold = settings.threshold.saturating_sub(1).saturating_add(u32::from(is_check)).saturating_mul(factor);
    let is_same = same.count >= same_threshold;
    (known.count >= threshold || is_same).then(|| {
        let tally = if known.count >= threshold { known } else { same };
        let finding =
            Finding::new(Detector::NoNews, settings.mode, evidence_identity(), tally.count, same_threshold.min(threshold))
                .confident(0.5, 0.05)
                .spanning(tally.first, step.sequence)
                .patient(factor);
        let is_conclusive = factor == 1 && (is_same || known.count >= 2 * threshold);
        if is_conclusive { finding.blocking_at(1).covering(BlockScope::Session) } else { finding }
    })
}
