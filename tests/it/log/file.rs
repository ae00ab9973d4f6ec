//! Replay from files: places, order, and lanes that are turned by threads.

use std::path::{Path, PathBuf};
use std::{io::Write, sync::Arc, time::Duration};

use loopwarden::event::{Stage, partition_of};
use loopwarden::log::file::{Collected, FileInput, FileOptions, Next, REPLAY_PARTITIONS, RecordedInput};
use loopwarden::task::{CommitTrigger, LaneSettings};
use loopwarden::{clock::Deadline, engine::SessionEngine, log::LogError, policy::Policy};
use loopwarden_lab::replay::Workers;

use super::log_contract::{Got, session};
use super::temp_dir::TempDir;

fn file(dir: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn open(paths: &[PathBuf], lanes: u32) -> RecordedInput {
    let inputs = paths.iter().cloned().map(FileInput::Path).collect();
    RecordedInput::open(inputs, &FileOptions { lanes, ..FileOptions::default() }).unwrap()
}

/// Every record, up to the end or to what cannot be read.
fn read(input: &RecordedInput) -> (Vec<Got>, Result<(), LogError>) {
    let mut got = Vec::new();
    let end = input.visit(|record| {
        got.push(Got {
            task: session(record.meta.partition),
            offset: record.meta.offset.0,
            key: record.meta.key.map(|key| String::from_utf8(key.to_vec()).unwrap()),
            value: String::from_utf8_lossy(record.value.unwrap()).into_owned(),
            timestamp_ms: record.meta.timestamp.0,
        });
    });
    (got, end)
}

fn read_all(paths: &[PathBuf]) -> Vec<Got> {
    let (got, end) = read(&open(paths, 1));
    end.unwrap();
    got
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
    let got = read_all(&[file(&dir, "a.ndjson", text.as_bytes())]);
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
    let (mut topics, mut got) = (Vec::new(), Vec::new());
    let input = open(&[file(&dir, "a.ndjson", text.as_bytes())], 1);
    input
        .visit(|record| {
            topics.push(record.meta.topic.to_owned());
            got.push((record.meta.partition, record.meta.offset.0, record.meta.timestamp.0));
        })
        .unwrap();
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
    let input = open(&paths, 1);
    let (got, end) = read(&input);
    end.unwrap();
    assert_eq!(got.iter().map(|got| got.value.clone() + "\n").collect::<String>(), part(0) + &part(1) + &part(2));
    assert_eq!(got.iter().map(|got| got.offset).collect::<Vec<_>>(), (0..9).collect::<Vec<_>>());
    assert_eq!(input.locate(4), Some((paths[1].display().to_string(), 1)));
    assert_eq!(input.locate(6), Some((paths[2].display().to_string(), 0)));
}

#[test]
fn a_file_that_is_missing_or_damaged_is_named() {
    let dir = TempDir::new();
    let missing = RecordedInput::open(vec![FileInput::Path(dir.path().join("none"))], &FileOptions::default()).unwrap_err();
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

fn is_read_up_to_the_damage(path: &Path, place: &str) {
    // What could be read is handed over; then comes the error, instead of an end.
    let (good, end) = read(&open(&[path.to_owned()], 1));
    let error = end.unwrap_err();
    assert!(matches!(&error, LogError::Fatal { code: "E0302", message } if message.contains(place)), "{error}");
    assert!(!good.is_empty());
}

#[test]
fn a_line_that_is_too_long_is_cut_to_where_it_is_refused() {
    let dir = TempDir::new();
    let text = format!("{}{}", event("s", &format!(r#","x":"{}""#, "y".repeat(3 << 20))), event("s", ""));
    let got = read_all(&[file(&dir, "a", text.as_bytes())]);
    assert_eq!(
        got.iter().map(|got| got.value.len()).collect::<Vec<_>>(),
        [FileOptions::default().value_bytes_max + 1, event("s", "").len() - 1]
    );
}

/// Everything that is published about an input, and how much of it was there before the end.
pub(crate) fn published(
    input: &RecordedInput,
    threads: usize,
    (app, policy): (&str, &Arc<Policy>),
    settings: &Arc<LaneSettings>,
) -> (Vec<Collected>, usize) {
    std::thread::scope(|scope| {
        let engine = SessionEngine::new(app, Arc::clone(policy));
        let (mut workers, _) = Workers::start(scope, input.logs(false), threads, settings, &engine, &Arc::default());
        let mut collected = Vec::new();
        loop {
            match input.next(Duration::from_secs(60)) {
                Next::Round(round) => workers.feed(round).unwrap(),
                Next::Nothing => panic!("the reader is stuck"),
                Next::End => break,
            }
            collected.extend(workers.settled());
        }
        let early = collected.len();
        workers.end(true).unwrap();
        collected.extend(workers.rest());
        (collected, early)
    })
}

#[test]
fn outputs_come_in_the_order_of_the_input_and_are_the_same_whatever_the_threads() {
    let dir = TempDir::new();
    let fleet = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("config/demo/fleet.ndjson")).unwrap();
    let settings = LaneSettings { trigger: CommitTrigger::EveryRecords(50), swarm: true, ..LaneSettings::default() };
    let (policy, settings) = (Arc::new(loopwarden::config::policy::load("default").unwrap()), Arc::new(settings));
    // Records of one time: then nothing but their lines gives sums an order.
    for at_once in ["", r#","_record":{"timestamp":1767600000000}"#] {
        // Many fleets, one after the other: some rounds.
        let fleets = (0..80).map(|number| {
            let named = |name: &str| format!(r#""{name}":"f{number}-"#);
            let fleet = fleet.replace(r#""session_id":""#, &named("session_id")).replace(r#""swarm_id":""#, &named("swarm_id"));
            fleet.replace("}\n", &format!("{at_once}}}\n"))
        });
        let path = file(&dir, "fleets.ndjson", fleets.collect::<String>().as_bytes());
        let run = |threads| {
            let input = open(std::slice::from_ref(&path), REPLAY_PARTITIONS);
            published(&input, threads, ("loopwarden", &policy), &settings)
        };
        let (first, early) = run(1);
        assert!(first.is_sorted_by_key(|one| (one.line, one.task)));
        assert!(first.iter().any(|one| one.task.stage == Stage::Swarm), "swarms have commands");
        assert!(early > 0 && early < first.len(), "{early} of {} before the end", first.len());
        for threads in [2, 5, 24, 99] {
            assert!(run(threads) == (first.clone(), early), "{threads} threads, {at_once}");
        }
    }
}

#[test]
fn a_reader_that_nobody_takes_from_ends() {
    let dir = TempDir::new();
    let text: String = (0..200_000).map(|n| event(&format!("session-{}", n % 97), "")).collect();
    let input = open(&[file(&dir, "a", text.as_bytes())], 2);
    assert!(matches!(input.next(Duration::from_secs(60)), Next::Round(round) if round.records() > 0));
    let progress = input.progress();
    drop(input);
    let deadline = Deadline::after(Duration::from_secs(60));
    while Arc::strong_count(&progress) > 1 {
        assert!(!deadline.is_over(), "the reading thread goes on");
        std::thread::yield_now();
    }
}
