//! One commit: all of it is visible, or nothing.

use std::time::Duration;

use loopwarden::event::{NextOffset, partition_of};
use loopwarden::log::{CommitOutcome, Destination, Flow, Headers, Log, LogEvent};
use loopwarden::{clock::Deadline, limits, log::kafka::KafkaLog};

use crate::broker;
use crate::world::{PATIENCE, World, commit, committed, join, next, output, session, take};

#[test]
fn outputs_state_and_offsets_become_visible_together() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 2);
    world.produce(&[(0, "a", "e0"), (0, "a", "e1"), (1, "b", "e2")]);
    let mut log = world.running(2);
    let mut taken = take(&mut log, 3);
    taken.sort();
    assert_eq!(taken, vec![(session(0), 0, "e0".to_owned()), (session(0), 1, "e1".to_owned()), (session(1), 0, "e2".to_owned())]);
    assert_eq!(committed(&log, session(0)), None);

    log.stage(output(Destination::Commands, "a", "nudge"));
    log.stage(output(Destination::State, "a", "row"));
    log.stage(output(Destination::DeadLetters { source_partition: 3 }, "a", "bad"));
    log.stage(output(Destination::SwarmCounts, "w", "sum"));
    log.stage(output(Destination::Changelog(session(0)), "head", "1"));
    log.stage(output(Destination::Changelog(session(0)), "position", "2"));
    log.stage(output(Destination::Changelog(session(1)), "position", "1"));
    assert_eq!(world.values(&world.options.topics.commands), Vec::<String>::new(), "staged is not sent");

    let changelog_next = commit(&mut log, &[(session(0), 2), (session(1), 1)]);
    assert_eq!(changelog_next, [(session(0), 2), (session(1), 1)].into());
    assert_eq!(committed(&log, session(0)), Some(NextOffset(2)));
    assert_eq!(committed(&log, session(1)), Some(NextOffset(1)));
    assert_eq!(world.values(&world.options.topics.commands), vec!["nudge"]);
    assert_eq!(world.values(&world.options.topics.state), vec!["row"]);
    let dead = world.read(&world.options.topics.dead_letters);
    assert_eq!((dead.len(), dead[0].partition), (1, 1), "source partition 3 of 2");
    let sums = world.read(&format!("{}.swarm-counts", world.options.app));
    assert_eq!((sums.len(), sums[0].partition as u32), (1, partition_of(b"w", 2)));
    let changelog = world.read(&format!("{}.session-changelog", world.options.app));
    let places: Vec<_> = changelog.iter().map(|seen| (seen.partition, seen.key.as_slice())).collect();
    assert_eq!(places, vec![(0, b"head".as_slice()), (0, b"position"), (1, b"position")]);

    let steps = log.commit_steps().unwrap();
    assert!(steps.send_us > 0 && steps.drain_us > 0 && steps.offsets_us > 0 && steps.commit_us > 0, "{steps:?}");
}

#[test]
fn a_record_of_very_many_headers_fills_a_poll_by_itself_and_its_first_headers_are_read() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    world.produce_with_headers(2, 20_000);
    world.produce(&[(0, "a", "x"), (0, "a", "y")]);
    let mut log = world.running(1);
    let (mut headers, mut polls) = (Vec::new(), Vec::new());
    let deadline = Deadline::after(PATIENCE);
    while headers.len() < 4 {
        assert!(!deadline.is_over(), "{headers:?}");
        let event = log.poll(Duration::from_millis(100), &mut |_, record| {
            headers.push(record.meta.headers.len());
            Flow::Continue
        });
        if let LogEvent::Records(count @ 1..) = event.expect("a poll") {
            polls.push(count);
        }
    }
    assert_eq!(headers, [limits::HEADERS_MAX, limits::HEADERS_MAX, 0, 0]);
    assert_eq!(polls[..2], [1, 1], "{polls:?}");
}

#[test]
fn keys_headers_times_and_tombstones_arrive_as_staged() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    let mut log = world.running(1);
    let mut command = output(Destination::Commands, "k", "v");
    command.headers = [("ce_id", b"1".to_vec()), ("lw_task", vec![0, 255]), ("ce_id", vec![])].into_iter().collect();
    command.timestamp_ms = 1_600_000_000_123;
    log.stage(command.clone());
    let mut ended = output(Destination::State, "gone", "");
    ended.value = None;
    log.stage(ended);
    let mut empty = output(Destination::State, "empty", "");
    empty.timestamp_ms = 0;
    log.stage(empty);
    commit(&mut log, &[(session(0), 0)]);

    let commands = world.read(&world.options.topics.commands);
    assert_eq!(commands[0].headers.iter().cloned().collect::<Headers>(), command.headers);
    assert_eq!(commands[0].timestamp_ms, 1_600_000_000_123);
    let rows = world.read(&world.options.topics.state);
    assert_eq!(rows.iter().map(|seen| seen.value.as_deref()).collect::<Vec<_>>(), vec![None, Some(b"".as_slice())]);
    assert_eq!(rows[1].timestamp_ms, 1, "time zero is not now");
}

