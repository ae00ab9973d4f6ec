//! Sketches compared: how much two texts share, of which only the smallest hashes are kept.

use zerocopy::{FromBytes as _, IntoBytes as _};

/// Hashes of a sketch, one for each bit of a number. The standard error of a similarity estimated from 32 of them is 0.09 at one half; texts of up to 34 words are compared
/// exactly.
pub const SKETCH_HASHES: usize = 32;

/// The smallest hashes of what a text holds, ascending and each once; at most [`SKETCH_HASHES`].
#[derive(Clone, Copy)]
pub struct Sketch {
    hashes: [u32; SKETCH_HASHES],
    len: usize,
}

impl Sketch {
    /// A sketch from stored hashes, whatever their order; what is too much is dropped.
    #[must_use]
    pub fn of_hashes(mut hashes: Vec<u32>) -> Self {
        hashes.sort_unstable();
        hashes.dedup();
        hashes.into_iter().take(SKETCH_HASHES).collect()
    }

    /// The hashes of the sketch in ascending order.
    #[must_use]
    pub fn hashes(&self) -> &[u32] {
        self.hashes.get(..self.len).unwrap_or_default()
    }

    /// The same, to be compared.
    #[must_use]
    pub fn view(&self) -> SketchView<'_> {
        SketchView(self.hashes())
    }
}

impl FromIterator<u32> for Sketch {
    /// Of hashes that are ascending and each once; more than a sketch holds are dropped.
    fn from_iter<I: IntoIterator<Item = u32>>(ascending: I) -> Self {
        let mut sketch = Self::default();
        for (place, hash) in sketch.hashes.iter_mut().zip(ascending) {
            *place = hash;
            sketch.len += 1;
        }
        sketch
    }
}

impl Default for Sketch {
    fn default() -> Self {
        Self { hashes: [0; SKETCH_HASHES], len: 0 }
    }
}

impl PartialEq for Sketch {
    fn eq(&self, other: &Self) -> bool {
        self.hashes() == other.hashes()
    }
}

impl Eq for Sketch {}

impl std::fmt::Debug for Sketch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Sketch").field(&self.hashes()).finish()
    }
}

/// The hashes of a sketch, wherever they are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SketchView<'a>(&'a [u32]);

impl<'a> SketchView<'a> {
    /// Of hashes that were those of a sketch.
    #[must_use]
    pub const fn of(hashes: &'a [u32]) -> Self {
        Self(hashes)
    }

    /// The hashes of the sketch in ascending order.
    #[must_use]
    pub const fn hashes(self) -> &'a [u32] {
        self.0
    }

    /// Whether the text had no word.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Whether the share of runs that two texts have in common (Jaccard) is at least `percent`. Two empty texts are alike.
    #[must_use]
    pub fn is_alike(self, other: Self, percent: usize) -> bool {
        let (ours, theirs) = (self.0, other.0);
        if ours == theirs {
            return true;
        }
        // No text of more than so many runs that differ can still be alike.
        let others_max = SKETCH_HASHES.min(ours.len() + theirs.len()) * (100 - percent.min(100)) / 100;
        let (mut left, mut right, mut seen, mut others) = (0, 0, 0, 0);
        // Each step sees one hash more of the two texts together.
        while let (Some(one), Some(two)) = (ours.get(left), theirs.get(right)) {
            if seen == SKETCH_HASHES {
                break;
            }
            seen += 1;
            others += usize::from(one != two);
            if others > others_max {
                return false;
            }
            left += usize::from(one <= two);
            right += usize::from(two <= one);
        }
        let shared = seen - others;
        // What only one of them has left differs.
        let rest = (ours.len() - left + theirs.len() - right).min(SKETCH_HASHES - seen);
        shared * 100 >= percent * (seen + rest) && shared > 0
    }

    /// Share of its hashes beside those at some places, in percent; 0 of an empty text.
    #[must_use]
    pub fn percent_beside(self, places: u32) -> u8 {
        let others = self.0.len() - (places.count_ones() as usize).min(self.0.len());
        (others * 100 / self.0.len().max(1)) as u8
    }
}

