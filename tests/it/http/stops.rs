//! Operators stop agents and let them go on: over HTTP and from the command line, in a process with a log of its own.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::http::{Running, Scratch, failed_call};

/// One call of an agent, before it runs.
fn check(running: &Running, event: &Value) -> Value {
    let client = json!({ "name": "test", "can": ["deny", "stop"] });
    let check = json!({ "v": 1, "event": event, "client": client, "deadline_ms": 10_000 });
    let answer = running.client.post("/v1/check", "application/json", check.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()
}

fn call(session: &str, number: usize, more: Value) -> Value {
    let mut event = json!({
        "id": format!("{session}-call-{number}"), "kind": "tool_call", "session_id": session, "tool": "Read",
        "call_id": format!("c{number}"), "args": { "path": format!("f{number}") },
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        event[name] = value.clone();
    }
    event
}

fn post(running: &Running, body: &Value) -> Value {
    let answer = running.client.post("/v1/stops", "application/json", body.to_string().as_bytes());
    assert!([200, 202].contains(&answer.status), "{body}: {}", answer.text);
    answer.json()
}

fn release(running: &Running, query: &str) {
    let answer = running.client.send("DELETE", &format!("/v1/stops?{query}"), &[], b"");
    assert_eq!((answer.status, &answer.json()["released"]), (202, &json!(true)), "{}", answer.text);
}

fn stops(running: &Running) -> Vec<Value> {
    running.client.get("/v1/stops").json()["stops"].as_array().unwrap().clone()
}

fn is_act(command: &Value) -> bool {
    ["stop", "release"].iter().any(|code| command["reason"]["code"] == *code)
}

/// Commands of operators so far, as soon as there are so many: a guard may know one before readers see it.
fn acts(running: &Running, least: usize) -> Vec<Value> {
    running.commands_until("", |all| all.iter().filter(|command| is_act(command)).count() >= least);
    let (all, _) = running.commands("after=0&wait=0s");
    all.into_iter().filter(is_act).collect()
}

fn cli(arguments: &[&str], address: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loopwarden"));
    command.args(arguments).args(["--address", address]).output().unwrap()
}

#[test]
fn each_scope_stops_those_it_names_and_a_release_lets_exactly_them_go_on() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &["mode=live"]);
    let of = |more: Value| -> [Value; 5] {
        [
            call("s", 1, more.clone()),
            call("t", 1, json!({ "agent": { "id": "fixer" } })),
            call("u", 1, json!({ "swarm_id": "w" })),
            call("v", 1, json!({ "tenant": "acme" })),
            call("x", 1, json!({ "agent": { "id": "child", "root_id": "boss" } })),
        ]
    };
    let decided = |id: usize| -> Vec<bool> {
        of(json!({}))
            .into_iter()
            .map(|mut event| {
                event["id"] = format!("{}-{id}", event["session_id"]).into();
                check(&running, &event)["decision"] == "deny"
            })
            .collect()
    };
    let mut round = 0;
    for (body, query, expected) in [
        (json!({ "scope": "session", "session_id": "s" }), "scope=session&session_id=s", [true, false, false, false, false]),
        (json!({ "scope": "agent", "agent_id": "fixer" }), "scope=agent&agent_id=fixer", [false, true, false, false, false]),
        (json!({ "scope": "swarm", "swarm_id": "w" }), "scope=swarm&swarm_id=w", [false, false, true, false, false]),
        (json!({ "scope": "tree", "root_id": "boss" }), "scope=tree&root_id=boss", [false, false, false, false, true]),
        (json!({ "scope": "tenant", "tenant": "acme" }), "scope=tenant&tenant=acme", [false, false, false, true, false]),
        (
            json!({ "scope": "session", "session_id": "v", "tenant": "acme" }),
            "scope=session&session_id=v&tenant=acme",
            [false, false, false, true, false],
        ),
        (json!({ "scope": "session", "session_id": "v" }), "scope=session&session_id=v", [false; 5]),
        (json!({ "scope": "all" }), "scope=all", [true; 5]),
    ] {
        let mut body = body;
        body["reason"] = "runaway".into();
        body["for"] = "30m".into();
        let told = post(&running, &body);
        assert_eq!(told["in_force"], true, "{told}");
        assert_eq!(decided(round), expected, "{body}");
        let [stop] = <[Value; 1]>::try_from(stops(&running)).unwrap();
        let row = running.client.get("/overview").json()["active"][0].clone();
        let of_rows = jsonschema::validator_for(
            &serde_json::from_str(include_str!("../../../config/schemas/session-state.v1.schema.json")).unwrap(),
        );
        let problems: Vec<String> = of_rows.unwrap().iter_errors(&row).map(|error| format!("{error} in {row}")).collect();
        assert_eq!((problems, &row["subject"]["by"]), (Vec::<String>::new(), &json!("stop")));
        assert_eq!(
            (&stop["scope"], &stop["reason"], &stop["until"]),
            (&body["scope"], &json!("runaway"), &told["until"]),
            "{stop}"
        );
        assert!(stop["actor"].as_str().is_some_and(|actor| !actor.is_empty()), "{stop}");
        release(&running, query);
        assert_eq!(decided(round + 1), [false; 5], "{body}");
        assert!(stops(&running).is_empty());
        round += 2;
    }
    let told = acts(&running, 16);
    let read = |path: &str| std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let schema = |name: &str| -> jsonschema::Validator {
        jsonschema::validator_for(&serde_json::from_str(&read(&format!("config/schemas/{name}.v1.schema.json"))).unwrap())
            .unwrap()
    };
    let problems = |schema: &jsonschema::Validator, value: &Value| -> Vec<String> {
        schema.iter_errors(value).map(|error| format!("{error} in {value}")).collect()
    };
    let (of_commands, of_events) = (schema("command"), schema("tool-event"));
    assert_eq!(told.iter().flat_map(|command| problems(&of_commands, command)).collect::<Vec<_>>(), Vec::<String>::new());
    let events = running.client.whole("/v1/events", None).text;
    let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    assert_eq!(events.flat_map(|event| problems(&of_events, &event)).collect::<Vec<_>>(), Vec::<String>::new());
    assert_eq!(told.len(), 16, "one for each act: {told:?}");
    assert!(
        told.chunks(2).all(|pair| pair[0]["action"] == "block"
            && pair[1]["action"] == "unblock"
            && pair[0]["episode"] == pair[1]["episode"])
    );
}

