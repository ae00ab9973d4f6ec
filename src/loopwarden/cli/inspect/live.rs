//! What a running process holds, asked over HTTP: hashes, flags and numbers as of its last commit. Events it does not keep.

use std::time::Duration;

use loopwarden_lab::explain::{Shown, facts};
use loopwarden_lab::report::{Section, Table, grouped, plain};
use serde::Serialize;
use serde_json::Value;

use crate::cli::args::{ConfigArgs, InspectArgs, LogArgs};
use crate::cli::shared::ask::{Answer, RunningProcess};
use crate::cli::shared::{ask, setup};
use crate::{cli::shared::task_name::task_of, exit_code, failure::Failure};

/// Longest wait for the answer.
const WAIT: Duration = Duration::from_secs(10);
/// Bytes of an answer: 4,096 steps of 256 agents are more than anybody reads.
const ANSWER_BYTES_MAX: usize = 32 << 20;

/// Asks for a session.
pub(super) fn session(args: &InspectArgs, log: &LogArgs) -> Result<Shown, Failure> {
    let json = get(args, log, &format!("/sessions/{}?steps={}", ask::path_part(&args.id), args.limit))?;
    let stops = list(&json, "stops").map(|stop| format!("stopped by an operator: {}", flat(stop)));
    let mut above: Vec<String> = stops.chain(list(&json, "budgets").map(spent)).collect();
    let mut sections = Vec::new();
    for agent in list(&json, "agents") {
        above.push(format!(
            "session {}, agent {}, task {}, last event {}: {} steps kept, the newest shown",
            plain(&args.id),
            plain(&word(agent, "agent_id")),
            word(agent, "task"),
            word(agent, "time"),
            agent.get("steps_kept").unwrap_or(&Value::Null),
        ));
        let notes = ["streaks", "episodes", "shadow_episodes", "verdicts"].into_iter().filter_map(|what| {
            let held: Vec<String> = match agent.get(what) {
                Some(Value::Object(fields)) => fields
                    .iter()
                    .filter(|(_, value)| value.as_u64().is_some_and(|count| count > 0))
                    .map(|(name, value)| format!("{name} {value}"))
                    .collect(),
                Some(Value::Array(items)) => items.iter().map(flat).collect(),
                _ => Vec::new(),
            };
            (!held.is_empty()).then(|| format!("{what}: {}", held.join("; ")))
        });
        let lead = std::mem::take(&mut above).join("\n");
        sections.push(Section { notes: notes.collect(), ..Section::rows(lead, steps(agent)) });
    }
    above.push("why: from the events, with --file or --topic".to_owned());
    match sections.last_mut() {
        Some(last) => last.notes.append(&mut above),
        None => sections.push(Section::text(above.join("\n"))),
    }
    Ok(Shown { json, sections })
}

/// A budget that the session counts in, and what is used of it.
fn spent(budget: &Value) -> String {
    let group = budget.get("group").unwrap_or(&Value::Null);
    let whose = [word(group, "kind"), word(group, "name")].map(|word| plain(&word)).join(" ");
    let part = |part: &Value| {
        let number = |name: &str| part.get(name).and_then(Value::as_u64).unwrap_or_default();
        let share = part.get("share").and_then(Value::as_f64).unwrap_or_default() * 100.0;
        format!("{} of {} {} ({share:.0} %)", grouped(number("used")), grouped(number("limit")), word(part, "quantity"))
    };
    let parts: Vec<String> = list(budget, "parts").map(part).collect();
    let blocks = if budget.get("blocks") == Some(&Value::Bool(true)) { ", calls are refused" } else { "" };
    let (name, per) = (plain(&word(budget, "budget")), word(budget, "per"));
    format!("budget {name} of {}, a {per}: {}{blocks}", whose.trim_end(), parts.join(", "))
}

/// Asks for a swarm.
pub(super) fn swarm(args: &InspectArgs, log: &LogArgs) -> Result<Shown, Failure> {
    let json = get(args, log, &format!("/swarms/{}", ask::path_part(&args.id)))?;
    let rows: Vec<String> = list(&json, "active").map(in_force).collect();
    let notes = (!rows.is_empty()).then(|| format!("in force:\n{}", rows.join("\n")));
    let counted = Section::rows(format!("swarm {}: what is counted", plain(&args.id)), counters(&json));
    Ok(Shown { json, sections: vec![Section { notes: notes.into_iter().collect(), ..counted }] })
}

