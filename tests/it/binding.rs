//! The table of binding in the list of sessions and in a dry run: who is shown as stopped, and how many a stop would bind, while each act about
//! each kind is in force, for an agent at each place. The other ways to ask are in `vectors/binding.rs` and `http/binding.rs`.

use loopwarden::engine::{AgentState, SubjectKey};
use loopwarden::task::{Listing, ProcessMode, View};
use loopwarden::whom::{Kind, MAIN_AGENT, Whom};
use serde_json::{Value, json};

use crate::budgets::{guard, is_refused};
use crate::swarm::{direct, feed, settle};
use crate::vectors::binding::{ACTS, BEGIN, CELLS, Place, TARGETS, act, call, places};
use crate::world::TestWorld;

/// Calls of a group that use its budget up, and agents that a tree may have. No group but the tenant makes as many otherwise.
const LIMIT: usize = 12;

/// A policy under which a budget of the kind, or a tree, refuses calls; none where there is no such thing.
fn policy(kind: &str, word: &str) -> Option<String> {
    let scope = match (word, kind) {
        ("tree", "tree") => return Some(format!("[detectors.tree]\nmode = \"block\"\nagents = 6\nagents_block = {LIMIT}\n")),
        ("budget", "session" | "tree") => format!("scope = \"tenant\"\nper = \"{kind}\""),
        ("budget", "agent" | "swarm" | "tenant") => format!("scope = \"{kind}\""),
        ("budget", "label") => "scope = \"label:team\"".to_owned(),
        _ => return None,
    };
    Some(format!("[[budget]]\nname = \"b\"\n{scope}\nmode = \"block\"\ncalls = {LIMIT}\nwarn_share = 0.0\nnudge_share = 0.0\n"))
}

fn send(world: &TestWorld, event: &Value) {
    feed(world, event["session_id"].as_str().unwrap(), &event.to_string(), BEGIN.0);
}

/// A fleet of an agent at each place, of which an act about a kind is in force.
fn fleet(whom: &Whom, word: &str, places: &[Place]) -> TestWorld {
    let kind = whom.kind.as_str();
    let policy = policy(kind, word);
    let mut world = direct(policy.as_deref().unwrap_or_default());
    world.start("a", 1);
    let ran = |place: &Place, number: usize| {
        let mut event = call(place, number, "Read");
        (event["kind"], event["result"]) = ("tool".into(), format!("text of file {number}").into());
        event
    };
    places.iter().enumerate().for_each(|(number, place)| send(&world, &ran(place, number)));
    // A root is in its tree by the agents that name it: the engine counts from those on.
    let counts = |place: &&Place| kind != "tree" || place.event.pointer("/agent/parent_id").is_some();
    let member = places.iter().filter(counts).find(|place| place.kinds.contains(&kind)).unwrap();
    for number in (100..100 + LIMIT).filter(|_| policy.is_some()) {
        let mut event = if word == "tree" { call(member, number, "Task") } else { ran(member, number) };
        if word == "tree" {
            event["args"] = json!({ "description": "d", "prompt": format!("Look into area {number}") });
        }
        send(&world, &event);
    }
    let acts: &[&str] = match word {
        "stop" => &["stop"],
        "release" => &["stop", "release"],
        _ => &[],
    };
    for (number, word) in acts.iter().enumerate() {
        let at = BEGIN.plus_ms(number as i64);
        feed(&world, whom.record_key(), &act(kind, &whom.name, word, at).to_string(), at.0);
    }
    settle(&mut world);
    world
}

fn subject(place: &Place) -> SubjectKey {
    let text = |pointer: &str| place.event.pointer(pointer).and_then(Value::as_str);
    SubjectKey::Agent {
        tenant: text("/tenant").unwrap_or_default().to_owned(),
        session_id: text("/session_id").unwrap().to_owned(),
        agent_id: text("/agent/id").unwrap_or(MAIN_AGENT).to_owned(),
    }
}

#[test]
fn the_list_of_sessions_and_a_dry_run_have_each_cell_of_the_table() {
    let (places, now) = (places(), BEGIN.plus_ms(1_000));
    let mut cells = 0;
    for ((kind, name), word) in TARGETS.into_iter().flat_map(|target| ACTS.map(|word| (target, word))) {
        let of = Kind::from_name(kind).unwrap();
        let whom = Whom::new(if of.is_in_tenant() { "acme" } else { "" }, of, name);
        let world = fleet(&whom, word, &places);
        let (process, mut guard) = (&world.processes[0], guard(&world, now));
        let tasks = process.lanes[0].as_ref().unwrap().tasks();
        let view = View { store: &process.store, tasks, policy: &world.policy, mode: ProcessMode::Live };
        let stops = view.stops(now, places.len()).unwrap().rows.into_iter().map(|stop| stop.whom).collect();
        let listed = view.listed(&Listing { stops, now, rows_max: places.len(), ..Listing::default() }, None).unwrap();
        for (number, place) in places.iter().enumerate() {
            let cell = format!("{word} of {kind}, {}", place.what);
            let is_meant = place.kinds.contains(&kind);
            let is_stopped = is_meant && word == "stop" && of.can_stop();
            let row = listed.rows.iter().find(|row| row.subject == subject(place)).unwrap();
            // What refuses calls of a group is no state of its agents: only a stop is.
            let expected = if is_stopped { (AgentState::Stopped, Some(&whom)) } else { (AgentState::Running, None) };
            assert_eq!((row.standing.state, row.stop.as_ref()), expected, "{cell}");
            let refuses = is_stopped || (is_meant && policy(kind, word).is_some());
            assert_eq!(is_refused(&mut guard, &call(place, 900 + number, "Task").to_string(), now), refuses, "{cell}");
            cells += 1;
        }
        // Whatever is in force, a stop would bind the same agents; of labels only events know.
        let bound = places.iter().filter(|place| of.can_stop() && place.kinds.contains(&kind)).count() as u64;
        assert_eq!(view.matching(&whom).unwrap(), (bound, false), "{word} of {kind}");
    }
    assert_eq!(cells, CELLS);
}
