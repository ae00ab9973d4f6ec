//! The book of a replay: every event and every command is entered as it passes, and only sums and the worst cases stay. What it
//! holds is bounded, however long the input: it never grows with the events, only, up to its bounds, with what was found and with the
//! stretches that somebody labelled.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loopwarden_core::detect::Flags;
use loopwarden_core::engine::{Effects, Place, Session, SubjectKey};
use loopwarden_core::event::{Event, EventKind, Role};
use loopwarden_core::identity::{hash_text, text_identity};

use crate::report::distinct::{hash_of, hash_within};
use crate::report::loops::{Moment, What, counts, is_live};
use crate::report::{Counts, Distinct, EventIndex, Fates, Loops, Said, Spent, SpentInLoops, Swarms, Timeline, Tools};

/// Calls without their answer that are remembered, for what they cost.
const OPEN_MAX: usize = 65_536;
/// Calls looked back over for the one that an answer belongs to.
const ANSWER_LOOK_BACK: usize = 64;

/// What is to be kept beyond sums.
#[derive(Debug, Clone, Default)]
pub struct Keep {
    /// Commands about these sessions, by tenant and id: somebody knows more about them.
    pub said_of: BTreeSet<(String, String)>,
    /// The events of labelled stretches.
    pub index: EventIndex,
    /// What became of every session, for a comparison.
    pub fates: bool,
    /// Nobody will ask for more than commands and sums of them: what events came to is not entered.
    pub only_commands: bool,
}

/// The book.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    /// Commands by detector.
    pub counts: Counts,
    /// What calls in loops cost.
    pub spent: SpentInLoops,
    /// Calls by tool.
    pub tools: Tools,
    /// Events and commands over time.
    pub timeline: Timeline,
    /// The sessions that loop most.
    pub loops: Loops,
    /// The swarms that were spoken about.
    pub swarms: Swarms,
    /// Sessions.
    pub sessions: Distinct,
    /// Events of labelled stretches.
    pub index: EventIndex,
    /// Commands about sessions that are to be judged.
    pub said: Vec<Said>,
    /// What became of each session, where it is to be compared.
    pub fates: Fates,
    keep: Arc<Keep>,
    open: BTreeMap<(u64, u64), Open>,
    /// By partition. After a panic the batch runs again; an event counts once.
    next_offsets: BTreeMap<u32, u64>,
    /// Hash of the session that was noted last: usually the next event is of the same.
    last_session: Option<u64>,
}

/// A call without its answer.
#[derive(Debug, Clone, Copy, Default)]
struct Open {
    spent: Spent,
    /// Detectors that counted it already.
    detectors: u16,
}

impl Ledger {
    /// An empty book that keeps this.
    #[must_use]
    pub fn new(keep: &Arc<Keep>) -> Self {
        Self { index: keep.index.clone(), keep: Arc::clone(keep), ..Self::default() }
    }

    /// Enters an event after it was applied: the session as it is now, what came of it, and the sequence its next call had before.
    pub fn note_event(
        &mut self,
        event: &Event<'_>,
        (subject, session, before): (&SubjectKey, &Session, u64),
        place: Place<'_>,
        effects: &Effects,
    ) {
        let next_offset = self.next_offsets.entry(place.partition).or_default();
        if place.offset < *next_offset || effects.tally.duplicate {
            return;
        }
        *next_offset = place.offset + 1;
        let hash = hash_of(event.tenant.as_deref().unwrap_or_default(), &event.session_id);
        if self.last_session.replace(hash) != Some(hash) {
            self.sessions.note_hash(hash);
        }
        self.index.note_event(event);
        if self.keep.only_commands {
            return;
        }
        if event.has_time {
            self.timeline.note_event(event.time);
        }
        let hash_of_agent = hash_within(hash, &event.agent_id);
        // What an agent says is hashed for nobody but the loops.
        let shows_text = self.loops.has(hash_of_agent) || effects.findings.iter().any(counts);
        let what = what(event, session, before, shows_text);
        let detectors =
            effects.findings.iter().filter(|finding| is_live(finding)).fold(0, |bits, finding| bits | finding.detector.bit());
        let spent = self.spend(event, (session, hash), what, detectors);
        if let What::Call(sequence) | What::Answer(sequence) = what
            && let Some(step) = session.history.get(sequence)
        {
            let row = self.tools.row(session.history.tool(step));
            row.calls += u64::from(matches!(what, What::Call(_)));
            row.failed += u64::from(step.failed());
            row.in_loops.add(spent);
        }
        let (findings, commands) = (effects.findings.as_slice(), effects.commands.as_slice());
        let (hash, time) = (hash_of_agent, session.head.time);
        self.loops.note(&Moment { subject, hash, session, time, what, findings, commands, spent });
    }

