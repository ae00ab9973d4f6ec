//! User-defined text patterns, compiled once.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use regex::{RegexSet, RegexSetBuilder};

use crate::limits::REGEX_BYTES_MAX;

/// The sets compiled last. To try a threshold, a policy is loaded again with one number changed, and compiling its patterns costs more
/// than all else of a load.
static COMPILED: Mutex<VecDeque<(Extent, RegexSet)>> = Mutex::new(VecDeque::new());
/// How many of them are kept.
const COMPILED_MAX: usize = 16;

/// How much of a text a pattern must match. The same words may be good for one and not for the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    Anywhere,
    Whole,
}

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
        let set = compiled_before(Extent::Anywhere, patterns)
            .map_or_else(|| compile(patterns).map(|set| remember(Extent::Anywhere, set)), Ok)?;
        Ok(Self { set })
    }

    /// Patterns that must match a whole text, case ignored.
    ///
    /// # Errors
    /// As [`Self::anywhere`].
    pub fn whole(patterns: &[String]) -> Result<Self, regex::Error> {
        let whole: Vec<String> = patterns.iter().map(|pattern| format!("^(?:{pattern})$")).collect();
        let new = || {
            // Bare: a `)` must not close the group around it.
            patterns.iter().try_for_each(|pattern| compile(std::slice::from_ref(pattern)).map(drop))?;
            compile(&whole).map(|set| remember(Extent::Whole, set))
        };
        let set = compiled_before(Extent::Whole, &whole).map_or_else(new, Ok)?;
        Ok(Self { set })
    }

    /// Whether one of them matches.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        !self.set.is_empty() && self.set.is_match(text)
    }
}

fn compile(patterns: &[String]) -> Result<RegexSet, regex::Error> {
    RegexSetBuilder::new(patterns).case_insensitive(true).size_limit(REGEX_BYTES_MAX).build()
}

fn compiled_before(extent: Extent, patterns: &[String]) -> Option<RegexSet> {
    let compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let found = compiled.iter().find(|(of, set)| *of == extent && set.patterns() == patterns);
    found.map(|(_, set)| set.clone())
}

fn remember(extent: Extent, set: RegexSet) -> RegexSet {
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    compiled.truncate(COMPILED_MAX - 1);
    compiled.push_front((extent, set.clone()));
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_compiled_before_is_found_and_is_the_same() {
        let patterns = ["only here [0-9]+".to_owned()];
        assert!(compiled_before(Extent::Anywhere, &patterns).is_none());
        let set = TextPatterns::anywhere(&patterns).unwrap();
        let again = compiled_before(Extent::Anywhere, &patterns).unwrap();
        assert!(set.is_match("it is ONLY HERE 7") && again.is_match("it is ONLY HERE 7"));
        let whole = TextPatterns::whole(&patterns).unwrap();
        assert!(whole.is_match("only here 7") && !whole.is_match("it is only here 7"));
    }

    #[test]
    fn a_pattern_closes_no_group_but_its_own() {
        // The same words are good as a pattern of their own.
        TextPatterns::anywhere(&["^(?:a)|(?:b)$".to_owned()]).unwrap();
        let error = TextPatterns::whole(&["a)|(?:b".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("unopened group"), "{error}");
    }
}
