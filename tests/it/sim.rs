//! The whole runtime from a seed: processes, lanes, group, clock, faults at every step; then calm (T18). A seed twice is the same
//! trace; every seed ends with the outcome of one lane without faults.

use std::{collections::BTreeMap, sync::Arc};

use loopwarden::policy::Policy;
use loopwarden::task::{CommitTrigger, LaneSettings};
use loopwarden_sim::Faults;

use crate::world::{Dice, Fed, Outcome, TestWorld, config, feed, fleet, policy, reference_under, settings};

/// Seeds of one run of the suite.
const SEEDS: u64 = 200;
const RECORDS: usize = 250;

/// Faults by kind: those of the broker, and those of processes.
pub(crate) type Counts = BTreeMap<String, u64>;

pub(crate) struct Simulated {
    trace: Vec<String>,
    pub(crate) outcome: Outcome,
    /// Of the broker: where and what.
    pub(crate) struck: Faults,
    /// Of processes.
    pub(crate) befell: Counts,
}

/// What is simulated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Of the input.
    pub(crate) fleet: u64,
    /// Of everything else.
    pub(crate) seed: u64,
    /// Faults at a thousand steps, at most. The seed draws from ten on.
    pub(crate) per_mille_max: u64,
    /// How many times slower input comes in, and processes come and go: so much longer faults last for each record.
    pub(crate) slower: u64,
}

impl Plan {
    /// As the suite has it: all of one seed.
    const fn of(seed: u64) -> Self {
        Self { fleet: seed, seed, per_mille_max: 70, slower: 1 }
    }

    pub(crate) fn records(&self) -> Vec<Fed> {
        fleet(self.fleet, RECORDS)
    }

    /// Every third input has tenants that are held to a limit.
    fn policy(&self) -> Arc<Policy> {
        if self.fleet.is_multiple_of(3) { crate::tenants::limited(20) } else { policy() }
    }

    /// What must come out.
    pub(crate) fn reference(&self, records: &[Fed]) -> Outcome {
        reference_under(self.policy(), records)
    }
}

/// One plan: faults while the input comes in, processes that die, stall, join and leave; then no more faults.
pub(crate) fn simulate(plan: Plan, records: &[Fed]) -> Simulated {
    let Plan { seed, per_mille_max, slower, .. } = plan;
    let mut befell = Counts::new();
    let mut note = |what: &str| *befell.entry(what.to_owned()).or_default() += 1;
    let dice = Dice::new(seed ^ 0x5eed);
    let trigger = CommitTrigger::Timed { max_ms: 20 + dice.below(600), min_ms: 1 + dice.below(200) };
    let lane_settings = LaneSettings {
        overlay_records_max: 1 + dice.below(100),
        cache_bytes_max: [1, 100_000, 10_000_000][dice.below(3) as usize],
        ..settings(trigger)
    };
    let mut world = TestWorld::new(config(1 + dice.below(30) as usize), lane_settings);
    world.policy = plan.policy();
    world.broker.set_faults(Faults::seed(seed, 10 + dice.below(per_mille_max - 10) as u32));
    world.rereads = dice.below(3);
    world.start("a", 1 + dice.below(2) as usize);
    world.start("b", 1 + dice.below(2) as usize);
    // A third one comes and goes.
    world.start("c", 1);
    world.stop(2, 0, true);
    let mut fed = 0;
    let mut stalled_until_ms = [0; 3];
    while fed < records.len() {
        match dice.below(100) {
            0..8 if dice.below(slower) == 0 => {
                let more = (1 + dice.below(25) as usize).min(records.len() - fed);
                feed(&world.broker, &records[fed..fed + more]);
                fed += more;
            }
            8..30 => world.broker.advance(dice.below(60) as i64),
            30 if dice.below(4) == 0 => {
                let at = dice.below(2) as usize;
                note("process killed");
                world.trace.push(format!("kill {at}"));
                world.restart(at);
            }
            31 if dice.below(8) == 0 => {
                // Stopped for longer than its session, then continued: a zombie.
                let at = dice.below(2) as usize;
                note("process stalled");
                stalled_until_ms[at] = world.broker.now_ms() + dice.below(15_000) as i64;
                world.trace.push(format!("stall {at}"));
            }
            32 if dice.below(8) == 0 => world.broker.advance(dice.below(12_000) as i64),
            33 if dice.below(4) == 0 => {
                note("changelog compacted");
                let task = crate::world::session_task(dice.below(3) as u32);
                world.broker.compact(task, false);
            }
            34..40 if dice.below(slower) == 0 => {
                note("process joins or leaves");
                world.trace.push("c".to_owned());
                if world.processes[2].lanes[0].is_some() { world.stop(2, 0, dice.below(4) > 0) } else { world.restart(2) }
            }
            _ => {
                let at = dice.below(3) as usize;
                let lane = dice.below(world.processes[at].lanes.len() as u64) as usize;
                if world.broker.now_ms() >= stalled_until_ms[at] {
                    world.turn(at, lane);
                }
            }
        }
    }
    let struck = world.broker.set_faults(Faults::none());
    world.trace.extend(struck.fired().iter().map(|fired| format!("{fired:?}")));
    assert!(world.settle(), "seed {seed} does not settle; exits {:?}\n{}", world.exits, tail(&world.trace));
    world.audit();
    Simulated { outcome: world.outcome(), trace: world.trace, struck, befell }
}

fn tail(trace: &[String]) -> String {
    trace[trace.len().saturating_sub(60)..].join("\n")
}

#[test]
fn every_seed_ends_as_if_nothing_had_happened() {
    // LOOPWARDEN_SIM_SEED runs one seed, LOOPWARDEN_SIM_SEEDS so many.
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seeds = match number("LOOPWARDEN_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("LOOPWARDEN_SIM_SEEDS").unwrap_or(SEEDS),
    };
    for seed in seeds {
        let plan = Plan::of(seed);
        let records = plan.records();
        let expected = plan.reference(&records);
        let simulated = std::panic::catch_unwind(|| simulate(plan, &records)).unwrap_or_else(|_| panic!("seed {seed}"));
        simulated.outcome.assert_is(&expected, &format!("seed {seed}"));
    }
}

#[test]
fn a_seed_twice_is_the_same_trace() {
    for seed in [1, 17, 42] {
        let (plan, records) = (Plan::of(seed), Plan::of(seed).records());
        let (first, second) = (simulate(plan, &records), simulate(plan, &records));
        assert!(first.trace == second.trace, "seed {seed}");
        assert!(first.outcome == second.outcome, "seed {seed}");
        assert!(first.trace.len() > 50);
    }
}
