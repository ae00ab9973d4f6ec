//! A file as a tree of values that remember where they came from: what layers are merged in.

use std::{collections::BTreeMap, sync::Arc};

use loopwarden_core::setting::Value as Written;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::messages::diagnostic::{Diagnostic, Origin};

/// Keys and values, sorted by key.
pub(crate) type Table = BTreeMap<String, Node>;

/// Messages about one broken file; more would only repeat the first.
const SYNTAX_ERRORS_MAX: usize = 10;

/// A value and where it and its key stand.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) value: Value,
    /// Where the key of the value stands.
    pub(crate) key: Origin,
    pub(crate) origin: Origin,
}

/// A value. Dates are text here: no setting is one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    Array(Vec<Node>),
    Table(Table),
}

impl Value {
    /// With the same origin for key and value.
    pub(crate) fn with_origin(self, origin: &Origin) -> Node {
        Node { value: self, key: origin.clone(), origin: origin.clone() }
    }
}

/// An effective value, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// Dotted path of the key.
    pub key: String,
    /// The value, written as TOML.
    pub value: String,
    pub origin: Origin,
}

/// What a text is, for the places of its values.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    Default,
    Profile(Arc<str>),
    File(Arc<str>),
}

/// Finds line and column of byte offsets.
struct SourceText<'a> {
    text: &'a str,
    source: &'a Source,
}

impl SourceText<'_> {
    fn at(&self, offset: usize) -> Origin {
        match self.source {
            Source::Default => Origin::Default,
            Source::Profile(name) => Origin::Profile(Arc::clone(name)),
            Source::File(file) => {
                let before = self.text.get(..offset).unwrap_or(self.text);
                let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
                let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
                let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
                Origin::File { file: Arc::clone(file), line: line as u32, column: column as u32 }
            }
        }
    }

    fn table(&self, table: &DeTable<'_>) -> Table {
        table.iter().map(|(key, value)| (key.get_ref().to_string(), self.node(key.span().start, value))).collect()
    }

    fn node(&self, key: usize, value: &Spanned<DeValue<'_>>) -> Node {
        let start = value.span().start;
        Node { value: self.value(value.get_ref()), key: self.at(key), origin: self.at(start) }
    }

    fn value(&self, value: &DeValue<'_>) -> Value {
        match value {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(integer) => {
                i64::from_str_radix(integer.as_str(), integer.radix()).map_or(Value::Float(f64::INFINITY), Value::Integer)
            }
            DeValue::Float(float) => float.as_str().parse().map_or_else(|_| Value::Text(float.to_string()), Value::Float),
            DeValue::Boolean(boolean) => Value::Boolean(*boolean),
            DeValue::Datetime(datetime) => Value::Text(datetime.to_string()),
            DeValue::Array(array) => Value::Array(array.iter().map(|element| self.node(element.span().start, element)).collect()),
            DeValue::Table(table) => Value::Table(self.table(table)),
        }
    }
}

/// Parses TOML; all syntax errors at once, under `code`.
pub(crate) fn parse(text: &str, source: &Source, code: &'static str) -> Result<Table, Vec<Diagnostic>> {
    let source_text = SourceText { text, source };
    let (table, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return Ok(source_text.table(table.get_ref()));
    }
    let diagnostics = errors.iter().take(SYNTAX_ERRORS_MAX).map(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let message = error.message().replace('\n', ", ");
        Diagnostic::new(code, format!("this is no TOML: {message}")).at(&source_text.at(start), "")
    });
    Err(diagnostics.collect())
}

/// A tree of values that all have one origin.
pub(crate) fn from_toml(table: &toml::Table, origin: &Origin) -> Table {
    table.iter().map(|(key, value)| (key.clone(), node_from_toml(value, origin))).collect()
}

/// As [`from_toml`], of one value.
pub(crate) fn node_from_toml(value: &toml::Value, origin: &Origin) -> Node {
    let value = match value {
        toml::Value::String(text) => Value::Text(text.clone()),
        toml::Value::Integer(integer) => Value::Integer(*integer),
        toml::Value::Float(float) => Value::Float(*float),
        toml::Value::Boolean(boolean) => Value::Boolean(*boolean),
        toml::Value::Datetime(datetime) => Value::Text(datetime.to_string()),
        toml::Value::Array(array) => Value::Array(array.iter().map(|value| node_from_toml(value, origin)).collect()),
        toml::Value::Table(table) => Value::Table(from_toml(table, origin)),
    };
    value.with_origin(origin)
}

/// Puts a layer over another: tables key by key, everything else replaced.
pub(crate) fn merge(base: &mut Table, layer: Table) {
    for (key, node) in layer {
        match (base.get_mut(&key), node) {
            (Some(Node { value: Value::Table(below), .. }), Node { value: Value::Table(above), .. }) => merge(below, above),
            (_, node) => {
                base.insert(key, node);
            }
        }
    }
}

