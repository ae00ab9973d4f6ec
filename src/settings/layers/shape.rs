//! The shape of a file is the shape of its defaults: their keys are the known keys, their types the expected ones.

use crate::layers::names::{environment_name, misplaced};
use crate::layers::tree::{self, Node, Table, Value, join};
use crate::messages::diagnostic::{Diagnostic, Origin, closest};

/// Letters of which a known key may be the rest: fewer begin too many.
const BEGINNING_MIN: usize = 3;

/// Codes of the two kinds of problems.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Codes {
    /// Code of an unknown key.
    pub(crate) unknown: &'static str,
    /// Of a value of the wrong type.
    pub(crate) bad: &'static str,
}

/// Compares a layer with the shape. What does not fit is reported and taken out, so that the rest can still be checked.
/// An empty table in the shape stands for any keys.
pub(crate) fn check(layer: &mut Table, shape: &Table, path: &str, codes: Codes, diagnostics: &mut Vec<Diagnostic>) {
    layer.retain(|key, node| {
        let path = join(path, key);
        let Some(expected) = shape.get(key) else {
            diagnostics.push(unknown(&path, key, node, shape, codes));
            return false;
        };
        fits(node, &expected.value, &path, codes, diagnostics)
    });
}

fn unknown(path: &str, key: &str, node: &Node, shape: &Table, codes: Codes) -> Diagnostic {
    let path: String = path.chars().take(256).filter(|letter| !letter.is_control()).collect();
    let table = path.rsplit_once('.').map(|(table, _)| table.to_owned()).unwrap_or_default();
    unknown_key(codes.unknown, &path, (&path, key), shape, &node.key).at(&node.key, table)
}

/// A key that is not among the known ones of its table, with what may have been meant: another one of them, or a key of policies.
/// `written` is all of it, `at` the path to the first part that is unknown and that part.
pub(crate) fn unknown_key(code: &'static str, written: &str, at: (&str, &str), known: &Table, origin: &Origin) -> Diagnostic {
    let meant =
        meant(written, at.0, at.1, known, origin).map(|meant| format!(" (did you mean \"{meant}\"?)")).unwrap_or_default();
    let diagnostic = Diagnostic::new(code, format!("unknown key \"{written}\"{meant}"));
    // In a policy nothing is misplaced: the keys that it knows are not unknown.
    match misplaced(at.0) {
        Some(help) => diagnostic.help(help),
        None => diagnostic,
    }
}

/// What was meant, if that is clear: a key with `_` where levels are divided, or the other way round, as a variable where it
/// came from one; else a key of the same table that is like it, or begins with it.
fn meant(written: &str, path: &str, key: &str, known: &Table, origin: &Origin) -> Option<String> {
    let above = path.strip_suffix(key).unwrap_or_default();
    let rest = written.strip_prefix(above).unwrap_or(written).replace('.', "_");
    if let Some(leaf) = tree::effective(known).into_iter().find(|leaf| leaf.key.replace('.', "_") == rest) {
        let path = format!("{above}{}", leaf.key);
        return Some(if matches!(origin, Origin::Environment(_)) { environment_name(&path) } else { path });
    }
    let names: Vec<&str> = known.keys().map(String::as_str).collect();
    let begun = || names.iter().copied().find(|name| key.len() >= BEGINNING_MIN && name.starts_with(key));
    closest(key, names.iter().copied()).or_else(begun).map(str::to_owned)
}

fn fits(node: &mut Node, expected: &Value, path: &str, codes: Codes, diagnostics: &mut Vec<Diagnostic>) -> bool {
    let before = diagnostics.len();
    match (&mut node.value, expected) {
        (Value::Text(_), Value::Text(_))
        | (Value::Integer(_), Value::Integer(_))
        | (Value::Float(_), Value::Float(_))
        | (Value::Boolean(_), Value::Boolean(_)) => {}
        // `factor = 1` is meant as `1.0`.
        (Value::Integer(integer), Value::Float(_)) => node.value = Value::Float(*integer as f64),
        (Value::Table(table), Value::Table(shape)) => {
            if !shape.is_empty() {
                check(table, shape, path, codes, diagnostics);
            }
            return true;
        }
        (Value::Array(elements), Value::Array(shape)) => {
            let text = Value::Text(String::new());
            let element = shape.first().map_or(&text, |node| &node.value);
            for (index, node) in elements.iter_mut().enumerate() {
                fits(node, element, &format!("{path}[{index}]"), codes, diagnostics);
            }
            // A table in an array stays, without its bad keys; an array of anything else goes as a whole.
            return diagnostics.len() == before || matches!(element, Value::Table(_));
        }
        (actual, expected) => {
            let message = format!("{path} is {}, but must be {}", shown(actual), kind(expected));
            diagnostics.push(Diagnostic::new(codes.bad, message).at(&node.origin, path));
            return false;
        }
    }
    true
}

/// What a value is, for people.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Text(_) => "text",
        Value::Integer(_) => "an integer",
        Value::Float(_) => "a number",
        Value::Boolean(_) => "true or false",
        Value::Array(_) => "an array",
        Value::Table(_) => "a table",
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("the text {:?}", text.chars().take(64).collect::<String>()),
        Value::Integer(integer) => integer.to_string(),
        Value::Float(float) if float.abs() >= i64::MAX as f64 => "a number of more than 64 bits".to_owned(),
        Value::Float(float) => format!("{float:?}"),
        Value::Boolean(boolean) => boolean.to_string(),
        Value::Array(_) | Value::Table(_) => kind(value).to_owned(),
    }
}
