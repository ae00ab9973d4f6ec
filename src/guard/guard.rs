//! The guard: checks in, answers and events to record out. It reads no clock; whoever runs it gives the time with each call.
//!
//! Whoever runs a guard does the following:
//!
//! 1. Feeds it with what is in force, as it comes and in any order: [`Guard::row`] with rows of the state topic, or [`Guard::command`] with
//!    commands, between [`Guard::reads_anew`] and [`Guard::is_whole`] where they come from elsewhere. What it forgets for want of room is
//!    noted, and never taken for what never was.
//! 2. For each check calls [`Guard::open`], which decodes the event, once. A check that is none ends here, with the field concerned.
//! 3. After a call: records [`Opened::take_events`], and where the judging runs in the same process waits for it, so that its verdict is
//!    known.
//! 4. Where [`Guard::missing`] names something and a store has it: [`Guard::found`]. Else the answer is stale.
//! 5. [`Guard::decide`], once: the answer. Then records [`Opened::take_events`]: a call is recorded once it is decided, a refused one as
//!    `denied`.
//!
//! ```text
//!   check ──► open ──► decide ──► answer          before a call: decided, then recorded
//!               │         ▲
//!               ▼         │                       after a call: recorded first
//!            events    rows, commands
//! ```

use std::sync::Arc;

use loopwarden_core::engine::SubjectKey;
use loopwarden_core::event::{
    CallResult, Content, Event, EventKind, EventTime, Outcome as CallOutcome, RecordMeta, Role, decode, json as source,
};
use loopwarden_core::identity::{base32, hash_parts};
use loopwarden_core::native::{EventAgent, NativeEvent};
use serde_json::json;

use crate::agents::calls::{Calls, ECHO_MS, EndedCall, OPEN_MS_MAX};
use crate::decide::{Candidate, Outcome, Phase, Question, decide};
use crate::options::{Options, Record};
use crate::staleness::{Knowledge, Trust};
use crate::wire::answer::{Answer, Decision, Dropped, Fail, Freshness, Placement, Reason};
use crate::wire::check::{BadCheck, Check};
use crate::wire::message;
use crate::wire::verdict::{Verdict, read_command, read_row};
use crate::{
    agent::Agent, agents::deliveries::Deliveries, counts::Counts, table::lru::LruMap, table::matching::Call, table::place::Class,
    table::rows::Rows,
};

/// Between two looks for what can be forgotten. Milliseconds.
const SWEEP_MS: i64 = 10_000;
/// An agent is there as long as it asks. Milliseconds.
const ASKING_MS: i64 = 300_000;
/// Agents that are counted as asking; beyond them those that asked longest ago are left out.
const ASKING_MAX: usize = 32_768;

/// A check whose event was decoded: whose it is, what a decision needs of it, and what is to be recorded.
#[derive(Debug)]
pub struct Opened {
    /// The agent whose event it is.
    pub agent: Agent,
    /// Where the agent is in its turn.
    pub phase: Phase,
    check: Check,
    /// The call that the event begins or ends, where it names the tool.
    call: Option<Call>,
    /// The id of a call that begins: its own, else one that was made up.
    call_id: Option<String>,
    /// The event that begins the call names its id itself.
    names_call: bool,
    events: Vec<Record>,
    /// The event itself waits for the decision.
    waits: bool,
    dropped: Option<Dropped>,
    /// What was forgotten of this agent's verdicts, once it was looked up.
    found: Option<Rows>,
}

impl Opened {
    /// Events to be recorded now, in order.
    pub fn take_events(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.events)
    }

    fn push(&mut self, event: String) {
        if self.check.record {
            self.events.push(Record { session_id: self.agent.session_id.clone(), event });
        }
    }
}

/// Decides for all agents that ask here.
#[derive(Debug)]
pub struct Guard {
    options: Options,
    pub(crate) rows: Rows,
    /// What binds, of a reading of the source before the one that goes on, or of the guard before a restart.
    pub(crate) kept: Rows,
    /// When a guard that restarted took over what binds; none once its source was read.
    pub(crate) kept_at: Option<EventTime>,
    /// The source is read from its beginning, and not yet to its end.
    pub(crate) is_partial: bool,
    /// Readings of the source that began or ended.
    pub(crate) readings: u64,
    deliveries: Deliveries,
    /// Those that came without an id.
    open_calls: Calls,
    refused_calls: Calls,
    asking: LruMap<String, ()>,
    counts: Counts,
    swept_ms: i64,
}

