//! What the exporters of four agents sent, and the events it makes.
//!
//! Each agent was asked for two equal shell calls, `echo o; exit 3`. Of the recordings stand here the records about calls, prompts and the
//! end, and a few of what is to be ignored. `LOOPWARDEN_GOLDEN=write` writes what is found instead of comparing it.

use std::{fs, path::Path};

use loopwarden_sources::otlp::{Form, Signal};
use loopwarden_sources::{Batch, Received, Senders, Sessions, Sources};
use serde_json::Value;

use crate::oracle::protobuf;
use crate::{events, with};

/// Everything a recording makes, in one form.
fn read(name: &str, is_protobuf: bool) -> Vec<Batch> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings").join(format!("{name}.otlp.ndjson"));
    let mut sessions = Sessions::default();
    let mut sources = Sources::default();
    let batch = |line: &str| {
        let request: Value = serde_json::from_str(line).unwrap();
        let signal = if request["path"] == "/v1/traces" { Signal::Traces } else { Signal::Logs };
        let body = &request["body"];
        let mut batch = if is_protobuf {
            with(&mut sessions, signal, Form::Protobuf, &protobuf(signal, body)).unwrap()
        } else {
            with(&mut sessions, signal, Form::Json, body.to_string().as_bytes()).unwrap()
        };
        sources.note_all(&mut batch);
        batch
    };
    fs::read_to_string(path).unwrap().lines().map(batch).collect()
}

fn golden(name: &str) -> Vec<Batch> {
    let batches = read(name, false);
    assert_eq!(batches, read(name, true), "protobuf says something else");
    assert!(batches.iter().all(|batch| batch.refused.is_empty() && batch.twofold.is_empty()), "{batches:?}");
    let lines = batches.iter().flat_map(events).fold(String::new(), |lines, event| lines + &event.to_string() + "\n");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.ndjson"));
    if std::env::var_os("LOOPWARDEN_GOLDEN").is_some() {
        fs::write(&path, &lines).unwrap();
    }
    assert_eq!(lines, fs::read_to_string(&path).unwrap_or_default());
    batches
}

/// Calls, those without arguments, those without results, spans left to the logs.
fn blind(batches: &[Batch]) -> [u64; 4] {
    let mut senders = Senders::default();
    for batch in batches {
        senders.add(&batch.senders);
    }
    assert_eq!((senders.iter().count(), senders.others()), (1, &Received::default()), "one program sent all of it");
    let Received { calls, left_to_logs, .. } = senders.total();
    [calls.made, calls.without_args, calls.without_results, left_to_logs]
}

#[test]
fn claude_code() {
    let batches = golden("claude");
    assert_eq!(blind(&batches), [2, 0, 2, 0]);
}

#[test]
fn codex() {
    assert_eq!(blind(&golden("codex")), [2, 0, 0, 0]);
}

#[test]
fn gemini_cli() {
    let batches = golden("gemini");
    assert_eq!(blind(&batches), [2, 0, 2, 2]);
    let told = batches.iter().filter_map(Batch::warning).collect::<Vec<_>>().join("\n");
    assert!(told.contains("2 of 2 calls have no result") && told.contains("Gemini CLI reports no results"), "{told}");
}

#[test]
fn qwen_code() {
    assert_eq!(blind(&golden("qwen")), [2, 0, 0, 2]);
}

/// The Python SDK: spans made by hand, and by PydanticAI's instrumentation (tests/otel/agents.py).
#[test]
fn python_sdk() {
    let batches = golden("python");
    assert_eq!(blind(&batches), [4, 0, 0, 0]);
    let sessions: Vec<&str> = batches[0].events.iter().map(|made| made.session_id.as_str()).collect();
    assert_eq!(sessions, ["by-hand", "by-hand", "by-pydantic-ai", "by-pydantic-ai"]);
}
