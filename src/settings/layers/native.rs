//! librdkafka settings as people write them: known names, and none that exactly-once owns.

use crate::layers::tree::{self, Node, Table, Value};
use crate::messages::diagnostic::{Diagnostic, Origin, did_you_mean};

/// Names that librdkafka knows, one a line, from its `CONFIGURATION.md`; without those that only code can set (callbacks).
const KEYS: &str = include_str!("librdkafka_keys.txt");

/// Tables of librdkafka settings, as paths of keys.
pub(crate) const TABLES: [&[&str]; 3] =
    [&["kafka", "librdkafka"], &["kafka", "consumer", "librdkafka"], &["kafka", "producer", "librdkafka"]];

/// Names, or beginnings of names (ending in a dot), that are owned, and what to use instead.
const OWNED: [(&str, &str); 16] = [
    ("enable.auto.", "offsets move inside the transaction only; there is no setting for it"),
    ("group.id", "use kafka.group"),
    ("client.id", "members of the group are told apart by it; it follows from kafka.group and instance"),
    ("group.instance.id", "use instance"),
    ("group.protocol", "use kafka.group_protocol"),
    ("group.", "the group's protocol is part of exactly-once; there is no setting for it"),
    ("isolation.level", "inputs are read committed; there is no setting for it"),
    ("transactional.id", "it follows from kafka.group and instance"),
    ("enable.idempotence", "it follows from transactions"),
    ("acks", "it follows from transactions"),
    ("request.required.acks", "it follows from transactions"),
    ("partitioner", "it decides where a session lives; there is no setting for it"),
    ("partition.assignment.strategy", "cooperative-sticky alone hands tasks over without stopping the others"),
    ("enable.partition.eof", "restoring relies on it; there is no setting for it"),
    ("auto.offset.reset", "use kafka.start and kafka.on_input_loss"),
    ("bootstrap.servers", "use kafka.bootstrap_servers"),
];

/// Puts nested tables back into one level: `sasl.mechanism = …` without quotes is a table `sasl` to TOML.
pub(crate) fn flatten(layer: &mut Table) {
    for path in TABLES {
        if let Some(Node { value: Value::Table(table), .. }) = tree::at_mut(layer, path) {
            let mut flat = Table::new();
            collect(std::mem::take(table), "", None, &mut flat);
            *table = flat;
        }
    }
}

fn collect(table: Table, prefix: &str, outer: Option<&Origin>, flat: &mut Table) {
    for (key, mut node) in table {
        let path = tree::join(prefix, &key);
        // The whole name begins at its first part, unless that stands elsewhere.
        let begin = outer.filter(|outer| is_same_line(outer, &node.key)).unwrap_or(&node.key).clone();
        if let Value::Table(inner) = node.value {
            collect(inner, &path, Some(&begin), flat);
        } else {
            node.key = begin;
            flat.insert(path, node);
        }
    }
}

fn is_same_line(one: &Origin, other: &Origin) -> bool {
    match (one, other) {
        (Origin::File { line, .. }, Origin::File { line: other, .. }) => line == other,
        _ => true,
    }
}

/// Makes every value text, and reports names that are unknown or owned and values that are neither text nor number.
pub(crate) fn check(merged: &mut Table, diagnostics: &mut Vec<Diagnostic>) {
    for path in TABLES {
        let name = path.join(".");
        let Some(Node { value: Value::Table(table), .. }) = tree::at_mut(merged, path) else { continue };
        table.retain(|key, node| {
            let Some(text) = text(&node.value) else {
                let message = format!("{name} setting {key:?} is an array, but must be text or a number");
                diagnostics.push(Diagnostic::new("E0202", message).at(&node.origin, name.as_str()));
                return false;
            };
            node.value = Value::Text(text);
            if let Some((_, instead)) = OWNED.iter().find(|(owned, _)| is_owned(owned, key)) {
                let message = format!("librdkafka setting {key:?} is not for you to set: {instead}");
                diagnostics.push(Diagnostic::new("E0208", message).at(&node.key, name.as_str()));
            } else if !is_known(key) {
                let meant = did_you_mean(key, KEYS.lines());
                let key: String = key.chars().take(128).collect();
                let message = format!("unknown librdkafka setting {key:?}{meant}");
                diagnostics.push(Diagnostic::new("E0207", message).at(&node.key, name.as_str()));
            }
            true
        });
    }
}

fn is_owned(owned: &str, key: &str) -> bool {
    owned == key
        || (owned.ends_with('.') && key.starts_with(owned))
        || (owned == "bootstrap.servers" && key == "metadata.broker.list")
}

fn is_known(key: &str) -> bool {
    KEYS.lines().any(|known| known == key)
}

/// The name that an environment variable means: `SASL_MECHANISM` is `sasl.mechanism`, `LOG_LEVEL` is `log_level`.
pub(crate) fn from_environment(name: &str) -> String {
    let literal = name.to_ascii_lowercase();
    if is_known(&literal) { literal } else { literal.replace('_', ".") }
}

/// Whether a value may be a secret.
pub(crate) fn is_secret(key: &str) -> bool {
    key.contains(".librdkafka.")
        && ["password", "secret", "key.pem", "oauthbearer.config", "token"].iter().any(|word| key.contains(word))
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text.clone()),
        Value::Integer(integer) => Some(integer.to_string()),
        Value::Float(float) => Some(float.to_string()),
        Value::Boolean(boolean) => Some(boolean.to_string()),
        Value::Array(_) | Value::Table(_) => None,
    }
}
