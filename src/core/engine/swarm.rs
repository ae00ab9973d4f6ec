//! The swarm machine: sums of one fingerprint over all workers of a swarm, or of one definition over the fleet.
//!
//! Decisions are functions of pane sums, which only grow: how calls are cut into reports, in which order they arrive, and how many
//! lanes there are changes no id (rules W2, W3). A command is sent when a window's sum crosses a step, never when a pane closes.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use crate::detect::{Finding, Flags, Said, Words, safe};
use crate::engine::command::{Action, Command, Fact, IdentityRecipe, Placement, ReasonCode, Scope, ScopeKind, Trigger, Verdict};
use crate::engine::effects::{Effects, SwarmCallKey};
use crate::engine::publish::command_id;
use crate::engine::sums::SwarmReport;
use crate::engine::swarm_verdicts::{arm_verdicts, blocks_until, hold};
use crate::engine::timer::{TimerChange, TimerKind};
use crate::engine::windows::{
    Contribution, Pane, Panes, Rules, contributors, is_block, is_in_window, is_shared, latest, left_out, new_steps, window,
    window_sums, window_workers,
};
use crate::event::EventTime;
use crate::identity::Hash64;
use crate::limits::{SWARM_PANE_BYTES_MAX, SWARM_PANE_LIFE_MS_MIN, TOOL_NAME_CHARS_SHOWN};
use crate::policy::{Detector, Mode, Notify, Policy, SwarmRepeat, SwarmSteps};

/// Lengths of two names, calls and a time, encoded; at most. Bytes.
const AGENT_BYTES: usize = 24;

/// One input of a swarm counter.
#[derive(Debug, Clone)]
pub enum SwarmInput {
    /// Sums of a lane.
    Report(SwarmReport),
    /// Calls up to this time no longer count.
    Reset(EventTime),
    /// A timer of this counter fell due.
    Timer(TimerKind, EventTime),
}

/// What a period has told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// Start of the period, or the reset in it.
    pub epoch: i64,
    /// Commands so far.
    pub seq: u64,
    /// Greatest step told.
    pub step: u32,
    /// Episode: the first command of the period.
    pub episode: crate::engine::command::CommandId,
}

/// The counter of one key.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SwarmCounter {
    /// Tool, for the text.
    pub tool: String,
    /// How a worker recomputes the fingerprint.
    pub recipe: Option<IdentityRecipe>,
    /// Panes by their start.
    pub panes: Panes,
    /// Calls up to this time no longer count; far past = no reset.
    pub floor: Option<EventTime>,
    /// What each period has told, by its start.
    pub periods: BTreeMap<i64, Period>,
    /// Live verdicts in force.
    pub verdicts: Vec<Verdict>,
    /// Greatest event time seen.
    pub time: EventTime,
    /// Where the panes' timer stands.
    pub panes_due: Option<EventTime>,
    /// Where the verdicts' timer stands.
    pub verdict_due: Option<EventTime>,
}

impl SwarmCounter {
    /// Calls and agents of the newest window, as they are judged by.
    #[must_use]
    pub fn newest_window(&self, policy: &SwarmRepeat) -> (u32, u32) {
        let newest = self.panes.keys().next_back().copied();
        newest.map_or((0, 0), |end| window(&self.panes, policy.window_ms, end))
    }

    /// Calls and agents of the window that comes nearest to a finding, of those that hold one of these panes: the fullest of those with
    /// enough agents, or else the fullest.
    #[must_use]
    pub fn nearest_window(&self, policy: &SwarmRepeat, touched: &[EventTime]) -> (u32, u32) {
        let ends = self.panes.keys().filter(|end| touched.iter().any(|pane| is_in_window(policy.window_ms, *pane, **end)));
        let windows = ends.map(|end| window(&self.panes, policy.window_ms, *end));
        windows.max_by_key(|(calls, agents)| (*agents >= policy.workers_min, *calls)).unwrap_or_default()
    }
}

/// What an agent takes in the record of its pane, at most. Bytes.
const fn agent_bytes((session, agent): &(String, String)) -> usize {
    session.len() + agent.len() + AGENT_BYTES
}

fn pane_bytes(pane: &Pane) -> usize {
    pane.agents.keys().map(agent_bytes).sum()
}

/// Applies reports to counters under one policy.
#[derive(Debug, Clone)]
pub struct SwarmEngine {
    app: Arc<str>,
    policy: Arc<Policy>,
}

impl SwarmEngine {
    /// An engine for an application and a policy.
    #[must_use]
    pub fn new(app: &str, policy: Arc<Policy>) -> Self {
        Self { app: app.into(), policy }
    }

