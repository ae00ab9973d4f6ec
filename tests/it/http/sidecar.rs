//! `loopwarden guard` beside a process with a log of its own: verdicts and events by HTTP.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::{fs, os::unix::fs::PermissionsExt as _, os::unix::net::UnixStream, time::Duration};

use loopwarden::{clock::Deadline, http::routes::ROUTES, limits};
use serde_json::{Value, json};

use crate::bounded::{START_WAIT, bounded};
use crate::environment::told_nothing;
use crate::http::client::{Client, PATIENCE};
use crate::http::{PAUSE, Running, Scratch};

/// A guard; killed with this value.
pub(crate) struct Guard {
    child: Child,
    place: String,
}

impl Guard {
    /// Starts it. What it keeps over a restart lies in a folder of the test.
    pub(crate) fn start(scratch: &Scratch, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loopwarden"));
        told_nothing(&mut command);
        let errors = fs::File::create(scratch.0.join("guard-stderr")).unwrap();
        command.arg("guard").args(arguments).args(["--data-dir", "unused", "--log-level", "warn"]);
        command.env("XDG_STATE_HOME", scratch.0.join("state"));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors).spawn().unwrap();
        let mut line = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        bounded(child.id(), START_WAIT, || lines.read_line(&mut line)).unwrap();
        let place = line.strip_prefix("guard: ").and_then(|rest| rest.split(',').next());
        let place = place.unwrap_or_else(|| panic!("{line}{}", fs::read_to_string(scratch.0.join("guard-stderr")).unwrap()));
        Self { child, place: place.to_owned() }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.place.strip_prefix("http://").unwrap())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn check(number: usize, kind: &str) -> Value {
    let mut event = json!({
        "id": format!("{number}-{kind}"), "kind": kind, "session_id": "s", "tool": "Bash", "call_id": number.to_string(),
        "args": { "command": "make test" },
    });
    if kind == "tool_result" {
        event["outcome"] = "error".into();
        event["result"] = "failed".into();
    }
    json!({ "event": event, "client": { "name": "test", "can": ["deny", "context_after"] } })
}

pub(crate) fn until_so<T: std::fmt::Debug>(mut ask: impl FnMut(usize) -> T, is_so: impl Fn(&T) -> bool) -> T {
    let deadline = Deadline::after(PATIENCE);
    for number in 0.. {
        let answer = ask(number);
        if is_so(&answer) {
            return answer;
        }
        assert!(!deadline.is_over(), "{answer:?}");
        std::thread::park_timeout(PAUSE);
    }
    unreachable!("it asks for ever")
}

