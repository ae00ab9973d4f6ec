//! What a caller can do with an answer.

use std::fmt;

use serde::de::{SeqAccess, Visitor};
use serde::ser::SerializeSeq as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a caller can do with an answer, on the wire a list of words. Words that nobody knows are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
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

impl Capabilities {
    /// Nothing but to refuse: what a caller is taken to be able to do that names nothing.
    pub const DENY: Self = Self { deny: true, ..Self::NOTHING };
    pub const NOTHING: Self =
        Self { deny: false, context_before: false, context_after: false, replace_result: false, stop: false };
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

impl Default for Capabilities {
    fn default() -> Self {
        Self::DENY
    }
}

impl Serialize for Capabilities {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for word in self.words() {
            list.serialize_element(word)?;
        }
        list.end()
    }
}

impl<'de> Deserialize<'de> for Capabilities {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl<'de> Visitor<'de> for Words {
            type Value = Capabilities;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of words")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Capabilities, A::Error> {
                let mut can = Capabilities::NOTHING;
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
    use super::Capabilities;

    #[test]
    fn unknown_words_are_ignored_and_the_others_come_back() {
        let can: Capabilities = serde_json::from_str(r#"["context_after","sing","deny","context_after"]"#).unwrap();
        assert_eq!(can, Capabilities { deny: true, context_after: true, ..Capabilities::NOTHING });
        assert_eq!(serde_json::to_string(&can).unwrap(), r#"["deny","context_after"]"#);
        assert_eq!(
            serde_json::from_str::<Capabilities>(&serde_json::to_string(&Capabilities::ALL).unwrap()).unwrap(),
            Capabilities::ALL
        );
        assert_eq!(serde_json::from_str::<Capabilities>("[]").unwrap(), Capabilities::NOTHING);
        assert!(serde_json::from_str::<Capabilities>("[1]").is_err());
        assert!(serde_json::from_str::<Capabilities>("\"deny\"").is_err());
    }
}
