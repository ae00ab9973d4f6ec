//! The sessions that loop most, with their calls. Bounded: beyond the bound the session with the fewest calls in loops leaves, and
//! only its sums stay. A session that returns gets its sums back and the calls that its history still holds: so the worst sessions are
//! shown, however many there are.

use std::{cmp::Reverse, collections::BTreeMap};

use loopwarden_core::detect::{DetectorBits, Finding, Flags, Step};
use loopwarden_core::engine::{Action, Command, Session, SubjectKey};
use loopwarden_core::event::EventTime;
use loopwarden_core::policy::{Detector, Mode};
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::report::call_timeline::{CallCell, CallTimeline, Ended};
use crate::{report::CommandKind, report::command::CommandCounts, report::spent::Spent};

/// Sessions kept of each part of a replay with their calls, more than a report shows.
const KEPT_MAX: usize = 64;
/// Sessions of which only the sums are kept; beyond the bound any of them leaves.
const SUMS_MAX: usize = 65_536;
/// Calls shown before the first one that a detector counts.
const LEAD_IN: u64 = 4;
/// Calls looked back over when a session begins to loop.
const LOOK_BACK: u64 = 64;

/// One agent of one session that loops.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Loop {
    /// Empty = none.
    pub tenant: String,
    pub session: String,
    pub agent: String,
    pub sums: LoopSums,
    pub calls: CallTimeline,
}

/// The counters of an agent that loops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoopSums {
    /// Times of the first and the last event with a finding.
    first: EventTime,
    last: EventTime,
    /// Calls before the session was forgotten: when it returns, its history counts from the beginning.
    calls_before: u64,
    /// Calls in the history.
    calls_of_history: u64,
    /// Calls and text turns in loops, with their cost.
    pub in_loop: Spent,
    /// Text turns among them.
    pub texts_in_loop: u64,
    /// Events that only detectors in shadow mode count.
    in_shadow: u64,
    pub commands: CommandCounts,
    /// Bits of the detectors in force with a finding.
    detectors: DetectorBits,
    shadow_detectors: DetectorBits,
}

impl Loop {
    fn names(&self) -> (&str, &str, &str) {
        (&self.tenant, &self.session, &self.agent)
    }

    /// The cell of a call, by its number in the history.
    fn cell(&mut self, sequence: u64) -> Option<&mut CallCell> {
        let number = self.sums.number(sequence);
        self.calls.from(number).find(|cell| cell.sequence == number)
    }
}

impl Serialize for Loop {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (sums, calls) = (&self.sums, &self.calls);
        let CommandCounts { nudges, blocks, shadow } = sums.commands;
        // Neither the events nor their records need to have a time.
        let time = |time: EventTime| (time.0 != 0).then(|| time.to_rfc3339());
        json!({
            "tenant": self.tenant,
            "session": self.session,
            "agent": self.agent,
            "detectors": sums.detectors(),
            "first": time(sums.first),
            "last": time(sums.last),
            "calls": sums.calls(),
            "in_loop": Spent { calls: sums.calls_in_loop(), ..sums.in_loop },
            "texts_in_loop": sums.texts_in_loop,
            "nudges": nudges,
            "blocks": blocks,
            "shadow": shadow,
            "repeated": calls.repeated(),
            "strip": calls.head,
            "strip_left_out": calls.left_out,
            "strip_end": calls.tail,
        })
        .serialize(serializer)
    }
}

impl LoopSums {
    /// Names of the detectors with a finding; those in shadow mode only if there are no others.
    pub fn detectors(&self) -> Vec<&'static str> {
        let bits = if self.detectors == 0 { self.shadow_detectors } else { self.detectors };
        Detector::ALL.into_iter().filter(|detector| bits & detector.bit() != 0).map(Detector::as_str).collect()
    }

    /// Calls of the session, without text turns.
    pub const fn calls(&self) -> u64 {
        self.calls_before.saturating_add(self.calls_of_history)
    }

    /// Number of a call among all of the session, by its number in the history.
    const fn number(&self, sequence: u64) -> u64 {
        self.calls_before.saturating_add(sequence)
    }

    /// Notes the number of calls in the history.
    const fn note_calls(&mut self, counted: u64) {
        if counted < self.calls_of_history {
            self.calls_before = self.calls();
        }
        self.calls_of_history = counted;
    }

    /// Calls in loops, without text turns.
    pub const fn calls_in_loop(&self) -> u64 {
        self.in_loop.calls.saturating_sub(self.texts_in_loop)
    }

    /// The worst is the largest.
    const fn rank(&self) -> (u64, u64, u64) {
        (self.in_loop.calls, self.in_loop.tokens, self.in_shadow)
    }
}

