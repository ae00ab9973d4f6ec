//! What became of an act: whether what it asks for is in force, and if not, why.

use axum::http::StatusCode;
use loopwarden_core::event::{EventTime, Reason};
use loopwarden_core::limits;

use crate::http::{answer, answer::Refusal};

/// How far an act has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ActEffect {
    /// It is judged, and holds.
    InForce,
    /// It is durable, and not judged so far, or elsewhere.
    Waits,
    /// It is judged, and changed nothing.
    Nothing(Unchanged),
}

/// Why an act changed nothing, and what is in force instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unchanged {
    /// None of whom it releases was stopped.
    NothingToRelease,
    /// Its loop is over, or was let be by another answer.
    NoOpenLoop,
    /// The tenant has as many stops as one task takes.
    TooManyStops,
    /// A stop of somebody who reaches farther stands until then.
    WiderStop(EventTime),
    /// It was taken, and something that came after it holds: a stop until then, or none.
    NotInForce(Option<EventTime>),
}

impl Unchanged {
    /// A word for programs, and a sentence for people.
    pub(crate) fn words(self) -> (&'static str, String) {
        let stopped = |until: EventTime| format!("they are stopped until {}", until.to_rfc3339());
        match self {
            Self::NothingToRelease => ("nothing_to_release", "nobody of these was stopped, and nobody is".to_owned()),
            Self::NoOpenLoop => {
                let why = "it is kept, and changes nothing: this loop is over, was let be before, or is a budget, which no false alarm ends";
                ("no_open_loop", why.to_owned())
            }
            Self::TooManyStops => {
                let why = "stops of this tenant are in force in this partition, and no more are taken: release some, or stop the tenant";
                (Reason::TooManyStops.as_str(), format!("{} {why}", limits::STOPS_MAX))
            }
            Self::WiderStop(until) => {
                let why = "an operator of all tenants has placed this stop, and only such a one ends it";
                (Reason::WiderStop.as_str(), format!("{why}: {}", stopped(until)))
            }
            Self::NotInForce(until) => {
                let now = until.map_or_else(|| "nobody of these is stopped".to_owned(), stopped);
                ("not_in_force", format!("this act was taken, and has ended, or another came after it: {now}"))
            }
        }
    }

    /// The answer to whoever acts: nothing was changed.
    pub(crate) fn refusal(self) -> Refusal {
        let (word, why) = self.words();
        answer::error(StatusCode::CONFLICT, word, why).into()
    }
}
