//! `text_only`: the agent talks and calls nothing (attocode's summary loop). Page `detection`.

use crate::detect::finding::{Family, Finding, loop_identity};
use crate::detect::rule::{About, CountSettings, Rule};
use crate::detect::text::{CommandText, TextContext};
use crate::detect::{detector::Detector, steps::tally::Tally};
use crate::identity::Hash64;
use crate::setting::{MODE, Mode, count, millis, settings};

settings! {
    pub struct Settings {
        mode: Mode = r#""nudge""#, MODE, "";
        threshold: u32 = "4", count(1),
            "text turns of a finding; three refusals of a format in a row still right themselves";
        reply_ms: i64 = "10_000", millis(0),
            "texts without a turn that follow each other within so long, with nothing in between, are one reply; 0 = each is one";
    }
}

impl Rule for Settings {
    const ABOUT: About = About {
        title: "Text turns without a call.",
        rule: "The agent writes `threshold` texts in a row without a call between them. Several texts of one turn \
            count once.",
        example: "Apologies and promises: three in a row often right themselves, the fourth is nudged.",
        silent: &[
            "A text with `final: true` declares the end and does not count.",
            "A call was made in between or with it (`attocode/text-a-call-ends-it`), whatever became of it, or a person wrote.",
            "The producer sends no messages.",
            "It does speak to an agent whose work is talking: switch it off there (`rules/text-4`).",
        ],
        ..About::AGENT
    };

    fn counts(&self) -> CountSettings {
        CountSettings::new(Detector::TextOnly, self.mode, self.threshold)
    }

    fn text(&self, context: &TextContext<'_>) -> CommandText {
        let n = context.count();
        let text = format!(
            "[System] You've produced {n} text-only responses without using tools. Pick the most important remaining task, do it, and \
             use tools NOW. No further status summary."
        );
        CommandText::new(text, format!("{n} text turns without a call"))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Texts {
    /// Turns of text in a row.
    pub turns: u32,
    /// Turn of the last of them + 1; 0 = unknown.
    pub turn: u64,
    /// Hash of its event's id, and the number of the step that followed it.
    pub last: (Hash64, u64),
}

/// A text of the agent: neither empty nor final.
#[derive(Debug, Clone, Copy)]
pub struct Text {
    /// Its turn + 1; 0 = unknown.
    pub turn: u64,
    /// Hash of its event's id.
    pub event: Hash64,
    /// The same of the event before it that was no call.
    pub before: Hash64,
    /// Event time since the event before it, milliseconds.
    pub pause_ms: i64,
    /// The number of the next step.
    pub next_step: u64,
    /// Its reply has made a call before it.
    pub has_call: bool,
}

/// Takes a text. Several of one reply count once: those of one turn, and without a turn those that follow each other at once.
pub fn observe(settings: &Settings, texts: &mut Texts, text: &Text) -> Option<Finding> {
    let follows = texts.last == (text.before, text.next_step) && text.pause_ms < settings.reply_ms && texts.turns > 0;
    texts.last = (text.event, text.next_step);
    let is_same_reply = if text.turn == 0 { follows } else { texts.turn == text.turn };
    if is_same_reply || text.has_call {
        return None;
    }
    let newest_step = text.next_step.saturating_sub(1);
    texts.turn = text.turn;
    texts.turns = texts.turns.saturating_add(1);
    let turns = Tally { count: texts.turns, first: newest_step };
    let finding = settings.counts().finding(turns, newest_step, || loop_identity(Family::Text, &[]))?;
    Some(finding.confident(0.5, 0.1))
}
