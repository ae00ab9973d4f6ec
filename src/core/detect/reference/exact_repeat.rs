//! `exact_repeat`: the same call again (HackEurope26 counts in a window, attocode in a row). Page `detection`.

use crate::detect::finding::{Finding, repeat_identity};
use crate::detect::rule::{About, CountSettings, Rule};
use crate::detect::steps::tally::{Run, Tally};
use crate::detect::text::{CommandText, TextContext};
use crate::detect::{detector::Detector, steps::history::History, steps::step::Step};
use crate::setting::{
    BLOCK_SCOPE, BlockAt, BlockScope, Key, Kind, MODE, Mode, Needs, SharedSettings, ToolPolicy, Window, count, one_of, settings,
    words,
};

settings! {
    pub struct Settings {
        mode: Mode = r#""off""#, MODE, "";
        threshold: u32 = "3", count(1),
            "calls of a finding; alone in a policy it moves block_at, and both numbers of near_repeat, with it";
        block_at: u32 = "10", BlockAt,
            "calls of a block: agents that repeat a call eight times and then find out by themselves exist; 0 = never";
        count: RepeatCount = r#""run""#, one_of(RepeatCount::WORDS),
            "{words}: in a row, or anywhere in the last window_steps calls";
        window_steps: u32 = "20", RepeatWindow, r#"calls, for count = "window""#;
        evaluate: Evaluate = r#""call""#, one_of(Evaluate::WORDS), "{words}: at each call, or once per turn";
        reject_notice_always as "reject_notice": bool = r#""auto""#, one_of(&NOTICES),
            "{words}: announce rejection only where mode block delivers it, or always";
        block_scope: BlockScope = r#""fingerprint""#, BLOCK_SCOPE,
            "{words}: what of the agent's calls a block covers, session: all; the narrowest leaves the agent the most";
    }
}

words! {
    /// How equal calls are counted.
    pub enum RepeatCount {
        /// Consecutive steps at the tail (attocode).
        Run = "run",
        /// Anywhere in the last `window_steps` calls (HackEurope26).
        Window = "window",
    }
}

words! {
    /// When the count is compared with the threshold.
    pub enum Evaluate {
        Call = "call",
        /// Once per turn, before the next begins.
        Turn = "turn",
    }
}

const NOTICES: [(&str, bool); 2] = [("auto", false), ("always", true)];

impl Rule for Settings {
    const ABOUT: About = About {
        title: "Same call, again and again.",
        rule: "The newest call and the identical calls directly before it are at least `threshold`, whatever they \
            answer. With `count = \"window\"` they may stand anywhere in the last `window_steps` calls.",
        example: "The agent runs `Bash {\"command\":\"cargo test\"}` again and again. The third call is nudged, the fourth \
            and sixth more firmly, the tenth is refused.",
        silent: &[
            "The same intent is written in another way: `ls src`, then `ls ./src`. `stuck` may see it.",
            "An argument is new each time by nature. Leave it out with `args_ignored`.",
            "A tool of class `poll`, a call that waits, or a look after a wait has counts multiplied by \
                `poll_factor` (`rules/poll-factor-3`, `rules/a-command-that-waits`).",
        ],
        ..About::CALL
    };

    fn counts(&self) -> CountSettings {
        CountSettings::new(Detector::ExactRepeat, self.mode, self.threshold).blocking(self.block_at, self.block_scope)
    }

    fn needs(&self, _: &SharedSettings) -> Needs {
        Needs { fingerprint: true, ..Needs::default() }
    }

    fn text(&self, context: &TextContext<'_>) -> CommandText {
        let n = context.count();
        let text = if context.is_block && context.blocks_all {
            let tool = context.tool;
            format!("Agent stuck in a loop: {tool} was called {n} times with the same arguments. The run is stopped.")
        } else {
            repeat(context, "with the same arguments", "with identical arguments")
        };
        CommandText::new(text, format!("{}: {n} calls{}, same arguments{}", context.tool, context.span(), context.failing()))
    }
}

/// The texts of equal and of nearly equal calls: `same` and `identical` name what they share.
pub(crate) fn repeat(context: &TextContext<'_>, same: &str, identical: &str) -> String {
    let (n, tool) = (context.count(), context.tool);
    if context.is_block {
        return format!(
            "[System] BLOCKED: {tool} was called {n} times {same}. Further calls of this kind are refused until the block expires. Take \
             a different approach, or explain what prevents progress."
        );
    }
    match context.tier {
        0 | 1 => format!(
            "[System] You've called {tool} {same} {n} times. This indicates a stuck state: the next identical call will not tell you \
             more. Either: 1. try a DIFFERENT approach or tool; 2. if something blocks you, explain what prevents progress; 3. if the \
             work is complete, say so."
        ),
        2 => format!(
            "[System] WARNING: You've called {tool} {n} times {identical}. This is a stuck state. 1. Use a DIFFERENT approach or tool. \
             2. If something blocks you, explain what prevents progress. 3. If the work is complete, say so."
        ),
        _ => {
            let notice = if context.rejects { " Further identical calls will be rejected." } else { "" };
            format!(
                "[System] CRITICAL: You are in a doom loop: {tool} was called {n} times {identical}. 1. STOP calling {tool} like this \
                 immediately; 2. explain what you are trying to achieve; 3. take a completely different approach.{notice}"
            )
        }
    }
}

