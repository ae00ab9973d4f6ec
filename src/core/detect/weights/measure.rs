//! A completed step against the steps before it: its facts, its news, and how it waits. One walk over what the session remembers.

use crate::detect::steps::evidence::{Evidence, Marks};
use crate::detect::steps::facts::{Fact, Facts};
use crate::detect::steps::step::{Flags, Step};
use crate::detect::weights::news::{self, Likeness, NEAR_PERCENT, NEWS_PERCENT, Turns, likeness_of};
use crate::detect::{steps::history::History, steps::remembered::Remembered};
use crate::identity::Places;

/// The same for the arguments of a success of few words. Percent.
const ARGUMENT_NEWS_PERCENT: u8 = 10;
/// A success of few words, and of whose arguments so much is new, is one of a series. Percent.
const SERIES_NEWS_PERCENT: u8 = 25;
/// An answer of which so much is new is mostly new. Percent.
const MUCH_NEWS_PERCENT: u8 = 60;
/// Steps looked back at for failures of a tool.
const FAILURE_STEPS: usize = 15;
/// Steps looked back at for a failure that a success ends.
const RECOVERY_STEPS: usize = 6;
/// Calls that are compared with each other.
const DIFFERENT_CALLS_MAX: usize = 12;
/// So many there must be.
const DIFFERENT_CALLS_MIN: usize = 6;
/// Steps of the longest round.
const ROUND_MAX: usize = 8;
/// Steps that are looked at for rounds, and for calls that are all different.
const NEWEST_STEPS: usize = 2 * ROUND_MAX;
/// The longest run of steps without news that is counted.
const QUIET_RUN_MAX: u32 = 7;
/// Between two equal calls of an agent that waits. Milliseconds of event time.
const WAIT_MS: i64 = 20_000;
/// Between two equal calls of an agent that does nothing else: a clock calls it. Milliseconds of event time.
const SCHEDULE_MS: i64 = 60_000;

/// How an agent waits with a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Waiting {
    #[default]
    No,
    /// It asks what it waits for, one time after the other, or meets an outage.
    Asks,
    /// It lets time pass in between.
    Waits,
}

/// What a completed step shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Measured {
    /// The facts that hold. None where arguments or answer were not reported: what is not known weighs nothing.
    pub facts: Facts,
    /// Share of what it brought that was not known. Percent.
    pub news: u8,
    /// What later steps need to know of it.
    pub marks: Marks,
    /// How the agent waits with the step.
    pub waiting: Waiting,
}

/// Measures a completed step. `user_words` are the words of people's last texts.
#[must_use]
pub fn measure<'a>(history: &'a History, step: &'a Step, user_words: &(impl Iterator<Item = &'a [u16]> + Clone)) -> Measured {
    let mut walk = Walk::new(step, history.remembered_before(step));
    for earlier in news::remembered(history, step) {
        walk.take(earlier, earlier.sequence < history.floor());
    }
    walk.finish(history, user_words)
}

/// Earlier calls that were answered like the step: all of them, and by what was done between. Nothing that could matter; other calls that
/// brought news; a change.
#[derive(Default)]
struct Alike {
    made: u32,
    unchanged: u32,
    among_news: u32,
    after_change: u32,
}

impl Alike {
    const fn note(&mut self, is_changed: bool, is_among_news: bool) {
        if is_changed {
            self.after_change += 1;
        } else if is_among_news {
            self.among_news += 1;
        } else {
            self.unchanged += 1;
        }
    }

    const fn all(&self) -> u32 {
        self.unchanged + self.among_news + self.after_change
    }
}

