//! A session, event by event: what each detector saw, how its streaks stood, and why a command was or was not sent.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;

use loopwarden_core::detect::{Finding, Flags, Step};
use loopwarden_core::engine::{Action, Command, Session};
use loopwarden_core::event::{Content, Event, EventKind, EventTime, Outcome};
use loopwarden_core::identity::hash_text;
use loopwarden_core::policy::{Detector, Mode, Policy, ToolPolicy};
use loopwarden_lab::report::{Column, Table, plain};
use serde_json::{Value, json};

use crate::cli::args::{InspectArgs, LogArgs};
use crate::cli::cases::{Answer, Bench};
use crate::cli::failure::Failure;
use crate::cli::inspect::source::Input;
use crate::cli::inspect::thresholds::Kept;
use crate::cli::inspect::{Part, Shown, not_found, thresholds};

/// Characters of content that are shown of one field.
const CONTENT_CHARS: usize = 160;
/// Other tenants with a session of this name that are named.
const TENANTS_NAMED: usize = 5;

/// One event as it was seen.
struct Note {
    json: Value,
    cells: Vec<Value>,
}

/// Decides the session anew.
pub(super) fn inspect(args: &InspectArgs, log: &LogArgs) -> Result<Shown, Failure> {
    let input = Input::of(args, log)?;
    let policy = std::sync::Arc::clone(&input.policy);
    let (policy_name, overrides) = (input.policy_name.clone(), input.overrides.clone());
    let mut bench = Bench::of_app(&input.app, std::sync::Arc::clone(&policy));
    let mut notes: VecDeque<Note> = VecDeque::new();
    let mut kept = Kept::default();
    let (mut count, mut duplicates) = (0_u64, 0_u64);
    let mut tenants: BTreeSet<Option<String>> = BTreeSet::new();
    let mut left_over = Value::Array(Vec::new());
    input.events(|event, record| {
        if event.session_id != args.id {
            return;
        }
        if event.tenant.as_deref() != args.tenant.as_deref() {
            if tenants.len() < TENANTS_NAMED {
                tenants.insert(event.tenant.as_deref().map(str::to_owned));
            }
            return;
        }
        count += 1;
        kept.keep(record);
        let place = (record.meta.topic, record.meta.partition, record.meta.offset.0);
        let answer = bench.apply(event, place);
        let Some(session) = bench.session(event) else { return };
        if notes.len() >= args.limit as usize {
            notes.pop_front();
        }
        // As labels count: by the producer's counter, else by what came before.
        let index = (!answer.is_duplicate).then(|| event.seq.unwrap_or(count - duplicates - 1));
        duplicates += u64::from(answer.is_duplicate);
        notes.push_back(note(index, event, place, &answer, session, &policy, args.show_content));
        left_over = verdicts(session);
    })?;
    if count == 0 {
        let others: Vec<String> = tenants.iter().map(|tenant| named(tenant.as_deref())).collect();
        let hint = if others.is_empty() { String::new() } else { format!("; there is one of {}", others.join(", ")) };
        return Err(not_found(&format!("no event of session {:?}{} in this input{hint}", args.id, of_tenant(args))));
    }
    let thresholds = thresholds::sweep(&kept, &policy_name, &overrides, &policy);
    let mut table = Table::new(&[
        Column::number("index"),
        Column::text("time"),
        Column::text("event"),
        Column::text("call"),
        Column::text("answer"),
        Column::text("streaks"),
        Column::text("seen"),
        Column::text("said, or why not"),
    ]);
    let (mut steps, mut contents) = (Vec::new(), String::new());
    for note in notes {
        if let Some(content) = note.json.get("content").filter(|content| !content.is_null()) {
            let index = note.json.get("index").unwrap_or(&Value::Null);
            // A text in memory takes everything.
            let _ = write!(contents, "\n#{index} {content}");
        }
        steps.push(note.json);
        table.row(note.cells);
    }
    let head = format!(
        "session {}{}: {count} events, the newest {} shown; policy {}",
        plain(&args.id),
        of_tenant(args),
        steps.len(),
        policy.profile
    );
    let mut parts = vec![Part::Text(head), Part::Table(table)];
    if !contents.is_empty() {
        parts.push(Part::Text(contents));
    }
    parts.push(Part::Text(format!("\nOther thresholds, over {}:", kept.told())));
    parts.push(if thresholds.is_empty() {
        Part::Text("none of those tried would have said anything".to_owned())
    } else {
        Part::Table(thresholds.clone())
    });
    let json = json!({
        "session_id": args.id,
        "tenant": args.tenant,
        "policy": { "profile": policy.profile, "sha256": policy.hash.to_string() },
        "events": count,
        "steps": steps,
        "in_force": left_over,
        "thresholds": thresholds.to_objects(),
    });
    Ok(Shown { json, parts })
}

