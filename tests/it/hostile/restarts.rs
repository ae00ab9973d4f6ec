//! Against what binds over a restart: nobody gets through at a guard that was killed, whose source is away, begins anew, or is another user.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::{fs, os::unix::fs::PermissionsExt as _};

use rustix::process::Uid;
use rustix::thread::set_thread_uid;
use serde_json::{Value, json};

use crate::hostile::neighbours::{NOBODY, is_root};
use crate::http::client::{Answer, Client, PATIENCE};
use crate::http::sidecar::{Guard, until_so};
use crate::http::{Running, Scratch};

const LISTEN: [&str; 2] = ["--listen", "127.0.0.1:0"];

/// The answer before a call of a session.
fn before(client: &Client, session_id: &str, number: usize) -> Answer {
    let event = json!({
        "id": format!("{session_id}-{number}"), "kind": "tool_call", "session_id": session_id, "tool": "Read", "args": { "path": "f" },
    });
    let check = json!({ "event": event, "client": { "name": "test", "can": ["deny"] }, "deadline_ms": 10_000 });
    let answer = client.post("/v1/check", "application/json", check.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer
}

/// Decision, whether it is stale, whether its head says that it knows.
fn decided(answer: &Answer) -> (String, bool, bool) {
    let told = answer.json();
    let is_stale = told["state"]["stale"].as_bool().unwrap();
    (told["decision"].as_str().unwrap().to_owned(), is_stale, answer.header("loopwarden-fresh") == Some("1"))
}

fn refused(is_stale: bool) -> (String, bool, bool) {
    ("deny".to_owned(), is_stale, !is_stale)
}

fn allowed(is_stale: bool) -> (String, bool, bool) {
    ("allow".to_owned(), is_stale, !is_stale)
}

/// The file in which the guard of a test keeps what binds.
fn kept(scratch: &Scratch) -> PathBuf {
    let found = fs::read_dir(scratch.0.join("state/loopwarden")).into_iter().flatten().flatten();
    let mut found = found.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "kept"));
    found.next().unwrap_or_default()
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn errors(scratch: &Scratch) -> String {
    text(&scratch.0.join("guard-stderr"))
}

#[test]
fn a_guard_that_is_killed_and_starts_while_its_source_is_away_refuses_on_and_releases_nobody() {
    let scratch = Scratch::new();
    let upstream = Running::start(&scratch.0, &["mode=live"]);
    let listens = format!("http.listen={}", upstream.client.address());
    let url = format!("http://{}", upstream.client.address());
    let start = || Guard::start(&scratch, &[&["--upstream", &url][..], &LISTEN].concat());
    let guard = start();
    let stop = json!({ "scope": "session", "session_id": "s", "reason": "a s3cret drill", "for": "1h", "fail": "closed" });
    assert_eq!(upstream.client.post("/v1/stops", "application/json", stop.to_string().as_bytes()).json()["in_force"], true);
    until_so(|number| decided(&before(&guard.client(), "s", number)), |found| *found == refused(false));
    assert_eq!(decided(&before(&guard.client(), "other", 1)), allowed(false));
    let file = until_so(|_| text(&kept(&scratch)), |text| text.contains("\"stop"));
    assert_eq!(fs::metadata(kept(&scratch)).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!file.contains("s3cret") && file.contains("\"closed\""), "{file}");

    upstream.kill();
    drop(guard);
    let guard = start();
    let first = before(&guard.client(), "s", 1_000);
    assert_eq!(decided(&first), refused(true), "{}", first.text);
    assert!(first.json()["message"].as_str().unwrap().starts_with("An operator has stopped this agent until "), "{}", first.text);
    assert_eq!(first.json()["fail"], "closed");
    assert!(first.header("loopwarden-refuse-for-ms").is_some(), "{}", first.head);
    assert_eq!(decided(&before(&guard.client(), "other", 1_000)), allowed(true));

    // What the source says replaces it: the stop goes on, and its release is one.
    let upstream = Running::start(&scratch.0, &["mode=live", &listens]);
    until_so(|number| decided(&before(&guard.client(), "s", 2_000 + number)), |found| *found == refused(false));
    assert_eq!(upstream.client.send("DELETE", "/v1/stops?scope=session&session_id=s", &[], b"").status, 202);
    until_so(|number| decided(&before(&guard.client(), "s", 3_000 + number)), |found| *found == allowed(false));
    until_so(|_| text(&kept(&scratch)), |text| !text.contains("\"stop"));
    upstream.kill();
    drop(guard);
    assert_eq!(decided(&before(&start().client(), "s", 4_000)), allowed(true));
}

