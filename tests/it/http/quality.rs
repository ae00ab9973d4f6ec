//! How much of the input can be judged: the numbers of the live page, and what `loopwarden doctor` says of a running process.

use std::process::Command;

use serde_json::{Value, json};

use crate::environment::told_nothing;
use crate::http::{Running, Scratch, failed_call};

/// A call as a span of a service.
fn span(service: &str, session: &str, number: usize, more: &[(&str, &str)]) -> Value {
    let attribute = |(key, value): (&str, &str)| json!({ "key": key, "value": { "stringValue": value } });
    let known = [("gen_ai.operation.name", "execute_tool"), ("gen_ai.tool.name", "search"), ("gen_ai.conversation.id", session)];
    let attributes: Vec<Value> = known.into_iter().chain(more.iter().copied()).map(attribute).collect();
    let span = json!({ "traceId": "0a".repeat(16), "spanId": format!("{:016x}", number + 1), "name": "execute_tool search",
        "endTimeUnixNano": format!("{}", 1_795_613_167_000_000_000_u64 + number as u64), "attributes": attributes });
    let resource = json!({ "attributes": [attribute(("service.name", service))] });
    json!({ "resourceSpans": [{ "resource": resource, "scopeSpans": [{ "spans": [span] }] }] })
}

const CONTENT: [(&str, &str); 2] = [("gen_ai.tool.call.arguments", "{\"q\":\"loop\"}"), ("gen_ai.tool.call.result", "nothing")];

fn export(running: &Running, path: &str, body: &Value) -> Value {
    let answer = running.client.post(path, "application/json", body.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()
}

/// Exit code, lines on standard output, and standard error.
fn doctor(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loopwarden"));
    told_nothing(&mut command);
    let output = command.arg("doctor").args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Lanes report what they have judged a moment later: until then nothing has come that was counted.
#[test]
fn an_event_that_has_just_come_has_come() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &[]);
    let is_silent = || {
        let overview = running.client.get("/overview").json();
        overview["input"]["findings"].as_array().unwrap().iter().any(|finding| finding["code"] == "W0304")
    };
    assert!(is_silent());
    running.accept(&failed_call("s", 1));
    assert!(!is_silent());
}

#[test]
fn a_sender_of_names_only_is_shown_and_told_what_to_switch_on() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &["mode=live"]);
    assert_eq!(running.client.get("/overview").json()["input"]["senders"], json!([]), "nothing foreign has come");
    for number in 0..3 {
        export(&running, "/v1/traces", &span("blind", "a", number, &[]));
        export(&running, "/v1/traces", &span("telling", "b", 10 + number, &CONTENT));
    }
    // None of it is a call.
    let logs = json!({ "resourceLogs": [{ "scopeLogs": [{ "logRecords": [{ "timeUnixNano": "1795613167000000000" }] }] }] });
    export(&running, "/v1/logs", &logs);
    let broken = running.client.post("/v1/logs", "application/json", b"{");
    assert_eq!(broken.status, 400);
    let overview = running.json_until("/overview", |overview| overview["events"] == 6);
    let rows = overview["input"]["senders"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap();
    let numbers = |name: &str| {
        let fields = ["records", "calls", "calls_with_arguments", "results_with_content", "refused", "ignored", "compared"];
        fields.map(|field| row(name)[field].clone())
    };
    assert_eq!(
        numbers("blind"),
        [3, 3, 0, 0, 0, 0].map(Value::from).into_iter().chain([json!("names only")]).collect::<Vec<_>>()[..]
    );
    assert_eq!(numbers("telling"), [3, 3, 3, 3, 0, 0].map(Value::from).into_iter().chain([json!("all")]).collect::<Vec<_>>()[..]);
    assert_eq!(numbers(""), [2, 0, 0, 0, 1, 1].map(Value::from).into_iter().chain([Value::Null]).collect::<Vec<_>>()[..]);
    assert_eq!(
        (&row("blind")["form"], &row("blind")["conventions"]),
        (&json!("OpenTelemetry"), &json!(["GenAI semantic conventions"]))
    );
    assert!(row("blind")["switch_on"][0].as_str().unwrap().contains("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true"));

    let (code, told, _) = doctor(&["--address", running.client.address()]);
    assert_eq!(code, Some(3), "{told}");
    for line in [
        "ok    the process is ready\n",
        "ok    mode live",
        "ok    telling (GenAI semantic conventions): 3 calls; names, arguments and results can be compared\n",
        "todo  [W0301] blind (GenAI semantic conventions): names only can be compared; 3 of 3 calls have no arguments, 3 of 3 have no result\n",
        "      arguments and results are opt-in: OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true",
        "      loopwarden explain W0301\n",
        "todo  [W0308] OpenTelemetry: 1 of 2 records are refused\n",
        "2 things to do\n",
    ] {
        assert!(told.contains(line), "{line:?} is not in\n{told}");
    }
}

