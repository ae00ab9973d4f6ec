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
}

impl Rules {
    /// Of a counter under a policy.
    pub(super) fn of(policy: &Policy, key: &SwarmCallKey, tool: &str) -> Self {
        let swarm = &policy.detectors.swarm_repeat;
        let fleet = &policy.detectors.fleet_rate;
        let tool = policy.tools.get(tool);
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
            },
        }
    }

    /// How long after its start a pane lives. Event time, ms.
    pub(super) fn pane_life_ms(&self) -> i64 {
        self.window_ms.max(SWARM_PANE_LIFE_MS_MIN)
    }

    /// End of the period that begins at `start`; 0 of an endless one.
    pub(super) const fn period_end(&self, start: i64) -> i64 {
        if self.period_ms > 0 { start + self.period_ms } else { 0 }
    }
}

/// Length of the periods of a counter, in ms; 0: an endless one. Within a period a step is published once. What never decays is crossed
/// once for ever, so an endless window has one endless period.
pub(super) const fn period_ms(policy: &Policy, key: &SwarmCallKey) -> i64 {
    let swarm = &policy.detectors.swarm_repeat;
    match key {
        SwarmCallKey::Swarm { .. } if swarm.window_ms > 0 => swarm.cooldown_ms,
        SwarmCallKey::Swarm { .. } => 0,
        SwarmCallKey::Fleet { .. } => policy.detectors.fleet_rate.window_ms,
    }
}