    /// The application, whose name is in every id.
    pub(super) fn app(&self) -> &str {
        &self.app
    }

    fn rules(&self, key: &SwarmCallKey, tool: &str) -> Rules {
        let swarm = &self.policy.detectors.swarm_repeat;
        let fleet = &self.policy.detectors.fleet_rate;
        let tool = self.policy.tools.get(tool);
        match key {
            SwarmCallKey::Swarm { .. } => Rules {
                detector: Detector::SwarmRepeat,
                mode: swarm.mode,
                threshold: tool.scaled(swarm.threshold, false),
                block_at: tool.scaled(swarm.block_at, false),
                // A single agent's loop is its own, where more than one are asked for.
                block_shared_min: if swarm.workers_min > 1 {
                    tool.scaled(swarm.threshold.min(swarm.block_at / 2), false)
                } else {
                    0
                },
                workers_min: swarm.workers_min,
                window_ms: swarm.window_ms,
                period_ms: self.period_ms(key),
                steps: swarm.steps,
                notify: swarm.notify,
                workers_max: swarm.workers_max as usize,
            },
            SwarmCallKey::Fleet { .. } => Rules {
                detector: Detector::FleetRate,
                mode: fleet.mode,
                threshold: fleet.limit.saturating_add(1),
                block_at: fleet.limit.saturating_add(1),
                block_shared_min: 0,
                workers_min: 1,
                window_ms: fleet.window_ms,
                period_ms: self.period_ms(key),
                steps: SwarmSteps::Once,
                notify: Notify::Contributors,
                workers_max: swarm.workers_max as usize,
            },
        }
    }

    /// How long after its start a pane may still be added to, event time in ms; `None` in an endless window, where nothing is late.
    #[must_use]
    pub fn pane_life_ms(&self, key: &SwarmCallKey) -> Option<i64> {
        let window_ms = match key {
            SwarmCallKey::Swarm { .. } => self.policy.detectors.swarm_repeat.window_ms,
            SwarmCallKey::Fleet { .. } => self.policy.detectors.fleet_rate.window_ms,
        };
        (window_ms > 0).then(|| window_ms.max(SWARM_PANE_LIFE_MS_MIN))
    }

    /// The pane of a counter that keeps the calls of a reported one. An endless window has a single one: its sum is all there is to know,
    /// however long the swarm lives.
    #[must_use]
    pub fn pane_of(&self, key: &SwarmCallKey, reported: EventTime) -> EventTime {
        if self.pane_life_ms(key).is_some() { reported } else { EventTime(0) }
    }

    /// How long a swarm's reset must be remembered for counters that begin later, event time in ms: as long as a call before it is not
    /// late, and no period holds both sides of it. `None` = for ever.
    #[must_use]
    pub fn floor_life_ms(&self) -> Option<i64> {
        let swarm = &self.policy.detectors.swarm_repeat;
        let is_bounded = swarm.window_ms > 0 && swarm.cooldown_ms > 0;
        is_bounded.then(|| swarm.window_ms.max(SWARM_PANE_LIFE_MS_MIN).saturating_add(swarm.cooldown_ms))
    }

    /// Counters that one task keeps of one detector.
    #[must_use]
    pub fn keys_max(&self, detector: Detector) -> u64 {
        u64::from(match detector {
            Detector::FleetRate => self.policy.detectors.fleet_rate.keys_max,
            _ => self.policy.detectors.swarm_repeat.keys_max,
        })
    }

    /// Period within which a swarm is told a step once, in ms. What never decays is crossed once for ever, so an endless window has one
    /// endless period: 0.
    fn swarm_period_ms(&self) -> i64 {
        let swarm = &self.policy.detectors.swarm_repeat;
        if swarm.window_ms > 0 { swarm.cooldown_ms } else { 0 }
    }

    /// Length of the periods of a counter, in ms; 0: an endless one.
    pub(super) fn period_ms(&self, key: &SwarmCallKey) -> i64 {
        match key {
            SwarmCallKey::Swarm { .. } => self.swarm_period_ms(),
            SwarmCallKey::Fleet { .. } => self.policy.detectors.fleet_rate.window_ms,
        }
    }

    /// Until when a counter is worth keeping where there are too many: since then it was unseen. One that has told a step counts as
    /// seen to the end of its period: forgotten within it, it could tell the same step again. A period without end would keep it for
    /// ever, and counters that come later would find no room: there it leaves by its age, and what it tells anew has the id it had.
    #[must_use]
    pub fn kept_until(&self, key: &SwarmCallKey, counter: &SwarmCounter) -> EventTime {
        let period_ms = self.period_ms(key);
        let told = counter.periods.keys().next_back().filter(|_| period_ms > 0);
        told.map_or(counter.time, |start| counter.time.max(EventTime(*start).plus_ms(period_ms)))
    }

