//! `oscillation`: two to four tools in turn (corteX). Page `detection`.

use crate::detect::detector::Detector;
use crate::detect::finding::{Family, Finding, halves, loop_identity};
use crate::detect::history::History;
use crate::detect::pace::PATIENT_MS;
use crate::detect::rule::{About, Rule};
use crate::detect::step::{Flags, Step};
use crate::detect::words::{Advice, Said, Words};
use crate::identity::{Hash64, hash_text};
use crate::setting::{FLAG, Key, Kind, MODE, Mode, Needs, Shared, Value, WINDOW, count, settings};

settings! {
    /// `detectors.oscillation`.
    pub struct Settings {
        mode: Mode = r#""nudge""#, MODE, "";
        threshold: u32 = "2", count(1), "cycles of a finding";
        window_steps: u32 = "20", WINDOW, "steps looked at";
        periods: Vec<u32> = "[2, 3, 4]", Periods, "lengths of a cycle looked for, steps; 2 to half the window";
        needs_repeat: bool = "true", FLAG,
            "a command needs that calls or answers repeat too: read, edit, read, edit is work";
        cycles_alone: u32 = "3", count(1), "so many cycles are enough without, if the last one brings nothing new";
    }
}

impl Rule for Settings {
    const ABOUT: About = About {
        title: "Two to four tools in turn.",
        rule: "The tools of the last `window_steps` steps end in at least `threshold` rounds of a pattern of 2, 3 \
            or 4 tools. Two rounds are enough if each place of the last round repeats the round before: the same \
            call without another answer, or the same answer that says something. Otherwise `cycles_alone` rounds \
            are needed, and the last one must bring nothing new.",
        example: "An edit fails, the file is read, the same edit fails again, the file is read again.",
        silent: &[
            "The last round brings something new: an edit that works, a new call with a new answer, or a queue \
                that is worked off (`equality/edit-and-test-in-turn`, `equality/a-queue-that-is-worked-off`).",
            "A known call shows something new beside an action that is only acknowledged, as scroll and read does \
                (`equality/cycle-that-scrolls-and-reads`).",
            "A round takes at least 45 s and shows something new (`equality/cycle-of-two-looks-a-minute`).",
            "One of the tools waits: looks after a wait have a rhythm by nature.",
            "The pattern is longer than 4 (`equality/cycle-period-5`).",
        ],
        ..About::AGENT
    };

    fn threshold(&self) -> u32 {
        self.threshold
    }

    fn needs(&self, _: &Shared) -> Needs {
        Needs { outcome: self.needs_repeat, ..Needs::default() }
    }

    fn words(&self, words: &Words<'_>) -> Said {
        let n = words.count();
        let text = format!(
            "[System] You are going back and forth between {} ({n} rounds). Decide which result you need, then take a step you \
             have not tried.",
            words.cycle.join(", ")
        );
        Said::new(text, format!("{n} rounds of {} calls", words.cycle.len())).advising(Advice::Replan)
    }
}

/// Lengths of a cycle, sorted and each once.
struct Periods;

impl Kind for Periods {
    type Of = Vec<u32>;

    fn read(&self, key: &mut Key<'_>) -> Vec<u32> {
        let half = key.beside("window_steps").clamp(1, i64::from(i32::MAX)) / 2;
        let (list, path) = (key.list(), &key.path);
        key.check.rule(path, !list.is_empty(), || format!("{path} is empty, but must hold a period"));
        let mut periods = Vec::new();
        for value in list {
            let Value::Integer(period) = *value else { continue };
            let holds = (2..=half).contains(&period);
            key.check.rule(path, holds, || {
                format!("{path} holds {period}, but a period must be at least 2 and not above half of window_steps ({half})")
            });
            if holds {
                periods.push(period as u32);
            }
        }
        periods.sort_unstable();
        periods.dedup();
        periods
    }

    fn range(&self) -> String {
        "2 to half of `window_steps`".to_owned()
    }
}

