//! `own_words`: the agent writes the same again and again. Page `detection`.

use std::collections::VecDeque;

use crate::detect::finding::{Family, Finding, loop_identity};
use crate::detect::rule::{About, CountSettings, Rule};
use crate::detect::text::{CommandText, TextContext};
use crate::detect::weights::news::{self, ALIKE_PERCENT};
use crate::detect::{detector::Detector, steps::history::History, steps::tally::Tally};
use crate::event::Message;
use crate::identity::{Sketch, repeated_run, sketch_message};
use crate::limits::OWN_TEXTS_MAX;
use crate::setting::{MODE, Mode, Needs, SharedSettings, count, settings};

/// Length of a phrase that repeats in a text. Words.
const PHRASE_WORDS: usize = 8;

settings! {
    pub struct Settings {
        mode: Mode = r#""off""#, MODE, "";
        threshold: u32 = "3", count(2), "nearly equal texts of a finding, with nothing new between them; at most 8 are kept";
        phrase_times: u32 = "10", count(2), "or so often the same eight words in one text";
    }
}

impl Rule for Settings {
    const ABOUT: About = About {
        title: "The agent repeats its own words.",
        rule: "Of the last eight texts, `threshold` are nearly equal (they share three fifths of their runs of three words), and no step between them has \
            brought news. Or one text holds the same eight words `phrase_times` times.",
        example: "The same plan is announced before each call, and no call brings anything; or a text runs on in one phrase.",
        silent: &[
            "A step between the texts brought something new (`default/the-same-words-and-work-between`).",
            "A person wrote something new in between.",
            "The producer sends no messages.",
        ],
        ..About::AGENT
    };

    fn counts(&self) -> CountSettings {
        CountSettings::new(Detector::OwnWords, self.mode, self.threshold)
    }

    fn needs(&self, _: &SharedSettings) -> Needs {
        Needs { evidence: true, ..Needs::default() }
    }

    fn text(&self, context: &TextContext<'_>) -> CommandText {
        let n = context.count();
        if context.finding.period > 0 {
            let text = format!("Your last text repeats one phrase {n} times. Stop there, and take the next step of the task.");
            return CommandText::new(text, format!("one phrase {n} times in one text"));
        }
        let text = format!(
            "Your last texts say nearly the same {n} times, and nothing new has come between them. Do what they announce, or something else."
        );
        CommandText::new(text, format!("{n} nearly equal texts of the agent"))
    }
}

/// What the agent has written since a step last brought news.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnTexts {
    /// Its texts, oldest first; at most [`OWN_TEXTS_MAX`].
    pub texts: VecDeque<Sketch>,
    /// Sequence of the step that came after the last of them.
    pub next_step: u64,
}

/// Takes a text of the agent.
pub fn observe(settings: &Settings, own: &mut OwnTexts, history: &History, message: &Message<'_>) -> Option<Finding> {
    let (sketch, words) = sketch_message(message);
    if words == 0 {
        return None;
    }
    if history.ring_back().take_while(|step| step.sequence >= own.next_step).any(news::brings_news) {
        own.texts.clear();
    }
    own.next_step = history.next_sequence();
    let alike = 1 + own.texts.iter().filter(|earlier| earlier.view().is_alike(sketch.view(), ALIKE_PERCENT)).count() as u32;
    if own.texts.len() >= OWN_TEXTS_MAX {
        own.texts.pop_front();
    }
    own.texts.push_back(sketch);
    let phrases = message.text().map_or(0, |text| repeated_run(&text, PHRASE_WORDS)) as u32;
    let found = |count, threshold| {
        let newest = history.next_sequence().saturating_sub(1);
        let counts = CountSettings { threshold, ..settings.counts() };
        let finding = counts.finding(Tally { count, first: newest }, newest, || loop_identity(Family::Text, &[]))?;
        Some(finding.confident(0.5, 0.1))
    };
    found(alike, settings.threshold)
        .or_else(|| Some(Finding { period: PHRASE_WORDS as u32, ..found(phrases, settings.phrase_times)? }))
}