fn named(tenant: Option<&str>) -> String {
    tenant.map_or_else(|| "no tenant".to_owned(), |tenant| format!("tenant {tenant:?}"))
}

pub(super) fn of_tenant(args: &InspectArgs) -> String {
    args.tenant.as_ref().map(|tenant| format!(" of tenant {tenant:?}")).unwrap_or_default()
}

/// The step that an event requested or answered.
pub(super) fn step_of<'a>(event: &Event<'_>, session: &'a Session) -> Option<&'a Step> {
    let id = hash_text(&event.id).hash64();
    session.history.ring_back().find(|step| step.event == id || step.result_event == id)
}

fn note(
    index: Option<u64>,
    event: &Event<'_>,
    (topic, partition, offset): (&str, u32, u64),
    answer: &Answer,
    session: &Session,
    policy: &Policy,
    show_content: bool,
) -> Note {
    let step = step_of(event, session);
    let tool = step.map(|step| session.history.tool(step).to_owned());
    // What calls nothing says how the calls before it stand.
    let nearest = step.or_else(|| session.history.newest());
    let tool_policy = policy.tools.get(nearest.map_or("", |step| session.history.tool(step)));
    let is_poll = nearest.is_some_and(|step| step.flags.has(Flags::POLL));
    let streaks = streaks(session, policy, tool_policy, is_poll);
    let is_again = step.is_some_and(|step| step.flags.has(Flags::SAME_TURN)) && !matches!(event.kind, EventKind::ToolResult(_));
    let why: Vec<(Detector, String)> =
        answer.findings.iter().map(|finding| (finding.detector, why(finding, answer, session, policy))).collect();
    let call = step.map(|step| short(&step.call.to_string()));
    let outcome = step.and_then(|step| answered(step, event));
    let kind = kind(event);
    let content = show_content.then(|| content(event));
    let said: Vec<String> = answer.commands.iter().map(said).collect();
    let under_block = answer.block.filter(|_| answer.commands.is_empty()).map(|by| format!("a block of {} stands", by.as_str()));
    let mut last: Vec<String> = said.clone();
    last.extend(why.iter().filter(|(_, why)| !why.is_empty()).map(|(detector, why)| format!("{}: {why}", detector.as_str())));
    if answer.findings.is_empty() {
        last.extend(under_block.clone());
    }
    if let Some(step) = step.filter(|step| !step.is_transparent()) {
        last.extend(why_silent(step, answer, session, policy, tool_policy));
    }
    if answer.is_duplicate {
        last.push("left out: an event with this id was there before".to_owned());
    } else if is_again {
        last.push("not counted: the turn has made this call already".to_owned());
    }
    let seen: Vec<String> = answer
        .findings
        .iter()
        .map(|finding| format!("{} {}/{}", finding.detector.as_str(), finding.count, finding.threshold))
        .collect();
    let findings: Vec<Value> = answer.findings.iter().zip(&why).map(|(finding, (_, why))| finding_json(finding, why)).collect();
    let json = json!({
        "index": index,
        "is_duplicate": answer.is_duplicate,
        "event_id": event.id,
        "agent_id": event.agent_id,
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "time": event.time.to_rfc3339(),
        "kind": kind,
        "tool": tool,
        "call": step.map(|step| step.call.to_string()),
        "outcome": outcome,
        "streaks": streaks.iter().map(|(name, count, threshold)| json!({ "name": name, "count": count, "threshold": threshold })).collect::<Vec<_>>(),
        "same_turn": is_again,
        "findings": findings,
        "under_block_of": answer.block.map(Detector::as_str),
        "commands": answer.commands.iter().map(command_json).collect::<Vec<_>>(),
        "content": content,
    });
    let named = |streaks: &[(&str, u32, u32)]| -> String {
        streaks.iter().map(|(name, count, threshold)| format!("{name} {count}/{threshold}")).collect::<Vec<_>>().join(", ")
    };
    let what = match (&tool, event.agent_id.as_ref()) {
        (Some(tool), "main") => format!("{kind} {tool}"),
        (Some(tool), agent) => format!("{kind} {tool} ({agent})"),
        (None, "main") => kind.to_owned(),
        (None, agent) => format!("{kind} ({agent})"),
    };
    let cells = vec![
        index.into(),
        if event.has_time || event.time.0 != 0 { event.time.to_rfc3339() } else { "-".to_owned() }.into(),
        what.into(),
        call.into(),
        outcome.into(),
        named(&streaks).into(),
        seen.join(", ").into(),
        last.join("; ").into(),
    ];
    Note { json, cells }
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
    let known = if step.flags.has(Flags::SEEN_OUTCOME) { ", known" } else { "" };
    let retried = if step.flags.has(Flags::RETRYABLE) { ", outage" } else { "" };
    Some(if step.outcome.is_some() {
        format!("{word} {}{known}{retried}", short(&step.outcome.to_string()))
    } else {
        format!("{word}{retried}")
    })
}

