//! `cycle`: the same calls in turn, by an agent of whose answers nothing is known. Page `detection`.

use crate::detect::finding::{Family, Finding, halves, loop_identity};
use crate::detect::rule::{About, CountSettings, Rule};
use crate::detect::steps::step::{Flags, Step};
use crate::detect::text::{CommandText, TextContext};
use crate::detect::{detector::Detector, steps::history::History};
use crate::setting::{MODE, Mode, ToolPolicy, count, settings, steps};

/// Calls of a round at most.
const CALLS_MAX: usize = 8;

settings! {
    pub struct Settings {
        mode: Mode = r#""nudge""#, MODE, "";
        threshold: u32 = "4", count(2), "rounds of a finding, times the tool's factor";
        calls: u32 = "8", steps(1, CALLS_MAX), "calls of a round at most";
    }
}

impl Rule for Settings {
    const ABOUT: About = About {
        title: "The same calls in turn, where no answer is known.",
        rule: "The newest calls are `threshold` rounds of the same one to `calls` calls, and of no call of the session an answer is known. \
            Equal calls less than two seconds apart may be one reply, and end the look back.",
        example: "A source tells which calls are made and nothing of what they return.",
        silent: &[
            "An answer is known: then what it brings decides (`default/a-cycle-with-answers-that-are-new`).",
            "Each round has other arguments.",
        ],
        ..About::AGENT
    };

    fn counts(&self) -> CountSettings {
        CountSettings::new(Detector::Cycle, self.mode, self.threshold)
    }

    fn text(&self, context: &TextContext<'_>) -> CommandText {
        let (n, period) = (context.count(), context.finding.period);
        let what = if period == 1 {
            format!("The same {} call was", context.tool)
        } else {
            format!("The same {period} calls in turn were")
        };
        let text = format!("{what} made {n} times{}. If they bring nothing new, take another way.", context.span());
        CommandText::new(text, format!("{n} rounds of {period} equal calls without a known answer{}", context.span()))
    }
}

/// Looks for rounds that end with the newest call.
#[must_use]
pub fn observe(settings: &Settings, tool: &ToolPolicy, history: &History, step: &Step) -> Option<Finding> {
    if step.is_transparent() || history.ring().any(|earlier| earlier.flags.contains(Flags::OBSERVED)) {
        return None;
    }
    let factor = tool.scaled(1, step.flags.contains(Flags::POLL)).max(1);
    let rounds = settings.threshold.saturating_mul(factor);
    let calls: Vec<&Step> = history.counted_back_from(step).collect();
    (1..=settings.calls).find_map(|period| {
        let before = calls.iter().skip(period as usize);
        let pairs =
            calls.iter().zip(before).take_while(|(call, before)| call.call == before.call && !call.is_parallel_to(before));
        let count = pairs.count() as u32 / period + 1;
        let first = calls.get((count * period) as usize - 1).filter(|_| count >= rounds)?;
        // A cycle is the same wherever it is entered.
        let mut round: Vec<[u64; 2]> = calls.iter().take(period as usize).map(|call| halves(call.call)).collect();
        round.sort_unstable();
        let identity = loop_identity(Family::Cycle, round.as_flattened());
        let finding = Finding::new(Detector::Cycle, settings.mode, identity, count, rounds).confident(0.5, 0.05);
        Some(Finding { period, poll_factor: factor, ..finding.spanning(first.sequence, step.sequence) })
    })
}
