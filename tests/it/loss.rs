//! Starting where something is older than it was, moved, or gone: offsets, input, changelog, directory.

use std::time::Duration;

use loopwarden::log::{CommitOutcome, Destination, Flow, Headers, Log, LogEvent, Output};
use loopwarden::store::{Change, MemoryStore, Position, StateKey, StateStore};
use loopwarden::{event::NextOffset, task::Exit};
use loopwarden_sim::MemoryConfig;

use crate::lane::{TIMED, records};
use crate::world::{PARTITIONS, TestStore, TestWorld, config, feed, reference, session_task, settings};

#[test]
fn state_from_any_time_is_brought_to_the_end_of_the_changelog() {
    let records = records();
    let expected = reference(&records);
    let mut world = TestWorld::new(config(20), settings(TIMED));
    feed(&world.broker, &records[..100]);
    world.start("lw", 1);
    assert!(world.settle());
    let early = world.processes[0].store.memory.snapshot();
    feed(&world.broker, &records[100..]);
    assert!(world.settle());
    for (compacts, snapshot) in [(false, Some(early.clone())), (false, None), (true, Some(early)), (true, None)] {
        if compacts {
            for task in (0..PARTITIONS).map(session_task) {
                world.broker.compact(task, false);
            }
        }
        let memory = snapshot.map(|store| store.snapshot()).unwrap_or_default();
        world.processes[0].store = TestStore { memory, ..TestStore::default() };
        world.restart(0);
        assert!(world.settle(), "{:?}", world.exits);
        world.audit();
        world.outcome().assert_is(&expected, "");
    }
}

/// Goes on with a disk as it was a while ago, to which `happens` something. What it has not seen deleted is gone from the changelog: whoever
/// trusts it wakes sessions that are dead.
fn with_an_old_disk(happens: impl FnOnce(&TestWorld, &mut MemoryStore)) {
    let records = records();
    let mut world = TestWorld::new(config(20), settings(TIMED));
    feed(&world.broker, &records[..100]);
    world.start("lw", 1);
    assert!(world.settle());
    let mut old = world.processes[0].store.memory.snapshot();
    feed(&world.broker, &records[100..]);
    assert!(world.settle());
    let expected = world.outcome();
    for task in (0..PARTITIONS).map(session_task) {
        world.broker.compact(task, true);
    }
    happens(&world, &mut old);
    world.processes[0].store = TestStore { memory: old, ..TestStore::default() };
    world.restart(0);
    assert!(world.settle());
    world.outcome().assert_is(&expected, "");
    world.audit();
}

#[test]
fn a_disk_that_was_away_for_too_long_is_restored_from_the_beginning() {
    with_an_old_disk(|world, _| world.broker.advance(4 * 24 * 3_600_000));
}

#[test]
fn a_disk_from_a_time_that_is_still_to_come_is_restored_from_the_beginning() {
    with_an_old_disk(|_, old| {
        for task in (0..PARTITIONS).map(session_task) {
            let bytes = old.get(task, &StateKey::position()).unwrap().unwrap();
            let position = Position::decode(&bytes).unwrap();
            // The clock was a year ahead, and has been set right since.
            let ahead = Position { at_end_ms: position.at_end_ms + 365 * 24 * 3_600_000, ..position };
            let value = Some(ahead.encode_for_store().unwrap());
            old.commit(vec![Change { task, key: StateKey::position(), value }]).unwrap();
        }
    });
}

#[test]
fn a_first_start_at_the_end_of_the_input_commits_that_offset_before_anything_else() {
    let records = records();
    let mut world = TestWorld::new(MemoryConfig { start_at_end: true, ..config(20) }, settings(TIMED));
    feed(&world.broker, &records[..50]);
    world.start("lw", 1);
    let ends: Vec<_> = (0..PARTITIONS).map(|partition| world.broker.input_range(session_task(partition)).end).collect();
    while (0..PARTITIONS).any(|partition| world.broker.group_offset(session_task(partition)).is_none()) {
        world.turn(0, 0);
    }
    // A crash now must not choose again.
    feed(&world.broker, &records[50..60]);
    world.kill(0);
    world.restart(0);
    assert!(world.settle());
    let stats = world.processes[0].lanes[0].as_ref().unwrap().stats();
    assert_eq!(stats.events.iter().sum::<u64>() + stats.rejected.iter().sum::<u64>(), 10);
    assert!(ends.iter().any(|end| *end > 0));
    world.audit();
}

/// A world that has settled, with its process stopped.
fn stopped() -> TestWorld {
    let mut world = TestWorld::new(config(20), settings(TIMED));
    feed(&world.broker, &records()[..100]);
    world.start("lw", 1);
    assert!(world.settle());
    world.kill(0);
    world.restarts = false;
    world
}

