//! Tasks, agents, swarms, budgets and stops as they are answered: names, hashes, flags, numbers, and what an agent was sent; nothing of
//! what it wrote or read.

use std::collections::BTreeMap;

use loopwarden_core::detect::{Flags, Step, Streaks};
use loopwarden_core::engine::{Action, AgentStanding, Cost, Episode, SubjectKey, Tree, Verdict};
use loopwarden_core::event::EventTime;
use loopwarden_core::identity::{Hash64, Hash128, base32};
use loopwarden_core::policy::{Detector, Reached};
use loopwarden_core::whom::Whom;
use loopwarden_lane::{AgentView, BudgetView, CounterView, StopView, TaskState, TaskView};

use crate::operate::api;

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
pub(crate) fn task(task: &TaskView, lane: usize, lag: Option<u64>) -> api::Task {
    let (state, why) = match &task.state {
        TaskState::Restoring => ("restoring", None),
        TaskState::Running => ("running", None),
        TaskState::Poisoned(why) => ("poisoned", Some(why.clone())),
    };
    let place = task.position.as_ref().map(|position| api::Place {
        next_offset: position.next_offset.0,
        watermark: (position.watermark > EventTime(0)).then(|| position.watermark.to_rfc3339()),
        outputs: position.outputs,
        owner: position.owner.clone(),
    });
    api::Task {
        stage: task.id.stage.as_str().to_owned(),
        partition: task.id.partition,
        state: state.to_owned(),
        lane,
        lag_records: lag,
        why,
        place,
    }
}

/// A stop as people read it.
pub(crate) fn stop(view: &StopView) -> api::Stop {
    let StopView { whom, verdict } = view;
    let by = verdict.stop();
    api::Stop {
        whom: stop_name(whom),
        actor: by.and_then(|by| known(&by.actor)),
        reason: by.map(|by| by.reason.clone()).unwrap_or_default(),
        fail: by.filter(|by| by.fails_closed).map(|_| "closed".to_owned()),
        since: verdict.issued_at.to_rfc3339(),
        until: verdict.expires_at.to_rfc3339(),
        command_id: base32(&verdict.command_id.0),
    }
}

/// Whom a stop binds: what its release is to name.
pub(crate) fn stop_name(whom: &Whom) -> api::StopName {
    let own = whom.kind.field().map(|field| (field, &*whom.name));
    let given = own.into_iter().chain([("tenant", &*whom.tenant)]).filter(|(_, value)| !value.is_empty());
    let names = given.map(|(field, value)| (field.to_owned(), value.to_owned())).collect();
    api::StopName { scope: whom.kind.as_str().to_owned(), names }
}

/// An agent's session, with its newest steps.
pub(crate) fn agent(agent: &AgentView, is_stopped: bool, steps_max: usize, now: EventTime) -> api::Agent {
    let session = &agent.session;
    let head = &session.head;
    let (tenant, agent_id) = match &agent.subject {
        SubjectKey::Agent { tenant, agent_id, .. } => (tenant.as_str(), agent_id.as_str()),
        _ => ("", ""),
    };
    let steps = session.history.ring_back().take(steps_max).map(|found| step(found, session.history.tool(found)));
    let mut steps: Vec<api::Step> = steps.collect();
    steps.reverse();
    api::Agent {
        names: names(tenant, agent_id, &head.swarm_id),
        standing: standing(&agent.standing(is_stopped, now)),
        tree: head.tree.as_deref().map(tree),
        task: agent.task.to_string(),
        epoch: head.board.epoch,
        seq: head.board.seq,
        shadow_seq: head.shadow_seq,
        time: head.time.to_rfc3339(),
        loops_total: head.loops_total,
        verdicts: in_force(&head.board.verdicts, now),
        episodes: head.episodes.iter().map(episode).collect(),
        shadow_episodes: head.shadow_episodes.iter().map(episode).collect(),
        streaks: streaks(&head.streaks),
        spent: spent(Cost { calls: session.history.next_sequence(), ..head.used }),
        steps_kept: session.history.len(),
        steps,
    }
}

/// A name; none where it is empty.
fn known(name: &str) -> Option<String> {
    Some(name.to_owned()).filter(|name| !name.is_empty())
}

pub(crate) fn names(tenant: &str, agent_id: &str, swarm_id: &str) -> api::AgentNames {
    api::AgentNames { agent_id: agent_id.to_owned(), tenant: known(tenant), swarm_id: known(swarm_id) }
}

/// What an agent does just now.
pub(crate) fn standing(found: &AgentStanding) -> api::Standing {
    api::Standing {
        state: found.state.as_str().to_owned(),
        code: found.detector.map(|detector| detector.as_str().to_owned()),
        loops_since: found.since.map(EventTime::to_rfc3339),
    }
}

