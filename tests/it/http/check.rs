//! `POST /v1/check`: an agent that asks before and after each call, and nothing else.

use std::sync::Barrier;

use serde_json::{Value, json};

use crate::http::{Running, Scratch};

/// What an agent can do that speaks after its calls.
const SPEAKS_AFTER: &[&str] = &["deny", "context_after"];
/// Far more than a lane takes, so that no answer is early because a machine is busy.
const DEADLINE_MS: u64 = 10_000;

/// An agent with its own session.
struct Agent<'a> {
    running: &'a Running,
    session: &'a str,
    can: &'a [&'a str],
}

impl Agent<'_> {
    fn ask(&self, event: &Value) -> Value {
        let check = json!({ "v": 1, "event": event, "client": { "name": "test", "can": self.can }, "deadline_ms": DEADLINE_MS });
        let answer = self.running.client.post("/v1/check", "application/json", check.to_string().as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.json()
    }

    fn event(&self, kind: &str, call: &str, command: &str) -> Value {
        json!({
            "id": format!("{call}-{kind}"), "kind": kind, "session_id": self.session, "tool": "Bash", "call_id": call,
            "args": { "command": command },
        })
    }

    /// One call: the answer before it, and the one after it where it ran.
    fn call(&self, call: &str, command: &str, outcome: &str, result: &str) -> (Value, Option<Value>) {
        let before = self.ask(&self.event("tool_call", call, command));
        if before["decision"] == "deny" {
            return (before, None);
        }
        let mut after = self.event("tool_result", call, command);
        after["outcome"] = outcome.into();
        after["result"] = result.into();
        let after = self.ask(&after);
        assert_eq!(after["decision"], "allow", "a call that has run cannot be refused: {after}");
        (before, Some(after))
    }
}

fn live(scratch: &Scratch) -> Running {
    Running::start(&scratch.0, &["mode=live"])
}

/// The events that were recorded, as the log holds them.
fn recorded(running: &Running) -> Vec<Value> {
    let answer = running.client.get("/v1/events");
    assert_eq!(answer.status, 200);
    // Chunk sizes stand between the lines.
    answer.text.lines().filter(|line| line.starts_with('{')).map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn an_agent_that_loops_is_nudged_then_refused() {
    let scratch = Scratch::new();
    let running = live(&scratch);
    let agent = Agent { running: &running, session: "loops", can: SPEAKS_AFTER };
    let (mut nudges, mut refused) = (Vec::new(), Vec::new());
    for number in 0..20 {
        let (before, after) = agent.call(&format!("c{number}"), "make test", "error", "failed");
        match after {
            Some(after) => {
                assert_eq!(after["state"]["stale"], false, "{after}");
                assert_eq!((&before["recorded"], &after["recorded"]), (&json!(true), &json!(true)));
                if after["action"] == "nudge" {
                    nudges.push((number, after));
                }
            }
            None => refused.push((number, before)),
        }
    }
    let (first, nudge) = &nudges[0];
    assert_eq!(*first, 2, "the verdict about the third call is in the answer of the third call: {nudge}");
    assert_eq!(nudge["placement"], "append_to_result");
    assert!(!nudge["message"].as_str().unwrap().contains("[System]"), "{nudge}");
    let ids: Vec<&Value> = nudges.iter().map(|(_, nudge)| &nudge["command_id"]).collect();
    assert!(ids.iter().enumerate().all(|(at, id)| !ids[..at].contains(id)), "a nudge is told once: {ids:?}");
    let (first, block) = &refused[0];
    assert_eq!(*first + refused.len(), 20, "once refused, always refused");
    assert_eq!((&block["action"], &block["level"]), (&json!("block"), &json!(3)), "{block}");
    assert!(!block["message"].as_str().unwrap().is_empty());

    let (other, _) = agent.call("other", "make lint", "ok", "clean");
    assert_eq!(other["decision"], "allow", "another call is no part of the loop");
    let of_block: Vec<Value> = recorded(&running).into_iter().filter(|event| event["outcome"] == "denied").collect();
    assert_eq!(of_block.len(), refused.len());
    assert!(of_block.iter().all(|event| event["kind"] == "tool" && event["command_id"] == block["command_id"]));
    assert!(recorded(&running).iter().any(|event| event["kind"] == "ack" && event["command_id"] == nudges[0].1["command_id"]));

    let metrics = running.client.get("/metrics").text;
    let value = |name: &str| -> usize {
        let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("loopwarden_guard_{name} ")));
        line.unwrap_or_else(|| panic!("{name} is not in\n{metrics}")).parse::<f64>().unwrap() as usize
    };
    assert_eq!(value("checks_total{verdict=\"deny\"}"), refused.len());
    assert_eq!(value("checks_total{verdict=\"message\"}"), nudges.len());
    assert_eq!((value("blocks_obeyed_total{}"), value("calls_in_spite_total{}"), value("agents{}")), (refused.len(), 0, 1));
    // Each was delivered, since the agent went on; the loop went on too.
    assert_eq!((value("nudges_delivered_total{}"), value("nudges_unheeded_total{}")), (nudges.len(), nudges.len()));
    let shown = running.client.get("/overview").json()["guard"].take();
    assert_eq!((&shown["blocks_obeyed"], &shown["agents"]), (&json!(refused.len()), &json!(1)), "{shown}");
}

