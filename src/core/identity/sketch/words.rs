//! The words of a text, and their hashes.

/// What a word that is an id, or holds both letters and digits, is counted as.
const FOLDED: u64 = 0x9e37_79b9_7f4a_7c15;

/// How a text spells characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Escapes {
    /// All characters stand for themselves.
    None,
    /// With backslashes, as JSON does: an escape ends a word.
    Json,
}

/// A word while it is read. Small, so that it is handed on in registers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Word {
    pub(super) hash: u64,
    pub(super) bytes: u32,
    pub(super) digits: u32,
}

impl Default for Word {
    fn default() -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, bytes: 0, digits: 0 }
    }
}

impl Word {
    pub(super) const fn mix(&mut self, byte: u8) {
        self.hash = (self.hash ^ byte as u64).wrapping_mul(0x0000_0100_0000_01b3);
    }

    /// Takes a byte in lower case. Of all bytes of a word, digits are the smallest.
    const fn take(&mut self, lower: u8) {
        self.mix(lower);
        self.digits += (lower <= b'9') as u32;
    }

    /// What it is compared as, where ids are taken for one: words of letters and digits, and numbers of eight digits and more.
    #[inline]
    pub(super) const fn without_ids(self) -> u64 {
        if self.digits == self.bytes && self.bytes < 8 { self.hash } else { self.without_numbers() }
    }

    /// The same where every number is taken for an id.
    #[inline]
    pub(super) const fn without_numbers(self) -> u64 {
        if self.digits == 0 { self.hash } else { FOLDED }
    }
}

/// Each byte of a word in lower case; 0 of a byte that ends one.
static WORD_BYTES: [u8; 256] = word_bytes();

#[expect(clippy::indexing_slicing, reason = "a constant: an index out of bounds does not compile")]
const fn word_bytes() -> [u8; 256] {
    let mut bytes = [0; 256];
    let mut byte = 0;
    while byte < bytes.len() {
        let letter = byte as u8;
        if letter.is_ascii_alphanumeric() || letter == b'_' || !letter.is_ascii() {
            bytes[byte] = letter.to_ascii_lowercase();
        }
        byte += 1;
    }
    bytes
}

#[expect(clippy::indexing_slicing, reason = "there are 256 bytes")]
const fn word_byte(byte: u8) -> u8 {
    WORD_BYTES[byte as usize]
}

/// What takes the words of a text. Its `take` should stay a call: beside it the loop over bytes would run out of registers.
pub(super) trait TakesWords {
    fn take(&mut self, word: Word);
}

/// Shows every word: letters, digits, underscores, and all bytes of other scripts.
#[inline]
pub(super) fn words(text: &str, escapes: Escapes, taker: &mut impl TakesWords) {
    let mut rest = text.as_bytes().iter();
    loop {
        // What stands between two words is mostly more than one byte.
        let mut word = Word::default();
        loop {
            let Some(byte) = rest.next() else { return };
            let lower = word_byte(*byte);
            if lower != 0 {
                word.take(lower);
                break;
            }
            skip_escape(*byte, escapes, &mut rest);
        }
        let from = rest.as_slice().len() + 1;
        let ended_by = loop {
            let Some(byte) = rest.next() else { break None };
            let lower = word_byte(*byte);
            if lower == 0 {
                break Some(*byte);
            }
            word.take(lower);
        };
        word.bytes = (from - rest.as_slice().len() - usize::from(ended_by.is_some())) as u32;
        taker.take(word);
        let Some(byte) = ended_by else { return };
        skip_escape(byte, escapes, &mut rest);
    }
}

/// Leaves out what belongs to an escape that a byte begins.
#[inline]
fn skip_escape(byte: u8, escapes: Escapes, rest: &mut std::slice::Iter<'_, u8>) {
    if byte == b'\\' && escapes == Escapes::Json {
        let more = if rest.as_slice().first() == Some(&b'u') { 4 } else { 0 };
        rest.nth(more);
    }
}

/// 32 bits of a hash, each depending on all of its bits.
pub(super) const fn small(hash: u64) -> u32 {
    (mixed(hash) >> 32) as u32
}

/// A hash of which every bit depends on all bits of another (the finaliser of MurmurHash3, but for its last step).
pub(super) const fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53)
}
