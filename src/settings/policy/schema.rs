//! The JSON Schema of a policy, made from what documents it: the default profile with all its keys.
//!
//! Types are those of the values, and the words of a choice stand at the beginning of its comment (`# shadow | live: …`).

use std::collections::BTreeMap;

use loopwarden_core::policy::{PROFILES, Profile};
use serde_json::{Map, Value as Json, json};

use crate::layers::tree::{Table, Value, join};
use crate::messages::diagnostic::Diagnostics;
use crate::{describe::schema::titled, policy::layers, policy::tools};

/// The comment behind each key, by its path.
pub(crate) type Texts = BTreeMap<String, String>;

/// Keys that belong to one layer, and what they mean.
pub(crate) const OF_LAYER: [[&str; 2]; 2] = [
    ["base", "profile that this policy begins from"],
    [tools::OF_BASE, "false: none of the [[tool]] entries of the base; otherwise those of this policy stand behind them"],
];

/// The texts of the default policy, by key.
pub(crate) fn texts() -> Texts {
    comments(Profile::DEFAULT.text)
}

/// The schema of a policy file. What it leaves out comes from its base, so that no key is required and no default is given.
///
/// # Errors
/// None: the profiles are TOML.
pub fn policy() -> Result<Json, Diagnostics> {
    let shape = layers::shape()?;
    let mut schema = titled("Policy of loopwarden", object(&shape, "", &texts()));
    let [[base, base_text], [base_tools, base_tools_text]] = OF_LAYER;
    if let Some(properties) = schema.get_mut("properties").and_then(Json::as_object_mut) {
        let names = PROFILES.map(|profile| profile.name);
        properties.insert(base.to_owned(), json!({ "enum": names, "description": base_text }));
        properties.insert(base_tools.to_owned(), json!({ "type": "boolean", "description": base_tools_text }));
    }
    Ok(schema)
}

fn object(shape: &Table, path: &str, texts: &Texts) -> Json {
    // An empty table stands for any keys.
    if shape.is_empty() {
        return json!({ "type": "object" });
    }
    let properties: Map<String, Json> =
        shape.iter().map(|(key, node)| (key.clone(), property(&node.value, &join(path, key), texts))).collect();
    json!({ "type": "object", "additionalProperties": false, "properties": properties })
}

fn property(value: &Value, path: &str, texts: &Texts) -> Json {
    let mut schema = match value {
        Value::Table(table) => object(table, path, texts),
        Value::Array(elements) => {
            let items = elements.first().map_or_else(|| json!({ "type": "string" }), |node| property(&node.value, path, texts));
            json!({ "type": "array", "items": items })
        }
        Value::Text(_) => json!({ "type": "string" }),
        Value::Integer(_) => json!({ "type": "integer" }),
        Value::Float(_) => json!({ "type": "number" }),
        Value::Boolean(_) => json!({ "type": "boolean" }),
    };
    let Json::Object(rules) = &mut schema else { return schema };
    let text = texts.get(path);
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        rules.insert("description".to_owned(), text.as_str().into());
    }
    // Each detector has a mode; one comment stands for all.
    let is_mode = path.starts_with("detectors.") && path.rsplit('.').next() == Some("mode");
    let words = if is_mode { texts.get("detectors.similar_repeat.mode") } else { text };
    if let (Value::Text(_), Some(words)) = (value, words.and_then(|text| choice(text))) {
        rules.insert("enum".to_owned(), words.into());
    }
    schema
}

/// `auto | text | json: auto is …` gives three words; one that is no plain word means that other values are possible too.
fn choice(text: &str) -> Option<Vec<String>> {
    let is_mark = |(at, _): &(usize, &str)| text.get(at + 1..).is_some_and(|rest| rest.starts_with(' '));
    let end = text.match_indices([':', ';', ',']).find(is_mark).map_or(text.len(), |(at, _)| at);
    let words = text.get(..end)?;
    let words: Vec<&str> = words.split(" | ").map(str::trim).collect();
    let is_word =
        |word: &&str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    (words.len() > 1 && words.iter().all(is_word)).then(|| words.into_iter().map(str::to_owned).collect())
}

/// The comment behind each key or above it, by its path.
fn comments(text: &str) -> Texts {
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
    fn a_choice_is_read_from_the_beginning_of_a_comment() {
        assert_eq!(choice("shadow | live: live must be said"), Some(vec!["shadow".into(), "live".into()]));
        assert_eq!(choice("PLAIN | SCRAM-SHA-256; switches SASL on").map(|words| words.len()), Some(2));
        assert_eq!(choice("earliest | latest | a time as 2026-01-31T00:00:00Z: where"), None);
        assert_eq!(choice("agent | tenant | label:KEY, each of them"), None, "another one has a key behind it");
        assert_eq!(choice("address and port"), None);
    }
}
