//! Windows of a swarm's counter: their sums, who made them up, and the steps that a sum crosses. Functions of panes alone.

use std::collections::BTreeMap;

use crate::engine::{swarm::rules::Rules, swarm::spawned::Spawned};
use crate::event::EventTime;
use crate::limits::SWARM_STEPS_MAX;
use crate::policy::{Mode, SwarmRepeat, SwarmSteps, Used, Worker};

/// Contributing sessions named in a command, for people.
const CONTRIBUTORS_MAX: usize = 8;

/// Calls of one agent, or one session, in one pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contribution {
    /// What was counted: steps, calls, texts or what a budget is of.
    pub calls: u32,
    /// Event time of the last.
    pub last: EventTime,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pane {
    /// Agents of the pane, by (session, agent). Where sessions count, each stands once, with the agent that called last. At most `workers_max`, and [`crate::limits::SWARM_PANE_BYTES_MAX`] of them.
    pub agents: BTreeMap<(String, String), Contribution>,
    /// Calls of agents beyond these bounds: they count, their number saturates.
    pub further_calls: u32,
    /// Event time of the last of these.
    pub further_last: EventTime,
    /// Of a budget: what was used in this window of it.
    pub used: Option<Used>,
    /// Of a tree: what was seen of agents that were started.
    pub spawned: Option<Spawned>,
}

/// The panes of a counter, by their start.
pub type Panes = BTreeMap<EventTime, Pane>;

pub(super) fn pane_calls(pane: &Pane) -> u32 {
    pane.agents.values().fold(pane.further_calls, |sum, agent| sum.saturating_add(agent.calls))
}

fn calls_of<'a>(panes: impl Iterator<Item = &'a Pane>) -> u32 {
    panes.map(pane_calls).fold(0, u32::saturating_add)
}

/// A window ends with a pane and spans those less than `window_ms` before it; 0 is one endless window.
pub(super) const fn is_in_window(window_ms: i64, pane: EventTime, end: EventTime) -> bool {
    window_ms == 0 || (pane.0 <= end.0 && end.0 - pane.0 < window_ms)
}

/// Panes from one time to another, in order.
fn panes_between(panes: &Panes, from: i64, to: i64) -> impl Iterator<Item = (&EventTime, &Pane)> {
    panes.range(EventTime(from)..=EventTime(to.max(from)))
}

/// The windows that hold a touched pane, earliest first: the pane they end with, and their calls. Each pane joins the sum once and leaves
/// it once, however many windows it is in.
pub(super) fn window_sums(panes: &Panes, rules: &Rules, touched: &[EventTime]) -> Vec<(EventTime, u32)> {
    let (Some(first), Some(last)) = (touched.iter().min(), touched.iter().max()) else { return Vec::new() };
    if rules.window_ms == 0 {
        return vec![(*first, calls_of(panes.values()))];
    }
    let (from, to) = (first.0.saturating_sub(rules.window_ms), last.0.saturating_add(rules.window_ms));
    let calls: Vec<(EventTime, u64)> =
        panes_between(panes, from, to).map(|(start, pane)| (*start, u64::from(pane_calls(pane)))).collect();
    let (mut sums, mut sum, mut oldest) = (Vec::new(), 0, calls.iter().peekable());
    for (end, added) in &calls {
        sum += added;
        while let Some((_, gone)) = oldest.next_if(|(start, _)| !is_in_window(rules.window_ms, *start, *end)) {
            sum -= gone;
        }
        if touched.iter().any(|pane| is_in_window(rules.window_ms, *pane, *end)) {
            sums.push((*end, u32::try_from(sum).unwrap_or(u32::MAX)));
        }
    }
    sums
}

/// Whether a step is published with a block, where the fingerprint lets a worker match it.
pub(super) const fn is_block(rules: &Rules, step: u32) -> bool {
    matches!(rules.mode, Mode::Block) && rules.block_at > 0 && step >= rules.block_at
}

