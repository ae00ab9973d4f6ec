//! Log lines on standard error: text on a terminal, JSON otherwise; the filter can be changed while the process runs.

use std::io;
use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;

/// How lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Text on a terminal, JSON otherwise.
    #[default]
    Auto,
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// A filter that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("log filter {filter:?} cannot be understood: {cause}")]
pub struct BadFilter {
    /// As written.
    pub filter: String,
    /// What is wrong.
    pub cause: String,
}

/// Changes the filter of the running process. Clones change the same one.
#[derive(Debug, Clone)]
pub struct LogControl {
    handle: reload::Handle<EnvFilter, Registry>,
}

impl LogControl {
    /// The filter in force.
    #[must_use]
    pub fn filter(&self) -> String {
        self.handle.with_current(ToString::to_string).unwrap_or_default()
    }

    /// Puts another filter in force.
    ///
    /// # Errors
    /// The filter cannot be understood; the old one stays.
    pub fn set(&self, filter: &str) -> Result<(), BadFilter> {
        let parsed = parse(filter)?;
        self.handle.reload(parsed).map_err(|error| BadFilter { filter: filter.to_owned(), cause: error.to_string() })
    }
}

/// Checks a filter, as `info` or `warn,loopwarden::task=debug`.
///
/// # Errors
/// It cannot be understood.
pub fn check(filter: &str) -> Result<(), BadFilter> {
    parse(filter).map(|_| ())
}

fn parse(filter: &str) -> Result<EnvFilter, BadFilter> {
    EnvFilter::builder().parse(filter).map_err(|error| BadFilter { filter: filter.to_owned(), cause: error.to_string() })
}

/// Starts to log. A second call in a process changes nothing but answers with a control of its own.
///
/// # Errors
/// The filter cannot be understood.
pub fn start(format: Format, filter: &str) -> Result<LogControl, BadFilter> {
    let (filter, handle) = reload::Layer::new(parse(filter)?);
    let is_terminal = io::stderr().is_terminal();
    let is_json = match format {
        Format::Auto => !is_terminal,
        Format::Text => false,
        Format::Json => true,
    };
    let lines = if is_json {
        tracing_subscriber::fmt::layer()
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .with_writer(io::stderr)
            .boxed()
    } else {
        let is_coloured = is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        tracing_subscriber::fmt::layer().with_ansi(is_coloured).with_writer(io::stderr).boxed()
    };
    // Fails only where somebody has installed a subscriber already, as another test of the same process.
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
    Ok(LogControl { handle })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_makes_no_sense_is_told_and_the_old_one_stays() {
        assert_eq!(check("warn,loopwarden::task=debug"), Ok(()));
        assert!(check("loopwarden=loud").is_err());
    }
}
