//! The sessions that loop most, with their calls. Bounded: of more sessions than there is room for, those with the fewest calls in
//! loops leave; one that goes on comes back with its history.

use std::collections::BTreeMap;

use crate::detect::Finding;
use crate::detect::Flags;
use crate::detect::Step;
use crate::engine::Action;
use crate::engine::Command;
use crate::engine::Session;
use crate::engine::SubjectKey;
use crate::event::EventTime;
use crate::policy::Detector;
use crate::policy::Mode;
use crate::report::Deed;
use crate::report::Spent;
use crate::report::strip::Cell;
use crate::report::strip::Ended;
use crate::report::strip::Strip;

/// Sessions kept of each part of a replay, far above what a report shows: a loop must have time to grow.
const KEPT_MAX: usize = 64;
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
    /// When it began to loop.
    pub first: EventTime,
    /// When it was last seen to.
    pub last: EventTime,
    /// Calls of the session so far; text turns left out.
    pub calls: u64,
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
    /// Its calls.
    pub strip: Strip,
}

impl Loop {
    /// Names of the detectors that saw it.
    #[must_use]
    pub fn detectors(&self) -> Vec<&'static str> {
        let bits = if self.detectors == 0 { self.shadow_detectors } else { self.detectors };
        Detector::ALL.into_iter().filter(|detector| bits & detector.bit() != 0).map(Detector::as_str).collect()
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
    kept: BTreeMap<SubjectKey, Loop>,
}

impl Loops {
    pub(super) fn note(&mut self, moment: &Moment<'_>) {
        // One look-up: names of sessions are long and begin alike.
        if let Some(found) = self.kept.get_mut(moment.subject) {
            follow(found, moment);
            judge(found, moment);
        } else if moment.findings.iter().any(counts) {
            self.make_room();
            let mut found = begin(moment);
            judge(&mut found, moment);
            self.kept.insert(moment.subject.clone(), found);
        }
    }

    fn make_room(&mut self) {
        if self.kept.len() < KEPT_MAX {
            return;
        }
        let least = self.kept.iter().min_by_key(|(_, found)| found.rank()).map(|(subject, _)| subject.clone());
        if let Some(least) = least {
            self.kept.remove(&least);
        }
    }

    /// Adds what was kept elsewhere; no session is in two parts.
    pub fn add(&mut self, other: Self) {
        self.kept.extend(other.kept);
    }

    /// The worst first, at most so many; those that only shadow detectors see, where there are no others.
    #[must_use]
    pub fn top(self, loops_max: usize) -> Vec<Loop> {
        let mut all: Vec<Loop> = self.kept.into_values().collect();
        all.sort_by_key(|found| std::cmp::Reverse(found.rank()));
        if all.first().is_some_and(|worst| worst.in_loop.calls > 0) {
            all.retain(|found| found.in_loop.calls > 0);
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

/// A session that begins to loop, with what its history still knows.
fn begin(moment: &Moment<'_>) -> Loop {
    let SubjectKey::Agent { tenant, session_id, agent_id } = moment.subject else { return Loop::default() };
    let mut found = Loop {
        tenant: tenant.clone(),
        session: session_id.clone(),
        agent: agent_id.clone(),
        first: moment.time,
        ..Loop::default()
    };
    let next = moment.session.history.next_sequence();
    let first = moment.findings.iter().filter(|finding| counts(finding)).map(|finding| finding.first).min().unwrap_or(next);
    let from = first.saturating_sub(LEAD_IN).max(next.saturating_sub(LOOK_BACK));
    let steps: Vec<&Step> = moment.session.history.ring_back().take_while(|step| step.sequence >= from).collect();
    for step in steps.into_iter().rev() {
        push(&mut found.strip, moment.session, step);
    }
    if let What::Text(text) = moment.what {
        found.strip.push(text_turn(next, text));
    }
    found
}

/// The next event of a session that is kept.
fn follow(found: &mut Loop, moment: &Moment<'_>) {
    match moment.what {
        What::Call(sequence) => {
            if let Some(step) = moment.session.history.get(sequence) {
                push(&mut found.strip, moment.session, step);
            }
        }
        What::Answer(sequence) => {
            if let Some(step) = moment.session.history.get(sequence)
                && let Some(cell) = found.strip.from(sequence).find(|cell| cell.sequence == sequence)
            {
                cell.ended = ended(step);
            }
        }
        What::Text(text) => found.strip.push(text_turn(moment.session.history.next_sequence(), text)),
        What::Other => {}
    }
}

/// What detectors and commands say about the event.
fn judge(found: &mut Loop, moment: &Moment<'_>) {
    found.calls = moment.session.history.next_sequence();
    found.in_loop.add(moment.spent);
    if !matches!(moment.what, What::Call(_) | What::Answer(_)) {
        found.texts_in_loop += moment.spent.calls;
    }
    for finding in moment.findings.iter().filter(|finding| counts(finding)) {
        found.last = moment.time;
        if !is_live(finding) {
            found.shadow_detectors |= finding.detector.bit();
            continue;
        }
        found.detectors |= finding.detector.bit();
        // Of a run, every call is part of the loop; of a window, only those that match, and of these the history tells the last. So it is of
        // failures in a row, which calls of other tools do not end.
        let looks_through = matches!(finding.detector, Detector::ShellFailures | Detector::TestFix);
        let first = if finding.window == 0 && !looks_through { finding.first } else { finding.last };
        if !matches!(moment.what, What::Text(_)) {
            for cell in found.strip.from(first).filter(|cell| cell.sequence <= finding.last) {
                cell.in_loop = true;
            }
        }
    }
    if moment.findings.iter().any(counts) && !moment.findings.iter().any(is_live) {
        found.in_shadow += 1;
    }
    let is_live_text = matches!(moment.what, What::Text(_)) && moment.findings.iter().any(is_live);
    for command in moment.commands {
        let deed = match command.action {
            Action::Nudge => Deed::Nudge,
            Action::Block => Deed::Block,
            Action::Unblock => continue,
        };
        match (command.is_shadow, deed) {
            (true, _) => found.shadow += 1,
            (false, Deed::Block) => found.blocks += 1,
            (false, _) => found.nudges += 1,
        }
        let cell = match moment.what {
            What::Answer(sequence) => found.strip.from(sequence).find(|cell| cell.sequence == sequence),
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

fn push(strip: &mut Strip, session: &Session, step: &Step) {
    let call = ((step.call.0 >> 64) as u64).max(1);
    let tool = strip.tool(session.history.tool(step));
    strip.note_excerpt(call, &step.excerpt);
    strip.push(Cell { sequence: step.sequence, call, tool, ended: ended(step), ..Cell::default() });
}

fn text_turn(next_sequence: u64, text: u64) -> Cell {
    Cell { sequence: next_sequence.saturating_sub(1), call: text, is_text: true, ..Cell::default() }
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
