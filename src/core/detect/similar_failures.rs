//! `similar_failures`: the score says that calls fail alike, however they are varied. Page `detection`.

use crate::detect::detector::Detector;
use crate::detect::finding::Finding;
use crate::detect::rule::{About, Rule};
use crate::detect::steps::history::History;
use crate::detect::steps::step::Step;
use crate::detect::weights::news::{self, Tally, Turns, fails_alike};
use crate::detect::weights::score::{self, TOLD_FROM};
use crate::detect::words::{Said, Words};
use crate::setting::{BlockScope, MODE, Mode, Needs, Shared, settings};

settings! {
    /// `detectors.similar_failures`.
    pub struct Settings {
        mode: Mode = r#""block""#, MODE, "";
    }
}

impl Rule for Settings {
    const ABOUT: About = About {
        title: "Calls of one tool fail alike, however they are varied.",
        rule: "The [score](#the-score) reaches `score.nudge_at` with a failure. It counts the failures of the tool that say the same once the words \
            of each call, quoted names, numbers and ids are left out.",
        example: "Ids are guessed against one endpoint, and each answer names the id that was not found.",
        silent: &[
            "The call worked in between (`default/a-guess-that-hits`).",
            "An outage (rate limits, resets, 5xx): it weighs a `poll_factor`th, and blocks nothing.",
        ],
        looks_through: true,
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
        let (n, tool) = (words.count(), words.tool);
        let text = format!(
            "{n} of the last {tool} calls have failed in the same way, whatever was varied. Find out why before the next try, or take another \
             way."
        );
        Said::new(text, format!("{tool}: {n} failures alike{}", words.span()))
    }
}

/// The finding about a failure with which the score has reached its bound: the failures of its tool that say the same.
#[must_use]
pub fn describe(settings: &Settings, history: &History, step: &Step) -> Finding {
    let (mut turns, mut alike) = (Turns::of(step), Tally::of(step));
    for earlier in news::remembered(history, step) {
        if earlier.tool == step.tool && earlier.failed() && fails_alike(step, earlier) && turns.is_first(earlier) {
            alike.add(earlier);
        }
    }
    score::finding(Detector::SimilarFailures, settings.mode, alike, step).covering(BlockScope::Tool)
}
