//! Where a text may hold something that masks replace, 64 bytes at a time.
//!
//! Whatever is replaced can be distinguished from nearly all other text by single bytes: an id begins with eight hexadecimal digits at the start of
//! a word, a time with four digits before a `-`, and all else has a digit at the start of a word. The classes of 64 bytes are four words
//! of 64 bits; a few shifts find all three in all places at once.

use crate::event::blocks::{self, BLOCK, bits};

/// One bit for each byte of a block, the first one lowest.
#[derive(Debug, Clone, Copy, Default)]
struct Classes {
    word: u64,
    hex: u64,
    digit: u64,
    dash: u64,
}

impl Classes {
    fn of(block: &[u8; BLOCK]) -> Self {
        Self {
            word: bits(block, |byte| byte.is_ascii_alphanumeric() || byte == b'_'),
            hex: bits(block, |byte| byte.is_ascii_hexdigit()),
            digit: bits(block, |byte| byte.is_ascii_digit()),
            dash: bits(block, |byte| byte == b'-'),
        }
    }
}

/// The places of a text, in order.
#[derive(Debug)]
pub(super) struct Candidates<'a> {
    bytes: &'a [u8],
    /// Where the block at hand begins.
    block: usize,
    /// Its classes, and those of the next one: what begins in a block may end in the next.
    classes: Classes,
    next: Classes,
    /// Whether a word runs into the block.
    is_inside: bool,
    /// Places in the block not yet given away.
    places: u64,
}

impl<'a> Candidates<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let classes = classes_at(bytes, 0);
        let mut candidates = Self { bytes, block: 0, classes, next: classes_at(bytes, BLOCK), is_inside: false, places: 0 };
        candidates.places = candidates.places();
        candidates
    }

    /// The first place from `at` on. Must be asked in order.
    pub(super) fn next(&mut self, at: usize) -> Option<usize> {
        loop {
            let passed = at.saturating_sub(self.block);
            let left = if passed < BLOCK { self.places >> passed << passed } else { 0 };
            if left != 0 {
                return Some(self.block + left.trailing_zeros() as usize);
            }
            self.block += BLOCK;
            if self.block >= self.bytes.len() {
                self.places = 0;
                return None;
            }
            self.is_inside = self.classes.word >> (BLOCK - 1) == 1;
            self.classes = self.next;
            self.next = classes_at(self.bytes, self.block + BLOCK);
            self.places = self.places();
        }
    }

    fn places(&self) -> u64 {
        let joined = |one: u64, next: u64| u128::from(one) | u128::from(next) << BLOCK;
        let Classes { word, hex, digit, .. } = self.classes;
        let begins = word & !(word << 1 | u64::from(self.is_inside));
        let hex = joined(hex, self.next.hex);
        let two = hex & hex >> 1;
        let four = two & two >> 2;
        let eight = (four & four >> 4) as u64;
        let digits = joined(digit, self.next.digit);
        let pairs = digits & digits >> 1;
        let year = (pairs & pairs >> 2 & joined(self.classes.dash, self.next.dash) >> 4) as u64;
        begins & (digit | eight) | year
    }
}

/// Classes of the bytes from a place on; beyond the end, of none.
fn classes_at(bytes: &[u8], at: usize) -> Classes {
    if at >= bytes.len() {
        return Classes::default();
    }
    blocks::at(bytes, at, Classes::of)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Candidates;

    fn places(text: &str) -> Vec<usize> {
        let mut candidates = Candidates::new(text.as_bytes());
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(place) = candidates.next(at) {
            found.push(place);
            at = place + 1;
        }
        found
    }

    /// The same, byte by byte.
    fn expected(text: &str) -> Vec<usize> {
        let bytes = text.as_bytes();
        let is = |at: usize, kind: fn(&u8) -> bool| bytes.get(at).is_some_and(kind);
        let is_word = |at: usize| is(at, |byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        (0..bytes.len())
            .filter(|&at| {
                let begins = is_word(at) && (at == 0 || !is_word(at - 1));
                let id = (at..at + 8).all(|at| is(at, u8::is_ascii_hexdigit));
                let year = (at..at + 4).all(|at| is(at, u8::is_ascii_digit)) && is(at + 4, |byte| *byte == b'-');
                begins && (is(at, u8::is_ascii_digit) || id) || year
            })
            .collect()
    }

    #[test]
    fn durations_ids_and_times_are_candidates_and_ordinary_words_are_not() {
        assert_eq!(places("took 5 ms; decade facade deadbeef x2026-11-21"), [5, 25, 35, 40, 43]);
        assert_eq!(places("nothing here, _1 a2 b-3x"), [22]);
        assert_eq!(places(""), [0_usize; 0]);
    }

    proptest! {
        #[test]
        fn no_place_is_missed_across_blocks(text in "([0-9]{1,9}|[a-f]{1,12}|[ghxyz_]{1,40}|-|:| |é){0,60}") {
            prop_assert_eq!(places(&text), expected(&text));
        }
    }
}
