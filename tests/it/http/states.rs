//! One state of an agent: whoever asks, by whatever way, is told the same, and the same numbers of agents and dollars.

use std::fs;

use loopwarden::{clock, exit_code};
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
