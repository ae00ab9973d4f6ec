//! The texts, from templates. They name the tool, counts and argument *names*, never values or results: text from a tool's output
//! in a message to a model is a prompt-injection path. A text never claims more than was counted.

use crate::detect::{Finding, Flags};
use crate::engine::command::{Action, Advice};
use crate::engine::fusion::Recommended;
use crate::limits::{ARG_NAMES_SHOWN, TOOL_NAME_CHARS_SHOWN};
use crate::policy::{Detector, Policy};

/// What a text may use.
pub(super) struct Words<'a> {
    /// Policy in force.
    pub policy: &'a Policy,
    /// The finding that speaks.
    pub finding: &'a Finding,
    /// Nudge or block.
    pub action: Action,
    /// Tier of this command.
    pub tier: u8,
    /// Nudges the loop has had before.
    pub nudges: u32,
    /// Tool of the looping call.
    pub tool: &'a str,
    /// Tools of a cycle, in order.
    pub cycle: &'a [String],
    /// Facts of the looping step.
    pub flags: Flags,
    /// Names of arguments that changed between near repeats.
    pub changed: &'a [String],
    /// What fusion recommends, where it decides.
    pub recommended: Option<Recommended>,
    /// Whether the block binds every call of the agent.
    pub blocks_all: bool,
}

/// Safe characters of a name.
pub(super) fn safe(name: &str, chars: usize) -> String {
    name.chars().take(chars).map(|c| if c.is_ascii_alphanumeric() || "_-.:/".contains(c) { c } else { '_' }).collect()
}

/// The text for the agent.
pub(super) fn text(words: &Words<'_>) -> String {
    let tool = safe(words.tool, TOOL_NAME_CHARS_SHOWN);
    let mut text = body(words, &tool);
    if words.finding.tier == 0 && words.nudges > 0 && words.action == Action::Nudge && !is_streak(words.finding.detector) {
        text = format!("Reminder {}: {text}", words.nudges);
    }
    if words.flags.has(Flags::POLL) && words.action == Action::Nudge {
        text.push_str(" It may not be ready: wait longer before asking again, or do something else meanwhile.");
    }
    text
}

/// IronCurtain's warnings count themselves.
const fn is_streak(detector: Detector) -> bool {
    matches!(detector, Detector::Stagnation | Detector::Stuck)
}

fn body(words: &Words<'_>, tool: &str) -> String {
    let finding = words.finding;
    let n = finding.count;
    match words.recommended {
        Some(Recommended::Replan) => return format!("[System] {} signs of a loop. Make a new plan.", lead(words, tool)),
        Some(Recommended::Backtrack) => {
            return format!("[System] {} signs of a dead end. Undo to the point before the repeated error.", lead(words, tool));
        }
        Some(Recommended::Escalate) if words.action == Action::Nudge => {
            return format!("[System] {} signs of a loop that goes on. Stop and ask a human for help.", lead(words, tool));
        }
        _ => {}
    }
    match finding.detector {
        Detector::ExactRepeat if words.action == Action::Block && words.blocks_all => {
            format!("Agent stuck in a loop: {tool} was called {n} times with the same arguments. The run is stopped.")
        }
        Detector::ExactRepeat => repeat(words, tool, "with the same arguments", "with identical arguments"),
        Detector::NearRepeat => {
            let what = near(words);
            repeat(words, tool, &what, &what)
        }
        Detector::OutcomeRepeat => outcome_repeat(words, tool),
        Detector::StateRepeat => format!(
            "[System] {tool} has led to the same state {n} times in the last {} steps. Make a new plan instead of returning to it.",
            finding.window
        ),
        Detector::SemanticRepeat => format!(
            "[System] The last {} attempts were variations of one idea. Make a new plan: list what was tried, then choose something \
             else.",
            n + 1
        ),
        Detector::Oscillation => {
            let tools: Vec<String> = words.cycle.iter().map(|name| safe(name, TOOL_NAME_CHARS_SHOWN)).collect();
            format!(
                "[System] You are going back and forth between {} ({n} rounds). Decide which result you need, then take a step you \
                 have not tried.",
                tools.join(", ")
            )
        }
        Detector::DeadEnd if is_outage(words) => format!(
            "[System] The last {n} attempts met nothing but outages. Wait much longer before the next one, do something else meanwhile, or \
             report what does not answer."
        ),
        Detector::DeadEnd => {
            format!(
                "[System] The same error came back {n} times. Undo to the point before it first appeared and take another way."
            )
        }
        Detector::Stagnation | Detector::Stuck => matrix(words),
        Detector::CallRate if words.action == Action::Nudge => format!(
            "[System] You've called {tool} {n} times with the same arguments within {} s. Ask less often, or for more at once.",
            finding.window / 1000
        ),
        Detector::CallRate => format!(
            "CIRCUIT BREAKER: {tool} was called {} times with the same arguments within {} s. This call is refused. Try a different \
             approach.",
            n - 1,
            finding.window / 1000
        ),
        Detector::TestFix => format!(
            "[System] You've had {n} consecutive test failures. Step back and rethink: 1. read the errors again, carefully; 2. ask \
             whether the approach itself is wrong; 3. choose a DIFFERENT fix strategy instead of iterating. Do not retry the same fix."
        ),
        Detector::ShellFailures => shell(words),
        Detector::TextOnly => format!(
            "[System] You've produced {n} text-only responses without using tools. Pick the most important remaining task, do it, and \
             use tools NOW. No further status summary."
        ),
        Detector::Exploration => {
            format!("[System] You have read {n} files and changed none. Make the first edit, or say which fact is still missing.")
        }
        // The swarm stage words its own commands.
        Detector::FleetRate | Detector::SwarmRepeat => String::new(),
    }
}

