//! Token signature of a step: what similarity is measured on (corteX).

use std::cmp::Ordering;

use smallvec::SmallVec;

use crate::limits::TOKENS_MAX;

/// Words that are no tokens. Made once per policy, asked for every word of every text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StopWords {
    words: Vec<String>,
    /// One bit for each word, by its hash: most words of a text are seen to be none of these without comparing them.
    bits: [u64; 16],
}

impl StopWords {
    /// A list of words; their case does not matter.
    #[must_use]
    pub fn new(words: &[String]) -> Self {
        let words: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
        let mut bits = [0; 16];
        for word in &words {
            let (place, bit) = Self::place(token_hash(word));
            if let Some(held) = bits.get_mut(place) {
                *held |= bit;
            }
        }
        Self { words, bits }
    }

    /// The words, in the order given.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.words
    }

    const fn place(hash: u32) -> (usize, u64) {
        ((hash >> 28) as usize, 1 << (hash >> 22 & 63))
    }

    /// Whether a word with that hash is one of them.
    fn hold(&self, hash: u32, word: &[u8]) -> bool {
        let (place, bit) = Self::place(hash);
        self.bits.get(place).is_some_and(|held| held & bit != 0)
            && self.words.iter().any(|stop| stop.as_bytes().eq_ignore_ascii_case(word))
    }
}

/// Hashes on their way into a signature. Of most texts there are few, and a signature has no more room than it needs.
type Hashes = SmallVec<[u32; 4 * TOKENS_MAX]>;

/// Sorted 32-bit hashes of the distinct tokens, at most `TOKENS_MAX`; of more, the smallest stay (a bottom-k sketch).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Signature(pub Box<[u32]>);

impl Signature {
    /// Signature of a text: lower case, split at what is neither alphanumeric nor `_`, longer than 2 characters, no stop words.
    #[must_use]
    pub fn of(text: &str, stop_words: &StopWords) -> Self {
        Self::default().with(text, stop_words)
    }

    /// Signature of two texts, one behind the other.
    #[must_use]
    pub fn of_both(one: &str, two: &str, stop_words: &StopWords) -> Self {
        let mut hashes = Hashes::new();
        push_tokens(one, stop_words, &mut hashes);
        push_tokens(two, stop_words, &mut hashes);
        Self::smallest(hashes)
    }

    /// This signature and the tokens of a further text.
    #[must_use]
    pub fn with(&self, text: &str, stop_words: &StopWords) -> Self {
        let mut hashes = Hashes::from_slice(&self.0);
        push_tokens(text, stop_words, &mut hashes);
        Self::smallest(hashes)
    }

    fn smallest(mut hashes: Hashes) -> Self {
        hashes.sort_unstable();
        hashes.dedup();
        hashes.truncate(TOKENS_MAX);
        Self(Box::from(&*hashes))
    }

    /// One bit for each token, of 64: two signatures whose bits differ much cannot be similar, and that is cheap to see.
    #[must_use]
    pub fn bits(&self) -> u64 {
        self.0.iter().fold(0, |bits, hash| bits | 1 << (hash & 63))
    }

    /// Whether the similarity may be above `similarity`, from lengths and [`Self::bits`] alone. Never wrongly no.
    #[must_use]
    pub fn may_exceed(&self, bits: u64, other: &Self, other_bits: u64, similarity: f64) -> bool {
        let (mine, theirs) = (self.0.len(), other.0.len());
        if mine >= TOKENS_MAX || theirs >= TOKENS_MAX {
            return true;
        }
        let only_mine = (bits & !other_bits).count_ones() as usize;
        let only_theirs = (other_bits & !bits).count_ones() as usize;
        let common = (mine - only_mine.min(mine)).min(theirs - only_theirs.min(theirs));
        common as f64 > similarity * (mine + theirs - common) as f64
    }

