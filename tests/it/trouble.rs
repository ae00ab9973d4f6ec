//! What holds a lane up: seeks and producers that fail while polls go on, timers that stop their task.

use loopwarden::event::partition_of;
use loopwarden::task::{CommitTrigger, Exit, LaneSettings, OnTrouble, TaskState};
use loopwarden_sim::{Fault, Faults, MemoryTopic, Step};

use crate::world::{Fed, PARTITIONS, TestWorld, config, feed, fleet, reference, settings};

const TIMED: CommitTrigger = CommitTrigger::Timed { max_ms: 100, min_ms: 5 };

/// A world whose lane had a commit that failed, and that from then on is refused new producers, or seeks.
fn refused(records: &[Fed], fault: (Step, Fault)) -> TestWorld {
    let mut world = TestWorld::new(config(20), settings(TIMED));
    world.restarts = false;
    feed(&world.broker, &records[..50]);
    world.start("lw", 1);
    assert!(world.settle());
    let refuses = if fault.1 == Fault::Suspect { &world.refuses.reopens } else { &world.refuses.seeks };
    refuses.set(true);
    world.broker.set_faults(Faults::script([fault]));
    feed(&world.broker, &records[50..]);
    world
}

const FAULTS: [(Step, Fault); 2] = [(Step::Send, Fault::Suspect), (Step::Begin, Fault::Abort)];

#[test]
fn a_lane_that_cannot_go_on_is_not_ready_and_ends_although_its_polls_succeed() {
    let records = fleet(7, 100);
    for fault in FAULTS {
        let mut world = refused(&records, fault);
        let mut rounds = 0;
        while world.exits.is_empty() {
            world.turn(0, 0);
            world.broker.advance(500);
            rounds += 1;
            assert!(rounds < 1_000, "{fault:?}: it stands still for ever");
            let lane = world.processes[0].lanes[0].as_ref();
            assert!(rounds < 30 || lane.is_none_or(|lane| !lane.is_ready()), "{fault:?}: ready in round {rounds}");
        }
        assert!(matches!(&world.exits[..], [Exit::Failed(why)] if why.contains("three minutes")), "{fault:?}: {:?}", world.exits);
    }
}

#[test]
fn a_lane_whose_commits_fail_is_not_ready_between_two_of_them() {
    const FAILURES: usize = 8;
    let records = fleet(7, 100);
    let mut world = TestWorld::new(config(20), settings(TIMED));
    feed(&world.broker, &records);
    world.start("lw", 1);
    world.broker.set_faults(Faults::script(vec![(Step::Send, Fault::Abort); FAILURES]));
    let failed = |world: &TestWorld| world.processes[0].lanes[0].as_ref().unwrap().stats().transactions[1];
    while failed(&world) < FAILURES as u64 {
        world.turn(0, 0);
        world.broker.advance(20);
        let is_ready = world.processes[0].lanes[0].as_ref().unwrap().is_ready();
        assert!(failed(&world) < 2 || !is_ready, "ready after {} failures in a row", failed(&world));
    }
    assert!(world.settle(), "{:?}", world.exits);
    assert!(world.processes[0].lanes[0].as_ref().unwrap().is_ready());
    world.outcome().assert_is(&reference(&records), "after commits that failed");
}

#[test]
fn a_lane_that_could_not_go_on_for_a_while_does_and_is_ready_again() {
    let records = fleet(7, 100);
    for fault in FAULTS {
        let mut world = refused(&records, fault);
        for _ in 0..200 {
            world.turn(0, 0);
            world.broker.advance(500);
        }
        world.refuses.reopens.set(false);
        world.refuses.seeks.set(false);
        assert!(world.settle(), "{fault:?}: {:?}", world.exits);
        assert!(world.processes[0].lanes[0].as_ref().unwrap().is_ready(), "{fault:?}");
        world.audit();
        world.outcome().assert_is(&reference(&records), &format!("{fault:?}"));
    }
}

#[test]
fn the_timer_at_which_a_task_stops_itself_is_found_again_after_a_restart() {
    const AGENTS: usize = 12;
    const START_MS: i64 = 1_795_291_200_000;
    let event = |id: &str, session: &str, agent: &str, time_ms: i64| -> Fed {
        let json = format!(
            r#"{{"id":"{id}","session_id":"{session}","agent":{{"id":"{agent}"}},"kind":"tool_call","tool":"t","args":{{}},"time":{time_ms}}}"#
        );
        (session.to_owned(), Some(json.into_bytes()), time_ms)
    };
    let place = |session: &str| partition_of(session.as_bytes(), PARTITIONS);
    let other = (0..100).map(|number| format!("s{number}")).find(|name| place(name) == place("timer-boom")).unwrap();
    let mut records: Vec<Fed> =
        (0..AGENTS).map(|n| event(&format!("e{n}"), "timer-boom", &format!("a{n:02}"), START_MS)).collect();
    // It moves the watermark over the timers of all of them, each of which panics.
    records.push(event("last", &other, "main", START_MS + 6_000));
    let mut world = TestWorld::new(config(50), LaneSettings { on_bad_records: OnTrouble::Stop, ..settings(TIMED) });
    feed(&world.broker, &records);
    world.start("lw", 1);
    for _ in 0..200 {
        world.turn(0, 0);
        world.broker.advance(10);
    }
    let states: Vec<TaskState> =
        world.processes[0].lanes[0].as_ref().unwrap().tasks().into_iter().map(|view| view.state).collect();
    assert!(states.iter().any(|state| matches!(state, TaskState::Poisoned(_))), "{states:?}");
    // It stops in front of the tenth.
    assert_eq!(world.broker.committed(MemoryTopic::DeadLetters).len(), 9);
    world.restart(0);
    assert!(world.settle(), "{:?}", world.exits);
    assert_eq!(world.broker.committed(MemoryTopic::DeadLetters).len(), AGENTS);
}
