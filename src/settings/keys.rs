//! Every key of a policy and of the configuration, with what is known of it: for `explain`.

use loopwarden_core::policy::{Detector, Policy, Setting as PolicySetting};

use crate::describe::entry::{Form, Setting, ValueRule};
use crate::describe::reference::{settings, written};
use crate::layers::tree::{Node, Table, Value, join, value_to_toml};
use crate::messages::diagnostic::Diagnostics;
use crate::policy::{layers, schema};

/// A key that a file may hold.
#[derive(Debug, Clone)]
pub struct Key {
    /// Dotted path, as `kafka.group` or `budget.agents`.
    pub path: String,
    /// What kind of file it is for.
    pub file: &'static str,
    /// What it means, with its unit.
    pub text: String,
    /// What it may be; empty where the text has it.
    pub range: String,
    /// Its value where no layer sets it, as TOML; none where it has none.
    pub default: Option<String>,
}

/// All keys of policies, then all of the configuration.
///
/// # Errors
/// None: the shipped profiles are TOML.
pub fn keys() -> Result<Vec<Key>, Diagnostics> {
    let mut keys = Vec::new();
    for [path, text] in schema::OF_LAYER.map(|of| of.map(str::to_owned)) {
        keys.push(Key { path, file: "a policy", text, range: String::new(), default: None });
    }
    of_policy(&layers::shape()?, "", &schema::texts(), "", &mut keys);
    of_configuration(&settings(), "", &mut keys);
    Ok(keys)
}

/// `row` is the text of the row that the table is written in, if it is one of a row.
fn of_policy(shape: &Table, table: &str, texts: &schema::Texts, row: &str, keys: &mut Vec<Key>) {
    for (name, node) in shape {
        let path = join(table, name);
        // Of a list of tables the first entry has every key.
        let value = match &node.value {
            Value::Array(entries) => entries.first().filter(|first| matches!(first.value, Value::Table(_))).unwrap_or(node),
            _ => node,
        };
        match value {
            Node { value: Value::Table(inner), .. } => {
                of_policy(inner, &path, texts, described(table, name).map_or("", |setting| setting.text), keys);
            }
            Node { value, .. } => {
                let setting = described(table, name);
                let text = setting.map(|setting| setting.text).filter(|text| !text.is_empty());
                let text = text.or_else(|| texts.get(&path).map(String::as_str)).unwrap_or(row).to_owned();
                let range = setting.map(|setting| (setting.range)()).unwrap_or_default();
                keys.push(Key { path, file: "a policy", text, range, default: Some(value_to_toml(value).to_string()) });
            }
        }
    }
}

/// A setting of a policy as the core describes it.
fn described(table: &str, key: &str) -> Option<&'static PolicySetting> {
    let detector = table.strip_prefix("detectors.").and_then(Detector::from_name).map(Detector::settings);
    let section = || Policy::SECTIONS.iter().find(|section| section.path == table).map(|section| section.settings);
    detector.or_else(section)?.iter().find(|setting| setting.key == key)
}

fn of_configuration(settings: &[Setting], table: &str, keys: &mut Vec<Key>) {
    for setting in settings {
        let path = join(table, setting.key);
        match &setting.form {
            Form::Table(inner) | Form::Tables(inner) => of_configuration(inner, &path, keys),
            _ => {
                let range = match setting.rule {
                    Some(ValueRule::Range(least, most)) => format!("{least} to {most}"),
                    _ => String::new(),
                };
                let default = setting.default.as_ref().map(written);
                keys.push(Key { path, file: "the configuration", text: setting.description(), range, default });
            }
        }
    }
}
