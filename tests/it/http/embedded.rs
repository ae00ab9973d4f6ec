//! Events in, commands out: as printed, durable, once, resumed.

use std::{collections::BTreeSet, process::Command};

use serde_json::Value;

use crate::http::{Running, Scratch, failed_call};

/// What a shell would make of the line that sends events: address, content type, one body per round.
fn rounds(line: &str) -> (String, String, Vec<String>) {
    let numbers = line.split("for n in ").nth(1).and_then(|rest| rest.split(';').next()).unwrap();
    let url = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
    let media = line.split("-H 'content-type: ").nth(1).and_then(|rest| rest.split('\'').next()).unwrap();
    let body = line.split(" -d '").nth(1).and_then(|rest| rest.strip_suffix("'; done")).unwrap();
    let bodies = numbers.split(' ').map(|number| body.replace("'$n'", number)).collect();
    (url.to_owned(), media.to_owned(), bodies)
}

#[test]
fn the_lines_of_the_greeting_work_as_printed() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &[]);
    let line = |start: &str| running.greeting.lines().map(str::trim).find(|line| line.starts_with(start)).unwrap().to_owned();
    let (url, media, bodies) = rounds(&line("for n in "));
    assert_eq!(url, format!("http://{}/v1/events", running.client.address()));
    assert_eq!(bodies.len(), 4);
    for body in bodies {
        let answer = running.client.post("/v1/events", &media, body.as_bytes());
        assert_eq!((answer.status, answer.text.trim()), (202, r#"{"accepted":1,"rejected":[]}"#), "{body}");
    }
    let wait = line("curl -sS 'http://").trim_start_matches("curl -sS '").trim_end_matches('\'').to_owned();
    let path = wait.strip_prefix(&format!("http://{}", running.client.address())).unwrap();
    let value = running.client.get(path).json();
    let command = &value["commands"][0];
    assert!(path.contains(command["session_id"].as_str().unwrap()), "{command}");
    assert_eq!(command["mode"], "shadow", "shadow is the default");
    let mut health = Command::new(env!("CARGO_BIN_EXE_loopwarden"));
    let health = health.args(["healthcheck", "--timeout-ms", "60000", "--address", running.client.address()]).status().unwrap();
    assert_eq!(health.code(), Some(0));
    assert_eq!(running.terminate(), Some(0));
}

#[test]
fn a_data_directory_is_no_input_of_a_replay_and_the_refusal_says_what_is() {
    let scratch = Scratch::new();
    assert_eq!(Running::start(&scratch.0, &[]).terminate(), Some(0));
    let output = Command::new(env!("CARGO_BIN_EXE_loopwarden")).arg("replay").arg(scratch.0.join("data")).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("E0302") && told.contains("/v1/events > events.ndjson"), "{told}");
}

