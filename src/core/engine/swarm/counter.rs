//! The counter of one fingerprint: its panes, what its periods have published, its verdicts and timers.

use std::{collections::BTreeMap, collections::btree_map::Entry};

use crate::engine::command::{CommandId, IdentityRecipe};
use crate::engine::swarm::windows::{Contribution, Pane, Panes, is_in_window, pane_calls, window};
use crate::engine::timer::{TimerKind, TimerTable};
use crate::engine::{effects::Effects, publishing::board::Board, swarm::rules::Rules, swarm::sums::SwarmEntry};
use crate::event::EventTime;
use crate::limits::{SWARM_PANE_BYTES_MAX, SWARM_PANES_MAX};
use crate::policy::{SwarmRepeat, Used, Worker};

/// Panes of a counter where time waits for a source: a window of as many panes as a policy may ask for, and as many beside it.
const SWARM_LAG_PANES_MAX: usize = 2 * SWARM_PANES_MAX;
/// Lengths of two names, calls and a time, encoded; at most. Bytes.
const AGENT_BYTES: usize = 24;

/// What a period has published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// Start of the period, or the reset in it.
    pub epoch: i64,
    /// Number of commands so far.
    pub seq: u64,
    /// Greatest step that was published.
    pub step: u32,
    /// Episode: the first command of the period.
    pub episode: CommandId,
}

/// The counter of one key.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SwarmCounter {
    /// Name of the tool, for the text.
    pub tool: String,
    /// How a worker recomputes the fingerprint.
    pub recipe: Option<IdentityRecipe>,
    /// Panes by the event time at which they begin.
    pub panes: Panes,
    /// Of a tree: what it has used in its whole life.
    pub life: Option<Used>,
    /// Calls up to this time no longer count; far past = no reset.
    pub floor: Option<EventTime>,
    /// What each period has published, by its start.
    pub periods: BTreeMap<i64, Period>,
    pub board: Board,
    /// Greatest event time that was seen.
    pub time: EventTime,
    /// When its timers are due.
    pub timers: TimerTable,
}

impl SwarmCounter {
    /// Calls and workers of the newest window, as they are judged by.
    #[must_use]
    pub fn newest_window(&self, policy: &SwarmRepeat) -> (u32, u32) {
        let newest = self.panes.keys().next_back().copied();
        newest.map_or((0, 0), |end| window(&self.panes, policy, end))
    }

    /// Calls and workers of the window that comes nearest to a finding, of those that hold one of these panes: the fullest of those with
    /// enough workers, or else the fullest.
    #[must_use]
    pub fn nearest_window(&self, policy: &SwarmRepeat, touched: &[EventTime]) -> (u32, u32) {
        let ends = self.panes.keys().filter(|end| touched.iter().any(|pane| is_in_window(policy.window_ms, *pane, **end)));
        let windows = ends.map(|end| window(&self.panes, policy, *end));
        windows.max_by_key(|(calls, workers)| (*workers >= policy.workers_min, *calls)).unwrap_or_default()
    }

    /// What a period has published since counting began in it.
    pub(super) fn published(&self, start: i64, epoch: i64) -> Option<Period> {
        self.periods.get(&start).filter(|period| period.epoch == epoch).copied()
    }

