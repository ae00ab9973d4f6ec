//! What an inspection shows.

use loopwarden_lab::report::Table;
use serde_json::Value;

use crate::exit_code;
use crate::failure::Failure;

/// What an inspection came to: a document, and the same for people.
pub(super) struct Shown {
    pub(super) json: Value,
    pub(super) parts: Vec<Part>,
}

/// A part of what people read.
pub(super) enum Part {
    Text(String),
    Table(Table),
}

/// There is nothing of that name.
pub(super) fn not_found(what: &str) -> Failure {
    Failure::new(exit_code::FAILED, format!("error: {what}"))
}
