//! The page on guarantees: every promise names tests that exist, and those that no other file decides are decided here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::{fs, io};

use loopwarden::identity::base32;
use loopwarden::log::file::{FileInput, FileOptions, Published, RecordedInput};
use loopwarden::task::{CommitTrigger, LaneSettings, ProcessMode};
use loopwarden_sim::MemoryTopic;

use crate::world::{APP, Fed, PARTITIONS, TestWorld, config, feed, fleet, outputs_by_task, policy, settings};
use crate::{log::file::published, store::temp_dir::TempDir};

/// Names that are runs of a program of its own, and no test functions. Its `main` calls them by that name.
const RUNS: [&str; 3] = ["chaos::kill_loop::run", "chaos::embedded_loop::run", "chaos::lag::runs"];

/// Whether a name such as `it::lane::batch_cuts_do_not_show` is that of a test: program, module, function. The module has a file of its
/// own, and the function is marked as a test there.
fn names_a_test(name: &str) -> bool {
    let parts: Vec<&str> = name.split("::").collect();
    let [program, modules @ .., function] = &parts[..] else { return false };
    if RUNS.contains(&name) {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(program);
        let texts = ["main.rs".to_owned(), format!("{}.rs", modules.join("/"))].map(|file| fs::read_to_string(tests.join(file)));
        let [Ok(main), Ok(module)] = texts else { return false };
        let is_defined = module.lines().any(|line| line.starts_with(&format!("pub(crate) fn {function}(")));
        return is_defined && main.contains(&format!(" {}::{function}(", modules.join("::")));
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // A program of tests, or a crate: there beside the code, or in tests of its own.
    let below = |folder: PathBuf| modules.iter().fold(folder, |at, part| at.join(part));
    let of_crate = root.join("src").join(program);
    let folders = [root.join("tests").join(program), of_crate.join("tests"), of_crate].map(below);
    let files = folders.iter().flat_map(|folder| [folder.with_extension("rs"), folder.join("mod.rs"), folder.join("main.rs")]);
    let files: Vec<PathBuf> = files.collect();
    let texts: Vec<String> = files.iter().filter_map(|file| fs::read_to_string(file).ok()).collect();
    texts.iter().any(|text| holds_test(text, function))
}

/// Whether a source has the function with `#[test]` among the attributes and comments just above it, and nothing there that leaves it out.
fn holds_test(source: &str, function: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let head = format!("fn {function}(");
    lines.iter().enumerate().any(|(at, line)| {
        let above: Vec<_> =
            lines[..at].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("//")).collect();
        line.trim_start_matches("pub(crate) ").starts_with(&head)
            && above.iter().any(|line| **line == "#[test]")
            && !above.iter().any(|line| ["#[ignore", "#[cfg"].iter().any(|left_out| line.starts_with(left_out)))
    })
}