    /// Jaccard similarity, 0…1; 0 if either is empty. Exact while both texts together have `TOKENS_MAX` tokens or each has
    /// fewer than that; else estimated from the smallest hashes of both.
    #[must_use]
    pub fn jaccard(&self, other: &Self) -> f64 {
        let is_whole = self.0.len() < TOKENS_MAX && other.0.len() < TOKENS_MAX;
        let union_max = if is_whole { usize::MAX } else { TOKENS_MAX };
        let (mut mine, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        let (mut union, mut common) = (0_usize, 0_usize);
        while union < union_max {
            match (mine.peek(), theirs.peek()) {
                (Some(a), Some(b)) => match a.cmp(b) {
                    Ordering::Less => _ = mine.next(),
                    Ordering::Greater => _ = theirs.next(),
                    Ordering::Equal => {
                        mine.next();
                        theirs.next();
                        common += 1;
                    }
                },
                (Some(_), None) => _ = mine.next(),
                (None, Some(_)) => _ = theirs.next(),
                (None, None) => break,
            }
            union += 1;
        }
        if common == 0 { 0.0 } else { common as f64 / union as f64 }
    }
}

fn push_tokens(text: &str, stop_words: &StopWords, hashes: &mut Hashes) {
    if text.is_ascii() {
        ascii_tokens(text.as_bytes(), stop_words, hashes);
        return;
    }
    let lower = text.to_lowercase();
    let tokens = lower
        .split(|character: char| !(character.is_alphanumeric() || character == '_'))
        .filter(|token| token.chars().nth(2).is_some())
        .map(|token| (token_hash(token), token));
    hashes.extend(tokens.filter(|(hash, token)| !stop_words.hold(*hash, token.as_bytes())).map(|(hash, _)| hash));
}

/// The tokens of an ASCII text without a copy: split, lower-cased and hashed in one pass.
fn ascii_tokens(text: &[u8], stop_words: &StopWords, hashes: &mut Hashes) {
    let mut push = |word: &[u8], hash| {
        let hash = mixed(hash);
        if word.len() >= 3 && !stop_words.hold(hash, word) {
            hashes.push(hash);
        }
    };
    let (mut start, mut hash) = (0, FNV_OFFSET);
    for (at, byte) in text.iter().enumerate() {
        let lower = LOWER.get(usize::from(*byte)).copied().unwrap_or_default();
        if lower == 0 {
            push(text.get(start..at).unwrap_or_default(), hash);
            (start, hash) = (at + 1, FNV_OFFSET);
        } else {
            hash = fnv(hash, lower);
        }
    }
    push(text.get(start..).unwrap_or_default(), hash);
}

/// Each ASCII byte of a word in lower case; 0 for what ends one.
static LOWER: [u8; 256] = lower();

const fn lower() -> [u8; 256] {
    let mut lower = [0; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        if byte.is_ascii_alphanumeric() || byte == b'_' {
            #[expect(clippy::indexing_slicing, reason = "evaluated at compile time")]
            {
                lower[byte as usize] = byte.to_ascii_lowercase();
            }
        }
        byte += 1;
    }
    lower
}

const FNV_OFFSET: u32 = 0x811C_9DC5;

const fn fnv(hash: u32, byte: u8) -> u32 {
    (hash ^ byte as u32).wrapping_mul(0x0100_0193)
}

/// Hash of a token, part of the stored format: FNV-1a of its UTF-8 bytes, 32 bits, then MurmurHash3's finaliser, since the
/// smallest hashes are a fair sample only if every bit is well mixed.
fn token_hash(token: &str) -> u32 {
    mixed(token.bytes().fold(FNV_OFFSET, fnv))
}

const fn mixed(mut hash: u32) -> u32 {
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85EB_CA6B);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xC2B2_AE35);
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::{Signature, StopWords, token_hash};
    use crate::limits::TOKENS_MAX;

    fn of(text: &str) -> Signature {
        Signature::of(text, &StopWords::new(&["The".into()]))
    }

    fn words(range: std::ops::Range<usize>) -> String {
        range.map(|n| format!("word{n}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn tokens_are_lower_case_words_of_three_characters_or_more() {
        assert_eq!(
            of("The build-step FAILED, in my_fn: größer!"),
            of("build step failed my_fn GRÖSSER größer").without(&of("grösser"))
        );
        assert_eq!(of("a bb the ..."), Signature::default());
        assert_eq!(of("abc abc ABC").0.len(), 1);
    }

    #[test]
    fn ascii_and_other_texts_are_cut_alike() {
        let ascii = of("Build THE step_2 failed");
        let mixed = of("Build THE step_2 failed é");
        assert_eq!(ascii, mixed);
        assert_eq!(ascii.0.len(), 3);
    }

    #[test]
    fn stop_words_are_left_out_whatever_their_case() {
        let stop = StopWords::new(&["The".into(), "größer".into(), "about".into()]);
        for text in ["the THE tHe about", "GRÖSSER GRÖßER größer the", "a an THE"] {
            let left: Vec<u32> = Signature::of(text, &stop).0.to_vec();
            assert!(left.iter().all(|hash| *hash == token_hash("grösser")), "{text}");
        }
        assert_eq!(Signature::of("then theabout", &stop).0.len(), 2);
    }

    #[test]
    fn the_bits_never_hide_a_similar_text() {
        for (one, two) in [(0..30, 0..30), (0..30, 3..33), (0..60, 20..63), (0..5, 1..5), (0..10, 50..60)] {
            let (one, two) = (of(&words(one)), of(&words(two)));
            for similarity in [0.0, 0.3, 0.65, 0.9] {
                let may = one.may_exceed(one.bits(), &two, two.bits(), similarity);
                assert!(may || one.jaccard(&two) <= similarity);
            }
        }
        let (one, two) = (of(&words(0..20)), of(&words(40..60)));
        assert!(!one.may_exceed(one.bits(), &two, two.bits(), 0.65), "and it does sort out");
    }

    #[test]
    fn hashes_are_part_of_the_stored_format() {
        assert_eq!(token_hash("abc"), 482_950_588);
        assert_eq!(token_hash("größe"), 3_449_927_484);
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "the values are exact")]
    fn similarity_is_exact_for_small_sets() {
        assert_eq!(of("one two three").jaccard(&of("three two one")), 1.0);
        assert_eq!(of("one two three").jaccard(&of("two three four")), 0.5);
        assert_eq!(of("one").jaccard(&of("two")), 0.0);
        assert_eq!(of("").jaccard(&of("")), 0.0);
        assert_eq!(of("").jaccard(&of("one")), 0.0);
        assert_eq!(of(&words(0..60)).jaccard(&of(&words(30..90))), 30.0 / 90.0);
    }

    #[test]
    fn similarity_of_large_sets_is_estimated_from_a_fair_sample() {
        let large = of(&words(0..3000));
        assert_eq!(large.0.len(), TOKENS_MAX);
        assert!(large.0.is_sorted());
        for (other, truth) in [(0..3000, 1.0), (0..1500, 0.5), (1000..4000, 0.5), (1500..4500, 1.0 / 3.0), (3000..6000, 0.0)] {
            let estimate = large.jaccard(&of(&words(other)));
            assert!((estimate - truth).abs() < 0.15, "{estimate} for {truth}");
        }
    }

    impl Signature {
        fn without(&self, other: &Self) -> Self {
            Self(self.0.iter().filter(|hash| !other.0.contains(hash)).copied().collect())
        }
    }
}