/// What the walk from the newest step to the oldest has met.
struct Walk<'a> {
    step: &'a Step,
    /// What the steps hold that the walk meets; none where it must look itself.
    index: Option<&'a Remembered>,
    /// What the step brought, and its arguments.
    brought: Places<'a>,
    arguments: Places<'a>,
    arguments_len: usize,
    /// A success of few words: all answers of its tool are looked at.
    is_little: bool,
    /// A step may be like it by the words of its arguments, and one may be answered with its whole answer: false is certain.
    may_share_words: bool,
    may_share_answer: bool,
    /// Sequence of the oldest step met.
    oldest: u64,
    /// The step and the newest of those before it.
    newest: [&'a Step; NEWEST_STEPS],
    /// How many steps were met.
    steps: usize,
    turns: Turns,
    known: u32,
    known_arguments: u32,
    /// Something was changed since the steps that come next.
    is_changed: bool,
    /// Another call brought news since then, and since the last equal call.
    is_among_news: bool,
    news_since_equal: bool,
    equal: Alike,
    /// Equal calls since a change, whatever their answers.
    equal_unchanged: u32,
    /// The last equal call was answered alike, and how long ago it was.
    last_equal: Option<(bool, i64)>,
    /// How often the outcome of equal calls turned, and how the last one ended.
    turned: (u32, bool),
    around_numbers: u32,
    near: Alike,
    tool_is_known: bool,
    answer_is_known: bool,
    nothing_found: u32,
    is_nothing_found: bool,
    other_answer: bool,
    /// An equal call has worked.
    equal_worked: bool,
    /// The step before is an equal call.
    is_adjacent: bool,
    failures: u32,
    failures_after_success: u32,
    failures_anywhere: u32,
    failures_in_a_row: u32,
    has_worked: bool,
    like_worked: bool,
    tool_worked: bool,
    failed_before: bool,
}

impl<'a> Walk<'a> {
    fn new(step: &'a Step, index: Option<&'a Remembered>) -> Self {
        let evidence = step.evidence();
        let is_little = evidence.marks.contains(Marks::LITTLE);
        // Who shares half of the runs of another knows half of its own, and who shares nearly all knows one of the two smallest.
        let (arguments, answer) = (evidence.arguments(), evidence.answer());
        let may_share_words = index.is_none_or(|index| {
            let known = index.arguments.places(arguments, 0).count_ones() as usize;
            known * 100 >= arguments.hashes().len() * NEAR_PERCENT
        });
        let may_share_answer = !is_little
            && index.is_none_or(|index| {
                answer.is_empty() || answer.hashes().iter().take(2).any(|hash| index.answers.holds(*hash, 0))
            });
        Self {
            step,
            index,
            brought: Places::of(brought(evidence)),
            arguments: Places::of(arguments),
            arguments_len: arguments.hashes().len(),
            is_little: is_little && !step.failed(),
            may_share_words,
            may_share_answer,
            oldest: step.sequence,
            newest: [step; NEWEST_STEPS],
            steps: 0,
            turns: Turns::of(step),
            known: 0,
            known_arguments: 0,
            is_changed: false,
            is_among_news: false,
            news_since_equal: false,
            equal: Alike::default(),
            equal_unchanged: 0,
            last_equal: None,
            turned: (0, step.failed()),
            around_numbers: 0,
            near: Alike::default(),
            tool_is_known: false,
            answer_is_known: false,
            nothing_found: 0,
            is_nothing_found: false,
            other_answer: false,
            equal_worked: false,
            is_adjacent: false,
            failures: 0,
            failures_after_success: 0,
            failures_anywhere: 0,
            failures_in_a_row: 0,
            has_worked: false,
            like_worked: false,
            tool_worked: false,
            failed_before: false,
        }
    }

