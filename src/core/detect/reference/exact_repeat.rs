//! `exact_repeat`: the same call again (HackEurope26 counts in a window, attocode in a row). Page `detection`.

use crate::detect::detector::Detector;
use crate::detect::finding::{Finding, repeat_identity};
use crate::detect::rule::{About, Rule};
use crate::detect::steps::history::History;
use crate::detect::steps::step::Step;
use crate::detect::words::{Said, Words};
use crate::identity::Hash128;
use crate::setting::{
    BLOCK_AT, BLOCK_SCOPE, BlockScope, Key, Kind, MODE, Mode, Needs, Shared, ToolPolicy, WINDOW, count, settings, words,
};

settings! {
    /// `detectors.exact_repeat`.
    pub struct Settings {
        mode: Mode = r#""off""#, MODE, "";
        threshold: u32 = "3", count(1),
            "calls of a finding; alone in a policy it moves block_at, and both numbers of near_repeat, with it";
        block_at: u32 = "10", BLOCK_AT,
            "calls of a block: agents that repeat a call eight times and then find out by themselves exist; 0 = never";
        count: RepeatCount = r#""run""#, words(&COUNTS),
            "run | window: in a row, or anywhere in the last window_steps calls";
        window_steps: u32 = "20", RepeatWindow, r#"calls, for count = "window""#;
        evaluate: Evaluate = r#""call""#, words(&EVALUATE), "call | turn: at each call, or once per turn";
        reject_notice_always as "reject_notice": bool = r#""auto""#, words(&NOTICES),
            "auto | always: announce rejection only where mode block delivers it, or always";
        block_scope: BlockScope = r#""fingerprint""#, BLOCK_SCOPE,
            "fingerprint | tool | session: what of the agent's calls a block covers, session: all; the narrowest leaves the agent the most";
    }
}

/// How equal calls are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RepeatCount {
    /// Consecutive steps at the tail (attocode).
    #[default]
    Run,
    /// Anywhere in the last `window_steps` calls (HackEurope26).
    Window,
}

/// When the count is compared with the threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Evaluate {
    /// At each call.
    #[default]
    Call,
    /// Once per turn, before the next begins.
    Turn,
}

const COUNTS: [(&str, RepeatCount); 2] = [("run", RepeatCount::Run), ("window", RepeatCount::Window)];
const EVALUATE: [(&str, Evaluate); 2] = [("call", Evaluate::Call), ("turn", Evaluate::Turn)];
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

    fn threshold(&self) -> u32 {
        self.threshold
    }

    fn block_at(&self) -> Option<u32> {
        Some(self.block_at)
    }

    fn block_scope(&self) -> BlockScope {
        self.block_scope
    }

    fn needs(&self, _: &Shared) -> Needs {
        Needs { fingerprint: true, ..Needs::default() }
    }

    fn words(&self, words: &Words<'_>) -> Said {
        let n = words.count();
        let text = if words.is_block && words.blocks_all {
            let tool = words.tool;
            format!("Agent stuck in a loop: {tool} was called {n} times with the same arguments. The run is stopped.")
        } else {
            repeat(words, "with the same arguments", "with identical arguments")
        };
        Said::new(text, format!("{}: {n} calls{}, same arguments{}", words.tool, words.span(), words.failing()))
    }
}

/// The texts of equal and of nearly equal calls: `same` and `identical` say what they share.
pub(crate) fn repeat(words: &Words<'_>, same: &str, identical: &str) -> String {
    let (n, tool) = (words.count(), words.tool);
    if words.is_block {
        return format!(
            "[System] BLOCKED: {tool} was called {n} times {same}. Further calls of this kind are refused until the block expires. Take \
             a different approach, or explain what prevents progress."
        );
    }
    match words.tier {
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
            let notice = if words.rejects { " Further identical calls will be rejected." } else { "" };
            format!(
                "[System] CRITICAL: You are in a doom loop: {tool} was called {n} times {identical}. 1. STOP calling {tool} like this \
                 immediately; 2. explain what you are trying to achieve; 3. take a completely different approach.{notice}"
            )
        }
    }
}

/// Equal calls in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Run {
    /// What is repeated.
    pub hash: Hash128,
    /// How often, transparent steps left out. Not capped by the ring.
    pub length: u32,
    /// Sequence of the first step of the run.
    pub first: u64,
}

/// Takes a counted call into the run at the tail.
pub fn advance(run: &mut Run, hash: Hash128, sequence: u64) {
    if run.hash == hash && run.length > 0 {
        run.length = run.length.saturating_add(1);
    } else {
        *run = Run { hash, length: 1, first: sequence };
    }
}