#[test]
fn a_release_restores_the_block_of_a_detector_and_its_unblock_lifts_no_stop() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &["mode=live"]);
    (1..=10).for_each(|number| running.accept(&failed_call("a", number)));
    running.commands_until("session_id=a", |commands| commands.iter().any(|command| command["action"] == "block"));
    let looping = |id: &str| {
        let mut event = failed_call("a", 99);
        event["kind"] = "tool_call".into();
        event["id"] = id.into();
        let answer = check(&running, &event);
        (answer["decision"].clone(), answer["reason"]["code"].clone())
    };
    let denied = |code: &str| (json!("deny"), json!(code));
    let before = looping("before");
    assert_eq!(before.0, "deny");
    let rows = || running.client.get("/v1/state/a").json()["active"].clone();
    let placed = rows();
    let body = json!({ "scope": "session", "session_id": "a", "reason": "deletes files", "for": "1h" });
    post(&running, &body);
    assert_eq!(looping("stopped"), denied("stop"), "the stop is what is said");
    let refused = check(&running, &call("a", 7, json!({})));
    assert_eq!(
        (&refused["decision"], &refused["stop"], &refused["level"]),
        (&json!("deny"), &json!(true), &json!(4)),
        "{refused}"
    );
    assert!(refused["message"].as_str().unwrap().contains("deletes files"), "{refused}");
    release(&running, "scope=session&session_id=a");
    assert_eq!(looping("released"), before, "the block beneath is there as before");
    assert_eq!(rows()[0]["active"][0], placed[0]["active"][0]);
    assert_eq!(check(&running, &call("a", 8, json!({})))["decision"], "allow");
    post(&running, &body);
    running.accept(&json!({ "id": "r", "kind": "reset", "session_id": "a" }));
    running.commands_until("session_id=a", |commands| commands.iter().any(|command| command["reason"]["code"] == "reset"));
    assert_eq!(looping("reset"), denied("stop"));
    release(&running, "scope=session&session_id=a");
    assert_eq!(looping("free").0, "allow");
}

