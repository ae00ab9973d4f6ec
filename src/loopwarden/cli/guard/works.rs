//! What a guard does beside answering, and what becomes of events that it sends to another process.

use std::{sync::Arc, thread::JoinHandle};

use serde::{Deserialize, de::IgnoredAny};

use crate::http::check::Desk;

/// What became of events that were sent on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Deliveries {
    pub(super) delivered: u64,
    /// Those that are no events to who got them.
    pub(super) rejected: u64,
    pub(super) lost: u64,
}

/// What works beside the listener: threads that end when the flag is raised, and what they have to say.
pub(super) struct Works {
    pub(super) desk: Arc<Desk>,
    pub(super) threads: Vec<JoinHandle<()>>,
    pub(super) deliveries: Box<dyn Fn() -> Deliveries + Send + Sync>,
    pub(super) place: String,
}

/// What to do with a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It was taken, but for so many events that are none to that process.
    Taken { rejected: usize },
    /// It is sent again: the other end is away, busy, or does not let us in, which a person mends. Whether a person has to.
    Again { needs_person: bool },
    /// It is too large: half of it at a time.
    Halve,
    /// No other time would be better.
    Lost,
}

#[derive(Deserialize)]
struct Taken {
    #[serde(default)]
    rejected: Vec<IgnoredAny>,
}

/// Of a status code, empty where nobody answered, and the body behind it.
pub(super) fn fate(code: &str, body: &str, events: usize) -> Fate {
    match code {
        "202" | "422" => {
            // An answer that cannot be read says at least which of the two it is.
            let all = if code == "202" { 0 } else { events };
            let rejected = serde_json::from_str(body).map_or(all, |taken: Taken| taken.rejected.len());
            Fate::Taken { rejected: rejected.min(events) }
        }
        "" | "408" | "429" => Fate::Again { needs_person: false },
        // No token, a wrong one, or no such route there: it may be given one, or started as it should be.
        "401" | "403" | "404" => Fate::Again { needs_person: true },
        "413" if events > 1 => Fate::Halve,
        code if code.starts_with('5') => Fate::Again { needs_person: false },
        _ => Fate::Lost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_has_its_fate() {
        for (code, body, events, expected) in [
            ("202", r#"{"accepted":3,"rejected":[]}"#, 3, Fate::Taken { rejected: 0 }),
            ("202", r#"{"accepted":1,"rejected":[{"index":0},{"index":2}]}"#, 3, Fate::Taken { rejected: 2 }),
            ("202", "?", 3, Fate::Taken { rejected: 0 }),
            ("422", r#"{"accepted":0,"rejected":[{},{},{}]}"#, 3, Fate::Taken { rejected: 3 }),
            ("422", "", 3, Fate::Taken { rejected: 3 }),
            ("", "", 3, Fate::Again { needs_person: false }),
            ("429", "", 3, Fate::Again { needs_person: false }),
            ("503", "", 3, Fate::Again { needs_person: false }),
            ("599", "", 3, Fate::Again { needs_person: false }),
            ("401", "", 3, Fate::Again { needs_person: true }),
            ("403", "", 3, Fate::Again { needs_person: true }),
            ("404", "", 3, Fate::Again { needs_person: true }),
            ("413", "", 2, Fate::Halve),
            ("413", "", 1, Fate::Lost),
            ("400", "", 3, Fate::Lost),
            ("415", "", 3, Fate::Lost),
            ("301", "", 3, Fate::Lost),
        ] {
            assert_eq!(fate(code, body, events), expected, "{code} {body}");
        }
    }
}
