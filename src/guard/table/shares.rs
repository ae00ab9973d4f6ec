//! How much of a table each tenant holds, and what leaves first when the table is full.
//!
//! The tenant that holds most gives first: so one within an equal share never gives for another, and room that others do not use is lent until
//! they do. Of one tenant, subjects without a block leave before those with one, and of either those that end first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loopwarden_core::event::EventTime;

/// What decides which subject leaves first; in that order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Leaver {
    pub(crate) has_block: bool,
    pub(crate) ends_at: EventTime,
    pub(crate) key: Arc<str>,
}

/// What shares are measured by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    Subjects,
    Bytes,
}

#[derive(Debug, Default)]
struct Holding {
    places: BTreeSet<Leaver>,
    bytes: usize,
}

/// The holdings of all tenants.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    tenants: BTreeMap<Arc<str>, Holding>,
    by_subjects: BTreeSet<(usize, Arc<str>)>,
    by_bytes: BTreeSet<(usize, Arc<str>)>,
}

impl Shares {
    /// A tenant holds a subject of so many bytes.
    pub(crate) fn add(&mut self, tenant: &str, place: Leaver, bytes: usize) {
        self.change(tenant, |holding| {
            holding.places.insert(place);
            holding.bytes += bytes;
        });
    }

    /// A tenant holds a subject no more.
    pub(crate) fn remove(&mut self, tenant: &str, place: &Leaver, bytes: usize) {
        self.change(tenant, |holding| {
            holding.places.remove(place);
            holding.bytes = holding.bytes.saturating_sub(bytes);
        });
    }

    /// The key of the subject that leaves next.
    pub(crate) fn next(&self, by: Measure) -> Option<Arc<str>> {
        let (_, tenant) = match by {
            Measure::Subjects => self.by_subjects.last()?,
            Measure::Bytes => self.by_bytes.last()?,
        };
        self.tenants.get(tenant)?.places.first().map(|place| Arc::clone(&place.key))
    }

    fn change(&mut self, tenant: &str, change: impl FnOnce(&mut Holding)) {
        let (name, mut holding) = match self.tenants.remove_entry(tenant) {
            Some((name, holding)) => {
                self.by_subjects.remove(&(holding.places.len(), Arc::clone(&name)));
                self.by_bytes.remove(&(holding.bytes, Arc::clone(&name)));
                (name, holding)
            }
            None => (tenant.into(), Holding::default()),
        };
        change(&mut holding);
        if !holding.places.is_empty() {
            self.by_subjects.insert((holding.places.len(), Arc::clone(&name)));
            self.by_bytes.insert((holding.bytes, Arc::clone(&name)));
            self.tenants.insert(name, holding);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(key: &str, has_block: bool, ends_ms: i64) -> Leaver {
        Leaver { has_block, ends_at: EventTime(ends_ms), key: key.into() }
    }

    fn all_leave(shares: &mut Shares, by: Measure, of: &[(&str, Leaver, usize)]) -> String {
        let mut left = String::new();
        while let Some(key) = shares.next(by) {
            let (tenant, place, bytes) = of.iter().find(|(_, place, _)| place.key == key).unwrap();
            shares.remove(tenant, place, *bytes);
            left.push_str(&key);
        }
        left
    }

    #[test]
    fn who_holds_most_gives_first_and_nudges_before_blocks() {
        let of = [
            ("a", place("1", true, 5), 1),
            ("a", place("2", false, 9), 1),
            ("a", place("3", false, 8), 1),
            ("b", place("4", false, 1), 100),
        ];
        for (by, order) in [(Measure::Subjects, "3241"), (Measure::Bytes, "4321")] {
            let mut shares = Shares::default();
            for (tenant, place, bytes) in &of {
                shares.add(tenant, place.clone(), *bytes);
            }
            assert_eq!(all_leave(&mut shares, by, &of), order);
            assert!(shares.tenants.is_empty() && shares.by_subjects.is_empty() && shares.by_bytes.is_empty());
        }
    }
}