#[test]
fn the_same_stop_says_nothing_new_another_end_extends_it_and_it_ends_by_itself() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &["mode=live"]);
    let until = |span: &str, id: &str| json!({ "scope": "session", "session_id": "s", "reason": "r", "until": span, "id": id });
    let day = |days: i64| {
        loopwarden::event::EventTime(loopwarden::clock::now_ms() / 1_000 * 1_000).plus_ms(days * 86_400_000).to_rfc3339()
    };
    let (near, far) = (day(1), day(2));
    post(&running, &until(&near, "1"));
    post(&running, &until(&near, "2"));
    assert_eq!(acts(&running, 1).len(), 1, "the same content");
    post(&running, &until(&far, "3"));
    let again = |body: &Value| {
        let answer = running.client.post("/v1/stops", "application/json", body.to_string().as_bytes());
        (answer.status, answer.json()["error"].clone())
    };
    assert_eq!(again(&until(&near, "1")), (409, json!("not_in_force")), "another end holds");
    let told = acts(&running, 2);
    assert_eq!(told.len(), 2, "one that comes again changes nothing: {told:?}");
    assert_eq!((&told[0]["episode"], &told[1]["expires_at"]), (&told[1]["episode"], &json!(far)));
    release(&running, "scope=session&session_id=s&id=r1");
    let nothing = running.client.send("DELETE", "/v1/stops?scope=session&session_id=s&id=r2", &[], b"");
    assert_eq!((nothing.status, &nothing.json()["error"]), (409, &json!("nothing_to_release")));
    assert_eq!(again(&until(&far, "3")), (409, json!("not_in_force")));
    assert_eq!(
        (acts(&running, 3).len(), stops(&running).len()),
        (3, 0),
        "a redelivered stop does not come back after its release"
    );
    // The end of the shortest one is a second away: the guard looks at its own clock.
    post(&running, &json!({ "scope": "session", "session_id": "s", "reason": "r", "for": "1s" }));
    let deadline = loopwarden::clock::Deadline::after(crate::http::client::PATIENCE);
    let mut number = 100;
    while check(&running, &call("s", number, json!({})))["decision"] == "deny" {
        assert!(!deadline.is_over());
        number += 1;
    }
    assert!(stops(&running).is_empty());
}

