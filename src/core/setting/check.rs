//! Collects problems, and answers with a value in bounds so that the check goes on.

use crate::limits::{NAME_CHARS_MAX, POLICY_LIST_MAX};
use crate::setting::patterns::TextPatterns;

/// A rule that a file breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// Dotted path of the key, as `detectors.exact_repeat.block_at` or `tool[2].class`.
    pub path: String,
    /// The key, the values and the broken rule, in lower case.
    pub message: String,
}

/// The problems found so far.
#[derive(Debug, Default)]
pub struct Check {
    problems: Vec<Problem>,
}

impl Check {
    /// All problems, if there are any.
    ///
    /// # Errors
    /// These problems, in the order in which they were found.
    pub fn finish(self) -> Result<(), Vec<Problem>> {
        if self.problems.is_empty() { Ok(()) } else { Err(self.problems) }
    }

    pub fn problem(&mut self, path: &str, message: String) {
        self.problems.push(Problem { path: path.to_owned(), message });
    }

    /// Notes a problem unless the rule holds.
    pub(crate) fn rule(&mut self, path: &str, holds: bool, message: impl FnOnce() -> String) {
        if !holds {
            self.problem(path, message());
        }
    }

    pub(crate) fn integer(&mut self, path: &str, value: i64, least: i64, most: i64) -> i64 {
        self.rule(path, value >= least, || format!("{path} is {value}, but must be at least {least}"));
        self.rule(path, value <= most, || format!("{path} is {value}, but must not be above {most}"));
        value.clamp(least, most)
    }

    /// A count: an integer from `least` to what 31 bits hold, so that no sum of a few overflows.
    pub(crate) fn count(&mut self, path: &str, value: i64, least: u32) -> u32 {
        self.integer(path, value, i64::from(least), i64::from(i32::MAX)) as u32
    }

    pub(crate) fn positive(&mut self, path: &str, value: f64, most: f64) -> f64 {
        let holds = value > 0.0 && value <= most;
        self.rule(path, holds, || format!("{path} is {value}, but must be above 0 and not above {most}"));
        if holds { value } else { 1.0 }
    }

    /// A number between two others, both included; the least where it is not.
    pub(crate) fn between(&mut self, path: &str, value: f64, least: f64, most: f64) -> f64 {
        let holds = (least..=most).contains(&value);
        self.rule(path, holds, || format!("{path} is {value}, but must be between {least} and {most}"));
        if holds { value } else { least }
    }

    /// One of some words; the first where it is none.
    pub(crate) fn choice<T: Copy + Default>(&mut self, path: &str, text: &str, words: &[(&str, T)]) -> T {
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return *value;
        }
        let list = words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        self.problem(path, format!("{path} is {text:?}, but must be one of: {list}"));
        T::default()
    }

    /// A name: not empty, not too long, no control characters.
    pub(crate) fn name(&mut self, path: &str, name: &str) -> String {
        let is_name = !name.is_empty() && name.chars().count() <= NAME_CHARS_MAX && !name.contains(char::is_control);
        self.rule(path, is_name, || {
            format!("{path} holds {name:?}, but a name has 1 to {NAME_CHARS_MAX} characters and no control characters")
        });
        name.to_owned()
    }

    /// Names in the order given.
    pub(crate) fn names_in_order(&mut self, path: &str, names: &[String]) -> Vec<String> {
        self.length(path, names.len());
        names.iter().map(|name| self.name(path, name)).collect()
    }

    /// Names, sorted and each once.
    pub(crate) fn names(&mut self, path: &str, names: &[String]) -> Vec<String> {
        let mut names = self.names_in_order(path, names);
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Exact names of tools, sorted: a `*` here would look like a prefix and match nothing.
    pub(crate) fn tools(&mut self, path: &str, names: &[String]) -> Vec<String> {
        for name in names {
            let is_exact = !name.contains('*');
            self.rule(path, is_exact, || format!("{path} holds {name:?}, but only names of [[tool]] may be prefixes"));
        }
        self.names(path, names)
    }

    pub(crate) fn patterns_anywhere(&mut self, path: &str, patterns: &[String]) -> TextPatterns {
        self.length(path, patterns.len());
        TextPatterns::anywhere(patterns).unwrap_or_else(|error| {
            let before = self.problems.len();
            for pattern in patterns {
                if let Err(error) = TextPatterns::anywhere(std::slice::from_ref(pattern)) {
                    self.no_pattern(path, pattern, &error.to_string());
                }
            }
            if self.problems.len() == before {
                self.problem(path, format!("{path} does not compile: {error}"));
            }
            TextPatterns::default()
        })
    }

    /// A pattern that does not compile.
    pub(crate) fn no_pattern(&mut self, path: &str, pattern: &str, cause: &str) {
        // The regex crate draws the place over several lines; its last one names what is wrong.
        let cause = cause.lines().last().unwrap_or_default().trim().trim_start_matches("error: ");
        self.problem(path, format!("{path} holds {pattern:?}, which is no regular expression: {cause}"));
    }

    fn length(&mut self, path: &str, length: usize) {
        self.rule(path, length <= POLICY_LIST_MAX, || {
            format!("{path} has {length} entries, but must not have above {POLICY_LIST_MAX}")
        });
    }
}
