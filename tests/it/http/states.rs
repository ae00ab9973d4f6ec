//! One state of an agent: whoever asks, by whatever way, is told the same, and the same numbers of agents and dollars.

use std::fs;

use loopwarden::{clock, event::EventTime, exit_code};
use serde_json::{Value, json};

use crate::cli::{expect, stdout};
use crate::http::{Running, Scratch, client::PATIENCE, failed_call};
use crate::views::{self, Views};

/// A process whose policy has a trial.
fn in_trial(scratch: &Scratch, mode: &str) -> Running {
    let policy = scratch.0.join("policy.toml");
    fs::write(&policy, views::TRIAL).unwrap();
    Running::start(&scratch.0, &[&format!("mode={mode}"), &format!("policy={}", policy.display())])
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

fn command_line(running: &Running, more: &[&str]) -> String {
    stdout(&expect(&[&["sessions", "--address", running.client.address()], more].concat(), exit_code::DONE))
}

/// A process, and the file of the events that it has read.
struct Asked<'a> {
    running: &'a Running,
    replay: Vec<String>,
}

impl Views for Asked<'_> {
    fn json(&self, path: &str) -> Value {
        self.running.until(path, |answer| answer.status == 200).json()
    }

    fn sessions(&self, filter: &str) -> String {
        command_line(self.running, &[filter])
    }

    fn replay(&self) -> Value {
        let arguments: Vec<&str> = self.replay.iter().map(String::as_str).collect();
        serde_json::from_str(&stdout(&expect(&arguments, exit_code::DONE))).unwrap()
    }
}

#[test]
fn all_views_of_one_log_have_the_same_numbers() {
    let events = views::fleet(clock::now_ms());
    for mode in ["live", "shadow"] {
        let scratch = Scratch::new();
        let running = in_trial(&scratch, mode);
        send(&running, &events);
        let file = scratch.0.join("log.ndjson");
        fs::write(&file, events.iter().map(|event| format!("{event}\n")).collect::<String>()).unwrap();
        let policy = scratch.0.join("policy.toml").display().to_string();
        let file = file.display().to_string();
        let replay = ["replay", &file, "--policy", &policy, "--output", "json"].map(str::to_owned).to_vec();
        views::agree(&Asked { running: &running, replay }, mode, PATIENCE);
    }
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
    let running = in_trial(&scratch, "live");
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