#[test]
fn stops_outlive_a_kill_and_a_replay_says_the_same() {
    let scratch = Scratch::new();
    let mut running = Running::start(&scratch.0, &["mode=live"]);
    let mut is_stopped = false;
    for round in 0..8 {
        (0..3).for_each(|number| running.accept(&failed_call("s", 10 * round + number)));
        let id = format!("act-{round}");
        if is_stopped {
            let answer = running.client.send("DELETE", &format!("/v1/stops?scope=session&session_id=s&id={id}"), &[], b"");
            assert_eq!(answer.status, 202, "{}", answer.text);
        } else {
            post(&running, &json!({ "scope": "session", "session_id": "s", "reason": "r", "for": "2h", "id": id }));
        }
        is_stopped = !is_stopped;
        running.kill();
        running = Running::start(&scratch.0, &["mode=live"]);
        running.json_until("/v1/stops", |found| {
            found["stops"].as_array().is_some_and(|found| found.len() == usize::from(is_stopped))
        });
        let answer = check(&running, &call("s", round, json!({})));
        assert_eq!(answer["decision"] == "deny" && answer["reason"]["code"] == "stop", is_stopped, "{round}: {answer}");
    }
    let told = acts(&running, 8);
    assert_eq!(told.len(), 8, "each act once: {told:?}");
    let actions: Vec<&str> = told.iter().map(|command| command["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["block", "unblock"].repeat(4));
    let ids: BTreeSet<String> = told.iter().map(|command| command["id"].to_string()).collect();
    let events = running.client.whole("/v1/events", None);
    let file = scratch.0.join("events.ndjson");
    std::fs::write(&file, &events.text).unwrap();
    let mut replay = Command::new(env!("CARGO_BIN_EXE_loopwarden"));
    let output = replay.args(["replay", "--output", "ndjson"]).arg(&file).output().unwrap();
    let replayed = String::from_utf8(output.stdout).unwrap();
    let replayed = replayed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let replayed: Vec<Value> = replayed.filter(is_act).collect();
    assert_eq!(replayed.iter().map(|command| command["id"].to_string()).collect::<BTreeSet<_>>(), ids);
    for (live, again) in told.iter().zip(&replayed) {
        let mut again = again.clone();
        again["mode"] = "live".into();
        again["trigger"]["topic"] = live["trigger"]["topic"].clone();
        assert_eq!(*live, again);
    }
}

#[test]
fn an_operator_stops_and_releases_from_the_command_line_and_sees_whom_first() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &["mode=live"]);
    for session in ["a", "b", "c"] {
        let mut event = failed_call(session, 1);
        event["tenant"] = if session == "c" { "other" } else { "acme" }.into();
        running.accept(&event);
        running.json_until(&format!("/sessions/{session}?tenant={}", event["tenant"].as_str().unwrap()), |found| {
            found["agents"].is_array()
        });
    }
    let address = running.client.address.clone();
    let ask = |arguments: &[&str]| {
        let output = cli(arguments, &address);
        let told = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (output.status.code(), told)
    };
    let (code, told) = ask(&["stop", "--tenant", "acme", "--dry-run"]);
    assert_eq!((code, told.trim()), (Some(0), "tenant acme would be stopped: 2 agents that this process knows"));
    let (code, told) = ask(&["stop", "--session", "a", "--tenant", "acme", "--dry-run"]);
    assert_eq!((code, told.contains("1 agent that")), (Some(0), true), "{told}");
    let (code, told) = ask(&["stop", "--all", "--reason", "r", "--for", "5m"]);
    assert_eq!((code, told.contains("3 agents") && told.contains("--yes")), (Some(3), true), "{told}");
    assert!(stops(&running).is_empty(), "a dry run and a question stop nobody");
    let (code, told) = ask(&["stop", "--tenant", "acme", "--reason", "fan-out", "--for", "5m", "--fail-closed"]);
    assert_eq!((code, told.contains("in force")), (Some(0), true), "{told}");
    let refused = check(&running, &call("a", 1, json!({ "tenant": "acme" })));
    assert_eq!((&refused["decision"], &refused["fail"]), (&json!("deny"), &json!("closed")), "{refused}");
    // Small programs beside an agent read how long they are to refuse where nobody answers any more.
    let body = |session: &str| json!({ "session_id": session, "hook_event_name": "PreToolUse", "tool_name": "Read", "tool_use_id": "t" });
    let held = |session: &str| {
        let path = "/v1/hooks/claude-code";
        let answer = running.client.post(path, "application/json", body(session).to_string().as_bytes());
        answer.header("loopwarden-refuse-for-ms").map(str::to_owned)
    };
    assert_eq!(held("of-no-tenant"), None);
    let (code, told) = ask(&["stop", "--session", "of-no-tenant", "--reason", "r", "--for", "5m", "--fail-closed"]);
    assert_eq!(code, Some(0), "{told}");
    let left_ms: u64 = held("of-no-tenant").unwrap().parse().unwrap();
    assert!((1..=300_000).contains(&left_ms), "{left_ms}");
    assert_eq!(acts(&running, 2).len(), 2);
    let (code, told) = ask(&["tail", "--since", "earliest", "--once", "--acts"]);
    assert_eq!((code, told.lines().count(), told.matches(" by ").count() >= 2), (Some(0), 2, true), "{told}");
    assert_eq!(check(&running, &call("c", 1, json!({ "tenant": "other" })))["decision"], "allow");
    let (code, told) = ask(&["release", "--tenant", "acme", "--reason", "fixed"]);
    assert_eq!((code, told.contains("done")), (Some(0), true), "{told}");
    assert_eq!(check(&running, &call("a", 2, json!({ "tenant": "acme" })))["decision"], "allow");
    let told = acts(&running, 3);
    assert_eq!(told[2]["reason"]["evidence"]["reason"], "fixed", "{told:?}");
    for wrong in [
        &["stop", "--reason", "r", "--for", "5m"][..],
        &["stop", "--session", "a", "--all", "--reason", "r", "--for", "5m"],
        &["stop", "--session", "a", "--for", "5m"],
        &["stop", "--session", "a", "--reason", "r"],
        &["stop", "--session", "a", "--reason", "r", "--for", "8d"],
        &["release"],
    ] {
        assert_eq!(ask(wrong).0, Some(2), "{wrong:?}");
    }
}

