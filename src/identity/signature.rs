//! Token signature of a step: what similarity is measured on (corteX).

use std::cmp::Ordering;

use crate::limits::TOKENS_MAX;

/// Sorted 32-bit hashes of the distinct tokens, at most `TOKENS_MAX`; of more, the smallest stay (a bottom-k sketch).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Signature(pub Box<[u32]>);

impl Signature {
    /// Signature of a text: lower case, split at what is neither alphanumeric nor `_`, longer than 2 characters, no stop words.
    #[must_use]
    pub fn of(text: &str, stop_words: &[String]) -> Self {
        let lower = text.to_lowercase();
        let mut hashes: Vec<u32> = lower
            .split(|character: char| !(character.is_alphanumeric() || character == '_'))
            .filter(|token| token.chars().nth(2).is_some() && !stop_words.iter().any(|word| word == token))
            .map(token_hash)
            .collect();
        hashes.sort_unstable();
        hashes.dedup();
        hashes.truncate(TOKENS_MAX);
        Self(hashes.into_boxed_slice())
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

/// Hash of a token, part of the stored format: FNV-1a of its UTF-8 bytes, 32 bits, then MurmurHash3's finaliser, since the
/// smallest hashes are a fair sample only if every bit is well mixed.
fn token_hash(token: &str) -> u32 {
    let mut hash = token.bytes().fold(0x811C_9DC5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85EB_CA6B);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xC2B2_AE35);
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::Signature;
    use super::token_hash;
    use crate::limits::TOKENS_MAX;

    fn of(text: &str) -> Signature {
        Signature::of(text, &["the".into()])
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
