//! `exact_repeat`: the same call again (HackEurope26 counts in a window, attocode in a row). Page `detection`.

use crate::detect::detector::Detector;
use crate::detect::finding::{Finding, repeat_identity};
use crate::detect::history::History;
use crate::detect::rule::{About, Rule};
use crate::detect::step::{Flags, Step};
use crate::detect::words::{Said, Words};
use crate::identity::{Hash64, Hash128};
use crate::setting::{
    BLOCK_AT, BLOCK_SCOPE, BlockScope, FLAG, Key, Kind, MODE, Mode, Needs, Shared, ToolPolicy, WINDOW, count, settings, words,
};

settings! {
    /// `detectors.exact_repeat`.
    pub struct Settings {
        mode: Mode = r#""block""#, MODE, "off | shadow | nudge | block, here and below";
        threshold: u32 = "3", count(1),
            "calls of a finding; alone in a policy it moves the two below, and both numbers of near_repeat, with it";
        block_at: u32 = "10", BLOCK_AT,
            "calls of a block: agents that repeat a call eight times and then find out by themselves exist; 0 = never";
        count: RepeatCount = r#""run""#, words(&COUNTS),
            "run | window: in a row, or anywhere in the last window_steps calls";
        window_steps: u32 = "20", RepeatWindow, r#"calls, for count = "window""#;
        skip_classes: SkippedClasses = r#"["poll", "read"]"#, Skipped,
            r#"classes never counted with count = "window": three equal reads within 20 calls are ordinary"#;
        result_aware: bool = "true", FLAG, "a changed answer ends the run: a poll whose answer changes is waiting";
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

/// Classes of tools whose calls are recorded but never the counted call of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SkippedClasses {
    /// Class `poll`, and calls that wait.
    pub poll: bool,
    /// Class `read`.
    pub read: bool,
    /// Class `normal`.
    pub normal: bool,
    /// Class `mutates`.
    pub mutates: bool,
}

const COUNTS: [(&str, RepeatCount); 2] = [("run", RepeatCount::Run), ("window", RepeatCount::Window)];
const EVALUATE: [(&str, Evaluate); 2] = [("call", Evaluate::Call), ("turn", Evaluate::Turn)];
const NOTICES: [(&str, bool); 2] = [("auto", false), ("always", true)];

impl Rule for Settings {
    const ABOUT: About = About {
        title: "Same call, again and again.",
        rule: "The newest call and the identical calls directly before it are at least `threshold`. An answer that \
            differs ends the run. For a cut answer, the rest that was kept and its size are compared.",
        example: "The agent runs `Bash {\"command\":\"cargo test\"}` with the same failure each time. The third call is \
            nudged, the fourth and sixth more firmly, the tenth is refused.",
        silent: &[
            "The same intent is written in another way: `ls src`, then `ls ./src`. `stuck` may see it.",
            "An argument is new each time by nature. Leave it out with `args_ignored`.",
            "The answer changes from call to call (`equality/poll-whose-answer-moves`).",
            "A tool of class `poll`, a call that waits, or a look after a wait has counts multiplied by \
                `poll_factor` (`equality/poll-factor-3`, `equality/a-command-that-waits`).",
            "With `count = \"window\"`, calls of `skip_classes` are not counted.",
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
        Needs { fingerprint: true, outcome: self.result_aware, ..Needs::default() }
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
pub(super) fn repeat(words: &Words<'_>, same: &str, identical: &str) -> String {
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
    /// The same, back to the last different answer (`result_aware`).
    pub same_answer: u32,
    /// Newest observed outcome in the run.
    pub outcome: Hash64,
    /// Sequence of the first step of the run.
    pub first: u64,
    /// Sequence of the first step that `same_answer` counts.
    pub same_first: u64,
}

/// Takes a counted call into the run at the tail.
pub fn advance(run: &mut Run, hash: Hash128, sequence: u64) {
    if run.hash == hash && run.length > 0 {
        run.length = run.length.saturating_add(1);
        run.same_answer = run.same_answer.saturating_add(1);
    } else {
        *run = Run { hash, length: 1, same_answer: 1, outcome: Hash64::NONE, first: sequence, same_first: sequence };
    }
}

/// The run as the ring has it: the equal counted steps at its tail. For when a step turned out not to count after all.
pub fn rebuild(run: &mut Run, history: &History) {
    *run = Run::default();
    let Some(newest) = history.counted_back().next() else { return };
    run.hash = newest.call;
    for step in history.counted_back().take_while(|step| step.call == run.hash) {
        run.length += 1;
        run.first = step.sequence;
    }
    if newest.flags.has(Flags::ARGS_ONLY) {
        (run.same_answer, run.same_first) = (run.length, run.first);
    } else {
        rewalk(run, history);
    }
}

/// Takes an observed outcome into the run: another answer ends the look back (`result_aware`).
pub fn answered(run: &mut Run, history: &History, step: &Step) {
    if run.hash != step.call || step.sequence < run.first || step.flags.has(Flags::ARGS_ONLY) {
        return;
    }
    if step.flags.has(Flags::CUT) {
        let is_other = |other: &&Step| other.flags.has(Flags::CUT) && other.sequence != step.sequence;
        if in_run(run, history).find(is_other).is_some_and(|other| other.answers_otherwise(step)) {
            rewalk(run, history);
        }
    } else if !step.outcome.is_some() {
        // Not known, or not asked for.
    } else if !run.outcome.is_some() {
        run.outcome = step.outcome;
    } else if run.outcome != step.outcome {
        rewalk(run, history);
    }
}

/// The steps of the run that the ring holds, newest first.
fn in_run<'a>(run: &Run, history: &'a History) -> impl Iterator<Item = &'a Step> + use<'a> {
    let (first, hash) = (run.first, run.hash);
    history.counted_back().take_while(move |step| step.sequence >= first && step.call == hash)
}

/// The look back of `result_aware`, from the ring: with the newest observed outcome met, stop before the first other one. What is left
/// of cut answers is no outcome, but ends it likewise where it differs.
fn rewalk(run: &mut Run, history: &History) {
    let mut newest = Newest::default();
    let (mut count, mut first) = (0, run.same_first);
    for step in in_run(run, history) {
        if newest.ends_before(step) {
            break;
        }
        count += 1;
        first = step.sequence;
    }
    run.outcome = newest.whole.map_or(Hash64::NONE, |step| step.outcome);
    (run.same_answer, run.same_first) = (count, first);
}

/// The newest answers that a look back has met, a whole one and a cut one.
#[derive(Default)]
struct Newest<'a> {
    whole: Option<&'a Step>,
    cut: Option<&'a Step>,
}

impl<'a> Newest<'a> {
    /// Takes a step met on the way back; whether it was answered otherwise than those after it.
    fn ends_before(&mut self, step: &'a Step) -> bool {
        let is_cut = step.flags.has(Flags::CUT);
        if !is_cut && !step.outcome.is_some() {
            return false;
        }
        step.answers_otherwise((if is_cut { &mut self.cut } else { &mut self.whole }).get_or_insert(step))
    }
}

/// Whether the newest counted call repeats.
#[must_use]
pub fn observe(settings: &Settings, tool: &ToolPolicy, run: &Run, history: &History, step: &Step) -> Option<Finding> {
    let threshold = step.scaled(tool, settings.threshold);
    let block_at = step.scaled(tool, settings.block_at);
    match settings.count {
        RepeatCount::Run => {
            let (count, first) = if settings.result_aware { (run.same_answer, run.same_first) } else { (run.length, run.first) };
            (run.hash == step.call && count >= threshold)
                .then(|| finding(settings, step, count, threshold).blocking_at(block_at).spanning(first, step.sequence))
        }
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
    if !is_skipped(settings, step) && may_have_enough(step) {
        let (count, first) = count_equal(settings, window(), step);
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
    for candidate in window().filter(|candidate| !is_skipped(settings, candidate) && may_have_enough(candidate)) {
        let (count, first) = count_equal(settings, window(), candidate);
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

fn count_equal<'a>(settings: &Settings, window: impl Iterator<Item = &'a Step>, step: &Step) -> (u32, u64) {
    let mut newest = Newest::default();
    let mut count = 0;
    let mut first = step.sequence;
    let hard = step.failed() || step.flags.has(Flags::TEST);
    for earlier in window {
        // Edit, then re-run, is work: a mutation by another call ends the look back of a failing call or a test run.
        if hard && earlier.flags.has(Flags::MUTATED) && earlier.call != step.call {
            break;
        }
        if earlier.call != step.call {
            continue;
        }
        if settings.result_aware && !earlier.flags.has(Flags::ARGS_ONLY) && newest.ends_before(earlier) {
            break;
        }
        count += 1;
        first = earlier.sequence;
    }
    (count, first)
}

const fn is_skipped(settings: &Settings, step: &Step) -> bool {
    (settings.skip_classes.poll && step.flags.has(Flags::POLL))
        || (settings.skip_classes.read && step.flags.has(Flags::READ))
        || (settings.skip_classes.mutates && step.flags.has(Flags::MUTATES))
        || (settings.skip_classes.normal && !step.flags.any(Flags(Flags::POLL.0 | Flags::READ.0 | Flags::MUTATES.0)))
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

/// Classes by name.
struct Skipped;

const CLASSES: [(&str, usize); 4] = [("poll", 0), ("read", 1), ("normal", 2), ("mutates", 3)];

impl Kind for Skipped {
    type Of = SkippedClasses;

    fn read(&self, key: &mut Key<'_>) -> SkippedClasses {
        let mut skips = [false; CLASSES.len()];
        for class in key.texts() {
            let number = key.check.choice(&key.path, &class, &CLASSES);
            if let Some(skip) = skips.get_mut(number) {
                *skip = true;
            }
        }
        let [poll, read, normal, mutates] = skips;
        SkippedClasses { poll, read, normal, mutates }
    }

    fn range(&self) -> String {
        CLASSES.map(|(class, _)| format!("`{class}`")).join(", ")
    }
}
