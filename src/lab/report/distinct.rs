//! The number of different names, in bounded memory: exact up to the bound, an estimate beyond it.

use std::collections::BTreeSet;

use loopwarden_core::identity::Fnv64;

/// Hashes kept. Up to so many names the number is exact; beyond it usually differs by a thousandth.
const KEPT_MAX: usize = 1 << 20;

/// Counts names by their hashes. Beyond the bound the smallest hashes stay: their density gives the number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Distinct {
    hashes: BTreeSet<u64>,
    is_full: bool,
}

impl Distinct {
    /// Notes a name by its hash.
    pub(super) fn note_hash(&mut self, hash: u64) {
        self.hashes.insert(hash);
        if self.hashes.len() > KEPT_MAX {
            self.hashes.pop_last();
            self.is_full = true;
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.is_full |= other.is_full;
        for hash in other.hashes {
            self.note_hash(hash);
        }
    }

    pub fn count(&self) -> u64 {
        match self.hashes.last() {
            Some(largest) if self.is_full => {
                let share = *largest as f64 / u64::MAX as f64;
                ((self.hashes.len() - 1) as f64 / share) as u64
            }
            _ => self.hashes.len() as u64,
        }
    }

    /// Whether the count is an estimate.
    pub const fn is_estimate(&self) -> bool {
        self.is_full
    }
}

/// Hash of a name of a tenant; an empty tenant is none.
pub(super) fn hash_of(tenant: &str, name: &str) -> u64 {
    if tenant.is_empty() { hash(name.as_bytes()) } else { hash(name.as_bytes()) ^ hash(tenant.as_bytes()).rotate_left(32) }
}

/// Hash of a name inside something with this hash.
pub(super) fn hash_within(of: u64, name: &str) -> u64 {
    of.rotate_left(16) ^ hash(name.as_bytes())
}

/// FNV-1a, mixed once more.
fn hash(bytes: &[u8]) -> u64 {
    let mut state = Fnv64::new().with(bytes).finish();
    // The finaliser of SplitMix64: an estimate needs evenly spread hashes.
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_names_are_counted_exactly_and_in_any_parts() {
        let (mut one, mut other) = (Distinct::default(), Distinct::default());
        for name in 0..1_000_u32 {
            one.note_hash(hash(&(name % 700).to_be_bytes()));
            other.note_hash(hash(&name.max(300).to_be_bytes()));
        }
        assert_eq!((one.count(), one.is_estimate()), (700, false));
        one.add(other);
        assert_eq!(one.count(), 1_000);
    }

    #[test]
    fn beyond_the_bound_the_number_is_estimated() {
        let mut names = Distinct::default();
        let all = 3 * KEPT_MAX as u32;
        for name in 0..all {
            names.note_hash(hash(&name.to_be_bytes()));
        }
        assert!(names.is_estimate() && names.hashes.len() == KEPT_MAX);
        let off = (names.count() as f64 / f64::from(all) - 1.0).abs();
        assert!(off < 0.01, "{off}");
    }
}
