//! A merged policy as it was written: tables and values, not yet checked. Numbers are as wide as TOML's and words stay text, so that every
//! problem can be reported at once and with its key.

use std::collections::BTreeMap;

/// A value of a policy file.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Flag(bool),
    Integer(i64),
    /// A number with a fraction.
    Float(f64),
    Text(String),
    List(Vec<Value>),
    Table(BTreeMap<String, Value>),
}

impl Value {
    /// The default of a setting: true or false, a number, a text without escapes, or a list of these.
    pub(crate) fn of_default(toml: &str) -> Self {
        let inside = |open: char, close: char| toml.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
        if let Some(items) = inside('[', ']') {
            return Self::List(items.split(',').map(str::trim).filter(|item| !item.is_empty()).map(Self::of_default).collect());
        }
        let number = toml.replace('_', "");
        match (inside('"', '"'), number.parse(), number.parse()) {
            (Some(text), ..) => Self::Text(text.to_owned()),
            (None, Ok(integer), _) => Self::Integer(integer),
            (None, Err(_), Ok(float)) => Self::Float(float),
            (None, Err(_), Err(_)) => Self::Flag(toml == "true"),
        }
    }
}
