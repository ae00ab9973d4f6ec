//! Partitions that catch up at different speeds, days of event time apart: what a swarm is told is what a replay in the order of recording
//! tells it, and its time stands still for nobody who is silent.

use std::collections::BTreeSet;

use loopwarden::event::{EventTime, partition_of};
use loopwarden::log::Partitions;
use loopwarden::store::{Position, StateKey, StateStore};
use loopwarden::task::{CommitTrigger, LaneSettings};
use loopwarden_sim::{Faults, MemoryConfig};

use crate::cuts::{cut_anywhere, random_turn};
use crate::swarm::{MINUTE_MS, START_MS, TIMED, failing, ids, policy, replay, report, settle, stats, swarm_task, world};
use crate::world::{Dice, TestWorld, WALL_MS, session_task, settings};

const PARTITIONS: Partitions = Partitions { session: 4, swarm: 3 };
const HOUR_MS: i64 = 60 * MINUTE_MS;

/// When the record of an event was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recorded {
    /// As it came.
    OnArrival,
    /// When the event happened, days before it came: a mirror that keeps timestamps, an import.
    WithTheEvent,
}

/// An event: session, JSON, time.
type Fed = (String, String, i64);

/// Calls of forty hours: every hundred minutes a swarm loops, with just enough calls to be told so. Sorted by time.
fn calls(seed: u64) -> Vec<Fed> {
    let dice = Dice::new(seed);
    let mut calls = Vec::new();
    for burst in 0..24 {
        for call in 0..10 {
            let session = format!("s{}", dice.below(25));
            let time_ms = START_MS + burst * 100 * MINUTE_MS + call * 40_000;
            let (swarm, url) = (format!("w{}", burst % 2), format!("http://dead{}", burst % 3));
            let json = failing(&session, calls.len(), &swarm, &url, time_ms);
            calls.push((session, json, time_ms));
        }
    }
    calls
}

/// Ids that a replay of the calls gives.
fn replayed(calls: &[Fed]) -> BTreeSet<String> {
    let dir = crate::store::temp_dir::TempDir::new();
    let path = dir.path().join("events.ndjson");
    let lines: Vec<&str> = calls.iter().map(|(_, json, _)| json.as_str()).collect();
    std::fs::write(&path, lines.join("\n")).unwrap();
    replay(&path, 1, 16).into_iter().collect()
}

fn aligned(trigger: CommitTrigger) -> LaneSettings {
    LaneSettings { aligns_sources: true, partitions: Some(PARTITIONS), ..settings(trigger) }
}

fn simulate(seed: u64, calls: &[Fed], recorded: Recorded) -> TestWorld {
    let dice = Dice::new(seed ^ 0x1a6);
    let settings = cut_anywhere(&dice, aligned);
    let mut world = world((PARTITIONS.session, PARTITIONS.swarm), policy("default", ""), settings);
    for name in ["a", "b"] {
        world.start(name, 1 + dice.below(2) as usize);
    }
    // Some runs begin with all of the input there, some with partitions that have been silent for long.
    for _ in 0..dice.below(1_000) {
        random_turn(&mut world, &dice, 60);
    }
    world.broker.set_faults(Faults::seed(seed, 5 + dice.below(40) as u32));
    // One partition lags as long as the others have anything to read.
    let slow = session_task(dice.below(u64::from(PARTITIONS.session)) as u32);
    world.broker.lag(slow, i64::MAX / 2);
    for (session, json, time_ms) in calls {
        let recorded_ms = match recorded {
            Recorded::OnArrival => WALL_MS + world.broker.now_ms(),
            Recorded::WithTheEvent => *time_ms,
        };
        feed_at(&world, session, json, recorded_ms);
        for _ in 0..dice.below(6) {
            random_turn(&mut world, &dice, 60);
        }
        if dice.below(50) == 0 {
            world.restart(dice.below(2) as usize);
        }
    }
    for _ in 0..dice.below(2_000) {
        random_turn(&mut world, &dice, 60);
    }
    world.broker.lag(slow, 0);
    // Slowly, so that its lane says in between how far it is.
    for _ in 0..100 {
        random_turn(&mut world, &dice, 60);
        world.broker.advance(dice.below(4_000) as i64);
    }
    world.broker.set_faults(Faults::none());
    settle(&mut world);
    world
}