/// Asks for a task.
pub(super) fn task(args: &InspectArgs, log: &LogArgs) -> Result<Shown, Failure> {
    let (stage, partition) = task_of(&args.id)?;
    let json = get(args, log, &format!("/tasks/{}/{partition}", stage.as_str()))?;
    Ok(Shown { sections: vec![Section::rows("", facts(&json))], json })
}

fn get(args: &InspectArgs, log: &LogArgs, path: &str) -> Result<Value, Failure> {
    let config = ConfigArgs { config: args.range.config.clone(), set: args.set.clone(), ..ConfigArgs::default() };
    let config = setup::load(&config, log)?.config;
    let process = RunningProcess::of(args.address.as_deref(), &config)?;
    let sign = if path.contains('?') { '&' } else { '?' };
    let tenant = args.tenant.as_ref().map(|tenant| format!("{sign}tenant={}", ask::path_part(tenant))).unwrap_or_default();
    let asked = format!("{path}{tenant}");
    let fail = |cause: String| Failure::new(exit_code::FAILED, format!("error: http://{}{asked}: {cause}", process.address));
    let answer = process.get(&asked, WAIT, ANSWER_BYTES_MAX);
    let Answer { status, code, body } = answer.map_err(|error| {
        fail(format!("{}\n  from recorded events no process is needed: --file or --topic", process.nobody(&error)))
    })?;
    let json: Option<Value> = serde_json::from_str(&body).ok();
    if code != "200" {
        let why = json.as_ref().map(|json| word(json, "message")).filter(|why| !why.is_empty());
        let why = why.unwrap_or_else(|| format!("answered {status:?}"));
        return Err(fail(format!("{why}{}", ask::way_in(&code))));
    }
    json.ok_or_else(|| fail("the answer is no JSON, or too long; ask for fewer steps with --limit".to_owned()))
}

/// A counter of a swarm.
#[derive(Serialize, Default)]
struct CounterRow {
    tool: String,
    fingerprint: String,
    calls: Value,
    agents: Value,
    time: String,
    verdicts: String,
}

fn counters(swarm: &Value) -> Table {
    Table::of(list(swarm, "counters").map(|counter| CounterRow {
        tool: word(counter, "tool"),
        fingerprint: word(counter, "fingerprint"),
        calls: counter.get("calls").cloned().unwrap_or_default(),
        agents: counter.get("agents").cloned().unwrap_or_default(),
        time: word(counter, "time"),
        verdicts: list(counter, "verdicts").map(flat).collect::<Vec<_>>().join("; "),
    }))
}

/// A step of an agent.
#[derive(Serialize, Default)]
struct StepRow {
    step: Value,
    time: String,
    tool: String,
    call: String,
    outcome: String,
    flags: String,
    seen_by: String,
}

fn steps(agent: &Value) -> Table {
    let short = |step: &Value, name: &str| word(step, name).chars().take(8).collect();
    let words = |step: &Value, name: &str| list(step, name).filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
    Table::of(list(agent, "steps").map(|step| StepRow {
        step: step.get("sequence").cloned().unwrap_or_default(),
        time: word(step, "time"),
        tool: word(step, "tool"),
        call: short(step, "call"),
        outcome: short(step, "outcome"),
        flags: words(step, "flags"),
        seen_by: words(step, "fired"),
    }))
}

/// A row of the topic of verdicts, a line for each verdict.
fn in_force(row: &Value) -> String {
    let lines = list(row, "active").map(|verdict| {
        let tool = verdict.pointer("/scope/tool").and_then(Value::as_str).unwrap_or("every tool");
        format!(
            "  {} by {}, level {}, {}, until {}",
            word(verdict, "action"),
            word(verdict, "code"),
            verdict.get("level").unwrap_or(&Value::Null),
            plain(tool),
            word(verdict, "expires_at")
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn list<'a>(json: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    json.get(name).and_then(Value::as_array).into_iter().flatten()
}

fn word(json: &Value, name: &str) -> String {
    json.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// An object in a line; what is empty is left out.
fn flat(json: &Value) -> String {
    let fields = json.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    fields
        .map(|(name, value)| match value {
            Value::String(text) => format!("{name} {text}"),
            other => format!("{name} {other}"),
        })
        .collect::<Vec<_>>()
        .join(", ")
}
