//! `top`: who loops now, the dearest first.

use std::io::{self, IsTerminal as _};
use std::{cmp::Reverse, collections::BTreeMap, thread, time::Duration};

use loopwarden_core::event::EventTime;
use loopwarden_lab::report::{Table, counted};
use loopwarden_log::clock;
use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::args::{LogArgs, PlainFormat};
use crate::cli::watch::feed::{Feed, Source, Unanswered};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, OutputFormat};
use crate::{cli::shared::ask::RunningProcess, cli::shared::setup, cli::watch::args::TopArgs, cli::watch::line::ShownCommand};

/// Between two looks.
const EVERY: Duration = Duration::from_secs(2);
/// The newest commands that are looked through at the start: what is in force is hardly older.
const COMMANDS_MAX: u64 = 10_000;
/// Loops that are kept; beyond them those that end first go.
const LOOPS_MAX: usize = 10_000;
/// Sessions that are asked for what they have spent, and rows shown.
const ROWS_MAX: usize = 20;

/// Who loops: its tenant, and its name for people.
type Key = (String, String);

/// A loop that is told now.
#[derive(Debug, Clone)]
struct Loop {
    session: Option<String>,
    action: String,
    mode: String,
    /// Calls or steps in the loop, where that is known.
    count: Option<u64>,
    tool: String,
    code: String,
    ends: EventTime,
}

/// What a session has used, where it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Spent {
    cost_micro_usd: Option<u64>,
    tokens: Option<u64>,
    calls: Option<u64>,
}

/// A row of the table.
#[derive(Debug, Clone, Serialize, Default)]
struct Row {
    subject: String,
    tenant: Option<String>,
    told: String,
    cost_usd: Option<f64>,
    tokens: Option<u64>,
    calls: Option<u64>,
    in_loop: Option<u64>,
    tool: String,
    detector: String,
    until: String,
}

/// Shows it, once or until told to stop.
///
/// # Errors
/// The process does not answer, or lets nobody in.
pub fn run(args: &TopArgs, log: &LogArgs) -> Outcome {
    let config = setup::load(&args.process.config, log)?.config;
    let mut feed = Feed::at_end(RunningProcess::of(args.process.address.as_deref(), &config)?)?;
    feed.after = feed.after.saturating_sub(COMMANDS_MAX);
    let mut loops = BTreeMap::new();
    let is_once = args.once || args.output == PlainFormat::Json || !io::stdout().is_terminal();
    let mut is_away = false;
    loop {
        match look(&mut feed, &mut loops) {
            Ok((rows, more)) => {
                show(&rows, more, args.output, !is_once)?;
                is_away = false;
            }
            Err(Unanswered::Away(why)) if !is_once => {
                if !std::mem::replace(&mut is_away, true) {
                    crate::output::say(format!("waiting for the process: {}", why.lines().next().unwrap_or_default()));
                }
            }
            Err(unanswered) => return Err(Failure::from(unanswered)),
        }
        if is_once {
            return Ok(());
        }
        thread::park_timeout(EVERY);
    }
}

/// Who loops now: as many as are shown, and how many there are besides.
fn look(feed: &mut Feed, loops: &mut BTreeMap<Key, Loop>) -> Result<(Vec<Row>, usize), Unanswered> {
    if feed.source == Source::Recent {
        loops.clear();
        let overview = feed.overview(u64::MAX)?;
        let rows = overview.get("active").and_then(Value::as_array).into_iter().flatten();
        let mode = overview.get("mode").and_then(Value::as_str).unwrap_or_default().to_owned();
        rows.for_each(|row| of_row(row, &mode, loops));
    } else {
        loop {
            let slice = feed.read(Duration::ZERO)?;
            if slice.is_anew {
                loops.clear();
                continue;
            }
            slice.commands.iter().for_each(|command| of_command(command, loops));
            if slice.is_end {
                break;
            }
        }
    }
    let now = EventTime(clock::now_ms());
    loops.retain(|_, looping| looping.ends > now);
    while loops.len() > LOOPS_MAX {
        let Some(first) = loops.iter().min_by_key(|(_, looping)| looping.ends).map(|(key, _)| key.clone()) else { break };
        loops.remove(&first);
    }
    // Those with the longest loops are asked; of the others nothing more is known anyway.
    let mut found: Vec<(&Key, &Loop)> = loops.iter().collect();
    found.sort_by_key(|(_, looping)| Reverse(looping.count));
    let more = found.len().saturating_sub(ROWS_MAX);
    found.truncate(ROWS_MAX);
    let mut rows = Vec::new();
    for ((tenant, subject), looping) in found {
        let tenant = Some(tenant.clone()).filter(|tenant| !tenant.is_empty());
        let session = looping.session.as_deref().map(|id| feed.session(id, tenant.as_deref())).transpose()?.flatten();
        rows.push((spent(session.as_ref()), row(subject, tenant, looping)));
    }
    Ok((dearest_first(rows), more))
}

