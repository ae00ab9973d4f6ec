//! What a step brought, against what the session knew: its news, and how one step is like another.
//!
//! *News* is the share of an answer that none of the last [`MEMORY_STEPS`] answers of the session had. For a success that says little the
//! arguments count instead: who writes nine files gets "ok" nine times, and brings nine files. A failure is what is left of it without the
//! words of its call.

use crate::detect::evidence::Marks;
use crate::detect::history::History;
use crate::detect::step::{Flags, Step};
use crate::identity::SketchView;
use crate::setting::ToolPolicy;

/// Steps that are remembered.
pub const MEMORY_STEPS: usize = 64;
/// Answers that share so much are the same answer. Percent of their runs of three words.
pub const ALIKE_PERCENT: usize = 60;
/// Failures that share so much say the same.
pub const FAILURE_PERCENT: usize = 80;
/// Calls of one tool whose arguments share so much are nearly equal.
pub const NEAR_PERCENT: usize = 50;
/// Answers of one call that share so much stand still, whatever was changed meanwhile.
const STILL_PERCENT: usize = 95;
/// A step that brings no more brings nothing new. Percent.
pub const NEWS_PERCENT: u8 = 20;
/// The same for the arguments of a success that says little.
const ARGUMENT_NEWS_PERCENT: u8 = 10;
/// A success that says little, and of whose arguments so much is new, is one of a series.
const SERIES_NEWS_PERCENT: u8 = 25;

/// How much one call is like another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Likeness {
    /// Tool and arguments are the same.
    Equal,
    /// One tool, and nearly the same arguments: half of their runs of words, or all but one of three or more values.
    Near,
    /// Another call.
    Other,
}

/// How much one call is like another.
#[must_use]
pub fn likeness(step: &Step, other: &Step) -> Likeness {
    if step.call == other.call {
        Likeness::Equal
    } else if step.tool == other.tool
        && (step.evidence().arguments().is_alike(other.evidence().arguments(), NEAR_PERCENT) || differs_in_one(step, other))
    {
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

fn answer(step: &Step) -> SketchView<'_> {
    step.evidence().answer()
}

/// Whether two failures say the same, in whole or once what each call named is left out.
#[must_use]
pub fn fails_alike(step: &Step, other: &Step) -> bool {
    let (one, two) = (step.evidence(), other.evidence());
    one.failure().is_alike(two.failure(), FAILURE_PERCENT) || one.answer().is_alike(two.answer(), FAILURE_PERCENT)
}

/// Whether a step looks at what runs elsewhere: by its class, after a wait, or by its shape.
#[must_use]
pub fn is_poll(step: &Step) -> bool {
    step.flags.has(Flags::POLL) || (!step.failed() && step.evidence().marks.has(Marks::HANDLE))
}

/// Whether a step worked and brought something that was not known.
#[must_use]
pub fn brings_news(step: &Step) -> bool {
    step.flags.has(Flags(Flags::OBSERVED.0 | Flags::OK.0)) && step.evidence().news > NEWS_PERCENT
}

/// How many times as many steps a finding about this one needs: who waits, or meets an outage, may ask again; a call that takes its time is
/// cheap.
#[must_use]
pub fn patience(tool: &ToolPolicy, step: &Step) -> u32 {
    let is_slow = !step.failed() && step.evidence().marks.has(Marks::SLOW);
    let slow = if is_slow { tool.scaled(1, true) } else { 1 };
    let waits = is_poll(step) || step.flags.has(Flags::RETRYABLE);
    tool.scaled(1, waits).saturating_mul(slow).max(1)
}

/// The steps before one, newest first, as far as the session remembers: beyond a person's message, and back to a reset.
pub fn remembered<'a>(history: &'a History, step: &Step) -> impl Iterator<Item = &'a Step> + use<'a> {
    let newest = step.sequence;
    let known = history.ring_back().take_while(move |earlier| earlier.sequence >= newest || !earlier.flags.has(Flags::FORGOTTEN));
    known.filter(move |earlier| earlier.sequence < newest && earlier.is_evidence()).take(MEMORY_STEPS)
}

/// Those of them since a person last wrote something new.
pub fn since_message<'a>(history: &'a History, step: &Step) -> impl Iterator<Item = &'a Step> + use<'a> {
    let floor = history.floor();
    remembered(history, step).take_while(move |earlier| earlier.sequence >= floor)
}

/// Steps that were counted, and the first of them.
#[derive(Debug, Clone, Copy)]
pub struct Tally {
    /// How many.
    pub count: u32,
    /// Sequence of the earliest.
    pub first: u64,
}