/// The node at a path such as `tool[2].class`, or its closest ancestor.
pub(crate) fn nearest<'a>(table: &'a Table, path: &str) -> Option<&'a Node> {
    let mut nearest: Option<&Node> = None;
    for segment in path.split('.') {
        let (key, indexes) = segment.split_once('[').unwrap_or((segment, ""));
        let inside = match nearest.map(|node| &node.value) {
            None => Some(table),
            Some(Value::Table(table)) => Some(table),
            Some(_) => None,
        };
        let Some(found) = inside.and_then(|table| table.get(key)) else { break };
        nearest = Some(found);
        for index in indexes.split(['[', ']']).filter_map(|index| index.parse::<usize>().ok()) {
            let Some(Node { value: Value::Array(array), .. }) = nearest else { break };
            nearest = array.get(index).or(nearest);
        }
    }
    nearest
}

/// The node at exactly this path of table keys.
pub(crate) fn at<'a>(table: &'a Table, path: &[&str]) -> Option<&'a Node> {
    let (first, rest) = path.split_first()?;
    let node = table.get(*first)?;
    match &node.value {
        _ if rest.is_empty() => Some(node),
        Value::Table(inner) => at(inner, rest),
        _ => None,
    }
}

/// As [`at`], to change it.
pub(crate) fn at_mut<'a>(table: &'a mut Table, path: &[&str]) -> Option<&'a mut Node> {
    let (first, rest) = path.split_first()?;
    let node = table.get_mut(*first)?;
    if rest.is_empty() {
        return Some(node);
    }
    match &mut node.value {
        Value::Table(inner) => at_mut(inner, rest),
        _ => None,
    }
}

/// The same as TOML values, to be deserialised or printed.
pub(crate) fn to_toml(table: &Table) -> toml::Table {
    table.iter().map(|(key, node)| (key.clone(), value_to_toml(&node.value))).collect()
}

/// As [`to_toml`], of a single value.
pub(crate) fn value_to_toml(value: &Value) -> toml::Value {
    match value {
        Value::Text(text) => toml::Value::String(text.clone()),
        Value::Integer(integer) => toml::Value::Integer(*integer),
        Value::Float(float) => toml::Value::Float(*float),
        Value::Boolean(boolean) => toml::Value::Boolean(*boolean),
        Value::Array(array) => toml::Value::Array(array.iter().map(|node| value_to_toml(&node.value)).collect()),
        Value::Table(table) => toml::Value::Table(to_toml(table)),
    }
}

/// Whether two nodes have one value, wherever they stand.
pub(crate) fn same(one: &Node, other: &Node) -> bool {
    value_to_toml(&one.value) == value_to_toml(&other.value)
}

/// The values without their origins, as the core reads them.
pub(crate) fn to_core(table: &Table) -> Written {
    fn value_of(node: &Node) -> Written {
        match &node.value {
            Value::Text(text) => Written::Text(text.clone()),
            Value::Integer(integer) => Written::Integer(*integer),
            Value::Float(float) => Written::Float(*float),
            Value::Boolean(flag) => Written::Flag(*flag),
            Value::Array(elements) => Written::List(elements.iter().map(value_of).collect()),
            Value::Table(table) => to_core(table),
        }
    }
    Written::Table(table.iter().map(|(key, node)| (key.clone(), value_of(node))).collect())
}

/// A message about the value at a path of a tree, with its place; `shown` is the path as it was written.
pub(crate) fn diagnostic(table: &Table, code: &'static str, path: &str, message: String, shown: &str) -> Diagnostic {
    let diagnostic = Diagnostic::new(code, message);
    match nearest(table, path) {
        Some(node) => diagnostic.at(&node.origin, shown),
        None => diagnostic,
    }
}

/// The same as JSON, for a hash that does not depend on how TOML was written.
pub(crate) fn to_json(table: &Table) -> String {
    // Keys are text, and a number that is not finite, which no rule lets pass, is null: it cannot fail.
    serde_json::to_string(&to_toml(table)).unwrap_or_default()
}

/// Every leaf with its origin, sorted by key; arrays are leaves.
pub(crate) fn effective(table: &Table) -> Vec<Effective> {
    let mut leaves = Vec::new();
    collect(table, "", &mut leaves);
    leaves
}

fn collect(table: &Table, prefix: &str, leaves: &mut Vec<Effective>) {
    for (key, node) in table {
        let path = join(prefix, key);
        match &node.value {
            Value::Table(inner) => collect(inner, &path, leaves),
            leaf => leaves.push(Effective { key: path, value: value_to_toml(leaf).to_string(), origin: node.origin.clone() }),
        }
    }
}

/// Dotted path of a key below `prefix`.
pub(crate) fn join(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") }
}
