//! `oscillation`: two to four tools in turn (corteX). Page `detection`.

use crate::detect::finding::{Family, Finding, halves, loop_identity};
use crate::detect::rule::{About, CountSettings, Rule};
use crate::detect::text::{Advice, CommandText, TextContext};
use crate::detect::{detector::Detector, steps::history::History, steps::step::Step, steps::tally::Tally};
use crate::identity::{Hash64, hash_text};
use crate::setting::{Key, Kind, MODE, Mode, Value, Window, count, settings};

settings! {
    pub struct Settings {
        mode: Mode = r#""off""#, MODE, "";
        threshold: u32 = "2", count(1), "cycles of a finding";
        window_steps: u32 = "20", Window, "steps looked at";
        periods: Vec<u32> = "[2, 3, 4]", Periods, "lengths of a cycle looked for, steps; 2 to half the window";
    }
}

impl Rule for Settings {
    const ABOUT: About = About {
        title: "Two to four tools in turn.",
        rule: "The tools of the last `window_steps` steps end in at least `threshold` rounds of a pattern of 2, 3 \
            or 4 tools, whatever the calls are about.",
        example: "An edit fails, the file is read, the same edit fails again, the file is read again.",
        silent: &[
            "The pattern is longer than 4 (`rules/cycle-period-5`).",
            "The tools of a round are the same, or a shorter pattern themselves.",
        ],
        ..About::AGENT
    };

    fn counts(&self) -> CountSettings {
        CountSettings::new(Detector::Oscillation, self.mode, self.threshold)
    }

    fn text(&self, context: &TextContext<'_>) -> CommandText {
        let n = context.count();
        let text = format!(
            "[System] You are going back and forth between {} ({n} rounds). Decide which result you need, then take a step you \
             have not tried.",
            context.cycle.join(", ")
        );
        CommandText::new(text, format!("{n} rounds of {} calls", context.cycle.len())).advising(Advice::Replan)
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
    let first = tail.get(period * count as usize - 1).map_or(step.sequence, |earliest| earliest.sequence);
    let finding = settings.counts().finding(Tally { count, first }, step.sequence, || identity(history, &tail, period))?;
    Some(Finding { period: period as u32, ..finding.confident(0.5, 0.15).within(u64::from(settings.window_steps)) })
}

/// How often the last `period` tools stand back to back at the tail (newest first); 0 if they are constant or periodic themselves.
fn cycles(tail: &[&Step], period: usize) -> u32 {
    let Some(unit) = tail.get(..period) else { return 0 };
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
