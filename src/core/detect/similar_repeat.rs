//! `similar_repeat`: by the score, one call, or nearly the same one, goes round. Page `detection`.

use crate::detect::rule::{About, CountSettings, Rule};
use crate::detect::steps::step::{Flags, Step};
use crate::detect::text::{CommandText, TextContext};
use crate::detect::weights::news::{self, Likeness, Turns, differs_in_numbers, is_answered_alike, likeness};
use crate::detect::{detector::Detector, finding::Finding, steps::history::History, weights::score};
use crate::setting::{BlockScope, MODE, Mode, Needs, SharedSettings, settings};

settings! {
    pub struct Settings {
        mode: Mode = r#""block""#, MODE, "{words}, here and below";
    }
}

impl Rule for Settings {
    const ABOUT: About = About {
        title: "One call, or nearly the same one, with much the same answer.",
        rule: "The [score](#the-score) reaches `score.nudge_at` with a call that was made before, or one nearly equal to it. It counts the calls \
            like it that were answered alike.",
        example: "A page is loaded again and again, and only its element references change.",
        silent: &[
            "The answers differ: the call brings news (`default/each-page-is-another`).",
            "Something was changed in between: edit, then run again, is work (`default/edit-and-run-again`).",
            "The agent waits: looks at what runs elsewhere weigh a `poll_factor`th, and nothing where time passes in between.",
        ],
        repeats_call: true,
        on_result: true,
        looks_through: true,
    };

    fn counts(&self) -> CountSettings {
        CountSettings::of_score(Detector::SimilarRepeat, self.mode, BlockScope::Fingerprint)
    }

    fn needs(&self, _: &SharedSettings) -> Needs {
        Needs { evidence: true, fingerprint: true, ..Needs::default() }
    }

    fn text(&self, context: &TextContext<'_>) -> CommandText {
        let (n, tool, span) = (context.count(), context.tool, context.span());
        let text = format!(
            "The same or nearly the same {tool} call has returned much the same {} {n} times{span}. Another call of this kind is not likely to \
             bring anything new. Use what is known already, or take another way.",
            if context.flags.contains(Flags::OK) { "result" } else { "failure" }
        );
        CommandText::new(text, format!("{tool}: {n} similar calls with similar answers{span}"))
    }
}

/// The finding about a step with which the score has reached its bound: the calls like it that were answered alike.
#[must_use]
pub fn describe(settings: &Settings, history: &History, step: &Step) -> Finding {
    let mut turns = Turns::of(step);
    let is_counted = |earlier: &&Step| {
        let likeness = likeness(step, earlier);
        let is_alike = is_answered_alike(step, earlier) || (likeness == Likeness::Equal && differs_in_numbers(step, earlier));
        likeness != Likeness::Other && is_alike && turns.is_first(earlier)
    };
    let alike: Vec<&Step> = news::since_message(history, step).filter(is_counted).collect();
    score::finding(&settings.counts(), step, &alike)
}
