//! Token signature of a step: what similarity is measured on (corteX).

/// Sorted 32-bit hashes of the distinct tokens, at most `TOKENS_MAX`; of more, the smallest stay (a bottom-k sketch).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Signature(pub Box<[u32]>);

impl Signature {
    /// Signature of a text: lower case, split at what is neither alphanumeric nor `_`, longer than 2 characters, no stop words.
    #[must_use]
    pub fn of(_text: &str, _stop_words: &[String]) -> Self {
        Self::default()
    }

    /// Jaccard similarity, 0…1; 0 if either is empty. Exact up to `TOKENS_MAX` tokens, estimated from the sketch above.
    #[must_use]
    pub fn jaccard(&self, _other: &Self) -> f64 {
        0.0
    }
}
