//! Counts of the listener itself. Routes of the table and a closed list of statuses: nothing a client can choose becomes a label.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use loopwarden_lane::Histogram;

/// Statuses that are answered; any other is counted as 0.
const STATUSES: [u16; 16] = [200, 202, 400, 401, 403, 404, 405, 408, 410, 413, 415, 422, 429, 431, 500, 503];

/// Stands for every path that is not in the table.
pub(crate) const OTHER: &str = "other";

/// Route, status, how long the answers took; of a stream, its head.
pub type Answered = (&'static str, u16, Histogram);

/// Counts of one route, by status.
type ByStatus = [Histogram; STATUSES.len() + 1];

/// What was answered: each route, and whatever is none.
#[derive(Debug)]
pub(crate) struct Counts(Mutex<Vec<(&'static str, ByStatus)>>);

impl Counts {
    /// Counts of the routes with these paths, and of [`OTHER`].
    pub(crate) fn of(paths: impl Iterator<Item = &'static str>) -> Self {
        Self(Mutex::new(paths.chain([OTHER]).map(|path| (path, ByStatus::default())).collect()))
    }

    /// Counts an answer. Two methods of one path are one route.
    pub(crate) fn note(&self, path: &'static str, status: u16, took: Duration) {
        let column = STATUSES.iter().position(|known| *known == status).unwrap_or(STATUSES.len());
        let mut routes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = routes.iter_mut().find(|(known, _)| *known == path);
        if let Some(histogram) = counted.and_then(|(_, statuses)| statuses.get_mut(column)) {
            histogram.note_us(took.as_micros() as u64);
        }
    }

    /// Everything that was counted.
    pub(crate) fn answered(&self) -> Vec<Answered> {
        let routes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut answered = Vec::new();
        for (path, statuses) in routes.iter() {
            for (column, histogram) in statuses.iter().enumerate().filter(|(_, histogram)| histogram.count() > 0) {
                answered.push((*path, STATUSES.get(column).copied().unwrap_or(0), *histogram));
            }
        }
        answered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_a_client_says_becomes_a_label() {
        let counts = Counts::of(["/policy", "/log-level", "/log-level"].into_iter());
        counts.note("/log-level", 200, Duration::from_millis(5));
        counts.note("/log-level", 200, Duration::from_millis(5));
        counts.note(OTHER, 999, Duration::from_secs(60));
        let answered: Vec<(&str, u16, u64)> =
            counts.answered().iter().map(|(route, status, histogram)| (*route, *status, histogram.count())).collect();
        assert_eq!(answered, [("/log-level", 200, 2), ("other", 0, 1)]);
    }
}
