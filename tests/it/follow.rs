//! Logs that are followed: what a look brings, and where the next process goes on.

use std::fs;
use std::path::{Path, PathBuf};

use loopwarden_lab::follow::{Follower, ReadPosition, ReadPositions};
use serde_json::{Value, json};

use crate::store::temp_dir::TempDir;

/// A line of Claude Code: a person says something.
fn line(session: &str, number: usize) -> String {
    let time = format!("2026-01-05T09:00:{number:02}Z");
    let message = json!({ "role": "user", "content": format!("say {number}") });
    format!(
        "{}\n",
        json!({ "type": "user", "sessionId": session, "uuid": format!("u{number}"), "timestamp": time, "message": message })
    )
}

/// A conversation of Cline with so many messages: one document.
fn document(count: usize) -> String {
    let message = |number: usize| {
        let text = format!("say {number}");
        json!({ "role": "user", "ts": 1_767_600_000_000_u64 + number as u64, "content": [{ "type": "text", "text": text }] })
    };
    Value::Array((0..count).map(message).collect()).to_string()
}

fn add(path: &Path, text: &str) {
    let old = fs::read_to_string(path).unwrap_or_default();
    fs::write(path, old + text).unwrap();
}

/// The texts of the events of a look, with nothing told.
#[track_caller]
fn said(follower: &mut Follower) -> Vec<String> {
    let look = follower.look();
    assert_eq!(look.told, [""; 0]);
    let text = |json: &str| serde_json::from_str::<Value>(json).unwrap()["text"].as_str().unwrap().to_owned();
    look.events.iter().map(|made| text(&made.json)).collect()
}

fn follow(dir: &TempDir, known: ReadPositions) -> Follower {
    Follower::new(&[dir.path().to_owned()], known)
}

fn log_of(dir: &TempDir, name: &str) -> PathBuf {
    dir.path().join(name)
}

#[test]
fn what_was_there_counts_as_read_and_what_comes_is_read_once_line_by_line() {
    let dir = TempDir::new();
    let (old, new) = (log_of(&dir, "old.jsonl"), log_of(&dir, "new.jsonl"));
    add(&old, &line("old", 1));
    let mut follower = follow(&dir, ReadPositions::default());
    assert_eq!(said(&mut follower), [""; 0]);
    add(&old, &line("old", 3));
    // A log that appears is read from its start; the two come in the order of their times.
    add(&new, &[line("new", 2), line("new", 4)].concat());
    assert_eq!(said(&mut follower), ["say 2", "say 3", "say 4"]);
    assert_eq!(said(&mut follower), [""; 0]);
    // Half a line is none yet.
    let next = line("old", 5);
    let (half, rest) = next.split_at(20);
    add(&old, half);
    assert_eq!(said(&mut follower), [""; 0]);
    add(&old, rest);
    assert_eq!(said(&mut follower), ["say 5"]);
    // Another log under its name.
    fs::write(&old, line("other", 6)).unwrap();
    assert_eq!(said(&mut follower), ["say 6"]);
    assert_eq!(follower.followed().into_values().collect::<Vec<_>>(), [2]);
}

#[test]
fn another_process_goes_on_where_the_first_one_ended() {
    let dir = TempDir::new();
    let (a, document_of) = (log_of(&dir, "a.jsonl"), log_of(&dir, "api_conversation_history.json"));
    add(&a, &line("a", 1));
    fs::write(&document_of, document(2)).unwrap();
    let mut follower = follow(&dir, ReadPositions::default());
    assert_eq!(said(&mut follower), [""; 0]);
    add(&a, &line("a", 2));
    fs::write(&document_of, document(3)).unwrap();
    assert_eq!(said(&mut follower), ["say 2", "say 2"]);
    let places = follower.places();
    let bytes = fs::metadata(&a).unwrap().len();
    assert_eq!(places.logs.values().copied().collect::<Vec<_>>(), [ReadPosition::Bytes(bytes), ReadPosition::Events(3)]);
    // While nobody follows.
    add(&a, &line("a", 3));
    add(&log_of(&dir, "b.jsonl"), &line("b", 4));
    fs::write(&document_of, document(4)).unwrap();
    let mut follower = follow(&dir, places.clone());
    let mut all = said(&mut follower);
    all.sort();
    assert_eq!(all, ["say 3", "say 3", "say 4"]);
    assert_eq!(said(&mut follower), [""; 0]);
    // A directory that was not followed before counts as read, beside one that was.
    let other = TempDir::new();
    add(&other.path().join("c.jsonl"), &line("c", 1));
    let mut follower = Follower::new(&[dir.path().to_owned(), other.path().to_owned()], follower.places());
    assert_eq!(said(&mut follower), [""; 0]);
    add(&other.path().join("c.jsonl"), &line("c", 7));
    assert_eq!(said(&mut follower), ["say 7"]);
}