/// A stop of the session `s` that lasts, as a command.
fn stop() -> Value {
    json!({
        "v": 1, "id": "c", "action": "block", "session_id": "s", "level": 4, "epoch": 1, "seq": 9, "episode": "e",
        "scope": { "kind": "session", "by": "stop" }, "issued_at": "2026-01-01T00:00:00Z", "expires_at": "2099-01-01T00:00:00Z",
        "mode": "live", "reason": { "code": "stop", "summary": "s3cret", "evidence": { "fail": "closed" } }, "message": "s3cret",
        "advice": "stop", "trigger": {}, "engine": {},
    })
}

/// Requests and answers of one test.
const WAITING_MAX: usize = 4_096;

/// A process of the test: what it answers to each question for commands, in turn. Where there is nothing more it waits until the test ends.
struct Source {
    url: String,
    answers: SyncSender<(u16, Value)>,
    asked: Receiver<String>,
}

impl Source {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (answers, take) = sync_channel::<(u16, Value)>(WAITING_MAX);
        let (tell, asked) = sync_channel(WAITING_MAX);
        let take = Arc::new(Mutex::new(take));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, take, tell) = (stream.unwrap(), Arc::clone(&take), tell.clone());
                std::thread::spawn(move || {
                    let path = path(&mut stream);
                    let (status, body) = if path.starts_with("/v1/commands") {
                        let _ = tell.send(path);
                        take.lock().unwrap().recv().unwrap_or((503, json!({})))
                    } else {
                        (202, json!({ "accepted": 1, "rejected": [] }))
                    };
                    let body = body.to_string();
                    let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n\r\n", body.len());
                    let _ = stream.write_all(format!("{head}{body}").as_bytes());
                });
            }
        });
        Self { url, answers, asked }
    }

    fn answer(&self, status: u16, commands: &[Value], next: &str) {
        self.answers.send((status, json!({ "commands": commands, "next": next, "lag_ms": 0 }))).unwrap();
    }

    /// Waits for a question that goes on after a position.
    fn until_asked(&self, after: &str) {
        while !self.asked.recv_timeout(PATIENCE).unwrap().ends_with(&format!("&after={after}")) {}
    }
}

/// Reads a head, and returns the path of its request.
fn path(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).split(' ').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn a_source_that_begins_anew_lifts_no_stop_before_all_of_it_was_read() {
    let (scratch, source) = (Scratch::new(), Source::start());
    source.answer(200, &[stop()], "1");
    let guard = Guard::start(&scratch, &[&["--upstream", &source.url][..], &LISTEN].concat());
    assert_eq!(decided(&before(&guard.client(), "s", 1)), refused(false));
    source.answer(410, &[], "");
    source.until_asked("1");
    source.until_asked("0");
    assert_eq!(decided(&before(&guard.client(), "s", 2)), refused(true));
    assert_eq!(decided(&before(&guard.client(), "other", 2)), allowed(true), "nobody knows amid a reading");
    // Again, before the end was reached.
    source.answer(410, &[], "");
    source.until_asked("0");
    assert_eq!(decided(&before(&guard.client(), "s", 3)), refused(true));
    // It no longer has its beginning: what it is silent about is in force, for all one knows.
    source.answers.send((200, json!({ "commands": [], "next": "5", "lag_ms": 0, "missed": 5 }))).unwrap();
    source.until_asked("5");
    assert_eq!(decided(&before(&guard.client(), "s", 4)), refused(false));
    source.answer(410, &[], "");
    source.until_asked("0");
    source.answer(200, &[], "0");
    source.until_asked("0");
    assert_eq!(decided(&before(&guard.client(), "s", 5)), allowed(false), "all of it was read, and it has no such stop");
}

