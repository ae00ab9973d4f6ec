//! What a running process holds, asked over HTTP: hashes, flags and numbers as of its last commit. Events it does not keep.

use std::time::Duration;

use loopwarden_lab::explain::{Shown, facts};
use loopwarden_lab::report::{Section, Table, grouped, plain};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::cli::args::{ConfigArgs, InspectArgs, LogArgs};
use crate::cli::shared::ask::{self, RunningProcess, Unanswered};
use crate::{cli::shared::setup, cli::shared::setup::task_of, failure::Failure, operate::api};

/// Longest wait for the answer.
const WAIT: Duration = Duration::from_secs(10);
/// Bytes of an answer: 4,096 steps of 256 agents are more than anybody reads.
const ANSWER_BYTES_MAX: usize = 32 << 20;

/// Asks for a session.
pub(super) fn session(args: &InspectArgs, log: &LogArgs) -> Result<Shown, Failure> {
    let session: api::Session = get(args, log, &format!("/sessions/{}?steps={}", ask::path_part(&args.id), args.limit))?;
    let stops = session.stops.iter().map(|stop| format!("stopped by an operator: {}", flat(&json(stop))));
    let mut above: Vec<String> = stops.chain(session.budgets.iter().map(spent)).collect();
    let mut sections = Vec::new();
    for agent in &session.agents {
        let (id, of) = (plain(&args.id), plain(&agent.names.agent_id));
        above.push(format!(
            "session {id}, agent {of}, {}, task {}, last event {}: {} steps kept, the newest shown",
            agent.standing.words(),
            agent.task,
            agent.time,
            agent.steps_kept,
        ));
        let running = agent.streaks.iter().filter(|(_, length)| **length > 0).map(|(name, length)| format!("{name} {length}"));
        let [episodes, shadow] = [&agent.episodes, &agent.shadow_episodes].map(|episodes| flat_all(episodes));
        let held = [
            ("streaks", running.collect()),
            ("episodes", episodes),
            ("shadow_episodes", shadow),
            ("verdicts", flat_all(&agent.verdicts)),
        ];
        let held = held.into_iter().filter(|(_, found)| !found.is_empty());
        let lead = std::mem::take(&mut above).join("\n");
        let notes = held.map(|(what, found): (_, Vec<String>)| format!("{what}: {}", found.join("; "))).collect();
        sections.push(Section { notes, ..Section::rows(lead, steps(agent)) });
    }
    above.push("why: from the events, with --file or --topic".to_owned());
    match sections.last_mut() {
        Some(last) => last.notes.append(&mut above),
        None => sections.push(Section::text(above.join("\n"))),
    }
    Ok(Shown { json: json(&session), sections })
}

/// A budget that the session counts in, and what is used of it.
fn spent(budget: &api::Budget) -> String {
    let api::Budget { budget: name, per, group, blocks, parts, .. } = budget;
    let whose = [&group.kind, &group.name].map(|word| plain(word)).join(" ");
    let part = |part: &api::BudgetPart| {
        let share = part.share * 100.0;
        format!("{} of {} {} ({share:.0} %)", grouped(part.used), grouped(part.limit), part.quantity)
    };
    let parts: Vec<String> = parts.iter().map(part).collect();
    let blocks = if *blocks { ", calls are refused" } else { "" };
    format!("budget {} of {}, a {per}: {}{blocks}", plain(name), whose.trim_end(), parts.join(", "))
}

/// Asks for a swarm.
pub(super) fn swarm(args: &InspectArgs, log: &LogArgs) -> Result<Shown, Failure> {
    let swarm: api::Swarm = get(args, log, &format!("/swarms/{}", ask::path_part(&args.id)))?;
    let rows: Vec<String> = swarm.active.iter().map(in_force).collect();
    let notes = (!rows.is_empty()).then(|| format!("in force:\n{}", rows.join("\n")));
    let counted = Section::rows(format!("swarm {}: what is counted", plain(&args.id)), counters(&swarm));
    Ok(Shown { json: json(&swarm), sections: vec![Section { notes: notes.into_iter().collect(), ..counted }] })
}

/// Asks for a task.
pub(super) fn task(args: &InspectArgs, log: &LogArgs) -> Result<Shown, Failure> {
    let (stage, partition) = task_of(&args.id)?;
    let json: Value = get(args, log, &format!("/tasks/{}/{partition}", stage.as_str()))?;
    Ok(Shown { sections: vec![Section::rows("", facts(&json))], json })
}

fn get<T: DeserializeOwned>(args: &InspectArgs, log: &LogArgs, path: &str) -> Result<T, Failure> {
    let config = ConfigArgs { config: args.range.config.clone(), set: args.set.clone(), ..ConfigArgs::default() };
    let config = setup::load(&config, log)?.config;
    let process = RunningProcess::of(args.address.as_deref(), &config)?;
    let sign = if path.contains('?') { '&' } else { '?' };
    let tenant = args.tenant.as_ref().map(|tenant| format!("{sign}tenant={}", ask::path_part(tenant))).unwrap_or_default();
    process.json(&format!("{path}{tenant}"), WAIT, ANSWER_BYTES_MAX).map_err(|unanswered| match unanswered {
        Unanswered::Away(why) => {
            Failure::failed(format!("{why}\n  from recorded events no process is needed: --file or --topic"))
        }
        refused @ Unanswered::Refused(_) => refused.into(),
    })
}

/// A counter of a swarm.
#[derive(Serialize, Default)]
struct CounterRow {
    tool: String,
    fingerprint: String,
    calls: u32,
    agents: u32,
    time: String,
    verdicts: String,
}

fn counters(swarm: &api::Swarm) -> Table {
    Table::of(swarm.counters.iter().map(|counter| CounterRow {
        tool: counter.tool.clone(),
        fingerprint: counter.fingerprint.clone(),
        calls: counter.calls,
        agents: counter.agents,
        time: counter.time.clone(),
        verdicts: flat_all(&counter.verdicts).join("; "),
    }))
}

/// A step of an agent.
#[derive(Serialize, Default)]
struct StepRow {
    step: u64,
    time: String,
    tool: String,
    call: String,
    outcome: String,
    flags: String,
    seen_by: String,
}

fn steps(agent: &api::Agent) -> Table {
    let short = |hash: &str| hash.chars().take(8).collect();
    Table::of(agent.steps.iter().map(|step| StepRow {
        step: step.sequence,
        time: step.time.clone(),
        tool: step.tool.clone(),
        call: short(&step.call),
        outcome: short(step.outcome.as_deref().unwrap_or_default()),
        flags: step.flags.join(" "),
        seen_by: step.fired.join(" "),
    }))
}

/// A row of the topic of verdicts, a line for each verdict.
fn in_force(row: &Value) -> String {
    let verdicts = row.get("active").and_then(Value::as_array).into_iter().flatten();
    let lines = verdicts.map(|verdict| {
        let of = |pointer: &str| verdict.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let tool = match of("/scope/tool") {
            "" => "every tool",
            tool => tool,
        };
        let level = verdict.get("level").unwrap_or(&Value::Null);
        format!("  {} by {}, level {level}, {}, until {}", of("/action"), of("/code"), plain(tool), of("/expires_at"))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn json(answer: &impl Serialize) -> Value {
    serde_json::to_value(answer).unwrap_or_default()
}

fn flat_all<T: Serialize>(items: &[T]) -> Vec<String> {
    items.iter().map(|item| flat(&json(item))).collect()
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
