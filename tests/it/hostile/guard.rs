//! Against the guard: to lift the blocks of others, to hide that verdicts are late, to make them late for others.

use loopwarden::clock::Deadline;
use serde_json::{Value, json};

use crate::http::client::PATIENCE;
use crate::http::{PAUSE, Running, Scratch, failed_call};

const NDJSON: &str = "application/x-ndjson";

/// The same failing call of a session of a tenant.
fn call(tenant: &str, session_id: &str, number: usize) -> Value {
    let mut event = failed_call(session_id, number);
    if !tenant.is_empty() {
        event["tenant"] = tenant.into();
    }
    event
}

/// The answer before such a call.
fn before(running: &Running, event: &Value, can: &[&str]) -> Value {
    let mut event = event.clone();
    event["kind"] = "tool_call".into();
    let check = json!({ "event": event, "record": false, "client": { "name": "test", "can": can }, "deadline_ms": 10_000 });
    let answer = running.client.post("/v1/check", "application/json", check.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()
}

/// A session that fails until it is blocked.
fn blocked(running: &Running, tenant: &str, session_id: &str) -> Value {
    for number in 0..100 {
        running.accept(&call(tenant, session_id, number));
        running.until_said(&format!("{session_id}?tenant={tenant}"), number + 1);
        let event = call(tenant, session_id, 1_000);
        if before(running, &event, &["deny"])["action"] == "block" {
            return event;
        }
    }
    panic!("{session_id} is never blocked");
}

fn metric(running: &Running, name: &str) -> f64 {
    let text = running.client.get("/metrics").text;
    let found = text.lines().find_map(|line| line.strip_prefix("loopwarden_")?.strip_prefix(name));
    let value = found.and_then(|rest| rest.trim_start_matches("{}").trim().parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in {text}"))
}

/// Waits until lanes have judged everything.
fn until_judged(running: &Running) {
    let waits =
        |line: &&str| line.starts_with("loopwarden_judged_lag_seconds") && !line.ends_with(" 0.0") && !line.ends_with(" 0");
    running.until("/metrics", |answer| answer.text.lines().find(waits).is_none());
}

/// Names as long as they may be, so that a few thousand verdicts fill a table.
fn long(number: usize) -> String {
    format!("{number:07}{}", "\u{1f41c}".repeat(249))
}

#[test]
fn somebody_who_fills_the_table_of_verdicts_lifts_no_block_of_another_tenant() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &["mode=live"]);
    let victim = blocked(&running, "acme", "victim");
    let mut first = call("", &long(0), 0);
    first["id"] = "again".into();
    first["agent"] = json!({ "id": long(0) });
    let mut posted = 0;
    while metric(&running, "guard_subjects_evicted_total") == 0.0 {
        let lines: Vec<String> = (posted..posted + 500)
            .flat_map(|number| {
                (0..3).map(move |call| {
                    let mut event = failed_call(&long(number), call);
                    event["id"] = format!("{number}-{call}").into();
                    event["agent"] = json!({ "id": long(number) });
                    event.to_string()
                })
            })
            .collect();
        let answer = running.client.post("/v1/events", NDJSON, lines.join("\n").as_bytes());
        assert!(matches!(answer.status, 202 | 429), "{}", answer.text);
        posted += if answer.status == 202 { 500 } else { 0 };
        assert!(posted < 66_000, "no table is so large");
    }
    let told = before(&running, &victim, &["deny"]);
    assert_eq!((&told["decision"], &told["state"]["stale"]), (&json!("deny"), &json!(false)), "{told}");
    // What left is looked up for whoever it concerns.
    let told = before(&running, &first, &["deny", "context_before"]);
    assert_eq!((&told["action"], &told["state"]["stale"]), (&json!("nudge"), &json!(false)), "{told}");
    assert!(metric(&running, "guard_verdicts_looked_up_total") > 0.0);
}

#[test]
fn a_tenant_that_sends_all_it_can_leaves_room_for_another() {
    let scratch = Scratch::new();
    // Room for four events, as nothing was measured yet.
    let running = Running::start(&scratch.0, &["http.intake_share_ms_max=1"]);
    let batch = |tenant: &str, from: usize, count: usize| {
        let lines: Vec<String> = (from..from + count).map(|number| call(tenant, tenant, number).to_string()).collect();
        running.client.post("/v1/events", NDJSON, lines.join("\n").as_bytes())
    };
    assert_eq!(batch("evil", 0, 1_000).status, 202, "it is alone");
    until_judged(&running);
    assert_eq!(batch("good", 0, 10).status, 202);
    let refused = batch("evil", 1_000, 1_000);
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")), "{}", refused.text);
    let told = refused.json();
    assert_eq!(told["error"], "share_full");
    assert!(told["message"].as_str().is_some_and(|message| message.starts_with("E0703: ")), "{told}");
    until_judged(&running);
    assert_eq!(batch("good", 10, 10).status, 202, "another tenant is still let in");
    assert_eq!(metric(&running, "intake_refused_total{why=\"share\"}"), 1_000.0);
    // Nothing of the refused batch is in the log.
    let kept = running.client.get("/v1/events").text;
    assert_eq!(kept.lines().filter(|line| line.starts_with('{')).count(), 1_020);
}

#[test]
fn events_that_wait_for_lanes_are_lateness_that_nobody_hides() {
    let scratch = Scratch::new();
    // Lanes commit as seldom as they may: what comes waits meanwhile.
    let running = Running::start(&scratch.0, &["mode=live", "commit.commit_ms_max=5000", "http.ready_lag_ms_max=200"]);
    let event = call("good", "good", 0);
    let late = || before(&running, &event, &["deny"])["state"]["lag_ms"].as_u64();
    let deadline = Deadline::after(PATIENCE);
    for number in 0.. {
        assert!(!deadline.is_over(), "nothing is ever late");
        // Who waits for a verdict makes lanes commit, and so does a command: these calls lead to none.
        let mut gets_on = call("evil", "good", number);
        (gets_on["args"], gets_on["outcome"]) = (json!({ "command": format!("part {number}") }), "ok".into());
        gets_on["result"] = format!("done {number}").into();
        running.accept(&gets_on);
        let first = late();
        if first < Some(500) {
            continue;
        }
        std::thread::park_timeout(PAUSE);
        let metrics = running.client.get("/metrics").text;
        let ready = running.client.get("/readyz").status;
        let told = running.client.get("/v1/commands?wait=0").json();
        if late() < first {
            // They have committed in between.
            continue;
        }
        assert!(told["lag_ms"].as_u64() >= first, "{told}");
        assert_eq!(ready, 503);
        // Ticks wait for the swarm stage, too: these are events.
        let lags = metrics.lines().filter(|line| line.starts_with("loopwarden_judged_lag_seconds{stage=\"session\""));
        let lag = lags.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).fold(0.0, f64::max);
        if lag >= 0.5 {
            break;
        }
    }
}