#[test]
fn what_is_kept_comes_back_and_a_replay_of_it_says_what_the_live_run_said() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &[]);
    let sessions = ["a", "b", "c", "d"];
    for number in 1..=4 {
        // Over several lines, as an editor would send it.
        for session in sessions {
            let event = serde_json::to_string_pretty(&failed_call(session, number)).unwrap();
            let answer = running.client.post("/v1/events", "application/json", event.as_bytes());
            assert_eq!(answer.status, 202, "{}", answer.text);
        }
    }
    let ids = |commands: &[Value]| -> BTreeSet<String> { commands.iter().map(|command| command["id"].to_string()).collect() };
    sessions.iter().for_each(|session| running.until_said(session, 4));
    let (live, _) = running.commands("after=0&wait=0s");
    assert!(live.len() >= sessions.len(), "{live:?}");
    // The old version of the protocol knows no chunks.
    let get = |path: &str| running.client.raw(format!("GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n").as_bytes()).unwrap();
    let events = get("/v1/events");
    assert_eq!((events.status, events.header("content-type")), (200, Some("application/x-ndjson")));
    assert_eq!(events.text.lines().count(), 4 * sessions.len());
    let times: Vec<i64> = events
        .text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["_record"]["timestamp"].as_i64().unwrap())
        .collect();
    assert!(times.is_sorted(), "{times:?}");

    let file = scratch.0.join("events.ndjson");
    std::fs::write(&file, &events.text).unwrap();
    let mut replay = Command::new(env!("CARGO_BIN_EXE_loopwarden"));
    let output = replay.args(["replay", "--output", "ndjson"]).arg(&file).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let replayed: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(ids(&replayed), ids(&live), "{}", String::from_utf8_lossy(&output.stderr));

    let one = get("/v1/events?session_id=b").text;
    assert!(one.lines().count() == 4 && one.lines().all(|line| line.contains(r#""session_id": "b""#)), "{one}");
    assert_eq!(get("/v1/events?session_id=nobody").text, "");
    assert_eq!(running.client.get("/v1/events?sesion_id=b").status, 400);
    assert_eq!(running.terminate(), Some(0));
}

#[test]
fn a_batch_is_answered_line_by_line() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &[]);
    let lines = [
        failed_call("a", 1).to_string(),
        r#"{"id":"b","kind":"tool","session_id":"a"}"#.to_owned(),
        String::new(),
        "no json".to_owned(),
        failed_call("a", 2).to_string(),
    ];
    let expected =
        r#"{"accepted":2,"rejected":[{"field":"/tool","index":1,"reason":"missing_field"},{"index":2,"reason":"not_json"}]}"#;
    for media in ["application/x-ndjson", "application/json"] {
        let answer = running.client.post("/v1/events", media, lines.join("\r\n").as_bytes());
        assert_eq!((answer.status, answer.text.trim()), (202, expected), "{media}");
    }
    let marked = format!("\u{feff}{}", failed_call("a", 3));
    for media in ["application/x-ndjson", "application/json"] {
        let answer = running.client.post("/v1/events", media, marked.as_bytes());
        assert_eq!((answer.status, answer.json()["accepted"].as_u64()), (202, Some(1)), "{media}");
    }
    let word = r#"{"id":"c","kind":"tool","session_id":"a","tool":"t","outcome":"success"}"#;
    let refused = running.client.post("/v1/events", "application/json", word.as_bytes()).json();
    assert_eq!(refused["rejected"][0]["message"], "one of ok, error, denied, timeout, cancelled, unknown");
    let large = format!(r#"{{"id":"d","kind":"tool","session_id":"a","tool":"t","result":"{}"}}"#, "x".repeat(300_000));
    let refused = running.client.post("/v1/events", "application/json", large.as_bytes()).json();
    assert_eq!(refused["rejected"][0]["message"], "an event may have 262144 bytes (limits.record_bytes_max)");
    let nothing = running.client.post("/v1/events", "application/json", b"{\"id\":1}");
    assert_eq!((nothing.status, nothing.json()["accepted"].as_u64()), (422, Some(0)));
}

#[test]
fn what_was_accepted_survives_a_kill_and_is_answered_once() {
    let scratch = Scratch::new();
    let live = &["mode=live"];
    let mut running = Running::start(&scratch.0, live);
    for number in 1..=6 {
        running.accept(&failed_call("s", number));
        // Killed right behind the answer: nothing may be left in memory only.
        running.kill();
        running = Running::start(&scratch.0, live);
    }
    running.until_said("s", 6);
    let (commands, next) = running.commands("wait=0&session_id=s");
    assert!(!commands.is_empty());
    // A producer that never saw its answers sends everything again.
    for number in 1..=6 {
        running.accept(&failed_call("s", number));
    }
    // Behind the redelivered ones in the same partition: once it is answered, they are done.
    for number in 1..=6 {
        let mut other = failed_call("s", number);
        other["agent"] = serde_json::json!({ "id": "other" });
        other["id"] = format!("other-{number}").into();
        running.accept(&other);
    }
    let of_other = |commands: &[Value]| commands.iter().any(|command| command["scope"]["agent_id"] == "other");
    let (mut all, mut at) = (commands.clone(), next);
    while !of_other(&all) {
        let (more, next) = running.commands(&format!("wait=30s&session_id=s&after={at}"));
        assert!(!more.is_empty(), "the other agent was never answered");
        all.extend(more);
        at = next;
    }
    running.kill();
    let running = Running::start(&scratch.0, live);
    let (again, _) = running.commands("wait=0&session_id=s");
    let ids = |commands: &[Value]| -> Vec<String> {
        commands.iter().map(|command| command["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&again)[..all.len()], ids(&all), "positions or commands changed over a kill");
    let distinct: BTreeSet<String> = ids(&again).into_iter().collect();
    assert_eq!(distinct.len(), again.len(), "a command twice");
    let of_main = |commands: &[Value]| commands.iter().filter(|command| command["scope"]["agent_id"] == "main").count();
    assert_eq!(of_main(&again), of_main(&commands), "redelivered events were answered again");
}

#[test]
fn a_stream_goes_on_behind_the_last_id_and_ends_with_the_process() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &["mode=live"]);
    let mut first = running.client.follow("", None);
    for session in ["a", "b", "c"] {
        (1..=4).for_each(|number| running.accept(&failed_call(session, number)));
    }
    let seen: Vec<(String, Value)> = (0..3).map(|_| first.command().unwrap()).collect();
    drop(first);
    let positions: Vec<u64> = seen.iter().map(|(id, _)| id.parse().unwrap()).collect();
    assert!(positions.windows(2).all(|pair| pair[0] < pair[1]), "{positions:?}");
    // The header of a client that comes again counts, not its old address.
    let mut second = running.client.follow("after=0", Some(&seen[0].0));
    assert_eq!(second.command().unwrap(), seen[1]);
    assert_eq!(second.command().unwrap(), seen[2]);
    let only = seen[2].1["session_id"].as_str().unwrap();
    let mut filtered = running.client.follow(&format!("session_id={only}"), None);
    assert_eq!(filtered.command().unwrap().1["session_id"], only);
    let beyond = running.client.get("/v1/commands?after=1000000");
    assert_eq!(beyond.status, 410, "{}", beyond.text);
    assert_eq!(running.terminate(), Some(0));
    while second.line().is_some() {}
}

#[test]
fn a_long_poll_waits_for_what_comes_and_goes_on_from_there() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &["mode=live"]);
    let (none, start) = running.commands("wait=0");
    assert_eq!((none.len(), start.as_str()), (0, "0"));
    let readers_in = |metrics: &str| -> f64 {
        let line = metrics.lines().find_map(|line| line.strip_prefix("loopwarden_log_readers{} "));
        line.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("no such metric: {metrics}"))
    };
    let readers = || readers_in(&running.client.get("/metrics").text);
    let waiting = |session: &'static str| {
        let (client, before) = (running.client.clone(), readers());
        let asked = std::thread::spawn(move || client.get(&format!("/v1/commands?wait=60s&session_id={session}")).json());
        // It waits before there is anything: what comes must wake it.
        running.until("/metrics", |answer| readers_in(&answer.text) > before);
        asked
    };
    let (woken, silent) = (waiting("a"), waiting("nobody"));
    (1..=4).for_each(|number| running.accept(&failed_call("a", number)));
    let value = woken.join().unwrap();
    let first = &value["commands"][0];
    assert_eq!(first["session_id"], "a", "it was not woken: {value}");
    let next = value["next"].as_str().unwrap().to_owned();
    let (commands, _) = running.commands("wait=30s");
    assert_eq!(first, &commands[0]);
    // Behind `next` is what was not in the answer, each once.
    let told = value["commands"].as_array().unwrap().len();
    (5..=20).for_each(|number| running.accept(&failed_call("a", number)));
    running.until_said("a", 20);
    let (rest, after) = running.commands(&format!("wait=0&after={next}"));
    let (all, end) = running.commands("wait=0");
    assert!(all.len() > told, "nothing came behind the first answer: {all:?}");
    assert_eq!(rest, all[told..]);
    assert_eq!(after, end);
    assert!(!silent.is_finished(), "woken for the command of another session");
    assert_eq!(running.terminate(), Some(0));
    // The end of the process wakes it too, with nothing.
    assert_eq!(silent.join().unwrap()["commands"], serde_json::json!([]));
}

