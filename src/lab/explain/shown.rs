//! What an inspection shows.

use serde_json::Value;

use crate::report::Table;

/// What an inspection came to: a document, and the same for people.
pub struct Shown {
    /// The document.
    pub json: Value,
    /// The same for people.
    pub parts: Vec<Part>,
}

/// A part of what people read.
pub enum Part {
    /// Lines.
    Text(String),
    /// Rows.
    Table(Table),
}
