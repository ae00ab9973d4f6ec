//! Replay from files: places, order, lanes, the way of swarm counts.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use loopwarden::event::{NextOffset, RecordOffset, Stage, TaskId, partition_of};
use loopwarden::log::file::{Collected, FileInput, FileLog, FileOptions, FileReplay, REPLAY_PARTITIONS};
use loopwarden::log::{CommitOutcome, Destination, Flow, Log, LogError, LogEvent, Output};

use super::log_contract::{Got, command, session};
use super::temp_dir::TempDir;

const WAIT: Duration = Duration::from_secs(60);

fn file(dir: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn open(paths: &[PathBuf], lanes: u32) -> FileReplay {
    let inputs = paths.iter().cloned().map(FileInput::Path).collect();
    FileReplay::open(inputs, &FileOptions { lanes, ..FileOptions::default() }).unwrap()
}

/// Polls once, answering assignments; `room` records at most.
fn poll(log: &mut FileLog, room: usize, got: &mut Vec<Got>) -> Result<LogEvent, LogError> {
    let mut taken = 0;
    let event = log.poll(WAIT, &mut |task, record| {
        got.push(Got {
            task,
            offset: record.meta.offset.0,
            key: record.meta.key.map(|key| String::from_utf8(key.to_vec()).unwrap()),
            value: String::from_utf8_lossy(record.value.unwrap()).into_owned(),
            timestamp_ms: record.meta.timestamp.0,
        });
        taken += 1;
        if taken >= room { Flow::Stop } else { Flow::Continue }
    })?;
    if let LogEvent::Assigned(tasks) = &event {
        log.assign(tasks).unwrap();
        for task in tasks {
            log.start(*task, NextOffset(0)).unwrap();
        }
    }
    Ok(event)
}

/// Reads a lane to its first end, committing nothing.
fn read_all(log: &mut FileLog) -> Result<Vec<Got>, LogError> {
    let mut got = Vec::new();
    while poll(log, usize::MAX, &mut got)? != LogEvent::End {}
    Ok(got)
}

fn event(session_id: &str, rest: &str) -> String {
    format!("{{\"id\":\"1\",\"session_id\":\"{session_id}\"{rest}}}\n")
}

#[test]
fn a_line_without_a_place_has_its_number_the_murmur2_of_its_session_and_its_time() {
    let dir = TempDir::new();
    let text = [
        event("s1", ""),
        event("s2", r#","time":"1970-01-01T00:00:02Z""#),
        "\n".to_owned(),
        event("s1", ""),
        event(r#"\u0073\""#, r#","time":7"#),
        "no json\r\n".to_owned(),
    ]
    .concat();
    let got = read_all(&mut open(&[file(&dir, "a.ndjson", text.as_bytes())], 1).lanes[0]).unwrap();
    let of = |key: &str| session(partition_of(key.as_bytes(), REPLAY_PARTITIONS));
    let seen: Vec<_> = got.iter().map(|got| (got.task, got.offset, got.timestamp_ms, got.key.as_deref())).collect();
    assert_eq!(
        seen,
        [
            (of("s1"), 0, 0, Some("s1")),
            (of("s2"), 1, 2_000, Some("s2")),
            (of("s1"), 3, 2_000, Some("s1")),
            (of("s\""), 4, 7, Some("s\"")),
            (session(0), 5, 7, None),
        ]
    );
    assert_eq!(got[4].value, "no json");
}

#[test]
fn a_record_with_a_former_place_keeps_it() {
    let dir = TempDir::new();
    let place = |partition: u32, offset: u64| {
        format!(r#","_record":{{"topic":"prod.events","partition":{partition},"offset":{offset},"timestamp":99}}"#)
    };
    let text =
        [event("s", &place(3, 88_120)), event("s", &place(40, 5)), event("s", &place(3, 88_120)), event("s", &place(3, 88_121))]
            .concat();
    let mut replay = open(&[file(&dir, "a.ndjson", text.as_bytes())], 1);
    let mut topics = Vec::new();
    let mut got = Vec::new();
    loop {
        let log = &mut replay.lanes[0];
        let event = log.poll(WAIT, &mut |task, record| {
            topics.push(record.meta.topic.to_owned());
            got.push((task.partition, record.meta.offset.0, record.meta.timestamp.0));
            Flow::Continue
        });
        match event.unwrap() {
            LogEvent::Assigned(tasks) => {
                log.assign(&tasks).unwrap();
                for task in &tasks {
                    log.start(*task, NextOffset(0)).unwrap();
                }
            }
            LogEvent::End => break,
            _ => {}
        }
    }
    assert_eq!(got, [(3, 88_120, 99), (40, 5, 99), (3, 88_121, 99)], "the second copy of a place is passed over");
    assert!(topics.iter().all(|topic| topic == "prod.events"));
}

#[test]
fn gzip_and_zstd_and_several_files_read_as_one() {
    let dir = TempDir::new();
    let part = |n: usize| (0..3).map(|line| event("s", &format!(r#","n":{}"#, 3 * n + line))).collect::<String>();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(part(0).as_bytes()).unwrap();
    let mut paths = vec![file(&dir, "b", &gzip.finish().unwrap())];
    paths.push(file(&dir, "c", &zstd::encode_all(part(1).as_bytes(), 3).unwrap()));
    paths.push(file(&dir, "a", &[b"\xef\xbb\xbf", part(2).trim_end().as_bytes()].concat()));
    let mut replay = open(&paths, 1);
    let got = read_all(&mut replay.lanes[0]).unwrap();
    assert_eq!(got.iter().map(|got| got.value.clone() + "\n").collect::<String>(), part(0) + &part(1) + &part(2));
    assert_eq!(got.iter().map(|got| got.offset).collect::<Vec<_>>(), (0..9).collect::<Vec<_>>());
    assert_eq!(replay.locate(4), Some((paths[1].display().to_string(), 1)));
    assert_eq!(replay.locate(6), Some((paths[2].display().to_string(), 0)));
}

#[test]
fn a_file_that_is_missing_or_damaged_is_named() {
    let dir = TempDir::new();
    let missing = FileReplay::open(vec![FileInput::Path(dir.path().join("none"))], &FileOptions::default()).unwrap_err();
    assert!(matches!(&missing, LogError::Fatal { code: "E0302", message } if message.contains("none")), "{missing}");
    let text: String =
        (0..50_000u32).map(|n| event(&format!("session-{n}"), &format!(r#","x":{}"#, n.wrapping_mul(0x9e37_79b9)))).collect();
    let packed = zstd::encode_all(text.as_bytes(), 1).unwrap();
    is_read_up_to_the_damage(&file(&dir, "cut.zst", &packed[..packed.len() / 2]), "cut.zst: after line");
    // Damaged where it is told what kind of file it is.
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&text.as_bytes()[..20_000]).unwrap();
    let packed = gzip.finish().unwrap();
    is_read_up_to_the_damage(&file(&dir, "cut.gz", &packed[..packed.len() - 300]), "cut.gz: after line");
}

fn is_read_up_to_the_damage(path: &std::path::Path, place: &str) {
    let mut replay = open(&[path.to_owned()], 1);
    let log = &mut replay.lanes[0];
    let good = read_all(log).unwrap();
    // What could be read is handed over and can be committed; then comes the error, instead of an end.
    commit_all(log, &good);
    let mut more = Vec::new();
    let error = loop {
        match poll(log, usize::MAX, &mut more) {
            Ok(LogEvent::End) => panic!("half a file is no end"),
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, LogError::Fatal { code: "E0302", message } if message.contains(place)), "{error}");
    assert!(!good.is_empty() && more.is_empty());
}

#[test]
fn a_line_that_is_too_long_is_cut_to_where_it_is_refused() {
    let dir = TempDir::new();
    let text = format!("{}{}", event("s", &format!(r#","x":"{}""#, "y".repeat(3 << 20))), event("s", ""));
    let got = read_all(&mut open(&[file(&dir, "a", text.as_bytes())], 1).lanes[0]).unwrap();
    assert_eq!(
        got.iter().map(|got| got.value.len()).collect::<Vec<_>>(),
        [FileOptions::default().value_bytes_max + 1, event("s", "").len() - 1]
    );
}

fn commit_all(log: &mut FileLog, got: &[Got]) {
    let mut offsets: Vec<(TaskId, NextOffset)> = got.iter().map(|got| (got.task, NextOffset(got.offset + 1))).collect();
    offsets.sort_unstable();
    offsets.dedup_by_key(|(task, _)| *task);
    assert!(matches!(log.commit(&offsets), CommitOutcome::Committed { .. }));
}

#[test]
fn a_lane_can_rewind_to_its_last_commit() {
    let dir = TempDir::new();
    let text: String = (0..10).map(|n| event(&format!("s{}", n % 2), &format!(r#","n":{n}"#))).collect();
    let mut replay = open(&[file(&dir, "a", text.as_bytes())], 1);
    let log = &mut replay.lanes[0];
    let mut got = Vec::new();
    while got.len() < 4 {
        poll(log, 1, &mut got).unwrap();
    }
    commit_all(log, &got);
    let tasks = [got[0].task, got[1].task];
    got.clear();
    while got.len() < 3 {
        poll(log, 1, &mut got).unwrap();
    }
    log.stage(command("s", "dropped"));
    log.discard();
    log.start(tasks[0], NextOffset(4)).unwrap();
    log.start(tasks[1], NextOffset(4)).unwrap();
    let again = read_all(log).unwrap();
    assert_eq!(again.iter().map(|got| got.offset).collect::<Vec<_>>(), [4, 5, 6, 7, 8, 9]);
    // Only one of them goes back.
    log.start(tasks[1], NextOffset(6)).unwrap();
    let again = read_all(log).unwrap();
    assert_eq!(again.iter().map(|got| got.offset).collect::<Vec<_>>(), [7, 9]);
}

/// A lane as the lane loop drives it: a command for each line that says so, a report for each swarm, a commit every so many records.
fn drive(mut log: FileLog, every: usize) -> Vec<(u32, String)> {
    let mut swarm = Vec::new();
    let mut got = Vec::new();
    let mut ends = 0;
    loop {
        let before = got.len();
        // Only lines count: when reports come is a matter of threads, and must not move a cut.
        let lines = |got: &[Got]| got.iter().filter(|got| got.task.stage == Stage::Session).count();
        let event = poll(&mut log, every - lines(&got), &mut got).unwrap();
        for got in &got[before..] {
            let cause = (got.task, RecordOffset(got.offset));
            if got.task.stage == Stage::Swarm {
                swarm.push((got.task.partition, format!("{}@{}", got.value, got.offset)));
                log.stage_from(cause, command("swarm", &got.value));
            } else {
                log.stage_from(cause, command("s", &got.offset.to_string()));
                let report = Output {
                    destination: Destination::SwarmCounts,
                    ..command(&format!("w{}", got.offset % 7), &got.offset.to_string())
                };
                log.stage_from(cause, report);
            }
        }
        let ended = event == LogEvent::End;
        if ended && got.is_empty() {
            return swarm;
        }
        ends += u32::from(ended);
        assert!(ends < 100, "it never ends");
        if lines(&got) >= every || (ended && !got.is_empty()) {
            commit_all(&mut log, &got);
            got.clear();
        }
    }
}

fn replay(path: &PathBuf, lanes: u32, every: usize) -> (Vec<Collected>, Vec<(u32, String)>) {
    let mut replay = open(std::slice::from_ref(path), lanes);
    let threads: Vec<_> = replay.lanes.drain(..).map(|log| std::thread::spawn(move || drive(log, every))).collect();
    let mut collected = Vec::new();
    while threads.iter().any(|thread| !thread.is_finished()) {
        // What is taken on the way is in its final order, of both stages.
        collected.extend(replay.collector.take_settled());
        std::thread::yield_now();
    }
    let mut swarm: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    // Within a partition the order stays.
    swarm.sort_by_key(|(partition, _)| *partition);
    collected.extend(replay.collector.take());
    (collected, swarm)
}

#[test]
fn outputs_of_all_lanes_come_in_the_order_of_the_input() {
    let dir = TempDir::new();
    let text: String = (0..20_000).map(|n| event(&format!("session-{}", n % 97), "")).collect();
    let path = file(&dir, "a", text.as_bytes());
    for lanes in [1, 3, 8] {
        let (collected, swarm) = replay(&path, lanes, 500);
        let commands: Vec<u64> = collected.iter().filter(|one| one.task.stage == Stage::Session).map(|one| one.line).collect();
        assert_eq!(commands, (0..20_000).collect::<Vec<_>>(), "{lanes} lanes");
        assert!(collected.is_sorted_by_key(|one| (one.line, one.task)));
        assert_eq!(swarm.len(), 20_000, "every report arrived, {lanes} lanes");
    }
}

#[test]
fn reports_reach_the_swarm_stage_in_one_order_however_threads_are_scheduled() {
    let dir = TempDir::new();
    let text: String = (0..20_000).map(|n| event(&format!("session-{}", n % 97), "")).collect();
    let path = file(&dir, "a", text.as_bytes());
    let (first, first_swarm) = replay(&path, 4, 300);
    for _ in 0..5 {
        let (again, again_swarm) = replay(&path, 4, 300);
        assert_eq!(again_swarm, first_swarm);
        assert!(again == first, "the same outputs in another order");
    }
}

#[test]
fn what_is_settled_can_be_taken_on_the_way() {
    let dir = TempDir::new();
    let text: String = (0..3).map(|n| event("s", &format!(r#","n":{n}"#))).collect();
    let mut replay = open(&[file(&dir, "a", text.as_bytes())], 2);
    let lane = (partition_of(b"s", REPLAY_PARTITIONS) % 2) as usize;
    let mut got = Vec::new();
    while got.len() < 2 {
        poll(&mut replay.lanes[lane], 1, &mut got).unwrap();
    }
    for one in &got {
        replay.lanes[lane].stage_from((one.task, RecordOffset(one.offset)), command("s", "c"));
    }
    commit_all(&mut replay.lanes[lane], &got);
    assert_eq!(replay.collector.take_settled(), [], "the other lane has not looked at these lines yet");
    let other = &mut replay.lanes[1 - lane];
    let mut none = Vec::new();
    other.poll(Duration::ZERO, &mut |_, _| unreachable!()).unwrap();
    while replay.collector.clone().take_settled().len() < 2 {
        let event = replay.lanes[1 - lane].poll(Duration::ZERO, &mut |_, _| unreachable!()).unwrap();
        none.push(event);
        assert!(none.len() < 10_000, "nothing settles");
    }
}

#[test]
fn a_lane_that_is_gone_does_not_hold_the_others() {
    let dir = TempDir::new();
    let text: String = (0..30_000).map(|n| event(&format!("session-{}", n % 97), "")).collect();
    let mut replay = open(&[file(&dir, "a", text.as_bytes())], 2);
    drop(replay.lanes.pop());
    let swarm = drive(replay.lanes.pop().unwrap(), 100);
    assert!(!swarm.is_empty());
}