#[test]
fn an_answer_that_leaves_rows_out_says_so() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &["mode=live"]);
    let of_agent = |agent: usize, number: usize| {
        let mut call = failed_call("crowd", number);
        call["id"] = format!("{agent}-{number}").into();
        call["agent"] = serde_json::json!({ "id": format!("agent-{agent}") });
        call
    };
    let say = |agents: std::ops::Range<usize>| {
        let lines: Vec<String> = agents
            .flat_map(|agent| (1..=4).map(move |number| (agent, number)))
            .map(|(agent, number)| of_agent(agent, number).to_string())
            .collect();
        let answer = running.client.post("/v1/events", "application/x-ndjson", lines.join("\n").as_bytes());
        assert_eq!((answer.status, answer.json()["accepted"].as_u64()), (202, Some(lines.len() as u64)), "{}", answer.text);
    };
    let has = |rows: usize| move |state: &Value| state["active"].as_array().is_some_and(|active| active.len() == rows);
    say(0..256);
    let state = running.json_until("/v1/state/crowd", has(256));
    assert_eq!(state["more"], false);
    assert_eq!(running.client.get("/overview").json()["active_more"], false);
    say(256..257);
    let state = running.json_until("/v1/state/crowd", |state| state["more"] == true);
    assert!(has(256)(&state), "{state}");
    assert_eq!(running.client.get("/overview").json()["active_more"], true);
}