/// Looks for the period with the most cycles at the tail; tie: the shortest.
#[must_use]
pub fn observe(settings: &Settings, history: &History, step: &Step) -> Option<Finding> {
    let window = settings.window_steps as usize;
    let mut tail: Vec<&Step> = Vec::with_capacity(window.min(history.len()));
    tail.extend(history.complete_back().take(window));
    // The answer to an earlier call completes no cycle: the tail was judged when its own newest step returned.
    if tail.first().is_none_or(|newest| newest.sequence != step.sequence) {
        return None;
    }
    let mut best: Option<(u32, usize)> = None;
    for &period in &settings.periods {
        let cycles = cycles(&tail, period as usize);
        if cycles >= settings.threshold && best.is_none_or(|(most, _)| cycles > most) {
            best = Some((cycles, period as usize));
        }
    }
    let (count, period) = best?;
    let repeats = (0..period).all(|place| match (tail.get(place), tail.get(place + period)) {
        (Some(last), Some(before)) => repeats(last, before),
        _ => false,
    });
    let round = || tail.iter().take(period);
    let is_slow = || tail.get(period).is_some_and(|before| step.time.0.saturating_sub(before.time.0) >= PATIENT_MS);
    let brings_new = || {
        round().any(|step| brings_new(step))
            || works_off(round())
            || (round().any(|step| shows_new(step)) && (is_slow() || acts(round())))
    };
    let first = tail.get(period * count as usize - 1).map_or(step.sequence, |earliest| earliest.sequence);
    let mut finding =
        Finding::new(Detector::Oscillation, settings.mode, identity(history, &tail, period), count, settings.threshold)
            .confident(0.5, 0.15)
            .within(u64::from(settings.window_steps))
            .spanning(first, step.sequence);
    finding.period = period as u32;
    finding.is_signal = settings.needs_repeat && !repeats && (count < settings.cycles_alone || brings_new());
    Some(finding)
}

/// Whether a place of the last round is as in the round before: the same call without another answer, or an answer that says something and is the same,
/// unless two different calls have worked alike.
fn repeats(last: &Step, before: &Step) -> bool {
    let is_work = last.flags.has(Flags::OK) && !last.flags.has(Flags::SEEN_CALL);
    let is_same_answer = last.outcome.is_some() && last.outcome == before.outcome && !last.flags.has(Flags::GENERIC) && !is_work;
    (last.call == before.call && !last.answers_otherwise(before)) || is_same_answer
}

/// Whether a step is work: a new change that works, or a new call with a new answer that says something.
const fn brings_new(step: &Step) -> bool {
    step.flags.has(Flags::NEW_CHANGE) || (shows_new(step) && !step.flags.has(Flags::SEEN_CALL))
}

/// Whether a look, at a known place too, shows what was not seen before. By itself that is no work: many an answer holds something fresh. It is where
/// who looks does so once a minute, or has done something before.
const fn shows_new(step: &Step) -> bool {
    let has_seen = step.flags.any(Flags(Flags::SEEN_OUTCOME.0 | Flags::GENERIC.0));
    step.flags.has(Flags::OK) && step.outcome.is_some() && !has_seen
}

/// Whether a call of the round is a deed, which brings a receipt alone: a scroll, a step of a debugger, a move in a game.
fn acts<'a>(mut round: impl Iterator<Item = &'a &'a Step>) -> bool {
    round.any(|step| step.flags.has(Flags::RECEIPT))
}

/// Whether a round is one of somebody who works off what comes: one step brought an answer not seen before, and one was a new call, as with a queue
/// whose next item is asked for by one call, and answered by another whose receipts are alike.
fn works_off<'a>(round: impl Iterator<Item = &'a &'a Step> + Clone) -> bool {
    let mut worked = round.filter(|step| step.flags.has(Flags::OK));
    worked.clone().any(|step| step.outcome.is_some() && !step.flags.has(Flags::SEEN_OUTCOME))
        && worked.any(|step| !step.flags.has(Flags::SEEN_CALL))
}

/// How often the last `period` tools stand back to back at the tail (newest first); 0 if they are constant or periodic themselves,
/// or wait: who looks again after each wait has a rhythm, and is counted by the answers.
fn cycles(tail: &[&Step], period: usize) -> u32 {
    let Some(unit) = tail.get(..period) else { return 0 };
    if unit.iter().any(|step| step.flags.has(Flags::WAITS)) {
        return 0;
    }
    let smaller = (1..period)
        .any(|shift| period.is_multiple_of(shift) && unit.iter().zip(unit.iter().skip(shift)).all(|(a, b)| a.tool == b.tool));
    if smaller {
        return 0;
    }
    tail.chunks_exact(period).take_while(|cycle| cycle.iter().zip(unit).all(|(a, b)| a.tool == b.tool)).count() as u32
}

/// The period's calls if they repeat, else its tools; the rotation that sorts first, so that where the loop is entered does not
/// matter.
fn identity(history: &History, tail: &[&Step], period: usize) -> Hash64 {
    let calls_repeat = (0..period).all(
        |place| matches!((tail.get(place), tail.get(place + period)), (Some(last), Some(before)) if last.call == before.call),
    );
    let hashes: Vec<u64> = tail
        .iter()
        .take(period)
        .rev()
        .map(|step| if calls_repeat { halves(step.call)[0] } else { hash_text(history.tool(step)).hash64().0 })
        .collect();
    let smallest = (0..period)
        .map(|start| hashes.iter().cycle().skip(start).take(period).copied().collect::<Vec<_>>())
        .min()
        .unwrap_or_default();
    loop_identity(Family::Cycle, &smallest)
}
