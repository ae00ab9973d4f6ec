//! Runs of the swarm stage amid cuts, faults and restarts, beside one that nothing disturbs.

use std::sync::Arc;

use loopwarden::task::{CommitTrigger, LaneSettings};
use loopwarden::{event::partition_of, policy::Policy};
use loopwarden_sim::Faults;

use crate::swarm::{MINUTE_MS, feed, settle, world};
use crate::world::{Dice, TestWorld, settings};

/// A random turn of a random lane, and less than `pause_ms` of time.
pub(crate) fn random_turn(world: &mut TestWorld, dice: &Dice, pause_ms: u64) {
    let at = dice.below(world.processes.len() as u64) as usize;
    let lane = dice.below(world.processes[at].lanes.len() as u64) as usize;
    world.turn(at, lane);
    world.broker.advance(dice.below(pause_ms) as i64);
}

/// Settings of a trigger, with commits and caches that cut the input anywhere.
pub(crate) fn cut_anywhere(dice: &Dice, of: impl Fn(CommitTrigger) -> LaneSettings) -> LaneSettings {
    let trigger = CommitTrigger::Timed { max_ms: 20 + dice.below(200), min_ms: 1 + dice.below(20) };
    LaneSettings {
        overlay_records_max: 1 + dice.below(60),
        cache_bytes_max: [1, 1_000_000][dice.below(2) as usize],
        ..of(trigger)
    }
}

/// The same events judged by one process in one go, and by two amid cuts, faults and restarts, where one partition comes late.
pub(crate) fn whole_and_cut(
    seed: u64,
    dice: &Dice,
    policy: &Arc<Policy>,
    events: &[(String, String, i64)],
) -> (TestWorld, TestWorld) {
    let mut expected = world((4, 3), Arc::clone(policy), settings(CommitTrigger::EveryRecords(1)));
    for (session, json, time_ms) in events {
        feed(&expected, session, json, *time_ms);
    }
    expected.start("ref", 1);
    settle(&mut expected);

    let settings = cut_anywhere(dice, settings);
    let mut cut = world((4, 3), Arc::clone(policy), settings);
    cut.broker.set_faults(Faults::seed(seed, 5 + dice.below(40) as u32));
    for name in ["a", "b"] {
        cut.start(name, 1 + dice.below(2) as usize);
    }
    // Partition 0 comes ten minutes of event time behind the others.
    let (late, early): (Vec<_>, Vec<_>) = events.iter().partition(|(session, ..)| partition_of(session.as_bytes(), 4) == 0);
    let mut late = late.into_iter().peekable();
    for (session, json, time_ms) in early {
        while let Some((session, json, at)) = late.next_if(|(_, _, at)| at + 10 * MINUTE_MS <= *time_ms) {
            feed(&cut, session, json, *at);
        }
        feed(&cut, session, json, *time_ms);
        for _ in 0..dice.below(4) {
            random_turn(&mut cut, dice, 30);
        }
        if dice.below(120) == 0 {
            cut.restart(dice.below(2) as usize);
        }
    }
    for (session, json, time_ms) in late {
        feed(&cut, session, json, *time_ms);
    }
    cut.broker.set_faults(Faults::none());
    settle(&mut cut);
    (expected, cut)
}
