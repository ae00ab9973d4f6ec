//! Look-up without iteration: how often a hash is held by the ring. The only hash map of the core; it offers no order to leak.

use std::hash::BuildHasherDefault;
use std::hash::Hasher;

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

/// How often each hash is held.
#[derive(Debug, Clone, Default)]
pub struct FingerprintIndex {
    counts: Counts,
}

impl FingerprintIndex {
    /// One more holder; none is no hash and counts nowhere.
    pub fn insert(&mut self, hash: Hash64) {
        if hash.is_some() {
            *self.counts.entry(hash.0).or_insert(0) += 1;
        }
    }

    /// One holder less.
    pub fn remove(&mut self, hash: Hash64) {
        if let Some(count) = self.counts.get_mut(&hash.0) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&hash.0);
            }
        }
    }

    /// How many hold it.
    #[must_use]
    pub fn count(&self, hash: Hash64) -> u32 {
        self.counts.get(&hash.0).copied().unwrap_or(0)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.counts.clear();
    }

    /// Bytes held, for the cache's budget.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.counts.capacity() * (size_of::<(u64, u32)>() + 1)
    }
}
