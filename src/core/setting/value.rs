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
