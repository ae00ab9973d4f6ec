//! Knowledge about sessions to judge a replay by: labelled stretches, and how sessions ended. A row of a file each.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A labelled stretch of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// Empty = none.
    pub tenant: String,
    pub session: String,
    /// Agent whose events are counted and judged; `None` = all agents of the session.
    pub agent: Option<String>,
    /// A loop; otherwise it only looks like one.
    pub is_loop: bool,
    /// Index of the first event, from 0.
    pub first: u64,
    /// Index of the last event.
    pub last: u64,
    /// Kind of the loop or look-alike.
    pub kind: String,
    /// A command would be right, and none as well.
    pub is_ambiguous: bool,
}

/// The end of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// Empty = none.
    pub tenant: String,
    pub session: String,
    pub success: Option<bool>,
}

/// What is wrong with a row.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadRow(pub String);

/// The fields of a row.
struct Fields(Map<String, Value>);

impl Fields {
    fn of(line: &str) -> Result<Self, BadRow> {
        match serde_json::from_str(line) {
            Ok(Value::Object(fields)) => Ok(Self(fields)),
            Ok(_) => Err(BadRow("not an object".to_owned())),
            Err(error) => Err(BadRow(error.to_string())),
        }
    }

    /// A field that may be missing or null. `must` says what it is otherwise.
    fn optional<T: DeserializeOwned>(&self, name: &str, must: &str) -> Result<Option<T>, BadRow> {
        let value = self.0.get(name).cloned().unwrap_or_default();
        let text = value.to_string();
        serde_json::from_value(value).map_err(|_| BadRow(format!("`{name}` is {text}, but must be {must}")))
    }

    fn required<T: DeserializeOwned>(&self, name: &str, must: &str) -> Result<T, BadRow> {
        self.optional(name, must)?.ok_or_else(|| BadRow(format!("`{name}` is missing, but must be {must}")))
    }

    fn text(&self, name: &str) -> Result<String, BadRow> {
        Ok(self.optional(name, "a text")?.unwrap_or_default())
    }
}

impl Label {
    pub fn parse(line: &str) -> Result<Self, BadRow> {
        let fields = Fields::of(line)?;
        let (first, last) = (fields.required("first_event_index", "an index")?, fields.required("last_event_index", "an index")?);
        if first > last {
            return Err(BadRow(format!("`first_event_index` is {first}, behind `last_event_index`, {last}")));
        }
        Ok(Self {
            tenant: fields.text("tenant")?,
            session: fields.required("session", "a text")?,
            agent: fields.optional("agent", "a text")?,
            is_loop: match fields.required::<String>("label", "a text")?.as_str() {
                "loop" => true,
                "ok" => false,
                other => return Err(BadRow(format!("`label` is {other:?}, but must be \"loop\" or \"ok\""))),
            },
            first,
            last,
            kind: fields.text("kind")?,
            is_ambiguous: fields.optional("ambiguous", "true, false or null")?.unwrap_or_default(),
        })
    }
}

impl Ending {
    pub fn parse(line: &str) -> Result<Self, BadRow> {
        let fields = Fields::of(line)?;
        if !fields.0.contains_key("success") {
            return Err(BadRow("`success` is missing".to_owned()));
        }
        Ok(Self {
            tenant: fields.text("tenant")?,
            session: fields.required("session", "a text")?,
            success: fields.optional("success", "true, false or null")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_row_names_its_field() {
        let label = |rest: &str| Label::parse(&format!(r#"{{"session":"a",{rest}}}"#)).unwrap_err().to_string();
        assert!(label(r#""label":"maybe","first_event_index":1,"last_event_index":1"#).contains("maybe"));
        assert!(label(r#""label":"loop","first_event_index":60,"last_event_index":5"#).contains("behind `last_event_index`, 5"));
        assert!(label(r#""label":"ok","first_event_index":1,"last_event_index":1,"ambiguous":"no""#).contains("`ambiguous` is"));
        assert_eq!(label(r#""first_event_index":-1"#), "`first_event_index` is -1, but must be an index");
        for bad in ["[]", r#"{"session":"a"}"#, r#"{"session":"a","success":"yes"}"#, r#"{"success":true}"#] {
            assert!(Ending::parse(bad).is_err(), "{bad}");
        }
        let ending = Ending { tenant: String::new(), session: "a".to_owned(), success: None };
        assert_eq!(Ending::parse(r#"{"session":"a","success":null}"#).unwrap(), ending);
    }
}
