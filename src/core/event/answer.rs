//! What a person answers to a command: `answer`.

use std::borrow::Cow;

use crate::event::wire::Wire;
use crate::event::{EventTime, Reason, RecordMeta, Rejected, field, stop};
use crate::limits::{ALLOWED_MS_MAX, FUTURE_MS_MAX};

/// What a person makes of a loop that was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judged {
    /// It is one: a label, and nothing else changes.
    Right,
    /// It is none: a label, and the loop is let be for the rest of its session.
    FalseAlarm,
    /// It may go on until a time, whatever it is.
    Allowed(EventTime),
}

impl Judged {
    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::FalseAlarm => "false_alarm",
            Self::Allowed(_) => "allow",
        }
    }
}

/// A person's answer to the commands of one episode.
#[derive(Debug, Clone)]
pub struct Answer<'a> {
    /// As the commands name it.
    pub episode: Cow<'a, str>,
    pub judged: Judged,
}

/// Reads the fields of an answer, each held to its bound.
pub(super) fn answer<'a>(wire: &Wire<'a>, record: &RecordMeta<'_>) -> Result<Answer<'a>, Rejected> {
    let episode = field::required(field::name(wire.episode, "episode")?, "episode")?;
    let until = field::time(wire.until, "until")?;
    if until.is_some_and(|until| until > record.timestamp.plus_ms(ALLOWED_MS_MAX + FUTURE_MS_MAX)) {
        return Err(Rejected::at(Reason::BadValue, "until"));
    }
    // For people and for labels alone; yet no line of theirs may be broken by it.
    stop::reason(wire)?;
    let word = field::required(field::text(wire.answer, "answer")?, "answer")?;
    let judged = match word.as_ref() {
        "right" => Judged::Right,
        "false_alarm" => Judged::FalseAlarm,
        "allow" => Judged::Allowed(field::required(until, "until")?),
        _ => return Err(Rejected::at(Reason::BadValue, "answer")),
    };
    Ok(Answer { episode, judged })
}
