//! The table of binding: whom a stop, a budget, a tree and a release bind, for an agent at each place, inside and outside of each kind.
//!
//! Whom something binds is written down here by hand, agent by agent. The guard, clients, page, listings and views are held to it.

use loopwarden::engine::{SourcePosition, StopState, SubjectKey};
use loopwarden::event::{EventTime, RecordMeta, decode};
use loopwarden::whom::Kind;
use loopwarden_core::wire;
use loopwarden_guard::{Check, Guard, Knowledge, Options, Source};
use serde_json::{Value, json};

pub(crate) const BEGIN: EventTime = EventTime(1_795_700_000_000);
const HOUR_MS: i64 = 3_600_000;
/// Kinds, agents and acts: those that there are together, and those that cannot be.
pub(crate) const CELLS: u64 = 7 * 18 * 4;

/// Whom each kind means here: the kind and its name, within the tenant `acme` but for everybody.
pub(crate) const TARGETS: [(&str, &str); 7] =
    [("session", "s"), ("agent", "fixer"), ("tree", "boss"), ("swarm", "w"), ("tenant", ""), ("label", "team=a"), ("all", "")];
/// What binds.
pub(crate) const ACTS: [&str; 4] = ["stop", "budget", "tree", "release"];

/// An agent somewhere, as its events name it, and the kinds of [`TARGETS`] that mean it.
pub(crate) struct Place {
    pub(crate) what: &'static str,
    pub(crate) event: Value,
    pub(crate) kinds: &'static [&'static str],
}

/// An agent at each place.
pub(crate) fn places() -> Vec<Place> {
    let place = |what, event, kinds| Place { what, event, kinds };
    let acme = |event: Value| {
        let mut event = event;
        event["tenant"] = "acme".into();
        event
    };
    let agent = |session: &str, agent: Value| acme(json!({ "session_id": session, "agent": agent }));
    vec![
        place("outside of all but the tenant", agent("o", json!({ "id": "main" })), &["tenant", "all"]),
        place("in the session", agent("s", json!({ "id": "main" })), &["session", "tenant", "all"]),
        place("another one in the session", agent("s", json!({ "id": "helper" })), &["session", "tenant", "all"]),
        place("of that id", agent("f", json!({ "id": "fixer" })), &["agent", "tenant", "all"]),
        place("in the swarm", acme(json!({ "session_id": "ws", "swarm_id": "w" })), &["swarm", "tenant", "all"]),
        place("in another swarm", acme(json!({ "session_id": "vs", "swarm_id": "v" })), &["tenant", "all"]),
        place("with the label", acme(json!({ "session_id": "la", "labels": { "team": "a" } })), &["label", "tenant", "all"]),
        place("with another value", acme(json!({ "session_id": "lb", "labels": { "team": "b" } })), &["tenant", "all"]),
        place("the root itself", agent("b", json!({ "id": "boss" })), &["tree", "tenant", "all"]),
        place("a child", agent("c", json!({ "id": "child", "parent_id": "boss" })), &["tree", "tenant", "all"]),
        place(
            "a grandchild",
            agent("g", json!({ "id": "grandchild", "parent_id": "child", "root_id": "boss" })),
            &["tree", "tenant", "all"],
        ),
        place("a grandchild that names no root", agent("h", json!({ "id": "other", "parent_id": "child" })), &["tenant", "all"]),
        place("a session of the name of the tree", agent("boss", json!({ "id": "main" })), &["tree", "tenant", "all"]),
        place("a child of a main agent", agent("m", json!({ "id": "sub", "parent_id": "main" })), &["tenant", "all"]),
        place("the names in another tenant", json!({ "session_id": "s", "tenant": "globex", "swarm_id": "w" }), &["all"]),
        place(
            "the tree in another tenant",
            json!({ "session_id": "x", "tenant": "globex", "agent": { "id": "fixer", "root_id": "boss" } }),
            &["all"],
        ),
        place(
            "the names in no tenant",
            json!({ "session_id": "s", "agent": { "id": "fixer" }, "labels": { "team": "a" } }),
            &["all"],
        ),
        place(
            "inside of all",
            acme(
                json!({ "session_id": "s", "agent": { "id": "fixer", "root_id": "boss" }, "swarm_id": "w", "labels": { "team": "a" } }),
            ),
            &["session", "agent", "tree", "swarm", "tenant", "label", "all"],
        ),
    ]
}

