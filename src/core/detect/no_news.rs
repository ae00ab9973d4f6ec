//! `no_news`: the score says that step after step brings nothing that was not known, whatever is called. Page `detection`.

use crate::detect::detector::Detector;
use crate::detect::finding::Finding;
use crate::detect::rule::{About, Rule};
use crate::detect::steps::history::History;
use crate::detect::steps::step::Step;
use crate::detect::weights::evidence::Marks;
use crate::detect::weights::news::{self, Tally};
use crate::detect::weights::score::{self, TOLD_FROM};
use crate::detect::words::{Said, Words};
use crate::setting::{BlockScope, MODE, Mode, Needs, Shared, settings};

settings! {
    /// `detectors.no_news`.
    pub struct Settings {
        mode: Mode = r#""block""#, MODE, "";
    }
}

impl Rule for Settings {
    const ABOUT: About = About {
        title: "Step after step brings nothing that was not known.",
        rule: "The [score](#the-score) reaches `score.nudge_at` with a step that is no call made before and no failure. It counts the steps in a row \
            that brought nothing.",
        example: "A second sweep through a file that was read already, in other pieces.",
        silent: &[
            "A step in between changed something or brought news (`default/a-sweep-goes-on`).",
            "A person wrote something new in between.",
        ],
        swept: None,
        ..About::AGENT
    };

    fn threshold(&self) -> u32 {
        TOLD_FROM
    }

    fn block_at(&self) -> Option<u32> {
        Some(TOLD_FROM)
    }

    fn block_scope(&self) -> BlockScope {
        BlockScope::Tool
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

/// The finding about a step with which the score has reached its bound: the steps in a row that brought nothing.
#[must_use]
pub fn describe(settings: &Settings, history: &History, step: &Step) -> Finding {
    let mut barren = Tally::of(step);
    let before = news::since_message(history, step);
    before.take_while(|earlier| earlier.evidence().marks.has(Marks::BARREN)).for_each(|earlier| barren.add(earlier));
    score::finding(Detector::NoNews, settings.mode, barren, step).covering(BlockScope::Tool)
}