    /// Applies one input to the counter of `key`. Cannot fail.
    pub fn apply(&self, key: &SwarmCallKey, counter: &mut SwarmCounter, input: SwarmInput, out: &mut Effects) {
        match input {
            SwarmInput::Report(report) => self.report(key, counter, report, out),
            SwarmInput::Reset(time) => self.reset(key, counter, time, out),
            SwarmInput::Timer(kind, due) => self.timer(key, counter, kind, due, out),
        }
    }

    fn report(&self, key: &SwarmCallKey, counter: &mut SwarmCounter, report: SwarmReport, out: &mut Effects) {
        let SwarmReport { tool, recipe, record_time, entries } = report;
        let rules = self.rules(key, &tool);
        if counter.recipe.is_none() {
            counter.tool = tool;
            counter.recipe = Some(recipe);
        }
        let life_ms = rules.window_ms.max(SWARM_PANE_LIFE_MS_MIN);
        let mut touched = Vec::new();
        // The pane of the entry before, with the bytes of its agents: a report holds one pane.
        let mut sized: Option<(EventTime, usize)> = None;
        for entry in entries {
            let is_forgotten = counter.floor.is_some_and(|floor| entry.last <= floor);
            let is_too_late = rules.window_ms > 0 && entry.pane.plus_ms(life_ms) < counter.time;
            if is_forgotten || is_too_late {
                if is_too_late {
                    out.tally.swarm_late = out.tally.swarm_late.saturating_add(entry.calls);
                }
                continue;
            }
            counter.time = counter.time.max(entry.last);
            let start = self.pane_of(key, entry.pane);
            let pane = counter.panes.entry(start).or_default();
            let mut bytes = sized.filter(|(start, _)| *start == entry.pane).map_or_else(|| pane_bytes(pane), |(_, bytes)| bytes);
            let has_place = pane.agents.len() < rules.workers_max;
            match pane.agents.entry((entry.session_id, entry.agent_id)) {
                Entry::Occupied(known) => {
                    let agent = known.into_mut();
                    agent.calls = agent.calls.saturating_add(entry.calls);
                    agent.last = agent.last.max(entry.last);
                }
                Entry::Vacant(new) if has_place && bytes + agent_bytes(new.key()) <= SWARM_PANE_BYTES_MAX => {
                    bytes += agent_bytes(new.key());
                    new.insert(Contribution { calls: entry.calls, last: entry.last });
                }
                Entry::Vacant(_) => {
                    pane.further_calls = pane.further_calls.saturating_add(entry.calls);
                    pane.further_last = pane.further_last.max(entry.last);
                    out.tally.swarm_further = out.tally.swarm_further.saturating_add(entry.calls);
                }
            }
            sized = Some((entry.pane, bytes));
            if !touched.contains(&start) {
                touched.push(start);
            }
        }
        if touched.is_empty() {
            return;
        }
        // Sums of lanes that still count under the policy before, or did, arrive after the detector was switched off.
        if rules.mode.is_on() {
            self.judge(key, counter, &rules, &touched, record_time, out);
        }
        arm_panes(counter, &rules, life_ms, out);
    }

    /// Judges every window that a touched pane belongs to, earliest first.
    fn judge(
        &self,
        key: &SwarmCallKey,
        counter: &mut SwarmCounter,
        rules: &Rules,
        touched: &[EventTime],
        record_time: EventTime,
        out: &mut Effects,
    ) {
        for (end, sum) in window_sums(&counter.panes, rules, touched) {
            let start = if rules.period_ms > 0 { end.0 - end.0.rem_euclid(rules.period_ms) } else { 0 };
            let epoch = counter.floor.map_or(start, |floor| start.max(floor.0));
            let told_step = counter.periods.get(&start).filter(|period| period.epoch == epoch).map_or(0, |period| period.step);
            // Nearly every report crosses no step; workers are counted for those that do.
            if sum < rules.threshold || new_steps(rules, told_step, sum).next().is_none() {
                continue;
            }
            let workers = window_workers(&counter.panes, rules.window_ms, end);
            if workers < rules.workers_min {
                continue;
            }
            let mut steps: Vec<u32> = new_steps(rules, told_step, sum).collect();
            if steps.iter().any(|step| is_block(rules, *step)) && !is_shared(&counter.panes, rules, start, end) {
                steps.retain(|step| !is_block(rules, *step));
            }
            steps.sort_unstable();
            steps.dedup();
            if !steps.is_empty() {
                out.tally.swarm_steps = out.tally.swarm_steps.saturating_add(left_out(rules, told_step, sum));
            }
            for step in steps {
                let told = counter.periods.get(&start).filter(|period| period.epoch == epoch);
                let seq = told.map_or(1, |period| period.seq + 1);
                let episode = told.map(|period| period.episode);
                let crossing = Crossing { start, epoch, seq, step, sum, workers, end, episode };
                let command = self.command(key, counter, rules, &crossing, record_time);
                let period = Period { epoch, seq, step, episode: command.episode };
                counter.periods.insert(start, period);
                hold(counter, &command, rules.detector, out);
                out.commands.push(command);
            }
        }
    }

