//! `similar_failures`: by the score, calls fail alike, however they are varied. Page `detection`.

use crate::detect::rule::{About, CountSettings, Rule};
use crate::detect::text::{CommandText, TextContext};
use crate::detect::weights::news::{self, Turns, fails_alike};
use crate::detect::{detector::Detector, finding::Finding, steps::history::History, steps::step::Step, weights::score};
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
        Needs { evidence: true, fingerprint: true, ..Needs::default() }
    }

    fn text(&self, context: &TextContext<'_>) -> CommandText {
        let (n, tool) = (context.count(), context.tool);
        let what = if n == 1 {
            format!("The last {tool} call has failed")
        } else {
            format!("{n} of the last {tool} calls have failed in the same way, whatever was varied")
        };
        let text = format!("{what}. Find out why before the next try, or take another way.");
        let alike = if n == 1 { "a failure".to_owned() } else { format!("{n} failures alike") };
        CommandText::new(text, format!("{tool}: {alike}{}", context.span()))
    }
}

/// The finding about a failure with which the score has reached its bound: the failures of its tool that are alike. A block of it binds the
/// whole tool only where the call was not made before, whatever it is varied.
#[must_use]
pub fn describe(settings: &Settings, history: &History, step: &Step) -> Finding {
    let mut turns = Turns::of(step);
    let is_counted =
        |earlier: &&Step| earlier.tool == step.tool && earlier.failed() && fails_alike(step, earlier) && turns.is_first(earlier);
    let alike: Vec<&Step> = news::remembered(history, step).filter(is_counted).collect();
    score::finding(&settings.counts(), step, &alike)
}
