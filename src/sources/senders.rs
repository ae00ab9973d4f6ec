//! Who sends, and how much of its calls can be compared.

use std::{borrow::Cow, collections::BTreeSet};

use loopwarden_core::event::{CallResult, Event, EventKind, Outcome};

/// Senders that have a row of their own; all others share one. A fleet has a handful of programs.
const SENDERS_MAX: usize = 64;
/// The name of a sender. Characters.
const SENDER_CHARS_MAX: usize = 128;

/// The form of those who send events as they are.
pub const NATIVE_FORM: &str = "events";

/// How far the calls of a sender can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared {
    /// Most have neither arguments nor results.
    Names,
    Arguments,
    Results,
    All,
}

impl Compared {
    /// In words, for people and for the page.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Names => "names only",
            Self::Arguments => "names and arguments",
            Self::Results => "names and results",
            Self::All => "all",
        }
    }
}

/// Calls that became events, and what they lack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Calls {
    pub made: u64,
    /// Of these, calls without arguments.
    pub without_args: u64,
    /// Calls that ended: those reported in one piece, and results reported on their own.
    pub ended: u64,
    /// Of these, calls without a result and without a whole error.
    pub without_results: u64,
}

impl Calls {
    pub fn of(event: &Event<'_>) -> Self {
        let (call, result) = match &event.kind {
            EventKind::ToolCall(call) => (Some(call), None),
            EventKind::ToolResult(result) => (None, Some(result)),
            EventKind::Tool(call, result) => (Some(call), Some(result)),
            _ => (None, None),
        };
        Self {
            made: u64::from(call.is_some()),
            without_args: u64::from(call.is_some_and(|call| call.args.is_absent())),
            ended: u64::from(result.is_some()),
            without_results: u64::from(result.is_some_and(|result| !says_what_came_back(result))),
        }
    }

    pub const fn add(&mut self, other: &Self) {
        self.made += other.made;
        self.without_args += other.without_args;
        self.ended += other.ended;
        self.without_results += other.without_results;
    }

    /// Whether arguments, and whether results, are missing in most of them.
    pub const fn lacks(&self) -> (bool, bool) {
        (self.made == 0 || self.without_args * 2 > self.made, self.ended == 0 || self.without_results * 2 > self.ended)
    }

    /// How far most of them can be compared; none where there are no calls.
    pub const fn compared(&self) -> Option<Compared> {
        if self.made + self.ended == 0 {
            return None;
        }
        Some(match self.lacks() {
            (true, true) => Compared::Names,
            (false, true) => Compared::Arguments,
            (true, false) => Compared::Results,
            (false, false) => Compared::All,
        })
    }
}

/// A refused call has nothing that could come back.
const fn says_what_came_back(result: &CallResult<'_>) -> bool {
    let is_whole_error = result.error_message.is_some() && !result.truncated;
    let has_answer = !result.result.is_absent() || !result.stable_result.is_absent();
    has_answer || is_whole_error || matches!(result.outcome, Outcome::Denied)
}

#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sender {
    pub form: &'static str,
    /// Its own name: `service.name`, the `source` of a CloudEvent. May be empty.
    pub name: String,
}

/// What came of one sender. Records are events, refused, or ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Received {
    pub records: u64,
    /// Records that say nothing about calls, prompts or sessions.
    pub ignored: u64,
    /// Records that should have been events.
    pub refused: u64,
    /// Spans of calls that were left out, since the same program's logs say more.
    pub left_to_logs: u64,
    pub calls: Calls,
    /// Conventions of its calls, by name.
    pub conventions: BTreeSet<&'static str>,
    /// What to switch on at the sender, a sentence each.
    pub hints: BTreeSet<&'static str>,
}

/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Became {
    /// An event, with the call in it.
    Event(Calls),
    Ignored,
    Refused,
}

