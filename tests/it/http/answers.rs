//! A person answers a command: a label, or a loop that is let be. Once, over a kill, and in a replay.

use std::process::Command;

use serde_json::{Value, json};

use crate::http::{Running, Scratch, failed_call};

/// Sends equal failures, and waits until they are judged.
pub(super) fn fail(running: &Running, session: &str, numbers: std::ops::Range<usize>) {
    let last = numbers.end - 1;
    numbers.for_each(|number| running.accept(&failed_call(session, number)));
    let id = format!("{session}-{last}");
    running.json_until(&format!("/sessions/{session}"), |found| found.to_string().contains(&format!("\"{id}\"")));
}

pub(super) fn about(running: &Running, session: &str) -> Vec<Value> {
    let (all, _) = running.commands("after=0&wait=0s");
    all.into_iter().filter(|command| command["session_id"] == session).collect()
}

/// A policy without rates. Calls of a test come as fast as they can be sent: a rate is another finding, and an answer to it another answer.
pub(super) fn slow(scratch: &Scratch) -> std::path::PathBuf {
    let file = scratch.0.join("slow.toml");
    std::fs::write(&file, "profile = \"slow\"\nbase = \"default\"\n[detectors.call_rate]\nmode = \"off\"\n").unwrap();
    file
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
    let file = slow(&scratch);
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

/// Sends equal failures until their session is blocked, and returns its block.
fn block(running: &Running, session: &str) -> Value {
    (0..40).for_each(|number| running.accept(&failed_call(session, number)));
    let is_block = |one: &Value| one["session_id"] == session && one["action"] == "block";
    running.commands_until("", |all| all.iter().any(is_block));
    fail(running, session, 40..41);
    about(running, session).into_iter().find(is_block).unwrap()
}

fn post(running: &Running, body: &Value) -> crate::http::client::Answer {
    running.client.post("/v1/answers", "application/json", body.to_string().as_bytes())
}

#[test]
fn a_command_is_answered_by_its_id_and_a_loop_by_its_names() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &["mode=live", &format!("policy={}", slow(&scratch).display())]);
    let first = block(&running, "a");
    for (kind, more) in [("right", json!({})), ("allow", json!({ "for": "session" }))] {
        let mut body = json!({ "command_id": first["id"], "answer": kind, "reason": "it waits for a build" });
        more.as_object().unwrap().iter().for_each(|(name, value)| body[name] = value.clone());
        let (answer, again) = (post(&running, &body), post(&running, &body));
        let (answered, again) = (answer.json(), again.json());
        assert_eq!((answer.status, &answered["judged"], &answered["id"]), (202, &json!(true), &again["id"]), "{answered}");
        assert_eq!((&answered["session_id"], &answered["episode"]), (&first["session_id"], &first["episode"]));
        assert_eq!(answered["until"].is_null(), kind == "right", "{answered}");
    }
    running.commands_until("session_id=a", |all| all.iter().any(|one| one["action"] == "unblock"));
    let told = about(&running, "a").len();
    fail(&running, "a", 41..80);
    assert_eq!(about(&running, "a").len(), told);

    let second = block(&running, "b");
    let by_names = json!({ "session_id": "b", "agent_id": second["scope"]["agent_id"], "episode": second["episode"], "answer": "false_alarm" });
    assert_eq!(post(&running, &by_names).status, 202);
    running.commands_until("session_id=b", |all| all.iter().any(|one| one["action"] == "unblock"));

    let third = block(&running, "c");
    let stop = json!({ "command_id": third["id"], "answer": "stop", "for": "2h", "reason": "deletes files" });
    assert_eq!(post(&running, &stop).status, 202);
    let stops = running.client.get("/v1/stops").json()["stops"].clone();
    assert_eq!((&stops[0]["session_id"], &stops[0]["reason"]), (&json!("c"), &json!("deletes files")), "{stops}");

    let events = running.client.whole("/v1/events", None).text;
    let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let acts: Vec<Value> = events.filter(|event| event["kind"] == "answer" || event["kind"] == "stop").collect();
    let schema = include_str!("../../../config/schemas/tool-event.v1.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    assert_eq!(acts.len(), 6);
    for act in &acts {
        let problems: Vec<String> = schema.iter_errors(act).map(|error| format!("{error} in {act}")).collect();
        assert_eq!(problems, Vec::<String>::new());
        assert!(act["labels"]["actor"].as_str().is_some_and(|actor| !actor.is_empty()), "{act}");
    }
    assert_eq!(acts[0]["reason"], "it waits for a build");
}