fn short(hash: &str) -> String {
    hash.chars().take(8).collect()
}

/// Streaks that have begun, with where they lead to a finding: for this tool, whose factor counts, and a call that asks again or does not.
fn streaks(session: &Session, policy: &Policy, tool: &ToolPolicy, is_poll: bool) -> Vec<(&'static str, u32, u32)> {
    let streaks = &session.head.streaks;
    let detectors = &policy.detectors;
    let of_tool = |threshold| tool.scaled(threshold, is_poll);
    let exact = if detectors.exact_repeat.result_aware { streaks.exact.same_answer } else { streaks.exact.length };
    let all = [
        ("exact", exact, of_tool(detectors.exact_repeat.threshold), detectors.exact_repeat.mode),
        ("near", streaks.near.length, of_tool(detectors.near_repeat.threshold), detectors.near_repeat.mode),
        ("outcome", streaks.outcome.count, of_tool(detectors.outcome_repeat.threshold), detectors.outcome_repeat.mode),
        ("stagnation", streaks.matrix.stagnation, of_tool(detectors.stagnation.threshold), detectors.stagnation.mode),
        ("stuck", streaks.matrix.stuck, of_tool(detectors.stuck.threshold), detectors.stuck.mode),
        ("tests", streaks.test_failures, detectors.test_fix.threshold, detectors.test_fix.mode),
        ("shell", streaks.shell_failures, detectors.shell_failures.threshold, detectors.shell_failures.mode),
        ("texts", streaks.text_turns, detectors.text_only.threshold, detectors.text_only.mode),
    ];
    let floor = |name: &str| if matches!(name, "exact" | "near" | "outcome") { 2 } else { 1 };
    all.into_iter()
        .filter(|(name, count, _, mode)| mode.is_on() && *count >= floor(name))
        .map(|(name, count, threshold, _)| (name, count, threshold))
        .collect()
}

/// Why a run of calls that is long enough is no finding.
fn why_silent(step: &Step, answer: &Answer, session: &Session, policy: &Policy, tool: &ToolPolicy) -> Vec<String> {
    let (streaks, detectors) = (&session.head.streaks, &policy.detectors);
    let is_found = |detector| answer.findings.iter().any(|finding| finding.detector == detector);
    let (exact, near) = (&detectors.exact_repeat, &detectors.near_repeat);
    let mut told = Vec::new();
    let is_run =
        exact.mode.is_on() && streaks.exact.hash == step.call && streaks.exact.length >= step.scaled(tool, exact.threshold);
    if is_run && exact.result_aware && streaks.exact.same_answer < streaks.exact.length && !is_found(Detector::ExactRepeat) {
        told.push(format!("exact_repeat: {} equal calls, but their answers differ", streaks.exact.length));
    }
    let is_near_run =
        near.mode.is_on() && streaks.near.hash == step.fingerprint && streaks.near.length >= step.scaled(tool, near.threshold);
    if is_near_run && is_found(Detector::ExactRepeat) && !is_found(Detector::NearRepeat) {
        told.push("near_repeat: exact_repeat speaks of it".to_owned());
    }
    told
}

