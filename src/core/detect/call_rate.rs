//! `call_rate`: too many equal calls in a sliding window (IronCurtain's circuit breaker). Page `detection`.

use crate::detect::finding::{Family, Finding, halves, loop_identity};
use crate::detect::rule::{About, CountSettings, Rule};
use crate::detect::steps::step::{Flags, Step};
use crate::detect::swarm_repeat::Counted;
use crate::detect::text::{CommandText, TextContext};
use crate::detect::{detector::Detector, steps::evidence::Marks, steps::history::History, weights::news};
use crate::event::EventTime;
use crate::setting::{BlockScope, MODE, Mode, Needs, SharedSettings, Table, ToolPolicy, count, kinds, millis, one_of, settings};

settings! {
    pub struct Settings {
        mode: Mode = r#""block""#, MODE, "";
        count: Counted = r#""no_news""#, one_of(Counted::WORDS),
            "{words}: all but successes that brought something new, and of equal calls of one turn the first; more calls than the limit are then told, not refused";
        limit: u32 = "20", Limit, "equal calls, times the tool's factor; so many pass, the next is refused";
        window_ms: i64 = "60_000", millis(1), "sliding window, ms of event time";
        workers: u32 = "1", count(1), "times; multiplies the limit where one session runs several workers";
    }
    then times_workers;
}

kinds! {
    /// Calls that pass in a window: together with `workers` no more than the history holds.
    Limit -> u32, |_| "from 1; times `workers` up to `history_steps`".to_owned(), |_, key| {
        let (limit, workers, history) = (key.integer(), key.beside("workers"), key.shared.history_steps);
        let product = limit.saturating_mul(workers);
        let (path, is_positive) = (&key.path, limit >= 1 && workers >= 1);
        key.check.rule(path, !is_positive || product <= history, || {
            format!("{path} times workers is {product} ({limit} · {workers}), but must not be above history_steps ({history})")
        });
        count(1).read(key)
    };
}

/// The limit holds for all workers of a session together.
fn times_workers(mut settings: Settings, _: &mut Table<'_>) -> Settings {
    settings.limit = settings.limit.saturating_mul(settings.workers);
    settings
}

impl Rule for Settings {
    const ABOUT: About = About {
        title: "Too many equal calls in a time window.",
        rule: "More than `limit` calls of one identity within `window_ms` of event time. The next call is refused, \
            without a nudge before. The block ends when the oldest counted call leaves the window.",
        example: "A retry loop without a pause: the 21st call within a minute is refused.",
        silent: &[
            "Calls lie just outside the window of each other (`rules/rate-60s-left`).",
            "A tool of class `poll` may ask `poll_factor` times as often (`rules/rate-of-a-poll`).",
            "With `count = \"no_news\"`, a call that brought something new does not count towards a block; the agent is only \
                nudged (`rules/often-and-each-time-something-new`).",
            "Likewise equal calls of one turn less than 2 s apart, up to twice the limit \
                (`rules/rate-of-one-batch`).",
            "Likewise a key press or scroll that says nothing, when what comes between brings something new \
                (`rules/rate-of-keys-between-new-entries`).",
        ],
        ..About::CALL
    };

    fn counts(&self) -> CountSettings {
        CountSettings::new(Detector::CallRate, self.mode, self.limit)
            .blocking(self.limit.saturating_add(1), BlockScope::Fingerprint)
    }

    fn needs(&self, _: &SharedSettings) -> Needs {
        Needs { evidence: self.count == Counted::NoNews, ..Needs::default() }
    }

    fn text(&self, context: &TextContext<'_>) -> CommandText {
        let (n, tool, seconds) = (context.count(), context.tool, context.finding.window / 1000);
        let text = if context.is_block {
            format!(
                "CIRCUIT BREAKER: {tool} was called {} times with the same arguments within {seconds} s. This call is refused. Try a different \
                 approach.",
                n - 1
            )
        } else {
            format!(
                "[System] You've called {tool} {n} times with the same arguments within {seconds} s. Ask less often, or for more at once."
            )
        };
        CommandText::new(text, format!("{tool}: more than {} equal calls within {seconds} s", n - 1))
    }
}

/// Whether a call without a word of its own was followed, before it was made again, by another one that brought something new, as a look at the
/// screen does after each scroll.
fn showed_later(history: &History, call: &Step, step: &Step) -> bool {
    let between =
        history.ring().skip_while(|other| other.sequence <= call.sequence).take_while(|other| other.sequence < step.sequence);
    call.evidence().marks.contains(Marks::LITTLE) && between.take_while(|other| other.call != call.call).any(news::brings_news)
}

/// So many times as often as the limit allows, equal calls of one turn may be one batch; more of them are a loop within a turn.
const BATCH_FACTOR: usize = 2;

/// Judges the newest call. It is already recorded: the audit precedes the verdict.
#[must_use]
pub fn observe(settings: &Settings, tool: &ToolPolicy, history: &History, step: &Step, now: EventTime) -> Option<Finding> {
    let limit = step.scaled(tool, settings.limit);
    // The index counts the whole ring: not more than the limit there, not more in any window.
    if history.calls_in_ring(step.call) <= limit {
        return None;
    }
    let from = now.minus_ms(settings.window_ms);
    let is_out = Flags::REFUSED | Flags::OVER_RATE | Flags::EXEMPT;
    let kept = history.ring_back().take_while(|step| !step.flags.contains(Flags::FORGOTTEN));
    let earlier = kept.skip_while(|earlier| earlier.sequence >= step.sequence);
    let equal: Vec<&Step> = earlier
        .take_while(|earlier| earlier.time > from)
        .filter(|earlier| earlier.call == step.call && !earlier.flags.intersects(is_out))
        .collect();
    if equal.len() < limit as usize {
        return None;
    }
    // Nobody knows what the first of them brought.
    let before = equal.iter().skip(1).map(|earlier| Some(*earlier)).chain([None]);
    let got_further = |call: &Step, before: Option<&Step>| before.is_some() && news::brings_news(call);
    // A batch is one piece of evidence: the calls of a fan-out are all made before the first answer is there.
    let may_be_batch = equal.len() < limit as usize * BATCH_FACTOR;
    let is_of_batch = |call: &Step, before: Option<&Step>| {
        may_be_batch && call.flags.contains(Flags::SAME_TURN) && before.is_some_and(|before| call.is_parallel_to(before))
    };
    let in_vain: Vec<&Step> = equal
        .iter()
        .zip(before)
        .filter(|(call, before)| {
            settings.count == Counted::All
                || !(is_of_batch(call, *before) || got_further(call, *before) || showed_later(history, call, step))
        })
        .map(|(call, _)| *call)
        .collect();
    // Calls that brought something new, or are one batch, are many, and no loop: that is a nudge, and no refusal.
    let may_block = in_vain.len() >= limit as usize;
    let counted = if may_block { in_vain } else { equal };
    let oldest = counted.last().copied().unwrap_or(step);
    let identity = loop_identity(Family::Rate, &halves(step.call));
    let mut finding = Finding::new(Detector::CallRate, settings.mode, identity, counted.len() as u32 + 1, limit + 1)
        .blocking_at(u32::from(may_block))
        .within(settings.window_ms.unsigned_abs())
        .spanning(oldest.sequence, step.sequence);
    finding.free_at = may_block.then(|| oldest.time.plus_ms(settings.window_ms));
    Some(finding)
}