/// Slots of [`Places`]: four times as many as there are hashes, so that nearly every hash of another sketch meets a free one.
const PLACE_SLOTS: usize = 4 * SKETCH_HASHES;

/// Where each hash of a sketch stands. To find which of them others have costs less than to go through both in order.
#[derive(Debug)]
pub struct Places<'a> {
    hashes: &'a [u32],
    /// Places plus one, by the lowest bits of the hash; 0 = free.
    slots: [u8; PLACE_SLOTS],
}

impl<'a> Places<'a> {
    #[must_use]
    pub fn of(sketch: SketchView<'a>) -> Self {
        let mut slots = [0; PLACE_SLOTS];
        for (place, hash) in (1..=SKETCH_HASHES as u8).zip(sketch.0) {
            let mut at = *hash as usize % PLACE_SLOTS;
            while slots.get(at).is_some_and(|slot| *slot != 0) {
                at = (at + 1) % PLACE_SLOTS;
            }
            if let Some(slot) = slots.get_mut(at) {
                *slot = place;
            }
        }
        Self { hashes: sketch.0, slots }
    }

    /// Whether places are those of all its hashes.
    #[must_use]
    pub const fn are_all(&self, places: u32) -> bool {
        places.count_ones() as usize >= self.hashes.len()
    }

    /// Which of its hashes another sketch has too: a bit for the place of each.
    #[must_use]
    pub fn shared_with(&self, other: SketchView<'_>) -> u32 {
        other.0.iter().fold(0, |places, hash| places | self.bit(*hash))
    }

    #[inline]
    fn bit(&self, hash: u32) -> u32 {
        let mut at = hash as usize % PLACE_SLOTS;
        while let Some(slot) = self.slots.get(at).filter(|slot| **slot != 0) {
            let place = u32::from(*slot) - 1;
            if self.hashes.get(place as usize) == Some(&hash) {
                return 1 << place;
            }
            at = (at + 1) % PLACE_SLOTS;
        }
        0
    }
}

/// Numbers that hold so many words.
#[must_use]
pub const fn pairs_of(words: usize) -> usize {
    words.div_ceil(2)
}

/// The words, two in a number, as they lie in memory.
pub fn paired(words: &[u16]) -> impl Iterator<Item = u32> + '_ {
    words.chunks(2).map(|pair| {
        let mut cell = 0_u32;
        for (place, word) in cell.as_mut_bytes().chunks_mut(2).zip(pair) {
            place.copy_from_slice(word.as_bytes());
        }
        cell
    })
}

/// The first `len` words of such numbers.
#[must_use]
pub fn unpaired(cells: &[u32], len: usize) -> &[u16] {
    <[u16]>::ref_from_bytes(cells.as_bytes()).unwrap_or_default().get(..len).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn two_sketches_are_compared_as_two_sets(
            (a, b) in (proptest::collection::vec(0_u32..60, 0..50), proptest::collection::vec(0_u32..60, 0..50)),
            percent in 0_usize..=100,
        ) {
            let (a, b) = (Sketch::of_hashes(a), Sketch::of_hashes(b));
            let (one, two): (BTreeSet<u32>, BTreeSet<u32>) = (a.hashes().iter().copied().collect(), b.hashes().iter().copied().collect());
            // The smallest of both together, and which of them both have.
            let seen: Vec<u32> = one.union(&two).copied().take(SKETCH_HASHES).collect();
            let shared = seen.iter().filter(|hash| one.contains(hash) && two.contains(hash)).count();
            let is_alike = one == two || (shared > 0 && shared * 100 >= percent * seen.len());
            prop_assert_eq!(a.view().is_alike(b.view(), percent), is_alike);
            let places = a.hashes().iter().enumerate().filter(|(_, hash)| two.contains(hash)).map(|(at, _)| 1 << at).sum::<u32>();
            let of = Places::of(a.view());
            prop_assert_eq!(of.shared_with(b.view()), places);
            prop_assert_eq!(of.are_all(places), a.hashes().iter().all(|hash| two.contains(hash)));
        }
    }
}
