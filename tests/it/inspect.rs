//! `inspect`: a session, a swarm, a task; from files and of a running process. And a replay of logs of agents.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::{net::TcpStream, process::Stdio, time::Duration};

use loopwarden::{clock::Deadline, exit_code};
use serde_json::Value;

use crate::cli::{Scratch, expect, fleet, program, root, signal, stderr, stdout};
use crate::golden::RULES;

const CLAUDE: &str = "5b0c7d1e-0000-4000-8000-000000000001";

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&stdout(&expect(&[arguments, &["--output", "json"]].concat(), exit_code::DONE))).unwrap()
}

#[test]
fn a_session_is_shown_event_by_event_with_what_was_seen_and_said_and_why_not() {
    let log = root("tests/golden/transcript/claude-code/log.jsonl");
    let shown = json(&["inspect", "session", CLAUDE, "--file", &log, "--policy", RULES]);
    let steps = shown["steps"].as_array().unwrap();
    let nudged: Vec<&Value> = steps.iter().filter(|step| !step["commands"].as_array().unwrap().is_empty()).collect();
    assert!(nudged.iter().any(|step| step["commands"][0]["code"] == "exact_repeat" && step["tool"] == "Bash"), "{shown:#}");
    // The same commands as a replay of the same file, id by id.
    let replayed = stdout(&expect(&["replay", &log, "--policy", RULES, "--output", "ndjson"], exit_code::DONE));
    let ids = |commands: &mut dyn Iterator<Item = Value>| -> Vec<String> {
        commands.map(|command| command["id"].to_string()).collect()
    };
    let inspected = ids(&mut steps.iter().flat_map(|step| step["commands"].as_array().unwrap().clone()));
    let replayed = ids(&mut replayed.lines().map(|line| serde_json::from_str(line).unwrap()));
    assert_eq!(inspected, replayed);
    // Findings that led to no command say why.
    let silent =
        steps.iter().flat_map(|step| step["findings"].as_array().unwrap()).filter(|finding| !finding["why_silent"].is_null());
    assert!(silent.count() > 0, "{shown:#}");
    assert!(steps.iter().any(|step| step["streaks"].as_array().unwrap().iter().any(|streak| streak["name"] == "exact")));
}

#[test]
fn streaks_end_where_the_tools_own_factor_puts_it() {
    let shown = json(&["inspect", "session", "support-01", "--policy", RULES, "--file", &root("config/demo/fleet.ndjson")]);
    let exact = |step: &Value| -> Option<(u64, u64)> {
        let streak = step["streaks"].as_array().unwrap().iter().find(|streak| streak["name"] == "exact")?;
        Some((streak["count"].as_u64().unwrap(), streak["threshold"].as_u64().unwrap()))
    };
    let has_found = |step: &Value| step["findings"].as_array().unwrap().iter().any(|found| found["detector"] == "exact_repeat");
    let steps = shown["steps"].as_array().unwrap();
    let mut reached = 0;
    let calls = steps.iter().filter(|step| step["call"].is_string());
    for (step, (count, threshold)) in calls.filter_map(|step| Some((step, exact(step)?))) {
        assert_eq!(count >= threshold, has_found(step), "{step:#}");
        reached += u64::from(count >= threshold && threshold > 3);
    }
    assert!(reached > 0, "no poll in this session goes on for long");
}

#[test]
fn content_is_shown_on_demand_only() {
    let log = root("tests/golden/transcript/claude-code/log.jsonl");
    for output in ["table", "json"] {
        let quiet = stdout(&expect(&["inspect", "session", CLAUDE, "--file", &log, "--output", output], exit_code::DONE));
        assert!(!quiet.contains("lockfileVersion") && !quiet.contains("npm test"), "{quiet}");
        let arguments = ["inspect", "session", CLAUDE, "--file", &log, "--output", output, "--show-content"];
        assert!(stdout(&expect(&arguments, exit_code::DONE)).contains("lockfileVersion"));
    }
    let table = stdout(&expect(&["inspect", "session", CLAUDE, "--file", &log, "--limit", "3"], exit_code::DONE));
    assert!(table.contains("the newest 3 shown"), "{table}");
    let none = expect(&["inspect", "session", "nobody", "--file", &log], exit_code::FAILED);
    assert!(stderr(&none).contains("no event of session \"nobody\""), "{}", stderr(&none));
}

#[test]
fn lines_that_are_no_events_are_told() {
    let dir = crate::store::temp_dir::TempDir::new();
    let file = dir.path().join("events.ndjson");
    std::fs::write(&file, "{\"kind\":\"tool\",\"session_id\":\"s\"}\nno event\n").unwrap();
    for what in ["session", "swarm"] {
        let none = expect(&["inspect", what, "s", "--file", file.to_str().unwrap()], exit_code::FAILED);
        assert!(
            stderr(&none).contains("no events: 2 records of this input, the first: missing_field at /id"),
            "{}",
            stderr(&none)
        );
    }
}

