//! A map of agents that is bounded: when it is full, the sixteenth part leaves that was touched longest ago. Of tenants that have more than an
//! equal share of it, where they can give so much: one that makes up agents pushes out its own.

use std::{borrow::Borrow, collections::BTreeMap};

use loopwarden_core::engine::SEPARATOR;

/// What part of a full map leaves at once: one look at all of it then makes room for many.
const LEAVING_PART: usize = 16;

/// A bounded map. Values are made when they are first asked for.
#[derive(Debug)]
pub(crate) struct LruMap<K, V> {
    entries: BTreeMap<K, (V, i64)>,
    entries_max: usize,
}

impl<K: Ord + Clone + Borrow<str>, V: Default> LruMap<K, V> {
    pub(crate) fn new(entries_max: usize) -> Self {
        Self { entries: BTreeMap::new(), entries_max: entries_max.max(LEAVING_PART) }
    }

    /// The value of a key, touched now; made where there is none.
    pub(crate) fn touch<Q: ToOwned<Owned = K> + Ord + ?Sized>(&mut self, key: &Q, now_ms: i64) -> &mut V
    where
        K: Borrow<Q>,
    {
        if !self.entries.contains_key(key) && self.entries.len() >= self.entries_max {
            self.make_room();
        }
        let (value, touched_ms) = self.entries.entry(key.to_owned()).or_insert_with(|| (V::default(), now_ms));
        *touched_ms = now_ms;
        value
    }

    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries.get(key).map(|(value, _)| value)
    }

    pub(crate) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.entries.get_mut(key).map(|(value, _)| value)
    }

    /// Forgets what was not touched since a time.
    pub(crate) fn forget_before(&mut self, time_ms: i64) {
        self.entries.retain(|_, (_, touched_ms)| *touched_ms >= time_ms);
    }

    /// How many were touched since a time.
    pub(crate) fn count_since(&self, time_ms: i64) -> usize {
        self.entries.values().filter(|(_, touched_ms)| *touched_ms >= time_ms).count()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    fn make_room(&mut self) {
        let leaving = self.entries.len() / LEAVING_PART;
        let mut tenants: BTreeMap<String, usize> = BTreeMap::new();
        for key in self.entries.keys() {
            match tenants.get_mut(tenant_of(key)) {
                Some(count) => *count += 1,
                None => drop(tenants.insert(tenant_of(key).to_owned(), 1)),
            }
        }
        let share = self.entries_max / tenants.len().max(1);
        tenants.retain(|_, count| *count > share);
        // One look at all of it must make room for many: where few are beyond their share, all give.
        let is_enough = tenants.values().sum::<usize>() > leaving;
        let gives = |key: &K| !is_enough || tenants.contains_key(tenant_of(key));
        let giving = self.entries.iter().filter(|(key, _)| gives(key));
        let mut times: Vec<i64> = giving.map(|(_, (_, touched_ms))| *touched_ms).collect();
        let (_, last_ms, _) = times.select_nth_unstable(leaving);
        let last_ms = *last_ms;
        // Of those that were touched at the same time, as many as are needed.
        let mut left = leaving + 1;
        self.entries.retain(|key, (_, touched_ms)| {
            let leaves = left > 0 && *touched_ms <= last_ms && gives(key);
            left -= usize::from(leaves);
            !leaves
        });
    }
}

/// Keys of agents begin with their tenant.
fn tenant_of<K: Borrow<str>>(key: &K) -> &str {
    let key: &str = key.borrow();
    key.split(SEPARATOR).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::LruMap;

    #[test]
    fn a_full_map_forgets_what_was_touched_longest_ago() {
        let mut map: LruMap<String, u32> = LruMap::new(32);
        for number in 0..32 {
            *map.touch(number.to_string().as_str(), i64::from(number)) = number;
        }
        map.touch("0", 100);
        map.touch("new", 100);
        assert!(map.get("0").is_some() && map.get("new").is_some() && map.get("1").is_none() && map.get("31").is_some());
        assert!(map.len() <= 32);
        map.forget_before(100);
        assert_eq!(map.len(), 2);
    }

    #[test]
    fn a_tenant_that_makes_up_agents_pushes_out_its_own() {
        let mut map: LruMap<String, u32> = LruMap::new(320);
        for number in 0..20 {
            *map.touch(format!("acme\u{1f}{number}").as_str(), 0) = number;
        }
        for number in 0..10_000 {
            map.touch(format!("evil\u{1f}{number}").as_str(), 1 + number);
        }
        assert!(map.len() <= 320);
        assert!((0..20).all(|number| map.get(format!("acme\u{1f}{number}").as_str()) == Some(&number)));
    }

    #[test]
    fn equal_times_leave_no_more_than_needed() {
        let mut map: LruMap<String, u32> = LruMap::new(32);
        for number in 0..1_000 {
            map.touch(number.to_string().as_str(), 7);
        }
        assert!((30..=32).contains(&map.len()), "{}", map.len());
    }
}
