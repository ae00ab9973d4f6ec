//! What is found by the index of remembered hashes, against what a walk finds.

use proptest::prelude::*;

use super::measure;
use crate::detect::steps::evidence::{ARGUMENT_WORDS_MAX, Evidence, Hashed, LITTLE_WORDS, Marks};
use crate::detect::steps::history::History;
use crate::detect::steps::step::{Flags, Step};
use crate::identity::{Hash128, read_text};

/// A call of few tools with few words, how it is answered, and what happens before it.
#[derive(Debug, Clone)]
struct Made {
    tool: u8,
    call: u8,
    asked: Vec<u8>,
    values: Vec<u32>,
    shown: Vec<u8>,
    has_failed: bool,
    turn: u64,
    transparent: Option<Flags>,
    /// Calls that are made before its answer comes.
    late: usize,
    /// A reset comes before it, or a message of a person.
    is_behind_reset: bool,
    is_behind_message: bool,
}

fn made() -> impl Strategy<Value = Made> {
    let words = |most| proptest::collection::vec(0_u8..18, 0..most);
    let values = proptest::collection::vec(0_u32..4, 0..4);
    let transparent = prop_oneof![8 => Just(None), 1 => Just(Some(Flags::SAME_TURN)), 1 => Just(Some(Flags::RETRYABLE))];
    let rare = || proptest::bool::weighted(0.02);
    let late = prop_oneof![6 => Just(0_usize), 1 => 1..4_usize];
    let call = (0_u8..3, 0_u8..12, words(7), values);
    let answer = (words(24), any::<bool>(), 0_u64..5, transparent, late, (rare(), rare()));
    (call, answer).prop_map(|((tool, call, asked, mut values), (shown, has_failed, turn, transparent, late, before))| {
        values.sort_unstable();
        let (is_behind_reset, is_behind_message) = before;
        Made { tool, call, asked, values, shown, has_failed, turn, transparent, late, is_behind_reset, is_behind_message }
    })
}

fn text(words: &[u8]) -> String {
    words.iter().flat_map(|word| [b'a' + word, b'a' + word, b' ']).map(char::from).collect()
}

impl Made {
    fn step(&self) -> Step {
        let mut step = Step { turn: self.turn, call: Hash128(u128::from(self.call) << 100 | 1), ..Step::default() };
        step.flags.set(Flags::OPEN, true);
        step.flags |= self.transparent.unwrap_or_default();
        step
    }

    fn complete(&self, step: &mut Step) {
        let (asked, shown) = (read_text(&text(&self.asked), ARGUMENT_WORDS_MAX), read_text(&text(&self.shown), 160));
        let failure = read_text(&text(self.shown.get(2..).unwrap_or_default()), 0).sketch;
        let hashed = Hashed {
            arguments: asked.sketch.view(),
            values: &self.values,
            answer: shown.sketch.view(),
            failure: if self.has_failed { failure.view() } else { crate::identity::SketchView::default() },
            asked: &asked.named,
            shown: &shown.named,
            around_numbers: shown.shape,
            ..Hashed::default()
        };
        let mut marks = Marks::default();
        marks.set(Marks::LITTLE, shown.words < LITTLE_WORDS);
        marks.set(Marks::HANDLE, asked.words == 1);
        step.evidence = Some(Evidence::new(hashed, 0, marks));
        step.flags.set(Flags::OPEN, false);
        step.flags.set(Flags::OBSERVED, true);
        step.flags.set(Flags::OK, !self.has_failed);
    }
}

/// The same history without an index.
fn loaded(history: &History) -> History {
    let steps = history.ring().map(|step| (step.clone(), history.tool(step).into()));
    History::restored(history.capacity(), history.next_sequence(), history.floor(), steps)
}

/// Measures the answer of a call with the index and without; whether there was one.
fn is_measured_alike(history: &mut History, sequence: u64, made: &Made) -> Result<bool, TestCaseError> {
    history.update(sequence, |step| made.complete(step));
    let Some(step) = history.get(sequence) else { return Ok(false) };
    let user_words = [[3_u16, 9].as_slice()];
    let measured = measure(history, step, &user_words.iter().copied());
    let (is_indexed, other) = (history.remembered_before(step).is_some(), loaded(history));
    let walked = other.get(sequence).map(|step| measure(&other, step, &user_words.iter().copied()));
    prop_assert_eq!(Some(measured), walked);
    history.update(sequence, |step| {
        if let Some(evidence) = &mut step.evidence {
            (evidence.news, evidence.marks, evidence.facts) = (measured.news, measured.marks, measured.facts);
        }
    });
    history.remember(sequence);
    Ok(is_indexed)
}

proptest! {
    #[test]
    fn an_index_finds_what_a_walk_finds(all in proptest::collection::vec(made(), 1..160), capacity in 3_usize..100) {
        let (mut history, mut open, mut indexed) = (History::new(capacity), Vec::new(), 0);
        for (place, made) in all.iter().enumerate() {
            if made.is_behind_reset && let Some(newest) = history.newest().map(|step| step.sequence) {
                history.update(newest, |step| step.flags.set(Flags::FORGOTTEN, true));
            }
            if made.is_behind_reset || made.is_behind_message {
                history.raise_floor();
            }
            history.push(made.step(), &format!("tool{}", made.tool));
            open.push((place + made.late, history.next_sequence() - 1, made));
            for (due, sequence, made) in std::mem::take(&mut open) {
                if due <= place {
                    indexed += usize::from(is_measured_alike(&mut history, sequence, made)?);
                } else {
                    open.push((due, sequence, made));
                }
            }
        }
        // A short session has none, and a long one does.
        prop_assert!(all.len() > 16 || indexed == 0);
        prop_assert!(all.len() < 100 || capacity < 40 || indexed > 0);
    }
}