#[test]
fn a_swarm_and_a_task_are_added_up() {
    let shown = json(&["inspect", "swarm", "price-crawl", "--file", &fleet()]);
    let commands = shown["commands"].as_array().unwrap();
    assert_eq!(commands.len(), 1, "{shown:#}");
    assert_eq!(commands[0]["code"], "swarm_repeat");
    let replayed = stdout(&expect(&["replay", &fleet(), "--output", "ndjson"], exit_code::DONE));
    let replayed: Vec<Value> = replayed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(replayed.iter().any(|command| command["id"] == commands[0]["id"]), "the replay knows no such id");
    let first = &shown["fingerprints"][0];
    assert!(first["said_or_why_not"].as_str().unwrap().starts_with("NUDGE"), "{first}");
    assert!(shown["sessions_total"].as_u64().unwrap() >= 3);
    let table = stdout(&expect(&["inspect", "swarm", "price-crawl", "--file", &fleet()], exit_code::DONE));
    assert!(table.contains("NUDGE at") && table.contains("http_get"), "{table}");

    let all: u64 = (0..24)
        .filter_map(|partition| {
            let output = program()
                .args(["inspect", "task", &format!("session:{partition}"), "--file", &fleet(), "--output", "json"])
                .output();
            let output = output.unwrap();
            output.status.success().then(|| serde_json::from_slice::<Value>(&output.stdout).unwrap()["records"].as_u64().unwrap())
        })
        .sum();
    assert_eq!(all, std::fs::read_to_string(fleet()).unwrap().lines().count() as u64);
    expect(&["inspect", "task", "three", "--file", &fleet()], exit_code::USAGE);
}

