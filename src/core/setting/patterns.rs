//! User-defined text patterns, compiled once.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use regex::{RegexSet, RegexSetBuilder};

use crate::limits::REGEX_BYTES_MAX;

/// The sets compiled last. To try a threshold, a policy is loaded again with one number changed, and compiling its patterns costs more
/// than all else of a load.
static COMPILED: Mutex<VecDeque<RegexSet>> = Mutex::new(VecDeque::new());
/// How many of them are kept.
const COMPILED_MAX: usize = 16;

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
        let compile = || RegexSetBuilder::new(patterns).case_insensitive(true).size_limit(REGEX_BYTES_MAX).build();
        let set = compiled_before(patterns).map_or_else(|| compile().map(remember), Ok)?;
        Ok(Self { set })
    }

    /// Whether one of them matches.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        !self.set.is_empty() && self.set.is_match(text)
    }
}

fn compiled_before(patterns: &[String]) -> Option<RegexSet> {
    let compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    compiled.iter().find(|set| set.patterns() == patterns).cloned()
}

fn remember(set: RegexSet) -> RegexSet {
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    compiled.truncate(COMPILED_MAX - 1);
    compiled.push_front(set.clone());
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_compiled_before_is_found_and_is_the_same() {
        let patterns = ["only here [0-9]+".to_owned()];
        assert!(compiled_before(&patterns).is_none());
        let set = TextPatterns::anywhere(&patterns).unwrap();
        let again = compiled_before(&patterns).unwrap();
        assert!(set.is_match("it is ONLY HERE 7") && again.is_match("it is ONLY HERE 7"));
    }
}