/// A dead end in a service that is down, not in the agent's way.
fn is_outage(words: &Words<'_>) -> bool {
    words.finding.detector == Detector::DeadEnd && words.flags.has(Flags::RETRYABLE)
}

fn lead(words: &Words<'_>, tool: &str) -> String {
    format!("{tool}: {} {}", words.finding.count, if words.finding.count == 1 { "step shows" } else { "steps show" })
}

fn near(words: &Words<'_>) -> String {
    if words.flags.has(Flags::SHELL) && words.flags.has(Flags::READ) {
        return "on the same target (only the way of reading changed)".to_owned();
    }
    let names: Vec<String> = words.changed.iter().take(ARG_NAMES_SHOWN).map(|name| safe(name, 32)).collect();
    if names.is_empty() {
        "on the same target".to_owned()
    } else {
        format!("on the same target (only {} changed)", names.join(", "))
    }
}

fn repeat(words: &Words<'_>, tool: &str, same: &str, identical: &str) -> String {
    let n = words.finding.count;
    if words.action == Action::Block {
        return format!(
            "[System] BLOCKED: {tool} was called {n} times {same}. Further calls of this kind are refused until the block expires. Take \
             a different approach, or explain what prevents progress."
        );
    }
    // A text never announces a block that the mode cannot deliver; attocode threatens in any mode, and its profile says so.
    let rejects = words.policy.detectors.exact_repeat.reject_notice_always || can_block(words.finding);
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
            let notice = if rejects { " Further identical calls will be rejected." } else { "" };
            format!(
                "[System] CRITICAL: You are in a doom loop: {tool} was called {n} times {identical}. 1. STOP calling {tool} like this \
                 immediately; 2. explain what you are trying to achieve; 3. take a completely different approach.{notice}"
            )
        }
    }
}

fn can_block(finding: &Finding) -> bool {
    finding.mode == crate::policy::Mode::Block && finding.block_at > 0
}

fn outcome_repeat(words: &Words<'_>, tool: &str) -> String {
    let n = words.finding.count;
    if words.action == Action::Block {
        return format!(
            "[System] BLOCKED: {tool} gave the same answer to the same call {n} times in a row. Further calls of this kind are refused \
             until the block expires. Change the arguments, use a different approach, or report what blocks you."
        );
    }
    let told = if words.nudges > 0 { format!(" You were told after {} calls.", words.finding.threshold) } else { String::new() };
    format!(
        "[System] {tool} gave the same answer to the same call {n} times in a row. Change the arguments, use a different approach, or \
         report what blocks you.{told}"
    )
}

