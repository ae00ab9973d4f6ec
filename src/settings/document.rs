//! The two kinds of files, configuration and policy: their keys, and what is known of each. `explain` and the JSON Schemas follow from it.

use std::collections::BTreeMap;

use loopwarden_core::policy::{Detector, PROFILES, Policy, Profile, Setting};
use loopwarden_core::setting::Form;
use serde_json::{Map, Value as Json, json};

use crate::layers::tree::{Table, Value, join, value_to_toml};
use crate::{layers::documented, messages::diagnostic::Diagnostics, policy::layers, policy::tools, process::config::Config};

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Keys that belong to one layer of a policy, and what they mean.
const OF_LAYER: [[&str; 2]; 2] = [
    ["base", "profile that this policy begins from"],
    [tools::OF_BASE, "false: none of the [[tool]] entries of the base; otherwise those of this policy stand behind them"],
];

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
/// None: the profiles are TOML.
pub fn keys() -> Result<Vec<Key>, Diagnostics> {
    let mut keys = Vec::new();
    for [path, text] in OF_LAYER.map(|of| of.map(str::to_owned)) {
        keys.push(Key { path, file: "a policy", text, range: String::new(), default: None });
    }
    for document in [Document::policy()?, Document::configuration()] {
        document.keys(&document.shape, "", "", &mut keys);
    }
    Ok(keys)
}

/// The schema of a configuration file. Editors complete from it, and a pipeline can refuse a file before anything runs.
pub fn config_schema() -> Json {
    let document = Document::configuration();
    titled("Configuration of loopwarden", document.object(&document.shape, ""))
}

/// The schema of a policy file. What it leaves out comes from its base, so that no key is required and no default is given.
///
/// # Errors
/// None: the profiles are TOML.
pub fn policy_schema() -> Result<Json, Diagnostics> {
    let document = Document::policy()?;
    let mut schema = titled("Policy of loopwarden", document.object(&document.shape, ""));
    let [[base, base_text], [base_tools, base_tools_text]] = OF_LAYER;
    if let Some(properties) = schema.get_mut("properties").and_then(Json::as_object_mut) {
        let names = PROFILES.map(|profile| profile.name);
        properties.insert(base.to_owned(), json!({ "enum": names, "description": base_text }));
        properties.insert(base_tools.to_owned(), json!({ "type": "boolean", "description": base_tools_text }));
    }
    Ok(schema)
}

fn titled(title: &str, schema: Json) -> Json {
    let mut whole = Map::from_iter([("$schema".to_owned(), DIALECT.into()), ("title".to_owned(), title.into())]);
    if let Json::Object(schema) = schema {
        whole.extend(schema);
    }
    Json::Object(whole)
}

/// A kind of file.
pub(crate) struct Document {
    file: &'static str,
    /// A value of the right type at every key; of a list of tables the first has them all, and an empty table takes any keys.
    shape: Table,
    /// What is known of a key of a table.
    setting: fn(&str, &str) -> Option<&'static Setting>,
    /// Texts that stand in the file alone, by key.
    texts: BTreeMap<String, String>,
    /// Whether a file alone has all its defaults, so that they are written down for editors.
    has_defaults: bool,
}

impl Document {
    fn policy() -> Result<Self, Diagnostics> {
        let (shape, texts) = (layers::shape()?, comments(Profile::DEFAULT.text));
        Ok(Self { file: "a policy", shape, setting: of_policy, texts, has_defaults: false })
    }

    fn configuration() -> Self {
        let (shape, setting) = (documented::shape(Config::SETTINGS), of_configuration);
        Self { file: "the configuration", shape, setting, texts: BTreeMap::new(), has_defaults: true }
    }

    fn text(&self, path: &str, setting: Option<&Setting>) -> Option<String> {
        let described = setting.map(Setting::description).filter(|text| !text.is_empty());
        described.or_else(|| self.texts.get(path).cloned())
    }

    /// `row` is the text of the row that the table is written in, if it is one of a row.
    fn keys(&self, shape: &Table, table: &str, row: &str, keys: &mut Vec<Key>) {
        for (name, node) in shape {
            let (path, setting) = (join(table, name), (self.setting)(table, name));
            let text = self.text(&path, setting);
            match inner(&node.value) {
                Value::Table(inner) if !inner.is_empty() => self.keys(inner, &path, text.as_deref().unwrap_or_default(), keys),
                value => {
                    let range = setting.map(|setting| (setting.range)()).unwrap_or_default();
                    let has_default = !matches!(value, Value::Table(_)) && setting.is_none_or(|setting| (setting.is_filled)());
                    let default = has_default.then(|| value_to_toml(value).to_string());
                    keys.push(Key { path, file: self.file, text: text.unwrap_or_else(|| row.to_owned()), range, default });
                }
            }
        }
    }

    fn object(&self, shape: &Table, path: &str) -> Json {
        if shape.is_empty() {
            return json!({ "type": "object" });
        }
        let properties: Map<String, Json> =
            shape.iter().map(|(key, node)| (key.clone(), self.property(&node.value, path, key))).collect();
        json!({ "type": "object", "additionalProperties": false, "properties": properties })
    }