/// One event and its effects on a session.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment<'a> {
    pub(super) subject: &'a SubjectKey,
    /// Hash of the names of the subject.
    pub(super) hash: u64,
    pub(super) session: &'a Session,
    pub(super) time: EventTime,
    pub(super) kind: MomentKind,
    pub(super) findings: &'a [Finding],
    pub(super) commands: &'a [Command],
    /// Its part in loops.
    pub(super) spent: Spent,
}

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MomentKind {
    /// A new call, by its sequence.
    Call(u64),
    /// The result of an earlier one.
    Result(u64),
    /// A text turn of the agent, by the hash of its text.
    Text(u64),
    Other,
}

/// The sessions that loop most.
#[derive(Debug, Clone, Default)]
pub struct Loops {
    /// By the hash of their names, which are long and begin alike.
    kept: BTreeMap<u64, Loop>,
    /// Sums of those that left.
    left: BTreeMap<u64, LoopSums>,
}

impl Loops {
    /// Whether the calls of an agent are kept, by the hash of its names.
    pub(super) fn has(&self, hash: u64) -> bool {
        self.kept.contains_key(&hash)
    }

    pub(super) fn note(&mut self, moment: &Moment<'_>) {
        if let Some(found) = self.kept.get_mut(&moment.hash) {
            found.sums.note_calls(moment.session.history.next_sequence());
            follow(found, moment);
            note_findings(found, moment);
        } else if moment.findings.iter().any(counts) {
            self.make_room();
            let mut found = begin(moment, self.left.remove(&moment.hash));
            note_findings(&mut found, moment);
            self.kept.insert(moment.hash, found);
        }
    }

    fn make_room(&mut self) {
        if self.kept.len() < KEPT_MAX {
            return;
        }
        let least = self.kept.iter().min_by_key(|(_, found)| (found.sums.rank(), found.names())).map(|(hash, _)| *hash);
        let Some((hash, gone)) = least.and_then(|least| self.kept.remove_entry(&least)) else { return };
        if self.left.len() >= SUMS_MAX {
            self.left.pop_first();
        }
        self.left.insert(hash, gone.sums);
    }

    /// Adds the sessions of another part of the input. No session is in two parts.
    pub(super) fn add(&mut self, other: Self) {
        self.kept.extend(other.kept);
    }

    /// The worst first. Sessions that only detectors in shadow mode count are there if there are no others.
    pub fn top(self, loops_max: usize) -> Vec<Loop> {
        let mut all: Vec<Loop> = self.kept.into_values().collect();
        all.sort_by(|one, other| (Reverse(one.sums.rank()), one.names()).cmp(&(Reverse(other.sums.rank()), other.names())));
        if all.first().is_some_and(|worst| worst.sums.in_loop.calls > 0) {
            all.retain(|found| found.sums.in_loop.calls > 0);
        }
        all.truncate(loops_max);
        all
    }
}

/// A finding about the event at hand that can lead to a command.
pub(super) const fn counts(finding: &Finding) -> bool {
    finding.is_current
}

/// A finding that can lead to a command in force.
pub(super) const fn is_live(finding: &Finding) -> bool {
    counts(finding) && matches!(finding.mode, Mode::Nudge | Mode::Block)
}

