//! How one step is like another, and which steps a session remembers. What a step shows against them is measured in `measure`.
//!
//! *News* is the share of an answer that none of the last [`MEMORY_STEPS`] answers of the session had. For a success of few words the
//! arguments count instead: who writes nine files gets "ok" nine times, and brings nine files. A failure is what is left of it without the
//! words of its call.

use crate::detect::steps::step::{Flags, Step};
use crate::detect::{steps::evidence::Marks, steps::history::History, steps::remembered::MEMORY_STEPS};
use crate::identity::SketchView;

/// Answers that share so much are the same answer. Percent of their runs of three words.
pub const ALIKE_PERCENT: usize = 60;
/// Failures that share so much are alike.
pub const FAILURE_PERCENT: usize = 80;
/// Calls of one tool whose arguments share so much are nearly equal.
pub const NEAR_PERCENT: usize = 50;
/// Answers of one call that share so much stand still, whatever was changed meanwhile.
const STILL_PERCENT: usize = 95;
/// A step that brings no more brings nothing new. Percent.
pub const NEWS_PERCENT: u8 = 20;

/// How much one call is like another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Likeness {
    /// Tool and arguments are the same.
    Equal,
    /// One tool, and nearly the same arguments: half of their runs of words, or all but one of three or more values.
    Near,
    Other,
}

/// How much one call is like another.
#[must_use]
pub fn likeness(step: &Step, other: &Step) -> Likeness {
    likeness_of(step, other, true)
}

/// The same, where it may be known that their arguments share too few runs of words.
#[must_use]
pub fn likeness_of(step: &Step, other: &Step, may_share_words: bool) -> Likeness {
    let are_near = || step.evidence().arguments().is_alike(other.evidence().arguments(), NEAR_PERCENT);
    if step.call == other.call {
        Likeness::Equal
    } else if step.tool == other.tool && ((may_share_words && are_near()) || differs_in_one(step, other)) {
        Likeness::Near
    } else {
        Likeness::Other
    }
}

/// Whether two steps ended alike: both well or both badly, with much the same answer.
#[must_use]
pub fn is_answered_alike(step: &Step, other: &Step) -> bool {
    step.failed() == other.failed() && answer(step).is_alike(answer(other), ALIKE_PERCENT)
}

/// Whether two answers stand still.
#[must_use]
pub fn stands_still(step: &Step, other: &Step) -> bool {
    step.failed() == other.failed() && answer(step).is_alike(answer(other), STILL_PERCENT)
}

/// Whether two answers differ in numbers and ids alone: both ended well or both badly.
#[must_use]
pub fn differs_in_numbers(step: &Step, other: &Step) -> bool {
    step.failed() == other.failed() && step.evidence().around_numbers == other.evidence().around_numbers
}

fn answer(step: &Step) -> SketchView<'_> {
    step.evidence().answer()
}

/// Whether two failures are alike, in whole or once what each call named is left out.
#[must_use]
pub fn fails_alike(step: &Step, other: &Step) -> bool {
    let (one, two) = (step.evidence(), other.evidence());
    one.failure().is_alike(two.failure(), FAILURE_PERCENT) || one.answer().is_alike(two.answer(), FAILURE_PERCENT)
}

/// Whether a step looks at what runs elsewhere: by its class, after a wait, or by an id that is its only argument.
#[must_use]
pub fn is_poll(step: &Step) -> bool {
    step.flags.contains(Flags::POLL) || (!step.failed() && step.evidence().marks.contains(Marks::ID))
}

/// Whether a step worked and brought something that was not known.
#[must_use]
pub fn brings_news(step: &Step) -> bool {
    step.flags.contains(Flags::OBSERVED | Flags::OK) && step.evidence().news > NEWS_PERCENT
}

/// The steps before one, newest first, as far as the session remembers: beyond a person's message, and back to a reset.
pub fn remembered<'a>(history: &'a History, step: &Step) -> impl Iterator<Item = &'a Step> + use<'a> {
    let newest = step.sequence;
    let known =
        history.ring_back().take_while(move |earlier| earlier.sequence >= newest || !earlier.flags.contains(Flags::FORGOTTEN));
    known.filter(move |earlier| earlier.sequence < newest && earlier.is_evidence()).take(MEMORY_STEPS)
}

/// Those of them since a person last wrote something new.
pub fn since_message<'a>(history: &'a History, step: &Step) -> impl Iterator<Item = &'a Step> + use<'a> {
    let floor = history.floor();
    remembered(history, step).take_while(move |earlier| earlier.sequence >= floor)
}

/// The turns that have counted: calls of one turn are one piece of evidence.
#[derive(Debug)]
pub struct Turns {
    known: [u64; MEMORY_STEPS + 1],
    len: usize,
}

impl Turns {
    /// Begins with the turn of a step.
    #[must_use]
    pub fn of(step: &Step) -> Self {
        let mut turns = Self { known: [0; MEMORY_STEPS + 1], len: 0 };
        turns.is_first(step);
        turns
    }

    /// Whether a step is the first of its turn; notes the turn. A step of no known turn always is.
    pub fn is_first(&mut self, step: &Step) -> bool {
        let is_first = self.is_new(step);
        if is_first {
            self.note(step);
        }
        is_first
    }

    /// The same, without a note.
    #[must_use]
    pub fn is_new(&self, step: &Step) -> bool {
        step.turn == 0 || !self.known.get(..self.len).unwrap_or_default().contains(&step.turn)
    }

    /// Notes the turn of a step.
    pub fn note(&mut self, step: &Step) {
        // There is a place for each step that is remembered, and for the one that they are compared with.
        if let Some(place) = self.known.get_mut(self.len) {
            *place = step.turn;
            self.len += 1;
        }
    }
}

/// Whether the arguments of two calls of one tool are the same but for one of three or more.
fn differs_in_one(step: &Step, other: &Step) -> bool {
    let (new, old) = (step.evidence().values(), other.evidence().values());
    if new.len() != old.len() || new.len() < 2 {
        return false;
    }
    let equal = new.iter().filter(|value| old.binary_search(value).is_ok()).count();
    equal >= 2 && equal + 1 >= new.len()
}
