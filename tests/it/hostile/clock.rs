//! A wall clock that is wrong for some seconds: what was stopped or blocked before still is, and a link ends neither sooner nor later.

#[path = "../../chaos/wall_clock.rs"]
mod wall_clock;

use loopwarden::event::EventTime;
use loopwarden_webhook::{AnswerKind, Link, LinkKey};
use serde_json::{Value, json};

use crate::http::{Running, Scratch, failed_call};
use wall_clock::WallClock;

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const DAY_S: i64 = 86_400;
/// Events while the clock is wrong. The guard sweeps at the first check, since more than ten seconds are over by its clock.
const EVENTS: usize = 8;

/// Whether the next call is refused, by more than a nudge that is given before it.
fn is_blocked(running: &Running, session: &str, number: usize) -> bool {
    let mut event = failed_call(session, number);
    event["kind"] = "tool_call".into();
    event.as_object_mut().unwrap().remove("outcome");
    let check = json!({ "event": event, "record": false, "client": { "name": "test", "can": ["deny"] }, "deadline_ms": 10_000 });
    let answer = running.client.post("/v1/check", "application/json", check.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()["decision"] == "deny" && answer.json()["action"] == "block"
}

/// A link of a chat that holds for an hour.
fn link() -> String {
    let link = Link {
        answer: AnswerKind::Right,
        expires: EventTime(loopwarden::clock::now_ms() + 3_600_000),
        webhook: "chat".to_owned(),
        command_id: "0".repeat(26),
        episode: "1".repeat(26),
        tenant: String::new(),
        session_id: "other".to_owned(),
        agent_id: String::new(),
        is_test: true,
    };
    format!("/a/{}", LinkKey::of(SECRET).unwrap().token(&link))
}

#[test]
fn a_stop_a_block_and_a_link_outlive_a_clock_that_runs_ahead_and_comes_back() {
    let scratch = Scratch::new();
    let clock = WallClock::new(&scratch.0).unwrap();
    std::fs::write(scratch.0.join("secret"), SECRET).unwrap();
    let config = scratch.0.join("loopwarden.toml");
    let http = "[http]\npublic_url = \"https://warden.example\"\nlink_secret_file = \"secret\"\n";
    let hook = "[[webhook]]\nname = \"chat\"\nurl = \"http://127.0.0.1:9/hook\"\nformat = \"slack\"\n";
    std::fs::write(&config, format!("{http}{hook}")).unwrap();
    let environment = clock.environment();
    let variables: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let arguments = ["--log-level", "warn", "--config", &config.to_string_lossy()];
    let running = Running::within(&scratch.0, &variables, ("run", &arguments), &["mode=live"]);
    let stop = json!({ "scope": "session", "session_id": "stopped", "reason": "r", "for": "1h" });
    let answer = running.client.post("/v1/stops", "application/json", stop.to_string().as_bytes());
    assert_eq!(answer.json()["in_force"], Value::Bool(true), "{}", answer.text);
    let mut calls = 0;
    while !is_blocked(&running, "loops", 10_000 + calls) {
        calls += 1;
        assert!(calls < 200, "it is never blocked");
        running.accept(&failed_call("loops", calls));
        running.until_said("loops", calls);
    }
    let link = link();
    let all_hold = |when: &str, number: usize| {
        for session in ["stopped", "loops"] {
            assert!(is_blocked(&running, session, 20_000 + number), "{session} {when}");
        }
        assert_eq!(running.client.get("/v1/stops").json()["stops"].as_array().map(Vec::len), Some(1), "{when}");
        assert_eq!(running.client.get(&link).status, 200, "{when}");
    };
    all_hold("before", 0);
    for (round, ahead_s) in [1, DAY_S, 365 * DAY_S].into_iter().enumerate() {
        clock.jump_to(ahead_s);
        for number in 1..=EVENTS {
            running.accept(&failed_call("other", round * EVENTS + number));
            running.until_said("other", round * EVENTS + number);
            all_hold(&format!("with a clock of {ahead_s} s"), round * EVENTS + number);
        }
        clock.jump_to(0);
        all_hold("with a clock that is right again", 1_000 + round);
    }
    assert_eq!(running.terminate(), Some(0));
}
