//! The fields of an object in a log, with the type that they must have.

use loopwarden_core::event::{EventTime, Reason, Rejected};
use serde_json::{Map, Value};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Object<'a>(pub(crate) &'a Map<String, Value>);

impl<'a> Object<'a> {
    pub(crate) fn has(self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) fn get(self, name: &str) -> Option<&'a Value> {
        self.0.get(name)
    }

    /// A field as it is; null if it is missing.
    pub(crate) fn value(self, name: &str) -> &'a Value {
        self.get(name).unwrap_or(&Value::Null)
    }

    /// A text that may be missing or null.
    pub(crate) fn text(self, name: &str) -> Result<Option<&'a str>, Rejected> {
        match self.value(name) {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text)),
            _ => Err(Rejected::at(Reason::BadType, name)),
        }
    }

    /// A text that must be there.
    pub(crate) fn required(self, name: &str) -> Result<&'a str, Rejected> {
        self.text(name)?.filter(|text| !text.is_empty()).ok_or_else(|| Rejected::at(Reason::MissingField, name))
    }

    /// An object that may be missing or null.
    pub(crate) fn object(self, name: &str) -> Result<Option<Self>, Rejected> {
        match self.value(name) {
            Value::Null => Ok(None),
            Value::Object(object) => Ok(Some(Self(object))),
            _ => Err(Rejected::at(Reason::BadType, name)),
        }
    }

    /// An object if it is one.
    pub(crate) fn object_if_any(self, name: &str) -> Option<Self> {
        self.get(name)?.as_object().map(Self)
    }

    /// A text if it is one.
    pub(crate) fn text_if_any(self, name: &str) -> Option<&'a str> {
        self.get(name)?.as_str()
    }

    /// Whether a field is true.
    pub(crate) fn is_true(self, name: &str) -> bool {
        self.value(name) == &Value::Bool(true)
    }

    /// A number of tokens; anything else is none.
    pub(crate) fn tokens(self, name: &str) -> u64 {
        self.value(name).as_u64().unwrap_or(0)
    }

    /// RFC 3339, or the same without a zone, which then is UTC.
    pub(crate) fn time(self, name: &str) -> Result<Option<EventTime>, Rejected> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let in_utc = || EventTime::parse_rfc3339(&format!("{}Z", text.replacen(' ', "T", 1)));
        let time = EventTime::parse_rfc3339(text).or_else(in_utc);
        time.map(Some).ok_or_else(|| Rejected::at(Reason::BadValue, name))
    }

    /// Its fields as arguments of a call: without these names and without nulls.
    pub(crate) fn arguments(self, without: &[&str]) -> Value {
        let kept = self.0.iter().filter(|(name, value)| !without.contains(&name.as_str()) && !value.is_null());
        Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
    }
}
