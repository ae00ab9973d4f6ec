//! One state of an agent: whoever asks, by whatever way, is told the same, and the same numbers of agents and dollars.

use std::collections::BTreeMap;
use std::fs;

use loopwarden::{clock, event::EventTime, exit_code};
use serde_json::{Value, json};

use crate::cli::{expect, stdout};
use crate::http::{Running, Scratch, failed_call};

const TRIAL: &str = "profile = \"ours\"\nbase = \"default\"\n[trial]\nshare = 0.5\nsalt = \"a\"\n";

/// A process whose policy has a trial.
fn in_trial(scratch: &Scratch) -> Running {
    let policy = scratch.0.join("policy.toml");
    fs::write(&policy, TRIAL).unwrap();
    Running::start(&scratch.0, &["mode=live", &format!("policy={}", policy.display())])
}

fn costly(session: &str, number: usize) -> Value {
    let mut call = failed_call(session, number);
    call["usage"] = json!({ "input_tokens": 10, "cost_usd": 0.25 });
    call
}

fn send(running: &Running, events: &[Value]) {
    let body: String = events.iter().map(|event| format!("{event}\n")).collect();
    let answer = running.client.post("/v1/events", "application/x-ndjson", body.as_bytes());
    assert_eq!(answer.status, 202, "{}", answer.text);
}

fn loops(session: &str, calls: std::ops::Range<usize>) -> Vec<Value> {
    calls.map(|number| costly(session, number)).collect()
}

fn command_line(running: &Running, more: &[&str]) -> String {
    stdout(&expect(&[&["sessions", "--address", running.client.address()], more].concat(), exit_code::DONE))
}

#[test]
fn agents_have_one_state_in_lists_on_the_page_and_on_the_command_line_and_the_bill_has_their_costs() {
    let scratch = Scratch::new();
    let running = in_trial(&scratch);
    let names: Vec<String> = (0..12).map(|at| format!("a{at}")).collect();
    send(&running, &names.iter().flat_map(|name| loops(name, 0..4)).collect::<Vec<_>>());
    let found = running.json_until("/sessions?state=looping", |found| found["found"] == 12);
    let (mut sent, mut control) = (Vec::new(), Vec::new());
    for row in found["sessions"].as_array().unwrap() {
        let name = row["session_id"].as_str().unwrap();
        assert!(row["code"].is_string() && row["loops_since"].is_string(), "{row}");
        match row["state"].as_str().unwrap() {
            "nudged" => sent.push(name),
            "would_nudge" => control.push(name),
            other => panic!("{other}: {row}"),
        }
    }
    assert!(sent.len() >= 4 && control.len() >= 2, "{sent:?} {control:?}");
    send(&running, &[loops(sent[0], 4..10), loops(control[0], 4..10), loops("honest", 0..1)].concat());
    send(&running, &[json!({ "id": "end", "kind": "session_end", "session_id": sent[1] })]);
    let stop = json!({ "scope": "session", "session_id": sent[2], "reason": "r", "for": "30m" }).to_string();
    assert_eq!(running.client.post("/v1/stops", "application/json", stop.as_bytes()).status, 202);

    let expected: BTreeMap<&str, usize> = [
        ("running", 1),
        ("nudged", sent.len() - 3),
        ("blocked", 1),
        ("would_nudge", control.len() - 1),
        ("would_block", 1),
        ("stopped", 1),
        ("ended", 1),
    ]
    .into();
    let all = running.json_until("/sessions", |found| found["states"] == json!(expected));
    let overview = running.json_until("/overview", |overview| overview["agents"]["states"] == json!(expected));
    let mut counted = BTreeMap::<&str, usize>::new();
    let rows = all["sessions"].as_array().unwrap();
    rows.iter().for_each(|row| *counted.entry(row["state"].as_str().unwrap()).or_default() += 1);
    assert_eq!(counted, expected);
    let looping = 12 - 2;
    assert_eq!(
        (&overview["agents"]["found"], overview["agents"]["sessions"].as_array().unwrap().len()),
        (&json!(looping), looping)
    );
    let text = command_line(&running, &["--looping"]);
    assert!(text.starts_with(&format!("{looping} agents of 13 looked at\n")), "{text}");
    let text = command_line(&running, &["--blocked"]);
    assert!(text.starts_with("2 agents") && text.contains("  blocked  ") && text.contains("would be blocked"), "{text}");
    // The policy has no budget, and yet what events report is added up: of each agent, and of all together.
    let spent: u64 = rows.iter().map(|row| row["cost_micro_usd"].as_u64().unwrap()).sum();
    assert_eq!(spent, (12 * 4 + 2 * 6 + 1) * 250_000);
    // Sums of the process follow its lanes.
    let bill = json!({ "tokens": (12 * 4 + 2 * 6 + 1) * 10, "cost_usd": spent as f64 / 1e6 });
    let overview = running.json_until("/overview", |overview| overview["bill"]["all"] == bill);
    let saved = overview["bill"]["saved"].as_str().unwrap();
    assert!(saved.contains("fewer than 50 agents"), "there is a control arm: {saved}");
}

