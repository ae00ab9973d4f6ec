//! A part of what people read: sentences, rows, and sentences about them. A report is a list of such parts, with an empty line between two.

use crate::report::Table;

/// Sentences and rows that belong together.
#[derive(Debug, Clone, Default)]
pub struct Section {
    /// Above the rows, lines without the end of the last.
    pub lead: String,
    pub table: Option<Table>,
    /// Below the rows, a line each.
    pub notes: Vec<String>,
}

impl Section {
    /// Sentences alone.
    pub fn text(lead: impl Into<String>) -> Self {
        Self { lead: lead.into(), ..Self::default() }
    }

    /// Rows below sentences; nothing above them where these are empty.
    pub fn rows(lead: impl Into<String>, table: Table) -> Self {
        Self { lead: lead.into(), table: Some(table), notes: Vec::new() }
    }
}
