//! A note of what left a full table, so that nobody takes what was forgotten for what never was.
//!
//! Of each tenant a filter over the beginnings of keys, which may have a key too many and never one too few. It is empty again when all that
//! left has ended.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use loopwarden_core::event::EventTime;

/// Tenants with a note of their own; those beyond share one.
const NOTES_MAX: usize = 256;
/// Bits of a filter: 8 KiB.
const BITS: u64 = 65_536;

#[derive(Debug, Default)]
struct Note {
    /// After it nothing of what left is in force.
    until: Option<EventTime>,
    bits: Vec<u64>,
}

impl Note {
    fn add(&mut self, beginning: &str, ends_at: EventTime) {
        self.bits.resize((BITS / 64) as usize, 0);
        let bit = bit_of(beginning);
        if let Some(word) = self.bits.get_mut((bit / 64) as usize) {
            *word |= 1 << (bit % 64);
        }
        self.until = self.until.max(Some(ends_at));
    }

    fn may_have(&self, beginning: &str, now: EventTime) -> bool {
        let bit = bit_of(beginning);
        self.until > Some(now) && self.bits.get((bit / 64) as usize).is_some_and(|word| word & (1 << (bit % 64)) != 0)
    }
}

fn bit_of(beginning: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    beginning.hash(&mut hasher);
    hasher.finish() % BITS
}

/// What left, of all tenants.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    tenants: BTreeMap<String, Note>,
    others: Note,
}

impl Lost {
    /// A subject left, whose key begins so.
    pub(crate) fn add(&mut self, tenant: &str, beginning: &str, ends_at: EventTime) {
        let has_room = self.tenants.len() < NOTES_MAX || self.tenants.contains_key(tenant);
        let note = if has_room { self.tenants.entry(tenant.to_owned()).or_default() } else { &mut self.others };
        note.add(beginning, ends_at);
    }

    /// Whether something in force may be missing whose key begins so.
    pub(crate) fn may_have(&self, tenant: &str, beginning: &str, now: EventTime) -> bool {
        let own = self.tenants.get(tenant);
        own.is_some_and(|note| note.may_have(beginning, now)) || self.others.may_have(beginning, now)
    }

    /// Whether nothing has left: the usual case, in which no key need be made.
    pub(crate) fn is_empty(&self) -> bool {
        self.tenants.is_empty() && self.others.until.is_none()
    }

    /// Forgets what is in force no more.
    pub(crate) fn sweep(&mut self, now: EventTime) {
        self.tenants.retain(|_, note| note.until > Some(now));
        if self.others.until <= Some(now) {
            self.others = Note::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_left_is_known_until_it_ends_and_by_its_tenant_only() {
        let mut lost = Lost::default();
        assert!(lost.is_empty() && !lost.may_have("a", "x", EventTime(0)));
        lost.add("a", "x", EventTime(10));
        lost.add("a", "y", EventTime(5));
        assert!(lost.may_have("a", "x", EventTime(9)) && lost.may_have("a", "y", EventTime(9)));
        assert!(!lost.may_have("a", "z", EventTime(9)) && !lost.may_have("b", "x", EventTime(9)));
        assert!(!lost.may_have("a", "x", EventTime(10)));
        lost.sweep(EventTime(10));
        assert!(lost.is_empty());
    }

    #[test]
    fn tenants_beyond_the_bound_share_a_note() {
        let mut lost = Lost::default();
        for number in 0..=NOTES_MAX {
            lost.add(&number.to_string(), "x", EventTime(10));
        }
        assert_eq!(lost.tenants.len(), NOTES_MAX);
        assert!(lost.may_have("one that nobody named", "x", EventTime(9)));
        lost.sweep(EventTime(10));
        assert!(lost.is_empty());
    }
}
