//! Loops that people let be.

use std::collections::VecDeque;

use crate::event::EventTime;
use crate::identity::Hash64;
use crate::limits::EXEMPTIONS_MAX;

/// A loop that is let be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exemption {
    /// Loop identity, as its findings have it.
    pub identity: Hash64,
    /// From then on it is judged again.
    pub until: EventTime,
}

/// The loops of a session that people let be, oldest first; at most [`EXEMPTIONS_MAX`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exemptions(VecDeque<Exemption>);

impl Exemptions {
    /// Whether a loop is let be at a time.
    #[must_use]
    pub fn hold(&self, identity: Hash64, now: EventTime) -> bool {
        self.0.iter().any(|held| held.identity == identity && held.until > now)
    }

    /// The loops with their ends, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Exemption> {
        self.0.iter()
    }

    pub(super) fn add(&mut self, exemption: Exemption, now: EventTime) {
        self.0.retain(|held| held.until > now && held.identity != exemption.identity);
        if self.0.len() >= EXEMPTIONS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(exemption);
    }
}

impl FromIterator<Exemption> for Exemptions {
    fn from_iter<I: IntoIterator<Item = Exemption>>(held: I) -> Self {
        Self(held.into_iter().take(EXEMPTIONS_MAX).collect())
    }
}