#[test]
fn what_is_in_force_and_what_an_agent_did_can_be_asked() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &["mode=live"]);
    (1..=4).for_each(|number| running.accept(&failed_call("a/b", number)));
    running.until_said("a%2Fb", 4);
    let state = running.client.get("/v1/state/a%2Fb").json();
    let (commands, _) = running.commands("wait=0&session_id=a/b");
    let active = &state["active"][0];
    assert_eq!(active["subject"]["session_id"], "a/b", "{state}");
    for verdict in active["active"].as_array().unwrap() {
        assert!(
            commands.iter().any(|command| command["id"] == verdict["command_id"]),
            "{verdict} is in force, but not in the feed"
        );
    }
    assert_eq!(running.client.get("/v1/state/nobody").json()["active"].as_array().unwrap().len(), 0);

    let session = running.client.get("/sessions/a%2Fb").json();
    let agent = &session["agents"][0];
    assert_eq!((&agent["agent_id"], agent["steps"].as_array().unwrap().len()), (&Value::from("main"), 4), "{session}");
    let calls: BTreeSet<&str> = agent["steps"].as_array().unwrap().iter().map(|step| step["call"].as_str().unwrap()).collect();
    assert_eq!(calls.len(), 1, "the same call has one identity");
    assert!(!session.to_string().contains("cargo test"), "what an agent wrote is shown");
    let unknown = running.client.get("/sessions/nobody");
    assert_eq!(unknown.status, 404);
    assert!(unknown.json()["message"].as_str().unwrap().contains("partition"), "{}", unknown.text);
}

/// The row itself goes with a timer, a minute and more after.
#[test]
fn what_has_expired_is_in_force_no_more() {
    let scratch = Scratch::new();
    let policy = scratch.0.join("policy.toml");
    std::fs::write(&policy, "profile = \"ours\"\nbase = \"plain\"\nonly = [\"exact_repeat\"]\n[episodes]\nnudge_ms = 1\n")
        .unwrap();
    let running = Running::start(&scratch.0, &["mode=live", &format!("policy={}", policy.display())]);
    (1..=4).for_each(|number| running.accept(&failed_call("a", number)));
    running.until_said("a", 4);
    assert!(!running.commands("wait=30s&session_id=a").0.is_empty());
    assert_eq!(running.client.get("/v1/state/a").json(), serde_json::json!({ "active": [], "more": false }));
    let session = running.client.get("/sessions/a").json();
    let agent = &session["agents"][0];
    assert_eq!((&agent["verdicts"], agent["episodes"][0]["nudges"].as_u64()), (&serde_json::json!([]), Some(2)), "{session}");
}

#[test]
fn an_operator_lifts_a_block_from_the_command_line() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &["mode=live"]);
    (1..=10).for_each(|number| running.accept(&failed_call("a/b", number)));
    let is = |action: &'static str| move |commands: &[Value]| commands.iter().any(|command| command["action"] == action);
    running.commands_until("session_id=a/b", is("block"));
    let address = running.client.address.to_string();
    let reset = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loopwarden"));
        command.arg("reset").args(arguments).args(["--address", &address]).output().unwrap()
    };
    let output = reset(&["session", "a/b"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let commands = running.commands_until("session_id=a/b", is("unblock"));
    assert_eq!(commands.last().unwrap()["reason"]["code"], "reset");
    assert_eq!(reset(&["session", "a\u{1}"]).status.code(), Some(2), "such a name cannot be");
    assert_eq!(reset(&["swarm", "s", "--agent", "x"]).status.code(), Some(2));
    for (what, name) in [("swarm", "no-such"), ("session", "nobody")] {
        let output = reset(&[what, name]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_told = told.contains(&format!("holds no {what} \"{name}\"")) && told.contains("nothing_to_reset");
        assert!(output.status.code() == Some(3) && is_told, "a slip is told: {told}");
    }
    let told_of_agent = |agent: &str| {
        let output = reset(&["session", "a/b", "--agent", agent]);
        assert_eq!(output.status.success(), agent == "main", "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let told = told_of_agent("main");
    assert!(!told.contains("holds no"), "there is one: {told}");
    let told = told_of_agent("mian");
    assert!(told.contains("holds no agent \"mian\" of that session; --agent may be one of \"main\""), "a slip is told: {told}");
}