    /// Whether nothing is left that must be known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.panes.is_empty() && self.life.is_none() && self.periods.is_empty() && self.board.verdicts.is_empty()
    }

    /// Adds the calls of a report's entries to their panes; the panes that were touched. Where the stage's time waits for its sources, the stage alone decides what is late.
    pub(super) fn add(&mut self, rules: &Rules, is_aligned: bool, entries: Vec<SwarmEntry>, out: &mut Effects) -> Vec<EventTime> {
        let life_ms = rules.pane_life_ms;
        let mut touched = Vec::new();
        // The pane of the entry before, with the bytes of its agents: a report holds one pane.
        let mut sized: Option<(EventTime, usize)> = None;
        for entry in entries {
            let is_forgotten = self.floor.is_some_and(|floor| entry.last <= floor);
            let is_too_late = !is_aligned && rules.window_ms > 0 && entry.pane.plus_ms(life_ms) < self.time;
            if is_forgotten || is_too_late {
                if is_too_late {
                    out.counters.swarm_late = out.counters.swarm_late.saturating_add(entry.calls);
                }
                continue;
            }
            self.time = self.time.max(entry.last);
            let (reported, start) = (entry.pane, rules.pane_of(entry.pane));
            let pane = self.panes.entry(start).or_default();
            let mut bytes = sized.filter(|(start, _)| *start == reported).map_or_else(|| pane_bytes(pane), |(_, bytes)| bytes);
            let further = pane.take(rules, entry, &mut bytes);
            out.counters.swarm_further = out.counters.swarm_further.saturating_add(further);
            sized = Some((reported, bytes));
            if !touched.contains(&start) {
                touched.push(start);
            }
        }
        touched
    }

    /// Panes and periods that a lagging source keeps alive are bounded; the oldest go. What has been published stays published: a period
    /// that is forgotten takes no call any more.
    pub(super) fn bound(&mut self, rules: &Rules, out: &mut Effects) {
        if rules.window_ms <= 0 {
            return;
        }
        while self.panes.len() > SWARM_LAG_PANES_MAX {
            let Some((_, pane)) = self.panes.pop_first() else { return };
            out.counters.swarm_lag = out.counters.swarm_lag.saturating_add(pane_calls(&pane));
        }
        while rules.period_ms > 0 && self.periods.len() > SWARM_PANES_MAX {
            let Some((start, _)) = self.periods.pop_first() else { return };
            self.raise_floor(EventTime(start.saturating_add(rules.period_ms).saturating_sub(1)));
        }
    }

    /// Forgets calls up to a time; all steps are new.
    pub(super) fn raise_floor(&mut self, time: EventTime) -> EventTime {
        let floor = self.floor.map_or(time, |floor| floor.max(time));
        self.floor = Some(floor);
        for pane in self.panes.values_mut() {
            pane.agents.retain(|_, agent| agent.last > floor);
            if pane.further_last <= floor {
                pane.further_calls = 0;
            }
        }
        self.panes.retain(|_, pane| !pane.agents.is_empty() || pane.further_calls > 0);
        floor
    }

    /// Panes that have lived leave, and periods that need not be known any more. An endless window forgets nothing, and an endless
    /// period is published once for ever.
    pub(super) fn expire_panes(&mut self, rules: &Rules, now: EventTime) {
        let life_ms = rules.pane_life_ms;
        if rules.window_ms > 0 {
            self.panes.retain(|start, _| start.plus_ms(life_ms) > now);
            let known_until = self.known_until(rules);
            self.periods.retain(|start, _| rules.period_ms == 0 || known_until(*start) > now);
        }
    }

    /// Until when each period must be known: as long as its last pane may be added to, and the newest while a block stands, whose
    /// `unblock` is the next command of it.
    fn known_until(&self, rules: &Rules) -> impl Fn(i64) -> EventTime + use<> {
        let (life_ms, newest) = (rules.period_life_ms, self.periods.keys().next_back().copied());
        let blocks_until = self.board.verdicts.blocks().map(|block| block.expires_at).max();
        move |start| {
            let takes_calls = EventTime(start).plus_ms(life_ms);
            blocks_until.filter(|_| newest == Some(start)).map_or(takes_calls, |until| until.max(takes_calls))
        }
    }

    /// Moves both timers. That of panes stands where the oldest pane has lived, without a pane where the oldest period need not be known
    /// any more; an endless window forgets nothing. That of verdicts stands where the first of them expires.
    pub(super) fn arm(&mut self, rules: &Rules, out: &mut Effects) {
        let of_pane = self.panes.keys().next().map(|oldest| oldest.plus_ms(rules.pane_life_ms));
        let oldest = self.periods.keys().next().filter(|_| rules.period_ms > 0);
        let of_period = oldest.map(|start| self.known_until(rules)(*start));
        let due = of_pane.or(of_period).filter(|_| rules.window_ms > 0);
        self.timers.arm(TimerKind::Panes, due, &mut out.timers);
        self.timers.arm(TimerKind::SwarmVerdicts, self.board.verdicts.next_expiry(), &mut out.timers);
    }

    /// The counter goes, with its timers.
    pub(super) fn forget(&mut self, out: &mut Effects) {
        for kind in TimerKind::OF_COUNTER {
            self.timers.arm(kind, None, &mut out.timers);
        }
        out.forgotten = true;
    }
}

impl Pane {
    /// Adds calls of an agent; `bytes` is what the agents of the pane take. Returns the calls of those for whom there is no place.
    ///
    /// In any order of reports the same remains: of a session that counts as one, the agent that called last, of two at once the one whose
    /// name is the greater.
    fn take(&mut self, rules: &Rules, entry: SwarmEntry, bytes: &mut usize) -> u32 {
        let SwarmEntry { session_id, agent_id, calls, last, .. } = entry;
        let mut who = (session_id, agent_id);
        let mut made = Contribution { calls, last };
        if rules.worker == Worker::Session
            && let Some(known) = self.of_session(&who.0).filter(|known| *known != who)
            && let Some(before) = self.agents.get(&known).copied()
        {
            let is_later = (last, &who.1) > (before.last, &known.1);
            if is_later && *bytes - agent_bytes(&known) + agent_bytes(&who) <= SWARM_PANE_BYTES_MAX {
                *bytes -= agent_bytes(&known);
                self.agents.remove(&known);
                made.calls = made.calls.saturating_add(before.calls);
            } else {
                who = known;
            }
        }
        let has_place = self.agents.len() < rules.workers_max;
        match self.agents.entry(who) {
            Entry::Occupied(known) => {
                let agent = known.into_mut();
                agent.calls = agent.calls.saturating_add(made.calls);
                agent.last = agent.last.max(made.last);
            }
            Entry::Vacant(new) if has_place && *bytes + agent_bytes(new.key()) <= SWARM_PANE_BYTES_MAX => {
                *bytes += agent_bytes(new.key());
                new.insert(made);
            }
            Entry::Vacant(_) => {
                self.further_calls = self.further_calls.saturating_add(calls);
                self.further_last = self.further_last.max(last);
                return calls;
            }
        }
        0
    }

    /// The agent that stands for a session.
    fn of_session(&self, session: &str) -> Option<(String, String)> {
        let from = (session.to_owned(), String::new());
        self.agents.range(from..).next().map(|(who, _)| who).filter(|(of, _)| of == session).cloned()
    }
}

/// What an agent takes in the record of its pane, at most. Bytes.
const fn agent_bytes((session, agent): &(String, String)) -> usize {
    session.len() + agent.len() + AGENT_BYTES
}

fn pane_bytes(pane: &Pane) -> usize {
    pane.agents.keys().map(agent_bytes).sum()
}