    fn command(
        &self,
        key: &SwarmCallKey,
        counter: &SwarmCounter,
        rules: &Rules,
        crossing: &Crossing,
        record_time: EventTime,
    ) -> Command {
        let recipe = counter.recipe.clone().unwrap_or(IdentityRecipe::Opaque);
        // What a worker cannot recompute must not be refused by it. A swarm nudge it cannot match it gives at the tool's next call.
        let can_match = recipe != IdentityRecipe::Opaque;
        let is_block = is_block(rules, crossing.step) && can_match;
        let action = if is_block { Action::Block } else { Action::Nudge };
        let (kind, fingerprint) = match key {
            SwarmCallKey::Swarm { fingerprint, .. } => (ScopeKind::Swarm, *fingerprint),
            SwarmCallKey::Fleet { fingerprint, .. } => (ScopeKind::Fleet, *fingerprint),
        };
        let subject = key.subject();
        let code = ReasonCode::Detector(rules.detector);
        let period_end = if rules.period_ms > 0 { crossing.start + rules.period_ms } else { 0 };
        let id = command_id(&self.app, &subject, crossing.epoch, crossing.seq, action, code, &period_end.to_string());
        let issued_at = record_time.max(counter.time);
        let lifetime = if is_block { self.policy.episodes.block_ms } else { self.policy.episodes.nudge_ms };
        let expires_at = if rules.detector == Detector::FleetRate {
            crossing.end.plus_ms(rules.window_ms)
        } else {
            // It runs from the loop on, by the counter's own time. What a report tells long after is over when it is told; it is told all
            // the same, so that no command hangs on the order of reports.
            let pane_end = crossing.end.plus_ms(self.policy.detectors.swarm_repeat.pane_ms);
            let late_ms = if rules.window_ms > 0 { counter.time.0.saturating_sub(pane_end.0).max(0) } else { 0 };
            issued_at.plus_ms(lifetime.saturating_sub(late_ms).max(0))
        };
        let tool = safe(&counter.tool, TOOL_NAME_CHARS_SHOWN);
        let said = self.said(rules, &tool, crossing, is_block);
        let latest = latest(&counter.panes, rules, crossing.end);
        let only = match rules.notify {
            Notify::Latest => latest.into_iter().collect(),
            Notify::Contributors => Vec::new(),
        };
        let is_tool_bound = !matches!(recipe, IdentityRecipe::Args);
        Command {
            id,
            action,
            subject,
            scope: Scope {
                kind,
                tool: is_tool_bound.then(|| counter.tool.clone()),
                fingerprint: Some((fingerprint, recipe)),
                only,
            },
            level: if is_block { 3 } else { 1 },
            epoch: crossing.epoch,
            seq: crossing.seq,
            episode: crossing.episode.unwrap_or(id),
            issued_at,
            expires_at,
            is_shadow: rules.mode == Mode::Shadow,
            reason: code,
            also: Vec::new(),
            confidence: Some(match rules.detector {
                Detector::FleetRate => 1.0,
                _ => 0.02f64.mul_add(f64::from(crossing.step.saturating_sub(rules.threshold)), 0.6).min(1.0),
            }),
            summary: said.summary,
            evidence: vec![
                ("count", Fact::Count(u64::from(crossing.sum))),
                ("threshold", Fact::Count(u64::from(rules.threshold))),
                ("calls_at_least", Fact::Count(u64::from(crossing.step))),
                ("workers", Fact::Count(u64::from(crossing.workers))),
                ("workers_at_least", Fact::Count(u64::from(rules.workers_min))),
                ("window_ms", Fact::Count(rules.window_ms.unsigned_abs())),
            ],
            message: Some(said.text),
            placement: Placement::NextTurn,
            advice: Some(said.advice),
            trigger: Trigger::Window { end: EventTime(period_end) },
            contributors: contributors(&counter.panes, rules, crossing.end),
            labels: Vec::new(),
        }
    }

