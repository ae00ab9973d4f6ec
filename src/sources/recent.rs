//! A bounded memory: what was not used for long is forgotten.

use std::{borrow::Borrow, collections::BTreeMap, mem};

/// Remembers between half of `most` and `most` keys, the latest used. Two generations instead of a list of uses: when the young one is full it
/// becomes the old one, and what was left in the old one is forgotten.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    most: usize,
    young: BTreeMap<K, V>,
    old: BTreeMap<K, V>,
}

impl<K: Ord, V> Recent<K, V> {
    pub(crate) const fn new(most: usize) -> Self {
        Self { most, young: BTreeMap::new(), old: BTreeMap::new() }
    }

    /// The value of a key, which counts as a use.
    pub(crate) fn get<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.get_mut(key).map(|value| &*value)
    }

    /// The same, to change it.
    pub(crate) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        if !self.young.contains_key(key) {
            let (key, value) = self.old.remove_entry(key)?;
            self.insert(key, value);
        }
        self.young.get_mut(key)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.most / 2 {
            self.old = mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, value);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::Recent;

    #[test]
    fn what_is_used_stays_and_the_rest_is_forgotten() {
        let mut recent = Recent::new(8);
        recent.insert(0, "kept");
        recent.insert(1, "forgotten");
        for key in 2..100 {
            recent.insert(key, "");
            assert_eq!(recent.get(&0), Some(&"kept"));
            assert!(recent.len() <= 8);
        }
        assert_eq!(recent.get(&1), None);
    }
}
