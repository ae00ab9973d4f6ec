//! The guard: checks in, answers and events to record out.
//!
//! ```text
//!   check ──► open ──► decide ──► answer          before a call: decided, then recorded (a refused call as `denied`)
//!               │         ▲
//!               ▼         │                       after a call: recorded first, so that its own verdict is known
//!            events    rows, commands
//! ```

use std::sync::Arc;

use loopwarden_core::event::{
    CallResult, Content, Event, EventKind, EventTime, Outcome as CallOutcome, RecordMeta, Role, decode, json as source,
};
use loopwarden_core::identity::{base32, hash_parts};
use serde_json::json;

use crate::agents::deliveries::Deliveries;
use crate::agents::pairs::Pairs;
use crate::agents::refusals::{Named, Refusals};
use crate::agents::who::Who;
use crate::decide::{Candidate, Outcome, Phase, Question, Trust, decide};
use crate::table::aged::Aged;
use crate::table::matching::Call;
use crate::table::rows::Rows;
use crate::terms::{Counts, Knowledge, Options, Record};
use crate::wire::answer::{Answer, Decision, Dropped, Freshness, Placement, Reason};
use crate::wire::check::{BadCheck, Check};
use crate::wire::verdict::{Verdict, read_command, read_row};
use crate::wire::{message, rewrite};

/// Blocks that are known stand for so many times as long.
const BLOCKS_STAND: i64 = 3;
/// Between two looks for what can be forgotten. Milliseconds.
const SWEEP_MS: i64 = 10_000;
/// An agent is there as long as it asks. Milliseconds.
const ASKING_MS: i64 = 300_000;
/// Agents that are counted.
const ASKING_MAX: usize = 32_768;

/// A check that was read: whose it is, and what is to be recorded of it.
#[derive(Debug)]
pub struct Opened {
    /// Whose event it is.
    pub who: Who,
    /// Where the agent is.
    pub phase: Phase,
    check: Check,
    call_id: Option<String>,
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
            self.events.push(Record { session_id: self.who.session_id.clone(), event });
        }
    }
}