#[test]
fn a_document_is_read_anew_and_only_what_is_new_in_it_comes() {
    let dir = TempDir::new();
    let path = log_of(&dir, "api_conversation_history.json");
    let mut follower = follow(&dir, ReadPositions::default());
    assert_eq!(said(&mut follower), [""; 0]);
    fs::write(&path, document(2)).unwrap();
    assert_eq!(said(&mut follower), ["say 0", "say 1"]);
    // It is being written: the last message is not whole.
    let whole = document(4);
    fs::write(&path, &whole[..whole.len() - 20]).unwrap();
    assert_eq!(said(&mut follower), ["say 2"]);
    fs::write(&path, whole).unwrap();
    assert_eq!(said(&mut follower), ["say 3"]);
    // One file for each event.
    let events = dir.path().join("conv/events");
    fs::create_dir_all(&events).unwrap();
    let event = |number: usize| {
        let time = format!("2026-01-05T09:00:{number:02}");
        let message = json!({ "role": "user", "content": [{ "type": "text", "text": format!("say {number}") }] });
        json!({ "kind": "MessageEvent", "id": format!("e{number}"), "timestamp": time, "source": "user", "llm_message": message })
            .to_string()
    };
    for number in 0..3 {
        fs::write(events.join(format!("event-{number:05}-x.json")), event(number)).unwrap();
    }
    assert_eq!(said(&mut follower), ["say 0", "say 1", "say 2"]);
    fs::write(events.join("event-00003-x.json"), event(3)).unwrap();
    assert_eq!(said(&mut follower), ["say 3"]);
}

#[test]
fn more_logs_than_are_kept_in_memory_are_read_on_all_the_same() {
    let dir = TempDir::new();
    let mut follower = follow(&dir, ReadPositions::default());
    assert_eq!(said(&mut follower), [""; 0]);
    for round in 1..=3 {
        for log in 0..200 {
            add(&log_of(&dir, &format!("{log}-log.jsonl")), &line(&format!("s{log}"), round));
        }
        assert_eq!(said(&mut follower), vec![format!("say {round}"); 200]);
    }
}

#[test]
fn a_large_backlog_comes_in_several_looks() {
    let dir = TempDir::new();
    let mut follower = follow(&dir, ReadPositions::default());
    follower.look();
    let call = |number: usize| {
        let input = json!({ "command": "x".repeat(8_000), "number": number });
        let content = json!([{ "type": "tool_use", "id": format!("t{number}"), "name": "Bash", "input": input }]);
        json!({ "type": "assistant", "sessionId": "s", "uuid": format!("u{number}"), "message": { "id": format!("m{number}"), "content": content } })
    };
    let lines: Vec<String> = (0..4_000).map(|number| format!("{}\n", call(number))).collect();
    fs::write(log_of(&dir, "a.jsonl"), lines.concat()).unwrap();
    let (mut count, mut looks) = (0, 0);
    loop {
        let look = follower.look();
        (count, looks) = (count + look.events.len(), looks + 1);
        if !look.is_more {
            break;
        }
    }
    // The last call waits for what comes after it: its answer may add to it.
    assert!((3_999..=4_000).contains(&count) && looks > 1, "{count} events in {looks} looks");
}

#[test]
fn what_is_no_log_is_passed_over_and_what_cannot_be_read_is_told_once() {
    let dir = TempDir::new();
    add(&log_of(&dir, "notes.json"), "{\"a\": 1}\n");
    add(&log_of(&dir, "empty.jsonl"), "");
    let mut follower = follow(&dir, ReadPositions::default());
    assert_eq!(said(&mut follower), [""; 0]);
    // What it will be is not known yet; then it is a log, and all of it is new.
    add(&log_of(&dir, "empty.jsonl"), &line("s", 1));
    assert_eq!(said(&mut follower), ["say 1"]);
    add(&log_of(&dir, "empty.jsonl"), "no json\n");
    let look = follower.look();
    assert_eq!((look.events.len(), look.told.len()), (0, 1));
    assert!(look.told[0].contains("empty.jsonl") && look.told[0].contains("is left out"), "{:?}", look.told);
    assert_eq!(said(&mut follower), [""; 0]);
    // A directory that goes away keeps its places until it is back.
    let (away, places) = (dir.path().with_extension("away"), follower.places());
    fs::rename(dir.path(), &away).unwrap();
    assert_eq!(follower.look().told.len(), 1);
    assert_eq!(said(&mut follower), [""; 0]);
    assert_eq!(follower.places(), places);
    fs::rename(&away, dir.path()).unwrap();
    add(&log_of(&dir, "empty.jsonl"), &line("s", 2));
    assert_eq!(said(&mut follower), ["say 2"]);
}
