//! Tasks and sessions as JSON: names, hashes, flags, numbers, and what an agent was told; nothing of what it wrote or read.

use loopwarden_core::detect::{Flags, Spent, Step};
use loopwarden_core::engine::{Action, Episode, SubjectKey, Tree, Verdict};
use loopwarden_core::event::EventTime;
use loopwarden_core::identity::{Hash64, Hash128};
use loopwarden_core::policy::{Detector, Reached};
use loopwarden_lane::{AgentView, BudgetView, CounterView, TaskState, TaskView};
use serde_json::{Value, json};

/// Flags by name.
const FLAGS: [(Flags, &str); 19] = [
    (Flags::OPEN, "open"),
    (Flags::OBSERVED, "observed"),
    (Flags::OK, "ok"),
    (Flags::REFUSED, "refused"),
    (Flags::RETRYABLE, "retryable"),
    (Flags::SHELL, "shell"),
    (Flags::SHELL_FILE, "shell_file"),
    (Flags::TEST, "test"),
    (Flags::TEST_PASSED, "test_passed"),
    (Flags::TEST_FAILED, "test_failed"),
    (Flags::READ, "read"),
    (Flags::POLL, "poll"),
    (Flags::EXEMPT, "exempt"),
    (Flags::SAME_TURN, "same_turn"),
    (Flags::ARGS_ONLY, "args_only"),
    (Flags::MUTATES, "mutates"),
    (Flags::SEEN_CALL, "seen_call"),
    (Flags::SEEN_OUTCOME, "seen_outcome"),
    (Flags::OVER_RATE, "over_rate"),
];

/// A task as of its last commit.
pub(crate) fn task(task: &TaskView, lane: usize, lag: Option<u64>) -> Value {
    let (state, why) = match &task.state {
        TaskState::Restoring => ("restoring", None),
        TaskState::Running => ("running", None),
        TaskState::Poisoned(why) => ("poisoned", Some(why)),
    };
    let mut value = json!({
        "stage": task.id.stage.as_str(),
        "partition": task.id.partition,
        "state": state,
        "lane": lane,
        "lag_records": lag,
    });
    if let (Some(object), Some(why)) = (value.as_object_mut(), why) {
        object.insert("why".to_owned(), why.as_str().into());
    }
    if let (Some(object), Some(position)) = (value.as_object_mut(), &task.position) {
        object.insert("next_offset".to_owned(), position.next_offset.0.into());
        object.insert(
            "watermark".to_owned(),
            if position.watermark > EventTime(0) { time(position.watermark) } else { Value::Null },
        );
        object.insert("outputs".to_owned(), position.outputs.into());
        object.insert("owner".to_owned(), position.owner.as_str().into());
    }
    value
}

/// A stop as people read it: of its row whom, by whom, why, from when and until when.
pub(crate) fn stop(row: &Value) -> Value {
    let mut shown = row.get("subject").cloned().unwrap_or_default();
    let (Some(fields), Some(stop)) = (shown.as_object_mut(), row.pointer("/active/0")) else { return shown };
    fields.remove("kind");
    if let Some(name) = fields.remove("group").and_then(|group| group.get("name").cloned()) {
        fields.insert("root_id".to_owned(), name);
    }
    let names = [
        ("actor", "actor"),
        ("reason", "reason"),
        ("fail", "fail"),
        ("since", "issued_at"),
        ("until", "expires_at"),
        ("command_id", "command_id"),
    ];
    for (name, of) in names {
        if let Some(value) = stop.get(of) {
            fields.insert(name.to_owned(), value.clone());
        }
    }
    shown
}

/// An agent's session, with its newest steps.
pub(crate) fn agent(agent: &AgentView, steps_max: usize, now: EventTime) -> Value {
    let session = &agent.session;
    let head = &session.head;
    let (tenant, agent_id) = match &agent.subject {
        SubjectKey::Agent { tenant, agent_id, .. } => (tenant.as_str(), agent_id.as_str()),
        SubjectKey::Swarm { .. } | SubjectKey::Fleet { .. } | SubjectKey::Group { .. } | SubjectKey::Stop(_) => ("", ""),
    };
    let mut steps: Vec<Value> =
        session.history.ring_back().take(steps_max).map(|step| step_json(step, session.history.tool(step))).collect();
    steps.reverse();
    let streaks = &head.streaks;
    json!({
        "agent_id": agent_id,
        "tenant": if tenant.is_empty() { Value::Null } else { tenant.into() },
        "swarm_id": if head.swarm_id.is_empty() { Value::Null } else { (*head.swarm_id).into() },
        "tree": head.tree.as_ref().map(|tree| tree_json(tree)),
        "task": agent.task.to_string(),
        "epoch": head.board.epoch,
        "seq": head.board.seq,
        "shadow_seq": head.shadow_seq,
        "time": time(head.time),
        "has_ended": head.has_ended,
        "loops_total": head.loops_total,
        "verdicts": in_force(&head.board.verdicts, now),
        "episodes": head.episodes.iter().map(episode).collect::<Vec<_>>(),
        "shadow_episodes": head.shadow_episodes.iter().map(episode).collect::<Vec<_>>(),
        "streaks": {
            "exact_repeat": streaks.exact.steps.count,
            "near_repeat": streaks.near.steps.count,
            "outcome_repeat": streaks.outcome.count,
            "stagnation": streaks.matrix.stagnation.count,
            "stuck": streaks.matrix.stuck.count,
            "test_failures": streaks.tests.count,
            "shell_failures": streaks.shell.count,
            "text_turns": streaks.texts.turns,
        },
        "spent": spent(&streaks.spent),
        "steps_kept": session.history.len(),
        "steps": steps,
    })
}

