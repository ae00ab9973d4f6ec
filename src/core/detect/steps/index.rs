//! Look-up without iteration: how often a hash is held by the ring. The only hash map of the core; it offers no order to leak.

use std::hash::{BuildHasherDefault, Hasher};

use crate::identity::Hash64;

/// The keys are SHA-256 already; hashing them again would only cost.
#[derive(Debug, Default, Clone, Copy)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

#[expect(clippy::disallowed_types, reason = "this module is the wrapper that offers no iterator")]
type Counts = std::collections::HashMap<u64, u32, BuildHasherDefault<AsIs>>;

/// So many hashes are searched one by one: most sessions are short, and a table costs them more than it saves.
const FEW_MAX: usize = 24;

/// How often each hash is held.
#[derive(Debug, Clone, Default)]
pub struct FingerprintIndex {
    /// All of them, as long as there are few; none once there is a table.
    few: Vec<(u64, u32)>,
    /// The table; stays until all is forgotten.
    many: Option<Box<Counts>>,
}

impl FingerprintIndex {
    /// One more holder; none is no hash and counts nowhere.
    pub fn insert(&mut self, hash: Hash64) {
        if !hash.is_some() {
            return;
        }
        if let Some(many) = &mut self.many {
            *many.entry(hash.0).or_insert(0) += 1;
        } else if let Some((_, count)) = self.few.iter_mut().find(|(key, _)| *key == hash.0) {
            *count += 1;
        } else if self.few.len() < FEW_MAX {
            self.few.push((hash.0, 1));
        } else {
            let mut many: Counts = std::mem::take(&mut self.few).into_iter().collect();
            many.insert(hash.0, 1);
            self.many = Some(Box::new(many));
        }
    }

    pub fn remove(&mut self, hash: Hash64) {
        if let Some(many) = &mut self.many {
            if let Some(count) = many.get_mut(&hash.0) {
                *count -= 1;
                if *count == 0 {
                    many.remove(&hash.0);
                }
            }
        } else if let Some(at) = self.few.iter().position(|(key, _)| *key == hash.0)
            && let Some((_, count)) = self.few.get_mut(at)
        {
            *count -= 1;
            if *count == 0 {
                self.few.swap_remove(at);
            }
        }
    }

    #[must_use]
    pub fn count(&self, hash: Hash64) -> u32 {
        match &self.many {
            Some(many) => many.get(&hash.0).copied().unwrap_or(0),
            None => self.few.iter().find(|(key, _)| *key == hash.0).map_or(0, |(_, count)| *count),
        }
    }

    pub fn clear(&mut self) {
        self.few.clear();
        self.many = None;
    }

    /// Bytes held, for the cache's budget.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let many = self.many.as_ref().map_or(0, |many| size_of::<Counts>() + many.capacity() * (size_of::<(u64, u32)>() + 1));
        many + self.few.capacity() * size_of::<(u64, u32)>()
    }
}

#[cfg(test)]
mod tests {
    use super::{FEW_MAX, FingerprintIndex};
    use crate::identity::Hash64;

    #[test]
    fn few_and_many_hashes_are_counted_alike() {
        let mut index = FingerprintIndex::default();
        let hashes = || (1..=2 * FEW_MAX as u64).map(Hash64);
        for hash in hashes() {
            index.insert(hash);
            index.insert(hash);
            assert_eq!(index.count(hash), 2);
            assert_eq!(index.count(Hash64(hash.0 + 1)), 0);
        }
        index.insert(Hash64::NONE);
        assert_eq!(index.count(Hash64::NONE), 0);
        for hash in hashes() {
            assert_eq!(index.count(hash), 2, "{hash:?}");
            index.remove(hash);
            assert_eq!(index.count(hash), 1, "{hash:?}");
            index.remove(hash);
            index.remove(hash);
            assert_eq!(index.count(hash), 0, "{hash:?}");
        }
        index.clear();
        index.insert(Hash64(7));
        index.remove(Hash64(7));
        assert_eq!(index.count(Hash64(7)), 0);
        index.insert(Hash64(7));
        index.clear();
        assert_eq!(index.count(Hash64(7)), 0);
    }
}
