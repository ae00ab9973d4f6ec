//! Real processes: stopped, joined, left, cut off, started for the first time. Whatever happens, the auditor sees each output once
//! and the end is that of the uninterrupted run.

use std::time::Duration;

use crate::broker;
use crate::proxy::Action;
use crate::proxy::Proxy;
use crate::proxy::Side;
use crate::scenario::Scenario;

/// A session (10 s), an open transaction (10 s) and the broker's scans, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

fn processed(scenario: &mut Scenario, events: u64) {
    scenario.wait(&format!("{events} events"), PATIENCE, |scenario| scenario.processed() >= events);
}

#[test]
fn a_process_that_was_stopped_beyond_its_session_wakes_up_and_publishes_nothing_twice() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let mut scenario = Scenario::new(bootstrap, "zombie", 5, 4);
    for _ in 0..2 {
        scenario.add(1, &[]);
    }
    scenario.wait("both ready", PATIENCE, |scenario| scenario.processes.iter().all(crate::process::Process::is_ready));
    scenario.produce(4_000);
    scenario.wait("both at work", PATIENCE, |scenario| {
        let owners: std::collections::BTreeSet<_> = scenario.look().positions.values().map(|at| at.owner.clone()).collect();
        owners.len() == 2
    });
    // In the middle of its work: with open transactions as often as not.
    scenario.processes[0].freeze();
    scenario.produce(4_000);
    processed(&mut scenario, 8_000);
    scenario.processes[0].thaw();
    scenario.produce(4_000);
    scenario.settle();
    assert!(scenario.processes[1].told("tasks assigned") >= 2, "its tasks moved while it was stopped");
    scenario.verify().assert_exactly_once();
}

#[test]
fn processes_join_and_leave_under_load_and_nothing_shows() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let mut scenario = Scenario::new(bootstrap, "rolling", 8, 6);
    scenario.add(2, &[]);
    scenario.produce(3_000);
    processed(&mut scenario, 1_000);
    for _ in 0..2 {
        scenario.add(2, &[]);
        scenario.produce(3_000);
    }
    scenario.wait("all three ready", PATIENCE, |scenario| scenario.processes.iter().all(crate::process::Process::is_ready));
    scenario.produce(3_000);
    // One after the other is restarted, as a new version is rolled out.
    for at in 0..3 {
        assert!(scenario.processes[at].finish("TERM").success());
        scenario.start(at);
        scenario.produce(1_000);
    }
    // And two leave for good: the group does not wait for their sessions.
    for at in 1..3 {
        assert!(scenario.processes[at].finish("USR1").success());
        scenario.produce(1_000);
    }
    scenario.settle();
    assert_eq!(scenario.exits.len(), 0, "{:?}", scenario.exits);
    scenario.verify().assert_exactly_once();
}

#[test]
fn a_coordinator_that_never_answers_holds_a_process_for_40_s_at_most() {
    let proxy = Proxy::new();
    let Some(broker) = broker::behind("silent", &proxy) else { return };
    let mut scenario = Scenario::new(&broker.bootstrap, "silent", 20, 2);
    scenario.add(1, &[]);
    scenario.produce(2_000);
    processed(&mut scenario, 500);
    // Join, sync, heartbeat, offsets asked and committed, offsets of a transaction: whatever only the group's coordinator answers.
    for api in [8, 9, 11, 12, 14, 28] {
        proxy.arm("", api, Side::Answer, Action::Drop, usize::MAX);
    }
    scenario.produce(2_000);
    let ended = scenario.processes[0].wait(Duration::from_secs(40));
    let troubles = scenario.processes[0].told("transaction aborted") + scenario.processes[0].told("log in trouble");
    println!("with a silent coordinator for 40 s: ended {ended:?}, troubles told {troubles}");
    assert!(ended.is_some() || troubles > 0, "it neither ended nor noticed");
    proxy.release("");
    if ended.is_some() {
        scenario.start(0);
    }
    scenario.produce(1_000);
    scenario.settle();
    scenario.verify().assert_exactly_once();
}

#[test]
fn where_a_first_start_begins_is_committed_before_anything_else() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let scenario = Scenario::new(bootstrap, "first", 22, 2);
    let world = &scenario.world;
    world.produce(&[(0, "a", "old"), (1, "b", "old")]);
    let topic = world.options.topics.dead_letters.clone();
    let mut scenario = scenario;
    scenario.add(1, &["kafka.start=latest"]);
    scenario.wait("the first commit", PATIENCE, |scenario| {
        (0..2).all(|partition| scenario.world.committed(crate::world::session(partition)).is_some())
    });
    scenario.kill(0);
    // What comes while it is dead must not be skipped: what it began with is no longer `latest`.
    scenario.world.produce(&[(0, "a", "new"), (1, "b", "new")]);
    scenario.start(0);
    scenario.wait("both", PATIENCE, |scenario| scenario.look().outputs() >= 2);
    assert_eq!(scenario.world.values(&topic), vec!["new", "new"]);
}

#[test]
fn a_lost_disk_is_restored_from_the_changelog_through_three_more_deaths() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let mut scenario = Scenario::new(bootstrap, "disk", 13, 4);
    scenario.add(2, &[]);
    scenario.produce(20_000);
    processed(&mut scenario, 20_000);
    scenario.kill(0);
    scenario.processes[0].lose_disk();
    for _ in 0..3 {
        scenario.start(0);
        scenario.produce(500);
        scenario.kill(0);
    }
    scenario.start(0);
    scenario.settle();
    scenario.verify().assert_exactly_once();
}