impl Tally {
    /// Nothing yet, before a step.
    #[must_use]
    pub const fn none(step: &Step) -> Self {
        Self { count: 0, first: step.sequence }
    }

    /// Begins with the newest step.
    #[must_use]
    pub const fn of(step: &Step) -> Self {
        Self { count: 1, ..Self::none(step) }
    }

    /// Counts an earlier step.
    pub const fn add(&mut self, earlier: &Step) {
        self.count += 1;
        self.first = earlier.sequence;
    }
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
        let known = self.known.get(..self.len).unwrap_or_default();
        let is_first = step.turn == 0 || !known.contains(&step.turn);
        // There is a place for each step that is remembered, and for the one that they are compared with.
        if is_first && let Some(place) = self.known.get_mut(self.len) {
            *place = step.turn;
            self.len += 1;
        }
        is_first
    }
}

/// What a completed step brought, against what is remembered: its news and what follows from it.
#[must_use]
pub fn classify(history: &History, step: &Step) -> (u8, Marks) {
    let evidence = step.evidence();
    let (arguments, failure) = (evidence.arguments(), evidence.failure());
    let brought = if failure.is_empty() { evidence.answer() } else { failure };
    let (is_ok, is_little) = (!step.failed(), evidence.marks.has(Marks::LITTLE));
    let speaks_by_arguments = is_ok && is_little;
    let (mut known, mut known_arguments) = (0, 0);
    let (mut equal, mut near, mut was_made) = (Before::default(), Before::default(), false);
    for earlier in remembered(history, step) {
        let other = earlier.evidence();
        if known != brought.places() {
            known |= brought.places_in(other.answer()) | brought.places_in(other.failure());
        }
        if speaks_by_arguments && known_arguments != arguments.places() {
            known_arguments |= arguments.places_in(other.arguments());
        }
        was_made = was_made || step.call == earlier.call || (step.tool == earlier.tool && differs_in_one(step, earlier));
        match likeness(step, earlier) {
            Likeness::Equal => equal.note(step, earlier),
            Likeness::Near => near.note(step, earlier),
            Likeness::Other => {}
        }
    }
    // A success that says little brought its arguments too.
    let argument_news = if speaks_by_arguments { arguments.percent_beside(known_arguments) } else { 0 };
    let answer_news = brought.percent_beside(known);
    let is_nothing = answer_news <= NEWS_PERCENT && argument_news <= ARGUMENT_NEWS_PERCENT;
    let news = argument_news.max(answer_news);
    let is_novel = !equal.was_made && !near.was_made;
    let is_of_series = argument_news > SERIES_NEWS_PERCENT;
    let changes = step.flags.has(Flags::MUTATES) || (is_little && !is_poll(step) && (is_novel || is_of_series));
    let is_change = is_ok && changes && !was_made;
    let is_known_answer = equal.was_answered || (near.was_answered && !is_of_series);
    let is_same = equal.stood_still || (near.stood_still && is_nothing);
    let mut marks = evidence.marks;
    marks.set(Marks::NOVEL, is_novel);
    marks.set(Marks::CHANGE, is_change);
    // A call like none before is a try, whatever its answer repeats.
    let brings_nothing = is_known_answer || (is_ok && is_nothing && !is_novel);
    marks.set(Marks::KNOWN, brings_nothing && !is_change);
    marks.set(Marks::SAME, is_same && !is_change);
    (news, marks)
}

/// What is known of earlier calls like one.
#[derive(Default)]
struct Before {
    was_made: bool,
    was_answered: bool,
    stood_still: bool,
}

impl Before {
    fn note(&mut self, step: &Step, earlier: &Step) {
        self.was_made = true;
        self.was_answered |= is_answered_alike(step, earlier);
        self.stood_still |= stands_still(step, earlier);
    }
}

/// Whether a step is one of a series: a success that says little, with arguments of its own. A series is work, whatever it is answered.
#[must_use]
pub fn is_of_series(step: &Step) -> bool {
    !step.failed() && step.evidence().marks.has(Marks::LITTLE) && step.evidence().news > SERIES_NEWS_PERCENT
}

/// Whether the arguments of two calls of one tool are the same but for one of three or more.
fn differs_in_one(step: &Step, other: &Step) -> bool {
    let (new, old) = (step.evidence().values(), other.evidence().values());
    let equal = new.iter().filter(|value| old.binary_search(value).is_ok()).count();
    new.len() == old.len() && equal >= 2 && equal + 1 >= new.len()
}