impl Received {
    /// Notes what became of a record that is counted already.
    pub fn note(&mut self, became: Became) {
        match became {
            Became::Event(calls) => self.calls.add(&calls),
            Became::Ignored => self.ignored += 1,
            Became::Refused => self.refused += 1,
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.records += other.records;
        self.ignored += other.ignored;
        self.refused += other.refused;
        self.left_to_logs += other.left_to_logs;
        self.calls.add(&other.calls);
        self.conventions.extend(&other.conventions);
        self.hints.extend(&other.hints);
    }
}

/// Senders with what came of each, the first 64 of them; all others are one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Senders {
    rows: Vec<(Sender, Received)>,
    others: Received,
}

impl Senders {
    /// The place of a sender, for [`Senders::row`].
    pub fn place(&mut self, form: &'static str, name: &str) -> usize {
        let name = printable(name);
        let found = self.rows.iter().position(|(sender, _)| sender.form == form && sender.name == name);
        found.unwrap_or_else(|| {
            if self.rows.len() < SENDERS_MAX {
                self.rows.push((Sender { form, name: name.into_owned() }, Received::default()));
                self.rows.len() - 1
            } else {
                SENDERS_MAX
            }
        })
    }

    /// What came of the sender at a place.
    pub fn row(&mut self, place: usize) -> &mut Received {
        self.rows.get_mut(place).map_or(&mut self.others, |(_, received)| received)
    }

    /// Counts a record of a sender.
    pub fn count(&mut self, (form, name): (&'static str, &str), became: Became) {
        let place = self.place(form, name);
        let row = self.row(place);
        row.records += 1;
        row.note(became);
    }

    pub fn add(&mut self, other: &Self) {
        for (Sender { form, name }, received) in &other.rows {
            let place = self.place(form, name);
            self.row(place).add(received);
        }
        self.others.add(&other.others);
    }

    /// Those that have a row of their own, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = (&Sender, &Received)> {
        self.rows.iter().map(|(sender, received)| (sender, received))
    }

    /// What came of those that have none.
    pub const fn others(&self) -> &Received {
        &self.others
    }

    /// What came of all together.
    pub fn total(&self) -> Received {
        let mut total = self.others.clone();
        for (_, received) in &self.rows {
            total.add(received);
        }
        total
    }
}

/// A name that does nothing to a terminal.
fn printable(name: &str) -> Cow<'_, str> {
    if name.chars().nth(SENDER_CHARS_MAX).is_none() && !name.contains(char::is_control) {
        return Cow::Borrowed(name);
    }
    let shown = name.chars().take(SENDER_CHARS_MAX);
    Cow::Owned(shown.map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_most_calls_lack_cannot_be_compared() {
        let calls = |without_args, without_results| Calls { made: 4, without_args, ended: 4, without_results };
        assert_eq!(Calls::default().compared(), None);
        assert_eq!(calls(2, 2).compared(), Some(Compared::All));
        assert_eq!(calls(3, 0).compared(), Some(Compared::Results));
        assert_eq!(calls(0, 3).compared(), Some(Compared::Arguments));
        assert_eq!(calls(3, 3).compared(), Some(Compared::Names));
        let without_ends = Calls { made: 1, ..Calls::default() };
        assert_eq!(without_ends.compared(), Some(Compared::Arguments));
    }

    #[test]
    fn however_many_names_there_are_few_are_kept_and_all_are_counted() {
        let mut senders = Senders::default();
        for number in 0..10_000 {
            let place = senders.place("form", &format!("{number}\n{}", "x".repeat(1_000)));
            senders.row(place).records += 1;
        }
        let mut sum = Senders::default();
        sum.add(&senders);
        sum.add(&senders);
        assert_eq!((sum.iter().count(), sum.total().records, sum.others().records), (SENDERS_MAX, 20_000, 19_872));
        assert!(sum.iter().all(|(sender, _)| sender.name.chars().count() == SENDER_CHARS_MAX && !sender.name.contains('\n')));
    }
}
