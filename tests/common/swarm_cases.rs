//! attocode's global cases, for every world that runs the whole pipeline: who calls what, and what the swarm must be told.
//!
//! Each worker is a session of its own, so that a case lies in as many partitions as it has workers.

/// What happens, in order; a second apart.
pub(crate) enum Act {
    /// A worker reads a file of the swarm.
    Read(&'static str, &'static str),
    /// A worker that belongs to no swarm reads a file.
    ReadAlone(&'static str, &'static str),
    /// The swarm is done: its counts are forgotten.
    Reset(&'static str),
    /// Every process dies and comes back.
    Restart,
}

use Act::{Read, ReadAlone, Reset, Restart};

/// One case.
pub(crate) struct SwarmCase {
    pub(crate) name: &'static str,
    /// Calls of a finding.
    pub(crate) threshold: u32,
    pub(crate) acts: &'static [Act],
    /// Calls and workers of each command to the swarm, in the order of their steps.
    pub(crate) told: &'static [(u64, u64)],
    /// Commands to single agents.
    pub(crate) told_agents: &'static [&'static str],
}

const A: &str = "/config.json";
const B: &str = "/other.json";

pub(crate) const SWARM_CASES: &[SwarmCase] = &[
    SwarmCase {
        name: "global_fires_at_total_across_workers",
        threshold: 5,
        acts: &[Read("w2", A), Read("w3", A), Read("w4", A), Read("w5", A), Read("w1", A)],
        told: &[(5, 5)],
        told_agents: &[],
    },
    SwarmCase {
        name: "global_below_threshold",
        threshold: 5,
        acts: &[Read("w2", A), Read("w3", A), Read("w1", A)],
        told: &[],
        told_agents: &[],
    },
    SwarmCase {
        name: "per_agent_loop_outranks_global",
        threshold: 3,
        acts: &[Read("w2", A), Read("w3", A), Read("w1", A), Read("w1", A), Read("w1", A)],
        // The agent has an order of its own; a worker gives that one precedence.
        told: &[(3, 3), (4, 3), (5, 3)],
        told_agents: &["w1"],
    },
    SwarmCase { name: "no_swarm_no_global", threshold: 1, acts: &[ReadAlone("w1", A)], told: &[], told_agents: &[] },
    SwarmCase {
        name: "global_default_threshold_ten",
        threshold: 10,
        acts: &[
            Read("w0", A),
            Read("w1", A),
            Read("w2", A),
            Read("w3", A),
            Read("w4", A),
            Read("w5", A),
            Read("w6", A),
            Read("w7", A),
            Read("w8", A),
            Read("w9", A),
        ],
        told: &[(10, 10)],
        told_agents: &[],
    },
    SwarmCase {
        name: "global_three_workers_two_each",
        threshold: 6,
        acts: &[Read("w1", A), Read("w1", A), Read("w2", A), Read("w2", A), Read("w3", A), Read("w3", A)],
        told: &[(6, 3)],
        told_agents: &[],
    },
    SwarmCase {
        name: "global_counts_repeat_workers_once",
        threshold: 3,
        acts: &[Read("w1", A), Read("w2", A), Read("w1", A)],
        told: &[(3, 2)],
        told_agents: &[],
    },
    SwarmCase {
        name: "global_state_survives_checkpoint",
        threshold: 5,
        acts: &[Read("w1", A), Read("w2", A), Read("w3", A), Read("w4", A), Restart, Read("w5", A)],
        told: &[(5, 5)],
        told_agents: &[],
    },
    SwarmCase {
        name: "global_clear",
        threshold: 2,
        acts: &[Read("w1", A), Reset("w1"), Read("w2", A)],
        told: &[],
        told_agents: &[],
    },
    SwarmCase {
        name: "global_fingerprints_are_independent",
        threshold: 5,
        acts: &[Read("w0", A), Read("w1", A), Read("w2", A), Read("w3", A), Read("w4", A), Read("wa", B), Read("wb", B)],
        told: &[(5, 5)],
        told_agents: &[],
    },
];

impl SwarmCase {
    /// The event of an act, `number` seconds after `start_ms`: session, value, time. `None` for a restart.
    pub(crate) fn event(&self, number: usize, start_ms: i64) -> Option<(String, String, i64)> {
        let time_ms = start_ms + number as i64 * 1_000;
        let common = |worker: &str| {
            let name = self.name;
            (format!("{name}-{worker}"), format!(r#""id":"{name}#{number}","session_id":"{name}-{worker}","time":{time_ms}"#))
        };
        let tool =
            |path: &str| format!(r#""kind":"tool","tool":"read_file","args":{{"path":"{path}"}},"result":"x","outcome":"ok""#);
        let swarm = format!(r#""swarm_id":"{}""#, self.name);
        let (session, json) = match &self.acts[number] {
            Read(worker, path) => {
                let (session, common) = common(worker);
                (session, format!("{{{common},{swarm},{}}}", tool(path)))
            }
            ReadAlone(worker, path) => {
                let (session, common) = common(worker);
                (session, format!("{{{common},{}}}", tool(path)))
            }
            Reset(worker) => {
                let (session, common) = common(worker);
                (session, format!(r#"{{{common},{swarm},"kind":"reset","scope":"swarm"}}"#))
            }
            Restart => return None,
        };
        Some((session, json, time_ms))
    }
}
