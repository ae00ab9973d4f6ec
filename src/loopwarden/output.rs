//! Standard output: locked, buffered, and quiet when the reader has gone. Data goes here, everything else to standard error.

use std::io::{BufWriter, IsTerminal, StdoutLock, Write};
use std::{io, sync::OnceLock};

use clap::ValueEnum;
use loopwarden_lab::report::{Section, Table};

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

/// Colours and bold text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Default)]
pub enum ColourWhen {
    /// On a terminal, unless `NO_COLOR` is set or `TERM` is dumb.
    #[default]
    Auto,
    /// Also into files and pipes.
    Always,
    /// Nowhere.
    Never,
}

/// How the whole command speaks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Manner {
    /// Nothing on standard error but errors.
    pub is_quiet: bool,
    /// Whether there are colours.
    pub colour: ColourWhen,
}

static MANNER: OnceLock<Manner> = OnceLock::new();

/// Settles how this process speaks; the first time counts.
pub fn settle(manner: Manner) {
    // A test may run several command lines in one process.
    let _ = MANNER.set(manner);
}

fn manner() -> Manner {
    MANNER.get().copied().unwrap_or_default()
}

/// Whether only errors are said.
pub fn is_quiet() -> bool {
    manner().is_quiet
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

    /// Writes the parts of a report for people.
    ///
    /// # Errors
    /// As any write.
    pub fn sections(&mut self, sections: &[Section]) -> io::Result<()> {
        for (at, section) in sections.iter().enumerate() {
            if at > 0 {
                self.line("")?;
            }
            if !section.lead.is_empty() {
                self.line(&section.lead)?;
            }
            if let Some(table) = &section.table {
                self.table(table, OutputFormat::Table)?;
            }
            section.notes.iter().try_for_each(|note| self.line(note))?;
        }
        Ok(())
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

/// Whether standard output may be given bold text and colours.
pub fn is_styled() -> bool {
    may_style(&io::stdout())
}

/// Whether something may be given bold text and colours.
pub fn may_style(to: &impl IsTerminal) -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    match manner().colour {
        ColourWhen::Always => true,
        ColourWhen::Never => false,
        ColourWhen::Auto => to.is_terminal() && !is_set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb"),
    }
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

/// Says something on standard error that is no error: a notice, a warning, how it goes. Not where only errors are wanted.
pub fn say(message: impl AsRef<str>) {
    if !is_quiet() {
        complain(message);
    }
}

/// Says on standard error why something failed. Whether anybody reads it changes nothing.
pub fn complain(message: impl AsRef<str>) {
    let _ = writeln!(io::stderr().lock(), "{}", message.as_ref());
}