/// The run as the ring has it: the counted steps at its tail that share a hash. For when a step turned out not to count after all.
pub fn rebuild(run: &mut Run, history: &History, hash: impl Fn(&Step) -> Hash128) {
    *run = Run::default();
    let Some(newest) = history.counted_back().next() else { return };
    run.hash = hash(newest);
    for step in history.counted_back().take_while(|step| hash(step) == run.hash) {
        run.length += 1;
        run.first = step.sequence;
    }
}

/// Whether the newest counted call repeats.
#[must_use]
pub fn observe(settings: &Settings, tool: &ToolPolicy, run: &Run, history: &History, step: &Step) -> Option<Finding> {
    let threshold = step.scaled(tool, settings.threshold);
    let block_at = step.scaled(tool, settings.block_at);
    match settings.count {
        RepeatCount::Run => (run.hash == step.call && run.length >= threshold)
            .then(|| finding(settings, step, run.length, threshold).blocking_at(block_at).spanning(run.first, step.sequence)),
        RepeatCount::Window => in_window(settings, tool, history, step),
    }
}

/// That of a run or of a window: the tiers grow with the count.
fn finding(settings: &Settings, step: &Step, count: u32, threshold: u32) -> Finding {
    let mut finding = Finding::new(Detector::ExactRepeat, settings.mode, repeat_identity(step.fingerprint), count, threshold)
        .confident(0.7, 0.05);
    finding.tier = tier(count, threshold);
    finding
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
/// hash, which is not fresh.
fn in_window(settings: &Settings, tool: &ToolPolicy, history: &History, step: &Step) -> Option<Finding> {
    let threshold = step.scaled(tool, settings.threshold);
    let window = || history.counted_back().take(settings.window_steps as usize);
    // The ring holds at least as many of a call as the window: most calls are new to it, and the window need not be walked.
    let may_have_enough = |step: &Step| history.calls_in_ring(step.call) >= threshold;
    if may_have_enough(step) {
        let (count, first) = count_equal(window(), step);
        if count >= threshold {
            return Some(
                finding(settings, step, count, threshold)
                    .blocking_at(step.scaled(tool, settings.block_at))
                    .within(u64::from(settings.window_steps))
                    .spanning(first, step.sequence),
            );
        }
    }
    // Judged once per turn, all calls of the turn are current, and only the last of them was asked for.
    let by_turn = settings.evaluate == Evaluate::Turn && step.turn != 0;
    // Judged one by one, a hash has enough in the window only if it had enough when it was called last: that step has fired.
    let any_fired = || history.may_have_fired() && window().any(|earlier| earlier.has_fired(Detector::ExactRepeat));
    if !by_turn && !any_fired() {
        return None;
    }
    most_of_window(settings, tool, history, step).map(|(mut finding, turn)| {
        finding.is_fresh = by_turn && turn == step.turn;
        finding
    })
}

/// The call that the window holds most often, if often enough, whatever was called last; and its turn.
fn most_of_window(settings: &Settings, tool: &ToolPolicy, history: &History, step: &Step) -> Option<(Finding, u64)> {
    let threshold = step.scaled(tool, settings.threshold);
    let window = || history.counted_back().take(settings.window_steps as usize);
    let may_have_enough = |step: &Step| history.calls_in_ring(step.call) >= threshold;
    let mut best: Option<(u32, u64, &Step)> = None;
    for candidate in window().filter(|candidate| may_have_enough(candidate)) {
        let (count, first) = count_equal(window(), candidate);
        if best.is_none_or(|(most, ..)| count > most) {
            best = Some((count, first, candidate));
        }
    }
    let (count, first, candidate) = best.filter(|(count, ..)| *count >= threshold)?;
    let finding = finding(settings, candidate, count, threshold)
        .blocking_at(step.scaled(tool, settings.block_at))
        .within(u64::from(settings.window_steps))
        .spanning(first, candidate.sequence);
    Some((finding, candidate.turn))
}

/// HackEurope26: an agent is stuck as long as enough equal calls remain in the window, also where its newest call was refused. Never fresh.
#[must_use]
pub fn still_in_window(settings: &Settings, tool: &ToolPolicy, history: &History, step: &Step) -> Option<Finding> {
    let is_window = settings.count == RepeatCount::Window;
    let (mut finding, _) = is_window.then(|| most_of_window(settings, tool, history, step))??;
    finding.is_fresh = false;
    Some(finding)
}

fn count_equal<'a>(window: impl Iterator<Item = &'a Step>, step: &Step) -> (u32, u64) {
    window
        .filter(|earlier| earlier.call == step.call)
        .fold((0, step.sequence), |(count, _), earlier| (count + 1, earlier.sequence))
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
        WINDOW.read(key)
    }

    fn range(&self) -> String {
        WINDOW.range()
    }
}
