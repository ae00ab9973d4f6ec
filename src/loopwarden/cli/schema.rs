//! `schema`: the machine form of events, commands and state rows, embedded.

use clap::ValueEnum as _;

use crate::cli::args::{SchemaCommand, SchemaName};
use crate::{failure::Outcome, output::Output};

const fn text_of(name: SchemaName) -> &'static str {
    match name {
        SchemaName::ToolEvent => include_str!("../../../config/schemas/tool-event.v1.schema.json"),
        SchemaName::Command => include_str!("../../../config/schemas/command.v1.schema.json"),
        SchemaName::SessionState => include_str!("../../../config/schemas/session-state.v1.schema.json"),
        SchemaName::AsyncApi => include_str!("../../../config/schemas/asyncapi.yaml"),
    }
}

/// Prints a schema, or the names.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(command: &SchemaCommand) -> Outcome {
    let mut out = Output::stdout();
    let SchemaCommand::Print { name } = command;
    match name {
        Some(name) => out.text(text_of(*name))?,
        None => {
            for value in SchemaName::value_variants().iter().filter_map(clap::ValueEnum::to_possible_value) {
                out.line(value.get_name())?;
            }
        }
    }
    Ok(out.flush()?)
}