    /// Takes the next older step. `has_message`: a person has written since.
    fn take(&mut self, earlier: &'a Step, has_message: bool) {
        let (step, other) = (self.step, earlier.evidence());
        let (is_of_tool, is_equal) = (step.tool == earlier.tool, step.call == earlier.call);
        if self.index.is_none() && !self.brought.are_all(self.known) {
            self.known |= self.brought.shared_with(other.answer()) | self.brought.shared_with(other.failure());
        }
        // Of two that share half of all, neither has more than twice the other's.
        let (ours_len, theirs_len) = (self.arguments_len, other.arguments().hashes().len());
        let may_be_near =
            is_of_tool && !is_equal && self.may_share_words && ours_len.abs_diff(theirs_len) <= ours_len.min(theirs_len);
        let shared = if self.index.is_none() || may_be_near { self.arguments.shared_with(other.arguments()) } else { 0 };
        self.known_arguments |= shared;
        let shares_half = shared.count_ones() as usize * 100 >= ours_len * NEAR_PERCENT;
        let like = likeness_of(step, earlier, may_be_near && shares_half);
        let ends_equally = step.failed() == earlier.failed();
        // Most steps are neither like it nor of a tool whose answers are compared.
        let compares = like != Likeness::Other || (is_of_tool && self.is_little && !(self.other_answer && self.is_nothing_found));
        let alike = compares && ends_equally && news::is_answered_alike(step, earlier);
        let may_fail_alike = step.failed() && earlier.failed() && self.steps < FAILURE_STEPS;
        let asks_turn = may_fail_alike || like == Likeness::Equal || (like == Likeness::Near && alike);
        let is_first = asks_turn && self.turns.is_new(earlier);
        self.turns.note(earlier);
        self.answer_is_known = self.answer_is_known || (self.may_share_answer && news::stands_still(step, earlier));
        if is_of_tool {
            self.take_of_tool(earlier, alike);
        }
        if step.failed() {
            self.take_failure(earlier, like, is_first);
        }
        match like {
            Likeness::Equal => self.take_equal(earlier, alike, is_first, has_message),
            Likeness::Near => {
                self.near.made += 1;
                if alike && is_first {
                    self.near.note(self.is_changed || has_message, self.is_among_news);
                }
            }
            Likeness::Other => {}
        }
        if !is_equal {
            self.is_changed |= other.marks.intersects(Marks::CHANGE | Marks::ITEM);
            let is_news = !earlier.failed() && other.news > NEWS_PERCENT;
            self.is_among_news |= is_news;
            self.news_since_equal |= is_news && self.equal.made == 0;
        }
        self.oldest = earlier.sequence;
        self.steps += 1;
        if let Some(place) = self.newest.get_mut(self.steps) {
            *place = earlier;
        }
    }

    fn take_of_tool(&mut self, earlier: &Step, alike: bool) {
        self.tool_is_known = true;
        if self.is_little && !earlier.failed() {
            if alike && earlier.call != self.step.call {
                self.is_nothing_found = true;
                self.nothing_found += u32::from(!self.other_answer);
            }
            self.other_answer |= !alike;
        }
        self.failed_before |= self.steps < RECOVERY_STEPS && earlier.failed() && !self.step.failed();
    }

    fn take_failure(&mut self, earlier: &Step, like: Likeness, is_first: bool) {
        self.has_worked |= !earlier.failed();
        self.failures_in_a_row += u32::from(!self.has_worked);
        if self.steps >= FAILURE_STEPS {
            return;
        }
        if !earlier.failed() {
            if earlier.tool == self.step.tool {
                self.like_worked |= like != Likeness::Other;
                self.tool_worked = true;
            }
        } else if is_first && news::fails_alike(self.step, earlier) {
            self.failures_anywhere += 1;
            if earlier.tool == self.step.tool && !self.like_worked {
                if self.tool_worked && like == Likeness::Other {
                    self.failures_after_success += 1;
                } else {
                    self.failures += 1;
                }
            }
        }
    }

