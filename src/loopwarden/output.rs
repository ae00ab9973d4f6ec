//! Standard output: locked, buffered, and quiet when the reader has gone. Data goes here, everything else to standard error.

use std::io;
use std::io::{BufWriter, IsTerminal as _, StdoutLock, Write};

use clap::ValueEnum;
use loopwarden_lab::report::Table;

use crate::failure::Outcome;

/// Form of the data on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Default)]
pub enum OutputFormat {
    /// Aligned text, for people.
    #[default]
    Table,
    /// One JSON object a line.
    Ndjson,
    /// One JSON document.
    Json,
    /// Comma-separated values with a head.
    Csv,
}

/// Standard output of this process.
pub struct Output {
    writer: BufWriter<StdoutLock<'static>>,
}

impl Output {
    /// Locks it.
    pub fn stdout() -> Self {
        Self { writer: BufWriter::with_capacity(64 * 1024, io::stdout().lock()) }
    }

    /// Writes a line.
    ///
    /// # Errors
    /// As any write.
    pub fn line(&mut self, line: impl AsRef<str>) -> io::Result<()> {
        self.writer.write_all(line.as_ref().as_bytes())?;
        self.writer.write_all(b"\n")
    }

    /// Writes bytes as a line.
    ///
    /// # Errors
    /// As any write.
    pub fn bytes_line(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write_all(bytes)?;
        self.writer.write_all(b"\n")
    }

    /// Writes text as it is.
    ///
    /// # Errors
    /// As any write.
    pub fn text(&mut self, text: impl AsRef<str>) -> io::Result<()> {
        self.writer.write_all(text.as_ref().as_bytes())
    }

    /// Writes a table in a form.
    ///
    /// # Errors
    /// As any write.
    pub fn table(&mut self, table: &Table, format: OutputFormat) -> io::Result<()> {
        match format {
            OutputFormat::Table => self.text(table.to_text(width(), is_styled())),
            OutputFormat::Csv => self.text(table.to_csv()),
            OutputFormat::Json => self.line(serde_json::Value::Array(table.to_objects()).to_string()),
            OutputFormat::Ndjson => table.to_objects().iter().try_for_each(|object| self.line(object.to_string())),
        }
    }

    /// Hands everything over.
    ///
    /// # Errors
    /// As any write.
    pub fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Whether standard output is a terminal that may be given bold text and colours.
pub fn is_styled() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal() && !is_set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Columns of the terminal; `COLUMNS` goes before what it says itself. A pipe has no width.
pub fn width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let found = || terminal_size::terminal_size_of(io::stdout()).map(|(terminal_size::Width(columns), _)| usize::from(columns));
    told.or_else(found).filter(|columns| *columns >= 20)
}

/// Writes a line to standard output.
///
/// # Errors
/// As any write.
pub fn line(line: &str) -> Outcome {
    let mut out = Output::stdout();
    out.line(line)?;
    Ok(out.flush()?)
}

/// Says something on standard error. Whether anybody reads it changes nothing.
pub fn say(message: impl AsRef<str>) {
    let _ = writeln!(io::stderr().lock(), "{}", message.as_ref());
}
