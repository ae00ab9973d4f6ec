//! Three failures in a row, and for five seconds nobody is asked. Each call is a process of its own, so a file remembers.

use std::{fs, io};
use std::{path::PathBuf, time::Duration};

/// Failures in a row that open it.
const FAILURES_MAX: u32 = 3;
/// How long it stays open. The next process after that tries again, and one more failure opens it again.
const OPEN: Duration = Duration::from_secs(5);

/// The circuit breaker. Its file holds the number of failures and the last cause.
#[derive(Debug)]
pub(crate) struct Circuit {
    marker: Option<PathBuf>,
    failures: u32,
    is_fresh: bool,
}

impl Circuit {
    /// Reads the file; without one nothing has failed.
    pub(crate) fn new(marker: Option<PathBuf>) -> Self {
        let text = marker.as_ref().and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        let failures = text.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0);
        // A file from the future is none of ours.
        let age = marker.as_ref().and_then(|path| fs::metadata(path).ok()?.modified().ok()?.elapsed().ok());
        Self { marker, failures, is_fresh: age.is_some_and(|age| age < OPEN) }
    }

    /// Whether nobody is to be asked now.
    pub(crate) const fn is_open(&self) -> bool {
        self.failures >= FAILURES_MAX && self.is_fresh
    }

    /// Notes how a question ended. That it cannot be noted changes nothing.
    pub(crate) fn note(&self, error: Option<&io::Error>) {
        let Some(marker) = &self.marker else { return };
        match error {
            None if self.failures > 0 => drop(fs::remove_file(marker)),
            None => {}
            Some(error) => {
                let _ = marker.parent().map(fs::create_dir_all);
                let _ = fs::write(marker, format!("{} {error}\n", self.failures.saturating_add(1)));
            }
        }
    }
}
