//! A person answers a command: a label, or a loop that is let be. Once, over a kill, and in a replay.

use std::process::Command;

use serde_json::{Value, json};

use crate::http::{Running, Scratch, failed_call};

/// Sends equal failures, and waits until they are judged.
fn fail(running: &Running, session: &str, numbers: std::ops::Range<usize>) {
    let last = numbers.end - 1;
    numbers.for_each(|number| running.accept(&failed_call(session, number)));
    let id = format!("{session}-{last}");
    running.json_until(&format!("/sessions/{session}"), |found| found.to_string().contains(&format!("\"{id}\"")));
}

fn about(running: &Running, session: &str) -> Vec<Value> {
    let (all, _) = running.commands("after=0&wait=0s");
    all.into_iter().filter(|command| command["session_id"] == session).collect()
}

fn answer(session: &str, episode: &Value, answer: &str, until: Option<&str>) -> Value {
    json!({
        "id": format!("answer-{session}-{answer}"), "kind": "answer", "session_id": session, "episode": episode, "answer": answer,
        "until": until,
    })
}

fn words(commands: &[Value]) -> Vec<(&str, &str)> {
    commands.iter().map(|command| (command["action"].as_str().unwrap(), command["reason"]["code"].as_str().unwrap())).collect()
}

#[test]
fn a_false_alarm_lifts_the_block_lets_the_loop_be_and_outlives_a_kill() {
    let scratch = Scratch::new();
    let file = scratch.0.with_extension("toml");
    // Calls come as fast as they can be sent: a rate is another finding, and an answer to it another answer.
    std::fs::write(&file, "profile = \"slow\"\nbase = \"default\"\n[detectors.call_rate]\nmode = \"off\"\n").unwrap();
    let policy = format!("policy={}", file.display());
    let start = || Running::start(&scratch.0, &["mode=live", &policy]);
    let mut running = start();
    for session in ["alarm", "loop"] {
        (0..40).for_each(|number| running.accept(&failed_call(session, number)));
    }
    running.commands_until("", |all| {
        ["alarm", "loop"].iter().all(|session| all.iter().any(|one| one["session_id"] == *session && one["action"] == "block"))
    });
    fail(&running, "alarm", 40..41);
    fail(&running, "loop", 40..41);
    let before = about(&running, "alarm");
    let episode = &before.last().unwrap()["episode"];
    running.accept(&answer("loop", &about(&running, "loop")[0]["episode"], "right", None));
    let cli = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loopwarden"));
        command.args(arguments).args(["--address", &running.client.address]).output().unwrap()
    };
    let arguments = ["answer", episode.as_str().unwrap(), "--session", "alarm"];
    for wrong in [&[][..], &["--right", "--false-alarm"], &["--allow", "8d"], &["--allow", "soon"]] {
        assert_eq!(cli(&[&arguments, wrong].concat()).status.code(), Some(2), "{wrong:?}");
    }
    let given = cli(&[&arguments[..], &["--false-alarm"]].concat());
    assert_eq!(given.status.code(), Some(0), "{}", String::from_utf8_lossy(&given.stderr));
    running.commands_until("", |all| all.iter().any(|one| one["session_id"] == "alarm" && one["action"] == "unblock"));
    let lifted = about(&running, "alarm");
    assert_eq!(words(&lifted[before.len()..]), [("unblock", "answer")], "{lifted:?}");
    assert!(lifted.last().unwrap()["labels"]["actor"].as_str().is_some_and(|actor| !actor.is_empty()), "{lifted:?}");

    running.kill();
    running = start();
    fail(&running, "alarm", 41..90);
    fail(&running, "loop", 41..90);
    assert_eq!(about(&running, "alarm").len(), lifted.len(), "the loop is let be: {:?}", about(&running, "alarm"));
    // Another loop of the same session has findings of the same identity, and is none of what a person meant.
    for number in 0..6 {
        let mut other = failed_call("alarm", 100 + number);
        other["tool"] = "Read".into();
        other["args"] = json!({ "path": "missing.txt" });
        other["error"] = "no such file".into();
        running.accept(&other);
    }
    running.commands_until("", |all| {
        let again = all.iter().filter(|one| one["session_id"] == "alarm");
        again.skip(lifted.len()).any(|one| one["action"] == "nudge")
    });
    let goes_on = about(&running, "loop");
    assert!(goes_on.iter().all(|command| command["action"] != "unblock"), "a label changes nothing: {goes_on:?}");

    let events = scratch.0.join("events.ndjson");
    std::fs::write(&events, running.client.whole("/v1/events", None).text).unwrap();
    let mut replay = Command::new(env!("CARGO_BIN_EXE_loopwarden"));
    let output = replay.args(["replay", "--output", "ndjson", "--policy"]).args([&file, &events]).output().unwrap();
    let replayed: Vec<Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ids = |commands: &[Value], session: &str| -> Vec<String> {
        commands.iter().filter(|one| one["session_id"] == session).map(|one| one["id"].to_string()).collect()
    };
    for session in ["alarm", "loop"] {
        assert_eq!(ids(&replayed, session), ids(&about(&running, session), session));
    }
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn what_is_allowed_for_a_while_is_judged_again_after_it() {
    let at = |number: usize, minute: usize| {
        let mut event = failed_call("s", number);
        event["time"] = format!("2026-01-05T{:02}:{:02}:{:02}Z", 9 + minute / 60, minute % 60, number % 60).into();
        event
    };
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &["mode=live"]);
    (0..20).for_each(|number| running.accept(&at(number, number / 60)));
    let told = running.commands_until("", |all| all.iter().any(|one| one["action"] == "nudge"));
    let episode = &told[0]["episode"];
    for (kind, wrong) in [
        ("allow", answer("s", episode, "allow", None)),
        ("allow", answer("s", episode, "allow", Some("2099-01-01T00:00:00Z"))),
        ("perhaps", answer("s", episode, "perhaps", None)),
    ] {
        let refused = running.client.post("/v1/events", "application/json", wrong.to_string().as_bytes());
        assert_eq!(refused.json()["accepted"], 0, "{kind}: {}", refused.text);
    }
    let mut allowed = answer("s", episode, "allow", Some("2026-01-05T10:00:00Z"));
    allowed["time"] = "2026-01-05T09:01:00Z".into();
    running.accept(&allowed);
    (20..60).for_each(|number| running.accept(&at(number, 2)));
    running.json_until("/sessions/s", |found| found.to_string().contains("\"s-59\""));
    let quiet = about(&running, "s");
    (60..90).for_each(|number| running.accept(&at(number, 61 + number / 60)));
    let again = running.commands_until("", |all| all.len() > quiet.len());
    let later = &again[quiet.len()];
    assert!(later["issued_at"].as_str().unwrap() > "2026-01-05T10:00", "{later}");
    assert_ne!(&later["episode"], episode, "it begins anew: {later}");
}