impl Guard {
    /// A guard that knows of no verdict yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            rows: Rows::default(),
            kept: Rows::default(),
            kept_at: None,
            is_partial: false,
            readings: 0,
            deliveries: Deliveries::default(),
            open_calls: Calls::remembered_for(OPEN_MS_MAX),
            refused_calls: Calls::remembered_for(ECHO_MS),
            asking: LruMap::new(ASKING_MAX),
            counts: Counts::default(),
            swept_ms: 0,
        }
    }

    /// Takes a record of the state topic; no value: the subject has no verdicts any more.
    pub fn row(&mut self, key: &[u8], value: Option<&[u8]>, now: EventTime) {
        match (subject_of(key), value.map(read_row)) {
            (None, _) | (_, Some(None)) => self.counts.not_understood += 1,
            (Some(key), row) => self.rows.row(key, row.flatten(), now),
        }
    }

    /// A row of the state topic that was not read: it is missing for whomever it may concern.
    pub fn row_was_not_read(&mut self, key: &[u8]) {
        if let Some(key) = subject_of(key) {
            self.rows.was_not_read(&key);
        }
    }

    /// Beginnings of the keys of rows that were forgotten and may be in force for a check. Where they can be looked up, what was found is
    /// to be given to [`Guard::found`] before it is decided; else the answer is stale.
    #[must_use]
    pub fn missing(&self, opened: &Opened, now: EventTime) -> Vec<String> {
        if opened.found.is_some() { Vec::new() } else { self.rows.missing(&opened.agent, now) }
    }

    /// All rows that begin as asked. They are for this check alone: the table has no room for them.
    pub fn found<'a>(&mut self, opened: &mut Opened, rows: impl IntoIterator<Item = (&'a [u8], &'a [u8])>, now: EventTime) {
        let mut found = Rows::default();
        for (key, value) in rows {
            if let Some(key) = subject_of(key) {
                found.row(key, read_row(value), now);
            }
        }
        // What is still known is newer.
        found.forget_known(&self.rows);
        opened.found = Some(found);
        self.counts.looked_up += 1;
    }

    /// Takes a command as it is published.
    pub fn command(&mut self, json: &[u8], now: EventTime) {
        match read_command(json) {
            Some(command) => self.rows.command(command, now),
            None => self.counts.not_understood += 1,
        }
    }

    /// What was counted since the start.
    #[must_use]
    pub fn counts(&self, now: EventTime) -> Counts {
        let asking = self.asking.count_since(now.0.saturating_sub(ASKING_MS)) as u64;
        Counts { evicted: self.rows.evicted, asking, ..self.counts }
    }

    /// Whether verdicts that are known are of now.
    #[must_use]
    pub fn is_fresh(&self, knowledge: Knowledge, now: EventTime) -> bool {
        self.trust(knowledge, now).0 == Trust::Fresh
    }

    /// Amid a reading nobody knows what the rest of it lifts or places: what is known is as that of a source that is not heard.
    fn trust(&self, knowledge: Knowledge, now: EventTime) -> (Trust, Freshness) {
        match knowledge.trust(self.options.stale_after_ms, self.kept_at, now) {
            (Trust::Fresh, state) if self.is_partial => (Trust::Aging, Freshness { stale: true, ..state }),
            trust => trust,
        }
    }

    /// Subjects with verdicts, and agents that had a nudge.
    #[must_use]
    pub fn held(&self) -> (usize, usize) {
        (self.rows.len(), self.deliveries.len())
    }

    /// Reads a check, and decodes its event.
    ///
    /// # Errors
    /// The event is none; the field concerned.
    pub fn open(&mut self, check: Check, now: EventTime) -> Result<Opened, BadCheck> {
        let text = check.event.get().to_owned();
        let event = decode(Some(text.as_bytes()), &RecordMeta::without_place(now, self.options.event_bytes_max))?;
        self.sweep(now);
        let agent = Agent::of(&event);
        self.asking.touch(&agent.key, now.0);
        let confirmations = self.deliveries.confirm(&agent.key, now.0);
        self.counts.nudges_delivered += confirmations.confirmed.len() as u64;
        self.counts.nudges_dropped += confirmations.dropped;
        let args = args_of(&event, &text);
        let mut opened = Opened {
            phase: phase(&event),
            agent,
            check,
            call: tool_of(&event).map(|tool| Call::new(tool, &args)),
            call_id: None,
            names_call: false,
            events: Vec::new(),
            waits: false,
            dropped: None,
            found: None,
        };
        for command_id in confirmations.confirmed {
            if let Some(ack) = ack(&opened.agent, &command_id) {
                opened.push(ack);
            }
        }
        if begins_anew(&event) {
            self.deliveries.begins_anew(&opened.agent.key, event.time.0.max(now.0));
        }
        match &event.kind {
            EventKind::ToolCall(call) => {
                opened.names_call = call.call_id.is_some();
                opened.call_id = call.call_id.as_deref().map(str::to_owned).or_else(|| {
                    let key = opened.call.as_ref()?.key();
                    Some(self.open_calls.open(&opened.agent.key, &event.id, key, now.0))
                });
                opened.waits = true;
            }
            EventKind::ToolResult(result) | EventKind::Tool(_, result) => {
                self.close(&mut opened, result, !args.is_absent(), now);
            }
            _ => opened.push(text.clone()),
        }
        Ok(opened)
    }

    /// A call has ended: its id where it came without one, and whether it was refused before. Only a result that repeats the arguments
    /// shows which of the calls of its tool it ends.
    fn close(&mut self, opened: &mut Opened, result: &CallResult<'_>, has_args: bool, now: EventTime) {
        let agent = &opened.agent.key;
        let tool = opened.call.as_ref().map(|call| call.tool.as_str());
        let identity = opened.call.as_ref().filter(|_| has_args).map(|call| call.key().identity);
        let given = result.call_id.as_deref();
        if self.refused_calls.take_echoed(agent, EndedCall { call_id: given, tool, identity }, now.0) {
            let is_echo = matches!(
                result.outcome,
                CallOutcome::Error | CallOutcome::Denied | CallOutcome::Cancelled | CallOutcome::Unknown
            );
            if is_echo {
                self.counts.echoes += 1;
                opened.dropped = Some(Dropped::Echo);
                return;
            }
            self.counts.in_spite += 1;
        }
        let made_up = match (given, tool) {
            (None, Some(tool)) => self.open_calls.close(agent, tool, identity, now.0),
            _ => None,
        };
        let event = match &made_up {
            Some(call_id) => opened.check.event_with(&[("call_id", json!(call_id))]),
            None => opened.check.event.get().to_owned(),
        };
        opened.push(event);
    }

    /// Decides about a check that was opened. Nothing can fail here: the event was decoded when the check was opened.
    pub fn decide(&mut self, opened: &mut Opened, knowledge: Knowledge, now: EventTime) -> Answer {
        let (trust, mut state) = self.trust(knowledge, now);
        state.stale |= !self.missing(opened, now).is_empty();
        self.counts.stale += u64::from(state.stale);
        let candidates = self.candidates(opened, now);
        let can = opened.check.client.can;
        let question =
            Question { phase: opened.phase, can, without_channel: self.options.without_channel, trust, candidates: &candidates };
        let outcome = decide(&question);
        let mut answer = self.answer(opened, &outcome, state, now);
        let counted = match (answer.decision, &answer.message) {
            (Decision::Deny, _) => &mut self.counts.denied,
            (Decision::Allow, Some(_)) => &mut self.counts.spoken,
            (Decision::Allow, None) => &mut self.counts.allowed,
        };
        *counted += 1;
        if std::mem::take(&mut opened.waits) {
            let event = self.decided_event(opened, &outcome, now);
            opened.push(event);
        }
        answer.dropped = opened.dropped;
        answer
    }

    /// The event of a call that waited for its decision: as it came, or as that of a call that was refused.
    fn decided_event(&mut self, opened: &Opened, outcome: &Outcome<'_>, now: EventTime) -> String {
        let agent = &opened.agent.key;
        match (outcome, &opened.call) {
            (Outcome::Refuse { block: verdict, .. } | Outcome::RefuseOnce { nudge: verdict }, Some(call)) => {
                // One event, not a call and its result: a call that never ran must move no detector.
                let key = call.key();
                let own_id = opened.call_id.as_deref().filter(|_| opened.names_call);
                self.refused_calls.add(agent, own_id, key, now.0);
                if !opened.names_call {
                    self.open_calls.close(agent, key.tool, Some(key.identity), now.0);
                }
                let denied = [("kind", json!("tool")), ("outcome", json!("denied")), ("command_id", json!(verdict.command_id))];
                opened.check.event_with(&denied)
            }
            _ => match &opened.call_id {
                Some(call_id) if !opened.names_call => opened.check.event_with(&[("call_id", json!(call_id))]),
                _ => opened.check.event.get().to_owned(),
            },
        }
    }

    /// Verdicts in force that an event may have to do with.
    fn candidates(&self, opened: &Opened, now: EventTime) -> Vec<Candidate> {
        let (agent, call) = (&opened.agent, opened.call.as_ref());
        let tables = || [&self.rows, &self.kept].into_iter().chain(&opened.found);
        let mut bound = Vec::new();
        tables().for_each(|rows| rows.binding(agent, call, now, &mut bound));
        let held = if opened.phase == Phase::After { self.deliveries.held(&agent.key) } else { Vec::new() };
        for nudge in held.into_iter().filter(|nudge| nudge.expires_at > now) {
            let is_known = bound.iter().any(|(_, known)| known.command_id == nudge.command_id);
            if let Some(class) = tables().find_map(|rows| rows.class_of(agent, &nudge)).filter(|_| !is_known) {
                bound.push((class, nudge));
            }
        }
        // An agent with a verdict of its own on that tool needs no second one. What binds a group is no advice about a loop: nothing takes
        // its place.
        let own: Vec<_> = bound.iter().filter(|(class, _)| *class == Class::Own).map(|(_, own)| Arc::clone(own)).collect();
        let has_own = |verdict: &Verdict| {
            own.iter().any(|own| own.scope.tool.is_none() || verdict.scope.tool.is_none() || own.scope.tool == verdict.scope.tool)
        };
        let is_needed = |class: Class, verdict: &Verdict| class != Class::Shared || !has_own(verdict);
        bound.retain(|(class, verdict)| is_needed(*class, verdict));
        let candidate = |(class, verdict): (Class, Arc<Verdict>)| Candidate {
            matches: match class {
                Class::Own => call.is_some_and(|call| call.is_in(&verdict.scope)),
                Class::Stop => call.is_some(),
                Class::Shared | Class::Group => true,
            },
            is_due: self.deliveries.is_open(&agent.key, &verdict.command_id, verdict.issued_at.0),
            class,
            verdict,
        };
        bound.into_iter().map(candidate).collect()
    }

    fn answer(&mut self, opened: &Opened, outcome: &Outcome<'_>, state: Freshness, now: EventTime) -> Answer {
        let agent = &opened.agent.key;
        let allow = Answer::allow(state);
        match outcome {
            Outcome::Nothing => allow,
            Outcome::Hold { nudges } => {
                for nudge in nudges {
                    self.deliveries.hold(agent, nudge, now.0);
                }
                allow
            }
            Outcome::Refuse { block, stop } => {
                self.counts.refused += 1;
                self.counts.nudges_unheeded += self.deliveries.goes_on(agent, &block.episode);
                let answer = explained(allow, block, Some((message::plain(&block.message), Placement::Before)));
                Answer { decision: Decision::Deny, stop: *stop, ..answer }
            }
            Outcome::CannotRefuse { block, has_channel } => {
                self.counts.in_spite += 1;
                explained(allow, block, has_channel.then(|| (message::plain(&block.message), Placement::Before)))
            }
            Outcome::Stop { block } => {
                let answer = explained(allow, block, Some((message::plain(&block.message), Placement::AppendToResult)));
                Answer { stop: true, ..answer }
            }
            Outcome::Nudge { nudge, placement } => {
                self.hand_out(agent, nudge, now);
                explained(allow, nudge, Some((message::plain(&nudge.message), *placement)))
            }
            Outcome::RefuseOnce { nudge } => {
                self.hand_out(agent, nudge, now);
                let answer = explained(allow, nudge, Some((message::once(&nudge.message), Placement::Before)));
                Answer { decision: Decision::Deny, ..answer }
            }
        }
    }

    fn hand_out(&mut self, agent: &str, nudge: &Verdict, now: EventTime) {
        self.counts.nudges += 1;
        self.counts.nudges_unheeded += self.deliveries.goes_on(agent, &nudge.episode);
        self.deliveries.lease(agent, nudge, now.0);
    }

    fn sweep(&mut self, now: EventTime) {
        if now.0.saturating_sub(self.swept_ms) < SWEEP_MS {
            return;
        }
        self.swept_ms = now.0;
        self.rows.sweep(now);
        self.kept.sweep(now);
        self.deliveries.sweep(now.0);
        self.asking.forget_before(now.0.saturating_sub(ASKING_MS));
        self.open_calls.sweep(now.0);
        self.refused_calls.sweep(now.0);
    }
}

