//! What became of the records of one body.

use std::collections::{BTreeMap, BTreeSet};

use loopwarden_core::event::{EventTime, RecordMeta, Rejected, decode};

use crate::senders::{Became, Calls, Received, Senders};

/// Kinds of refusals that a sentence lists.
const REASONS_SHOWN: usize = 4;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// Its session: the key of the record on the event topic.
    pub session_id: String,
    /// The event as it goes to the topic. [`loopwarden_core::event::decode`] has read it.
    pub json: Vec<u8>,
    /// When it happened, where the source says so.
    pub time: Option<EventTime>,
    /// Who reports it: a convention, else the form. None where another span may report the same call, and is told apart by its place.
    pub source: Option<&'static str>,
    pub calls: Calls,
}

impl Made {
    /// Who reports the end of a call with it; none where it is no such event.
    pub fn ends_call_of(&self) -> Option<&'static str> {
        self.source.filter(|_| self.calls.ended > 0)
    }

    /// What became of a record that was read.
    pub fn became(read: &Result<Option<Self>, Rejected>) -> Became {
        match read {
            Ok(Some(made)) => Became::Event(made.calls),
            Ok(None) => Became::Ignored,
            Err(_) => Became::Refused,
        }
    }
}

/// What is to be known of every event: its bound, and the time of the record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) event_bytes_max: usize,
    pub(crate) now: EventTime,
}

impl Bounds {
    /// Reads a native event as the engine will, since nothing else may reach the topic.
    pub(crate) fn check(self, source: &'static str, json: Vec<u8>) -> Result<Made, Rejected> {
        let meta = RecordMeta::without_place(self.now, self.event_bytes_max);
        let event = decode(Some(&json), &meta)?;
        let (session_id, time) = (event.session_id.as_ref().to_owned(), event.has_time.then_some(event.time));
        let calls = Calls::of(&event);
        drop(event);
        Ok(Made { session_id, json, time, source: Some(source), calls })
    }
}

/// A record that should have been an event and cannot be one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its number among the records of the body, from 0.
    pub index: usize,
    /// Why, with the field of the native event or of the record.
    pub rejected: Rejected,
}

/// What became of the records of one body: `records` is the sum of `events`, `refused` and `ignored`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// Native events, by time within a session.
    pub events: Vec<Made>,
    pub refused: Vec<Refused>,
    /// Records that say nothing about calls, prompts or sessions. That is no fault.
    pub ignored: usize,
    pub records: usize,
    /// The same by sender, and what was missing.
    pub senders: Senders,
    /// Sessions that two sources report: each call may be counted twice. Some of them by name; [`crate::Sources`] knows.
    pub twofold: BTreeSet<String>,
}

impl Batch {
    /// Counts a record that becomes no event.
    pub(crate) fn ignore(&mut self, sender: usize) {
        self.senders.row(sender).note(Became::Ignored);
        self.ignored += 1;
    }

    pub(crate) fn refuse(&mut self, index: usize, sender: usize, rejected: Rejected) {
        self.senders.row(sender).note(Became::Refused);
        self.refused.push(Refused { index, rejected });
    }

    pub(crate) fn push(&mut self, sender: usize, made: Made) {
        self.senders.row(sender).note(Became::Event(made.calls));
        self.events.push(made);
    }

    /// The number of one more record.
    pub(crate) fn count(&mut self, sender: usize) -> usize {
        let index = self.records;
        self.senders.row(sender).records += 1;
        self.records += 1;
        index
    }

    /// Takes one more record of a sender, and what became of it.
    pub fn take(&mut self, (form, name): (&'static str, &str), made: Result<Option<Made>, Rejected>) {
        let sender = self.senders.place(form, name);
        let index = self.count(sender);
        match made {
            Ok(Some(made)) => self.push(sender, made),
            Ok(None) => self.ignore(sender),
            Err(rejected) => self.refuse(index, sender, rejected),
        }
    }

    /// Events of a session in the order of their time; what has none stays where it is.
    pub(crate) fn sort(&mut self) {
        self.events.sort_by_key(|event| event.time);
    }

    /// Why records were refused, for people. `None` where none was.
    pub fn refusals(&self) -> Option<String> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for refused in &self.refused {
            *counts.entry(refused.rejected.to_string()).or_default() += 1;
        }
        let mut shown: Vec<String> =
            counts.iter().take(REASONS_SHOWN).map(|(reason, count)| format!("{count} × {reason}")).collect();
        if counts.len() > REASONS_SHOWN {
            shown.push("…".to_owned());
        }
        (!shown.is_empty()).then(|| format!("{} of {} records refused: {}", self.refused.len(), self.records, shown.join(", ")))
    }

    /// What the sender should know although all was accepted. `None` where there is nothing.
    pub fn warning(&self) -> Option<String> {
        let Received { calls, left_to_logs, hints, .. } = self.senders.total();
        let Calls { made, without_args, ended, without_results } = calls;
        let mut parts = Vec::new();
        if without_args > 0 {
            parts.push(format!("{without_args} of {made} calls have no arguments: only names can be compared"));
        }
        if without_results > 0 {
            parts.push(format!("{without_results} of {ended} calls have no result"));
        }
        if left_to_logs > 0 {
            parts.push(format!("{left_to_logs} spans of calls have no arguments and are left to the logs of the same program"));
        }
        if !self.twofold.is_empty() {
            let names: Vec<&str> = self.twofold.iter().map(String::as_str).collect();
            parts.push(format!("reported by two sources, so that calls may count twice: {}", names.join(", ")));
        }
        parts.extend(hints.iter().map(|hint| (*hint).to_owned()));
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}