/// Cost, else tokens, else calls, else the calls of the loop.
fn dearest_first(mut rows: Vec<(Spent, Row)>) -> Vec<Row> {
    rows.sort_by_key(|(spent, row)| Reverse((spent.cost_micro_usd, spent.tokens, spent.calls, row.in_loop)));
    let with = |(spent, row): (Spent, Row)| Row {
        cost_usd: spent.cost_micro_usd.map(|micro| (micro as f64 / 100.0).round() / 1e4),
        tokens: spent.tokens,
        calls: spent.calls,
        ..row
    };
    rows.into_iter().map(with).collect()
}

fn row(subject: &str, tenant: Option<String>, looping: &Loop) -> Row {
    let mode = if looping.mode == "live" { String::new() } else { format!(" ({})", looping.mode) };
    Row {
        subject: subject.to_owned(),
        tenant,
        told: format!("{}{mode}", looping.action),
        in_loop: looping.count,
        tool: looping.tool.clone(),
        detector: looping.code.clone(),
        until: looping.ends.to_rfc3339(),
        ..Row::default()
    }
}

/// A command begins, goes on with or ends a loop.
fn of_command(command: &Value, loops: &mut BTreeMap<Key, Loop>) {
    let told = ShownCommand(command);
    let key = (told.text("/tenant").to_owned(), told.subject());
    if told.text("/action") == "unblock" {
        loops.remove(&key);
        return;
    }
    let Some(ends) = EventTime::parse_rfc3339(told.text("/expires_at")) else { return };
    let session = told.text("/session_id");
    loops.insert(
        key,
        Loop {
            session: Some(session.to_owned()).filter(|session| !session.is_empty()),
            action: told.text("/action").to_owned(),
            mode: told.text("/mode").to_owned(),
            count: command.pointer("/reason/evidence/count").and_then(Value::as_u64),
            tool: told.tool().to_owned(),
            code: told.text("/reason/code").to_owned(),
            ends,
        },
    );
}

/// A row of what is in force as a command: the newest verdict stands last, and there is no evidence.
fn of_row(row: &Value, mode: &str, loops: &mut BTreeMap<Key, Loop>) {
    let Some(verdict) = row.get("active").and_then(Value::as_array).and_then(|active| active.last()) else { return };
    let of_subject = |name: &str| row.get("subject").and_then(|subject| subject.get(name));
    let scope = json!({ "kind": of_subject("kind"), "agent_id": of_subject("agent_id"), "tool": verdict.pointer("/scope/tool") });
    let command = json!({
        "tenant": of_subject("tenant"), "session_id": of_subject("session_id"), "swarm_id": of_subject("swarm_id"), "scope": scope,
        "action": verdict.get("action"), "mode": mode, "expires_at": verdict.get("expires_at"),
        "reason": { "code": verdict.get("code") },
    });
    of_command(&command, loops);
}

/// What all agents of a session have used together, where the process counts it; else the steps that it holds stand for calls.
fn spent(session: Option<&Value>) -> Spent {
    let agents = session.and_then(|session| session.get("agents")?.as_array());
    let sum = |pointer: &str| {
        let mut known = agents.into_iter().flatten().filter_map(|agent| agent.pointer(pointer)?.as_u64()).peekable();
        known.peek().is_some().then(|| known.sum::<u64>())
    };
    let used = |pointer: &str| sum(pointer).filter(|used| *used > 0);
    Spent {
        cost_micro_usd: used("/spent/cost_micro_usd"),
        tokens: used("/spent/tokens"),
        calls: used("/spent/calls").or_else(|| sum("/steps_kept")),
    }
}