    fn property(&self, value: &Value, table: &str, key: &str) -> Json {
        let path = join(table, key);
        let setting = (self.setting)(table, key);
        let mut schema = self.typed(value, &path);
        let Json::Object(rules) = &mut schema else { return schema };
        rules.extend(self.text(&path, setting).map(|text| ("description".to_owned(), text.into())));
        let Some(setting) = setting else { return schema };
        match (setting.form)() {
            Form::Words { words, is_closed: true } => rules.extend([("enum".to_owned(), words.into())]),
            Form::Range(least, most) => {
                rules.extend([("minimum".to_owned(), least.into()), ("maximum".to_owned(), most.into())]);
            }
            _ => {}
        }
        if self.has_defaults && !setting.default.is_empty() && (setting.is_filled)() {
            rules.insert("default".to_owned(), json!(value_to_toml(value)));
        }
        schema
    }

    fn typed(&self, value: &Value, path: &str) -> Json {
        match value {
            Value::Table(table) => self.object(table, path),
            Value::Array(elements) => {
                let items = elements.first().map_or_else(|| json!({ "type": "string" }), |node| self.typed(&node.value, path));
                json!({ "type": "array", "items": items })
            }
            Value::Text(_) => json!({ "type": "string" }),
            Value::Integer(_) => json!({ "type": "integer" }),
            Value::Float(_) => json!({ "type": "number" }),
            Value::Boolean(_) => json!({ "type": "boolean" }),
        }
    }
}

/// Of a list of tables the first one.
fn inner(value: &Value) -> &Value {
    match value {
        Value::Array(entries) => match entries.first().map(|first| &first.value) {
            Some(first @ Value::Table(_)) => first,
            _ => value,
        },
        _ => value,
    }
}

fn of_policy(table: &str, key: &str) -> Option<&'static Setting> {
    let detector = table.strip_prefix("detectors.").and_then(Detector::from_name).map(Detector::settings);
    let section = || Policy::SECTIONS.iter().find(|section| section.path == table).map(|section| section.settings);
    detector.or_else(section)?.iter().find(|setting| setting.key == key)
}

fn of_configuration(table: &str, key: &str) -> Option<&'static Setting> {
    let named = |settings: &'static [Setting], key: &str| settings.iter().find(|setting| setting.key == key);
    let mut settings = Config::SETTINGS;
    for part in table.split('.').filter(|part| !part.is_empty()) {
        settings = match (named(settings, part)?.form)() {
            Form::Table(inner) | Form::Tables(inner) => inner,
            _ => return None,
        };
    }
    named(settings, key)
}

/// The comment behind each key or above it, by its path.
fn comments(text: &str) -> BTreeMap<String, String> {
    let (mut table, mut above) = (String::new(), "");
    let mut found = BTreeMap::new();
    for line in text.lines() {
        let above = std::mem::replace(&mut above, line.strip_prefix("# ").unwrap_or_default());
        if let Some(name) = line.strip_prefix('[') {
            name.trim_start_matches('[').split(']').next().unwrap_or_default().clone_into(&mut table);
            continue;
        }
        let is_key = |key: &&str| {
            !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        };
        if let Some((key, rest)) = line.split_once(" = ").filter(|(key, _)| is_key(key)) {
            let text = rest.split_once(" # ").map_or(above, |(_, text)| text.trim());
            // Of several tables of an array the first documents all.
            found.entry(join(&table, key)).or_insert_with(|| text.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_follows_from_the_settings() {
        let schema = config_schema();
        let of = |path: &str| schema.pointer(path).cloned().unwrap_or_default();
        let text = "threads that consume and decide, at most 256; 0 = one per core; with Kafka one more adds up swarms";
        let lanes = json!({ "type": "integer", "description": text, "minimum": 0, "maximum": 256, "default": 0 });
        assert_eq!(of("/properties/lanes"), lanes);
        let text = "{words}: auto is text on a terminal and JSON otherwise".replace("{words}", "auto | text | json");
        let words = json!(["auto", "text", "json"]);
        let format = json!({ "type": "string", "description": text, "enum": words, "default": "auto" });
        assert_eq!(of("/properties/log/properties/format"), format);
        assert_eq!(of("/properties/data_dir/default"), Json::Null, "an example is no default");
        assert_eq!(of("/properties/token/items/properties/file/type"), "string");
        assert_eq!(of("/properties/kafka/properties/librdkafka/type"), "object");
    }

    #[test]
    fn another_value_than_the_words_may_follow_them() {
        assert_eq!(
            of_configuration("kafka", "start").map(|start| start.description().starts_with("earliest | latest | a time")),
            Some(true)
        );
        let (config, policy) = (config_schema(), policy_schema().unwrap());
        assert_eq!(config.pointer("/properties/kafka/properties/start/enum"), None);
        assert_eq!(policy.pointer("/properties/budget/items/properties/scope/enum"), None, "a label has a key behind it");
        assert!(policy.pointer("/properties/budget/items/properties/per/enum").is_some());
    }
}
