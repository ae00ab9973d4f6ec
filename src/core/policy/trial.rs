//! A controlled trial: a share of the sessions is judged like all others, and nothing is sent to their agents. What commands are worth is
//! the difference. Two wordings are compared in the same way (page `policies`).

use crate::identity::hash_parts;
use crate::limits::{POLICY_LIST_MAX, TRIAL_TEXT_CHARS_MAX};
use crate::policy::{Detector, detectors::detectors_of};
use crate::setting::{Kind, Share, Table};

/// Settings of `[trial]`: which sessions are only watched, and which are sent other words.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trial {
    /// Share of the sessions in the control arm, 0 to 1; 0 = none is.
    share: f64,
    /// Another salt draws other sessions.
    salt: String,
    /// Of a detector that two entries name the first counts.
    messages: Vec<Wording>,
}

/// Other words for the nudges of some detectors.
#[derive(Debug, Clone, PartialEq)]
struct Wording {
    detectors: Vec<Detector>,
    /// `{tool}` and `{count}` stand for those of the loop.
    text: String,
}

/// What happens to the commands of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Arm {
    /// They are sent, and to be obeyed.
    Treatment,
    /// They are published as shadow commands: nobody obeys them.
    Control,
    /// They are sent, and nudges have the words of the trial.
    Variant,
}

impl Arm {
    pub const ALL: [Self; 3] = [Self::Treatment, Self::Control, Self::Variant];

    /// Its name in commands, metrics and reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Treatment => "treatment",
            Self::Control => "control",
            Self::Variant => "variant",
        }
    }
}

impl Trial {
    pub(super) fn read(table: &mut Table<'_>) -> Self {
        let share = Share.read(&mut table.key("share"));
        let mut key = table.key("salt");
        let salt = key.text();
        let salt = if salt.is_empty() { String::new() } else { key.check.name(&key.path, salt) };
        let entries = table.key("message").list().len();
        let path = table.path("message");
        table.check.rule(&path, entries <= POLICY_LIST_MAX, || {
            format!("{path} has {entries} entries, but must not have above {POLICY_LIST_MAX}")
        });
        let messages = table.tables("message", wording).into_iter().filter(|wording| !wording.detectors.is_empty()).collect();
        Self { share, salt, messages }
    }

    /// The arm of a session where a detector speaks; none without a trial. It depends on names alone: a replay, another process and a restart
    /// find the same one. It is drawn for a session and not for a detector: a loop that two detectors see would else be in two arms.
    #[must_use]
    pub fn arm(&self, tenant: &str, session_id: &str, detector: Detector) -> Option<Arm> {
        let has_words = self.text_of(detector).is_some();
        if self.is_control(tenant, session_id) {
            Some(Arm::Control)
        } else if has_words && self.drawn("words", tenant, session_id) < 0.5 {
            Some(Arm::Variant)
        } else {
            (self.share > 0.0 || has_words).then_some(Arm::Treatment)
        }
    }

    /// Whether a session is only watched.
    #[must_use]
    pub fn is_control(&self, tenant: &str, session_id: &str) -> bool {
        self.share > 0.0 && self.drawn("", tenant, session_id) < self.share
    }

    /// A nudge in the words of the trial; none where a detector has none.
    #[must_use]
    pub fn words(&self, detector: Detector, tool: &str, count: u32) -> Option<String> {
        let text = self.text_of(detector)?;
        // The name of a tool may hold what stands for a count: it is put in last.
        Some(text.replace("{count}", &count.to_string()).replace("{tool}", tool))
    }

    fn text_of(&self, detector: Detector) -> Option<&str> {
        let wording = self.messages.iter().find(|wording| wording.detectors.contains(&detector));
        wording.map(|wording| wording.text.as_str())
    }

    /// A number from 0 to 1 that depends on names alone.
    fn drawn(&self, what: &str, tenant: &str, session_id: &str) -> f64 {
        let hash = hash_parts(&[&self.salt, what, "\u{1f}", tenant, "\u{1f}", session_id]).hash64();
        // 53 bits: a floating point number holds each of them.
        (hash.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn wording(table: &mut Table<'_>) -> Wording {
    let detectors = detectors_of(&mut table.key("detectors"));
    let (text, path) = (table.key("text").text().to_owned(), table.path("text"));
    let is_text = detectors.is_empty() || (!text.trim().is_empty() && !text.contains(char::is_control));
    table.check.rule(&path, is_text && text.chars().count() <= TRIAL_TEXT_CHARS_MAX, || {
        format!("{path} must have 1 to {TRIAL_TEXT_CHARS_MAX} characters and no control characters")
    });
    Wording { detectors, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(share: f64, salt: &str) -> Trial {
        Trial { share, salt: salt.to_owned(), messages: Vec::new() }
    }

    const LOOP: Detector = Detector::ExactRepeat;

    #[test]
    fn the_share_is_met_and_another_salt_draws_others() {
        let controls = |trial: &Trial| -> Vec<u32> {
            (0..10_000).filter(|at| trial.arm("acme", &format!("s{at}"), LOOP) == Some(Arm::Control)).collect()
        };
        let (one, two) = (controls(&trial(0.1, "a")), controls(&trial(0.1, "b")));
        assert!((900..1_100).contains(&one.len()), "{}", one.len());
        let both = one.iter().filter(|at| two.contains(at)).count();
        assert!((60..140).contains(&both), "{both} of both");
        assert_eq!(controls(&trial(1.0, "a")).len(), 10_000);
    }

    #[test]
    fn without_a_share_nobody_is_in_a_trial() {
        assert_eq!(trial(0.0, "a").arm("", "s", LOOP), None);
    }

    #[test]
    fn half_of_those_who_are_sent_something_get_other_words_and_only_of_a_detector_that_has_them() {
        let other = Wording { detectors: vec![LOOP], text: "Leave {tool} alone after {count} calls.".to_owned() };
        let both = Trial { messages: vec![other], ..trial(0.2, "a") };
        let arms =
            |trial: &Trial, detector| (0..10_000).map(|at| trial.arm("acme", &format!("s{at}"), detector)).collect::<Vec<_>>();
        let count = |arms: &[Option<Arm>], arm| arms.iter().filter(|drawn| **drawn == Some(arm)).count();
        let drawn = arms(&both, LOOP);
        assert!((3_800..4_200).contains(&count(&drawn, Arm::Variant)), "{}", count(&drawn, Arm::Variant));
        assert_eq!(arms(&both, Detector::Budget), arms(&trial(0.2, "a"), Detector::Budget));
        let is_watched = |arm: &Option<Arm>| *arm == Some(Arm::Control);
        assert!(drawn.iter().map(is_watched).eq(arms(&trial(0.2, "a"), LOOP).iter().map(is_watched)), "words move nobody");
        // Words are compared without a control arm too.
        let words = Trial { share: 0.0, ..both.clone() };
        assert_eq!(count(&arms(&words, LOOP), Arm::Control) + count(&arms(&words, Detector::Budget), Arm::Treatment), 0);
        assert_eq!(both.words(LOOP, "{count}", 3).as_deref(), Some("Leave {count} alone after 3 calls."));
        assert_eq!(both.words(Detector::Budget, "t", 3), None);
    }

    #[test]
    fn names_that_run_into_each_other_are_drawn_apart() {
        let arms = |tenant: &str, session: &str| {
            (0..64).map(|at| trial(0.5, &at.to_string()).arm(tenant, session, LOOP)).collect::<Vec<_>>()
        };
        assert_ne!(arms("a", "bc"), arms("ab", "c"));
    }
}
