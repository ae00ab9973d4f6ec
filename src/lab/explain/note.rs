//! One event of a session and its effects: as JSON, and as a row.

use loopwarden_core::detect::{Evidence, Flags, Marks, Step};
use loopwarden_core::engine::{Action, Command, Session};
use loopwarden_core::event::{Content, Event, EventKind, Outcome};
use loopwarden_core::identity::{base32, hash_text};
use loopwarden_core::policy::{Detector, Policy, ToolPolicy};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{cases::stepped::Answer, explain::sum::SumNote, explain::why};

/// Characters of content that are shown of one field.
const CONTENT_CHARS: usize = 160;

/// An event and its effects.
#[derive(Serialize)]
pub(super) struct Note {
    pub(super) index: Option<u64>,
    is_duplicate: bool,
    event_id: String,
    agent_id: String,
    topic: String,
    partition: u32,
    offset: u64,
    time: String,
    #[serde(skip)]
    has_time: bool,
    kind: &'static str,
    tool: Option<String>,
    call: Option<String>,
    outcome: Option<String>,
    streaks: Vec<Streak>,
    /// The step in the sum of the evidence.
    score: Option<SumNote>,
    /// The turn has made this call already.
    same_turn: bool,
    findings: Vec<FindingNote>,
    under_block_of: Option<&'static str>,
    commands: Vec<CommandNote>,
    /// Only where it is asked for.
    pub(super) content: Option<Value>,
}

/// A streak that has begun, and where it leads to a finding.
#[derive(Serialize)]
struct Streak {
    name: &'static str,
    count: u32,
    threshold: u32,
}

#[derive(Serialize)]
struct FindingNote {
    detector: &'static str,
    mode: &'static str,
    count: u32,
    threshold: u32,
    block_at: u32,
    confidence: f64,
    is_fresh: bool,
    why_silent: Option<String>,
}

#[derive(Serialize)]
struct CommandNote {
    id: String,
    action: &'static str,
    code: &'static str,
    also: Vec<&'static str>,
    level: u8,
    is_shadow: bool,
    summary: String,
    /// Which calls a block refuses, and which it leaves free.
    binds: Option<String>,
    expires_at: String,
}

#[derive(Serialize, Default)]
pub(super) struct EventRow {
    index: Option<u64>,
    time: String,
    event: String,
    call: Option<String>,
    answer: Option<String>,
    streaks: String,
    score: String,
    seen: String,
    #[serde(rename = "said, or why not")]
    said: String,
}

impl Note {
    pub(super) fn of(
        index: Option<u64>,
        event: &Event<'_>,
        (topic, partition, offset): (&str, u32, u64),
        answer: &Answer,
        session: &Session,
        policy: &Policy,
    ) -> Self {
        let step = step_of(event, session);
        // An event without a call shows how the calls before it stand.
        let nearest = step.or_else(|| session.history.newest());
        let tool_policy = policy.tools.get(nearest.map_or("", |step| session.history.tool(step)));
        let is_poll = nearest.is_some_and(|step| step.flags.contains(Flags::POLL));
        let findings = answer.findings.iter().map(|finding| FindingNote {
            detector: finding.detector.as_str(),
            mode: finding.mode.as_str(),
            count: finding.count,
            threshold: finding.threshold,
            block_at: finding.block_at,
            confidence: finding.confidence,
            is_fresh: finding.is_current,
            why_silent: Some(why::of_finding(finding, answer, session, policy)).filter(|why| !why.is_empty()),
        });
        Self {
            index,
            is_duplicate: answer.is_duplicate,
            event_id: event.id.to_string(),
            agent_id: event.agent_id.to_string(),
            topic: topic.to_owned(),
            partition,
            offset,
            time: event.time.to_rfc3339(),
            has_time: event.has_time || event.time.0 != 0,
            kind: kind(event),
            tool: step.map(|step| session.history.tool(step).to_owned()),
            call: step.map(|step| step.call.to_string()),
            outcome: step.and_then(|step| answered(step, event)),
            streaks: streaks(session, policy, tool_policy, is_poll),
            score: answer.measured.and_then(|measured| SumNote::of(&measured, session.head.streaks.score, &policy.score)),
            same_turn: step.is_some_and(|step| step.flags.contains(Flags::SAME_TURN))
                && !matches!(event.kind, EventKind::ToolResult(_)),
            findings: findings.collect(),
            under_block_of: answer.block.map(Detector::as_str),
            commands: answer.commands.iter().map(CommandNote::of).collect(),
            content: None,
        }
    }