fn matrix(words: &Words<'_>) -> String {
    let is_stagnation = words.finding.detector == Detector::Stagnation;
    if words.action == Action::Block {
        let what = if is_stagnation {
            "You have been repeating the same step with the same result."
        } else {
            "You keep trying different approaches but get the same result."
        };
        return if words.blocks_all {
            format!("LOOP DETECTED: {what} Execution is now blocked. Summarize what you have accomplished and stop.")
        } else {
            format!(
                "LOOP DETECTED: {what} Further calls of this kind are refused until the block expires. Take a different approach, or explain \
                 what prevents progress."
            )
        };
    }
    let streak = words.finding.count;
    let tail = if can_block(words.finding) {
        format!("({streak}/{} before block)", words.finding.block_at)
    } else {
        format!("({streak} in a row)")
    };
    if is_stagnation {
        format!("WARNING: You are repeating the same step with the same result. Try a fundamentally different approach. {tail}")
    } else {
        format!("WARNING: Different approaches are producing the same result. Re-examine your assumptions. {tail}")
    }
}

fn shell(words: &Words<'_>) -> String {
    let n = words.finding.count;
    if words.flags.has(Flags::SHELL_FILE) {
        let tools = &words.policy.detectors.shell_failures;
        return format!(
            "[System] {n} consecutive bash commands have failed, the last one on a file. Use the file tools: {} to create, {} to \
             modify, {} to read.",
            tools.create_tool, tools.edit_tool, tools.read_tool
        );
    }
    format!(
        "[System] {n} consecutive bash commands have failed. STOP and: 1. explain what you are trying to achieve; 2. use a DIFFERENT \
         approach or tool; 3. send no bash command of the same pattern."
    )
}

/// The message in one word.
pub(super) fn advice(words: &Words<'_>) -> Advice {
    match words.recommended {
        Some(Recommended::Replan) => return Advice::Replan,
        Some(Recommended::Backtrack) => return Advice::Backtrack,
        Some(Recommended::Escalate) => return Advice::AskHuman,
        None => {}
    }
    if words.action == Action::Block && words.blocks_all {
        return Advice::Stop;
    }
    if words.flags.has(Flags::POLL) || is_outage(words) {
        return Advice::Wait;
    }
    match words.finding.detector {
        Detector::StateRepeat | Detector::SemanticRepeat | Detector::Oscillation => Advice::Replan,
        Detector::DeadEnd => Advice::Backtrack,
        _ => Advice::ChangeApproach,
    }
}

/// One line for people.
pub(super) fn summary(words: &Words<'_>, seconds: Option<i64>) -> String {
    let tool = safe(words.tool, TOOL_NAME_CHARS_SHOWN);
    let n = words.finding.count;
    let span = seconds.map_or(String::new(), |s| format!(" in {s} s"));
    let failing = if words.flags.has(Flags::OBSERVED) && !words.flags.has(Flags::OK) { ", failing" } else { "" };
    match words.finding.detector {
        Detector::ExactRepeat => format!("{tool}: {n} calls{span}, same arguments{failing}"),
        Detector::NearRepeat => format!("{tool}: {n} calls{span} on the same target{failing}"),
        Detector::OutcomeRepeat => format!("{tool}: {n} calls{span}, same arguments, same answer{failing}"),
        Detector::StateRepeat => format!("{tool}: the same state {n} times in {} steps", words.finding.window),
        Detector::SemanticRepeat => format!("{tool}: {} similar steps among the last {}", n + 1, words.finding.window),
        Detector::Oscillation => format!("{n} rounds of {} calls", words.cycle.len()),
        Detector::DeadEnd if is_outage(words) => format!("{tool}: {n} attempts in a row met an outage{span}"),
        Detector::DeadEnd => format!("{tool}: the same error {n} times in {} steps", words.finding.window),
        Detector::Stagnation => format!("{tool}: {n} steps in a row with a known call and a known answer"),
        Detector::Stuck => format!("{tool}: {n} new calls in a row with a known answer"),
        Detector::CallRate => format!("{tool}: more than {} equal calls within {} s", n - 1, words.finding.window / 1000),
        Detector::TestFix => format!("{n} failing test runs in a row"),
        Detector::ShellFailures => format!("{n} failing shell commands in a row"),
        Detector::TextOnly => format!("{n} text turns without a call"),
        Detector::Exploration => format!("{n} files read, none changed"),
        Detector::FleetRate | Detector::SwarmRepeat => String::new(),
    }
}
