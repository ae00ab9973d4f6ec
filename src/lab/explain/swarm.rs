//! A swarm: its members' calls, added up as the swarm stage does, and what was said to it.

use std::{collections::BTreeMap, sync::Arc};

use loopwarden_core::engine::{Command, SubjectKey, SwarmCallKey};
use loopwarden_core::event::{Event, EventKind, EventTime, Record};
use loopwarden_core::{identity::Hash128, policy::Policy};
use loopwarden_lane::Exit;
use serde::Serialize;
use serde_json::{Value, json};

use super::note::step_of;
use super::{Shown, Wanted};
use crate::cases::stepped::SteppedLane;
use crate::report::{Section, Table};

/// Sessions and fingerprints of one swarm that are followed; of more only the events count.
const FOLLOWED_MAX: usize = 10_000;

/// A fingerprint of the swarm.
#[derive(Default)]
struct Counted {
    tool: String,
    /// Calls and agents of the window that came nearest to a finding.
    calls: u32,
    agents: u32,
    first: EventTime,
    last: EventTime,
    commands: Vec<Command>,
}

/// A swarm as it is decided anew.
pub struct SwarmTrace<'a> {
    wanted: Wanted<'a>,
    policy: Arc<Policy>,
    lane: SteppedLane,
    failed: Option<Exit>,
    counted: BTreeMap<Hash128, Counted>,
    /// Events and calls of each session.
    members: BTreeMap<String, (u64, u64)>,
    events: u64,
}

impl<'a> SwarmTrace<'a> {
    /// Nothing is read yet.
    pub fn new(wanted: Wanted<'a>, app: &str, policy: Arc<Policy>) -> Self {
        let lane = SteppedLane::new(app, Arc::clone(&policy));
        Self { wanted, policy, lane, failed: None, counted: BTreeMap::new(), members: BTreeMap::new(), events: 0 }
    }

    /// Takes an event of the input, in its order; those of others are left out.
    pub fn visit(&mut self, event: &Event<'_>, record: &Record<'_>) {
        if let Err(exit) = self.count(event, record) {
            self.failed.get_or_insert(exit);
        }
    }

    fn count(&mut self, event: &Event<'_>, record: &Record<'_>) -> Result<(), Exit> {
        let Self { wanted, policy, lane, counted, members, events, .. } = self;
        let is_named = event.swarm_id.as_deref() == Some(wanted.id);
        if event.tenant.as_deref() != wanted.tenant || !(is_named || members.contains_key(&*event.session_id)) {
            return Ok(());
        }
        *events += 1;
        if members.len() >= FOLLOWED_MAX && !members.contains_key(&*event.session_id) {
            return Ok(());
        }
        let member = members.entry(event.session_id.to_string()).or_default();
        member.0 += 1;
        member.1 += u64::from(matches!(event.kind, EventKind::ToolCall(_) | EventKind::Tool(..)));
        let answer = lane.apply(record)?;
        let session = lane.session(event, record.meta.partition)?;
        let tool = step_of(event, &session).map(|step| session.history.tool(step).to_owned());
        for (key, held) in &answer.counted {
            let SwarmCallKey::Swarm { swarm_id, fingerprint, .. } = key else { continue };
            if *swarm_id != wanted.id || (counted.len() >= FOLLOWED_MAX && !counted.contains_key(fingerprint)) {
                continue;
            }
            let is_new = !counted.contains_key(fingerprint);
            let one = counted.entry(*fingerprint).or_default();
            if is_new {
                (one.tool, one.first) = (tool.clone().unwrap_or_default(), event.time);
            }
            one.last = event.time;
            let rank = |(calls, agents): (u32, u32)| (agents >= policy.detectors.swarm_repeat.workers_min, calls);
            if rank(*held) > rank((one.calls, one.agents)) {
                (one.calls, one.agents) = *held;
            }
        }
        for command in answer.commands {
            if let SubjectKey::Swarm { fingerprint, .. } = &command.subject {
                counted.entry(*fingerprint).or_default().commands.push(command);
            }
        }
        Ok(())
    }