/// A session that begins to loop, or returns, with the calls that its history still holds.
fn begin(moment: &Moment<'_>, sums: Option<LoopSums>) -> Loop {
    let SubjectKey::Agent { tenant, session_id, agent_id } = moment.subject else { return Loop::default() };
    let mut found = Loop {
        tenant: tenant.clone(),
        session: session_id.clone(),
        agent: agent_id.clone(),
        sums: sums.unwrap_or(LoopSums { first: moment.time, ..LoopSums::default() }),
        ..Loop::default()
    };
    let next = moment.session.history.next_sequence();
    found.sums.note_calls(next);
    let first = moment.findings.iter().filter(|finding| counts(finding)).map(|finding| finding.first).min().unwrap_or(next);
    let from = first.saturating_sub(LEAD_IN).max(next.saturating_sub(LOOK_BACK));
    let steps: Vec<&Step> = moment.session.history.ring_back().take_while(|step| step.sequence >= from).collect();
    for step in steps.into_iter().rev() {
        push(&mut found, moment.session, step);
    }
    if let MomentKind::Text(text) = moment.kind {
        push_text(&mut found, text);
    }
    found
}

/// The next event of a session that is kept.
fn follow(found: &mut Loop, moment: &Moment<'_>) {
    match moment.kind {
        MomentKind::Call(sequence) => {
            if let Some(step) = moment.session.history.get(sequence) {
                push(found, moment.session, step);
            }
        }
        MomentKind::Result(sequence) => {
            if let Some(step) = moment.session.history.get(sequence)
                && let Some(cell) = found.cell(sequence)
            {
                cell.ended = ended(step);
            }
        }
        MomentKind::Text(text) => push_text(found, text),
        MomentKind::Other => {}
    }
}

/// Notes the findings and commands of an event.
fn note_findings(found: &mut Loop, moment: &Moment<'_>) {
    let sums = &mut found.sums;
    sums.in_loop.add(moment.spent);
    if !matches!(moment.kind, MomentKind::Call(_) | MomentKind::Result(_)) {
        sums.texts_in_loop += moment.spent.calls;
    }
    for finding in moment.findings.iter().filter(|finding| counts(finding)) {
        sums.last = moment.time;
        if !is_live(finding) {
            sums.shadow_detectors |= finding.detector.bit();
            continue;
        }
        sums.detectors |= finding.detector.bit();
        // All calls of a run are part of the loop. In a window, only those that match are, and the history has the last of them; so it
        // is with failures in a row, which calls of other tools do not end.
        let looks_through = finding.detector.about().looks_through;
        let first = if finding.window == 0 && !looks_through { finding.first } else { finding.last };
        if !matches!(moment.kind, MomentKind::Text(_)) {
            let (first, last) = (sums.number(first), sums.number(finding.last));
            for cell in found.calls.from(first).filter(|cell| cell.sequence <= last) {
                cell.in_loop = true;
            }
        }
    }
    if moment.findings.iter().any(counts) && !moment.findings.iter().any(is_live) {
        sums.in_shadow += 1;
    }
    let is_live_text = matches!(moment.kind, MomentKind::Text(_)) && moment.findings.iter().any(is_live);
    for command in moment.commands {
        let kind = match command.action {
            Action::Nudge => CommandKind::Nudge,
            Action::Block => CommandKind::Block,
            Action::Unblock => continue,
        };
        found.sums.commands.note(kind, command.is_shadow);
        let cell = match moment.kind {
            MomentKind::Result(sequence) => found.cell(sequence),
            _ => found.calls.newest(),
        };
        if let Some(cell) = cell {
            cell.note(kind, command.is_shadow);
        }
    }
    if is_live_text && let Some(cell) = found.calls.newest() {
        cell.in_loop = true;
    }
}

fn push(found: &mut Loop, session: &Session, step: &Step) {
    let sequence = found.sums.number(step.sequence);
    let call = ((step.call.0 >> 64) as u64).max(1);
    let tool = Some(found.calls.tool(session.history.tool(step)));
    found.calls.note_excerpt(call, &step.excerpt);
    found.calls.push(CallCell { sequence, call, tool, ended: ended(step), ..CallCell::default() });
}

fn push_text(found: &mut Loop, text: u64) {
    let sequence = found.sums.calls().saturating_sub(1);
    found.calls.push(CallCell { sequence, call: text, ..CallCell::default() });
}

const fn ended(step: &Step) -> Option<Ended> {
    if step.flags.contains(Flags::REFUSED) {
        Some(Ended::Refused)
    } else if step.failed() {
        Some(Ended::Failed)
    } else if step.flags.contains(Flags::OBSERVED) {
        Some(Ended::Ok)
    } else {
        None
    }
}
