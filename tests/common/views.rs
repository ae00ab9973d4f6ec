//! One log, seen in six ways: the list of agents and its sums, the page, the command line, the bill, the live trial and a replay. All have
//! the same numbers of agents, calls, commands and dollars.

use std::{collections::BTreeMap, thread, time::Duration};

use loopwarden::clock::Deadline;
use loopwarden::event::EventTime;
use serde_json::{Value, json};

/// A trial that sends half of the agents nothing.
pub(crate) const TRIAL: &str = "profile = \"ours\"\nbase = \"default\"\n[trial]\nshare = 0.5\nsalt = \"0123456789abcdef\"\n";
/// Words of states that [`fleet`] brings about in mode `live`; in mode `shadow` none is nudged or blocked.
const LIVE: [&str; 7] = ["blocked", "ended", "nudged", "running", "stopped", "would_block", "would_nudge"];
const SHADOW: [&str; 5] = ["ended", "running", "stopped", "would_block", "would_nudge"];
/// Agents of [`fleet`]; each has a session of its own.
const AGENTS: u64 = 40 + 200 + 13;

/// Between two looks at all of them: a process answers few questions a second.
const PAUSE: Duration = Duration::from_millis(200);

/// The ways to ask a process that has read [`fleet`].
pub(crate) trait Views {
    fn json(&self, path: &str) -> Value;
    /// What `loopwarden sessions` with this filter prints.
    fn sessions(&self, filter: &str) -> String;
    /// What `loopwarden replay --output json` makes of the same events under the same policy and mode.
    fn replay(&self) -> Value;
}

fn call(session: &str, number: usize, at_ms: i64) -> Value {
    json!({ "id": format!("{session}-{number}"), "kind": "tool", "session_id": session, "tool": "Bash",
        "time": EventTime(at_ms).to_rfc3339(), "args": { "command": "make" }, "result": "error: no rule", "outcome": "error",
        "usage": { "input_tokens": 10, "cost_usd": 0.25 } })
}

/// Events, oldest first: agents that fell silent in their loop an hour ago, agents of half an hour ago, which let time pass in each
/// partition, and agents of now: in a loop, in a longer one, at their end, stopped, at work.
pub(crate) fn fleet(now_ms: i64) -> Vec<Value> {
    let mut events = Vec::new();
    let mut calls = |session: String, numbers: std::ops::Range<usize>, from_ms: i64| {
        events.extend(numbers.map(|number| call(&session, number, from_ms + number as i64 * 1_000)));
    };
    (0..40).for_each(|agent| calls(format!("silent{agent}"), 0..5, now_ms - 3_600_000));
    (0..200).for_each(|agent| calls(format!("later{agent}"), 0..1, now_ms - 1_800_000));
    (0..12).for_each(|agent| calls(format!("a{agent}"), 0..4, now_ms - 20_000));
    (0..4).for_each(|agent| calls(format!("a{agent}"), 4..10, now_ms - 20_000));
    calls("honest".to_owned(), 0..1, now_ms - 20_000);
    let until = EventTime(now_ms + 1_800_000).to_rfc3339();
    events.push(json!({ "id": "e4", "kind": "session_end", "session_id": "a4" }));
    events.push(json!({ "id": "e5", "kind": "session_end", "session_id": "a5" }));
    events.push(json!({ "id": "stop", "kind": "stop", "scope": "session", "session_id": "a6", "reason": "r", "until": until }));
    events
}

/// Waits until all views agree, and panics with the last difference where they do not.
pub(crate) fn agree(views: &dyn Views, mode: &str, patience: Duration) {
    let replay = views.replay();
    let deadline = Deadline::after(patience);
    while let Some(difference) = difference(views, mode, &replay) {
        assert!(!deadline.is_over(), "{mode}: {difference}\nreplay: {replay}");
        thread::park_timeout(PAUSE);
    }
    let states = &views.json("/sessions?limit=1000")["states"];
    let of = |names: &[&str]| names.iter().filter_map(|name| states[name].as_u64()).sum::<u64>();
    for (filter, agents) in [
        ("--looping", of(&LIVE) - of(&["ended", "running", "stopped"])),
        ("--blocked", of(&["blocked", "would_block"])),
        ("--stopped", of(&["stopped"])),
    ] {
        let text = views.sessions(filter);
        assert!(text.starts_with(&format!("{agents} agent")), "{filter}: {agents}, {text}");
        assert!(filter != "--looping" || text.contains(&format!(" of {AGENTS} looked at\n")), "{text}");
        assert!(filter != "--blocked" || text.contains("would be blocked"), "{text}");
        assert!(filter != "--blocked" || text.contains("  blocked  ") == (mode == "live"), "{text}");
    }
}

