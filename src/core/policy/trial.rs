//! A controlled trial: a share of the sessions is judged like all others, and nothing is sent to their agents. What commands are worth is
//! the difference (page `policies`).

use crate::identity::hash_parts;
use crate::setting::{NameOrNone, Section, Share, Table, settings};

settings! {
    /// Settings of `[trial]`: which sessions are only watched.
    #[derive(PartialEq)]
    pub struct Trial {
        share: f64 = "0.0", Share, "share of the sessions that are judged, and sent nothing: their commands have mode shadow; 0 = no trial";
        salt: String = r#""""#, NameOrNone, "16 characters or more that nobody who names sessions can guess; another text draws others";
    }
    then Trial::checked;
}

/// Characters of a salt, at least: nobody tries out all that it could be.
const SALT_CHARS_MIN: usize = 16;

/// What happens to the commands of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Arm {
    /// They are sent, and to be obeyed.
    Treatment,
    /// They are published as shadow commands: nobody obeys them.
    Control,
}

impl Arm {
    pub const ALL: [Self; 2] = [Self::Treatment, Self::Control];

    /// Its name in commands, metrics and reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Treatment => "treatment",
            Self::Control => "control",
        }
    }
}

impl Trial {
    pub(super) const SECTION: Section = Section {
        path: "trial",
        is_list: false,
        about: "A controlled trial: what commands are worth is the difference between two arms (page `policies`).",
        settings: Self::SETTINGS,
    };

    /// Whoever knew what arms are drawn with would choose a name by which his sessions are only watched.
    fn checked(self, table: &mut Table<'_>) -> Self {
        let path = table.path("salt");
        let is_hard = self.salt.chars().count() >= SALT_CHARS_MIN;
        // Where all sessions are in one arm, there is nothing to draw.
        let is_drawn = self.is_on() && self.share < 1.0;
        table.check.rule(&path, !is_drawn || is_hard, || {
            format!(
                "{path} has less than {SALT_CHARS_MIN} characters, but a trial needs a text that nobody who names sessions can guess, as \
                 from openssl rand -hex 16"
            )
        });
        self
    }

    /// Whether there is one.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.share > 0.0
    }

    /// The arm of a session; none without a trial. It depends on names alone: a replay, another process and a restart find the same one. It is
    /// drawn for a session and not for a detector: a loop that two detectors see would else be in two arms.
    #[must_use]
    pub fn arm(&self, tenant: &str, session_id: &str) -> Option<Arm> {
        let is_control = || self.drawn(tenant, session_id) < self.share;
        self.is_on().then(|| if is_control() { Arm::Control } else { Arm::Treatment })
    }

    /// A number from 0 to 1 that depends on names alone.
    fn drawn(&self, tenant: &str, session_id: &str) -> f64 {
        let hash = hash_parts(&[&self.salt, "\u{1f}", tenant, "\u{1f}", session_id]).hash64();
        // 53 bits: a floating point number holds each of them.
        (hash.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(share: f64, salt: &str) -> Trial {
        Trial { share, salt: salt.to_owned() }
    }

    #[test]
    fn the_share_is_met_and_another_salt_draws_others() {
        let controls = |trial: &Trial| -> Vec<u32> {
            (0..10_000).filter(|at| trial.arm("acme", &format!("s{at}")) == Some(Arm::Control)).collect()
        };
        let (one, two) = (controls(&trial(0.1, "a")), controls(&trial(0.1, "b")));
        assert!((900..1_100).contains(&one.len()), "{}", one.len());
        let both = one.iter().filter(|at| two.contains(at)).count();
        assert!((60..140).contains(&both), "{both} of both");
        assert_eq!(controls(&trial(1.0, "a")).len(), 10_000);
    }

    #[test]
    fn without_a_share_nobody_is_in_a_trial() {
        assert_eq!(trial(0.0, "a").arm("", "s"), None);
    }

    #[test]
    fn names_that_run_into_each_other_are_drawn_apart() {
        let arms =
            |tenant: &str, session: &str| (0..64).map(|at| trial(0.5, &at.to_string()).arm(tenant, session)).collect::<Vec<_>>();
        assert_ne!(arms("a", "bc"), arms("ab", "c"));
    }
}