/// Whether enough of a window's calls are recent, and are not its busiest worker's, for a block of all. One agent that loops is that agent's
/// detectors' business, and after a block that has expired a single call is no proof that all go on.
pub(super) fn is_shared(panes: &Panes, rules: &Rules, period_start: i64, end: EventTime) -> bool {
    let of_period = panes_between(panes, period_start, end.0).map(|(_, pane)| pane);
    if calls_of(of_period) < rules.block_shared_min {
        return false;
    }
    let mut workers: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for (who, contribution) in in_window(panes, rules.window_ms, end) {
        let calls = workers.entry(worker_of(rules.worker, who)).or_default();
        *calls = calls.saturating_add(contribution.calls);
    }
    let all = calls_of(panes_of(panes, rules.window_ms, end));
    all.saturating_sub(workers.values().max().copied().unwrap_or(0)) >= rules.block_shared_min
}

/// Whom calls of an agent are put down to.
fn worker_of(worker: Worker, (session, agent): &(String, String)) -> (&str, &str) {
    match worker {
        Worker::Session => (session, ""),
        Worker::Agent => (session, agent),
    }
}

/// Calls and workers of the window that ends with a pane.
pub(super) fn window(panes: &Panes, policy: &SwarmRepeat, end: EventTime) -> (u32, u32) {
    (calls_of(panes_of(panes, policy.window_ms, end)), window_workers(panes, policy.worker, policy.window_ms, end))
}

pub(super) fn window_workers(panes: &Panes, worker: Worker, window_ms: i64, end: EventTime) -> u32 {
    let mut workers: Vec<(&str, &str)> = in_window(panes, window_ms, end).map(|(who, _)| worker_of(worker, who)).collect();
    workers.sort_unstable();
    workers.dedup();
    workers.len() as u32
}

/// The steps to be published at a sum: those above the greatest one published. A block has a step of its own, out of order or among the others.
pub(super) fn new_steps(rules: &Rules, published: u32, sum: u32) -> impl Iterator<Item = u32> {
    let kind = rules.steps;
    let first = match kind {
        SwarmSteps::Each => rules.threshold.max(published.saturating_add(1)).saturating_add(left_out(rules, published, sum)),
        SwarmSteps::Once | SwarmSteps::Double => rules.threshold,
    };
    let after = move |step: &u32| match kind {
        SwarmSteps::Once => None,
        SwarmSteps::Double => step.checked_mul(2),
        SwarmSteps::Each => step.checked_add(1),
    };
    let block = (rules.mode == Mode::Block && rules.block_at > rules.threshold).then_some(rules.block_at);
    let steps = std::iter::successors(Some(first), after).take_while(move |step| *step <= sum);
    steps.chain(block).filter(move |step| (published.saturating_add(1)..=sum).contains(step))
}

/// Steps that are not published where each is one and a report brings more than may be published at once: the lowest of them.
pub(super) fn left_out(rules: &Rules, published: u32, sum: u32) -> u32 {
    let first = rules.threshold.max(published.saturating_add(1));
    let new = if sum >= first { (sum - first).saturating_add(1) } else { 0 };
    if rules.steps == SwarmSteps::Each { new.saturating_sub(SWARM_STEPS_MAX) } else { 0 }
}

/// The panes of the window that ends with one.
fn panes_of(panes: &Panes, window_ms: i64, end: EventTime) -> impl Iterator<Item = &Pane> {
    let (from, to) = if window_ms == 0 { (i64::MIN, i64::MAX) } else { (end.0.saturating_sub(window_ms - 1), end.0) };
    panes_between(panes, from, to).map(|(_, pane)| pane)
}

fn in_window(panes: &Panes, window_ms: i64, end: EventTime) -> impl Iterator<Item = (&(String, String), &Contribution)> {
    panes_of(panes, window_ms, end).flat_map(|pane| pane.agents.iter())
}

/// attocode's "whose check runs": the greatest (last time, id).
pub(super) fn latest(panes: &Panes, rules: &Rules, end: EventTime) -> Option<(String, String)> {
    in_window(panes, rules.window_ms, end).max_by_key(|(who, contribution)| (contribution.last, *who)).map(|(who, _)| who.clone())
}

pub(super) fn contributors(panes: &Panes, rules: &Rules, end: EventTime) -> Vec<String> {
    let mut sessions: Vec<String> = in_window(panes, rules.window_ms, end).map(|((session, _), _)| session.clone()).collect();
    sessions.sort_unstable();
    sessions.dedup();
    sessions.truncate(CONTRIBUTORS_MAX);
    sessions
}
