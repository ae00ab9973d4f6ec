//! Short hashes of words, two in a number, so that they can stand in one piece of memory with longer ones.

use zerocopy::{FromBytes as _, IntoBytes as _};

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
