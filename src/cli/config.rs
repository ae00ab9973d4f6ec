//! `config`: a file to begin from, what is in force and where it came from, every key with its type.

use serde_json::Map;
use serde_json::Value;

use crate::cli::args::ConfigCommand;
use crate::cli::args::LogArgs;
use crate::cli::failure::Outcome;
use crate::cli::output::Output;
use crate::cli::setup;
use crate::config::DEFAULT_TOML;
use crate::config::Layers;
use crate::config::Origin;
use crate::report::Column;
use crate::report::Table;

/// Prints settings.
///
/// # Errors
/// Every problem of the settings.
pub fn run(command: &ConfigCommand, log: &LogArgs) -> Outcome {
    let mut out = Output::stdout();
    match command {
        ConfigCommand::Init => out.text(to_begin_from())?,
        ConfigCommand::Schema => out.line(format!("{:#}", schema()?))?,
        ConfigCommand::Print { config, effective, output } => {
            let loaded = setup::load(config, log)?;
            let mut table = Table::new(&[Column::text("key"), Column::text("value"), Column::text("origin")]);
            for value in loaded.effective() {
                if *effective || value.origin != Origin::Default {
                    table.row(vec![value.key.into(), value.value.into(), value.origin.to_string().into()]);
                }
            }
            out.table(&table, *output)?;
        }
    }
    Ok(out.flush()?)
}

/// The defaults, with the keys of Kafka behind a `#`: written ones without brokers are a mistake.
fn to_begin_from() -> String {
    let mut is_kafka = false;
    let line = |line: &str| {
        if line.starts_with('[') {
            is_kafka = line.starts_with("[kafka");
        }
        let is_key = line.starts_with(|letter: char| letter.is_ascii_lowercase());
        if is_kafka && is_key { format!("#{line}\n") } else { format!("{line}\n") }
    };
    DEFAULT_TOML.lines().map(line).collect()
}

/// Every key that has a default, with its type, its default and its line of documentation; those without one are optional text.
fn schema() -> Result<Value, crate::cli::failure::Failure> {
    let defaults = crate::config::load(&Layers::default())?;
    let known: std::collections::BTreeMap<String, String> = defaults
        .effective()
        .into_iter()
        .filter(|value| value.origin == Origin::Default)
        .map(|value| (value.key, value.value))
        .collect();
    let mut table = String::new();
    let mut keys = Map::new();
    for line in DEFAULT_TOML.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            table = format!("{name}.");
            continue;
        }
        let is_optional = line.starts_with('#');
        let line = line.strip_prefix('#').unwrap_or(line);
        let Some((key, rest)) =
            line.split_once(" = ").filter(|(key, _)| key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
        else {
            continue;
        };
        let path = format!("{table}{key}");
        let description = rest.split_once(" # ").map_or("", |(_, text)| text.trim());
        let (kind, default) =
            match known.get(&path).filter(|_| !is_optional).and_then(|value| serde_json::from_str::<Value>(value).ok()) {
                Some(value @ Value::Number(_)) => ("integer", value),
                Some(value @ Value::Bool(_)) => ("boolean", value),
                Some(value) => ("string", value),
                None => ("string", Value::Null),
            };
        keys.insert(path, serde_json::json!({ "type": kind, "default": default, "description": description }));
    }
    Ok(Value::Object(keys))
}