/// The event of an act about a target.
pub(crate) fn act(kind: &str, name: &str, act: &str, at: EventTime) -> Value {
    let mut event = json!({
        "id": format!("{act}-{kind}"), "kind": act, "scope": kind, "time": at.to_rfc3339(),
        "reason": "runaway", "labels": { "actor": "alice" },
    });
    if act == "stop" {
        event["until"] = BEGIN.plus_ms(HOUR_MS).to_rfc3339().into();
    }
    match kind {
        "session" => event["session_id"] = name.into(),
        "agent" => event["agent"] = json!({ "id": name }),
        "tree" => event["agent"] = json!({ "root_id": name }),
        "swarm" => event["swarm_id"] = name.into(),
        _ => {}
    }
    if kind != "all" {
        event["tenant"] = "acme".into();
    }
    event
}

/// The subject of a stop, its commands, and the row after each of them, as the engine makes them; none where there is no such stop.
fn engine(kind: &str, name: &str, acts: &[&str]) -> Option<Vec<(SubjectKey, String, Option<String>)>> {
    let mut state = StopState::default();
    let taken = acts.iter().enumerate().map(|(at, word)| {
        let at = BEGIN.plus_ms(at as i64);
        let event = act(kind, name, word, at).to_string();
        let event = decode(Some(event.as_bytes()), &RecordMeta::without_place(at, 4_096)).ok()?;
        let place = SourcePosition { topic: "t", partition: 0, offset: 1, watermark: at };
        let command = state.apply("app", &event, place).command.expect("it changes something");
        let subject = SubjectKey::of_event(&event);
        let json = serde_json::to_string(&wire::Command::of(&command, wire::LIVE, wire::Engine::default())).unwrap();
        let row = wire::Row::of(&subject, &state.board, at).map(|row| serde_json::to_string(&row).unwrap());
        Some((subject, json, row))
    });
    taken.collect()
}

/// The block of a group, as the swarm stage publishes it; none where there is no such group.
fn group(kind: &str, name: &str, by: &str) -> Option<String> {
    if kind == "all" || (by == "tree" && kind != "tree") {
        return None;
    }
    let mut scope = json!({ "kind": kind, "by": by });
    if by == "tree" {
        // A tree is kept from growing, and goes on with what it has.
        scope["tools"] = json!(["Task", "spawn_*"]);
    }
    let mut command = json!({
        "v": 1, "id": format!("{by}-{kind}"), "action": "block", "tenant": "acme", "scope": scope, "level": 2, "epoch": 1, "seq": 1,
        "episode": "e", "issued_at": BEGIN.to_rfc3339(), "expires_at": BEGIN.plus_ms(HOUR_MS).to_rfc3339(), "mode": "live",
        "reason": { "code": "budget", "summary": "sum" }, "message": "used up", "advice": "stop", "trigger": {}, "engine": {},
    });
    match kind {
        "tenant" => {}
        "session" | "swarm" => command[format!("{kind}_id")] = name.into(),
        _ => command["scope"]["name"] = name.into(),
    }
    Some(command.to_string())
}

/// The event of a call of an agent, before it runs.
pub(crate) fn call(place: &Place, number: usize, tool: &str) -> Value {
    let mut event = place.event.clone();
    event["id"] = format!("call-{number}-{tool}").into();
    event["kind"] = "tool_call".into();
    event["tool"] = tool.into();
    event["args"] = json!({ "path": format!("f{number}") });
    event
}

fn ask(guard: &mut Guard, event: &Value) -> Value {
    let check = json!({ "event": event, "record": false, "client": { "name": "table", "can": ["deny", "stop"] } });
    let mut opened = guard.open(Check::read(check.to_string().as_bytes()).unwrap(), BEGIN).unwrap();
    let knowledge = Knowledge { as_of: Some(BEGIN), late_ms: 0, source: Source::Kafka };
    let all = serde_json::to_value(guard.decide(&mut opened, knowledge, BEGIN)).unwrap();
    let known = ["decision", "action", "stop", "message", "placement", "command_id", "level"];
    let fields = known.into_iter().filter_map(|field| Some((field.to_owned(), all.get(field)?.clone())));
    Value::Object(fields.collect())
}