/// Whether the newest counted call repeats.
#[must_use]
pub fn observe(settings: &Settings, tool: &ToolPolicy, run: &Run, history: &History, step: &Step) -> Option<Finding> {
    match settings.count {
        RepeatCount::Run if run.hash == step.call => finding(&settings.counts().scaled(step, tool), run.steps, step),
        RepeatCount::Run => None,
        RepeatCount::Window => in_window(settings, tool, history, step),
    }
}

/// The finding about equal calls of a run or of a window, up to `newest`: the tiers grow with the count.
fn finding(counts: &CountSettings, equal: Tally, newest: &Step) -> Option<Finding> {
    let finding = counts.finding(equal, newest.sequence, || repeat_identity(newest.fingerprint))?;
    Some(Finding { tier: tier(equal.count, counts.threshold), ..finding.confident(0.7, 0.05) })
}

/// Tiers relative to the threshold: `t` → 1, `t+1`, `t+2` → 2, from `t+3` on 3.
#[must_use]
pub const fn tier(count: u32, threshold: u32) -> u8 {
    match count.saturating_sub(threshold) {
        0 => 1,
        1 | 2 => 2,
        _ => 3,
    }
}

/// HackEurope26: calls equal to the newest among the last `window_steps`; below the threshold the largest such number of any
/// hash, which is not current.
fn in_window(settings: &Settings, tool: &ToolPolicy, history: &History, step: &Step) -> Option<Finding> {
    let counts = settings.counts().scaled(step, tool);
    let window = || history.counted_back().take(settings.window_steps as usize);
    // The ring holds at least as many of a call as the window: most calls are new to it, and the window need not be walked.
    if history.calls_in_ring(step.call) >= counts.threshold
        && let Some(finding) = finding(&counts, equal_calls(window(), step), step)
    {
        return Some(finding.within(u64::from(settings.window_steps)));
    }
    // Judged once per turn, all calls of the turn are current, and only the last of them was asked for.
    let by_turn = settings.evaluate == Evaluate::Turn && step.turn != 0;
    // Judged one by one, a hash has enough in the window only if it had enough when it was called last: that step has fired.
    let any_fired = || history.may_have_fired() && window().any(|earlier| earlier.has_fired(Detector::ExactRepeat));
    if !by_turn && !any_fired() {
        return None;
    }
    let (finding, turn) = most_of_window(settings, tool, history, step)?;
    Some(Finding { is_current: by_turn && turn == step.turn, ..finding })
}

/// The call that the window holds most often, if often enough, whatever was called last; and its turn.
fn most_of_window(settings: &Settings, tool: &ToolPolicy, history: &History, step: &Step) -> Option<(Finding, u64)> {
    let counts = settings.counts().scaled(step, tool);
    let window = || history.counted_back().take(settings.window_steps as usize);
    let mut best: Option<(Tally, &Step)> = None;
    for candidate in window().filter(|candidate| history.calls_in_ring(candidate.call) >= counts.threshold) {
        let equal = equal_calls(window(), candidate);
        if best.is_none_or(|(most, _)| equal.count > most.count) {
            best = Some((equal, candidate));
        }
    }
    let (equal, candidate) = best?;
    let finding = finding(&counts, equal, candidate)?.within(u64::from(settings.window_steps));
    Some((finding, candidate.turn))
}

/// HackEurope26: an agent is stuck as long as enough equal calls remain in the window, also where its newest call was refused. Never current.
#[must_use]
pub fn still_in_window(settings: &Settings, tool: &ToolPolicy, history: &History, step: &Step) -> Option<Finding> {
    let is_window = settings.count == RepeatCount::Window;
    let (finding, _) = is_window.then(|| most_of_window(settings, tool, history, step))??;
    Some(Finding { is_current: false, ..finding })
}

fn equal_calls<'a>(window: impl Iterator<Item = &'a Step>, step: &Step) -> Tally {
    Tally::of_window(window, step, |earlier| earlier.call == step.call)
}

/// Steps of a window that is not below the threshold, where the window is what is counted.
struct RepeatWindow;

impl Kind for RepeatWindow {
    type Of = u32;

    fn read(&self, key: &mut Key<'_>) -> u32 {
        let (steps, threshold) = (key.integer(), key.beside("threshold"));
        let (path, holds) = (&key.path, key.text_beside("count") != "window" || steps >= threshold);
        key.check.rule(path, holds, || {
            format!("{path} is {steps}, but must not be below threshold ({threshold}) with count = \"window\"")
        });
        Window.read(key)
    }

    fn range(&self) -> String {
        Window.range()
    }
}
