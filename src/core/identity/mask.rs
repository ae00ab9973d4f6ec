//! Volatile text out: times, ids, durations.

use std::borrow::Cow;

use regex::bytes::{Captures, Regex, RegexBuilder};

use crate::identity::{scanner, scanner::is_behind_point};
use crate::limits::REGEX_BYTES_MAX;

/// Ids that are one word. This mask takes no digits behind a decimal point, which no pattern can express: `0.69314718` is what an agent has measured.
const IDS: &str = r"\b[0-9a-fA-F]{8,}\b";

/// The masks that ship: pattern, replacement. In this order they run as one hand-written pass (`scanner.rs`).
pub const SHIPPED_MASKS: [(&str, &str); 8] = [
    (r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d+|,\d{3}\b)?(Z|[+-]\d{2}:?\d{2})?", scanner::TIME),
    (
        concat!(
            r"\b(\d{4}/\d{2}/\d{2} |\d{2}/[A-Z][a-z]{2}/\d{4}:|\d{2} [A-Z][a-z]{2} \d{4} |",
            r"(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d )\d{2}:\d{2}:\d{2}\b"
        ),
        scanner::TIME,
    ),
    (r"\b(at 0x[0-9a-f]{6,}\b|0x[0-9a-f]{6,}[>);,])", scanner::ID),
    (r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b", scanner::ID),
    (IDS, scanner::ID),
    (r"\b\d+(\.\d+)?\s*(ms|s)\b", scanner::DURATION),
    (r"\b\d+\.\d+\s*(secs?|seconds?)\b", scanner::DURATION),
    (r"\(\d:\d{2}:\d{2}\)", scanner::DURATION),
];

/// A text through the masks that ship. Whoever needs no others gets no regular expressions into its program.
#[must_use]
pub fn shipped_masks(text: &str) -> Cow<'_, str> {
    scanner::mask(text).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// One mask: a pattern and what takes its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskRule {
    /// Regular expression, whose classes are those of ASCII.
    pub pattern: String,
    /// Replacement of each match, taken literally.
    pub replacement: String,
}

/// A pattern that is none, or compiles to more than `REGEX_BYTES_MAX`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MaskError(pub String);

/// Masks in order. The shipped ones run as one hand-written pass, any others through `regex`.
#[derive(Debug, Clone, Default)]
pub struct MaskSet {
    masks: Masks,
}

#[derive(Debug, Clone, Default)]
enum Masks {
    #[default]
    None,
    Shipped,
    Regexes(Vec<Expression>),
}

#[derive(Debug, Clone)]
struct Expression {
    regex: Regex,
    replacement: String,
    /// It is the shipped one of ids that are one word.
    spares_fractions: bool,
}

impl MaskSet {
    /// Compiles masks.
    ///
    /// # Errors
    /// The first pattern that is no regular expression, too large, or matches the empty text.
    pub fn new(rules: &[MaskRule]) -> Result<Self, MaskError> {
        if rules.is_empty() {
            return Ok(Self::none());
        }
        let are_shipped = rules.iter().map(|rule| (rule.pattern.as_str(), rule.replacement.as_str())).eq(SHIPPED_MASKS);
        if are_shipped { Ok(Self { masks: Masks::Shipped }) } else { Self::through_regex(rules) }
    }

    /// The same without the hand-written pass: what that pass is tested against.
    ///
    /// # Errors
    /// As [`MaskSet::new`].
    pub fn through_regex(rules: &[MaskRule]) -> Result<Self, MaskError> {
        let expression = |rule: &MaskRule| {
            Ok(Expression {
                regex: compile(&rule.pattern)?,
                replacement: rule.replacement.clone(),
                spares_fractions: rule.pattern == IDS,
            })
        };
        Ok(Self { masks: Masks::Regexes(rules.iter().map(expression).collect::<Result<_, _>>()?) })
    }

    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    #[must_use]
    pub const fn is_none(&self) -> bool {
        matches!(self.masks, Masks::None)
    }

    /// The text with its volatile parts replaced.
    #[must_use]
    pub fn apply<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match &self.masks {
            Masks::None => Cow::Borrowed(text),
            Masks::Shipped => shipped_masks(text),
            Masks::Regexes(regexes) => regexes.iter().fold(Cow::Borrowed(text), replace),
        }
    }
}

fn compile(pattern: &str) -> Result<Regex, MaskError> {
    let regex = RegexBuilder::new(pattern)
        .unicode(false)
        .size_limit(REGEX_BYTES_MAX)
        .dfa_size_limit(REGEX_BYTES_MAX)
        .build()
        .map_err(|error| MaskError(error.to_string()))?;
    if regex.is_match(b"") {
        return Err(MaskError(format!("`{pattern}` matches the empty text, so it would mask between any two characters")));
    }
    Ok(regex)
}

/// Each mask works on what the one before has left. A pattern may cut a character in two; what is left of it becomes U+FFFD.
fn replace<'a>(text: Cow<'a, str>, mask: &Expression) -> Cow<'a, str> {
    let mut from = 0;
    let replaced = mask.regex.replace_all(text.as_bytes(), |found: &Captures<'_>| {
        let Some(whole) = found.get(0) else { return Vec::new() };
        let is_number = whole.as_bytes().iter().all(u8::is_ascii_digit);
        if mask.spares_fractions && is_number && is_behind_point(text.as_bytes(), from, whole.start()) {
            return whole.as_bytes().to_vec();
        }
        from = whole.end();
        mask.replacement.clone().into_bytes()
    });
    match replaced {
        Cow::Borrowed(_) => text,
        Cow::Owned(bytes) => {
            Cow::Owned(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::{MaskRule, MaskSet};

    fn rule(pattern: &str, replacement: &str) -> MaskRule {
        MaskRule { pattern: pattern.into(), replacement: replacement.into() }
    }

    #[test]
    fn own_masks_run_in_order_with_ascii_classes_and_literal_replacements() {
        let masks = MaskSet::new(&[rule(r"port \d+", "$0"), rule(r"\$0", "<p>")]).unwrap();
        assert_eq!(masks.apply("port 80, port ٣"), "<p>, port ٣");
        assert!(matches!(masks.apply("nothing"), Cow::Borrowed("nothing")));
        assert_eq!(MaskSet::none().apply("port 80"), "port 80");
    }

    #[test]
    fn a_pattern_that_cuts_a_character_leaves_text() {
        let masks = MaskSet::new(&[rule("a.", "<x>")]).unwrap();
        assert_eq!(masks.apply("aé b"), "<x>\u{fffd} b");
    }

    #[test]
    fn patterns_that_are_none_too_large_or_match_nothing_are_errors() {
        for pattern in ["(", "[a-z]{1000}{1000}", "a*", ""] {
            assert!(MaskSet::new(&[rule("ok", ""), rule(pattern, "")]).is_err(), "{pattern}");
        }
    }
}