/// Who calls, by the names of an event.
fn who(event: &Value) -> Value {
    let mut who = json!({});
    for name in ["session_id", "swarm_id", "tenant", "labels"] {
        if let Some(value) = event.get(name) {
            who[name] = value.clone();
        }
    }
    for (name, of) in [("agent_id", "/agent/id"), ("root_id", "/agent/root_id"), ("parent_id", "/agent/parent_id")] {
        if let Some(value) = event.pointer(of) {
            who[name] = value.clone();
        }
    }
    who
}

fn row(kind: &str, name: &str, word: &str, places: &[Place]) -> Value {
    let commands: Option<Vec<String>> = match word {
        "budget" => group(kind, name, "budget/b/day").map(|one| vec![one]),
        "tree" => group(kind, name, "tree").map(|one| vec![one]),
        _ => {
            let acts: &[&str] = if word == "stop" { &["stop"] } else { &["stop", "release"] };
            engine(kind, name, acts).map(|taken| taken.into_iter().map(|(_, command, _)| command).collect())
        }
    };
    let cells = places.len();
    let Some(commands) = commands else {
        let is_none =
            (kind == "label" && matches!(word, "stop" | "release")) || (kind == "all" && word == "budget") || word == "tree";
        assert!(is_none, "{word} of {kind}");
        return json!({ "is": "binding", "kind": kind, "act": word, "cells": cells, "steps": [] });
    };
    let mut guard = Guard::new(Options::default());
    let mut steps = Vec::new();
    for command in commands {
        guard.command(command.as_bytes(), BEGIN);
        steps.push(json!({ "now": BEGIN.0, "command": command }));
    }
    for (number, place) in places.iter().enumerate() {
        for tool in ["Read", "Task", "srv__spawn_one"] {
            let event = call(place, number, tool);
            let answer = ask(&mut guard, &event);
            let is_bound = word != "release" && place.kinds.contains(&kind) && (word != "tree" || tool != "Read");
            assert_eq!(answer["decision"], if is_bound { "deny" } else { "allow" }, "{word} of {kind}, {}: {tool}", place.what);
            steps.push(json!({
                "now": BEGIN.0, "phase": "before", "who": who(&event), "tool": tool, "args": event["args"].to_string(),
                "can": ["deny", "stop"], "answer": answer,
            }));
        }
    }
    json!({ "is": "binding", "kind": kind, "act": word, "cells": cells, "steps": steps })
}

/// Every kind with every act: what the guard says of an agent at each place, which is what stands there.
pub(super) fn table() -> Vec<Value> {
    let places = places();
    let acts = |(kind, name)| ACTS.map(|word| row(kind, name, word, &places));
    TARGETS.into_iter().flat_map(acts).collect()
}

/// The row of a stop of each scope, with what people are shown of it, and what a release names.
pub(super) fn stops() -> Vec<Value> {
    let places = places();
    let named = [
        ("session", "session s of tenant acme", "scope=session&session_id=s&tenant=acme"),
        ("agent", "agent fixer of tenant acme", "scope=agent&agent_id=fixer&tenant=acme"),
        ("tree", "tree boss of tenant acme", "scope=tree&root_id=boss&tenant=acme"),
        ("swarm", "swarm w of tenant acme", "scope=swarm&swarm_id=w&tenant=acme"),
        ("tenant", "tenant acme", "scope=tenant&tenant=acme"),
        ("all", "everybody", "scope=all"),
    ];
    assert_eq!(named.len(), Kind::stopped().count());
    let of = |(kind, whom, query): (&'static str, &str, &str)| {
        let name = TARGETS.iter().find(|(known, _)| *known == kind).unwrap().1;
        let (subject, _, row) = engine(kind, name, &["stop"]).unwrap().remove(0);
        let row = row.unwrap();
        // A guard that learns of it by its row says the same as by its command.
        let mut guard = Guard::new(Options::default());
        guard.row(subject.row_key().as_bytes(), Some(row.as_bytes()), BEGIN);
        for (number, place) in places.iter().enumerate() {
            let decision = &ask(&mut guard, &call(place, number, "Read"))["decision"];
            assert_eq!(decision, if place.kinds.contains(&kind) { "deny" } else { "allow" }, "row of {kind}, {}", place.what);
        }
        let row: Value = serde_json::from_str(&row).unwrap();
        json!({ "is": "stop", "subject": row["subject"], "whom": whom, "query": query })
    };
    named.map(of).into()
}