fn feed_at(world: &TestWorld, session: &str, json: &str, recorded_ms: i64) {
    let partition = partition_of(session.as_bytes(), PARTITIONS.session);
    world.broker.append(session_task(partition), Some(session.as_bytes()), Some(json.as_bytes()), recorded_ms);
}

/// Lets virtual time pass while lanes turn and nothing comes.
fn wait(world: &mut TestWorld, ms: i64) {
    for _ in 0..ms / 1_000 {
        world.broker.advance(1_000);
        settle(world);
    }
}

fn time_of(world: &TestWorld, partition: u32) -> EventTime {
    let task = swarm_task(partition);
    let position = world.store_of(task).get(task, &StateKey::position()).unwrap();
    position.map(|bytes| Position::decode(&bytes).unwrap().watermark).unwrap_or_default()
}

#[test]
fn what_a_swarm_is_told_depends_on_no_lag_however_long() {
    for seed in 0..30 {
        let calls = calls(seed);
        let expected = replayed(&calls);
        assert!(expected.len() >= 20, "{}", expected.len());
        for recorded in [Recorded::OnArrival, Recorded::WithTheEvent] {
            let world = simulate(seed, &calls, recorded);
            let late = stats(&world);
            assert_eq!((late.swarm_late, late.limit_swarm_lag), (0, 0), "seed {seed}, recorded {recorded:?}");
            assert_eq!(ids(&world), expected, "seed {seed}, recorded {recorded:?}");
        }
    }
}

#[test]
fn time_waits_for_a_partition_that_lags_and_for_no_silent_one() {
    let mut world = world((PARTITIONS.session, PARTITIONS.swarm), policy("default", ""), aligned(TIMED));
    world.start("a", 2);
    let slow = session_task(partition_of(b"slow", PARTITIONS.session));
    world.broker.lag(slow, i64::MAX / 2);
    feed_at(&world, "slow", &failing("slow", 0, "w", "http://dead", START_MS), WALL_MS);
    // Of the others two never say anything.
    let fast = (0..).map(|number| format!("s{number}"));
    let fast = fast.clone().find(|session| session_task(partition_of(session.as_bytes(), PARTITIONS.session)) != slow).unwrap();
    let day_ms = START_MS + 24 * HOUR_MS;
    for hour in 0..=24 {
        let time_ms = START_MS + hour * HOUR_MS;
        feed_at(&world, &fast, &failing(&fast, hour as usize, "w", "http://dead", time_ms), WALL_MS + hour);
    }
    let turn = |world: &mut TestWorld| {
        for _ in 0..120 {
            (0..2).for_each(|lane| world.turn(0, lane));
            world.broker.advance(1_000);
        }
    };
    turn(&mut world);
    let times = |world: &TestWorld| (0..PARTITIONS.swarm).map(|partition| time_of(world, partition)).max().unwrap();
    assert!(stats(&world).swarm_reports > 0);
    assert!(times(&world) < EventTime(START_MS), "{}", times(&world));
    world.broker.lag(slow, 0);
    turn(&mut world);
    settle(&mut world);
    assert_eq!(times(&world), EventTime(day_ms).minus_ms(1_000));
    assert_eq!(stats(&world).swarm_late, 0);
}