fn exit_after(mut world: TestWorld) -> Exit {
    world.restart(0);
    for _ in 0..10_000 {
        world.turn(0, 0);
        world.broker.advance(20);
        if let Some(exit) = world.exits.first() {
            return exit.clone();
        }
    }
    panic!("it runs");
}

#[test]
fn a_vanished_changelog_is_an_error_that_names_the_way_out() {
    let mut world = stopped();
    world.broker.delete_changelog(session_task(0));
    world.processes[0].store = TestStore::default();
    let exit = exit_after(world);
    assert!(
        matches!(&exit, Exit::Fatal { code: "E0105", message } if message.contains("loopwarden reset task session:0")),
        "{exit}"
    );
}

#[test]
fn moved_offsets_are_an_error_that_names_the_way_out() {
    for moved in [0, 1_000_000] {
        let world = stopped();
        world.broker.set_group_offset(session_task(1), Some(NextOffset(moved)));
        let exit = exit_after(world);
        assert!(
            matches!(&exit, Exit::Fatal { code: "E0502", message } if message.contains("loopwarden reset task session:1")),
            "{moved}: {exit}"
        );
    }
}

#[test]
fn expired_group_offsets_need_nobody() {
    let mut world = stopped();
    for task in (0..PARTITIONS).map(session_task) {
        world.broker.set_group_offset(task, None);
    }
    world.restarts = true;
    world.restart(0);
    feed(&world.broker, &records()[100..]);
    assert!(world.settle(), "{:?}", world.exits);
    world.audit();
    world.outcome().assert_is(&reference(&records()), "");
}

#[test]
fn state_of_another_format_is_refused_and_not_wiped() {
    let mut world = stopped();
    let mut store = world.processes[0].store.clone();
    let bytes = store.get(session_task(0), &StateKey::position()).unwrap().unwrap();
    let position = Position::decode(&bytes).unwrap();
    let newer = |bytes: Vec<u8>| Some([b"2", &bytes[1..]].concat());
    let value = newer(position.encode_for_store().unwrap());
    store.commit(vec![loopwarden::store::Change { task: session_task(0), key: StateKey::position(), value }]).unwrap();
    world.restarts = false;
    let before = store.memory.len();
    let exit = exit_after(world);
    assert!(matches!(&exit, Exit::Store(loopwarden::store::StoreError::OtherFormat(_))), "{exit}");
    assert_eq!(store.memory.len(), before);

    // The same where the disk is lost, and only the changelog knows.
    let mut world = stopped();
    world.processes[0].store = TestStore::default();
    let task = session_task(0);
    let mut log = world.broker.open("newer", 0);
    while !matches!(log.poll(Duration::ZERO, &mut |_, _| Flow::Stop), Ok(LogEvent::Assigned(tasks)) if log.assign(&tasks).is_ok())
    {
        world.broker.advance(100);
    }
    log.stage(Output {
        destination: Destination::Changelog(task),
        key: StateKey::position().to_changelog(),
        value: newer(position.encode_for_changelog().unwrap()),
        headers: Headers::default(),
        timestamp_ms: 0,
    });
    assert!(matches!(log.commit(&[(task, position.next_offset)]), CommitOutcome::Committed { .. }));
    log.close(true).unwrap();
    let exit = exit_after(world);
    assert!(matches!(&exit, Exit::Store(loopwarden::store::StoreError::OtherFormat(_))), "{exit}");
}

#[test]
fn lost_input_is_counted_and_the_rest_is_read() {
    let mut world = stopped();
    let records = records();
    feed(&world.broker, &records[100..300]);
    let task = session_task(0);
    let next = world.broker.group_offset(task).unwrap().0;
    assert!(world.broker.input_range(task).end > next + 5);
    world.broker.trim_input(task, next + 5);
    world.restarts = true;
    world.restart(0);
    assert!(world.settle(), "{:?}", world.exits);
    assert_eq!(world.processes[0].lanes[0].as_ref().unwrap().stats().input_lost, 5);
    world.audit();
}

#[test]
fn input_lost_while_running_is_noticed_too() {
    let mut world = TestWorld::new(config(20), settings(TIMED));
    let records = records();
    feed(&world.broker, &records[..100]);
    world.start("lw", 1);
    assert!(world.settle());
    feed(&world.broker, &records[100..300]);
    let task = session_task(0);
    let next = world.broker.group_offset(task).unwrap().0;
    world.broker.trim_input(task, next + 5);
    assert!(world.settle(), "{:?}", world.exits);
    assert_eq!(world.processes[0].lanes[0].as_ref().unwrap().stats().input_lost, 5);
    world.audit();
}