    /// What is to be counted of an event in loops. A call counts once, when the first detector sees it.
    fn spend(&mut self, event: &Event<'_>, (session, hash): (&Session, u64), what: What, detectors: u16) -> Spent {
        let now = Spent::of(event.usage);
        let one = Spent { calls: 1, ..now };
        let mut total = if detectors == 0 { Spent::default() } else { one };
        match what {
            What::Call(sequence) => {
                self.spent.note(detectors, one);
                if let Some(step) = session.history.get(sequence).filter(|step| step.flags.has(Flags::OPEN))
                    && (now.is_known() || detectors != 0)
                {
                    if self.open.len() >= OPEN_MAX {
                        self.open.pop_first();
                    }
                    self.open.insert((hash, step.event.0), Open { spent: now, detectors });
                }
            }
            What::Answer(sequence) => {
                let key = session.history.get(sequence).map(|step| (hash, step.event.0));
                let open = key.and_then(|key| self.open.remove(&key)).unwrap_or_default();
                let mut whole = one;
                whole.add(open.spent);
                self.spent.note(detectors & !open.detectors, whole);
                self.spent.note(open.detectors, now);
                if open.detectors != 0 {
                    total = now;
                } else if detectors != 0 {
                    total = whole;
                }
            }
            What::Text(_) | What::Other => self.spent.note(detectors, one),
        }
        self.spent.note_total(total);
        total
    }

    /// Enters a command that was committed.
    pub fn note_said(&mut self, said: Said) {
        self.counts.note(&said);
        self.tools.note_said(&said);
        self.timeline.note_said(&said);
        self.swarms.note(&said);
        if self.keep.fates {
            self.fates.note(&said);
        }
        let of = &self.keep.said_of;
        if !of.is_empty() && !said.is_swarm && of.contains(&(said.tenant.clone(), said.subject.clone())) {
            self.said.push(said);
        }
    }

    /// Adds the book of another part of the input.
    pub fn add(&mut self, other: Self) {
        self.counts.add(other.counts);
        self.spent.add(&other.spent);
        self.tools.add(other.tools);
        self.timeline.add(other.timeline);
        self.loops.add(other.loops);
        self.swarms.add(other.swarms);
        self.sessions.add(other.sessions);
        self.index.add(other.index);
        self.said.extend(other.said);
        self.fates.add(other.fates);
    }
}

fn what(event: &Event<'_>, session: &Session, before: u64, shows_text: bool) -> What {
    let next = session.history.next_sequence();
    match &event.kind {
        EventKind::ToolCall(_) | EventKind::Tool(..) | EventKind::ToolResult(_) if next > before => What::Call(next - 1),
        EventKind::Tool(..) | EventKind::ToolResult(_) => {
            let id = hash_text(&event.id).hash64();
            let step = session.history.ring_back().take(ANSWER_LOOK_BACK).find(|step| step.result_event == id);
            step.map_or(What::Other, |step| What::Answer(step.sequence))
        }
        EventKind::Message(message) if message.role == Role::Assistant => {
            let hash = if shows_text { text_identity(message) } else { None };
            What::Text(hash.map_or(0, |hash| hash.hash64().0))
        }
        _ => What::Other,
    }
}