/// The place of an agent among those that start each other.
fn tree_json(tree: &Tree) -> Value {
    let parent = Some(&*tree.parent).filter(|parent| !parent.is_empty());
    json!({ "root_id": &*tree.name, "parent_id": parent, "depth": tree.depth, "spawns": tree.spawns })
}

/// What is counted where the policy has a budget; null elsewhere.
fn spent(spent: &Spent) -> Value {
    let is_counted = spent.calls > 0 || spent.tokens > 0;
    let shown =
        || json!({ "calls": spent.calls, "turns": spent.turns, "tokens": spent.tokens, "cost_micro_usd": spent.cost_micro_usd });
    if is_counted { shown() } else { Value::Null }
}

/// A budget that agents count in: what is used of each limit in the window of now.
pub(crate) fn budget(view: &BudgetView) -> Value {
    let part = |part: &Reached| {
        json!({
            "quantity": part.quantity.as_str(),
            "used": part.used,
            "limit": part.limit,
            "share": (part.share() * 1_000.0).round() / 1_000.0,
        })
    };
    let blocks = view.verdicts.iter().any(|verdict| verdict.action == Action::Block);
    json!({
        "budget": view.name,
        "per": view.per.as_str(),
        "group": { "kind": view.whom.kind.as_str(), "name": view.whom.name },
        "mode": view.mode.as_str(),
        "blocks": blocks,
        "parts": view.parts.iter().map(part).collect::<Vec<_>>(),
    })
}

/// A call that the agents of a swarm make.
pub(crate) fn counter(view: &CounterView, now: EventTime) -> Value {
    let counter = &view.counter;
    let (calls, agents) = view.held;
    json!({
        "fingerprint": view.fingerprint,
        "tool": counter.tool,
        "task": view.task.to_string(),
        "calls": calls,
        "agents": agents,
        "time": time(counter.time),
        "verdicts": in_force(&counter.board.verdicts, now),
    })
}

fn step_json(step: &Step, tool: &str) -> Value {
    let flags: Vec<&str> = FLAGS.iter().filter(|(flag, _)| step.flags.contains(*flag)).map(|(_, name)| *name).collect();
    let fired: Vec<&str> =
        Detector::ALL.iter().filter(|detector| step.has_fired(**detector)).map(|detector| detector.as_str()).collect();
    json!({
        "sequence": step.sequence,
        "event_id": &*step.event_id,
        "time": time(step.time),
        "turn": step.turn.checked_sub(1),
        "tool": tool,
        "call": step.call.to_string(),
        "fingerprint": some128(step.fingerprint),
        "outcome": some64(step.outcome),
        "error": some64(step.error),
        "flags": flags,
        "fired": fired,
    })
}

/// A verdict goes with a timer of its partition, whose clock lags behind: until then the state still has what is over.
fn in_force(verdicts: &[Verdict], now: EventTime) -> Vec<Value> {
    verdicts.iter().filter(|verdict| verdict.expires_at > now).map(verdict).collect()
}

fn verdict(verdict: &Verdict) -> Value {
    json!({
        "command_id": loopwarden_core::identity::base32(&verdict.command_id.0),
        "action": verdict.action.as_str(),
        "level": verdict.level,
        "code": verdict.by.as_str(),
        "message": verdict.message,
        "tool": verdict.scope.tool,
        "fingerprint": verdict.scope.fingerprint.as_ref().map(|(hash, _)| hash.to_string()),
        "issued_at": time(verdict.issued_at),
        "expires_at": time(verdict.expires_at),
    })
}

fn episode(episode: &Episode) -> Value {
    json!({
        "id": loopwarden_core::identity::base32(&episode.id.0),
        "code": episode.detector.as_str(),
        "count": episode.count,
        "level": episode.level,
        "nudges": episode.nudges,
        "hits": episode.hits_since_nudge,
        "last_seen": episode.last_seen,
        "block_until": episode.block_until.map(time),
    })
}

fn time(time: EventTime) -> Value {
    time.to_rfc3339().into()
}

fn some128(hash: Hash128) -> Value {
    if hash == Hash128::default() { Value::Null } else { hash.to_string().into() }
}

fn some64(hash: Hash64) -> Value {
    if hash == Hash64::default() { Value::Null } else { hash.to_string().into() }
}