/// The place of an agent among those that start each other.
fn tree(tree: &Tree) -> api::Tree {
    api::Tree { root_id: tree.name.to_string(), parent_id: known(&tree.parent), depth: tree.depth, spawns: tree.spawns }
}

fn streaks(streaks: &Streaks) -> BTreeMap<String, u32> {
    let lengths = [
        ("exact_repeat", streaks.exact.steps.count),
        ("near_repeat", streaks.near.steps.count),
        ("outcome_repeat", streaks.outcome.count),
        ("stagnation", streaks.matrix.stagnation.count),
        ("stuck", streaks.matrix.stuck.count),
        ("test_failures", streaks.tests.count),
        ("shell_failures", streaks.shell.count),
        ("text_turns", streaks.texts.turns),
    ];
    lengths.map(|(name, length)| (name.to_owned(), length)).into()
}

/// What an agent has used. A zero would be an answer.
pub(crate) fn spent(used: Cost) -> api::Spent {
    let reported = |used: u64| Some(used).filter(|used| *used > 0);
    api::Spent { calls: used.calls, tokens: reported(used.tokens), cost_micro_usd: reported(used.micro_usd) }
}

/// A budget that agents count in.
pub(crate) fn budget(view: &BudgetView) -> api::Budget {
    let part = |part: &Reached| api::BudgetPart {
        quantity: part.quantity.as_str().to_owned(),
        used: part.used,
        limit: part.limit,
        share: (part.share() * 1_000.0).round() / 1_000.0,
    };
    api::Budget {
        budget: view.name.clone(),
        per: view.per.as_str().to_owned(),
        group: api::Group { kind: view.whom.kind.as_str().to_owned(), name: view.whom.name.clone() },
        mode: view.mode.as_str().to_owned(),
        blocks: view.verdicts.iter().any(|verdict| verdict.action == Action::Block),
        parts: view.parts.iter().map(part).collect(),
    }
}

/// A call that the agents of a swarm make.
pub(crate) fn counter(view: &CounterView, now: EventTime) -> api::Counter {
    let counter = &view.counter;
    let (calls, agents) = view.held;
    api::Counter {
        fingerprint: view.fingerprint.clone(),
        tool: counter.tool.clone(),
        task: view.task.to_string(),
        calls,
        agents,
        time: counter.time.to_rfc3339(),
        verdicts: in_force(&counter.board.verdicts, now),
    }
}

fn step(step: &Step, tool: &str) -> api::Step {
    let flags = FLAGS.iter().filter(|(flag, _)| step.flags.contains(*flag));
    let fired = Detector::ALL.iter().filter(|detector| step.has_fired(**detector));
    let hash = |hash: Hash64| (hash != Hash64::default()).then(|| hash.to_string());
    api::Step {
        sequence: step.sequence,
        event_id: step.event_id.to_string(),
        time: step.time.to_rfc3339(),
        turn: step.turn.checked_sub(1),
        tool: tool.to_owned(),
        call: step.call.to_string(),
        fingerprint: (step.fingerprint != Hash128::default()).then(|| step.fingerprint.to_string()),
        outcome: hash(step.outcome),
        error: hash(step.error),
        flags: flags.map(|(_, name)| (*name).to_owned()).collect(),
        fired: fired.map(|detector| detector.as_str().to_owned()).collect(),
    }
}

/// A verdict goes with a timer of its partition, whose clock lags behind: until then the state still has what is over.
fn in_force(verdicts: &[Verdict], now: EventTime) -> Vec<api::Verdict> {
    verdicts.iter().filter(|verdict| verdict.expires_at > now).map(verdict).collect()
}

fn verdict(verdict: &Verdict) -> api::Verdict {
    api::Verdict {
        action: verdict.action.as_str().to_owned(),
        code: verdict.by.as_str().to_owned(),
        command_id: base32(&verdict.command_id.0),
        expires_at: verdict.expires_at.to_rfc3339(),
        fingerprint: verdict.scope.fingerprint.as_ref().map(|(hash, _)| hash.to_string()),
        issued_at: verdict.issued_at.to_rfc3339(),
        level: verdict.level,
        message: verdict.message.clone(),
        tool: verdict.scope.tool.clone(),
    }
}

fn episode(episode: &Episode) -> api::Episode {
    api::Episode {
        block_until: episode.block_until.map(EventTime::to_rfc3339),
        code: episode.detector.as_str().to_owned(),
        count: episode.count,
        hits: episode.hits_since_nudge,
        id: base32(&episode.id.0),
        last_seen: episode.last_seen,
        level: episode.level,
        nudges: episode.nudges,
    }
}
