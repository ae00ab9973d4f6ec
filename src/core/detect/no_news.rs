//! `no_news`: by the score, step after step brings nothing that was not known, whatever is called. Page `detection`.

use crate::detect::rule::{About, CountSettings, Rule};
use crate::detect::text::{CommandText, TextContext};
use crate::detect::{
    detector::Detector, finding::Finding, steps::evidence::Marks, steps::history::History, steps::step::Step, weights::news,
    weights::score,
};
use crate::setting::{BlockScope, MODE, Mode, Needs, SharedSettings, settings};

settings! {
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
        ..About::AGENT
    };

    fn counts(&self) -> CountSettings {
        CountSettings::of_score(Detector::NoNews, self.mode, BlockScope::Fingerprint)
    }

    fn needs(&self, _: &SharedSettings) -> Needs {
        Needs { evidence: true, ..Needs::default() }
    }

    fn text(&self, context: &TextContext<'_>) -> CommandText {
        let n = context.count();
        let what = if n == 1 {
            "The last step has brought nothing that was not known before it".to_owned()
        } else {
            format!("The last {n} steps have brought nothing that was not known before them")
        };
        let text = format!("{what}. Write down what is known, decide what is still missing, and take a step that can bring it.");
        CommandText::new(text, format!("{n} steps in a row that brought nothing new{}", context.span()))
    }
}

/// The finding about a step with which the score has reached its bound: the steps in a row that brought nothing.
#[must_use]
pub fn describe(settings: &Settings, history: &History, step: &Step) -> Finding {
    let is_barren = |earlier: &&Step| earlier.evidence().marks.contains(Marks::BARREN);
    let barren: Vec<&Step> = news::since_message(history, step).take_while(is_barren).collect();
    score::finding(&settings.counts(), step, &barren)
}
