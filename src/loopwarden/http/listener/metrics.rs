//! Counts of the listener itself. Routes of the table and a closed list of statuses: nothing a client can choose becomes a label.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use loopwarden_lane::Histogram;

use crate::http::routes;
use crate::http::routes::ROUTES;

/// Statuses that are answered; any other is counted as 0.
const STATUSES: [u16; 16] = [200, 202, 400, 401, 403, 404, 405, 408, 410, 413, 415, 422, 429, 431, 500, 503];

/// Route, status, how long the answers took; of a stream, its head.
pub type Answered = (&'static str, u16, Histogram);

/// What was answered: each route, and whatever is none.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    routes: Mutex<[[Histogram; STATUSES.len() + 1]; ROUTES.len() + 1]>,
}

impl Counts {
    /// Counts an answer.
    pub(crate) fn note(&self, route: usize, status: u16, took: Duration) {
        let path = routes::at(route).path;
        // Two methods of one path are one route.
        let row = ROUTES.iter().position(|route| route.path == path).unwrap_or(ROUTES.len());
        let column = STATUSES.iter().position(|known| *known == status).unwrap_or(STATUSES.len());
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(histogram) = routes.get_mut(row).and_then(|statuses| statuses.get_mut(column)) {
            histogram.note_us(took.as_micros() as u64);
        }
    }

    /// Everything that was counted.
    pub(crate) fn answered(&self) -> Vec<Answered> {
        let routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut answered = Vec::new();
        for (row, statuses) in routes.iter().enumerate() {
            for (column, histogram) in statuses.iter().enumerate().filter(|(_, histogram)| histogram.count() > 0) {
                answered.push((routes::at(row).path, STATUSES.get(column).copied().unwrap_or(0), *histogram));
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
        let counts = Counts::default();
        let of = |method: &str, path: &str| ROUTES.iter().position(|route| (route.method, route.path) == (method, path)).unwrap();
        counts.note(of("GET", "/log-level"), 200, Duration::from_millis(5));
        counts.note(of("PUT", "/log-level"), 200, Duration::from_millis(5));
        counts.note(usize::MAX, 999, Duration::from_secs(60));
        let answered: Vec<(&str, u16, u64)> =
            counts.answered().iter().map(|(route, status, histogram)| (*route, *status, histogram.count())).collect();
        assert_eq!(answered, [("/log-level", 200, 2), ("other", 0, 1)]);
    }
}