#[test]
fn an_agent_that_works_is_left_alone() {
    let scratch = Scratch::new();
    let running = live(&scratch);
    let agent = Agent { running: &running, session: "works", can: &["deny", "context_before", "context_after", "stop"] };
    for number in 0..20 {
        let (before, after) = agent.call(&format!("c{number}"), &format!("cat part-{number}"), "ok", &format!("text {number}"));
        for answer in [before, after.unwrap()] {
            assert_eq!((&answer["decision"], &answer["action"]), (&json!("allow"), &json!("none")), "{answer}");
            assert_eq!((answer.get("message"), answer["state"]["source"].as_str()), (None, Some("embedded")));
        }
    }
    assert_eq!(recorded(&running).len(), 40);
}

#[test]
fn a_shadow_process_refuses_nothing() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &[]);
    let agent = Agent { running: &running, session: "loops", can: SPEAKS_AFTER };
    for number in 0..12 {
        let (before, after) = agent.call(&format!("c{number}"), "make test", "error", "failed");
        assert_eq!((&before["action"], &after.unwrap()["action"]), (&json!("none"), &json!("none")));
    }
}

#[test]
fn a_block_stands_after_a_restart() {
    let scratch = Scratch::new();
    let running = live(&scratch);
    let loops = |running: &Running, from: usize| {
        let agent = Agent { running, session: "loops", can: SPEAKS_AFTER };
        (from..from + 20).find(|number| agent.call(&format!("c{number}"), "make test", "error", "failed").1.is_none())
    };
    assert!(loops(&running, 0).is_some());
    assert_eq!(running.terminate(), Some(0));
    let again = live(&scratch);
    assert_eq!(loops(&again, 100), Some(100), "the first call is refused");
}

#[test]
fn parallel_calls_get_one_nudge_and_are_all_refused_under_a_block() {
    const CALLS: usize = 8;
    let scratch = Scratch::new();
    let running = live(&scratch);
    let agent = Agent { running: &running, session: "fan", can: SPEAKS_AFTER };
    let together = |round: usize| -> Vec<(Value, Option<Value>)> {
        let start = Barrier::new(CALLS);
        std::thread::scope(|scope| {
            let calls: Vec<_> = (0..CALLS)
                .map(|number| {
                    let (agent, start) = (&agent, &start);
                    scope.spawn(move || {
                        start.wait();
                        agent.call(&format!("r{round}-{number}"), "make test", "error", "failed")
                    })
                })
                .collect();
            calls.into_iter().map(|call| call.join().unwrap()).collect()
        })
    };
    let mut nudges = Vec::new();
    for round in 0..20 {
        let calls = together(round);
        if calls.iter().all(|(_, after)| after.is_none()) {
            assert!(!nudges.is_empty(), "refused without a word before");
            return;
        }
        for after in calls.into_iter().filter_map(|(_, after)| after).filter(|after| after["action"] == "nudge") {
            assert!(!nudges.contains(&after["command_id"]), "told twice: {after}");
            nudges.push(after["command_id"].clone());
        }
    }
    panic!("never refused; nudges: {nudges:?}");
}

#[test]
fn who_only_asks_records_nothing() {
    let scratch = Scratch::new();
    let running = live(&scratch);
    let event = json!({ "id": "a", "kind": "tool_call", "session_id": "s", "tool": "Bash", "args": {} });
    let check = json!({ "event": event, "record": false });
    let answer = running.client.post("/v1/check", "application/json", check.to_string().as_bytes());
    assert_eq!((answer.status, answer.json()["recorded"].as_bool()), (200, Some(false)));
    assert_eq!(recorded(&running).len(), 0);
}

/// Everything that is no check is a problem with a word, and never a decision.
#[test]
fn hostile_bodies_are_problems() {
    let scratch = Scratch::new();
    let running = live(&scratch);
    let post = |media: &str, body: &[u8]| running.client.post("/v1/check", media, body);
    let event = r#"{"id":"a","kind":"tool_call","session_id":"s","tool":"Bash"}"#;
    let deep = format!(r#"{{"event":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    let huge = format!(r#"{{"event":{event},"x":"{}"}}"#, "x".repeat(300_000));
    let cases: Vec<(&[u8], u16, &str, Option<&str>)> = vec![
        (b"", 400, "not_json", None),
        (b"\xff\xfe", 400, "not_json", None),
        (b"[]", 400, "not_an_object", None),
        (b"{}", 400, "missing_field", Some("/event")),
        (br#"{"event":{}}"#, 400, "missing_field", Some("/event/id")),
        (br#"{"event":[]}"#, 400, "unsupported_format", Some("/event")),
        (br#"{"event":{"id":"a","kind":"sing","session_id":"s"}}"#, 400, "unknown_kind", Some("/event/kind")),
        (br#"{"v":9,"event":{}}"#, 400, "unsupported_version", Some("/v")),
        (deep.as_bytes(), 400, "too_deep", Some("/event")),
        (huge.as_bytes(), 413, "too_large", None),
    ];
    for (body, status, code, pointer) in cases {
        let answer = post("application/json", body);
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        assert_eq!((answer.status, answer.header("content-type")), (status, Some("application/problem+json")), "{shown}");
        let problem = answer.json();
        assert_eq!((problem["title"].as_str(), problem["pointer"].as_str()), (Some(code), pointer), "{shown}: {problem}");
        assert_eq!(problem["status"], status);
    }
    assert_eq!(post("text/plain", b"{}").status, 415);
    let method = running.client.get("/v1/check");
    assert_eq!((method.status, method.header("content-type")), (405, Some("application/problem+json")));
    let foreign = running.client.send("POST", "/v1/check", &[("origin", "http://evil.example")], event.as_bytes());
    assert_eq!((foreign.status, foreign.header("content-type")), (403, Some("application/problem+json")));
    let check = format!(r#"{{"event":{event}}}"#);
    assert_eq!(post("application/json; charset=utf-8", check.as_bytes()).status, 200, "it still answers");
}