#[test]
fn in_shadow_mode_nobody_is_blocked_and_without_costs_nobody_is_said_to_have_had_none() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &[]);
    for number in 0..10 {
        running.accept(&failed_call("s", number));
    }
    let found = running.json_until("/sessions?state=blocked", |found| found["found"] == 1);
    let row = &found["sessions"][0];
    assert_eq!((&row["state"], &row["cost_micro_usd"]), (&json!("would_block"), &Value::Null), "{row}");
    let text = command_line(&running, &[]);
    assert!(text.contains("would be blocked") && text.contains("no cost reported") && !text.contains("$0"), "{text}");
    let bill = running.client.get("/overview").json()["bill"].clone();
    assert_eq!((&bill["all"]["cost_usd"], &bill["in_loops"]["cost_usd"]), (&Value::Null, &Value::Null), "{bill}");
}

#[test]
fn agents_that_fall_silent_in_their_loop_count_in_the_live_trial_as_in_a_replay() {
    let scratch = Scratch::new();
    let running = in_trial(&scratch);
    let at = |ms: i64| Value::from(EventTime(ms).to_rfc3339());
    let start_ms = clock::now_ms() - 3_600_000;
    let mut events = Vec::new();
    for agent in 0..40 {
        for number in 0..5 {
            let mut call = costly(&format!("a{agent}"), number);
            call["time"] = at(start_ms + number as i64 * 1_000);
            events.push(call);
        }
    }
    // Time passes in each partition, and no agent of the trial says anything any more.
    for other in 0..200 {
        let mut call = costly(&format!("other{other}"), 0);
        call["time"] = at(start_ms + 1_800_000);
        events.push(call);
    }
    send(&running, &events);
    let file = scratch.0.join("log.ndjson");
    fs::write(&file, events.iter().map(|event| format!("{event}\n")).collect::<String>()).unwrap();
    let policy = scratch.0.join("policy.toml").display().to_string();
    let arguments = ["replay", &file.display().to_string(), "--policy", &policy, "--output", "json"];
    let report: Value = serde_json::from_str(&stdout(&expect(&arguments, exit_code::DONE))).unwrap();
    let of_replay = |row: &Value| (row["detector"].clone(), format!("{} : {}", row["agents"], row["agents_against"]));
    let expected: Vec<_> = report["trial"].as_array().unwrap().iter().map(of_replay).collect();
    let agents: u64 = report["trial"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["agents"].as_u64().unwrap() + row["agents_against"].as_u64().unwrap())
        .sum();
    assert_eq!(agents, 40, "{report}");
    let of_live = |row: &Value| (row["detector"].clone(), row["agents"].as_str().unwrap().to_owned());
    running.json_until("/overview", |overview| {
        overview["bill"]["trial"].as_array().unwrap().iter().map(of_live).collect::<Vec<_>>() == expected
    });
}