    /// What the detector says of a window.
    fn said(&self, rules: &Rules, tool: &str, crossing: &Crossing, is_block: bool) -> Said {
        let finding = Finding::new(rules.detector, rules.mode, Hash64::NONE, crossing.sum, rules.threshold)
            .within(rules.window_ms.unsigned_abs());
        self.policy.detectors.words(&Words {
            finding: &finding,
            is_block,
            blocks_all: false,
            tier: 0,
            nudges: 0,
            tool,
            cycle: &[],
            flags: Flags::default(),
            changed: &[],
            workers: crossing.workers,
            rejects: false,
            seconds: None,
        })
    }

    fn timer(&self, key: &SwarmCallKey, counter: &mut SwarmCounter, kind: TimerKind, due: EventTime, out: &mut Effects) {
        let rules = self.rules(key, &counter.tool);
        match kind {
            TimerKind::Panes => {
                counter.panes_due = None;
                let life_ms = rules.window_ms.max(SWARM_PANE_LIFE_MS_MIN);
                if rules.window_ms > 0 {
                    counter.panes.retain(|start, _| start.plus_ms(life_ms) > due);
                    // An endless period is told once for ever.
                    let known_until = known_until(counter, &rules, life_ms);
                    counter.periods.retain(|start, _| rules.period_ms == 0 || known_until(*start) > due);
                }
                arm_panes(counter, &rules, life_ms, out);
                forget_if_idle(counter, out);
            }
            TimerKind::SwarmVerdicts => {
                counter.verdict_due = None;
                let before = counter.verdicts.len();
                counter.verdicts.retain(|verdict| verdict.expires_at > due);
                out.verdicts_changed = counter.verdicts.len() != before;
                arm_verdicts(counter, out);
                forget_if_idle(counter, out);
            }
            TimerKind::Idle | TimerKind::OpenCalls | TimerKind::Verdicts => {}
        }
    }
}

/// A step that a window's sum has reached.
struct Crossing {
    start: i64,
    epoch: i64,
    seq: u64,
    step: u32,
    sum: u32,
    workers: u32,
    end: EventTime,
    episode: Option<crate::engine::command::CommandId>,
}

/// Until when each period must be known: as long as its last pane may be added to, and the newest while a block stands, whose `unblock` is
/// the next word of it.
fn known_until(counter: &SwarmCounter, rules: &Rules, life_ms: i64) -> impl Fn(i64) -> EventTime + use<> {
    let (period_ms, newest) = (rules.period_ms, counter.periods.keys().next_back().copied());
    let blocks_until = blocks_until(counter);
    move |start| {
        let takes_calls = EventTime(start).plus_ms(period_ms).plus_ms(life_ms);
        blocks_until.filter(|_| newest == Some(start)).map_or(takes_calls, |until| until.max(takes_calls))
    }
}

/// The panes' timer stands where the oldest pane has lived, without a pane where the oldest period need not be known any more. An endless
/// window forgets nothing.
fn arm_panes(counter: &mut SwarmCounter, rules: &Rules, life_ms: i64, out: &mut Effects) {
    let of_pane = counter.panes.keys().next().map(|oldest| oldest.plus_ms(life_ms));
    let oldest = counter.periods.keys().next().filter(|_| rules.period_ms > 0);
    let of_period = oldest.map(|start| known_until(counter, rules, life_ms)(*start));
    let due = of_pane.or(of_period).filter(|_| rules.window_ms > 0);
    if counter.panes_due != due {
        out.timers.push(TimerChange { kind: TimerKind::Panes, was: counter.panes_due, now: due });
        counter.panes_due = due;
    }
}

fn forget_if_idle(counter: &mut SwarmCounter, out: &mut Effects) {
    if counter.panes.is_empty() && counter.verdicts.is_empty() && counter.periods.is_empty() {
        forget(counter, out);
    }
}

/// Nothing is left that must be known: the counter goes, with its timers.
pub(super) fn forget(counter: &mut SwarmCounter, out: &mut Effects) {
    for (kind, due) in [(TimerKind::Panes, counter.panes_due.take()), (TimerKind::SwarmVerdicts, counter.verdict_due.take())] {
        if due.is_some() {
            out.timers.push(TimerChange { kind, was: due, now: None });
        }
    }
    out.forgotten = true;
}