#[test]
fn what_is_no_stop_is_refused_with_what_would_do_and_stops_nobody() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &["mode=live"]);
    let sound = json!({ "scope": "session", "session_id": "s", "reason": "r", "for": "5m" });
    for (field, value) in [
        ("scope", json!("galaxy")),
        ("scope", json!("swarm")),
        ("scope", json!("all")),
        ("session_id", Value::Null),
        ("session_id", json!("a\u{1f}b")),
        ("session_id", json!("x".repeat(257))),
        ("tenant", json!("\u{1}")),
        ("reason", Value::Null),
        ("reason", json!(" ")),
        ("reason", json!("two\nlines")),
        ("reason", json!("x".repeat(257))),
        ("for", json!("8d")),
        ("for", json!("-5m")),
        ("for", Value::Null),
        ("until", json!("2099-01-01T00:00:00Z")),
        ("fail", json!("never")),
        ("id", json!("")),
        ("actor", json!("somebody else")),
    ] {
        let mut body = sound.clone();
        body[field] = value.clone();
        let answer = running.client.post("/v1/stops", "application/json", body.to_string().as_bytes());
        assert_eq!(answer.status, 400, "{field} {value}: {}", answer.text);
    }
    assert_eq!(running.client.post("/v1/stops", "application/json", b"[").status, 400);
    assert_eq!(running.client.post("/v1/stops", "application/json", &[b' '; 20_000]).status, 413);
    for query in ["", "scope=session", "scope=session&session_id=s&agent_id=a", "scope=all&tenant=a", "scope=all&x=1"] {
        assert_eq!(running.client.send("DELETE", &format!("/v1/stops?{query}"), &[], b"").status, 400, "{query}");
    }
    let event =
        json!({ "id": "1", "kind": "stop", "scope": "all", "tenant": "t", "reason": "r", "until": "2000-01-01T00:00:00Z" });
    let answer = running.client.post("/v1/events", "application/json", event.to_string().as_bytes());
    assert_eq!((answer.status, &answer.json()["rejected"][0]["field"]), (422, &json!("/tenant")), "{}", answer.text);
    // An agent asks here; it is no way for acts.
    let stop = json!({ "id": "1", "kind": "stop", "scope": "all", "reason": "r", "until": "2000-01-01T00:00:00Z" });
    let asked = json!({ "v": 1, "event": stop, "client": { "name": "t", "can": [] } });
    assert_eq!(running.client.post("/v1/check", "application/json", asked.to_string().as_bytes()).status, 403);
    assert!(stops(&running).is_empty() && acts(&running, 0).is_empty());
    let shadow = Scratch::new();
    let shadow = Running::start(&shadow.0, &[]);
    let answer = shadow.client.post("/v1/stops", "application/json", sound.to_string().as_bytes());
    assert_eq!((answer.status, &answer.json()["error"]), (409, &json!("shadow")));
}

#[test]
fn a_group_that_has_used_up_its_budget_is_refused_after_a_kill_too_and_who_is_full_stops_nobody_else() {
    let scratch = Scratch::new();
    let file = scratch.0.with_extension("toml");
    let policy =
        "profile = \"few\"\nbase = \"default\"\n[[budget]]\nname = \"b\"\nscope = \"tenant\"\nmode = \"block\"\ncalls = 3\n";
    std::fs::write(&file, policy).unwrap();
    let start = || Running::start(&scratch.0, &["mode=live", &format!("policy={}", file.display())]);
    let running = start();
    for number in 0..4 {
        running.accept(&failed_call(&format!("s{number}"), number));
    }
    running.commands_until("", |all| all.iter().any(|one| one["action"] == "block"));
    let refused = |running: &Running, id: &str| check(running, &call(id, 1, json!({})));
    assert_eq!(refused(&running, "new")["decision"], "deny");
    running.kill();
    let running = start();
    let answer = refused(&running, "newer");
    assert_eq!((&answer["decision"], &answer["reason"]["code"]), (&json!("deny"), &json!("budget")), "{answer}");
    // A release of whom nobody has stopped takes no place, and says so.
    let nobody = running.client.send("DELETE", "/v1/stops?scope=session&session_id=nobody", &[], b"");
    assert_eq!((nobody.status, &nobody.json()["error"]), (409, &json!("nothing_to_release")));
    assert!(acts(&running, 0).is_empty());
    std::fs::remove_file(&file).unwrap();
}
