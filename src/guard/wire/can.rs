//! What a caller can do with an answer.

use std::fmt;

use serde::de::{SeqAccess, Visitor};
use serde::ser::SerializeSeq as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a caller can do with an answer, on the wire a list of words. Words that nobody knows are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Can {
    /// Refuse a call and give the model a text in its place.
    pub deny: bool,
    /// Give the model a text before a call runs.
    pub context_before: bool,
    /// Give the model a text after a call has run.
    pub context_after: bool,
    /// Change the result of a call that has run.
    pub replace_result: bool,
    /// End the turn of the agent.
    pub stop: bool,
}

impl Can {
    /// Nothing but to refuse: what a caller can that does not say.
    pub const DENY: Self = Self { deny: true, ..Self::NOTHING };
    /// Nothing at all.
    pub const NOTHING: Self =
        Self { deny: false, context_before: false, context_after: false, replace_result: false, stop: false };
    /// Everything.
    pub const ALL: Self = Self { deny: true, context_before: true, context_after: true, replace_result: true, stop: true };

    /// Whether a text can reach the model once a call has run.
    #[must_use]
    pub const fn speaks_after(self) -> bool {
        self.context_after || self.replace_result
    }

    fn words(self) -> impl Iterator<Item = &'static str> {
        let words = [
            (self.deny, "deny"),
            (self.context_before, "context_before"),
            (self.context_after, "context_after"),
            (self.replace_result, "replace_result"),
            (self.stop, "stop"),
        ];
        words.into_iter().filter_map(|(is_set, word)| is_set.then_some(word))
    }

    fn learn(&mut self, word: &str) {
        match word {
            "deny" => self.deny = true,
            "context_before" => self.context_before = true,
            "context_after" => self.context_after = true,
            "replace_result" => self.replace_result = true,
            "stop" => self.stop = true,
            _ => {}
        }
    }
}

impl Default for Can {
    fn default() -> Self {
        Self::DENY
    }
}

impl Serialize for Can {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for word in self.words() {
            list.serialize_element(word)?;
        }
        list.end()
    }
}

impl<'de> Deserialize<'de> for Can {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl<'de> Visitor<'de> for Words {
            type Value = Can;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of words")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Can, A::Error> {
                let mut can = Can::NOTHING;
                while let Some(word) = list.next_element::<std::borrow::Cow<'de, str>>()? {
                    can.learn(&word);
                }
                Ok(can)
            }
        }
        deserializer.deserialize_seq(Words)
    }
}

#[cfg(test)]
mod tests {
    use super::Can;

    #[test]
    fn unknown_words_are_ignored_and_the_others_come_back() {
        let can: Can = serde_json::from_str(r#"["context_after","sing","deny","context_after"]"#).unwrap();
        assert_eq!(can, Can { deny: true, context_after: true, ..Can::NOTHING });
        assert_eq!(serde_json::to_string(&can).unwrap(), r#"["deny","context_after"]"#);
        assert_eq!(serde_json::from_str::<Can>(&serde_json::to_string(&Can::ALL).unwrap()).unwrap(), Can::ALL);
        assert_eq!(serde_json::from_str::<Can>("[]").unwrap(), Can::NOTHING);
        assert!(serde_json::from_str::<Can>("[1]").is_err());
        assert!(serde_json::from_str::<Can>("\"deny\"").is_err());
    }
}