/// Whether a call of a session that no detector minds is refused.
fn is_stopped(running: &Running, session: &str, number: usize) -> bool {
    let event = json!({ "id": format!("{session}-look-{number}"), "kind": "tool_call", "session_id": session, "tool": "Look" });
    let check = json!({ "event": event, "record": false }).to_string();
    let answer = running.client.post("/v1/check", "application/json", check.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()["reason"]["code"] == "stop"
}

#[test]
fn an_answer_that_is_given_again_after_its_end_or_its_release_is_a_new_one_and_says_what_binds() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &["mode=live", &format!("policy={}", slow(&scratch).display())]);
    let command = block(&running, "s");
    let give = |command: &Value, kind: &str, span: &str| -> Value {
        let given = post(&running, &json!({ "command_id": command["id"], "answer": kind, "for": span }));
        assert_eq!(given.status, 202, "{}", given.text);
        given.json()
    };
    let released = || {
        let answer = running.client.send("DELETE", "/v1/stops?scope=session&session_id=s", &[], b"");
        assert_eq!(answer.json()["released"], true, "{}", answer.text);
    };
    let first = give(&command, "stop", "2h");
    assert_eq!((&first["judged"], is_stopped(&running, "s", 0)), (&json!(true), true), "{first}");
    let again = give(&command, "stop", "2h");
    assert_eq!((&again["id"], &again["until"], &again["judged"]), (&first["id"], &first["until"], &json!(true)));
    released();
    assert!(!is_stopped(&running, "s", 1));
    let anew = give(&command, "stop", "2h");
    assert_eq!((&anew["judged"], is_stopped(&running, "s", 2)), (&json!(true), true), "{anew}");
    assert_ne!(anew["id"], first["id"]);
    released();
    // One that ends by itself.
    for round in 0..2 {
        let short = give(&command, "stop", "1s");
        assert_eq!(short["judged"], true, "{round}: {short}");
        let deadline = loopwarden::clock::Deadline::after(crate::http::client::PATIENCE);
        while is_stopped(&running, "s", 3) {
            assert!(!deadline.is_over());
        }
    }

    let allowed = give(&command, "allow", "1s");
    assert_eq!(allowed["judged"], true, "{allowed}");
    let deadline = loopwarden::clock::Deadline::after(crate::http::client::PATIENCE);
    let is_new = |one: &Value| one["reason"]["code"] == command["reason"]["code"] && one["episode"] != command["episode"];
    let mut number = 41;
    let newer = loop {
        assert!(!deadline.is_over(), "it is judged again after its end");
        fail(&running, "s", number..number + 1);
        number += 1;
        if let Some(newer) = about(&running, "s").into_iter().find(is_new) {
            break newer;
        }
    };
    let late = post(&running, &json!({ "command_id": command["id"], "answer": "allow", "for": "1h" }));
    assert_eq!(
        (late.status, &late.json()["error"]),
        (409, &json!("no_open_loop")),
        "what goes on is another episode: {}",
        late.text
    );
    assert_eq!(give(&newer, "allow", "1h")["judged"], true);
    assert_eq!(give(&newer, "allow", "1h")["judged"], true, "once more, while it holds");
}

#[test]
fn what_is_no_answer_is_refused_with_what_would_do_and_changes_nothing() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &["mode=live"]);
    let command = block(&running, "s");
    let sound = json!({ "command_id": command["id"], "answer": "allow", "for": "1h", "reason": "r" });
    for (field, value, status) in [
        ("command_id", json!("0".repeat(26)), 404),
        ("command_id", json!("0".repeat(25)), 400),
        ("command_id", json!("../../../../../../../etc/1"), 400),
        ("command_id", Value::Null, 400),
        ("command_id", json!(7), 400),
        ("session_id", json!("s"), 400),
        ("answer", json!("perhaps"), 400),
        ("answer", json!("right"), 400),
        ("for", Value::Null, 400),
        ("for", json!("8d"), 400),
        ("for", json!("soon"), 400),
        ("reason", json!("two\nlines"), 400),
        ("reason", json!(" "), 400),
        ("reason", json!("x".repeat(257)), 400),
        ("id", json!(""), 400),
        ("actor", json!("somebody else"), 400),
    ] {
        let mut body = sound.clone();
        body[field] = value.clone();
        assert_eq!(post(&running, &body).status, status, "{field} {value}");
    }
    for wrong in [
        json!({ "session_id": "s", "answer": "right" }),
        json!({ "episode": command["episode"], "answer": "right" }),
        json!({ "session_id": "s\u{1f}", "episode": command["episode"], "answer": "right" }),
    ] {
        assert_eq!(post(&running, &wrong).status, 400, "{wrong}");
    }
    assert_eq!(running.client.post("/v1/answers", "application/json", b"[").status, 400);
    assert_eq!(running.client.post("/v1/answers", "application/json", &[b' '; 20_000]).status, 413);
    let gone = post(&running, &json!({ "command_id": "0".repeat(26), "answer": "right" }));
    assert_eq!(gone.json()["error"], "no_such_command");
    assert!(gone.text.contains("session_id and episode"), "{}", gone.text);
    // An act of an operator is no loop.
    let stop = json!({ "scope": "session", "session_id": "other", "reason": "r", "for": "5m" });
    assert_eq!(running.client.post("/v1/stops", "application/json", stop.to_string().as_bytes()).status, 202);
    let told = running.commands_until("session_id=other", |all| !all.is_empty());
    let answer = post(&running, &json!({ "command_id": told[0]["id"], "answer": "false_alarm" }));
    assert_eq!((answer.status, &answer.json()["error"]), (409, &json!("no_loop_of_session")), "{}", answer.text);
    let events = running.client.whole("/v1/events", None).text;
    assert!(!events.contains("\"kind\":\"answer\""), "{events}");
    assert_eq!(about(&running, "s").iter().filter(|one| one["action"] == "unblock").count(), 0);
    // In shadow an answer is a label all the same, and a stop binds nobody.
    let shadow = Scratch::new();
    let shadow = Running::start(&shadow.0, &[]);
    let command = block(&shadow, "s");
    let named = |answer: &str| json!({ "session_id": "s", "episode": command["episode"], "answer": answer });
    let mut stop = named("stop");
    stop["for"] = "1h".into();
    assert_eq!((post(&shadow, &named("right")).status, post(&shadow, &stop).status), (202, 409));
}
