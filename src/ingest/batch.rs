//! What became of the records of one body.

use std::collections::{BTreeMap, BTreeSet};

use loopwarden_core::event::{EventTime, Rejected};

use crate::limits::NAMED_MAX;

/// Kinds of refusals that a sentence lists.
const REASONS_SHOWN: usize = 4;

/// A native event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// Its session: the key of the record on the event topic.
    pub session_id: String,
    /// The event as it goes to the topic. [`loopwarden_core::event::decode`] has read it.
    pub json: Vec<u8>,
    /// When it happened, where the source says so.
    pub time: Option<EventTime>,
}

/// A record that should have been an event and cannot be one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its number among the records of the body, from 0.
    pub index: usize,
    /// Why, with the field of the native event or of the record.
    pub rejected: Rejected,
}

/// Calls that arrived without what comparisons need, and where the rest is to be had.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blind {
    /// Tool calls that became events.
    pub calls: u64,
    /// Of these, calls without arguments: only names can be compared.
    pub without_args: u64,
    /// Of these, calls without a result and without a whole error.
    pub without_results: u64,
    /// Spans of calls that were left out, since the same program's logs say more.
    pub left_to_logs: u64,
    /// What to switch on at the sender, a sentence each.
    pub hints: BTreeSet<&'static str>,
}

impl Blind {
    /// Whether only the names of some calls can be compared.
    pub const fn only_names(&self) -> bool {
        self.without_args > 0
    }

    /// Adds another's numbers.
    pub fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.without_args += other.without_args;
        self.without_results += other.without_results;
        self.left_to_logs += other.left_to_logs;
        self.hints.extend(&other.hints);
    }
}

/// What became of the records of one body: `records` is the sum of `events`, `refused` and `ignored`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// Native events, by time within a session.
    pub events: Vec<Made>,
    /// Refused records.
    pub refused: Vec<Refused>,
    /// Records that say nothing about calls, prompts or sessions. That is no fault.
    pub ignored: usize,
    /// All records.
    pub records: usize,
    /// What was missing.
    pub blind: Blind,
    /// Sessions that two sources report: each call may be counted twice. Some of them by name.
    pub twofold: BTreeSet<String>,
}

impl Batch {
    pub(crate) fn refuse(&mut self, index: usize, rejected: Rejected) {
        self.refused.push(Refused { index, rejected });
    }

    pub(crate) fn is_twofold(&mut self, session_id: &str) {
        if self.twofold.len() < NAMED_MAX {
            self.twofold.insert(session_id.to_owned());
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
        let Blind { calls, without_args, without_results, left_to_logs, hints } = &self.blind;
        let mut parts = Vec::new();
        if *without_args > 0 {
            parts.push(format!("{without_args} of {calls} calls have no arguments: only names can be compared"));
        }
        if *without_results > 0 {
            parts.push(format!("{without_results} of {calls} calls have no result"));
        }
        if *left_to_logs > 0 {
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