    /// The same for people.
    pub(super) fn row(&self) -> EventRow {
        let event = [Some(self.kind), self.tool.as_deref()].into_iter().flatten().collect::<Vec<_>>().join(" ");
        let agent = if self.agent_id == "main" { String::new() } else { format!(" ({})", self.agent_id) };
        let streaks = self.streaks.iter().map(|streak| format!("{} {}/{}", streak.name, streak.count, streak.threshold));
        let seen = self.findings.iter().map(|finding| format!("{} {}/{}", finding.detector, finding.count, finding.threshold));
        EventRow {
            index: self.index,
            time: if self.has_time { self.time.clone() } else { "-".to_owned() },
            event: event + &agent,
            call: self.call.as_deref().map(short),
            answer: self.outcome.clone(),
            streaks: streaks.collect::<Vec<_>>().join(", "),
            score: self.score.as_ref().map(SumNote::to_text).unwrap_or_default(),
            seen: seen.collect::<Vec<_>>().join(", "),
            said: self.reasons().join("; "),
        }
    }

    /// The commands, or why there are none.
    fn reasons(&self) -> Vec<String> {
        let mut reasons: Vec<String> = self.commands.iter().map(CommandNote::to_text).collect();
        let why =
            self.findings.iter().filter_map(|finding| Some(format!("{}: {}", finding.detector, finding.why_silent.as_ref()?)));
        reasons.extend(why);
        if self.findings.is_empty() && self.commands.is_empty() {
            reasons.extend(self.under_block_of.map(|by| format!("a block of {by} stands")));
        }
        if self.is_duplicate {
            reasons.push("left out: an event with this id was there before".to_owned());
        } else if self.same_turn {
            reasons.push("not counted: the turn has made this call already".to_owned());
        }
        reasons
    }
}

impl CommandNote {
    fn of(command: &Command) -> Self {
        Self {
            id: base32(&command.id.0),
            action: command.action.as_str(),
            code: command.reason.as_str(),
            also: command.also.iter().map(|detector| detector.as_str()).collect(),
            level: command.level,
            is_shadow: command.is_shadow,
            summary: command.summary.clone(),
            binds: (command.action == Action::Block).then(|| command.scope.words()),
            expires_at: command.expires_at.to_rfc3339(),
        }
    }

    fn to_text(&self) -> String {
        let shadow = if self.is_shadow { ", shadow" } else { "" };
        let binds = self.binds.as_ref().map(|binds| format!(": {binds}")).unwrap_or_default();
        format!("{} by {} (level {}{shadow}){binds}", self.action.to_uppercase(), self.code, self.level)
    }
}

/// The step that an event requested or answered.
pub(crate) fn step_of<'a>(event: &Event<'_>, session: &'a Session) -> Option<&'a Step> {
    let id = hash_text(&event.id).hash64();
    session.history.ring_back().find(|step| step.event == id || step.result_event == id)
}