/// What an agent does, as a list or a session shows it.
fn standing(agent: &Value) -> Value {
    json!([agent["state"], agent["code"], agent["loops_since"]])
}

fn difference(views: &dyn Views, mode: &str, replay: &Value) -> Option<String> {
    let list = views.json("/sessions?limit=1000");
    let overview = views.json("/overview");
    let rows = list["sessions"].as_array().expect("rows");
    let mut counted = BTreeMap::<&str, u64>::new();
    rows.iter().for_each(|row| *counted.entry(row["state"].as_str().expect("a word")).or_default() += 1);
    let bill = &overview["bill"];
    let spent: u64 = rows.iter().filter_map(|row| row["cost_micro_usd"].as_u64()).sum();
    let calls: u64 = rows.iter().filter_map(|row| row["calls"].as_u64()).sum();
    let loops = rows.iter().filter(|row| row["loops_since"].is_string() && row["state"] != "stopped").count();
    let of = |counts: &Value, names: &[&str]| names.iter().filter_map(|name| counts[name].as_u64()).sum::<u64>();
    let unnamed = rows.iter().filter(|row| row["loops_since"].is_string() && !row["code"].is_string()).count();
    let live_trial = bill["trial"].as_array().expect("rows").iter().map(|row| json!([row["detector"], row["agents"]]));
    let trial = replay["trial"].as_array().cloned().unwrap_or_default();
    let in_trial: u64 = trial.iter().map(|row| of(row, &["agents", "agents_against"])).sum();
    let trial = trial.iter().map(|row| json!([row["detector"], format!("{} : {}", row["agents"], row["agents_against"])]));
    let in_states = [["running", ""], ["nudged", "would_nudge"], ["blocked", "would_block"], ["stopped", ""], ["ended", ""]];
    let expected: &[&str] = if mode == "live" { &LIVE } else { &SHADOW };
    let sums = |of: &Value| json!([of["calls"], of["tokens"], of["cost_usd"]]);
    let of_list = rows.iter().map(|row| (row["state"].as_str().expect("a word"), row)).collect::<BTreeMap<_, _>>();
    let of_session = of_list.values().map(|row| {
        let tenant = row["tenant"].as_str().map(|tenant| format!("?tenant={tenant}")).unwrap_or_default();
        let session = views.json(&format!("/sessions/{}{tenant}", row["session_id"].as_str().expect("a name")));
        let mut agents = session["agents"].as_array().expect("agents").iter();
        let agent = agents.find(|agent| agent["agent_id"] == row["agent_id"]);
        agent.map_or(Value::Null, standing)
    });
    let of_session = of_session.collect::<Vec<_>>();
    [
        ("agents", json!(rows.len()), json!(AGENTS)),
        ("state of a session", json!(of_session), json!(of_list.values().map(|row| standing(row)).collect::<Vec<_>>())),
        ("states", json!(counted.keys().collect::<Vec<_>>()), json!(expected)),
        // What was sent to those that fell silent is in force: it was sent when their events came, not when they happened.
        ("agents in states", json!(in_states.map(|states| of(&json!(counted), &states))), json!([201, 45, 4, 1, 2])),
        ("loops without a detector", json!(unnamed), json!(0)),
        ("agents of the trial", json!(in_trial), json!(40 + 2)),
        (
            "why nothing is saved",
            json!(bill["saved"].as_str().is_some_and(|why| why.contains("fewer than 50 agents"))),
            json!(true),
        ),
        ("sums of the list", list["states"].clone(), json!(counted)),
        ("sums of the page", overview["agents"]["states"].clone(), json!(counted)),
        ("rows of the page", overview["agents"]["found"].clone(), json!(loops)),
        ("bill", bill["all"]["cost_usd"].clone(), json!(spent as f64 / 1e6)),
        ("spent", json!([calls, bill["all"]["tokens"], bill["all"]["cost_usd"]]), sums(&replay["spent"])),
        ("in loops", sums(&bill["in_loops"]), sums(&replay["in_loops"])),
        ("trial", json!(live_trial.collect::<Vec<_>>()), json!(trial.collect::<Vec<_>>())),
        (
            "commands",
            json!(of(&overview["commands"], &["nudge", "block"])),
            json!(of(&replay["total"], &["nudges", "blocks", "shadow"])),
        ),
    ]
    .into_iter()
    .find_map(|(what, found, other)| (found != other).then(|| format!("{what}: {found}, {other}")))
}