#[test]
fn a_file_that_is_damaged_or_of_others_is_not_believed_and_one_that_cannot_be_written_is_reported() {
    let (scratch, source) = (Scratch::new(), Source::start());
    let file = scratch.0.join("file");
    let place = file.display().to_string();
    let start = |url: &str, place: &str| Guard::start(&scratch, &[&["--upstream", url, "--keep", place][..], &LISTEN].concat());
    source.answer(200, &[stop()], "1");
    let guard = start(&source.url, &place);
    let good = until_so(|_| text(&file), |text| text.contains("\"stop"));
    drop(guard);
    assert!(!good.contains("s3cret"), "{good}");
    let guard = start(&source.url, &place);
    assert_eq!(decided(&before(&guard.client(), "s", 1)), refused(true));
    assert_eq!(errors(&scratch), "");
    drop(guard);

    let flipped = good.replacen("2099", "2098", 1);
    let cut = good[..good.len() - 9].to_owned();
    let foreign = "http://127.0.0.1:1";
    for (url, written, is_left) in [
        (source.url.as_str(), flipped.as_str(), false),
        (&source.url, &cut, false),
        (&source.url, "", false),
        (foreign, &good, false),
        (&source.url, "somebody's notes", true),
    ] {
        fs::write(&file, written).unwrap();
        let guard = start(url, &place);
        assert_eq!(decided(&before(&guard.client(), "s", 1)), allowed(true), "{written}");
        until_so(|_| errors(&scratch), |errors| errors.contains("W0702") && errors.contains(&place));
        if is_left {
            assert_eq!(text(&file), written);
        } else {
            until_so(|_| text(&file), |text| text != written);
        }
    }
    // Others could have written it.
    fs::write(&file, &good).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    let guard = start(&source.url, &place);
    assert_eq!(decided(&before(&guard.client(), "s", 1)), allowed(true));
    until_so(|_| errors(&scratch), |errors| errors.contains("W0702"));
    drop(guard);
    let _guard = start(&source.url, "/proc/nowhere/file");
    until_so(|_| errors(&scratch), |errors| errors.contains("W0701") && errors.contains("/proc/nowhere/file"));
}

#[test]
fn another_user_who_takes_the_address_of_a_process_gets_no_token_and_lifts_no_stop_at_its_guard() {
    if !is_root() {
        println!("skipped: only root can be another user");
        return;
    }
    let (scratch, source) = (Scratch::new(), Source::start());
    let token = scratch.0.join("token");
    fs::write(&token, "s3cret").unwrap();
    let token = token.display().to_string();
    let (tell, told) = sync_channel(WAITING_MAX);
    // The user is that of a thread, and of what it opens.
    std::thread::spawn(move || {
        set_thread_uid(Uid::from_raw(NOBODY)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        tell.send(listener.local_addr().unwrap().to_string()).unwrap();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let path = path(&mut stream);
            let _ = stream.write_all(b"HTTP/1.1 410 x\r\ncontent-length: 0\r\n\r\n");
            tell.send(path).unwrap();
        }
    });
    let stranger = format!("http://{}", told.recv().unwrap());
    // The same file, so that the guard knows of a stop when it begins to ask whoever listens there now.
    let file = scratch.0.join("file").display().to_string();
    source.answer(200, &[stop()], "1");
    let arguments = |url| [&["--upstream", url, "--upstream-token-file", &token, "--keep", &file][..], &LISTEN].concat();
    let guard = Guard::start(&scratch, &arguments(&source.url));
    let kept = until_so(|_| text(Path::new(&file)), |text| text.contains("\"stop"));
    drop(guard);
    let moved = kept.split_once('\n').unwrap().1.replacen(&source.url, &stranger, 1);
    fs::write(&file, format!("loopwarden guard 1 {}\n{moved}", checksum(&moved))).unwrap();
    let guard = Guard::start(&scratch, &arguments(&stranger));
    until_so(|_| errors(&scratch), |errors| errors.contains(&format!("user {NOBODY} listens there")));
    for number in 0..10 {
        assert_eq!(decided(&before(&guard.client(), "s", number)), refused(true));
    }
    drop(guard);
    assert!(told.try_iter().all(|path| path.is_empty()), "a request reached him");
}

/// Of what stands behind the first line.
fn checksum(text: &str) -> String {
    loopwarden_core::identity::hash_parts(&[text]).hash128().to_string()
}

#[test]
fn an_event_that_the_guard_does_not_take_releases_nobody() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &["mode=live"]);
    for (event, is_fresh) in [
        (json!({ "session_id": "s", "hook_event_name": "PreToolUse", "tool_name": "Read", "tool_input": {} }), true),
        (json!({ "session_id": "s", "hook_event_name": "PreToolUse" }), false),
        (json!({ "session_id": "x".repeat(10_000), "hook_event_name": "PreToolUse", "tool_name": "Read" }), false),
    ] {
        let answer = running.client.post("/v1/hooks/claude-code", "application/json", event.to_string().as_bytes());
        assert_eq!((answer.status, answer.header("loopwarden-fresh").is_some()), (200, is_fresh), "{}", answer.head);
    }
}
