//! Exports of OpenTelemetry in, commands out; CloudEvents at the door of events.

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};

use crate::http::{Running, Scratch};

/// The recorded export of Codex, line by line, with the session and the ids of its calls replaced.
fn recorded(session_id: &str, round: usize) -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/sources/tests/recordings/codex.otlp.ndjson");
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.replace("01a212e2-4bb0-7402-861a-e2759376cde8", session_id);
    let text = text.replace("call_0", &format!("call_{round}_0")).replace("call_1", &format!("call_{round}_1"));
    // Each round a minute later. A prompt would begin a new history.
    let text = text.replace("T13:25:", &format!("T13:{}:", 25 + round)).replace("codex.user_prompt", "codex.other");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What a command says of its loop, without ids, times and the session.
fn essence(command: &Value) -> Value {
    let scope = &command["scope"];
    json!([
        command["action"],
        command["level"],
        command["reason"]["code"],
        command["reason"]["evidence"]["count"],
        scope["kind"],
        scope["agent_id"],
        scope["tool"],
        scope["fingerprint"]
    ])
}

#[test]
fn a_recorded_loop_gives_the_commands_of_the_same_session_sent_natively() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &["mode=live"]);
    for round in 0..4 {
        for request in recorded("heard", round) {
            let path = request["path"].as_str().unwrap();
            let answer = running.client.post(path, "application/json", request["body"].to_string().as_bytes());
            assert_eq!((answer.status, answer.text.trim()), (200, "{}"), "{request}");
        }
    }
    // A resent export is dropped by its ids.
    for request in recorded("heard", 3) {
        running.client.post("/v1/logs", "application/json", request["body"].to_string().as_bytes());
    }
    let native = |id: usize, time: &str| {
        json!({ "id": format!("n{id}"), "kind": "tool", "session_id": "native", "tool": "exec_command", "time": time,
            "args": { "cmd": "echo o; exit 3" }, "result": "o\n", "outcome": "error",
            "error": { "message": "o\n", "exit_code": 3 } })
    };
    for round in 0..4_usize {
        running.accept(&native(round * 2, &format!("2026-11-25T13:{}:51.382Z", 25 + round)));
        running.accept(&native(round * 2 + 1, &format!("2026-11-25T13:{}:52.116Z", 25 + round)));
    }
    running.until_said("heard", 8);
    running.until_said("native", 8);
    let of = |session: &str| -> Vec<Value> {
        let (commands, _) = running.commands(&format!("after=0&wait=0s&session_id={session}"));
        commands.iter().map(essence).collect()
    };
    let heard = of("heard");
    assert!(!heard.is_empty(), "a loop of eight equal failing calls was not found");
    assert_eq!(heard, of("native"));
    assert_eq!(running.terminate(), Some(0));
}

/// A length-delimited field of protobuf.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 128 {
        out.push((length % 128) as u8 | 128);
        length /= 128;
    }
    out.push(length as u8);
    [out, bytes.to_vec()].concat()
}

/// A span of a failed call in protobuf.
fn span(number: u8, is_whole: bool) -> Vec<u8> {
    let attribute =
        |key: &str, value: &str| field(9, &[field(1, key.as_bytes()), field(2, &field(1, value.as_bytes()))].concat());
    let mut span = [field(1, &[7; 16]), field(2, &[0, 0, 0, 0, 0, 0, 1, number]), field(5, b"execute_tool search")].concat();
    span.extend(attribute("gen_ai.operation.name", "execute_tool"));
    span.extend(attribute("gen_ai.conversation.id", "talk"));
    if is_whole {
        span.extend(attribute("gen_ai.tool.name", "search"));
    } else {
        span.extend(attribute("gen_ai.tool.name", "\u{1}"));
    }
    span.extend(attribute("gen_ai.tool.call.arguments", "{\"q\":\"loop\"}"));
    // Status: a message, and code 2.
    span.extend(field(15, &[field(2, b"no route to host"), vec![0x18, 2]].concat()));
    span
}

fn request(spans: &[Vec<u8>]) -> Vec<u8> {
    let spans: Vec<u8> = spans.iter().flat_map(|span| field(2, span)).collect();
    field(1, &field(2, &spans))
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

const PROTOBUF: (&str, &str) = ("content-type", "application/x-protobuf");

#[test]
fn spans_in_compressed_protobuf_are_accepted_one_by_one() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &["mode=live"]);
    let send = |body: &[u8]| running.client.send("POST", "/v1/traces", &[PROTOBUF, ("content-encoding", "gzip")], body);
    for number in 1..=5 {
        let answer = send(&gzip(&request(&[span(number, true)])));
        assert_eq!((answer.status, answer.text.as_str()), (200, ""));
        assert_eq!(answer.header("content-type"), Some("application/x-protobuf"));
    }
    let answer = send(&gzip(&request(&[span(6, true), span(7, false)])));
    assert_eq!(answer.status, 200);
    assert!(answer.text.contains("1 of 2 records refused: 1 × bad_value at /tool"), "{:?}", answer.text);
    running.until_said("talk", 6);
    let (commands, _) = running.commands("after=0&wait=0s&session_id=talk");
    assert_eq!(commands[0]["scope"]["tool"], "search", "{commands:?}");
    assert_eq!(running.terminate(), Some(0));
}

