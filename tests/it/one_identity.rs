//! One call that a hook, telemetry, a transcript and the MCP proxy report has one identity, however long it is and however it is spelled.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::{os::unix::net::UnixListener, time::Duration};

use loopwarden::event::{Content, EventKind, EventTime, Outcome, RecordMeta, decode};
use loopwarden::identity::{
    Arguments, CallIdentity, CallRules, Digest, OutcomeRules, ToolOutcomeRules, call_identity, outcome_identity,
};
use loopwarden::limits::RECORD_BYTES_MAX_DEFAULT;
use loopwarden::transcript::{Converter, Format};
use loopwarden_sources::Sessions;
use loopwarden_sources::otlp::{self, Form, Signal};
use serde_json::{Value, json};

use crate::store::temp_dir::TempDir;

const TOOL: &str = "mcp__files__edit";
const CLAUDE_CODE: &str = "claude-code";

/// What comparisons are made with: the call, and what came of it.
#[derive(Debug, PartialEq)]
struct Identity {
    call: CallIdentity,
    outcome: Digest,
}

/// Of the events of one call.
fn identity(events: &[Vec<u8>]) -> Identity {
    let meta = RecordMeta::without_place(EventTime(0), RECORD_BYTES_MAX_DEFAULT);
    let call_of = |args: &Content<'_>, tool: &str| {
        assert_eq!(tool, TOOL);
        call_identity(tool, &Arguments::of(args), &CallRules::default())
    };
    let (mut call, mut outcome) = (None, None);
    for event in events {
        let event = decode(Some(event), &meta).unwrap();
        let result = match &event.kind {
            EventKind::ToolCall(asked) => {
                call = Some(call_of(&asked.args, &asked.tool));
                continue;
            }
            EventKind::Tool(asked, result) => {
                call = Some(call_of(&asked.args, &asked.tool));
                result
            }
            EventKind::ToolResult(result) => result,
            other => panic!("{other:?}"),
        };
        let is_ok = result.outcome == Outcome::Ok;
        let error = result.error_message.as_deref();
        let compared =
            outcome_identity(is_ok, &result.result.view(), error, &OutcomeRules::default(), &ToolOutcomeRules::default());
        outcome = Some(compared.identity);
    }
    Identity { call: call.unwrap(), outcome: outcome.unwrap() }
}

/// Claude Code asks its hook before and after the call.
fn by_hook(args: &Value, result: &str, is_error: bool) -> Identity {
    let agent = loopwarden_sources::agent(CLAUDE_CODE).unwrap();
    let said = |hook: &str| {
        let mut body = json!({ "session_id": "s", "hook_event_name": hook, "tool_name": TOOL, "tool_use_id": "c",
            "tool_input": args, "tool_response": result });
        if is_error {
            body["error"] = result.into();
        }
        let heard = loopwarden_sources::hook::read(agent, format!("{body:#}").as_bytes(), None, 0);
        heard.event.unwrap().get().as_bytes().to_vec()
    };
    identity(&[said("PreToolUse"), said(if is_error { "PostToolUseFailure" } else { "PostToolUse" })])
}

/// A span by the GenAI conventions, where arguments are JSON in a text.
fn by_telemetry(args: &Value, result: &str, is_error: bool) -> Identity {
    let attribute = |key: &str, text: &str| json!({ "key": key, "value": { "stringValue": text } });
    let status = if is_error { json!({ "code": 2, "message": result }) } else { json!({}) };
    let span = json!({ "traceId": "a".repeat(32), "spanId": "b".repeat(16), "name": "execute_tool", "endTimeUnixNano": "1000000000",
        "status": status, "attributes": [
            attribute("gen_ai.operation.name", "execute_tool"),
            attribute("gen_ai.tool.name", TOOL),
            attribute("gen_ai.tool.call.arguments", &args.to_string()),
            attribute("gen_ai.tool.call.result", result),
        ] });
    let body = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] }).to_string();
    let form = (Signal::Traces, Form::Json);
    let batch = otlp::read(form, body.as_bytes(), &mut Sessions::default(), EventTime(0), RECORD_BYTES_MAX_DEFAULT).unwrap();
    assert!(batch.refused.is_empty(), "{:?}", batch.refused);
    identity(&batch.events.into_iter().map(|made| made.json).collect::<Vec<_>>())
}

