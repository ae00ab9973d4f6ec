//! Repeated log lines are limited: of lines from one place of the source, so many in a window; what was left out is counted and told.
//!
//! Debug and trace lines are for who looks for something, and findings are an audit: neither is limited.

use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, time::Duration};

use loopwarden_log::clock::Stopwatch;
use tracing::callsite::Identifier;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::{fmt::format::Writer, registry::LookupSpan};

use crate::telemetry::lines::AUDIT;

/// Length of a window.
const WINDOW: Duration = Duration::from_secs(10);
/// Lines of one place in a window. A rebalance of a large task set has some from one place; an error that repeats has thousands.
const LINES_MAX: u64 = 50;

/// A place in the source that writes log lines. There are some dozens; nothing from the wire makes another one.
#[derive(Debug)]
struct LogSite {
    callsite: Identifier,
    /// File and line.
    name: String,
    window_began: Duration,
    lines: u64,
    left_out: u64,
}

/// Counts lines by place; clones count together.
#[derive(Debug, Clone)]
pub(super) struct Repeats {
    since: Stopwatch,
    places: Arc<Mutex<Vec<LogSite>>>,
}

impl Repeats {
    pub(super) fn new() -> Self {
        Self { since: Stopwatch::start(), places: Arc::default() }
    }

    fn allows(&self, metadata: &Metadata<'_>, now: Duration) -> bool {
        if *metadata.level() > Level::INFO || metadata.target() == AUDIT {
            return true;
        }
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(place) = places.iter_mut().find(|place| place.callsite == metadata.callsite()) else {
            let name = format!("{}:{}", metadata.file().unwrap_or_default(), metadata.line().unwrap_or_default());
            places.push(LogSite { callsite: metadata.callsite(), name, window_began: now, lines: 1, left_out: 0 });
            return true;
        };
        if now.saturating_sub(place.window_began) >= WINDOW {
            (place.window_began, place.lines) = (now, 0);
        }
        place.lines += 1;
        let is_allowed = place.lines <= LINES_MAX;
        place.left_out += u64::from(!is_allowed);
        is_allowed
    }

    /// Places whose lines were left out in windows that are over, with how many; each is said once.
    fn left_out(&self, now: Duration) -> Vec<(String, u64)> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let over = places.iter_mut().filter(|place| place.left_out > 0 && now.saturating_sub(place.window_began) >= WINDOW);
        over.map(|place| (place.name.clone(), std::mem::take(&mut place.left_out))).collect()
    }

    /// Says what was left out.
    pub(super) fn tell(&self) {
        for (place, lines) in self.left_out(self.since.elapsed()) {
            tracing::warn!(place, lines, "lines from one place were left out");
        }
    }

    /// Puts the limit in front of a format.
    pub(super) fn limit<F>(&self, inner: F) -> Limited<F> {
        Limited { inner, repeats: self.clone() }
    }
}

/// A format that leaves out what comes too often.
#[derive(Debug)]
pub(super) struct Limited<F> {
    inner: F,
    repeats: Repeats,
}

impl<S, N, F> FormatEvent<S, N> for Limited<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        if self.repeats.allows(event.metadata(), self.repeats.since.elapsed()) {
            self.inner.format_event(context, writer, event)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;
    use crate::telemetry::written::Written;

    fn lines(repeats: &Repeats, write: impl FnOnce()) -> Vec<String> {
        let written = Written::default();
        let writer = written.clone();
        let layer = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .map_event_format(|format| repeats.limit(format));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), write);
        written.text().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_line_that_repeats_is_limited_and_others_are_not() {
        let repeats = Repeats::new();
        let written = lines(&repeats, || {
            for number in 0..1_000 {
                tracing::warn!(number, "broken");
                tracing::debug!(number, "detail");
                tracing::info!(target: "loopwarden::finding", number, "finding");
            }
            tracing::warn!("once");
        });
        let count = |word: &str| written.iter().filter(|line| line.contains(word)).count();
        assert_eq!(
            (count(" broken "), count(" detail "), count(" finding "), count(" once")),
            (LINES_MAX as usize, 1_000, 1_000, 1)
        );
    }

    #[test]
    fn what_was_left_out_is_told_once_when_its_window_is_over() {
        let repeats = Repeats::new();
        let written = lines(&repeats, || {
            for _ in 0..=LINES_MAX {
                tracing::error!("broken");
            }
        });
        assert_eq!(written.len() as u64, LINES_MAX);
        assert_eq!(repeats.left_out(Duration::ZERO), vec![]);
        let told = repeats.left_out(WINDOW + Duration::from_secs(60));
        assert_eq!(told.iter().map(|(_, lines)| *lines).collect::<Vec<_>>(), [1]);
        assert_eq!(repeats.left_out(WINDOW + Duration::from_secs(60)), vec![]);
    }
}