/// The subject of the key of a row.
fn subject_of(key: &[u8]) -> Option<SubjectKey> {
    SubjectKey::of_row_key(std::str::from_utf8(key).ok()?)
}

fn phase(event: &Event<'_>) -> Phase {
    match &event.kind {
        EventKind::ToolCall(_) => Phase::Before,
        EventKind::ToolResult(_) | EventKind::Tool(..) => Phase::After,
        EventKind::Message(message) if message.role == Role::Assistant => Phase::Turn,
        _ => Phase::Other,
    }
}

/// Whether an event outdates nudges that were not delivered yet.
fn begins_anew(event: &Event<'_>) -> bool {
    match &event.kind {
        EventKind::SessionStart | EventKind::SessionEnd | EventKind::Reset(_) => true,
        EventKind::Message(message) => message.role == Role::User,
        _ => false,
    }
}

fn tool_of<'a>(event: &'a Event<'_>) -> Option<&'a str> {
    match &event.kind {
        EventKind::ToolCall(call) | EventKind::Tool(call, _) => Some(&call.tool),
        EventKind::ToolResult(result) => result.tool.as_deref(),
        _ => None,
    }
}

/// The arguments of a call. A result may repeat those of its call, which its own form does not keep.
fn args_of<'a>(event: &Event<'a>, text: &'a str) -> Content<'a> {
    match &event.kind {
        EventKind::ToolCall(call) | EventKind::Tool(call, _) => call.args,
        EventKind::ToolResult(_) => {
            let args = source::fields(text).find(|(name, value)| name == "args" && *value != "null");
            args.map_or(Content::Absent, |(_, value)| Content::Raw(value))
        }
        _ => Content::Absent,
    }
}

