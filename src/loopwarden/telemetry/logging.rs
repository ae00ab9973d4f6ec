//! Log lines on standard error: text on a terminal, JSON otherwise; the filter can be changed while the process runs.

use std::io::{IsTerminal as _, Write as _};
use std::{io, panic, thread};

use loopwarden_settings::LogFormat;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, reload};
use tracing_subscriber::{filter::LevelFilter, fmt::time::time, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use crate::telemetry::lines::{Lines, Together};
use crate::{output, telemetry::json::JsonLines, telemetry::repeats::Repeats};

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
    repeats: Repeats,
}

impl LogControl {
    /// The filter in force.
    pub fn filter(&self) -> String {
        self.handle.with_current(ToString::to_string).unwrap_or_default()
    }

    /// Says which repeated lines were left out, once their window is over. To be called from time to time.
    pub fn tell_left_out(&self) {
        self.repeats.tell();
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
    let bad = |cause: String| BadFilter { filter: filter.to_owned(), cause };
    // A word that is no level would be the name of a target, and all lines of others would be off.
    let is_level = |directive: &str| {
        let word = directive.trim();
        word.contains(['=', '[']) || !word.is_empty() && word.parse::<LevelFilter>().is_ok()
    };
    if let Some(word) = filter.split(',').find(|directive| !is_level(directive)) {
        return Err(bad(format!(
            "{:?} is no level; there are off, error, warn, info, debug, trace, and target=level",
            word.trim()
        )));
    }
    EnvFilter::builder().parse(filter).map_err(|error| bad(error.to_string()))
}

/// Starts to log. A second call in a process changes nothing but answers with a control of its own.
///
/// # Errors
/// The filter cannot be understood.
pub fn start(format: LogFormat, filter: &str) -> Result<LogControl, BadFilter> {
    let (filter, handle) = reload::Layer::new(parse(filter)?);
    let repeats = Repeats::new();
    let is_terminal = io::stderr().is_terminal();
    let is_json = match format {
        LogFormat::Auto => !is_terminal,
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let lines = if is_json {
        tracing_subscriber::fmt::layer().with_writer(Lines).event_format(repeats.limit(JsonLines(time()))).boxed()
    } else {
        let is_coloured = output::may_style(&io::stderr());
        tracing_subscriber::fmt::layer()
            .with_ansi(is_coloured)
            .with_writer(Lines)
            .map_event_format(|format| repeats.limit(format))
            .boxed()
    };
    // Fails only where somebody has installed a subscriber already, as another test of the same process.
    let _ = tracing_subscriber::registry().with(filter).with(lines).with(Together).try_init();
    Ok(LogControl { handle, repeats })
}

/// From now on a panic is told by its thread and place alone. A message that was put together at run time may hold an agent's content:
/// of a text cut in the middle of a character it is the text. A fixed one is told.
pub fn hide_panic_messages() {
    panic::set_hook(Box::new(|info| {
        let thread = thread::current();
        let thread = thread.name().unwrap_or("unnamed");
        let place = info.location().map_or_else(String::new, ToString::to_string);
        let cause = info.payload().downcast_ref::<&'static str>().copied().unwrap_or("(not shown: it may hold content)");
        if tracing::dispatcher::has_been_set() {
            tracing::error!(thread, place, cause, "a panic");
        } else {
            // Nobody may read it; there is no other way to say so.
            let _ = writeln!(io::stderr(), "error: a panic in thread {thread} at {place}: {cause}");
        }
    }));
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Tells the same test in a process of its own, whose hook is nobody else's, to panic.
    const PANICS: &str = "LOOPWARDEN_TEST_PANICS";

    #[test]
    fn a_panic_is_told_by_its_place_and_what_it_was_about_is_not() {
        if std::env::var_os(PANICS).is_some() {
            hide_panic_messages();
            let content = std::env::args().next().map_or_else(String::new, |_| "the pässword is xyzzy".to_owned());
            let cut = panic::catch_unwind(|| content[..6].len());
            let _ = start(LogFormat::Json, "info");
            let fixed = panic::catch_unwind(|| content.strip_prefix("no").unwrap().len());
            assert!(cut.is_err() && fixed.is_err());
            return;
        }
        let name = "telemetry::logging::tests::a_panic_is_told_by_its_place_and_what_it_was_about_is_not";
        let child = Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .env(PANICS, "1")
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&child.stderr);
        assert!(child.status.success(), "{told}");
        assert!(!told.contains("xyzzy") && !told.contains("ssword"), "{told}");
        let lines: Vec<&str> = told.lines().filter(|line| line.contains("panic")).collect();
        assert_eq!(lines.len(), 2, "{told}");
        assert!(lines[0].contains("logging.rs:") && lines[0].contains("not shown"), "{told}");
        let logged: serde_json::Value = serde_json::from_str(lines[1]).unwrap();
        assert_eq!(logged["level"], "ERROR", "{told}");
        assert!(logged["place"].as_str().unwrap().contains("logging.rs:"), "{told}");
        assert_eq!(logged["cause"], "called `Option::unwrap()` on a `None` value", "{told}");
    }

    #[test]
    fn a_filter_that_makes_no_sense_is_told_and_the_old_one_stays() {
        assert_eq!(check("warn,loopwarden::task=debug"), Ok(()));
        assert!(check("loopwarden=loud").is_err());
        assert_eq!(check("off"), Ok(()));
        for word in ["warning", "verbose", "", "info,", "warn,loopwarden::task", "loopwarden:task"] {
            assert!(check(word).is_err_and(|bad| bad.cause.contains("is no level; there are off, ")), "{word:?}");
        }
    }
}