#[test]
fn a_lag_beyond_what_is_held_moves_time_on_and_is_counted() {
    let few = LaneSettings { lag_calls_max: 3, ..aligned(TIMED) };
    let mut world = world((PARTITIONS.session, 1), policy("default", "[detectors.swarm_repeat]\nthreshold = 8\n"), few);
    world.start("a", 1);
    settle(&mut world);
    // What has been read to its end is known to be.
    wait(&mut world, 10_000);
    let slow = partition_of(b"s0", PARTITIONS.session);
    world.broker.lag(session_task(slow), i64::MAX / 2);
    feed_at(&world, "s0", &failing("s0", 0, "w", "http://dead", START_MS), START_MS);
    let turn = |world: &mut TestWorld| {
        for _ in 0..40 {
            world.turn(0, 0);
            world.broker.advance(1_000);
        }
    };
    let key = crate::swarm::key("w", 1);
    report(&world, &key, &["a"], START_MS);
    report(&world, &key, &["b"], START_MS + 47 * HOUR_MS);
    report(&world, &key, &["c"], START_MS + 5 * MINUTE_MS);
    turn(&mut world);
    assert_eq!((stats(&world).swarm_reports, stats(&world).limit_swarm_lag), (3, 0));
    report(&world, &key, &["d"], START_MS + 50 * HOUR_MS);
    report(&world, &key, &["e"], START_MS + 6 * MINUTE_MS);
    turn(&mut world);
    world.broker.lag(session_task(slow), 0);
    settle(&mut world);
    // That of `e`, and what the partition brings that lagged.
    assert_eq!((stats(&world).limit_swarm_lag, stats(&world).swarm_late), (2, 0));
}

#[test]
fn partitions_that_are_ahead_wait_before_anything_is_dropped_and_not_for_ever() {
    let few = LaneSettings { lag_calls_max: 40, ..aligned(TIMED) };
    let partitions = Partitions { session: 2, swarm: 1 };
    let config = MemoryConfig { partitions, session_timeout_ms: i64::MAX / 2, ..MemoryConfig::default() };
    let mut world = TestWorld::new(config, LaneSettings { partitions: Some(partitions), ..few });
    world.start("a", 1);
    settle(&mut world);
    wait(&mut world, 10_000);
    let (slow, fast) = (session_task(0), session_task(1));
    world.broker.lag(slow, i64::MAX / 2);
    let feed = |world: &mut TestWorld, task, number: i64| {
        let (session, time_ms) = (format!("s{}", number % 7), START_MS + number * HOUR_MS);
        let json = failing(&session, number as usize, "w", "http://dead", time_ms);
        let recorded_ms = WALL_MS + world.broker.now_ms();
        world.broker.append(task, Some(session.as_bytes()), Some(json.as_bytes()), recorded_ms);
    };
    let turn = |world: &mut TestWorld, seconds: usize| {
        for _ in 0..seconds {
            world.turn(0, 0);
            world.turn(0, 0);
            world.broker.advance(1_000);
        }
    };
    feed(&mut world, slow, 0);
    for number in 0..25 {
        feed(&mut world, fast, number);
        turn(&mut world, 60);
    }
    let left = |world: &TestWorld| world.broker.input_range(fast).end - world.broker.group_offset(fast).unwrap().0;
    assert!((1..6).contains(&left(&world)), "{} are left", left(&world));
    world.broker.lag(slow, 0);
    turn(&mut world, 60);
    settle(&mut world);
    assert_eq!((left(&world), stats(&world).limit_swarm_lag), (0, 0));
    // The same again, and the slow one never comes: what is ahead goes on after a while, and what comes then is counted.
    wait(&mut world, 10_000);
    world.broker.lag(slow, i64::MAX / 2);
    feed(&mut world, slow, 36);
    for number in 37..90 {
        feed(&mut world, fast, number);
        turn(&mut world, 60);
    }
    turn(&mut world, 1_000);
    assert_eq!(left(&world), 0);
    world.broker.lag(slow, 0);
    settle(&mut world);
    assert_eq!(stats(&world).limit_swarm_lag, 1);
}

#[test]
fn a_report_of_a_program_that_knows_no_sources_counts() {
    let mut world =
        world((PARTITIONS.session, 1), policy("default", "[detectors.swarm_repeat]\nthreshold = 4\n"), aligned(TIMED));
    world.start("a", 1);
    report(&world, &crate::swarm::key("w", 1), &["a", "b", "c", "d"], START_MS);
    settle(&mut world);
    wait(&mut world, 70_000);
    assert_eq!(ids(&world).len(), 1);
    assert_eq!(time_of(&world, 0), EventTime(START_MS - 1_000));
}