#[test]
fn a_process_whose_senders_tell_all_has_nothing_to_do() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &[]);
    let url = format!("http://{}/", running.client.address());
    let (code, told, _) = doctor(&["--url", &url]);
    assert_eq!((code, told.contains("todo  [W0304] no event has arrived yet")), (Some(3), true), "{told}");
    for number in 0..4 {
        export(&running, "/v1/traces", &span("telling", "b", number, &CONTENT));
    }
    running.json_until("/overview", |overview| overview["events"] == 4);
    let (code, told, _) = doctor(&["--url", &url, "--output", "json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((code, &told["good"]), (Some(0), &json!(true)), "{told}");
    let levels: Vec<&str> =
        told["findings"].as_array().unwrap().iter().map(|finding| finding["level"].as_str().unwrap()).collect();
    assert_eq!(levels, ["ok", "note", "ok", "ok"], "ready, in shadow, events, one sender: {told}");
}

#[test]
fn a_session_that_two_sources_report_is_found_and_told_everywhere() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &["mode=live"]);
    // Calls as events and as spans; the spans are told of it.
    running.accept(&failed_call("events-and-spans", 0));
    let warned = export(&running, "/v1/traces", &span("telling", "events-and-spans", 0, &CONTENT));
    let told = warned["partialSuccess"]["errorMessage"].as_str().unwrap();
    assert!(told.contains("reported by two sources, so that calls may count twice: events-and-spans"), "{told}");
    // An agent's own logs after its hooks.
    let hook = json!({ "session_id": "hooks-and-logs", "hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_use_id": "toolu_1",
        "tool_input": { "command": "ls" }, "tool_response": { "stdout": "a" } });
    let heard = running.client.post("/v1/hooks/claude-code", "application/json", hook.to_string().as_bytes());
    assert_eq!(heard.status, 200);
    let attribute = |(key, value): (&str, &str)| json!({ "key": key, "value": { "stringValue": value } });
    let attributes =
        [("event.name", "tool_result"), ("session.id", "hooks-and-logs"), ("tool_name", "Bash"), ("tool_use_id", "toolu_2")];
    let log = json!({ "timeUnixNano": "1795613167000000000", "body": { "stringValue": "claude_code.tool_result" },
        "attributes": attributes.map(attribute) });
    let resource = json!({ "attributes": [attribute(("service.name", "claude-code"))] });
    export(&running, "/v1/logs", &json!({ "resourceLogs": [{ "resource": resource, "scopeLogs": [{ "logRecords": [log] }] }] }));
    // What a worker or a person sends of the same session is no second source of its calls.
    export(&running, "/v1/traces", &span("telling", "spans-and-a-message", 1, &CONTENT));
    running
        .accept(&json!({ "id": "m", "kind": "message", "session_id": "spans-and-a-message", "role": "user", "text": "go on" }));
    running.accept(&json!({ "id": "c", "kind": "tool_call", "session_id": "spans-and-a-message", "tool": "search" }));

    let twofold = running.client.get("/overview").json()["input"]["two_sources"].take();
    let expected = json!({ "sessions": 2, "examples": [
        { "session_id": "events-and-spans", "sources": ["events", "GenAI semantic conventions"] },
        { "session_id": "hooks-and-logs", "sources": ["hooks", "Claude Code"] },
    ] });
    assert_eq!(twofold, expected);
    let (code, told, _) = doctor(&["--address", running.client.address()]);
    let line = "todo  [W0306] sessions that two sources report, so that calls count twice: 2: events-and-spans (events, GenAI semantic \
                conventions), hooks-and-logs (hooks, Claude Code)\n";
    assert!(code == Some(3) && told.contains(line), "{told}");
    let log = std::fs::read_to_string(scratch.0.join("stderr")).unwrap();
    assert_eq!(log.matches("W0306").count(), 1, "once, and without the names of sessions: {log}");
    assert!(!log.contains("hooks-and-logs"), "{log}");
}

#[test]
fn a_doctor_with_a_token_is_let_in_and_a_process_that_is_gone_is_told() {
    let scratch = Scratch::new();
    let token = scratch.0.join("token");
    std::fs::write(&token, "s3cret\n").unwrap();
    let setting = format!("http.token_file={}", token.display());
    let running = Running::start(&scratch.0, &[&setting, "http.listen=127.0.0.1:0"]);
    let address = running.client.address().to_owned();
    assert_eq!(doctor(&["--address", &address, "--set", &setting]).0, Some(3), "no event has come yet");
    drop(running);
    let (code, told, errors) = doctor(&["--address", &address, "--timeout-ms", "60000"]);
    assert_eq!((code, told.as_str()), (Some(1), ""));
    assert!(errors.starts_with(&format!("error: http://{address}/readyz?verbose: ")), "{errors}");
}