#[test]
fn every_guarantee_names_tests_that_exist() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/docs/guarantees.md")).unwrap();
    let promises: Vec<&str> = page.split("\n- G").skip(1).map(|rest| rest.split("\n## ").next().unwrap_or_default()).collect();
    for (at, promise) in promises.iter().enumerate() {
        let id = format!("G{}", at + 1);
        assert!(promise.starts_with(&format!("{}: ", at + 1)), "{id}: promises are numbered without a gap: {promise}");
        let names: Vec<&str> = promise.lines().filter_map(|line| line.strip_prefix("  - `")?.strip_suffix('`')).collect();
        assert!(!names.is_empty(), "{id} names no test");
        for name in names {
            assert!(names_a_test(name), "{id}: there is no test {name}");
        }
    }
    assert!(promises.len() >= 21, "{} promises", promises.len());
    // Nothing, no module, no test, a test of another module, of another program, of no module.
    let wrong = [
        "it::lane::no_such_test",
        "it::nowhere::batch_cuts_do_not_show",
        "it::world::fleet",
        "it::store::batch_cuts_do_not_show",
        "kafka::lane::batch_cuts_do_not_show",
        "it::batch_cuts_do_not_show",
        "batch_cuts_do_not_show",
        "chaos::kill_loop::runs",
        "chaos::reference::run",
        "mcp_http::sessions::sessions_beyond_the_bound_are_not_told_what_others_did_and_forged_ids_push_out_nobody",
        "lane::exactly_once::no_such_test",
    ];
    for name in wrong {
        assert!(!names_a_test(name), "{name} passes for a test");
    }
    assert!(holds_test("#[test]\n// Why.\n#[should_panic]\nfn one() {}\n", "one"));
    for source in [
        "#[test]\nfn two() {}\nfn one() {}\n",
        "fn one() {}\n",
        "#[test]\n\nfn one_more() {}\n",
        "// #[test]\nfn one() {}\n",
        "#[test]\n#[ignore]\nfn one() {}\n",
        "#[ignore = \"slow\"]\n#[test]\nfn one() {}\n",
        "#[cfg(windows)]\n#[test]\nfn one() {}\n",
    ] {
        assert!(!holds_test(source, "one"), "{source}");
    }
}

#[test]
fn every_row_of_who_could_do_what_names_tests_that_exist() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("SECURITY.md")).unwrap();
    let table = page.split("\n## Who could do what\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect()))
        .skip(1)
        .collect();
    for row in &rows {
        assert_eq!(row.len(), 4, "{row:?}");
        let names: Vec<&str> = row[3].split(", ").map(|name| name.trim_matches('`')).collect();
        for name in names {
            assert!(names_a_test(name), "{}: there is no test {name}", row[0]);
        }
    }
    assert!(rows.len() >= 27, "{} rows", rows.len());
    // Each test of this folder stands for somebody who could do something.
    for file in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/hostile")).unwrap() {
        let path = file.unwrap().path();
        let module = path.file_stem().unwrap().to_string_lossy().into_owned();
        assert!(module == "mod" || table.contains(&format!("`it::hostile::{module}::")), "{module} is in no row");
    }
}