#[test]
fn a_record_that_cannot_be_written_aborts_the_whole_commit() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    world.produce(&[(0, "a", "e0")]);
    let mut log = world.running(1);
    take(&mut log, 1);
    log.stage(output(Destination::Commands, "a", "first try"));
    log.stage(output(Destination::Commands, "a", &"x".repeat(2_000_000)));
    let outcome = log.commit(&next(&[(session(0), 1)]));
    assert!(matches!(outcome, CommitOutcome::Aborted { reopen: false, .. }), "{outcome:?}");
    assert_eq!(committed(&log, session(0)), None);

    // Read again from the last commit, as a lane does.
    log.start(session(0), NextOffset(0)).expect("rewound");
    assert_eq!(take(&mut log, 1), vec![(session(0), 0, "e0".to_owned())]);
    log.stage(output(Destination::Commands, "a", "second try"));
    commit(&mut log, &[(session(0), 1)]);
    assert_eq!(world.values(&world.options.topics.commands), vec!["second try"]);
}

#[test]
fn an_acknowledged_record_of_an_aborted_commit_stays_invisible() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    let mut log = world.running(1);
    // The broker refuses this one after it took the first: it is sent to a partition that does not exist.
    log.stage(output(Destination::Commands, "a", "aborted"));
    log.stage(output(Destination::Changelog(session(7)), "position", "1"));
    let outcome = log.commit(&next(&[(session(0), 0)]));
    assert!(matches!(outcome, CommitOutcome::Aborted { .. }), "{outcome:?}");
    if matches!(outcome, CommitOutcome::Aborted { reopen: true, .. }) {
        log.reopen().expect("reopened");
    }
    log.stage(output(Destination::Commands, "a", "committed"));
    commit(&mut log, &[(session(0), 0)]);
    assert_eq!(world.values(&world.options.topics.commands), vec!["committed"]);
}

#[test]
fn a_commit_without_offsets_is_refused() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    let mut log = world.running(1);
    log.stage(output(Destination::Commands, "a", "unfenced"));
    let outcome = log.commit(&[]);
    assert!(matches!(outcome, CommitOutcome::Aborted { reopen: false, .. }), "{outcome:?}");
    assert_eq!(world.values(&world.options.topics.commands), Vec::<String>::new());
}

#[test]
fn a_discarded_output_is_in_no_later_commit() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    let mut log = world.running(1);
    log.stage(output(Destination::Commands, "a", "discarded"));
    log.discard();
    commit(&mut log, &[(session(0), 0)]);
    assert_eq!(world.values(&world.options.topics.commands), Vec::<String>::new());
}

#[test]
fn a_second_producer_of_the_same_identity_fences_the_first() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    let mut first = world.running(1);
    commit(&mut first, &[(session(0), 0)]);
    // The same transactional id: a process that was thought dead, and its successor.
    let second = KafkaLog::open(world.options.clone()).expect("the successor takes over");
    first.stage(output(Destination::Commands, "a", "from the grave"));
    let outcome = first.commit(&next(&[(session(0), 0)]));
    assert!(matches!(outcome, CommitOutcome::Fenced { .. }), "{outcome:?}");
    assert_eq!(world.values(&world.options.topics.commands), Vec::<String>::new());
    drop((first, second));
}

#[test]
fn a_fenced_producer_refuses_to_go_on_until_it_is_reopened() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    world.produce(&[(0, "a", "e0"), (0, "a", "e1")]);
    let mut log = world.running(1);
    take(&mut log, 1);
    // A producer of the same id only: the group does not change, so that the first may take its identity back.
    world.fence();
    let fenced = log.commit(&next(&[(session(0), 1)]));
    assert!(matches!(fenced, CommitOutcome::Fenced { .. }), "{fenced:?}");
    let refused = log.commit(&next(&[(session(0), 1)]));
    assert!(matches!(refused, CommitOutcome::Aborted { reopen: true, .. }), "{refused:?}");
    log.reopen().expect("reopened");
    assert_eq!(take(&mut log, 1), vec![(session(0), 1, "e1".to_owned())], "reading goes on where it was");
    log.stage(output(Destination::Commands, "a", "again"));
    commit(&mut log, &[(session(0), 2)]);
    assert_eq!(world.values(&world.options.topics.commands), vec!["again"]);
}

#[test]
fn a_commit_is_fast_when_drained_first() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    let mut log = world.running(1);
    let mut totals = Vec::new();
    for n in 0..200_u64 {
        for record in 0..20 {
            log.stage(output(Destination::Changelog(session(0)), &format!("k{record}"), "value"));
        }
        log.stage(output(Destination::Commands, "a", &format!("c{n}")));
        commit(&mut log, &[(session(0), 0)]);
        let steps = log.commit_steps().unwrap();
        totals.push((steps.send_us + steps.drain_us + steps.offsets_us + steps.commit_us, steps));
    }
    totals.sort_by_key(|(total, _)| *total);
    println!("commit: p50 {} µs {:?}, p99 {} µs {:?}", totals[100].0, totals[100].1, totals[198].0, totals[198].1);
    assert_eq!(world.values(&world.options.topics.commands).len(), 200);
}

#[test]
fn the_owner_is_the_transactional_id() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    let mut log = world.open();
    assert_eq!(log.owner(), format!("{}-lw-0-0", world.options.app));
    assert!(!log.commits_state());
    join(&mut log, 2);
}