#[test]
fn a_bad_export_is_refused_in_the_words_of_its_form() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &[]);
    let post = |path: &str, headers: &[(&str, &str)], body: &[u8]| running.client.send("POST", path, headers, body);
    let json = ("content-type", "application/json; charset=utf-8");
    let broken = post("/v1/logs", &[json], b"{");
    assert_eq!((broken.status, broken.json()), (400, json!({ "code": 3, "message": "the body is no JSON" })));
    let broken = post("/v1/traces", &[PROTOBUF], b"\x0a\x7f");
    assert_eq!((broken.status, broken.header("content-type")), (400, Some("application/x-protobuf")));
    assert!(broken.text.ends_with("the body is no protobuf of this kind"), "{:?}", broken.text);
    assert_eq!(post("/v1/traces", &[("content-type", "text/plain")], b"x").status, 415);
    assert_eq!(post("/v1/traces", &[PROTOBUF, ("content-encoding", "br")], b"x").status, 415);
    assert_eq!(post("/v1/traces", &[PROTOBUF, ("content-encoding", "gzip")], b"x").status, 400);
    let bomb = post("/v1/traces", &[PROTOBUF, ("content-encoding", "gzip")], &gzip(&vec![0; 64 << 20]));
    assert_eq!(bomb.status, 413);
    // Metrics are taken and dropped, and an empty export is a success.
    for path in ["/v1/metrics", "/v1/traces", "/v1/logs"] {
        assert_eq!((post(path, &[json], b"{}").status, post(path, &[PROTOBUF], b"").status), (200, 200), "{path}");
    }
    let blind = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [{ "traceId": "01".repeat(16), "spanId": "02".repeat(8),
        "name": "execute_tool t", "endTimeUnixNano": "1795613167000000000" }] }] }] });
    let warned = post("/v1/traces", &[json], blind.to_string().as_bytes()).json();
    assert_eq!(warned["partialSuccess"]["rejectedSpans"], 0);
    let told = warned["partialSuccess"]["errorMessage"].as_str().unwrap();
    assert!(told.contains("only names can be compared"), "{told}");
}

#[test]
fn cloud_events_are_events() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &[]);
    let event = |id: &str| {
        json!({ "specversion": "1.0", "id": id, "source": "/fleet", "type": "tool", "subject": "ce",
            "data": { "kind": "tool", "tool": "Bash", "args": { "command": "make" }, "outcome": "error" } })
    };
    let one = running.client.post("/v1/events", "application/cloudevents+json", event("1").to_string().as_bytes());
    assert_eq!((one.status, one.text.trim()), (202, r#"{"accepted":1,"rejected":[]}"#));
    let mut bad = event("3");
    bad["specversion"] = "0.3".into();
    let batch = Value::from(vec![event("2"), bad]).to_string();
    let batch = running.client.post("/v1/events", "application/cloudevents-batch+json", batch.as_bytes());
    let expected = r#"{"accepted":1,"rejected":[{"field":"/specversion","index":1,"reason":"unsupported_version"}]}"#;
    assert_eq!((batch.status, batch.text.trim()), (202, expected));
    let headers = [
        ("content-type", "application/json"),
        ("ce-specversion", "1.0"),
        ("ce-id", "4"),
        ("ce-source", "%2Ffleet"),
        ("ce-type", "tool"),
        ("ce-subject", "ce"),
    ];
    let binary = running.client.send("POST", "/v1/events", &headers, event("4")["data"].to_string().as_bytes());
    assert_eq!((binary.status, binary.text.trim()), (202, r#"{"accepted":1,"rejected":[]}"#));
    running.until_said("ce", 3);
}

#[test]
fn foreign_json_goes_through_the_mapping_of_the_settings() {
    let scratch = Scratch::new();
    let mapping = scratch.0.join("map.toml");
    let text = "filter = \"kind_of == 'call'\"\n[fields]\nsession_id = \"run\"\ntool = \"name\"\nargs = \"input\"\n";
    std::fs::write(&mapping, text).unwrap();
    let running = Running::start(&scratch.0, &[&format!("http.mapping={}", mapping.display())]);
    let lines = [
        r#"{"kind_of":"call","run":"foreign","name":"Bash","input":{"command":"make"}}"#,
        r#"{"kind_of":"chat","run":"foreign"}"#,
        r#"{"kind_of":"call","name":"Bash"}"#,
        r#"{"id":"n1","kind":"tool","session_id":"foreign","tool":"Bash"}"#,
        // Meant as a native event: what is wrong with it is said in its own words.
        r#"{"id":"n2","kind":"tool","tool":"Bash"}"#,
    ];
    let answer = running.client.post("/v1/events", "application/x-ndjson", lines.join("\n").as_bytes());
    let rejected: Vec<Value> = [2, 4].map(|at| json!({ "index": at, "reason": "missing_field", "field": "/session_id" })).into();
    assert_eq!((answer.status, answer.json()), (202, json!({ "accepted": 2, "left_out": 1, "rejected": rejected })));
    // One document over several lines, and data of a CloudEvent.
    let one = running.client.post("/v1/events", "application/json", lines[0].replace(',', ",\n").as_bytes());
    assert_eq!((one.status, one.json()["accepted"].clone()), (202, json!(1)), "{}", one.text);
    let data: Value = serde_json::from_str(lines[0]).unwrap();
    let event = json!({ "specversion": "1.0", "id": "1", "source": "/fleet", "type": "call", "data": data });
    let one = running.client.post("/v1/events", "application/cloudevents+json", event.to_string().as_bytes());
    assert_eq!((one.status, one.json()["accepted"].clone()), (202, json!(1)), "{}", one.text);
    // What is left out is no mistake of the sender.
    let none = running.client.post("/v1/events", "application/json", lines[1].as_bytes());
    assert_eq!((none.status, none.json()), (202, json!({ "accepted": 0, "left_out": 1, "rejected": [] })));
}
