//! Statistics of a replay: every event and every command is entered when it passes, and only sums and the worst cases stay. They are
//! bounded, however long the input is: they grow, up to their bounds, with the findings and with the labelled stretches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loopwarden_core::engine::{Effects, Session, SourcePosition, SubjectKey};
use loopwarden_core::event::{Event, EventKind, Role};
use loopwarden_core::identity::{hash_text, text_identity};

use crate::report::distinct::{Distinct, hash_of, hash_within};
use crate::report::loops::{Loops, Moment, MomentKind, counts};
use crate::{
    report::PublishedCommand, report::compare::SessionOutcomes, report::detectors::Detectors, report::index::EventIndex,
    report::spent::Spent, report::swarms::Swarms, report::timeline::Timeline, report::tools::Tools,
};

/// Calls looked back over for the one that a result belongs to.
const RESULT_LOOK_BACK: usize = 64;

/// What is retained beyond sums.
#[derive(Debug, Clone, Default)]
pub struct Retain {
    /// Commands about these sessions, by tenant and id: they will be judged.
    pub commands_of: BTreeSet<(String, String)>,
    /// The events of labelled stretches.
    pub index: EventIndex,
    /// The outcome of every session, for a comparison.
    pub outcomes: bool,
    /// Only commands and their sums are asked for: effects of events are not entered.
    pub only_commands: bool,
}

#[derive(Debug, Clone, Default)]
pub struct ReplayStats {
    pub detectors: Detectors,
    pub tools: Tools,
    pub timeline: Timeline,
    pub loops: Loops,
    pub swarms: Swarms,
    pub sessions: Distinct,
    pub index: EventIndex,
    /// Commands about sessions that will be judged.
    pub commands: Vec<PublishedCommand>,
    /// Empty unless they will be compared.
    pub outcomes: SessionOutcomes,
    retain: Arc<Retain>,
    /// By partition. After a panic the batch runs again; an event counts once.
    next_offsets: BTreeMap<u32, u64>,
    /// Hash of the session of the last event: usually the next event has the same.
    last_session: Option<u64>,
}

impl ReplayStats {
    pub fn new(retain: &Arc<Retain>) -> Self {
        Self { index: retain.index.clone(), retain: Arc::clone(retain), ..Self::default() }
    }

    /// Enters an event after it was applied: the session after it, the sequence of the next call before it, and its effects.
    pub fn note_event(
        &mut self,
        event: &Event<'_>,
        (subject, session, before): (&SubjectKey, &Session, u64),
        place: SourcePosition<'_>,
        effects: &Effects,
    ) {
        let next_offset = self.next_offsets.entry(place.partition).or_default();
        if place.offset < *next_offset || effects.counters.duplicate {
            return;
        }
        *next_offset = place.offset + 1;
        let hash = hash_of(event.tenant.as_deref().unwrap_or_default(), &event.session_id);
        if self.last_session.replace(hash) != Some(hash) {
            self.sessions.note_hash(hash);
        }
        self.index.note_event(event);
        if self.retain.only_commands {
            return;
        }
        if event.has_time {
            self.timeline.note_event(event.time);
        }
        let hash_of_agent = hash_within(hash, &event.agent_id);
        // Texts of an agent are hashed for the loops only.
        let shows_text = self.loops.has(hash_of_agent) || effects.findings.iter().any(counts);
        let kind = kind(event, session, before, shows_text);
        self.detectors.note_cost(&effects.spending);
        let spent = Spent::from(effects.spending.in_loops());
        if let MomentKind::Call(sequence) | MomentKind::Result(sequence) = kind
            && let Some(step) = session.history.get(sequence)
        {
            let tool = self.tools.counts(session.history.tool(step));
            tool.calls += u64::from(matches!(kind, MomentKind::Call(_)));
            tool.failed += u64::from(step.failed());
            tool.in_loops.add(spent);
        }
        let (findings, commands) = (effects.findings.as_slice(), effects.commands.as_slice());
        let (hash, time) = (hash_of_agent, session.head.time);
        let moment = Moment { subject, hash, session, time, kind, findings, commands, spent };
        self.loops.note(&moment);
    }

    /// Enters a command that was committed.
    pub fn note_command(&mut self, command: PublishedCommand) {
        self.detectors.note(&command);
        self.tools.note(&command);
        self.timeline.note_command(&command);
        self.swarms.note(&command);
        if self.retain.outcomes {
            self.outcomes.note(&command);
        }
        let of = &self.retain.commands_of;
        if !of.is_empty() && !command.is_swarm && of.contains(&(command.tenant.clone(), command.subject.clone())) {
            self.commands.push(command);
        }
    }

    /// Adds the statistics of another part of the input.
    pub fn add(&mut self, other: Self) {
        self.detectors.add(other.detectors);
        self.tools.add(other.tools);
        self.timeline.add(other.timeline);
        self.loops.add(other.loops);
        self.swarms.add(other.swarms);
        self.sessions.add(other.sessions);
        self.index.add(other.index);
        self.commands.extend(other.commands);
        self.outcomes.add(other.outcomes);
    }
}

fn kind(event: &Event<'_>, session: &Session, before: u64, shows_text: bool) -> MomentKind {
    let next = session.history.next_sequence();
    match &event.kind {
        EventKind::ToolCall(_) | EventKind::Tool(..) | EventKind::ToolResult(_) if next > before => MomentKind::Call(next - 1),
        EventKind::Tool(..) | EventKind::ToolResult(_) => {
            let id = hash_text(&event.id).hash64();
            let step = session.history.ring_back().take(RESULT_LOOK_BACK).find(|step| step.result_event == id);
            step.map_or(MomentKind::Other, |step| MomentKind::Result(step.sequence))
        }
        EventKind::Message(message) if message.role == Role::Assistant => {
            let hash = if shows_text { text_identity(message) } else { None };
            MomentKind::Text(hash.map_or(0, |hash| hash.hash64().0))
        }
        _ => MomentKind::Other,
    }
}
