//! `similar_failures`: by the score, calls fail alike, however they are varied. Page `detection`.

use crate::detect::rule::{About, CountSettings, Rule};
use crate::detect::text::{CommandText, TextContext};
use crate::detect::weights::news::{self, Turns, fails_alike};
use crate::detect::{
    detector::Detector, finding::Finding, steps::history::History, steps::step::Step, steps::tally::Tally, weights::score,
};
use crate::setting::{BlockScope, MODE, Mode, Needs, SharedSettings, settings};

settings! {
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
        ..About::AGENT
    };

    fn counts(&self) -> CountSettings {
        CountSettings::of_score(Detector::SimilarFailures, self.mode, BlockScope::Tool)
    }

    fn needs(&self, _: &SharedSettings) -> Needs {
        Needs { evidence: true, ..Needs::default() }
    }

    fn text(&self, context: &TextContext<'_>) -> CommandText {
        let (n, tool) = (context.count(), context.tool);
        let text = format!(
            "{n} of the last {tool} calls have failed in the same way, whatever was varied. Find out why before the next try, or take another \
             way."
        );
        CommandText::new(text, format!("{tool}: {n} failures alike{}", context.span()))
    }
}

/// The finding about a failure with which the score has reached its bound: the failures of its tool that are alike.
#[must_use]
pub fn describe(settings: &Settings, history: &History, step: &Step) -> Finding {
    let (mut turns, mut alike) = (Turns::of(step), Tally::of(step));
    for earlier in news::remembered(history, step) {
        if earlier.tool == step.tool && earlier.failed() && fails_alike(step, earlier) && turns.is_first(earlier) {
            alike.add(earlier);
        }
    }
    score::finding(&settings.counts(), alike, step).covering(BlockScope::Tool)
}
