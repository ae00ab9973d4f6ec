//! The settings that a counter is judged by, and how long what it knows lives.

use crate::engine::effects::SwarmCallKey;
use crate::event::EventTime;
use crate::limits::SWARM_PANE_LIFE_MS_MIN;
use crate::policy::{Detector, Mode, Notify, Policy, SwarmSteps, Worker};

/// The settings that a counter is judged by. Times in ms of event time; 0 is endless.
pub(super) struct Rules {
    pub(super) detector: Detector,
    pub(super) mode: Mode,
    pub(super) threshold: u32,
    pub(super) block_at: u32,
    /// Calls that a block needs beside the busiest worker's, and in its own period; 0 = no such bound.
    pub(super) block_shared_min: u32,
    pub(super) workers_min: u32,
    pub(super) worker: Worker,
    pub(super) window_ms: i64,
    pub(super) pane_ms: i64,
    pub(super) period_ms: i64,
    pub(super) steps: SwarmSteps,
    pub(super) notify: Notify,
    pub(super) workers_max: usize,
    /// How long after its start a pane lives.
    pub(super) pane_life_ms: i64,
    /// How long after its start a period must be known: as long as its last pane may be added to.
    pub(super) period_life_ms: i64,
}

impl Rules {
    /// Of a counter under a policy.
    pub(super) fn of(policy: &Policy, key: &SwarmCallKey, tool: &str) -> Self {
        let (swarm, fleet, tree) = (&policy.detectors.swarm_repeat, &policy.detectors.fleet_rate, &policy.detectors.tree);
        let pane_life_ms = life_ms(policy, key).unwrap_or(SWARM_PANE_LIFE_MS_MIN);
        let period_ms = period_ms(policy, key);
        // What a budget is judged by stands in itself. Its period is its pane.
        let of_budget = Self {
            detector: Detector::Budget,
            mode: Mode::Block,
            threshold: 1,
            block_at: 0,
            block_shared_min: 0,
            workers_min: 1,
            worker: swarm.worker,
            window_ms: period_ms,
            pane_ms: period_ms,
            period_ms,
            steps: SwarmSteps::Once,
            notify: Notify::Contributors,
            workers_max: swarm.workers_max as usize,
            pane_life_ms,
            period_life_ms: pane_life_ms,
        };
        let of_panes = Self { period_life_ms: period_ms.saturating_add(pane_life_ms), ..of_budget };
        match key {
            SwarmCallKey::Swarm { .. } => {
                let tool = policy.tools.get(tool);
                // A single worker's loop is its own, where more than one are asked for.
                let shared_min = if swarm.workers_min > 1 { swarm.threshold.min(swarm.block_at / 2) } else { 0 };
                Self {
                    detector: Detector::SwarmRepeat,
                    mode: swarm.mode,
                    threshold: tool.scaled(swarm.threshold, false),
                    block_at: tool.scaled(swarm.block_at, false),
                    block_shared_min: tool.scaled(shared_min, false),
                    workers_min: swarm.workers_min,
                    window_ms: swarm.window_ms,
                    pane_ms: swarm.pane_ms,
                    steps: swarm.steps,
                    notify: swarm.notify,
                    ..of_panes
                }
            }
            SwarmCallKey::Fleet { .. } => Self {
                detector: Detector::FleetRate,
                mode: fleet.mode,
                threshold: fleet.limit.saturating_add(1),
                block_at: fleet.limit.saturating_add(1),
                ..of_panes
            },
            SwarmCallKey::Tree { .. } => Self {
                detector: Detector::Tree,
                mode: tree.mode,
                worker: Worker::Agent,
                window_ms: tree.window_ms,
                pane_ms: tree.pane_ms(),
                ..of_panes
            },
            SwarmCallKey::Budget { .. } => of_budget,
        }
    }

    /// End of the period that begins at `start`; 0 of an endless one.
    pub(super) const fn period_end(&self, start: i64) -> EventTime {
        EventTime(if self.period_ms > 0 { start.saturating_add(self.period_ms) } else { 0 })
    }

    /// The pane that keeps the calls of a reported one. An endless window has a single one: its sum is all there is to know, however long
    /// the swarm lives.
    pub(super) const fn pane_of(&self, reported: EventTime) -> EventTime {
        if self.window_ms > 0 { reported } else { EventTime(0) }
    }

    /// Start of the period that a pane is in.
    pub(super) const fn period_of(&self, pane: EventTime) -> i64 {
        if self.period_ms > 0 { pane.0 - pane.0.rem_euclid(self.period_ms) } else { 0 }
    }
}

/// How long after its start a pane lives; `None` in an endless window, where nothing is late. Event time, ms.
pub(super) fn life_ms(policy: &Policy, key: &SwarmCallKey) -> Option<i64> {
    let window_ms = match key {
        SwarmCallKey::Swarm { .. } => policy.detectors.swarm_repeat.window_ms,
        SwarmCallKey::Fleet { .. } => policy.detectors.fleet_rate.window_ms,
        SwarmCallKey::Tree { .. } => policy.detectors.tree.window_ms,
        // The pane is the whole window: to its last moment comes what a partition may lag.
        SwarmCallKey::Budget { per, .. } => {
            return (per.window_ms() > 0).then(|| per.window_ms().saturating_add(SWARM_PANE_LIFE_MS_MIN));
        }
    };
    (window_ms > 0).then(|| window_ms.max(SWARM_PANE_LIFE_MS_MIN))
}

/// Length of the periods of a counter, in ms; 0: an endless one. Within a period a step is published once. What never decays is crossed
/// once for ever, so an endless window has one endless period.
pub(super) const fn period_ms(policy: &Policy, key: &SwarmCallKey) -> i64 {
    let swarm = &policy.detectors.swarm_repeat;
    match key {
        SwarmCallKey::Swarm { .. } if swarm.window_ms > 0 => swarm.cooldown_ms,
        SwarmCallKey::Swarm { .. } => 0,
        SwarmCallKey::Fleet { .. } => policy.detectors.fleet_rate.window_ms,
        SwarmCallKey::Budget { per, .. } => per.window_ms(),
        SwarmCallKey::Tree { .. } => policy.detectors.tree.cooldown_ms,
    }
}
