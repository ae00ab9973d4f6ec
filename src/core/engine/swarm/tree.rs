//! A tree of agents: what it has used in its life, and what its agents start within a window, by the name of its root.
//!
//! What is compared only grows with what is seen, so how it is cut into reports and in which order they come changes no id: within a period a
//! nudge is published once, and a block once.

use crate::detect::tree::{Settings, TreeQuantity, text};
use crate::engine::effects::{Effects, SwarmCallKey};
use crate::engine::publishing::command::{Action, Command, Fact, Origin, ReasonCode, Scope, ScopeKind, Trigger};
use crate::engine::swarm::counter::{Period, SwarmCounter};
use crate::engine::swarm::spawned::{Spawned, WHOLE_LIFE};
use crate::engine::swarm::windows::{contributors, is_in_window, pane_calls};
use crate::engine::{swarm::input::SwarmInput, swarm::rules::Rules, swarm::sums::SwarmReport, timer::TimerKind};
use crate::event::{EventTime, MAIN_AGENT};
use crate::policy::{Detector, Mode, Policy};

/// Agents of a tree that are named in a nudge; where more of them are its root, all of the tree hear it.
const ROOTS_MAX: usize = 16;
/// Steps of a period, the greatest of which is kept.
const NUDGED: u32 = 1;
const BLOCKED: u32 = 2;

/// The counter of a tree, under one policy.
pub(super) struct TreeCounter<'a> {
    app: &'a str,
    policy: &'a Policy,
    key: &'a SwarmCallKey,
    tree: &'a str,
}

/// What the panes of a window hold together.
struct Window {
    /// Pane that it ends with.
    end: EventTime,
    /// Calls that start an agent.
    spawns: u32,
    seen: Spawned,
}

impl Window {
    /// Agents that were started: who starts them may be seen, or they themselves.
    fn agents(&self) -> u32 {
        self.spawns.max(self.seen.began)
    }

    fn of(&self, quantity: TreeQuantity) -> u32 {
        match quantity {
            TreeQuantity::Agents => self.agents(),
            TreeQuantity::Repeats => self.seen.repeats(),
            TreeQuantity::Vain => self.seen.vain,
            TreeQuantity::Depth => self.seen.depth,
        }
    }

    /// What has reached its limit; of several what is furthest above it.
    fn reached(&self, settings: &Settings, is_block: bool) -> Option<Reached> {
        let limits = TreeQuantity::ALL.into_iter().zip(settings.limits(is_block)).filter(|(_, limit)| *limit > 0);
        let reached = limits.map(|(quantity, limit)| Reached { quantity, count: self.of(quantity), limit });
        let part = |reached: &Reached| f64::from(reached.count) / f64::from(reached.limit);
        reached.filter(|reached| reached.count >= reached.limit).max_by(|a, b| part(a).total_cmp(&part(b)))
    }
}

/// A limit that was reached.
#[derive(Clone, Copy)]
struct Reached {
    quantity: TreeQuantity,
    count: u32,
    limit: u32,
}

impl<'a> TreeCounter<'a> {
    /// None where the key is of no tree.
    pub(super) fn of(app: &'a str, policy: &'a Policy, key: &'a SwarmCallKey) -> Option<Self> {
        let SwarmCallKey::Tree { tree, .. } = key else { return None };
        Some(Self { app, policy, key, tree })
    }