/// Claude Code's log on disk.
fn by_transcript(args: &Value, result: &str, is_error: bool) -> Identity {
    let lines = [
        json!({ "type": "assistant", "uuid": "a", "sessionId": "s", "timestamp": "2026-01-05T09:00:00Z", "message": { "id": "m",
            "content": [{ "type": "tool_use", "id": "c", "name": TOOL, "input": args }] } }),
        json!({ "type": "user", "uuid": "b", "sessionId": "s", "timestamp": "2026-01-05T09:00:01Z", "message": { "content": [
            { "type": "tool_result", "tool_use_id": "c", "content": [{ "type": "text", "text": result }], "is_error": is_error }] } }),
    ];
    let format = Format::all().find(|format| format.as_str() == "Claude Code").unwrap();
    let (mut converter, mut made) = (Converter::new(format, "s"), Vec::new());
    for line in lines {
        converter.piece(line.to_string().as_bytes(), &mut made).unwrap();
    }
    converter.finish(&mut made).unwrap();
    identity(&made.into_iter().map(|made| made.json.into_bytes()).collect::<Vec<_>>())
}

/// The proxy before a server, and what it asks a guard.
fn by_proxy(args: &Value, result: &str, is_error: bool) -> Identity {
    let dir = TempDir::new();
    let path = dir.path().join("guard");
    let listener = UnixListener::bind(&path).unwrap();
    let guard = std::thread::spawn(move || [(); 2].map(|()| asked(&listener)));
    let options =
        loopwarden_mcp::Options { address: Some(format!("unix:{}", path.display())), ..loopwarden_mcp::Options::default() };
    let calls = loopwarden_mcp::calls(&options, Duration::from_secs(60));
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": TOOL, "arguments": args } });
    assert!(calls.asked(call.to_string().as_bytes()).is_none());
    let content = json!({ "content": [{ "type": "text", "text": result }], "isError": is_error });
    calls.answered(json!({ "jsonrpc": "2.0", "id": 1, "result": content }).to_string().as_bytes());
    identity(&guard.join().unwrap())
}

/// Takes one question of the proxy and lets the call run; the event in it.
fn asked(listener: &UnixListener) -> Vec<u8> {
    let mut stream = BufReader::new(listener.accept().unwrap().0);
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        if line == "\r\n" {
            break;
        }
        length = line.strip_prefix("Content-Length: ").map_or(length, |rest| rest.trim().parse().unwrap());
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 26\r\n\r\n{\"v\":1,\"decision\":\"allow\"}").unwrap();
    let check: Value = serde_json::from_slice(&body).unwrap();
    check["event"].to_string().into_bytes()
}

#[test]
fn a_call_of_any_length_is_the_same_whoever_reports_it() {
    let long = |letter: &str| format!("first\n{}\ntook 3 ms\n{}\nlast", letter.repeat(60_000), letter.repeat(30_000));
    let items = Value::from((0..30_000).collect::<Vec<u32>>());
    let cases = [
        (json!({ "path": "/a", "text": "short" }), "done".to_owned()),
        (json!({ "path": "/a", "text": long("x") }), long("y")),
        (json!({ "text": long("é"), "path": "/ü" }), long("ß")),
        (json!({ "path": "/a", "text": "\u{1b}".repeat(49_000) }), "\u{1b}".repeat(49_000)),
        (json!({ "items": items, "path": "/a" }), json!({ "stdout": long("z"), "items": items }).to_string()),
        (json!({ "a": "x".repeat(40_000), "b": "y".repeat(40_000) }), format!("[{}]", "1.0, ".repeat(20_000) + "1e3")),
    ];
    let mut seen = Vec::new();
    for (args, result) in &cases {
        for is_error in [false, true] {
            let of = [by_hook, by_telemetry, by_transcript, by_proxy].map(|of| of(args, result, is_error));
            for (source, other) in ["telemetry", "transcript", "proxy"].iter().zip(&of[1..]) {
                assert_eq!(of[0], *other, "{source}: {:.60}, {is_error}", args.to_string());
            }
            assert!(!seen.contains(&of[0].outcome), "two outcomes are one");
            let [first, ..] = of;
            seen.push(first.outcome);
        }
    }
}

#[test]
fn long_calls_that_differ_in_the_middle_alone_are_two() {
    let edit = |middle: &str| json!({ "path": "/a", "text": format!("{}{middle}{}", "x".repeat(60_000), "x".repeat(60_000)) });
    for by in [by_hook, by_telemetry, by_transcript, by_proxy] {
        assert_ne!(by(&edit("a"), "done", false).call, by(&edit("b"), "done", false).call);
    }
}
