//! The sessions that loop most, with their calls. Bounded: of more sessions than there is room for, those with the fewest calls in
//! loops leave with their calls, and only their sums stay. One that goes on comes back with its sums and what its history still knows, so
//! that those shown are the worst however many there are.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use loopwarden_core::detect::{Finding, Flags, Step};
use loopwarden_core::engine::{Action, Command, Session, SubjectKey};
use loopwarden_core::event::EventTime;
use loopwarden_core::policy::{Detector, Mode};

use crate::report::strip::{Cell, Ended, Strip};
use crate::report::{Deed, Spent};

/// Sessions kept of each part of a replay with their calls, above what a report shows.
const KEPT_MAX: usize = 64;
/// Sessions of which only the sums are kept; of more, any one leaves.
const SUMS_MAX: usize = 65_536;
/// Calls shown before the first one that a detector counted.
const LEAD_IN: u64 = 4;
/// Calls looked back over when a session begins to loop.
const LOOK_BACK: u64 = 64;

/// One agent of one session that loops.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Loop {
    /// Tenant; empty = none.
    pub tenant: String,
    /// Session.
    pub session: String,
    /// Agent.
    pub agent: String,
    /// What was counted of it.
    pub sums: LoopSums,
    /// Its calls.
    pub strip: Strip,
}

/// What is counted of an agent that loops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoopSums {
    /// When it began to loop.
    pub first: EventTime,
    /// When it was last seen to.
    pub last: EventTime,
    /// Calls of the session before it was forgotten and came back, as its history counts from the beginning then.
    calls_before: u64,
    /// Calls that its history has counted.
    calls_of_history: u64,
    /// Calls and text turns that a detector counts as a loop, and what they cost.
    pub in_loop: Spent,
    /// Text turns among them.
    pub texts_in_loop: u64,
    /// The same, where the detector only looks on.
    pub in_shadow: u64,
    /// Nudges.
    pub nudges: u64,
    /// Blocks.
    pub blocks: u64,
    /// Shadow commands.
    pub shadow: u64,
    /// Bits of the detectors that saw it, shadow ones left out unless there are no others.
    detectors: u16,
    shadow_detectors: u16,
}

impl Loop {
    fn names(&self) -> (&str, &str, &str) {
        (&self.tenant, &self.session, &self.agent)
    }

    /// The cell of a call, by its number in the history.
    fn cell(&mut self, sequence: u64) -> Option<&mut Cell> {
        let number = self.sums.number(sequence);
        self.strip.from(number).find(|cell| cell.sequence == number)
    }
}

impl LoopSums {
    /// Names of the detectors that saw it.
    #[must_use]
    pub fn detectors(&self) -> Vec<&'static str> {
        let bits = if self.detectors == 0 { self.shadow_detectors } else { self.detectors };
        Detector::ALL.into_iter().filter(|detector| bits & detector.bit() != 0).map(Detector::as_str).collect()
    }

    /// Calls of the session so far; text turns left out.
    #[must_use]
    pub const fn calls(&self) -> u64 {
        self.calls_before.saturating_add(self.calls_of_history)
    }

    /// Number of a call among all of the session, by that in its history.
    const fn number(&self, sequence: u64) -> u64 {
        self.calls_before.saturating_add(sequence)
    }

    /// Notes how many calls the history counts now.
    const fn note_calls(&mut self, counted: u64) {
        if counted < self.calls_of_history {
            self.calls_before = self.calls();
        }
        self.calls_of_history = counted;
    }

    /// Calls that a detector counts as a loop; text turns left out.
    #[must_use]
    pub const fn calls_in_loop(&self) -> u64 {
        self.in_loop.calls.saturating_sub(self.texts_in_loop)
    }

    /// More is worse.
    const fn rank(&self) -> (u64, u64, u64) {
        (self.in_loop.calls, self.in_loop.tokens, self.in_shadow)
    }
}

/// What one event did to a session.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment<'a> {
    pub(super) subject: &'a SubjectKey,
    /// Hash of the subject's names.
    pub(super) hash: u64,
    pub(super) session: &'a Session,
    pub(super) time: EventTime,
    pub(super) what: What,
    pub(super) findings: &'a [Finding],
    pub(super) commands: &'a [Command],
    /// What is to be counted of it.
    pub(super) spent: Spent,
}

/// What an event was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// A new call, by its sequence.
    Call(u64),
    /// The answer to an earlier one.
    Answer(u64),
    /// A text turn of the agent, by the hash of its text.
    Text(u64),
    /// Anything else.
    Other,
}