#[test]
fn events_have_the_index_that_labels_give_them_and_duplicates_none() {
    let scratch = Scratch::new("inspect-index");
    let log = scratch.0.join("events.ndjson");
    let event = |id: u32| {
        format!(
            "{{\"id\":\"e{id}\",\"kind\":\"tool\",\"session_id\":\"s\",\"tool\":\"t\",\"args\":{{\"at\":{id}}},\"outcome\":\"ok\"}}\n"
        )
    };
    std::fs::write(&log, [0, 1, 1, 2].map(event).concat()).unwrap();
    let log = log.to_string_lossy().into_owned();
    let shown = json(&["inspect", "session", "s", "--file", &log]);
    let indexes: Vec<(Option<u64>, bool)> = shown["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| (step["index"].as_u64(), step["is_duplicate"].as_bool().unwrap()))
        .collect();
    assert_eq!(indexes, [(Some(0), false), (Some(1), false), (None, true), (Some(2), false)]);
    let table = stdout(&expect(&["inspect", "session", "s", "--file", &log], exit_code::DONE));
    assert!(table.contains("left out: an event with this id was there before"), "{table}");
}

#[test]
fn calls_of_a_swarm_are_added_up_by_window() {
    let scratch = Scratch::new("inspect-windows");
    let log = scratch.0.join("slow.ndjson");
    // Three agents, a failing call each every four minutes for an hour: 45 in all, six to nine in ten minutes.
    let lines: String = (0..45)
        .map(|at| {
            format!(
                "{{\"id\":\"e{at}\",\"kind\":\"tool\",\"time\":\"2026-06-01T10:{:02}:{:02}Z\",\"session_id\":\"s{}\",\"swarm_id\":\"hive\",\"tool\":\"http_get\",\"args\":{{\"url\":\"https://example.org/a\"}},\"result\":\"timed out\",\"outcome\":\"timeout\"}}\n",
                at / 3 * 4, at % 3, at % 3
            )
        })
        .collect();
    std::fs::write(&log, lines).unwrap();
    let log = log.to_string_lossy().into_owned();
    let shown = json(&[
        "inspect",
        "swarm",
        "hive",
        "--file",
        &log,
        "--set",
        "detectors.swarm_repeat.threshold=12",
        "--set",
        "detectors.swarm_repeat.window_ms=600000",
    ]);
    assert_eq!(shown["commands"], serde_json::json!([]), "{shown:#}");
    let one = &shown["fingerprints"][0];
    let calls = one["calls"].as_u64().unwrap();
    assert!((3..=9).contains(&calls), "{one}");
    assert_eq!(one["said_or_why_not"], format!("{calls} calls, 12 needed"));
}

#[test]
fn a_running_process_is_asked_for_what_it_holds() {
    let scratch = Scratch::new("inspect");
    let dir = scratch.0.join("state").to_string_lossy().into_owned();
    let mut child = program()
        .args([
            "run",
            "--data-dir",
            &dir,
            "--set",
            "http.listen=127.0.0.1:0",
            "--set",
            "lanes=1",
            "--set",
            &format!("policy={RULES}"),
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let told = lines.find_map(|line| Some(line.unwrap().split_once("http://")?.1.to_owned())).unwrap();
    let address: String = told.chars().take_while(|letter| letter.is_ascii_digit() || matches!(letter, '.' | ':')).collect();
    let body: String = (0..3)
        .map(|at| {
            format!(
                "{{\"id\":\"e{at}\",\"kind\":\"tool\",\"session_id\":\"a/b\",\"swarm_id\":\"hive\",\"tool\":\"Bash\",\"args\":{{\"command\":\"make\"}},\"result\":\"no rule\",\"outcome\":\"error\"}}\n"
            )
        })
        .collect();
    let mut stream = TcpStream::connect(&address).unwrap();
    write!(
        stream,
        "POST /v1/events HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains(" 202 "), "{answer}");
    // The command comes once the session is committed.
    let mut stream = TcpStream::connect(&address).unwrap();
    write!(stream, "GET /v1/commands?wait=30s HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("exact_repeat"), "{answer}");
    let shown = json(&["inspect", "session", "a/b", "--address", &address]);
    assert_eq!(shown["agents"][0]["steps"].as_array().unwrap().len(), 3, "{shown:#}");
    let table = stdout(&expect(&["inspect", "session", "a/b", "--address", &address], exit_code::DONE));
    assert!(table.contains("exact_repeat") && table.contains("3 steps kept"), "{table}");
    let tasks: Vec<Value> =
        (0..4).map(|at| json(&["inspect", "task", &format!("session:{at}"), "--address", &address])).collect();
    assert!(tasks.iter().all(|task| task["state"] == "running"), "{tasks:?}");
    let none = expect(&["inspect", "session", "nobody", "--address", &address], exit_code::FAILED);
    assert!(stderr(&none).contains("no such session"), "{}", stderr(&none));
    expect(&["inspect", "swarm", "nobody", "--address", &address], exit_code::FAILED);
    // Its calls are added up by another task, a moment later.
    let deadline = Deadline::after(Duration::from_secs(60));
    let counted = loop {
        let told = program().args(["inspect", "swarm", "hive", "--address", &address]).output().unwrap();
        if told.status.success() {
            break stdout(&told);
        }
        assert!(!deadline.is_over(), "{}", stderr(&told));
    };
    assert!(counted.contains("fingerprint") && counted.contains("Bash"), "{counted}");
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn logs_of_agents_are_replayed_from_a_directory_and_what_is_none_is_told_by_file_and_line() {
    let logs = root("tests/golden/transcript");
    let output = expect(&["replay", &logs, "--output", "json"], exit_code::DONE);
    let (json, told): (Value, String) = (serde_json::from_str(&stdout(&output)).unwrap(), stderr(&output));
    for part in [
        "Claude Code: 3 logs read as",
        "Codex: 2 logs read as",
        "Gemini CLI: 3 logs read as",
        "OpenHands: 2 logs read as",
        "Cline: 4 logs read as",
        "goose: 3 logs read as",
        "entries ignored (",
        "file-history-snapshot",
    ] {
        assert!(told.contains(part), "{part} in\n{told}");
    }
    assert!(told.contains("goose-hostile/h.jsonl:2: no event: not_json"), "{told}");
    assert_eq!(json["sessions"], 19, "{json:#}");
    assert!(json["rejected"].as_u64().unwrap() > 10);
    let found = json["detectors"].as_array().unwrap();
    assert!(found.iter().any(|row| row["detector"] == "similar_repeat" && row["nudges"].as_u64() >= Some(2)), "{json:#}");
    let strict = expect(&["replay", &logs, "--strict"], exit_code::ANSWER_IS_NO);
    assert_eq!(stderr(&strict).matches("no event: ").count(), 1, "{}", stderr(&strict));
    let one = expect(&["replay", &logs, "--output", "ndjson", "--lanes", "1"], exit_code::DONE);
    let two = expect(&["replay", &logs, "--output", "ndjson", "--lanes", "3"], exit_code::DONE);
    assert!(one.stdout == two.stdout && !one.stdout.is_empty());
    let empty = Scratch::new("no-logs");
    assert!(stderr(&expect(&["replay", &empty.0.to_string_lossy()], exit_code::FAILED)).contains("no file below this directory"));
}
