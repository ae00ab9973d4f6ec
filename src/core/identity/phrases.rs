//! Phrases that a policy lists, searched for in a text all at once.

use regex::{Regex, RegexBuilder};

use crate::limits::REGEX_BYTES_MAX;

/// Phrases, in the order given.
#[derive(Debug, Clone, Default)]
pub struct Phrases {
    list: Vec<String>,
    /// Finds any of them, 16 bytes of a text at a time; none of none, and of more than an expression may hold.
    search: Option<Regex>,
}

impl Phrases {
    #[must_use]
    pub fn new(list: Vec<String>) -> Self {
        let any = list.iter().map(|phrase| regex::escape(phrase)).collect::<Vec<_>>().join("|");
        let search = RegexBuilder::new(&any).size_limit(REGEX_BYTES_MAX).build().ok().filter(|_| !list.is_empty());
        Self { list, search }
    }

    #[must_use]
    pub fn list(&self) -> &[String] {
        &self.list
    }

    /// Whether one of them stands anywhere in a text.
    #[must_use]
    pub fn stand_in(&self, text: &str) -> bool {
        match &self.search {
            Some(search) => search.is_match(text),
            None => self.list.iter().any(|phrase| text.contains(phrase.as_str())),
        }
    }

    /// Whether one of them, which may hold spaces, stands in a text with neither a letter, a digit nor `_` beside it.
    #[must_use]
    pub fn stand_alone_in(&self, text: &str) -> bool {
        let is_word = |character: char| character.is_alphanumeric() || character == '_';
        let is_alone = |before: &str, rest: &str, phrase: &str| {
            let after = rest.strip_prefix(phrase).filter(|_| !phrase.is_empty());
            after.is_some_and(|after| {
                !after.chars().next().is_some_and(is_word) && !before.chars().next_back().is_some_and(is_word)
            })
        };
        let mut from = 0;
        while let Some((before, rest)) = self.next_place(text, from).and_then(|at| text.split_at_checked(at)) {
            if self.list.iter().any(|phrase| is_alone(before, rest, phrase)) {
                return true;
            }
            from = before.len() + rest.chars().next().map_or(1, char::len_utf8);
        }
        false
    }

    /// The next place at which one of them may begin.
    fn next_place(&self, text: &str, from: usize) -> Option<usize> {
        match &self.search {
            Some(search) if from <= text.len() => search.find_at(text, from).map(|found| found.start()),
            None if from < text.len() && !self.list.is_empty() => Some(from),
            _ => None,
        }
    }
}

impl From<Vec<String>> for Phrases {
    fn from(list: Vec<String>) -> Self {
        Self::new(list)
    }
}

impl PartialEq for Phrases {
    fn eq(&self, other: &Self) -> bool {
        self.list == other.list
    }
}

impl Eq for Phrases {}

#[cfg(test)]
mod tests {
    use super::Phrases;

    fn phrases(list: &[&str]) -> Phrases {
        Phrases::new(list.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn phrases_stand_alone() {
        for (text, phrase, is_alone) in [
            ("cargo test -p core", "cargo test", true),
            ("cargo tests", "cargo test", false),
            ("cat latest", "test", false),
            ("npm run test:unit", "test", true),
            ("my_test", "test", false),
            ("testtest test", "test", true),
            ("größetest", "test", false),
            ("größe.test", "test", true),
            ("testé", "test", false),
            ("-x", "-x", true),
            ("a-x", "-x", false),
            (" é", "é", true),
            ("ßé", "é", false),
            ("xa-a-ay", "a-a", false),
            ("xa-a-a y", "a-a", true),
            ("a.a.b a.a", "a.a", true),
            ("1a.a.a", "a.a", true),
            ("x", "", false),
            ("", "", false),
        ] {
            assert_eq!(phrases(&[phrase]).stand_alone_in(text), is_alone, "{text} / {phrase}");
            assert_eq!(phrases(&["zz", phrase, "tes"]).stand_alone_in(text), is_alone, "{text} / {phrase}, among others");
        }
        assert!(!phrases(&[]).stand_alone_in("cargo"));
    }

    #[test]
    fn phrases_are_no_patterns_and_none_stands_nowhere() {
        assert!(phrases(&["a+b", "gh run watch"]).stand_in("1 a+b 2") && !phrases(&["a+b"]).stand_in("aab"));
        assert!(!phrases(&[]).stand_in("") && phrases(&[""]).stand_in(""));
    }
}
