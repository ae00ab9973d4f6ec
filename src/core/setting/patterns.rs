//! User-defined text patterns, compiled once.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use regex::{RegexSet, RegexSetBuilder, bytes};
use smallvec::SmallVec;

use crate::limits::REGEX_BYTES_MAX;

/// The sets compiled last. To try a threshold, a policy is loaded again with one number changed, and compiling its patterns costs more
/// than all else of a load.
static COMPILED: Mutex<VecDeque<TextPatterns>> = Mutex::new(VecDeque::new());
/// A text of no more bytes is copied without asking for memory.
const FEW_BYTES: usize = 256;
/// How many of them are kept.
const COMPILED_MAX: usize = 16;

/// A set of patterns; empty matches nothing.
#[derive(Debug, Clone, Default)]
pub struct TextPatterns {
    set: RegexSet,
    /// The same with case, for ASCII in lower case: its literals are few enough to be searched for 16 bytes at a time. None where a pattern
    /// may mean a capital.
    of_lower_case: Option<bytes::RegexSet>,
}

impl TextPatterns {
    /// Patterns that match anywhere, case ignored.
    ///
    /// # Errors
    /// The regex crate's word on the first pattern that is none or too large.
    pub fn anywhere(patterns: &[String]) -> Result<Self, regex::Error> {
        let new = || -> Result<Self, regex::Error> {
            let set = RegexSetBuilder::new(patterns).case_insensitive(true).size_limit(REGEX_BYTES_MAX).build()?;
            let of_lower_case = || bytes::RegexSetBuilder::new(patterns).size_limit(REGEX_BYTES_MAX).build().ok();
            let of_lower_case = if patterns.iter().all(|pattern| is_lower_case(pattern)) { of_lower_case() } else { None };
            Ok(remember(Self { set, of_lower_case }))
        };
        compiled_before(patterns).map_or_else(new, Ok)
    }

    /// Whether one of them matches.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        match &self.of_lower_case {
            _ if self.set.is_empty() => false,
            Some(set) if text.is_ascii() => {
                let mut lower: SmallVec<[u8; FEW_BYTES]> = text.as_bytes().into();
                lower.make_ascii_lowercase();
                set.is_match(&lower)
            }
            _ => self.set.is_match(text),
        }
    }
}

/// Whether a pattern matches a text in ASCII, case ignored, just where it matches the same text in lower case: it is of small letters, and has
/// no class, no flag and no escape that names a character.
fn is_lower_case(pattern: &str) -> bool {
    let mut is_escaped = false;
    let mut is_fine = |letter: char| {
        let names_nothing =
            if is_escaped { !matches!(letter, 'x' | 'u' | 'U' | 'p' | 'P') } else { !letter.is_ascii_uppercase() };
        is_escaped = !is_escaped && letter == '\\';
        letter.is_ascii() && names_nothing
    };
    pattern.chars().all(&mut is_fine) && !pattern.contains("(?") && !pattern.contains('[')
}

fn compiled_before(patterns: &[String]) -> Option<TextPatterns> {
    let compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    compiled.iter().find(|known| known.set.patterns() == patterns).cloned()
}

fn remember(patterns: TextPatterns) -> TextPatterns {
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    compiled.truncate(COMPILED_MAX - 1);
    compiled.push_front(patterns.clone());
    patterns
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

    #[test]
    fn case_is_ignored_whatever_the_text_and_the_pattern_are_made_of() {
        for (pattern, text, matches) in [
            ("rate limit", "RATE Limit", true),
            ("rate limit", "größe: RATE LIMIT", true),
            ("kelvin", "\u{212a}ELVIN", true),
            (r"code\W{0,3}5\d\d\b", "Code: 503", true),
            (r"code\W{0,3}5\d\d\b", "Code: 5034", false),
            ("Rate", "rATE", true),
            (r"\x41b", "aB", true),
            ("[A-F]x", "bX", true),
            ("(?-i)Ab", "AB", false),
            (r"\p{Lu}", "a", true),
        ] {
            assert_eq!(TextPatterns::anywhere(&[pattern.to_owned()]).unwrap().is_match(text), matches, "{pattern}: {text}");
        }
        assert!(is_lower_case(r"a\Wb") && !is_lower_case("aB") && !is_lower_case(r"\x41") && !is_lower_case("[a-f]"));
    }
}