    fn take_equal(&mut self, earlier: &Step, alike: bool, is_first: bool, has_message: bool) {
        self.equal.made += 1;
        self.equal_worked |= !earlier.failed();
        self.is_adjacent |= self.steps == 0;
        let (turns, failed) = self.turned;
        self.turned = (turns + u32::from(failed != earlier.failed()), earlier.failed());
        if self.last_equal.is_none() {
            self.last_equal = Some((alike, self.step.time.0.saturating_sub(earlier.time.0)));
        }
        if !is_first {
            return;
        }
        self.equal_unchanged += u32::from(!self.is_changed && !has_message && self.step.failed() == earlier.failed());
        if alike && !has_message {
            self.equal.note(self.is_changed, self.is_among_news);
        }
        self.around_numbers += u32::from(!alike && news::differs_in_numbers(self.step, earlier));
    }
}

impl<'a> Walk<'a> {
    /// What the walk comes to.
    fn finish(mut self, history: &'a History, user_words: &(impl Iterator<Item = &'a [u16]> + Clone)) -> Measured {
        let (step, evidence) = (self.step, self.step.evidence());
        if let Some(index) = self.index {
            self.known = index.answers.places(brought(evidence), self.oldest);
            self.known_arguments = index.arguments.places(evidence.arguments(), self.oldest);
        }
        let mut marks = evidence.marks;
        let (is_ok, is_little) = (!step.failed(), marks.contains(Marks::LITTLE));
        let is_made = self.equal.made > 0;
        let is_novel = !is_made && self.near.made == 0;
        let is_poll = step.flags.contains(Flags::POLL);
        let answer_news = brought(evidence).percent_beside(self.known);
        let of_arguments = evidence.arguments().percent_beside(self.known_arguments);
        // A success of few words brought its arguments too, unless all calls of the tool are answered so.
        let argument_news = if is_ok && is_little && !self.is_nothing_found { of_arguments } else { 0 };
        let is_quiet = answer_news <= NEWS_PERCENT && argument_news <= ARGUMENT_NEWS_PERCENT;
        let brings_answer = is_little || answer_news > NEWS_PERCENT;
        let is_item = is_ok && !is_made && brings_answer && self.names_item(history, user_words);
        // A note to oneself is answered with a receipt, and changes nothing.
        let is_receipt = is_little
            && !step.flags.contains(Flags::ARGS_ONLY)
            && (is_novel || of_arguments > SERIES_NEWS_PERCENT)
            && !self.is_nothing_found;
        let changes = step.flags.contains(Flags::MUTATES) || is_item || is_receipt;
        let is_change = is_ok && !self.equal_worked && !is_poll && changes;
        // A command that ends well and badly in turn is being watched: that it is run again means nothing.
        let is_watched = self.turned.0 >= 2;
        let is_work = is_item || is_change || is_poll || is_watched;
        let is_barren = is_ok && is_quiet && !is_work && (!is_little || is_made);
        marks.set(Marks::NOVEL, is_novel);
        marks.set(Marks::CHANGE, is_change && (is_receipt || step.flags.contains(Flags::MUTATES)));
        marks.set(Marks::ITEM, is_item && !is_poll);
        marks.set(Marks::BARREN, is_barren);
        let asks_again = is_ok && is_made && asks_for_job(history, step);
        let is_scheduled = self.is_adjacent && self.last_equal.is_some_and(|(_, ago_ms)| ago_ms >= SCHEDULE_MS);
        let waiting = if is_scheduled {
            Waiting::Waits
        } else if !is_poll && !asks_again && !step.flags.contains(Flags::RETRYABLE) {
            Waiting::No
        } else if marks.contains(Marks::SLOW) || self.last_equal.is_some_and(|(_, ago_ms)| ago_ms >= WAIT_MS) {
            Waiting::Waits
        } else {
            Waiting::Asks
        };
        let is_known = !marks.contains(Marks::NO_ARGUMENTS) && !marks.contains(Marks::NO_ANSWER);
        let seen = StepTraits { is_watched, is_quiet, is_item, is_novel, is_change, is_barren, answer_news };
        let facts = if is_known { self.facts(&seen, history) } else { Facts::default() };
        Measured { facts, news: answer_news.max(argument_news), marks, waiting }
    }

    /// Whether the step names something that no earlier call of its tool named, and that was shown before, named by a person, or stands in its
    /// answer.
    fn names_item(&self, history: &'a History, user_words: &(impl Iterator<Item = &'a [u16]> + Clone)) -> bool {
        let (step, evidence) = (self.step, self.step.evidence());
        let before = || news::remembered(history, step);
        let was_asked = |word: &u16| match self.index {
            Some(index) => index.was_asked(*word, step.tool, self.oldest),
            None => before().any(|earlier| earlier.tool == step.tool && earlier.evidence().asked().contains(word)),
        };
        let was_shown = |word: &u16| match self.index {
            Some(index) => index.was_shown(*word, self.oldest),
            None => before().any(|earlier| earlier.evidence().shown().contains(word)),
        };
        let is_written = |word: &u16| user_words.clone().any(|text| text.binary_search(word).is_ok());
        let is_shown = |word: &u16| evidence.shown().contains(word) || is_written(word) || was_shown(word);
        evidence.asked().iter().any(|word| !was_asked(word) && is_shown(word))
    }

    /// The step and those before it, newest first.
    fn newest(&self) -> &[&'a Step] {
        self.newest.get(..=self.steps).unwrap_or(&self.newest)
    }

    /// Steps without news in a row before the step, since a person last wrote.
    fn barren_before(&self, history: &History) -> u32 {
        let before = self.newest().iter().skip(1).take(QUIET_RUN_MAX as usize);
        let is_barren =
            |earlier: &&&Step| earlier.sequence >= history.floor() && earlier.evidence().marks.contains(Marks::BARREN);
        before.take_while(is_barren).count() as u32
    }

    fn facts(&self, seen: &StepTraits, history: &History) -> Facts {
        let mut facts = Facts::default();
        let (step, evidence) = (self.step, self.step.evidence());
        let (is_ok, is_little, is_made) = (!step.failed(), evidence.marks.contains(Marks::LITTLE), self.equal.made > 0);
        let is_like = is_made || self.near.made > 0;
        let nothing_found = is_ok && self.is_nothing_found && !is_made && !seen.is_item && !step.flags.contains(Flags::MUTATES);
        let was_otherwise = self.last_equal.is_some_and(|(alike, _)| !alike);
        if !seen.is_watched {
            let quiet_equal = if seen.is_quiet && !is_little { self.equal_unchanged } else { 0 };
            let equal = self.equal.unchanged.max(quiet_equal);
            // The receipt of an action holds little of what it did, where something new was seen since.
            let often = if is_little && self.news_since_equal { 0 } else { self.equal.all() };
            facts.note(Fact::Equal1, equal >= 1);
            facts.note(Fact::Equal2, equal >= 2);
            facts.note(Fact::Equal3, equal >= 3);
            facts.note(Fact::EqualOften3, often >= 3);
            facts.note(Fact::EqualOften5, often >= 5);
            facts.note(Fact::NumbersAlone3, self.around_numbers >= 3 && !is_little);
            facts.note(Fact::BackAgain, was_otherwise && often >= 1 && self.turned.0 == 0);
            facts.note(Fact::EqualAfterChange, equal == 0 && self.equal.among_news == 0 && self.equal.after_change > 0);
            let near = if seen.is_item { 0 } else { self.near.unchanged };
            facts.note(Fact::Near1, near >= 1);
            facts.note(Fact::Near3, near >= 3);
            facts.note(Fact::QuietKnown, seen.is_quiet && is_like && !seen.is_item);
            facts.note(Fact::Quiet, is_ok && seen.is_quiet && self.tool_is_known && !seen.is_item);
            facts.note(Fact::KnownAnswer, self.answer_is_known && !seen.is_item);
            facts.note(Fact::Round, is_round(self.newest()));
        }
        let run = if seen.is_barren { 1 + self.barren_before(history) } else { 0 };
        facts.note(Fact::Quiet3, run >= 3);
        facts.note(Fact::Quiet5, run >= 5);
        facts.note(Fact::Quiet7, run >= QUIET_RUN_MAX);
        facts.note(Fact::NothingFound3, nothing_found && self.nothing_found >= 3);
        facts.note(Fact::Fails1, self.failures >= 1);
        facts.note(Fact::Fails2, self.failures >= 2);
        facts.note(Fact::Fails3, self.failures >= 3);
        facts.note(Fact::Fails5, self.failures + self.failures_after_success >= 5);
        facts.note(Fact::FailsNew, !is_ok && seen.is_novel);
        facts.note(Fact::FailsElsewhere, self.failures == 0 && self.failures_anywhere > 0);
        facts.note(Fact::FailsInARow3, self.failures_in_a_row >= 3);
        let is_answered_otherwise = was_otherwise && !seen.is_quiet && self.around_numbers == 0;
        facts.note(Fact::EqualOtherwise, is_answered_otherwise);
        facts.note(Fact::Item, seen.is_item);
        facts.note(Fact::NewCall, is_ok && seen.is_novel && !nothing_found);
        facts.note(Fact::News, is_ok && seen.answer_news > NEWS_PERCENT && !nothing_found);
        facts.note(Fact::MuchNews, is_ok && seen.answer_news >= MUCH_NEWS_PERCENT && !nothing_found);
        facts.note(Fact::Change, seen.is_change);
        facts.note(Fact::WorksAgain, self.failed_before);
        facts.note(Fact::Different, are_different(self.newest()));
        facts
    }
}