fn kind(event: &Event<'_>) -> &'static str {
    match &event.kind {
        EventKind::ToolCall(_) => "tool_call",
        EventKind::ToolResult(_) => "tool_result",
        EventKind::Tool(..) => "tool",
        EventKind::Message(_) => "message",
        EventKind::SessionStart => "session_start",
        EventKind::SessionEnd => "session_end",
        EventKind::Progress => "progress",
        EventKind::Reset(_) => "reset",
        EventKind::Ack(_) => "ack",
        EventKind::Stop(_) => "stop",
        EventKind::Release(_) => "release",
        EventKind::Answer(_) => "answer",
    }
}

fn answered(step: &Step, event: &Event<'_>) -> Option<String> {
    let outcome = match &event.kind {
        EventKind::Tool(_, result) | EventKind::ToolResult(result) => result.outcome,
        _ => return None,
    };
    let word = match outcome {
        Outcome::Ok => "ok",
        Outcome::Error => "error",
        Outcome::Denied => "denied",
        Outcome::Timeout => "timeout",
        Outcome::Cancelled => "cancelled",
        Outcome::Unknown => "unknown",
    };
    let known = if step.flags.contains(Flags::SEEN_OUTCOME) { ", known" } else { "" };
    let retried = if step.flags.contains(Flags::RETRYABLE) { ", outage" } else { "" };
    let brought = step.evidence.as_ref().map(brought).unwrap_or_default();
    Some(if step.outcome.is_some() {
        format!("{word} {}{known}{retried}{brought}", short(&step.outcome.to_string()))
    } else {
        format!("{word}{retried}{brought}")
    })
}

/// The news of a step, and what it counts as.
fn brought(evidence: &Evidence) -> String {
    let marks = [
        (Marks::CHANGE, "a change"),
        (Marks::ITEM, "an item"),
        (Marks::BARREN, "nothing new"),
        (Marks::NOVEL, "a new call"),
        (Marks::LITTLE, "says little"),
        (Marks::HANDLE, "a handle"),
        (Marks::SLOW, "slow"),
    ];
    let set = marks.into_iter().filter(|(mark, _)| evidence.marks.contains(*mark)).map(|(_, word)| format!(", {word}"));
    format!(", news {} %{}", evidence.news, set.collect::<String>())
}

fn short(hash: &str) -> String {
    hash.chars().take(8).collect()
}

/// Streaks that have begun, with where they lead to a finding: for this tool, whose factor counts, and a call that asks again or does not.
fn streaks(session: &Session, policy: &Policy, tool: &ToolPolicy, is_poll: bool) -> Vec<Streak> {
    let streaks = &session.head.streaks;
    let detectors = &policy.detectors;
    let of_tool = |threshold| tool.scaled(threshold, is_poll);
    let all = [
        ("exact", streaks.exact.steps.count, of_tool(detectors.exact_repeat.threshold), detectors.exact_repeat.mode),
        ("near", streaks.near.steps.count, of_tool(detectors.near_repeat.threshold), detectors.near_repeat.mode),
        ("outcome", streaks.outcome.count, of_tool(detectors.outcome_repeat.threshold), detectors.outcome_repeat.mode),
        ("stagnation", streaks.matrix.stagnation.count, of_tool(detectors.stagnation.threshold), detectors.stagnation.mode),
        ("stuck", streaks.matrix.stuck.count, of_tool(detectors.stuck.threshold), detectors.stuck.mode),
        ("tests", streaks.tests.count, detectors.test_fix.threshold, detectors.test_fix.mode),
        ("shell", streaks.shell.count, detectors.shell_failures.threshold, detectors.shell_failures.mode),
        ("texts", streaks.texts.turns, detectors.text_only.threshold, detectors.text_only.mode),
    ];
    let floor = |name: &str| if matches!(name, "exact" | "near" | "outcome") { 2 } else { 1 };
    all.into_iter()
        .filter(|(name, count, _, mode)| mode.is_on() && *count >= floor(name))
        .map(|(name, count, threshold, _)| Streak { name, count, threshold })
        .collect()
}

/// The beginnings of what an agent wrote and read.
pub(super) fn content(event: &Event<'_>) -> Value {
    let raw = |content: &Content<'_>| match content {
        Content::Raw(text) => Value::from(beginning(text)),
        _ => Value::Null,
    };
    match &event.kind {
        EventKind::ToolCall(call) => json!({ "args": raw(&call.args) }),
        EventKind::ToolResult(result) => json!({ "result": raw(&result.result) }),
        EventKind::Tool(call, result) => json!({ "args": raw(&call.args), "result": raw(&result.result) }),
        EventKind::Message(message) => json!({ "text": message.text().as_deref().map(beginning) }),
        _ => Value::Null,
    }
}

fn beginning(text: &str) -> String {
    let cut = text.chars().nth(CONTENT_CHARS).is_some();
    text.chars().take(CONTENT_CHARS).chain(cut.then_some('…')).collect()
}