/// The sessions that loop most.
#[derive(Debug, Clone, Default)]
pub struct Loops {
    /// By the hash of their names, which are long and begin alike.
    kept: BTreeMap<u64, Loop>,
    /// Sums of those without a place.
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
            judge(found, moment);
        } else if moment.findings.iter().any(counts) {
            self.make_room();
            let mut found = begin(moment, self.left.remove(&moment.hash));
            judge(&mut found, moment);
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

    /// Adds what was kept elsewhere; no session is in two parts, and what has no place in its own has none here.
    pub fn add(&mut self, other: Self) {
        self.kept.extend(other.kept);
    }

    /// The worst first, at most so many; those that only shadow detectors see, where there are no others.
    #[must_use]
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

/// A finding that is somebody's opinion about the event at hand.
pub(super) const fn counts(finding: &Finding) -> bool {
    finding.is_fresh && !finding.is_signal
}

/// A finding that may lead to a command that counts.
pub(super) const fn is_live(finding: &Finding) -> bool {
    counts(finding) && matches!(finding.mode, Mode::Nudge | Mode::Block)
}

/// A session that begins to loop, or does so again, with what its history still knows.
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
    if let What::Text(text) = moment.what {
        push_text(&mut found, text);
    }
    found
}

/// The next event of a session that is kept.
fn follow(found: &mut Loop, moment: &Moment<'_>) {
    match moment.what {
        What::Call(sequence) => {
            if let Some(step) = moment.session.history.get(sequence) {
                push(found, moment.session, step);
            }
        }
        What::Answer(sequence) => {
            if let Some(step) = moment.session.history.get(sequence)
                && let Some(cell) = found.cell(sequence)
            {
                cell.ended = ended(step);
            }
        }
        What::Text(text) => push_text(found, text),
        What::Other => {}
    }
}

/// What detectors and commands say about the event.
fn judge(found: &mut Loop, moment: &Moment<'_>) {
    let sums = &mut found.sums;
    sums.in_loop.add(moment.spent);
    if !matches!(moment.what, What::Call(_) | What::Answer(_)) {
        sums.texts_in_loop += moment.spent.calls;
    }
    for finding in moment.findings.iter().filter(|finding| counts(finding)) {
        sums.last = moment.time;
        if !is_live(finding) {
            sums.shadow_detectors |= finding.detector.bit();
            continue;
        }
        sums.detectors |= finding.detector.bit();
        // Of a run, every call is part of the loop; of a window, only those that match, and of these the history tells the last. So it is of
        // failures in a row, which calls of other tools do not end.
        let looks_through = matches!(finding.detector, Detector::ShellFailures | Detector::TestFix);
        let first = if finding.window == 0 && !looks_through { finding.first } else { finding.last };
        if !matches!(moment.what, What::Text(_)) {
            let (first, last) = (sums.number(first), sums.number(finding.last));
            for cell in found.strip.from(first).filter(|cell| cell.sequence <= last) {
                cell.in_loop = true;
            }
        }
    }
    if moment.findings.iter().any(counts) && !moment.findings.iter().any(is_live) {
        sums.in_shadow += 1;
    }
    let is_live_text = matches!(moment.what, What::Text(_)) && moment.findings.iter().any(is_live);
    for command in moment.commands {
        let deed = match command.action {
            Action::Nudge => Deed::Nudge,
            Action::Block => Deed::Block,
            Action::Unblock => continue,
        };
        match (command.is_shadow, deed) {
            (true, _) => found.sums.shadow += 1,
            (false, Deed::Block) => found.sums.blocks += 1,
            (false, _) => found.sums.nudges += 1,
        }
        let cell = match moment.what {
            What::Answer(sequence) => found.cell(sequence),
            _ => found.strip.newest(),
        };
        if let Some(cell) = cell {
            cell.note(deed, command.is_shadow);
        }
    }
    if is_live_text && let Some(cell) = found.strip.newest() {
        cell.in_loop = true;
    }
}

fn push(found: &mut Loop, session: &Session, step: &Step) {
    let sequence = found.sums.number(step.sequence);
    let call = ((step.call.0 >> 64) as u64).max(1);
    let tool = found.strip.tool(session.history.tool(step));
    found.strip.note_excerpt(call, &step.excerpt);
    found.strip.push(Cell { sequence, call, tool, ended: ended(step), ..Cell::default() });
}

fn push_text(found: &mut Loop, text: u64) {
    let sequence = found.sums.calls().saturating_sub(1);
    found.strip.push(Cell { sequence, call: text, is_text: true, ..Cell::default() });
}

const fn ended(step: &Step) -> Ended {
    if step.flags.has(Flags::REFUSED) {
        Ended::Refused
    } else if step.failed() {
        Ended::Failed
    } else if step.flags.has(Flags::OBSERVED) {
        Ended::Ok
    } else {
        Ended::Unknown
    }
}
