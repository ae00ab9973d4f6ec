//! The progress line of a replay: on a terminal's standard error only.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use loopwarden_lab::{replay::Progress, report::grouped};
use loopwarden_log::clock::Stopwatch;

use crate::output;

/// How far the input is read.
#[derive(Debug)]
pub(super) struct ProgressLine {
    total: u64,
    watch: Stopwatch,
    is_shown: bool,
    is_written: bool,
}

impl ProgressLine {
    /// Begins, with so much to read; 0 where nobody knows.
    pub(super) fn start(total: u64) -> Self {
        Self {
            total,
            watch: Stopwatch::start(),
            is_shown: std::io::stderr().is_terminal() && !output::is_quiet(),
            is_written: false,
        }
    }
}

impl Progress for ProgressLine {
    /// Writes the line over the last one.
    fn show(&mut self, records: u64, read: u64) {
        if !self.is_shown {
            return;
        }
        let fraction = (self.total > 0).then(|| read as f64 / self.total as f64);
        let line = line(records, self.watch.elapsed(), fraction);
        let _ = write!(std::io::stderr().lock(), "\r\x1b[K{line}");
        self.is_written = true;
    }

    /// Takes the line away.
    fn clear(&mut self) {
        if std::mem::take(&mut self.is_written) {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

fn line(records: u64, elapsed: Duration, fraction: Option<f64>) -> String {
    let seconds = elapsed.as_secs_f64().max(0.001);
    let rate = records as f64 / seconds;
    let mut line = format!("{} events, {}/s", grouped(records), grouped(rate as u64));
    if let Some(fraction) = fraction.filter(|fraction| *fraction > 0.01) {
        let left = seconds / fraction - seconds;
        line = format!("{:3.0} %  {line}, {left:.0} s left", 100.0 * fraction.min(1.0));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_rate_and_what_is_left() {
        assert_eq!(line(31_000, Duration::from_secs(2), Some(0.25)), " 25 %  31,000 events, 15,500/s, 6 s left");
        assert_eq!(line(7, Duration::from_secs(1), None), "7 events, 7/s");
    }
}
