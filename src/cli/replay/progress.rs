//! The progress line of a replay: on a terminal's standard error only.

use std::io::IsTerminal as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::clock::Stopwatch;

/// How often the line is written.
pub(super) const EVERY: Duration = Duration::from_millis(500);

/// How far the files are read.
#[derive(Debug)]
pub(super) struct Progress {
    files: Vec<(PathBuf, u64)>,
    watch: Stopwatch,
    is_shown: bool,
    is_written: bool,
}

impl Progress {
    pub(super) fn start(files: &[PathBuf]) -> Self {
        let size = |file: &PathBuf| std::fs::metadata(file).map_or(0, |about| about.len());
        Self {
            files: files.iter().map(|file| (std::path::absolute(file).unwrap_or_else(|_| file.clone()), size(file))).collect(),
            watch: Stopwatch::start(),
            is_shown: std::io::stderr().is_terminal(),
            is_written: false,
        }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.watch.elapsed()
    }

    /// Writes the line over the last one.
    pub(super) fn show(&mut self, records: u64) {
        if !self.is_shown {
            return;
        }
        let line = line(records, self.elapsed(), self.fraction());
        let _ = write!(std::io::stderr().lock(), "\r\x1b[K{line}");
        self.is_written = true;
    }

    /// Takes the line away.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.is_written) {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }

    /// Share of the bytes that are read; by the position of our own open file, so that compressed ones count as they are.
    fn fraction(&self) -> Option<f64> {
        let total: u64 = self.files.iter().map(|(_, size)| size).sum();
        if total == 0 {
            return None;
        }
        let (at, position) = std::fs::read_dir("/proc/self/fd").ok()?.flatten().find_map(|entry| {
            let target = std::fs::read_link(entry.path()).ok()?;
            let at = self.files.iter().position(|(file, _)| *file == target)?;
            let about = std::fs::read_to_string(PathBuf::from("/proc/self/fdinfo").join(entry.file_name())).ok()?;
            let position = about.lines().find_map(|line| line.strip_prefix("pos:"))?.trim().parse::<u64>().ok()?;
            Some((at, position))
        })?;
        let before: u64 = self.files.iter().take(at).map(|(_, size)| size).sum();
        Some((before + position) as f64 / total as f64)
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

/// A number with a comma between thousands.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_rate_and_what_is_left() {
        assert_eq!(line(31_000, Duration::from_secs(2), Some(0.25)), " 25 %  31,000 events, 15,500/s, 6 s left");
        assert_eq!(line(7, Duration::from_secs(1), None), "7 events, 7/s");
        assert_eq!(grouped(1_000_000), "1,000,000");
    }
}
