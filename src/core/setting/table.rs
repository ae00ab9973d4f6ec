//! Reads a table of a file key by key. A key that is missing or of another type is a problem like any other.

use std::collections::BTreeMap;

use crate::setting::{check::Check, section::Setting, value::Value};

static NO_KEYS: BTreeMap<String, Value> = BTreeMap::new();

/// What settings of one table need to know of others.
#[derive(Debug, Clone, Default)]
pub struct SharedSettings {
    /// The value of `history_steps`, not yet checked.
    pub(crate) history_steps: i64,
    /// Whether descriptions are compared (`identity.use_description`).
    pub(crate) use_description: bool,
}

/// A table of a file.
pub struct Table<'a> {
    pub check: &'a mut Check,
    /// Dotted path with a dot behind; empty for the whole policy.
    prefix: String,
    values: &'a BTreeMap<String, Value>,
    pub(crate) shared: &'a SharedSettings,
}

impl<'a> Table<'a> {
    /// The whole file; what is no table has no keys.
    pub const fn new(check: &'a mut Check, value: &'a Value, shared: &'a SharedSettings) -> Self {
        Self { check, prefix: String::new(), values: keys_of(Some(value)), shared }
    }

    /// Dotted path of a key.
    pub(crate) fn path(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// A table in this one.
    pub(crate) fn table(&mut self, key: &str) -> Table<'_> {
        let prefix = format!("{}{key}.", self.prefix);
        Table { check: self.check, prefix, values: keys_of(self.values.get(key)), shared: self.shared }
    }

    /// A key of it.
    pub fn key(&mut self, key: &str) -> Key<'_> {
        Key { path: self.path(key), value: self.values.get(key), values: self.values, shared: self.shared, check: self.check }
    }

    /// All its texts, by key.
    #[must_use]
    pub fn texts(&self) -> BTreeMap<String, String> {
        let texts = self.values.iter().filter_map(|(key, value)| match value {
            Value::Text(text) => Some((key.clone(), text.clone())),
            _ => None,
        });
        texts.collect()
    }

    /// A number as written, for rules between keys.
    pub(crate) fn written(&self, key: &str) -> i64 {
        written(self.values, key)
    }
}

/// The keys of a table; what is no table has none.
const fn keys_of(value: Option<&Value>) -> &BTreeMap<String, Value> {
    match value {
        Some(Value::Table(values)) => values,
        _ => &NO_KEYS,
    }
}

fn written(values: &BTreeMap<String, Value>, key: &str) -> i64 {
    match values.get(key) {
        Some(Value::Integer(integer)) => *integer,
        _ => 0,
    }
}

/// A key with its value.
pub struct Key<'a> {
    pub check: &'a mut Check,
    /// Dotted path of the key.
    pub path: String,
    /// What its table shares with others.
    pub(crate) shared: &'a SharedSettings,
    value: Option<&'a Value>,
    values: &'a BTreeMap<String, Value>,
}

impl<'a> Key<'a> {
    fn must_be(&mut self, kind: &str) {
        let path = &self.path;
        self.check.problem(path, format!("{path} must be {kind}"));
    }

    /// Whether nothing is written there.
    #[must_use]
    pub const fn is_missing(&self) -> bool {
        self.value.is_none()
    }

    pub(crate) fn integer(&mut self) -> i64 {
        let Some(Value::Integer(integer)) = self.value else {
            self.must_be("an integer");
            return 0;
        };
        *integer
    }

    pub(crate) fn float(&mut self) -> f64 {
        match self.value {
            Some(Value::Float(float)) => *float,
            Some(Value::Integer(integer)) => *integer as f64,
            _ => {
                self.must_be("a number");
                0.0
            }
        }
    }

    pub(crate) fn flag(&mut self) -> bool {
        let Some(Value::Flag(flag)) = self.value else {
            self.must_be("true or false");
            return false;
        };
        *flag
    }

    /// Its text; a problem where it has none.
    pub fn text(&mut self) -> &'a str {
        let Some(Value::Text(text)) = self.value else {
            self.must_be("a text");
            return "";
        };
        text
    }

    /// The elements of an array.
    pub(crate) fn list(&mut self) -> &'a [Value] {
        let Some(Value::List(list)) = self.value else {
            self.must_be("an array");
            return &[];
        };
        list
    }

    /// The texts of an array.
    pub(crate) fn texts(&mut self) -> Vec<String> {
        let texts = self.list().iter().filter_map(|value| match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        });
        texts.collect()
    }

    /// The entries of a list of tables, `most` at the most. What an entry leaves out has its default, where the setting is filled.
    pub(crate) fn rows<T>(&mut self, most: usize, settings: &[Setting], mut read: impl FnMut(&mut Table<'_>) -> T) -> Vec<T> {
        let (list, path) = (if self.is_missing() { &[] } else { self.list() }, &self.path);
        let count = list.len();
        self.check.rule(path, count <= most, || format!("{path} has {count} entries, but must not have above {most}"));
        let mut rows = Vec::with_capacity(count);
        for (index, value) in list.iter().enumerate() {
            let mut values = keys_of(Some(value)).clone();
            for setting in settings.iter().filter(|setting| (setting.is_filled)()) {
                values.entry(setting.key.to_owned()).or_insert_with(|| Value::of_default(setting.default));
            }
            let prefix = format!("{path}[{index}].");
            rows.push(read(&mut Table { check: self.check, prefix, values: &values, shared: self.shared }));
        }
        rows
    }

    /// A table in place of a value.
    pub fn table(&mut self) -> Table<'_> {
        Table { check: self.check, prefix: format!("{}.", self.path), values: keys_of(self.value), shared: self.shared }
    }

    /// A number beside this one as written, for rules between keys.
    pub(crate) fn beside(&self, key: &str) -> i64 {
        written(self.values, key)
    }

    /// A text beside this one.
    pub(crate) fn text_beside(&self, key: &str) -> &'a str {
        match self.values.get(key) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }
}