/// What log lines say, for a test to read.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn nothing_of_an_agents_content_leaves_in_commands_rows_sums_or_log_lines() {
    const SECRET: &str = "hunter2-7f3a";
    const ALONE: &str = "LOOPWARDEN_TEST_ALONE";
    // Whether a place in the code logs at all is remembered for the whole process: other tests, which listen to nothing, would decide.
    if std::env::var_os(ALONE).is_none() {
        let name = "guarantees::nothing_of_an_agents_content_leaves_in_commands_rows_sums_or_log_lines";
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        let output = alone.args(["--exact", name, "--nocapture"]).env(ALONE, "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
        return;
    }
    let mut records: Vec<Fed> = Vec::new();
    for number in 0..400_i64 {
        let time_ms = 1_795_291_200_000 + number * 200;
        let session = format!("s{}", number % 5);
        // A loop, with the content in every field that carries some; and what is refused, or panics.
        let what = match number % 40 {
            38 => format!(r#""kind":"message","role":"assistant","text":"{SECRET}""#),
            39 => format!(r#""kind":"tool","tool":"boom","args":{{"q":"{SECRET}"}},"result":"{SECRET}""#),
            37 => format!(r#""kind":"{SECRET}""#),
            _ => format!(
                r#""kind":"tool","tool":"Bash","call_id":"c{number}","swarm_id":"w","args":{{"command":"cat {SECRET}","{SECRET}":1}},"outcome":"error","error":"{SECRET} failed","result":"{SECRET}","state":"{SECRET}""#
            ),
        };
        let json = format!(r#"{{"id":"e{number}","session_id":"{session}","time":{time_ms},{what}}}"#);
        records.push((session, Some(json.into_bytes()), time_ms));
    }
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone()).finish();
    let world = tracing::subscriber::with_default(subscriber, || {
        let mut world = TestWorld::new(config(20), settings(CommitTrigger::EveryRecords(1)));
        feed(&world.broker, &records);
        world.start("lw", 1);
        assert!(world.settle(), "{:?}", world.exits);
        world
    });
    let holds = |bytes: &[u8]| bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
    for topic in [MemoryTopic::Commands, MemoryTopic::State, MemoryTopic::Input(loopwarden::event::Stage::Swarm)] {
        let records = world.broker.committed(topic);
        assert!(records.len() >= 5, "{topic:?} says too little to prove anything");
        for record in records {
            let parts = [record.key, record.value].into_iter().chain(record.headers.into_iter().map(|(_, value)| value));
            for part in parts.flatten() {
                assert!(!holds(&part), "{topic:?}: {}", String::from_utf8_lossy(&part));
            }
        }
    }
    let lines = lines.0.lock().unwrap();
    assert!(String::from_utf8_lossy(&lines).contains("finding"), "log lines were not taken");
    let line = String::from_utf8_lossy(&lines).lines().find(|line| line.contains(SECRET)).map(str::to_owned);
    assert_eq!(line, None);
    // A dead letter is the record itself, as the page says.
    assert!(world.broker.committed(MemoryTopic::DeadLetters).iter().any(|letter| holds(letter.value.as_deref().unwrap())));
}

#[test]
fn a_replay_of_exported_records_gives_the_ids_of_production() {
    // What was produced: whole events only, since a line of a file cannot hold everything a record can.
    let mut records = fleet(21, 600);
    records.retain(|(_, value, _)| {
        value
            .as_deref()
            .is_some_and(|value| serde_json::from_slice::<serde_json::Value>(value).is_ok_and(|json| json["tool"] != "boom"))
    });
    let production = LaneSettings { swarm: false, ..settings(CommitTrigger::Timed { max_ms: 100, min_ms: 2 }) };
    let mut world = TestWorld::new(config(20), production.clone());
    feed(&world.broker, &records);
    world.start("lw", 2);
    assert!(world.settle(), "{:?}", world.exits);
    let mut expected = BTreeMap::new();
    for (task, outputs) in outputs_by_task(&world.broker) {
        expected.insert(task, outputs.into_iter().map(|seen| seen.id).collect::<Vec<_>>());
    }

    // The export: each event with the place it had.
    let mut offsets = [0_u64; PARTITIONS as usize];
    let mut text = String::new();
    for (session, value, timestamp_ms) in &records {
        let partition = loopwarden::event::partition_of(session.as_bytes(), PARTITIONS);
        let mut json: serde_json::Value = serde_json::from_slice(value.as_deref().unwrap()).unwrap();
        json["_record"] = serde_json::json!({
            "topic": "exported", "partition": partition, "offset": offsets[partition as usize], "timestamp": timestamp_ms
        });
        offsets[partition as usize] += 1;
        text.push_str(&format!("{json}\n"));
    }
    let dir = TempDir::new();
    let path = dir.path().join("export.ndjson");
    fs::write(&path, text).unwrap();
    let input = RecordedInput::open(vec![FileInput::Path(path)], &FileOptions::default()).unwrap();
    let replayed =
        Arc::new(LaneSettings { mode: ProcessMode::Replay, trigger: CommitTrigger::EveryRecords(4_096), ..production });
    let mut found = BTreeMap::<String, Vec<String>>::new();
    for collected in published(&input, 1, (APP, &policy()), &replayed).0 {
        if let Published::Command(command, _) = collected.published {
            found.entry(collected.task.to_string()).or_default().push(base32(&command.id.0));
        }
    }
    assert!(found.values().map(Vec::len).sum::<usize>() > 20);
    expected.retain(|_, ids| !ids.is_empty());
    // Dead letters have places, not ids of commands.
    expected.values_mut().for_each(|ids| ids.retain(|id| !id.contains('/')));
    assert_eq!(found, expected);
}
