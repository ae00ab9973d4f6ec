//! `tail` and `sessions --watch` beside a running process: the real binary, asked over HTTP.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use loopwarden::exit_code;
use serde_json::{Value, json};

use crate::cli::{expect, program, stderr, stdout};
use crate::http::{Running, Scratch, failed_call};

/// A process whose sessions of these names were nudged, one after the other.
fn looping(scratch: &Scratch, sessions: &[&str], settings: &[&str]) -> Running {
    let running = Running::start(&scratch.0, settings);
    for session in sessions {
        for number in 0..4 {
            running.accept(&failed_call(session, number));
        }
        running.commands_until(&format!("session_id={session}"), |said| said.iter().any(|told| told["action"] == "nudge"));
    }
    running
}

#[test]
fn tail_shows_each_command_as_a_line_and_filters_narrow_it() {
    let scratch = Scratch::new();
    let running = looping(&scratch, &["one", "two"], &["mode=live"]);
    let all = running.commands("after=0&wait=0s").0;
    let tail = |more: &[&str]| {
        let arguments = [&["tail", "--once", "--address", running.client.address()], more].concat();
        stdout(&expect(&arguments, exit_code::DONE))
    };
    let text = tail(&[]);
    assert_eq!(text.lines().count(), all.len(), "{text}");
    let first = text.lines().next().unwrap();
    for part in ["Z  nudge", "  one  ", all[0]["reason"]["summary"].as_str().unwrap(), "[similar"] {
        assert!(first.contains(part), "{part} is not in {first}");
    }
    assert!(!text.contains('\u{1b}') && !text.contains("(shadow)"), "{text}");
    let read: Vec<Value> = tail(&["--output", "json"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(read, all);
    for (filter, count) in [
        (&["--session", "two"][..], all.iter().filter(|told| told["session_id"] == "two").count()),
        (&["--session", "three"], 0),
        (&["--tool", "Bash"], all.len()),
        (&["--tool", "Read"], 0),
        (&["--action", "nudge"], all.iter().filter(|told| told["action"] == "nudge").count()),
        (&["--action", "unblock"], 0),
        (&["--mode", "live"], all.len()),
        (&["--mode", "shadow"], 0),
        (&["--since", "1"], all.len() - 1),
        (&["--since", "now"], 0),
        (&["--since", "1h"], all.len()),
        (&["--since", "2999-01-01"], 0),
    ] {
        assert_eq!(tail(filter).lines().count(), count, "{filter:?}");
    }
    let bad = ["tail", "--once", "--address", running.client.address(), "--since", "yesterday"];
    assert!(stderr(&expect(&bad, exit_code::CONFIG)).contains("error[E0202]: --since \"yesterday\""));
}

#[test]
fn tail_goes_on_with_what_comes_says_that_it_waits_and_in_shadow_mode_marks_what_nobody_was_told() {
    let scratch = Scratch::new();
    let running = looping(&scratch, &["before"], &[]);
    let mut child = program()
        .args(["tail", "--address", running.client.address()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // It follows as soon as the process counts it among its readers.
    running.until("/metrics", |answer| answer.text.contains("loopwarden_log_readers{} 1.0\n"));
    for number in 0..4 {
        running.accept(&failed_call("later", number));
    }
    let line = lines.next().unwrap().unwrap();
    assert!(line.contains("nudge (shadow)") && line.contains("  later  "), "what came before is not shown: {line}");
    running.kill();
    let told = BufReader::new(child.stderr.take().unwrap()).lines().next().unwrap().unwrap();
    assert!(told.starts_with("waiting for the process: "), "{told}");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A process on Kafka, as far as these commands ask it: no feed, and an overview.
fn on_kafka(overview: Value) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 2048];
            let read = stream.read(&mut request).unwrap();
            let path = String::from_utf8_lossy(&request[..read]).split(' ').nth(1).unwrap_or_default().to_owned();
            let answer = match path.split('?').next() {
                Some("/overview") => {
                    let mut overview = overview.clone();
                    let after: u64 = path.split("after=").nth(1).unwrap().parse().unwrap();
                    let recent = overview["recent"].as_array().unwrap().iter().enumerate();
                    overview["recent"] = recent.filter(|(at, _)| *at as u64 >= after).map(|(_, told)| told.clone()).collect();
                    format!("HTTP/1.1 200 OK\r\n\r\n{overview}")
                }
                _ => "HTTP/1.1 404 Not Found\r\n\r\n{\"error\":\"embedded_only\",\"message\":\"no\"}".to_owned(),
            };
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    address
}

#[test]
fn a_process_on_kafka_shows_its_last_commands() {
    let told = |session: &str| {
        json!({ "action": "block", "mode": "live", "session_id": session, "scope": { "kind": "session", "agent_id": "main", "tool": "Bash" },
            "issued_at": "2026-01-05T09:01:58.031Z", "reason": { "code": "stuck", "summary": "x" } })
    };
    let address = on_kafka(json!({ "mode": "live", "recent": [told("r"), told("s")], "recent_last": 2 }));
    let text = stdout(&expect(&["tail", "--once", "--address", &address], exit_code::DONE));
    assert_eq!(text.lines().count(), 2, "{text}");
}

#[test]
fn where_nobody_answers_it_is_said_what_to_start() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for command in [&["tail", "--once"][..], &["sessions", "--watch"]] {
        let told = stderr(&expect(&[command, &["--address", &gone]].concat(), exit_code::FAILED));
        assert!(told.contains("no loopwarden answers there; start one: loopwarden run"), "{told}");
    }
}

#[test]
fn on_a_terminal_sessions_are_drawn_again() {
    let scratch = Scratch::new();
    let running = looping(&scratch, &["one"], &["mode=live"]);
    let line =
        format!("exec '{}' sessions --looping --watch --address {}", env!("CARGO_BIN_EXE_loopwarden"), running.client.address());
    let mut child = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut drawn = BufReader::new(child.stdout.take().unwrap());
    let (mut said, mut piece) = (String::new(), [0; 512]);
    while said.matches("\u{1b}[H\u{1b}[2J").count() < 2 {
        let read = drawn.read(&mut piece).unwrap();
        assert!(read > 0, "it ended: {said}");
        said.push_str(&String::from_utf8_lossy(&piece[..read]));
    }
    assert!(said.contains("1 agent of 1 looked at") && said.contains("nudged"), "{said}");
    // The key that interrupts.
    child.stdin.take().unwrap().write_all(&[3]).unwrap();
    child.wait().unwrap();
}
