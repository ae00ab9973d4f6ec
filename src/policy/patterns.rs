//! User-defined text patterns, compiled once.

use regex::RegexSet;
use regex::RegexSetBuilder;

use crate::limits::REGEX_BYTES_MAX;

/// A set of patterns; empty matches nothing.
#[derive(Debug, Clone, Default)]
pub struct TextPatterns {
    set: RegexSet,
}

impl TextPatterns {
    /// Patterns that match anywhere, case ignored.
    ///
    /// # Errors
    /// The regex crate's word on the first pattern that is none or too large.
    pub fn anywhere(patterns: &[String]) -> Result<Self, regex::Error> {
        Self::build(patterns.iter().cloned())
    }

    /// Patterns that must match a whole text, case ignored.
    ///
    /// # Errors
    /// As [`Self::anywhere`].
    pub fn whole(patterns: &[String]) -> Result<Self, regex::Error> {
        Self::build(patterns.iter().map(|pattern| format!("^(?:{pattern})$")))
    }

    fn build(patterns: impl Iterator<Item = String>) -> Result<Self, regex::Error> {
        let set = RegexSetBuilder::new(patterns).case_insensitive(true).size_limit(REGEX_BYTES_MAX).build()?;
        Ok(Self { set })
    }

    /// Whether one of them matches.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        !self.set.is_empty() && self.set.is_match(text)
    }
}
