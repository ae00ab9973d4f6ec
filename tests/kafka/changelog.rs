//! What restores rely on: the end of a changelog, stable offsets, the first offset.

use std::time::Duration;

use loopwarden::clock::Deadline;
use loopwarden::event::{NextOffset, Stage};
use loopwarden::log::kafka::{KafkaLog, KafkaOptions, Start};
use loopwarden::log::{Changelog, ChangelogRange, Destination, Flow, Log, LogError, LogEvent};

use crate::broker;
use crate::world::{PATIENCE, World, commit, output, session, swarm, take};

fn reader(log: &KafkaLog) -> Box<dyn Changelog> {
    log.changelog().expect("a reader").expect("there is one")
}

fn read(reader: &mut dyn Changelog, task: loopwarden::event::TaskId, from: u64) -> (Vec<(u64, String)>, u64) {
    let mut seen = Vec::new();
    let next = reader
        .read(task, from, &mut |offset, key, _| {
            seen.push((offset, String::from_utf8_lossy(key).into_owned()));
            Flow::Continue
        })
        .expect("read");
    (seen, next)
}

#[test]
fn a_changelog_is_read_over_control_records_to_its_end() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 2);
    let mut log = world.running(2);
    for n in 0..3 {
        log.stage(output(Destination::Changelog(session(1)), &format!("k{n}"), "v"));
        log.stage(output(Destination::Changelog(session(1)), "position", "p"));
        let next = commit(&mut log, &[(session(1), n)]);
        assert_eq!(next[&session(1)], n * 3 + 2, "each commit leaves a marker");
    }
    world.until_stable(&world.options.changelog_topic(session(1).stage));
    let mut reader = reader(&log);
    let (seen, next) = read(&mut *reader, session(1), 0);
    let offsets: Vec<u64> = seen.iter().map(|(offset, _)| *offset).collect();
    assert_eq!(offsets, vec![0, 1, 3, 4, 6, 7]);
    assert_eq!(next, 8, "after the last record, before its marker");
    assert_eq!(reader.range(session(1)).expect("a range"), ChangelogRange { start: 0, end: 9 });
    assert_eq!(read(&mut *reader, session(1), 8), (vec![], 8), "nothing but a marker is the end");
    assert_eq!(read(&mut *reader, session(0), 0), (vec![], 0), "the same client reads another partition");
    assert_eq!(read(&mut *reader, session(1), 4).0.len(), 3, "and this one again");
    assert_eq!(read(&mut *reader, swarm(1), 0), (vec![], 0));
}

#[test]
fn a_handler_may_stop_a_read_and_go_on_later() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    let mut log = world.running(1);
    for n in 0..5 {
        log.stage(output(Destination::Changelog(session(0)), &format!("k{n}"), "v"));
    }
    commit(&mut log, &[(session(0), 0)]);
    world.until_stable(&world.options.changelog_topic(session(0).stage));
    let mut reader = reader(&log);
    let next =
        reader.read(session(0), 0, &mut |offset, _, _| if offset == 1 { Flow::Stop } else { Flow::Continue }).expect("read");
    assert_eq!(next, 2);
    assert_eq!(read(&mut *reader, session(0), next).0.len(), 3);
}

#[test]
fn a_tombstone_in_a_changelog_is_no_empty_value() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    let mut log = world.running(1);
    let mut gone = output(Destination::Changelog(session(0)), "gone", "");
    gone.value = None;
    log.stage(gone);
    log.stage(output(Destination::Changelog(session(0)), "empty", ""));
    commit(&mut log, &[(session(0), 0)]);
    world.until_stable(&world.options.changelog_topic(session(0).stage));
    let mut values = Vec::new();
    reader(&log)
        .read(session(0), 0, &mut |_, _, value| {
            values.push(value.map(<[u8]>::to_vec));
            Flow::Continue
        })
        .expect("read");
    assert_eq!(values, vec![None, Some(vec![])]);
}

#[test]
fn an_offset_beyond_the_end_is_an_error_and_no_empty_changelog() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    let log = world.open();
    let read = reader(&log).read(session(0), 1_000, &mut |_, _, _| Flow::Continue);
    assert!(matches!(read, Err(LogError::Transient(_))), "{read:?}");
}

#[test]
fn the_groups_offset_is_withheld_while_a_transaction_on_it_is_open() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    let mut log = world.running(1);
    commit(&mut log, &[(session(0), 3)]);
    let mut reader = reader(&log);
    assert_eq!(reader.committed(session(0), PATIENCE), Ok(Some(NextOffset(3))));

    let pending = world.pending(session(0), 7);
    let withheld = reader.committed(session(0), Duration::from_millis(300));
    assert!(matches!(withheld, Err(LogError::Transient(_))), "{withheld:?}");
    pending.abort();
    assert_eq!(reader.committed(session(0), PATIENCE), Ok(Some(NextOffset(3))));
}

#[test]
fn what_lies_behind_an_open_transaction_is_seen_by_who_asks_for_it() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    let log = world.open();
    let mut reader = reader(&log);
    let position = output(Destination::Changelog(session(0)), "position", "p");
    let pending = world.write_open(&world.options.changelog_topic(session(0).stage), &position);
    assert_eq!(reader.range(session(0)).expect("a range"), ChangelogRange { start: 0, end: 0 });
    assert_eq!(reader.high_watermark(session(0)), Ok(1));
    pending.abort();
}

#[test]
fn a_position_outside_of_its_partition_is_said_once_and_the_task_reads_on_when_it_is_started_anew() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    world.produce(&[(0, "a", "e0"), (0, "a", "e1")]);
    let mut log = world.running(1);
    assert_eq!(take(&mut log, 2).len(), 2);
    log.start(session(0), NextOffset(1_000)).expect("started");
    let deadline = Deadline::after(PATIENCE);
    loop {
        assert!(!deadline.is_over(), "no error");
        match log.poll(Duration::from_millis(100), &mut |task, _| panic!("{task} handed over a record")) {
            Ok(event) => assert_eq!(event, LogEvent::Records(0)),
            Err(error) => {
                assert!(matches!(error, LogError::OutOfRange(_)), "{error:?}");
                break;
            }
        }
    }
    log.start(session(0), NextOffset(1)).expect("started");
    assert_eq!(take(&mut log, 1), vec![(session(0), 1, "e1".to_owned())]);
}

#[test]
fn the_first_offset_is_where_the_options_say() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    world.produce(&[(0, "a", "e0"), (0, "a", "e1")]);
    let first = |start| {
        let log = KafkaLog::open(KafkaOptions { start, ..world.options.clone() }).expect("a log");
        reader(&log).first_offset(session(0)).expect("an offset")
    };
    assert_eq!(first(Start::Earliest), NextOffset(0));
    assert_eq!(first(Start::Latest), NextOffset(2));
    assert_eq!(first(Start::Time(0)), NextOffset(0));
    assert_eq!(first(Start::Time(4_000_000_000_000)), NextOffset(2), "a time in the future is the end");

    // Where to begin is said of events; sums that were sent before are of events that were read.
    world.produce_to(&world.options.input_topic(Stage::Swarm), &[(0, "a", "sum")]);
    let log = KafkaLog::open(KafkaOptions { start: Start::Latest, ..world.options.clone() }).expect("a log");
    assert_eq!(reader(&log).first_offset(swarm(0)).expect("an offset"), NextOffset(0));
}
