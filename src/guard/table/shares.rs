//! How much of a table each tenant holds, and what leaves first when the table is full.
//!
//! The tenant that holds most gives first: so one within an equal share never gives for another, and room that others do not use is lent until
//! they do. Of one tenant, subjects without a block leave before those with one, and of either those that end first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loopwarden_core::{engine::SubjectKey, event::EventTime, shares::Shares};

/// What decides which subject leaves first; in that order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Leaver {
    pub(crate) has_block: bool,
    pub(crate) ends_at: EventTime,
    pub(crate) key: Arc<SubjectKey>,
}

/// What shares are measured by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    Subjects,
    Bytes,
}

/// The subjects of all tenants.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    places: BTreeMap<String, BTreeSet<Leaver>>,
    subjects: Shares<String>,
    bytes: Shares<String>,
}

impl Holdings {
    /// A tenant holds a subject of so many bytes.
    pub(crate) fn add(&mut self, tenant: &str, place: Leaver, bytes: usize) {
        let tenant = tenant.to_owned();
        self.subjects.take(&tenant, 1);
        self.bytes.take(&tenant, bytes);
        self.places.entry(tenant).or_default().insert(place);
    }

    /// A tenant holds a subject no more.
    pub(crate) fn remove(&mut self, tenant: &str, place: &Leaver, bytes: usize) {
        let tenant = tenant.to_owned();
        self.subjects.give_back(&tenant, 1);
        self.bytes.give_back(&tenant, bytes);
        if self.subjects.of(&tenant) == 0 {
            self.places.remove(&tenant);
        } else if let Some(places) = self.places.get_mut(&tenant) {
            places.remove(place);
        }
    }

    /// The key of the subject that leaves next.
    pub(crate) fn next(&self, by: Measure) -> Option<Arc<SubjectKey>> {
        let shares = match by {
            Measure::Subjects => &self.subjects,
            Measure::Bytes => &self.bytes,
        };
        self.places.get(shares.by_most().next()?)?.first().map(|place| Arc::clone(&place.key))
    }
}

#[cfg(test)]
mod tests {
    use loopwarden_core::whom::{Kind, Whom};

    use super::*;

    fn place(key: &str, has_block: bool, ends_ms: i64) -> Leaver {
        let key = SubjectKey::Stop(Whom::new("", Kind::Session, key));
        Leaver { has_block, ends_at: EventTime(ends_ms), key: Arc::new(key) }
    }

    fn all_leave(holdings: &mut Holdings, by: Measure, of: &[(&str, Leaver, usize)]) -> String {
        let mut left = String::new();
        while let Some(key) = holdings.next(by) {
            let (tenant, place, bytes) = of.iter().find(|(_, place, _)| place.key == key).unwrap();
            holdings.remove(tenant, place, *bytes);
            left.push_str(&key.whom().name);
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
            let mut holdings = Holdings::default();
            for (tenant, place, bytes) in &of {
                holdings.add(tenant, place.clone(), *bytes);
            }
            assert_eq!(all_leave(&mut holdings, by, &of), order);
            assert!(holdings.places.is_empty() && holdings.subjects.all() == 0 && holdings.bytes.all() == 0);
        }
    }
}