fn ack(agent: &Agent, command_id: &str) -> Option<String> {
    let id = base32(&hash_parts(&["ack\n", command_id, "\n", &agent.key]).hash128().0.to_be_bytes());
    let mut event = NativeEvent::default();
    event.put("agent", EventAgent { id: Some(&agent.agent_id), ..EventAgent::default() });
    event.put("command_id", command_id);
    event.put("ack", "applied");
    event.put("tenant", Some(&agent.tenant).filter(|tenant| !tenant.is_empty()));
    // The names are those of an event that was decoded.
    event.json("ack", &format!("lw-{id}"), &agent.session_id).ok()
}

/// An answer with the command behind it.
fn explained(answer: Answer, verdict: &Verdict, text: Option<(String, Placement)>) -> Answer {
    let (message, placement) = text.unzip();
    Answer {
        action: verdict.action,
        message,
        placement,
        command_id: Some(verdict.command_id.clone()),
        episode: Some(verdict.episode.clone()),
        level: Some(verdict.level),
        reason: Some(Reason { code: verdict.code.clone(), summary: verdict.summary.clone() }),
        expires_at: Some(verdict.expires_at.to_rfc3339()),
        advice: verdict.advice.clone(),
        fail: verdict.fails_closed.then_some(Fail::Closed),
        ..answer
    }
}