    /// What is shown of it.
    ///
    /// # Errors
    /// There was no event of it, or its lane ended; says so.
    pub fn show(self) -> Result<Shown, String> {
        let Self { wanted, policy, counted, members, events, failed, .. } = self;
        if let Some(exit) = failed {
            return Err(exit.to_string());
        }
        if events == 0 {
            return Err(format!("no event of swarm {:?}{} in this input", wanted.id, wanted.of_tenant()));
        }
        Ok(show(&wanted, &policy, events, &counted, &members))
    }
}

/// A fingerprint as a row.
#[derive(Serialize, Default)]
struct CallRow<'a> {
    tool: &'a str,
    fingerprint: String,
    calls: u32,
    agents: u32,
    first: String,
    last: String,
    said_or_why_not: String,
}

/// A session of the swarm.
#[derive(Serialize, Default)]
struct MemberRow {
    session: String,
    events: u64,
    calls: u64,
}

fn show(
    wanted: &Wanted<'_>,
    policy: &Policy,
    events: u64,
    counted: &BTreeMap<Hash128, Counted>,
    members: &BTreeMap<String, (u64, u64)>,
) -> Shown {
    let settings = &policy.detectors.swarm_repeat;
    let mut rows: Vec<(&Hash128, &Counted)> = counted.iter().collect();
    rows.sort_by_key(|(fingerprint, one)| (std::cmp::Reverse(one.calls), **fingerprint));
    rows.truncate(wanted.limit);
    let calls = Table::of(rows.iter().map(|(fingerprint, one)| CallRow {
        tool: &one.tool,
        fingerprint: fingerprint.to_string(),
        calls: one.calls,
        agents: one.agents,
        first: one.first.to_rfc3339(),
        last: one.last.to_rfc3339(),
        said_or_why_not: why(policy, one),
    }));
    let member = |(session, (events, calls)): (&String, &(u64, u64))| MemberRow {
        session: session.clone(),
        events: *events,
        calls: *calls,
    };
    let sessions = Table::of(members.iter().take(wanted.limit).map(member));
    let head = format!(
        "swarm {}{}: {events} events of {} sessions; policy {}: {} calls of {} workers within {} min, {} calls counted",
        wanted.id,
        wanted.of_tenant(),
        members.len(),
        policy.profile,
        settings.threshold,
        settings.workers_min,
        settings.window_ms / 60_000,
        settings.count.as_str(),
    );
    let commands: Vec<Value> = rows.iter().flat_map(|(_, one)| &one.commands).map(command).collect();
    let json = json!({
        "swarm_id": wanted.id,
        "tenant": wanted.tenant,
        "policy": { "profile": policy.profile, "sha256": policy.hash.to_string() },
        "events": events,
        "fingerprints": calls.to_objects(),
        "sessions": sessions.to_objects(),
        "sessions_total": members.len(),
        "commands": commands,
    });
    let calls = if calls.is_empty() { Section::text("no call was counted") } else { Section::rows("", calls) };
    Shown { json, sections: vec![Section::text(head), calls, Section::rows("", sessions)] }
}

fn why(policy: &Policy, one: &Counted) -> String {
    let settings = &policy.detectors.swarm_repeat;
    let said: Vec<String> = one
        .commands
        .iter()
        .map(|command| format!("{} at {}", command.action.as_str().to_uppercase(), command.issued_at.to_rfc3339()))
        .collect();
    match () {
        () if !said.is_empty() => said.join(", "),
        () if !settings.mode.is_on() => "swarm_repeat is off".to_owned(),
        () if one.calls < settings.threshold => format!("{} calls, {} needed", one.calls, settings.threshold),
        () if one.agents < settings.workers_min => format!("{} workers, {} needed", one.agents, settings.workers_min),
        () => "told before, in the same cooldown".to_owned(),
    }
}

fn command(command: &Command) -> Value {
    json!({
        "id": loopwarden_core::identity::base32(&command.id.0),
        "action": command.action.as_str(),
        "code": command.reason.as_str(),
        "summary": command.summary,
        "is_shadow": command.is_shadow,
        "issued_at": command.issued_at.to_rfc3339(),
    })
}
