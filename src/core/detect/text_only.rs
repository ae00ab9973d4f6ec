//! `text_only`: the agent talks and calls nothing (attocode's summary loop). Page `detection`.

use crate::detect::detector::Detector;
use crate::detect::finding::{Family, Finding, loop_identity};
use crate::detect::rule::{About, Rule};
use crate::detect::words::{Said, Words};
use crate::setting::{MODE, Mode, Needs, Shared, count, settings};

settings! {
    /// `detectors.text_only`.
    pub struct Settings {
        mode: Mode = r#""nudge""#, MODE, "";
        threshold: u32 = "4", count(1),
            "text turns of a finding; three refusals of a format in a row still right themselves";
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
            "A call was made in between (`attocode/text-a-call-ends-it`), or a person wrote.",
            "The producer sends no messages.",
            "It does speak to an agent whose work is talking: switch it off there (`equality/text-4`).",
        ],
        ..About::AGENT
    };

    fn threshold(&self) -> u32 {
        self.threshold
    }

    fn needs(&self, _: &Shared) -> Needs {
        Needs::default()
    }

    fn words(&self, words: &Words<'_>) -> Said {
        let n = words.count();
        let text = format!(
            "[System] You've produced {n} text-only responses without using tools. Pick the most important remaining task, do it, and \
             use tools NOW. No further status summary."
        );
        Said::new(text, format!("{n} text turns without a call"))
    }
}

/// Texts in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Texts {
    /// Turns of text in a row.
    pub turns: u32,
    /// Turn of the last of them + 1; 0 = unknown.
    pub turn: u64,
}

/// Takes an assistant message that is neither empty nor final; several of one turn count once. `turn` is the turn + 1, 0 = unknown.
pub fn observe(settings: &Settings, texts: &mut Texts, turn: u64, newest_step: u64) -> Option<Finding> {
    if turn != 0 && texts.turn == turn {
        return None;
    }
    texts.turn = turn;
    texts.turns = texts.turns.saturating_add(1);
    (texts.turns >= settings.threshold).then(|| {
        Finding::new(Detector::TextOnly, settings.mode, loop_identity(Family::Text, &[]), texts.turns, settings.threshold)
            .confident(0.5, 0.1)
            .spanning(newest_step, newest_step)
    })
}