/// Decides for all agents that ask here.
#[derive(Debug)]
pub struct Guard {
    options: Options,
    rows: Rows,
    told: Deliveries,
    pairs: Pairs,
    refusals: Refusals,
    asking: Aged<String, ()>,
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
            told: Deliveries::default(),
            pairs: Pairs::default(),
            refusals: Refusals::default(),
            asking: Aged::new(ASKING_MAX),
            counts: Counts::default(),
            swept_ms: 0,
        }
    }

    /// Takes a record of the state topic; no value: the subject has no verdicts any more.
    pub fn row(&mut self, key: &[u8], value: Option<&[u8]>, now: EventTime) {
        let read = value.map(read_row);
        let is_taken = match (std::str::from_utf8(key), read) {
            (Ok(key), None) => self.rows.row(key, None, now),
            (Ok(key), Some(Some(row))) => self.rows.row(key, Some(row), now),
            _ => false,
        };
        self.counts.not_understood += u64::from(!is_taken);
    }

    /// A row of the state topic that was not read: whoever it may concern is told so, or it is looked up for him.
    pub fn row_was_not_read(&mut self, key: &[u8]) {
        if let Ok(key) = std::str::from_utf8(key) {
            self.rows.was_not_read(key);
        }
    }

    /// Beginnings of the keys of rows that were forgotten and may be in force for a check. Where they can be looked up, what was found is
    /// to be given to [`Guard::found`] before it is decided; else the answer is stale.
    #[must_use]
    pub fn missing(&self, opened: &Opened, now: EventTime) -> Vec<String> {
        if opened.found.is_some() { Vec::new() } else { self.rows.missing(&opened.who, now) }
    }

    /// All rows that begin as asked. They are for this check alone: the table has no room for them.
    pub fn found<'a>(&mut self, opened: &mut Opened, rows: impl IntoIterator<Item = (&'a [u8], &'a [u8])>, now: EventTime) {
        let mut found = Rows::default();
        for (key, value) in rows {
            if let Ok(key) = std::str::from_utf8(key) {
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

    /// Forgets all verdicts: their source begins anew.
    pub fn forget_verdicts(&mut self) {
        self.rows = Rows::default();
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

    /// Subjects with verdicts, and agents that were told something.
    #[must_use]
    pub fn held(&self) -> (usize, usize) {
        (self.rows.len(), self.told.len())
    }

    /// Reads a check.
    ///
    /// # Errors
    /// The event is none; the field concerned.
    pub fn open(&mut self, check: Check, now: EventTime) -> Result<Opened, BadCheck> {
        let text = check.event.get().to_owned();
        let event = decoded(&text, &self.options, now)?;
        self.sweep(now);
        let who = Who::of(&event);
        self.asking.touch(&who.key, now.0);
        let heard = self.told.heard(&who.key, now.0);
        self.counts.nudges_delivered += heard.confirmed.len() as u64;
        self.counts.nudges_dropped += heard.dropped;
        let mut opened = Opened {
            phase: phase(&event),
            who,
            check,
            call_id: None,
            events: Vec::new(),
            waits: false,
            dropped: None,
            found: None,
        };
        for command_id in heard.confirmed {
            let ack = ack(&opened.who, &command_id);
            opened.push(ack);
        }
        if begins_anew(&event) {
            self.told.begins_anew(&opened.who.key, event.time.0.max(now.0));
        }
        match &event.kind {
            EventKind::ToolCall(call) => {
                let made_up = || {
                    let identity = Call::new(&call.tool, &call.args).identity();
                    self.pairs.open(&opened.who.key, &event.id, (&call.tool, identity), now.0)
                };
                opened.call_id = Some(call.call_id.as_deref().map_or_else(made_up, str::to_owned));
                opened.waits = true;
            }
            EventKind::ToolResult(result) => {
                let args = args_of(&event, &text);
                self.close(&mut opened, (&text, &args), result.tool.as_deref(), result, now);
            }
            EventKind::Tool(call, result) => {
                self.close(&mut opened, (&text, &call.args), Some(&call.tool), result, now);
            }
            _ => opened.push(text.clone()),
        }
        Ok(opened)
    }

    /// A call has ended: its id where it came without one, and whether it was refused before.
    fn close(
        &mut self,
        opened: &mut Opened,
        (text, args): (&str, &Content<'_>),
        tool: Option<&str>,
        result: &CallResult<'_>,
        now: EventTime,
    ) {
        let identity = tool.filter(|_| !args.is_absent()).map(|tool| Call::new(tool, args).identity());
        let given = result.call_id.as_deref();
        let named = Named { call_id: given, tool, identity };
        if self.refusals.take(&opened.who.key, named, now.0) {
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
            (None, Some(tool)) => self.pairs.close(&opened.who.key, tool, identity, now.0),
            _ => None,
        };
        let event = match &made_up {
            Some(call_id) => rewrite::with(text, &[("call_id", json!(call_id))]),
            None => text.to_owned(),
        };
        opened.call_id = given.map(str::to_owned).or(made_up);
        opened.push(event);
    }

    /// Decides about a check that was opened.
    pub fn decide(&mut self, opened: &mut Opened, knowledge: Knowledge, now: EventTime) -> Answer {
        let text = opened.check.event.get().to_owned();
        let (trust, mut state) = self.trust(knowledge, now);
        state.stale |= !self.missing(opened, now).is_empty();
        self.counts.stale += u64::from(state.stale);
        // It was decoded before.
        let Ok(event) = decoded(&text, &self.options, now) else { return Answer::allow(state) };
        let args = args_of(&event, &text);
        let call = tool_of(&event).map(|tool| Call::new(tool, &args));
        let candidates = self.candidates(opened, call.as_ref(), now);
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
        if opened.waits {
            opened.waits = false;
            let refused = match &outcome {
                Outcome::Refuse { block: verdict, .. } | Outcome::RefuseOnce { nudge: verdict } => Some(verdict),
                _ => None,
            };
            let call_id = opened.call_id.clone();
            let given = matches!(&event.kind, EventKind::ToolCall(call) if call.call_id.is_some());
            let mut members = Vec::new();
            if let (Some(verdict), Some(call)) = (refused, &call) {
                // One event, not a call and its result: a call that never ran must move no detector.
                let own_id = call_id.as_deref().filter(|_| given);
                self.refusals.add(&opened.who.key, own_id, (call.tool, call.identity()), now.0);
                if !given {
                    self.pairs.close(&opened.who.key, call.tool, Some(call.identity()), now.0);
                }
                members.extend([
                    ("kind", json!("tool")),
                    ("outcome", json!("denied")),
                    ("command_id", json!(verdict.command_id)),
                ]);
            } else if let (Some(call_id), false) = (&call_id, given) {
                members.push(("call_id", json!(call_id)));
            }
            let event = if members.is_empty() { text.clone() } else { rewrite::with(&text, &members) };
            opened.push(event);
        }
        answer.dropped = opened.dropped;
        answer
    }

    /// Verdicts in force that an event may have to do with.
    fn candidates(&self, opened: &Opened, call: Option<&Call<'_>>, now: EventTime) -> Vec<Candidate> {
        let who = &opened.who;
        let is_due = |verdict: &Verdict| self.told.is_open(&who.key, &verdict.command_id, verdict.issued_at.0);
        let tables = || std::iter::once(&self.rows).chain(&opened.found);
        let own: Vec<_> = tables().flat_map(|rows| rows.own(who, now)).collect();
        let others = call.map(|call| tables().flat_map(|rows| rows.of_others(who, call, now)).collect::<Vec<_>>());
        let mut candidates: Vec<Candidate> = own
            .iter()
            .map(|verdict| Candidate {
                matches: call.is_some_and(|call| call.is_in(&verdict.scope)),
                is_due: is_due(verdict),
                is_of_others: false,
                verdict: Arc::clone(verdict),
            })
            .collect();
        // An agent with a verdict of its own on that tool has heard enough.
        let has_own = |verdict: &Verdict| {
            own.iter().any(|own| own.scope.tool.is_none() || verdict.scope.tool.is_none() || own.scope.tool == verdict.scope.tool)
        };
        let held = if opened.phase == Phase::After { self.told.held(&who.key) } else { Vec::new() };
        let is_held = |verdict: &Verdict| tables().any(|rows| rows.holds(who, verdict));
        let held = held.into_iter().filter(|verdict| verdict.expires_at > now && is_held(verdict));
        for verdict in others.into_iter().flatten().chain(held) {
            let is_known = candidates.iter().any(|known| known.verdict.command_id == verdict.command_id);
            if !is_known && !has_own(&verdict) {
                let is_due = is_due(&verdict);
                candidates.push(Candidate { verdict, matches: true, is_due, is_of_others: true });
            }
        }
        candidates
    }

    fn answer(&mut self, opened: &Opened, outcome: &Outcome<'_>, state: Freshness, now: EventTime) -> Answer {
        let agent = &opened.who.key;
        let allow = Answer::allow(state);
        match outcome {
            Outcome::Nothing => allow,
            Outcome::Hold { nudges } => {
                for nudge in nudges {
                    self.told.hold(agent, nudge, now.0);
                }
                allow
            }
            Outcome::Refuse { block, stop } => {
                self.counts.refused += 1;
                self.counts.nudges_unheeded += self.told.goes_on(agent, &block.episode);
                let answer = said(allow, block, Some((message::plain(&block.message), Placement::Before)));
                Answer { decision: Decision::Deny, stop: *stop, ..answer }
            }
            Outcome::CannotRefuse { block, is_told } => {
                self.counts.in_spite += 1;
                said(allow, block, is_told.then(|| (message::plain(&block.message), Placement::Before)))
            }
            Outcome::Stop { block } => {
                let answer = said(allow, block, Some((message::plain(&block.message), Placement::AppendToResult)));
                Answer { stop: true, ..answer }
            }
            Outcome::Nudge { nudge, placement } => {
                self.hand_out(agent, nudge, now);
                said(allow, nudge, Some((message::plain(&nudge.message), *placement)))
            }
            Outcome::RefuseOnce { nudge } => {
                self.hand_out(agent, nudge, now);
                let answer = said(allow, nudge, Some((message::once(&nudge.message), Placement::Before)));
                Answer { decision: Decision::Deny, ..answer }
            }
        }
    }

    fn hand_out(&mut self, agent: &str, nudge: &Verdict, now: EventTime) {
        self.counts.nudges += 1;
        self.counts.nudges_unheeded += self.told.goes_on(agent, &nudge.episode);
        self.told.lease(agent, nudge, now.0);
    }

    /// A source that is not heard may have lifted any block since. One that is heard but behind has not lifted those that are known, and
    /// whoever floods it must not do so either.
    fn trust(&self, knowledge: Knowledge, now: EventTime) -> (Trust, Freshness) {
        let Knowledge { as_of, late_ms, source } = knowledge;
        let unheard_ms = as_of.map(|as_of| now.0.saturating_sub(as_of.0).max(0));
        let lag_ms = unheard_ms.map(|unheard_ms| unheard_ms.saturating_add(late_ms.max(0)));
        let stale_after_ms = self.options.stale_after_ms;
        let trust = match (unheard_ms, lag_ms) {
            (_, Some(lag_ms)) if lag_ms <= stale_after_ms => Trust::Fresh,
            (Some(unheard_ms), _) if unheard_ms <= stale_after_ms.saturating_mul(BLOCKS_STAND) => Trust::Aging,
            _ => Trust::Gone,
        };
        let state = Freshness {
            as_of: lag_ms.map(|lag_ms| now.plus_ms(-lag_ms).to_rfc3339()),
            lag_ms: lag_ms.map(i64::unsigned_abs),
            stale: trust != Trust::Fresh,
            source,
        };
        (trust, state)
    }

    fn sweep(&mut self, now: EventTime) {
        if now.0.saturating_sub(self.swept_ms) < SWEEP_MS {
            return;
        }
        self.swept_ms = now.0;
        self.rows.sweep(now);
        self.told.sweep(now.0);
        self.asking.forget_before(now.0.saturating_sub(ASKING_MS));
        self.pairs.sweep(now.0);
        self.refusals.sweep(now.0);
    }
}

fn decoded<'a>(text: &'a str, options: &Options, now: EventTime) -> Result<Event<'a>, BadCheck> {
    let meta = RecordMeta::without_place(now, options.event_bytes_max);
    Ok(decode(Some(text.as_bytes()), &meta)?)
}

fn phase(event: &Event<'_>) -> Phase {
    match &event.kind {
        EventKind::ToolCall(_) => Phase::Before,
        EventKind::ToolResult(_) | EventKind::Tool(..) => Phase::After,
        EventKind::Message(message) if message.role == Role::Assistant => Phase::Turn,
        _ => Phase::Other,
    }
}

/// Whether what was not said yet is outdated by an event.
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

fn ack(who: &Who, command_id: &str) -> String {
    let id = base32(&hash_parts(&["ack\n", command_id, "\n", &who.key]).hash128().0.to_be_bytes());
    let mut event = json!({
        "id": format!("lw-{id}"),
        "kind": "ack",
        "session_id": who.session_id,
        "agent": { "id": who.agent_id },
        "command_id": command_id,
        "ack": "applied",
    });
    if let (Some(object), false) = (event.as_object_mut(), who.tenant.is_empty()) {
        object.insert("tenant".to_owned(), json!(who.tenant));
    }
    event.to_string()
}

/// An answer with what a command says of itself.
fn said(answer: Answer, verdict: &Verdict, text: Option<(String, Placement)>) -> Answer {
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
        ..answer
    }
}
