//! What is used of budgets and seen of trees, as panes and reports hold it.

use loopwarden_core::engine::{SeenBrief, Spawned};
use loopwarden_core::identity::{Hash64, Sketch};
use loopwarden_core::{event::EventTime, policy::Used};
use serde::{Deserialize, Serialize};

/// What was used of a budget, or by a tree.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredUsed {
    calls: u64,
    tokens: u64,
    cost_micro_usd: u64,
    agents: u64,
    ended: u64,
    depth: u32,
    first: i64,
    last: i64,
}

impl StoredUsed {
    pub(crate) const fn of(used: &Used) -> Self {
        let Used { calls, tokens, cost_micro_usd, agents, ended, depth, first, last } = *used;
        Self { calls, tokens, cost_micro_usd, agents, ended, depth, first: first.0, last: last.0 }
    }

    pub(crate) const fn into_used(self) -> Used {
        let Self { calls, tokens, cost_micro_usd, agents, ended, depth, first, last } = self;
        Used { calls, tokens, cost_micro_usd, agents, ended, depth, first: EventTime(first), last: EventTime(last) }
    }
}

#[derive(Serialize, Deserialize)]
struct StoredBrief {
    words: u64,
    times: u32,
    sketch: Vec<u32>,
}

/// What was seen of agents that were started.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredSpawned {
    began: u32,
    vain: u32,
    depth: u32,
    briefs: Vec<StoredBrief>,
    last: i64,
}

impl StoredSpawned {
    pub(crate) fn of(spawned: &Spawned) -> Self {
        let brief = |(words, seen): (&Hash64, &SeenBrief)| StoredBrief {
            words: words.0,
            times: seen.times,
            sketch: seen.sketch.hashes().to_vec(),
        };
        let Spawned { began, vain, depth, briefs, last } = spawned;
        Self { began: *began, vain: *vain, depth: *depth, briefs: briefs.iter().map(brief).collect(), last: last.0 }
    }

    pub(crate) fn into_spawned(self) -> Spawned {
        let Self { began, vain, depth, briefs, last } = self;
        let mut spawned = Spawned { began, vain, depth, last: EventTime(last), ..Spawned::default() };
        for StoredBrief { words, times, sketch } in briefs {
            spawned.add_brief(Hash64(words), &SeenBrief { times, sketch: Sketch::of_hashes(sketch) });
        }
        spawned
    }
}