    const fn settings(&self) -> &'a Settings {
        &self.policy.detectors.tree
    }

    pub(super) fn apply(&self, counter: &mut SwarmCounter, input: SwarmInput, is_aligned: bool, out: &mut Effects) {
        match input {
            SwarmInput::Report(report) => self.report(counter, report, is_aligned, out),
            SwarmInput::Timer(kind, at) => self.fire(counter, kind, at, out),
            // A reset is of a swarm's loops, and limits of another policy hold from the next agent on.
            SwarmInput::Reset(_) | SwarmInput::Compare => {}
        }
    }

    fn report(&self, counter: &mut SwarmCounter, report: SwarmReport, is_aligned: bool, out: &mut Effects) {
        let SwarmReport { record_time, entries, used, spawned, .. } = report;
        let rules = Rules::of(self.policy, self.key, "");
        if let Some(window) = used {
            counter.time = counter.time.max(window.used.last);
            counter.panes.entry(WHOLE_LIFE).or_default().used.get_or_insert_default().add(&window.used);
        }
        let Some(window) = spawned else { return };
        let is_late = !is_aligned && window.start.plus_ms(rules.pane_life_ms) < counter.time;
        if is_late {
            let calls = entries.iter().fold(0, |sum: u32, entry| sum.saturating_add(entry.calls));
            out.counters.swarm_late = out.counters.swarm_late.saturating_add(calls);
            return;
        }
        // Who starts agents is kept as who calls in a swarm is.
        counter.add(&rules, true, entries, |pane| pane, out);
        counter.time = counter.time.max(window.spawned.last);
        counter.panes.entry(window.start).or_default().spawned.get_or_insert_default().add(&window.spawned);
        if is_aligned {
            let life = counter.panes.remove(&WHOLE_LIFE);
            counter.bound(&rules, out);
            counter.panes.extend(life.map(|pane| (WHOLE_LIFE, pane)));
        }
        if rules.mode.is_on() {
            self.judge(counter, &rules, window.start, record_time, out);
        }
        Self::arm(counter, &rules, out);
    }

    /// Judges every window that a pane belongs to, earliest first.
    fn judge(&self, counter: &mut SwarmCounter, rules: &Rules, touched: EventTime, record_time: EventTime, out: &mut Effects) {
        let of_pane = |end: &&EventTime| is_in_window(rules.window_ms, touched, **end);
        let ends: Vec<EventTime> = counter.panes.range(touched..).map(|(end, _)| end).take_while(of_pane).copied().collect();
        for end in ends {
            let start = end.0 - end.0.rem_euclid(rules.period_ms.max(1));
            let published = counter.periods.get(&start).map_or(0, |period| period.step);
            // Without a tool that starts agents there is none to refuse.
            let may_block = rules.mode != Mode::Nudge && !self.policy.tools.spawning().is_empty();
            let last = if may_block { BLOCKED } else { NUDGED };
            if published >= last {
                continue;
            }
            let window = Self::window(counter, rules, end);
            for step in [NUDGED, BLOCKED].into_iter().filter(|step| (published + 1..=last).contains(step)) {
                if let Some(reached) = window.reached(self.settings(), step == BLOCKED) {
                    self.publish(counter, rules, &window, step, reached, record_time, out);
                }
            }
        }
    }

    fn window(counter: &SwarmCounter, rules: &Rules, end: EventTime) -> Window {
        let from = EventTime(end.0.saturating_sub(rules.window_ms - 1));
        let mut window = Window { end, spawns: 0, seen: Spawned::default() };
        for pane in counter.panes.range(from..=end).map(|(_, pane)| pane) {
            window.spawns = window.spawns.saturating_add(pane_calls(pane));
            if let Some(spawned) = &pane.spawned {
                window.seen.add(spawned);
            }
        }
        window
    }

    #[expect(clippy::too_many_arguments, reason = "what a window of a counter has crossed, and when")]
    fn publish(
        &self,
        counter: &mut SwarmCounter,
        rules: &Rules,
        window: &Window,
        step: u32,
        reached: Reached,
        record_time: EventTime,
        out: &mut Effects,
    ) {
        let start = window.end.0 - window.end.0.rem_euclid(rules.period_ms.max(1));
        let before = counter.periods.get(&start).copied();
        let (seq, period_end) = (before.map_or(1, |period| period.seq + 1), rules.period_end(start));
        let issued_at = record_time.max(counter.time);
        let origin = Origin {
            app: self.app,
            subject: self.key.subject(),
            epoch: start,
            seq,
            cause: &period_end.to_string(),
            issued_at,
            trigger: Trigger::Window { end: EventTime(period_end) },
        };
        let is_block = step == BLOCKED;
        let (action, level) = if is_block { (Action::Block, 3) } else { (Action::Nudge, 1) };
        let lifetime_ms = if is_block { self.policy.episodes.block_ms } else { self.policy.episodes.nudge_ms };
        // It runs from what was seen on, by the counter's own time: what a report brings long after is over when it is published.
        let late_ms = counter.time.0.saturating_sub(window.end.plus_ms(self.settings().pane_ms()).0).max(0);
        let expires_at = issued_at.plus_ms(lifetime_ms.saturating_sub(late_ms).max(0));
        let begun = Command::new(
            origin,
            action,
            ReasonCode::Detector(Detector::Tree),
            self.scope(counter, rules, window, is_block),
            level,
            expires_at,
        );
        let text = text(reached.quantity, reached.count, rules.window_ms, is_block);
        let command = Command {
            episode: before.map_or(begun.id, |period| period.episode),
            is_shadow: rules.mode == Mode::Shadow,
            confidence: Some(1.0),
            summary: text.summary,
            evidence: evidence(counter, window, reached, rules.window_ms),
            message: Some(text.text),
            advice: Some(text.advice),
            contributors: contributors(&counter.panes, rules, window.end),
            ..begun
        };
        counter.periods.insert(start, Period { epoch: start, seq, step, episode: command.episode });
        if counter.verdicts.activate(&command, Detector::Tree, counter.time) {
            out.verdicts_changed = true;
        }
        out.commands.push(command);
    }

    /// A block binds all calls that start agents, in the whole tree. A nudge is for the root, where it is among those that start agents.
    fn scope(&self, counter: &SwarmCounter, rules: &Rules, window: &Window, is_block: bool) -> Scope {
        let all = Scope { kind: ScopeKind::Group, tool: None, tools: Vec::new(), fingerprint: None, only: Vec::new() };
        if is_block {
            return Scope { tools: self.policy.tools.spawning(), ..all };
        }
        let from = EventTime(window.end.0.saturating_sub(rules.window_ms - 1));
        let agents = counter.panes.range(from..=window.end).flat_map(|(_, pane)| pane.agents.keys());
        let is_root = |(session, agent): &&(String, String)| {
            agent == self.tree || (session == self.tree && (agent == MAIN_AGENT || agent == session))
        };
        let mut roots: Vec<(String, String)> = agents.filter(is_root).cloned().collect();
        roots.sort_unstable();
        roots.dedup();
        Scope { only: if roots.len() > ROOTS_MAX { Vec::new() } else { roots }, ..all }
    }

    fn arm(counter: &mut SwarmCounter, rules: &Rules, out: &mut Effects) {
        let life = counter.panes.remove(&WHOLE_LIFE);
        counter.arm_panes(rules, out);
        counter.panes.extend(life.map(|pane| (WHOLE_LIFE, pane)));
        counter.arm_verdicts(out);
    }

    fn fire(&self, counter: &mut SwarmCounter, kind: TimerKind, at: EventTime, out: &mut Effects) {
        counter.timers.fired(kind);
        let rules = Rules::of(self.policy, self.key, "");
        if kind == TimerKind::Panes {
            let life = counter.panes.remove(&WHOLE_LIFE);
            counter.expire_panes(&rules, at);
            counter.panes.extend(life.map(|pane| (WHOLE_LIFE, pane)));
        } else {
            out.verdicts_changed = !counter.verdicts.expire(at).is_empty();
        }
        // What a tree has used stays known until others need the room.
        if counter.panes.is_empty() && counter.verdicts.is_empty() && counter.periods.is_empty() {
            counter.forget(out);
        } else {
            Self::arm(counter, &rules, out);
        }
    }
}

/// What was counted in the window, and what the tree has used in its life.
fn evidence(counter: &SwarmCounter, window: &Window, reached: Reached, window_ms: i64) -> Vec<(&'static str, Fact)> {
    let used = counter.panes.get(&WHOLE_LIFE).and_then(|pane| pane.used).unwrap_or_default();
    let count = |name, count: u32| (name, Fact::Count(u64::from(count)));
    vec![
        ("quantity", Fact::Text(reached.quantity.as_str().to_owned())),
        count("count", reached.count),
        count("threshold", reached.limit),
        count("agents", window.agents()),
        count("repeats", window.seen.repeats()),
        count("alike", window.seen.alike()),
        count("vain", window.seen.vain),
        count("depth", window.seen.depth),
        ("living", Fact::Count(used.agents.saturating_sub(used.ended))),
        ("calls", Fact::Count(used.calls)),
        ("tokens", Fact::Count(used.tokens)),
        ("cost_micro_usd", Fact::Count(used.cost_micro_usd)),
        ("window_ms", Fact::Count(window_ms.unsigned_abs())),
    ]
}