/// What facts have in common.
struct StepTraits {
    is_watched: bool,
    is_quiet: bool,
    is_item: bool,
    is_novel: bool,
    is_change: bool,
    is_barren: bool,
    answer_news: u8,
}

/// What an answer brought: a success its words, a failure what is left of it without the words of its call.
fn brought(evidence: &Evidence) -> crate::identity::SketchView<'_> {
    if evidence.failure().is_empty() { evidence.answer() } else { evidence.failure() }
}

/// Whether the only argument of a step is the id of something that runs elsewhere: by its form, because a short answer of another tool
/// handed it over, or because asking for it takes its time. A number that a page lists is none.
fn asks_for_job(history: &History, step: &Step) -> bool {
    let (marks, asked) = (step.evidence().marks, step.evidence().asked());
    let hands_over = |earlier: &Step| {
        let other = earlier.evidence();
        earlier.tool != step.tool && other.marks.contains(Marks::LITTLE) && asked.iter().any(|word| other.shown().contains(word))
    };
    let is_handed = || marks.contains(Marks::SLOW) || news::remembered(history, step).any(hands_over);
    marks.contains(Marks::ID) || (marks.contains(Marks::HANDLE) && is_handed())
}

/// Whether the newest calls are all different.
fn are_different(newest: &[&Step]) -> bool {
    let steps = newest.get(..DIFFERENT_CALLS_MAX).unwrap_or(newest);
    let mut others = steps.iter();
    let mut is_first = || others.next().is_some_and(|one| others.clone().all(|other| other.call != one.call));
    steps.len() >= DIFFERENT_CALLS_MIN && (1..steps.len()).all(|_| is_first())
}

/// Whether the newest calls are those before them, answered alike.
fn is_round(newest: &[&Step]) -> bool {
    let period = (1..=ROUND_MAX).find(|period| {
        let mut pairs = newest.iter().zip(newest.iter().skip(*period)).take(*period);
        newest.len() >= 2 * period && pairs.len() == *period && pairs.all(|(one, other)| one.call == other.call)
    });
    period.filter(|period| *period >= 2).is_some_and(|period| {
        let mut pairs = newest.iter().zip(newest.iter().skip(period)).take(period);
        pairs.all(|(one, other)| news::is_answered_alike(one, other))
    })
}

#[cfg(test)]
mod tests;
