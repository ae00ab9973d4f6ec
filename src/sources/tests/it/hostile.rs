//! Broken records, many of them, from a fixed seed: nothing panics, nothing is lost, everything stays within its bounds.
//!
//! `LOOPWARDEN_HOSTILE=1000000` asks for more of each form; with `--nocapture` each form prints what became of them.

use std::collections::BTreeMap;

use loopwarden_core::event::{EventTime, RecordMeta, RecordOffset, decode};
use loopwarden_sources::cloudevents::{self, Transport};
use loopwarden_sources::mapping::Mapping;
use loopwarden_sources::otlp::{Form, Signal};
use loopwarden_sources::{Batch, Fault, Sessions, inflate};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{EVENT_BYTES_MAX, NOW, log, logs, span, traces, with};
use crate::{oracle::protobuf, random::Random};

const SCRAPS: [&[u8]; 26] = [
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"null",
    b"\\ud83d",
    b"1e999",
    b"-0",
    b"\x00",
    b"\xff",
    b"\xc3",
    b"\x0a\xff\x7f",
    b"\x12\x00",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x1a\x02",
    b"{\"stringValue\":",
    b"{\"kvlistValue\":{\"values\":[",
    b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    b"\"data\":",
    b"%F0%9F",
    "\u{1f600}".as_bytes(),
    b"gen_ai.tool.name",
];

