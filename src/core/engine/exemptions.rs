//! Loops that people let be.

use std::collections::VecDeque;

use crate::detect::Finding;
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
    /// Sequence of its last step.
    pub seen: u64,
}

/// The loops of a session that people let be, oldest first; at most [`EXEMPTIONS_MAX`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exemptions(VecDeque<Exemption>);

impl Exemptions {
    /// Whether a finding is of a loop that is let be at a time. Findings of evidence share one identity: theirs is another loop where it shares
    /// no step with what was seen of the one that a person meant.
    pub(super) fn take(&mut self, finding: &Finding, now: EventTime) -> bool {
        let is_of = |held: &&mut Exemption| held.identity == finding.identity && held.until > now;
        let Some(held) = self.0.iter_mut().find(is_of) else { return false };
        let goes_on = !finding.detector.is_of_evidence() || finding.poll_factor > 1 || finding.first <= held.seen;
        if goes_on {
            held.seen = held.seen.max(finding.last);
        }
        goes_on
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
