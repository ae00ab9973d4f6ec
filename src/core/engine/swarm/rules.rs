//! The settings that a counter is judged by, and how long what it knows lives.

use crate::engine::effects::SwarmCallKey;
use crate::limits::SWARM_PANE_LIFE_MS_MIN;
use crate::policy::{Detector, Mode, Notify, Policy, SwarmSteps, Worker};

/// The settings that a counter is judged by: `swarm_repeat`'s or `fleet_rate`'s.
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
    pub(super) period_ms: i64,
    pub(super) steps: SwarmSteps,
    pub(super) notify: Notify,
    pub(super) workers_max: usize,
    /// How long after its start a pane lives. Event time, ms.
    pub(super) pane_life_ms: i64,
}

impl Rules {
    /// Of a counter under a policy.
    pub(super) fn of(policy: &Policy, key: &SwarmCallKey, tool: &str) -> Self {
        let swarm = &policy.detectors.swarm_repeat;
        let fleet = &policy.detectors.fleet_rate;
        let tool = policy.tools.get(tool);
        let pane_life_ms = life_ms(policy, key).unwrap_or(SWARM_PANE_LIFE_MS_MIN);
        match key {
            SwarmCallKey::Swarm { .. } => Self {
                detector: Detector::SwarmRepeat,
                mode: swarm.mode,
                threshold: tool.scaled(swarm.threshold, false),
                block_at: tool.scaled(swarm.block_at, false),
                // A single worker's loop is its own, where more than one are asked for.
                block_shared_min: if swarm.workers_min > 1 {
                    tool.scaled(swarm.threshold.min(swarm.block_at / 2), false)
                } else {
                    0
                },
                workers_min: swarm.workers_min,
                worker: swarm.worker,
                window_ms: swarm.window_ms,
                period_ms: period_ms(policy, key),
                steps: swarm.steps,
                notify: swarm.notify,
                workers_max: swarm.workers_max as usize,
                pane_life_ms,
            },
            SwarmCallKey::Fleet { .. } => Self {
                detector: Detector::FleetRate,
                mode: fleet.mode,
                threshold: fleet.limit.saturating_add(1),
                block_at: fleet.limit.saturating_add(1),
                block_shared_min: 0,
                workers_min: 1,
                worker: swarm.worker,
                window_ms: fleet.window_ms,
                period_ms: period_ms(policy, key),
                steps: SwarmSteps::Once,
                notify: Notify::Contributors,
                workers_max: swarm.workers_max as usize,
                pane_life_ms,
            },
            // What a budget is judged by stands in itself; its windows live as long as the others.
            SwarmCallKey::Budget { per, .. } => Self {
                detector: Detector::Budget,
                mode: Mode::Block,
                threshold: 1,
                block_at: 0,
                block_shared_min: 0,
                workers_min: 1,
                worker: swarm.worker,
                window_ms: per.window_ms(),
                period_ms: per.window_ms(),
                steps: SwarmSteps::Once,
                notify: Notify::Contributors,
                workers_max: 0,
                pane_life_ms,
            },
            SwarmCallKey::Tree { .. } => Self {
                detector: Detector::Tree,
                mode: policy.detectors.tree.mode,
                threshold: 1,
                block_at: 0,
                block_shared_min: 0,
                workers_min: 1,
                worker: Worker::Agent,
                window_ms: policy.detectors.tree.window_ms,
                period_ms: policy.detectors.tree.cooldown_ms,
                steps: SwarmSteps::Once,
                notify: Notify::Contributors,
                workers_max: swarm.workers_max as usize,
                pane_life_ms,
            },
        }
    }

    /// End of the period that begins at `start`; 0 of an endless one.
    pub(super) const fn period_end(&self, start: i64) -> i64 {
        if self.period_ms > 0 { start + self.period_ms } else { 0 }
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
