//! The log of a lane, polled by hand.

use loopwarden_log::Destination;

use super::*;
use crate::file::{Given, Placing};

fn chunk(lines: std::ops::Range<u64>) -> Chunk {
    let mut chunk = Chunk::default();
    for line in lines {
        let partition = (line % 2) as u32;
        let value = Some(Given::Bytes(b"x"));
        chunk.put(line, &Placing { value, key: None, headers: &[], partition, offset: line, timestamp_ms: 0, topic: None });
    }
    chunk
}

fn poll(log: &mut RecordedLog, room: usize, got: &mut Vec<u64>) -> LogEvent {
    let mut taken = 0;
    let mut take = |record: &Record<'_>| {
        got.push(record.meta.offset.0);
        taken += 1;
        if taken == room { Flow::Stop } else { Flow::Continue }
    };
    let mut flow = Flow::Continue;
    let sums = log.poll_sums(&mut |_, record, _| {
        flow = take(record);
        flow
    });
    let event = match flow {
        Flow::Continue => log.poll(Duration::ZERO, &mut |_, record| take(record)).unwrap(),
        Flow::Stop => LogEvent::Records(sums),
    };
    if let LogEvent::Assigned(tasks) = &event {
        for task in tasks {
            log.start(*task, NextOffset(0)).unwrap();
        }
    }
    event
}

#[test]
fn a_lane_can_rewind_to_its_last_commit() {
    let mut log = RecordedLog::new(0, &FileOptions { partitions: 2, ..FileOptions::default() });
    log.feed(Fed { chunk: Some(chunk(0..6)), sums: Vec::new(), input: InputState::Open });
    log.feed(Fed { chunk: Some(chunk(6..10)), sums: Vec::new(), input: InputState::Read(None) });
    let mut got = Vec::new();
    assert!(matches!(poll(&mut log, 1, &mut got), LogEvent::Assigned(tasks) if tasks.len() == 4));
    poll(&mut log, 4, &mut got);
    log.commit(&[(session(0), NextOffset(4)), (session(1), NextOffset(4))]);
    assert_eq!(log.stepped().floor, 4);
    poll(&mut log, 3, &mut got);
    assert_eq!((got.as_slice(), log.stepped().floor), (&[0, 1, 2, 3, 4, 5, 6][..], 4));
    log.start(session(0), NextOffset(4)).unwrap();
    log.start(session(1), NextOffset(4)).unwrap();
    got.clear();
    while poll(&mut log, 100, &mut got) != LogEvent::End {}
    assert_eq!(got, [4, 5, 6, 7, 8, 9]);
    // Only one of them goes back.
    log.start(session(1), NextOffset(6)).unwrap();
    got.clear();
    while poll(&mut log, 100, &mut got) != LogEvent::End {}
    assert_eq!(got, [7, 9]);
    log.commit(&[(session(0), NextOffset(9)), (session(1), NextOffset(10))]);
    assert_eq!((poll(&mut log, 100, &mut got), log.stepped().floor), (LogEvent::Records(0), 10));
}

#[test]
fn nothing_is_handed_over_behind_the_end() {
    let mut log = RecordedLog::new(0, &FileOptions { partitions: 2, ..FileOptions::default() });
    log.feed(Fed { chunk: Some(chunk(0..6)), sums: Vec::new(), input: InputState::Over });
    let mut got = Vec::new();
    assert!(matches!(poll(&mut log, 1, &mut got), LogEvent::Assigned(_)));
    assert_eq!((poll(&mut log, 1, &mut got), got.len()), (LogEvent::End, 0));
}

#[test]
fn a_record_that_the_lane_stopped_at_can_be_read_again_after_a_commit() {
    let mut log = RecordedLog::new(0, &FileOptions { partitions: 2, ..FileOptions::default() });
    let staged = |number: u8| StagedSum {
        destination: Destination::SwarmCounts,
        key: vec![number],
        sum: Sum::Reset(EventTime(0)),
        timestamp_ms: 0,
    };
    let sums =
        (0..2).map(|number| SumRecord { partition: 0, offset: u64::from(number), line: 0, staged: staged(number) }).collect();
    log.feed(Fed { chunk: Some(chunk(0..1)), sums, input: InputState::Open });
    let swarm = TaskId { stage: Stage::Swarm, partition: 0 };
    let mut got = Vec::new();
    poll(&mut log, 1, &mut got);
    // A lane that has no room for what the second sum brings commits what was before it.
    poll(&mut log, 2, &mut got);
    log.commit(&[(swarm, NextOffset(1))]);
    log.start(swarm, NextOffset(1)).unwrap();
    poll(&mut log, 2, &mut got);
    assert_eq!(got, [0, 1, 1, 0], "the second sum again, and the line");
    log.commit(&[(swarm, NextOffset(2))]);
    log.start(session(0), NextOffset(0)).unwrap();
    got.clear();
    poll(&mut log, 2, &mut got);
    assert_eq!(got, [0], "the only line of its chunk again");
    // What the lane has had is passed by.
    log.commit(&[(session(0), NextOffset(1))]);
    got.clear();
    poll(&mut log, 2, &mut got);
    assert_eq!((got.len(), log.stepped().floor), (0, 1));
}
