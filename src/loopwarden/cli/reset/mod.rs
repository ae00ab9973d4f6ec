//! `reset`: an operator forgets what was counted. A session and a swarm by an event like any other; a task, whose state cannot be
//! trusted any more, by beginning it anew.

mod task;

use loopwarden_core::whom::{Kind, Whom};
use loopwarden_core::{event::EventTime, limits::AGENTS_SHOWN};
use loopwarden_lab::report::plain;
use loopwarden_log::clock;
use serde_json::Value;

use crate::cli::args::{LogArgs, ResetArgs, ResetCommand};
use crate::cli::shared::act::{ANSWER_BYTES_MAX, WAIT};
use crate::cli::shared::ask::{Answer, RunningProcess};
use crate::cli::shared::{act, ask, setup};
use crate::failure::{Failure, Outcome};
use crate::operate::act::{Act, Does};
use crate::operate::api;
use crate::{exit_code, output, output::say};

/// Bytes of what it says about a session: all its agents, with their newest steps.
const STATE_BYTES_MAX: usize = 32 << 20;
/// Agents that a warning names.
const AGENTS_NAMED: usize = 8;

/// Resets.
///
/// # Errors
/// Settings, brokers, the running process; that there is no such task, or its group still has members.
pub fn run(command: &ResetCommand, log: &LogArgs) -> Outcome {
    setup::log_quietly(log)?;
    match command {
        ResetCommand::Session(args) => send(args, log, Kind::Session),
        ResetCommand::Swarm(args) if args.agent.is_some() => {
            Err(Failure::new(exit_code::USAGE, "error: --agent is about a session; a swarm is reset as a whole"))
        }
        ResetCommand::Swarm(args) => send(args, log, Kind::Swarm),
        ResetCommand::Task(args) => task::run(args, &setup::load(&args.config, log)?.config),
    }
}

/// Sends the event, to wherever the others go.
fn send(args: &ResetArgs, log: &LogArgs, kind: Kind) -> Outcome {
    let config = setup::load(&args.place.config, log)?.config;
    let now = EventTime(clock::now_ms());
    let whom = Whom::new(args.tenant.as_deref().unwrap_or_default(), kind, &args.id);
    let (id, labels, agent_id) = (act::id("reset", now), act::labels(act::user()), args.agent.clone());
    let act = Act { id, at: now, reason: None, labels, whom, agent_id, does: Does::Reset };
    let mut is_known = true;
    let look = |process: &RunningProcess| {
        is_known = expect_known(args, process, kind);
        expect_live(process);
    };
    let became = act::send(&act, "name", &args.place, &config, look)?;
    output::line(&told(args, kind, &became))?;
    if is_known { Ok(()) } else { Err(Failure::answer_is_no()) }
}

/// What became of a reset, for people. What a user wrote does nothing to a terminal.
fn told(args: &ResetArgs, kind: Kind, became: &str) -> String {
    let what = kind.as_str();
    let agent = args.agent.as_deref().map(|agent| format!(", agent {}", plain(agent))).unwrap_or_default();
    let tenant = args.tenant.as_deref().map(|tenant| format!(" of tenant {}", plain(tenant))).unwrap_or_default();
    format!("reset of {what} {}{agent}{tenant}: {became}", plain(&args.id))
}

/// Says when the process holds nothing of that name, and that there was nothing to reset: it may be a slip. The event is sent all the same:
/// the name may come yet.
fn expect_known(args: &ResetArgs, process: &RunningProcess, kind: Kind) -> bool {
    let what = kind.as_str();
    let tenant = args.tenant.as_ref().map(|tenant| format!("?tenant={}", ask::path_part(tenant))).unwrap_or_default();
    let asked = format!("/{what}s/{}{tenant}", ask::path_part(&args.id));
    let Answer { code, body, .. } = process.get(&asked, WAIT, STATE_BYTES_MAX).unwrap_or_default();
    let unknown = if code == "404" {
        Some(format!("no {what} {:?}", args.id))
    } else {
        args.agent.as_deref().and_then(|agent| unknown_agent(agent, &body))
    };
    if let Some(unknown) = &unknown {
        say(format!("warning: {} holds {unknown} (nothing_to_reset)", process.address));
    }
    unknown.is_none()
}

/// Says when the process lifts nothing for workers.
fn expect_live(process: &RunningProcess) {
    let version = process.get("/version", WAIT, ANSWER_BYTES_MAX).unwrap_or_default();
    if serde_json::from_str::<Value>(&version.body).is_ok_and(|version| version.get("mode").is_some_and(|mode| mode == "shadow"))
    {
        say(format!(
            "warning: {} runs in shadow: workers keep the blocks they have from live until those expire, and no later reset lifts them",
            process.address
        ));
    }
}

/// What there is instead of an agent that is not among those of its session. Of an answer that is cut, or shows as many as it may, nobody
/// knows who is missing.
fn unknown_agent(agent: &str, body: &str) -> Option<String> {
    let session: api::Session = serde_json::from_str(body).ok()?;
    let known: Vec<&str> = session.agents.iter().map(|known| &*known.names.agent_id).collect();
    if known.is_empty() || known.len() >= AGENTS_SHOWN || known.contains(&agent) {
        return None;
    }
    let named: Vec<String> = known.iter().take(AGENTS_NAMED).map(|known| format!("{known:?}")).collect();
    let more = known.len().saturating_sub(AGENTS_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(format!("no agent {agent:?} of that session; --agent may be one of {}{more}", named.join(", ")))
}