/// A good input, broken in up to four places.
fn broken(good: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for _ in 0..random.below(5) {
        let at = random.below(bytes.len());
        match random.below(7) {
            0 => _ = bytes.splice(at..at, random.pick(&SCRAPS).iter().copied()),
            1 => {
                let end = (at + random.below(16)).min(bytes.len());
                bytes.drain(at..end);
            }
            2 => {
                let end = (at + random.below(60)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                let to = random.below(bytes.len() + 1);
                bytes.splice(to..to, copy);
            }
            3 => bytes[at] ^= 1 << random.below(8),
            4 => bytes[at] = random.next() as u8,
            5 => bytes.truncate(at),
            _ => {
                let end = (at + 1).min(bytes.len());
                bytes.splice(at..end, random.pick(&SCRAPS).iter().copied());
            }
        }
        if bytes.is_empty() {
            bytes.push(b'{');
        }
    }
    bytes
}

fn rounds() -> usize {
    std::env::var("LOOPWARDEN_HOSTILE").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(100_000)
}

fn code(fault: Fault) -> String {
    fault.code().to_owned()
}

/// What each batch must be, whatever came.
fn check(batch: &Batch) {
    assert_eq!(batch.records, batch.events.len() + batch.refused.len() + batch.ignored);
    for made in &batch.events {
        let meta = RecordMeta {
            topic: "t",
            partition: 0,
            offset: RecordOffset(0),
            timestamp: NOW,
            key: None,
            headers: Vec::new(),
            value_bytes_max: EVENT_BYTES_MAX,
        };
        let event = decode(Some(&made.json), &meta).expect("the engine reads what was made");
        assert_eq!(event.session_id, made.session_id);
    }
    for refused in &batch.refused {
        assert!(refused.index < batch.records && refused.rejected.field.len() < 64, "{refused:?}");
    }
    assert!(batch.refusals().is_none_or(|text| text.len() < 1_000));
    assert!(batch.warning().is_none_or(|text| text.len() < 16_000));
}

/// Broken inputs of one form, and what became of them: all that is no event has a reason.
fn feed(form: &str, seed: u64, good: &[u8], mut read: impl FnMut(&[u8], &mut Random) -> Result<Batch, String>) {
    let mut random = Random(seed);
    let (mut made, mut refused, mut reasons) = (0, 0, BTreeMap::<String, usize>::new());
    for _ in 0..rounds() {
        let bytes = broken(good, &mut random);
        match read(&bytes, &mut random) {
            Ok(batch) => {
                check(&batch);
                made += usize::from(!batch.events.is_empty());
                refused += usize::from(!batch.refused.is_empty());
                for refused in &batch.refused {
                    *reasons.entry(refused.rejected.reason.as_str().to_owned()).or_default() += 1;
                }
            }
            Err(reason) => *reasons.entry(format!("all {reason}")).or_default() += 1,
        }
    }
    println!("{form}: {} inputs, {made} made events, {refused} had refused records; {reasons:?}", rounds());
    assert!(reasons.keys().all(|reason| reason.len() > "all ".len()), "a refusal without a reason");
    // A fuzzer that only ever sees one of the answers tests the first check.
    assert!(made > rounds() / 10 && refused > rounds() / 500, "{made} made events, {refused} were refused in part");
}

fn spans() -> Value {
    let call = json!({ "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t", "session.id": "s",
        "gen_ai.tool.call.arguments": { "a": [1, { "b": "é" }] }, "gen_ai.tool.call.result": "{\"x\":1}" });
    let inner = json!({ "openinference.span.kind": "TOOL", "tool.name": "u", "input.value": "{}", "output.value": "x" });
    let linked = json!({ "traceloop.span.kind": "tool", "traceloop.entity.name": "v",
        "traceloop.entity.input": "{\"args\":[],\"kwargs\":{\"q\":1}}", "traceloop.entity.output": "{\"output\":{\"kwargs\":{\"content\":\"c\"}}}" });
    let mut failed = span(2, "execute_tool t", &call);
    failed["status"] = json!({ "code": 2, "message": "m" });
    failed["events"] =
        json!([{ "name": "exception", "attributes": [{ "key": "exception.type", "value": { "stringValue": "E" } }] }]);
    let mut mcp = span(4, "tools/call t", &json!({ "mcp.method.name": "tools/call", "gen_ai.tool.name": "t" }));
    mcp["parentSpanId"] = "0000000000000002".into();
    traces(&[span(1, "execute_tool t", &call), failed, span(3, "u", &inner), mcp, span(5, "v", &linked)])
}

fn records() -> Value {
    let claude = json!({ "event.name": "claude_code.tool_result", "session.id": "s", "tool_name": "Bash", "tool_use_id": "c", "success": "false",
        "tool_input": "{\"command\":\"x\"}", "tool_parameters": "{\"full_command\":\"x\"}", "error": "e" });
    let codex = json!({ "event.name": "codex.tool_result", "conversation.id": "s", "tool_name": "exec_command", "call_id": "c",
        "arguments": "{}", "output": "Chunk ID: 1\nProcess exited with code 3\nOutput:\no" });
    let gemini =
        json!({ "event.name": "gemini_cli.tool_call", "session.id": "s", "function_name": "f", "metadata": "{\"exitCode\":3}" });
    let qwen = json!({ "event.name": "qwen-code.tool_call", "session.id": "s", "function_name": "f", "success": false, "error": "Exit Code: 3" });
    logs(
        "x",
        &[
            log(1, &claude),
            log(2, &codex),
            log(3, &gemini),
            log(4, &qwen),
            log(5, &json!({ "event.name": "codex.user_prompt", "conversation.id": "s" })),
        ],
    )
}

#[test]
fn traces_and_logs_in_json_and_protobuf() {
    let mut sessions = Sessions::default();
    for (seed, signal, body) in [(1, Signal::Traces, spans()), (2, Signal::Logs, records())] {
        for (seed, form, good) in
            [(seed, Form::Json, body.to_string().into_bytes()), (seed + 10, Form::Protobuf, protobuf(signal, &body))]
        {
            let name = format!("{signal:?} in {form:?}");
            feed(&name, seed, &good, |bytes, _| with(&mut sessions, signal, form, bytes).map_err(code));
        }
    }
}

#[test]
fn cloud_events_in_three_modes() {
    let data = json!({ "kind": "tool", "tool": "t", "session_id": "s", "args": { "a": 1 } });
    let event = json!({ "specversion": "1.0", "id": "1", "source": "/a", "type": "t", "subject": "s", "data": data });
    let mapping = mapping();
    let read = |headers: &[(&str, &[u8])], transport, bytes: &[u8]| {
        let read = cloudevents::read(transport, headers, bytes, Some(&mapping), NOW, EVENT_BYTES_MAX);
        read.map_err(code)?.ok_or_else(|| "no CloudEvent".to_owned())
    };
    let structured = event.to_string().into_bytes();
    let kind: &[(&str, &[u8])] = &[("content-type", b"application/cloudevents+json")];
    feed("structured CloudEvents", 3, &structured, |bytes, _| read(kind, Transport::Http, bytes));
    let batch = Value::from(vec![event.clone(), event.clone(), event]).to_string().into_bytes();
    let kind: &[(&str, &[u8])] = &[("content-type", b"application/cloudevents-batch+json")];
    feed("batched CloudEvents", 4, &batch, |bytes, _| read(kind, Transport::Http, bytes));
    let transports = [(Transport::Http, "ce-", 5), (Transport::Kafka, "ce_", 6)];
    for (transport, prefix, seed) in transports {
        let form = format!("binary CloudEvents, {transport:?}");
        feed(&form, seed, data.to_string().as_bytes(), |bytes, random| {
            let names = ["specversion", "id", "source", "type", "subject"].map(|name| format!("{prefix}{name}"));
            let mut values: Vec<Vec<u8>> =
                ["1.0", "1", "/a", "t", "s%20t"].iter().map(|value| value.as_bytes().to_vec()).collect();
            if random.below(4) == 0 {
                let at = random.below(values.len());
                values[at] = broken(&values[at].clone(), random);
            }
            let headers: Vec<(&str, &[u8])> = names.iter().map(String::as_str).zip(values.iter().map(Vec::as_slice)).collect();
            read(&headers, transport, bytes)
        });
    }
}

fn mapping() -> Mapping {
    let text = "[fields]\nsession_id = \"run.id || session_id\"\ntool = \"tool\"\nargs = \"to_array(args)[:3]\"\n\
        result = \"max_by(calls, &n).out\"\noutcome = \"ok\"\n\"error.message\" = \"error\"\n\"agent.id\" = \"agent\"";
    Mapping::new(&toml::from_str(text).unwrap()).unwrap()
}

#[test]
fn foreign_json_through_a_mapping() {
    let record = json!({ "run": { "id": "r" }, "tool": "t", "args": { "a": 1 }, "ok": true, "calls": [{ "n": 1, "out": "x" }, { "n": 2, "out": [1] }] });
    let mapping = mapping();
    feed("mapped JSON", 7, record.to_string().as_bytes(), |bytes, _| {
        let trial = mapping.trial(bytes, NOW, EVENT_BYTES_MAX);
        let mut batch = Batch { records: 1, ..Batch::default() };
        match trial.event {
            Ok(Some(made)) => batch.events.push(made),
            Ok(None) => batch.ignored = 1,
            Err(rejected) => batch.refused.push(loopwarden_sources::Refused { index: 0, rejected }),
        }
        Ok(batch)
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn arbitrary_bytes_are_refused_or_within_bounds(bytes in proptest::collection::vec(any::<u8>(), 0..600), now in any::<i64>()) {
        for form in [Form::Json, Form::Protobuf] {
            for signal in [Signal::Traces, Signal::Logs] {
                let _ = with(&mut Sessions::default(), signal, form, &bytes);
            }
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let headers: Vec<(&str, &[u8])> =
            vec![("ce-id", &bytes), ("ce-source", &bytes), ("ce-type", &bytes), ("ce-specversion", b"1.0"), (&text, &bytes)];
        for transport in [Transport::Http, Transport::Kafka] {
            let _ = cloudevents::read(transport, &headers, &bytes, None, EventTime(now), 1_000);
        }
        let _ = mapping().trial(&bytes, EventTime(now), 1_000);
        prop_assert!(inflate(&bytes, 10_000).map_or(0, |bytes| bytes.len()) <= 10_000);
    }
}
