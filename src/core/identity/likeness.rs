//! Sketches compared: how much two texts share, of which only the smallest hashes are kept.

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

    /// Which of its hashes another sketch has too: a bit for the place of each.
    #[must_use]
    pub fn places_in(self, other: Self) -> u32 {
        let (mut place, mut their, mut places) = (0, 0, 0);
        while let (Some(one), Some(two)) = (self.0.get(place), other.0.get(their)) {
            places |= u32::from(one == two).checked_shl(place as u32).unwrap_or_default();
            place += usize::from(one <= two);
            their += usize::from(two <= one);
        }
        places
    }

    /// The places of all its hashes.
    #[must_use]
    pub fn places(self) -> u32 {
        u32::MAX.checked_shr(u32::BITS.saturating_sub(self.0.len() as u32)).unwrap_or_default()
    }

    /// Share of its hashes beside those at some places, in percent; 0 of an empty text.
    #[must_use]
    pub fn percent_beside(self, places: u32) -> u8 {
        let others = self.0.len() - (places.count_ones() as usize).min(self.0.len());
        (others * 100 / self.0.len().max(1)) as u8
    }
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
            prop_assert_eq!(a.view().places_in(b.view()), places);
        }
    }
}