fn show(rows: &[Row], more: usize, format: PlainFormat, is_refreshed: bool) -> Outcome {
    let mut out = Output::stdout();
    if format == PlainFormat::Json {
        out.line(json!({ "loops": rows, "more": more }).to_string())?;
        return Ok(out.flush()?);
    }
    if is_refreshed {
        // Home, and what is below is gone.
        out.text("\x1b[H\x1b[2J")?;
    }
    let now = EventTime(clock::now_ms()).to_rfc3339();
    let besides = if more > 0 { format!(", the first {} shown", rows.len()) } else { String::new() };
    out.line(format!("{now}  {} now{besides}", counted((rows.len() + more) as u64, "loop")))?;
    if !rows.is_empty() {
        out.line("")?;
        out.table(&Table::of(rows.to_vec()), OutputFormat::Table)?;
    }
    if is_refreshed {
        out.line("\nevent by event: loopwarden inspect session ID    end: ^C")?;
    }
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(action: &str, session: &str, count: u64) -> Value {
        json!({ "action": action, "mode": "live", "session_id": session, "scope": { "kind": "agent", "agent_id": "main" },
            "expires_at": "2099-01-01T00:00:00Z", "reason": { "code": "stuck", "summary": "x", "evidence": { "count": count } } })
    }

    #[test]
    fn a_loop_is_told_by_its_newest_command_and_ends_when_its_block_is_lifted() {
        let mut loops = BTreeMap::new();
        for command in [command("nudge", "a", 3), command("nudge", "b", 4), command("block", "a", 9), command("unblock", "b", 0)]
        {
            of_command(&command, &mut loops);
        }
        let left: Vec<_> = loops.values().map(|looping| (looping.action.as_str(), looping.count)).collect();
        assert_eq!(left, [("block", Some(9))]);
    }

    #[test]
    fn the_dearest_come_first_and_what_is_not_known_is_not_made_up() {
        let of = |spent: Value| spent_of(&[spent]);
        let spent_rows = [
            (of(json!({ "steps_kept": 90 })), "steps"),
            (of(json!({ "steps_kept": 5, "spent": { "calls": 5, "tokens": 70, "cost_micro_usd": 0 } })), "tokens"),
            (of(json!({ "steps_kept": 5, "spent": { "calls": 5, "tokens": 7, "cost_micro_usd": 1_234_567 } })), "cost"),
            (Spent::default(), "nothing"),
        ];
        let rows = dearest_first(
            spent_rows.into_iter().map(|(spent, name)| (spent, Row { subject: name.to_owned(), ..Row::default() })).collect(),
        );
        let order: Vec<&str> = rows.iter().map(|row| row.subject.as_str()).collect();
        assert_eq!(order, ["cost", "tokens", "steps", "nothing"]);
        assert_eq!((rows[0].cost_usd, rows[1].cost_usd, rows[2].calls, rows[3].calls), (Some(1.2346), None, Some(90), None));
    }

    fn spent_of(agents: &[Value]) -> Spent {
        spent(Some(&json!({ "agents": agents })))
    }

    #[test]
    fn agents_of_a_session_are_added_up_and_rows_in_force_are_read() {
        let one = json!({ "spent": { "calls": 2, "tokens": 3, "cost_micro_usd": 4 } });
        assert_eq!(spent_of(&[one.clone(), one]), Spent { cost_micro_usd: Some(8), tokens: Some(6), calls: Some(4) });
        let mut loops = BTreeMap::new();
        let row = json!({ "subject": { "kind": "swarm", "swarm_id": "w", "tenant": "acme" }, "active": [
            { "action": "nudge", "code": "a", "expires_at": "2099-01-01T00:00:00Z" },
            { "action": "block", "code": "swarm_repeat", "scope": { "tool": "get" }, "expires_at": "2099-01-01T00:00:00Z" }] });
        of_row(&row, "shadow", &mut loops);
        let (key, looping) = loops.iter().next().unwrap();
        assert_eq!(*key, ("acme".to_owned(), "swarm w".to_owned()));
        assert_eq!((looping.action.as_str(), looping.tool.as_str(), looping.session.as_deref()), ("block", "get", None));
    }
}
