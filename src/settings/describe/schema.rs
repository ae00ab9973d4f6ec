//! The JSON Schema of the configuration. Editors complete from it, and a pipeline can refuse a file before anything runs.

use serde_json::{Map, Value as Json, json};

use crate::describe::entry::{Form, Setting, ValueRule};
use crate::{describe::reference, layers::tree::Value};

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The schema of a configuration file.
pub fn config() -> Json {
    titled("Configuration of loopwarden", table(&reference::settings()))
}

pub(crate) fn titled(title: &str, schema: Json) -> Json {
    let mut whole = Map::from_iter([("$schema".to_owned(), DIALECT.into()), ("title".to_owned(), title.into())]);
    if let Json::Object(schema) = schema {
        whole.extend(schema);
    }
    Json::Object(whole)
}

/// A table of these settings and no others.
pub(crate) fn table(settings: &[Setting]) -> Json {
    let properties: Map<String, Json> = settings.iter().map(|setting| (setting.key.to_owned(), property(setting))).collect();
    json!({ "type": "object", "additionalProperties": false, "properties": properties })
}

fn property(setting: &Setting) -> Json {
    let kind = match &setting.form {
        Form::Table(inner) => return table(inner),
        Form::Tables(inner) => {
            let description = Json::from(setting.text);
            return json!({ "type": "array", "description": description, "items": table(inner) });
        }
        Form::Open => return json!({ "type": "object" }),
        Form::Integer => "integer",
        Form::Boolean => "boolean",
        Form::Text | Form::Path | Form::Choice { .. } => "string",
    };
    let mut rules = Map::from_iter([("type".to_owned(), kind.into()), ("description".to_owned(), setting.description().into())]);
    if let Form::Choice { words, is_closed: true } = &setting.form {
        rules.insert("enum".to_owned(), words.clone().into());
    }
    if let Some(ValueRule::Range(least, most)) = setting.rule {
        rules.insert("minimum".to_owned(), least.into());
        rules.insert("maximum".to_owned(), most.into());
    }
    let default = match &setting.default {
        Some(Value::Text(text)) => Some(text.as_str().into()),
        Some(Value::Integer(integer)) => Some((*integer).into()),
        Some(Value::Boolean(boolean)) => Some((*boolean).into()),
        _ => None,
    };
    rules.extend(default.map(|default| ("default".to_owned(), default)));
    Json::Object(rules)
}