#[test]
fn verdicts_come_from_upstream_and_events_go_there() {
    let scratch = Scratch::new();
    let upstream = Running::start(&scratch.0, &["mode=live"]);
    let url = format!("http://{}", upstream.client.address());
    let guard = Guard::start(&scratch, &["--upstream", &url, "--listen", "127.0.0.1:0", "--stale-after-ms", "5000"]);
    let client = guard.client();
    until_so(|_| client.get("/readyz").status, |status| *status == 200);
    let ask = |number, kind: &str| {
        let answer = client.post("/v1/check", "application/json", check(number, kind).to_string().as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.json()
    };
    let mut nudges = Vec::new();
    let refused = until_so(
        |number| {
            let before = ask(number, "tool_call");
            if before["decision"] == "allow" {
                let after = ask(number, "tool_result");
                nudges.extend((after["action"] == "nudge").then(|| after["command_id"].clone()));
                // One by one: what waits and is judged at once brings nudge and block together.
                let steps = |_| upstream.client.get("/sessions/s").json()["agents"][0]["steps"].as_array().map_or(0, Vec::len);
                until_so(steps, |steps| *steps > number.min(8));
            }
            before
        },
        |before| before["decision"] == "deny",
    );
    assert_eq!((&refused["state"]["source"], &refused["action"]), (&json!("upstream"), &json!("block")), "{refused}");
    assert!(!refused["reason"]["summary"].as_str().unwrap().is_empty());
    assert!(!nudges.is_empty() && nudges.iter().enumerate().all(|(at, id)| !nudges[..at].contains(id)), "{nudges:?}");
    until_so(|_| upstream.client.get("/v1/events").text, |text| text.contains("\"denied\""));
    for route in ROUTES.iter().filter(|route| route.is_of_guard()) {
        let answer = client.send(route.method, &route.path.replace("{agent}", "gemini"), &[], b"");
        assert_ne!(answer.status, 404, "{}", route.path);
    }
    let metrics = client.get("/metrics").text;
    let given = format!("loopwarden_guard_nudges_delivered_total{{}} {}.0\n", nudges.len());
    for line in [
        "loopwarden_guard_blocks_obeyed_total{} 1.0\n",
        "_guard_checks_total{verdict=\"deny\"} 1.0\n",
        "_guard_agents{} 1.0\n",
        &given,
    ] {
        assert!(metrics.contains(line), "{line} in\n{metrics}");
    }
    let foreign = [("host", "evil.example"), ("content-type", "application/json")];
    let refused = client.send("POST", "/v1/check", &foreign, b"{}");
    assert_eq!((refused.status, refused.header("content-type")), (403, Some("application/problem+json")));
    let paged = client.send("POST", "/v1/check", &[("origin", "http://evil.example")], b"{}");
    assert_eq!(paged.status, 403);

    upstream.kill();
    until_so(
        |number| ask(10_000 + number, "tool_call"),
        |answer| answer["decision"] == "allow" && answer["state"]["stale"] == true,
    );
    assert_eq!(client.get("/readyz").status, 503);
}

#[test]
fn a_socket_file_is_the_way_in_by_default_and_nobody_upstream_is_no_reason_to_wait() {
    let scratch = Scratch::new();
    let socket = scratch.0.join("guard.sock");
    // Nobody listens there.
    let guard = Guard::start(&scratch, &["--upstream", "http://127.0.0.1:1", "--socket", &socket.to_string_lossy()]);
    assert_eq!(guard.place, format!("unix:{}", socket.display()));
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let ask = |origin: &str| {
        let body = check(1, "tool_call").to_string();
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let head = format!(
            "POST /v1/check HTTP/1.1\r\nhost: guard\r\n{origin}connection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        // In one piece: a refusal by the head closes the connection, and a body on its way then is a broken pipe.
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let answer = ask("");
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains(r#""decision":"allow""#), "{answer}");
    assert!(answer.contains(r#""stale":true"#) && answer.contains(r#""recorded":true"#), "{answer}");
    assert!(ask("origin: http://evil.example\r\n").starts_with("HTTP/1.1 403 "));
    let huge = format!("x-long: {}\r\n", "x".repeat(limits::HTTP_HEAD_BYTES_MAX));
    assert!(ask(&huge).starts_with("HTTP/1.1 431 "));
    // Half a head has an end in time here, too.
    let mut half = UnixStream::connect(&socket).unwrap();
    half.write_all(b"GET /livez HTTP/1.1\r\nhost: guard\r\nx-slow: ").unwrap();
    half.set_read_timeout(Some(2 * limits::HTTP_HEAD_WAIT)).unwrap();
    let mut rest = Vec::new();
    assert!(half.read_to_end(&mut rest).is_ok() && rest.is_empty(), "still open, or answered");
    let second = Command::new(env!("CARGO_BIN_EXE_loopwarden"))
        .args(["guard", "--upstream", "http://127.0.0.1:1", "--data-dir", "unused", "--socket"])
        .arg(&socket)
        .env("XDG_STATE_HOME", scratch.0.join("second"))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(!second.status.success() && told.contains("E0702") && told.contains("another guard"), "{told}");
}

#[test]
fn an_export_to_a_guard_goes_where_its_events_go() {
    let scratch = Scratch::new();
    let upstream = Running::start(&scratch.0, &["mode=live"]);
    let url = format!("http://{}", upstream.client.address());
    let guard = Guard::start(&scratch, &["--upstream", &url, "--listen", "127.0.0.1:0"]);
    let client = guard.client();
    let attribute = |key: &str, value: &str| json!({ "key": key, "value": { "stringValue": value } });
    let span = json!({
        "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331", "name": "execute_tool Bash",
        "endTimeUnixNano": "1700000000000000000",
        "attributes": [attribute("gen_ai.operation.name", "execute_tool"), attribute("gen_ai.conversation.id", "of-a-span"),
            attribute("gen_ai.tool.call.arguments", "{}"), attribute("gen_ai.tool.call.result", "done")],
    });
    let export = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] }).to_string();
    let answer = client.post("/v1/traces", "application/json", export.as_bytes());
    assert_eq!((answer.status, answer.text.as_str()), (200, "{}"));
    until_so(|_| upstream.client.get("/v1/events").text, |text| text.contains("of-a-span"));
    let refused = client.post("/v1/traces", "application/json", b"no json");
    assert_eq!((refused.status, refused.json()["code"].clone()), (400, json!(3)), "{}", refused.text);
    assert_eq!(client.post("/v1/metrics", "application/json", b"{}").status, 200);
}

#[test]
fn a_full_queue_of_events_refuses_no_call_and_is_counted() {
    let scratch = Scratch::new();
    // Nobody takes events there.
    let kafka = ["--state", "kafka", "--set", "kafka.bootstrap_servers=127.0.0.1:1"];
    for source in [&["--upstream", "http://127.0.0.1:1"][..], &kafka] {
        let guard = Guard::start(&scratch, &[source, &["--listen", "127.0.0.1:0"]].concat());
        let client = guard.client();
        let dropped = || -> u64 {
            let metrics = client.get("/metrics").text;
            let line = metrics.lines().find_map(|line| line.strip_prefix("loopwarden_guard_events_dropped_total{} "));
            line.unwrap().parse::<f64>().unwrap() as u64
        };
        assert_eq!(dropped(), 0);
        let mut taken = 0;
        let full = until_so(
            |number| {
                let mut check = check(number, "tool_result");
                check["event"]["result"] = "x".repeat(200_000).into();
                let answer = client.post("/v1/check", "application/json", check.to_string().as_bytes());
                assert_eq!(answer.status, 200, "{}", answer.text);
                let answer = answer.json();
                assert_eq!(answer["decision"], "allow", "{answer}");
                taken += u64::from(answer["recorded"] == true);
                answer
            },
            |answer| answer["recorded"] == false,
        );
        assert_eq!((&full["dropped"], &full["state"]["stale"]), (&json!("queue_full"), &json!(true)), "{full}");
        assert!(taken > 1, "it had room at first");
        assert_eq!(dropped(), 1);
    }
}
