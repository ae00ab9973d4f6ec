//! What follows from the settings for people and for the check of layers: their defaults, their shape, the documented file.

use std::fmt::Write as _;

use crate::describe::entry::{Entry as _, Form, Setting};
use crate::layers::tree::{Table, Value, join};
use crate::{messages::diagnostic::Origin, process::config::Config};

const HEADER: &str = "\
# Every setting of loopwarden with its default. What has none stands behind a `#` that touches it.
#
# Layers: these defaults < a file < environment < flags. In the environment a key is LOOPWARDEN_ and its path with __ between
# levels (LOOPWARDEN_KAFKA__BOOTSTRAP_SERVERS; an empty variable counts as not set), as a flag it is --set kafka.bootstrap_servers=…
# Paths in a file are relative to that file. Nothing is substituted inside files: secrets are named by *_file.

";

/// Columns to which a key and its value are filled before the text; longer ones are not cut.
const TEXT_COLUMN: usize = 40;

/// Every setting of the configuration.
pub(crate) fn settings() -> Vec<Setting> {
    match Config::form() {
        Form::Table(settings) => settings,
        _ => Vec::new(),
    }
}

/// The layer that holds the defaults.
pub(crate) fn defaults_of(settings: &[Setting]) -> Table {
    table(settings, |setting| setting.default.clone())
}

/// A value of the right type at every key; an empty table takes any keys.
pub(crate) fn shape_of(settings: &[Setting]) -> Table {
    let mut shape = table(settings, |setting| setting.default.clone().or_else(|| setting.example.clone()));
    for setting in settings {
        if let Form::Tables(inner) = &setting.form {
            let element = Value::Table(shape_of(inner)).with_origin(&Origin::Default);
            shape.insert(setting.key.to_owned(), Value::Array(vec![element]).with_origin(&Origin::Default));
        }
    }
    shape
}

fn table(settings: &[Setting], value: impl Fn(&Setting) -> Option<Value> + Copy) -> Table {
    let node = |setting: &Setting| {
        let value = match &setting.form {
            Form::Table(inner) => Value::Table(table(inner, value)),
            Form::Tables(_) => return None,
            Form::Open => Value::Table(Table::new()),
            _ => value(setting)?,
        };
        Some((setting.key.to_owned(), value.with_origin(&Origin::Default)))
    };
    settings.iter().filter_map(node).collect()
}

/// The documented file of defaults: `config/default.toml`.
pub fn default_file() -> String {
    file(HEADER, &settings())
}

/// A file of these settings with their texts.
pub(crate) fn file(header: &str, settings: &[Setting]) -> String {
    let mut text = header.to_owned();
    leaves(settings, &mut text);
    tables(settings, "", "", &mut text);
    text
}

fn leaves(settings: &[Setting], text: &mut String) {
    marked_leaves(settings, "", text);
}

/// Lines that begin with `mark`, or with one where there is no default.
fn marked_leaves(settings: &[Setting], mark: &str, text: &mut String) {
    for setting in settings {
        let (mark, value) = match (&setting.default, &setting.example) {
            (Some(value), _) => (mark, value),
            (None, Some(value)) => ("#", value),
            (None, None) => continue,
        };
        let line = format!("{mark}{} = {}", setting.key, written(value));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{line:TEXT_COLUMN$} # {}", setting.description());
    }
}

/// Tables below the leaves; what holds nothing but tables has no head of its own, and its text describes those.
fn tables(settings: &[Setting], path: &str, above: &str, text: &mut String) {
    for setting in settings {
        let path = join(path, setting.key);
        let _ = match &setting.form {
            Form::Table(inner) if inner.iter().any(|setting| setting.default.is_some() || setting.example.is_some()) => {
                let _ = writeln!(text, "\n# {}\n[{path}]", setting.text);
                leaves(inner, text);
                tables(inner, &path, "", text);
                continue;
            }
            Form::Table(inner) => {
                tables(inner, &path, setting.text, text);
                continue;
            }
            Form::Tables(inner) => {
                let _ = writeln!(text, "\n# {}\n#[[{path}]]", setting.text);
                marked_leaves(inner, "#", text);
                continue;
            }
            Form::Open if above.is_empty() => writeln!(text, "\n[{path}] # {}", setting.text),
            Form::Open => writeln!(text, "\n[{path}] # {above}"),
            _ => Ok(()),
        };
    }
}

/// As TOML, digits of long numbers in groups of three.
pub(crate) fn written(value: &Value) -> String {
    match value {
        Value::Integer(integer) => {
            let digits = integer.unsigned_abs().to_string();
            let groups: Vec<&str> =
                digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
            format!("{}{}", if *integer < 0 { "-" } else { "" }, groups.join("_"))
        }
        Value::Text(text) => format!("{text:?}"),
        Value::Boolean(boolean) => boolean.to_string(),
        Value::Float(_) | Value::Array(_) | Value::Table(_) => String::new(),
    }
}