/// Why a finding led to no command of its own; empty where it did.
fn why(finding: &Finding, answer: &Answer, session: &Session, policy: &Policy) -> String {
    // A shadow's word keeps no live finding silent.
    let hushes = |command: &&Command| command.action != Action::Unblock && (!command.is_shadow || finding.mode == Mode::Shadow);
    let spoke = answer.commands.iter().find(hushes);
    if let Some(command) = spoke {
        let by = command.reason.as_str();
        return match () {
            () if by == finding.detector.as_str() => String::new(),
            () if command.also.contains(&finding.detector) => format!("agrees with {by}"),
            () => format!("{by} spoke; an event gets one command"),
        };
    }
    if finding.is_signal {
        return "a signal, never a reason by itself".to_owned();
    }
    if !finding.is_fresh {
        return "this event takes no part in it".to_owned();
    }
    let episodes = if finding.mode == Mode::Shadow { &session.head.shadow_episodes } else { &session.head.episodes };
    let Some(episode) = episodes.iter().find(|episode| episode.identity == finding.identity) else {
        return "another finding of this event goes first".to_owned();
    };
    let block_until = episode.block_until.filter(|until| *until > session.head.time);
    let rules = &policy.episodes;
    let hits = if block_until.is_some() { rules.renudge_hits } else { rules.patience_hits(episode.nudges) };
    let more = hits.saturating_sub(episode.hits).max(1);
    let or_sooner = if block_until.is_none() && finding.tier > 0 && episode.tier < 3 { ", or at the next tier" } else { "" };
    let again = format!("told at {} of this loop, again after {more} more{or_sooner}", episode.count);
    match block_until {
        Some(until) => format!("blocked until {}; {again}", until.to_rfc3339()),
        None if finding.block_at > finding.count && finding.mode == Mode::Block => {
            format!("{again}; block at {}", finding.block_at)
        }
        None => again,
    }
}

fn said(command: &Command) -> String {
    let shadow = if command.is_shadow { ", shadow" } else { "" };
    format!("{} by {} (level {}{shadow})", command.action.as_str().to_uppercase(), command.reason.as_str(), command.level)
}

fn finding_json(finding: &Finding, why: &str) -> Value {
    json!({
        "detector": finding.detector.as_str(),
        "mode": finding.mode.as_str(),
        "count": finding.count,
        "threshold": finding.threshold,
        "block_at": finding.block_at,
        "confidence": finding.confidence,
        "is_fresh": finding.is_fresh,
        "is_signal": finding.is_signal,
        "why_silent": if why.is_empty() { Value::Null } else { why.into() },
    })
}

fn command_json(command: &Command) -> Value {
    json!({
        "id": loopwarden_core::identity::base32(&command.id.0),
        "action": command.action.as_str(),
        "code": command.reason.as_str(),
        "also": command.also.iter().map(|detector| detector.as_str()).collect::<Vec<_>>(),
        "level": command.level,
        "is_shadow": command.is_shadow,
        "summary": command.summary,
        "expires_at": command.expires_at.to_rfc3339(),
    })
}

fn verdicts(session: &Session) -> Value {
    let now: EventTime = session.head.time;
    let in_force = session.head.verdicts.iter().filter(|verdict| verdict.expires_at > now);
    in_force
        .map(|verdict| {
            json!({ "action": verdict.action.as_str(), "code": verdict.detector.as_str(), "level": verdict.level,
                "expires_at": verdict.expires_at.to_rfc3339() })
        })
        .collect()
}

/// The beginnings of what an agent wrote and read.
fn content(event: &Event<'_>) -> Value {
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
