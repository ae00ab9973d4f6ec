//! `config`: a file to begin from, what is in force and where it came from, JSON Schemas of both kinds of files.

use loopwarden_lab::report::Table;
use loopwarden_settings::{Origin, config_schema, default_file, policy_schema};
use serde::Serialize;

use crate::cli::args::{ConfigCommand, LogArgs, SchemaOf};
use crate::{cli::shared::setup, failure::Outcome, output::Output};

/// A setting in force.
#[derive(Serialize, Default)]
struct Setting {
    key: String,
    value: String,
    origin: String,
}

/// Prints settings.
///
/// # Errors
/// Every problem of the settings.
pub fn run(command: &ConfigCommand, log: &LogArgs) -> Outcome {
    let mut out = Output::stdout();
    match command {
        ConfigCommand::Init => out.text(to_begin_from())?,
        ConfigCommand::Schema { of } => {
            let schema = match of {
                SchemaOf::Config => config_schema(),
                SchemaOf::Policy => policy_schema()?,
            };
            out.line(format!("{schema:#}"))?;
        }
        ConfigCommand::Print { config, effective, output } => {
            let loaded = setup::load(config, log)?;
            let values = loaded.effective().into_iter().filter(|value| *effective || value.origin != Origin::Default);
            let rows = values.map(|value| Setting { key: value.key, value: value.value, origin: value.origin.to_string() });
            out.table(&Table::of(rows), *output)?;
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
    default_file().lines().map(line).collect()
}
