//! Trees of agents through the whole pipeline: runaway fan-outs are told to the root, honest ones are not, and a block holds in the tree.

use std::collections::{BTreeMap, BTreeSet};

use loopwarden::event::{EventTime, Stage};
use loopwarden::exit_code;
use loopwarden::store::{KeyFamily, swarm};
use loopwarden_guard::{Capabilities, Check, Client, Decision, Guard, Knowledge, Options, Source};
use loopwarden_sim::MemoryTopic;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::cli::{Scratch, expect, stdout};
use crate::cuts::whole_and_cut;
use crate::swarm::{MINUTE_MS, START_MS, TIMED, direct, feed, ids, policy, records, settle, told, world};
use crate::world::{Dice, TestWorld, settings};

/// An event of a session.
fn event(session: &str, id: usize, time_ms: i64, more: &Value) -> String {
    let mut event = json!({ "id": format!("{session}-{id}"), "session_id": session, "time": time_ms });
    event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    event.to_string()
}

/// A call that starts an agent; what it brings comes later, or to somebody else.
fn spawn(brief: &str, more: &Value) -> Value {
    let mut call = json!({ "kind": "tool_call", "tool": "Task", "args": { "description": "d", "prompt": brief } });
    call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    call
}

/// A step of an agent of a tree.
fn work(number: usize, step: usize, root: &str) -> Value {
    json!({ "kind": "tool", "tool": "read_file", "args": { "path": format!("src/{number}/{step}.rs") }, "result": format!("text of file {number}, part {step}"),
        "agent": { "id": format!("a{number}"), "root_id": root }, "usage": { "input_tokens": 90, "output_tokens": 10, "cost_usd": 0.01 } })
}

/// Commands about trees.
fn about_trees(world: &TestWorld) -> Vec<Value> {
    let told = told(world).into_iter().map(|(_, command)| command);
    told.filter(|command| command["reason"]["code"] == "tree").collect()
}

fn guard(world: &TestWorld, now: EventTime) -> Guard {
    let mut guard = Guard::new(Options::default());
    for row in world.broker.committed(MemoryTopic::State) {
        guard.row(row.key.as_deref().unwrap(), row.value.as_deref(), now);
    }
    guard
}

/// What a guard answers to a call: whether it refuses, and the code of what it hands out.
fn asked(guard: &mut Guard, session: &str, tool: &str, agent: &Value, now: EventTime) -> (bool, Option<String>) {
    let call = json!({ "kind": "tool_call", "tool": tool, "args": { "prompt": "p" }, "agent": agent });
    let event = event(session, 999, now.0, &call);
    let client = Client { can: Capabilities::ALL, ..Client::default() };
    let check = Check::new(RawValue::from_string(event).unwrap(), client);
    let mut opened = guard.open(check, now).unwrap();
    let answer = guard.decide(&mut opened, Knowledge { as_of: Some(now), late_ms: 0, source: Source::Kafka }, now);
    (answer.decision == Decision::Deny, answer.reason.map(|reason| reason.code))
}

#[test]
fn the_root_is_told_before_the_twenty_fifth_agent_and_then_nobody_in_the_tree_starts_one() {
    let mut world = direct("[detectors.tree]\nmode = \"block\"\nagents_block = 30\n");
    world.start("a", 1);
    for number in 0..23 {
        let brief = format!("Look into area {number}");
        feed(&world, "boss", &event("boss", number, START_MS + number as i64, &spawn(&brief, &json!({}))), START_MS);
    }
    settle(&mut world);
    assert_eq!(about_trees(&world), Vec::<Value>::new());
    feed(&world, "boss", &event("boss", 23, START_MS + 23, &spawn("Look into area 23", &json!({}))), START_MS);
    settle(&mut world);
    let [nudge] = <[Value; 1]>::try_from(about_trees(&world)).unwrap();
    assert_eq!((&nudge["action"], &nudge["mode"], &nudge["level"]), (&"nudge".into(), &"live".into(), &1.into()));
    let only = json!([{ "session_id": "boss", "agent_id": "main" }]);
    assert_eq!(nudge["scope"], json!({ "kind": "tree", "name": "boss", "by": "tree", "only": only }));
    let evidence = &nudge["reason"]["evidence"];
    assert_eq!((&evidence["quantity"], &evidence["count"], &evidence["threshold"]), (&"agents".into(), &24.into(), &24.into()));
    let now = EventTime(START_MS + 1_000);
    let mut told_to = guard(&world, now);
    let child = json!({ "id": "a1", "root_id": "boss" });
    assert_eq!(asked(&mut told_to, "boss", "read_file", &json!({}), now), (false, Some("tree".to_owned())), "the root hears it");
    assert_eq!(asked(&mut told_to, "elsewhere", "Task", &child, now), (false, None), "and nobody else");
    // The agents start agents themselves, and are seen at work in sessions of their own.
    for number in 0..6 {
        let (session, brief) = (format!("s{number}"), format!("Look into part {number}"));
        let agent = json!({ "agent": { "id": format!("a{number}"), "root_id": "boss" } });
        feed(&world, &session, &event(&session, 0, START_MS + 100, &spawn(&brief, &agent)), START_MS + 100);
        feed(&world, &session, &event(&session, 1, START_MS + 101, &work(number, 0, "boss")), START_MS + 101);
    }
    settle(&mut world);
    let block = about_trees(&world).pop().unwrap();
    assert_eq!((&block["action"], &block["level"], &block["episode"]), (&"block".into(), &3.into(), &nudge["episode"]));
    let tools: Vec<&str> = block["scope"]["tools"].as_array().unwrap().iter().map(|tool| tool.as_str().unwrap()).collect();
    assert!(tools.contains(&"Task") && tools.contains(&"spawn_agent"), "{tools:?}");
    assert!(block["scope"].get("only").is_none());
    // Its sums: six agents have shown themselves, with what they used; the root counts from its first agent on.
    let evidence = &block["reason"]["evidence"];
    assert_eq!(["agents", "living", "depth"].map(|name| evidence[name].clone()), [30, 6, 1].map(Value::from));
    let mut held = guard(&world, now);
    for (session, tool, agent, is_refused) in [
        ("boss", "Task", json!({}), true),
        ("elsewhere", "Task", child.clone(), true),
        ("elsewhere", "mcp__jobs__Task", child.clone(), true),
        ("elsewhere", "read_file", child, false),
        ("grandchild", "Agent", json!({ "id": "b", "parent_id": "a1", "root_id": "boss" }), true),
        ("elsewhere", "Task", json!({}), false),
        ("elsewhere", "Task", json!({ "root_id": "other" }), false),
    ] {
        assert_eq!(asked(&mut held, session, tool, &agent, now).0, is_refused, "{session} {tool} {agent}");
    }
}

#[test]
fn a_replay_judges_a_tree_at_the_start_that_crosses_a_limit() {
    let scratch = Scratch::new("tree-at-the-start");
    let time_ms = |number: usize| START_MS + number as i64 * 1_000;
    // Agents of one tree in sessions of their own, and so in several lanes, of which some begin late.
    let events = (0..40).map(|number| {
        let agent = json!({ "agent": { "id": format!("a{}", number / 3), "root_id": "boss" } });
        let brief = format!("Look into area {number}");
        event(&format!("s{}", number / 3), number, time_ms(number), &spawn(&brief, &agent)) + "\n"
    });
    let file = scratch.0.join("events.ndjson");
    std::fs::write(&file, events.collect::<String>()).unwrap();
    let told = stdout(&expect(&["replay", file.to_str().unwrap(), "--output", "ndjson"], exit_code::DONE));
    let [nudge] =
        <[Value; 1]>::try_from(told.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<_>>()).unwrap();
    let expected = (json!(24), json!(EventTime(time_ms(23)).to_rfc3339()));
    assert_eq!((&nudge["reason"]["evidence"]["count"], &nudge["issued_at"]), (&expected.0, &expected.1), "{nudge}");
}

#[test]
fn what_a_tree_has_used_is_added_up_over_its_agents_and_partitions() {
    let mut world = world((4, 3), policy("default", "[detectors.tree]\nagents = 10\n"), settings(TIMED));
    world.start("a", 2);
    for number in 0..10 {
        let session = format!("s{number}");
        let time_ms = START_MS + number as i64;
        feed(&world, &session, &event(&session, 0, time_ms, &work(number, 0, "boss")), time_ms);
        if number < 4 {
            let end = json!({ "kind": "session_end", "agent": { "id": format!("a{number}"), "root_id": "boss" } });
            feed(&world, &session, &event(&session, 1, time_ms, &end), time_ms);
        }
        settle(&mut world);
    }
    let [nudge] = <[Value; 1]>::try_from(about_trees(&world)).unwrap();
    let of = |name: &str| nudge["reason"]["evidence"][name].as_u64().unwrap();
    assert_eq!((of("agents"), of("living"), of("calls"), of("tokens"), of("cost_micro_usd")), (10, 6, 10, 1_000, 100_000));
}

/// A fan-out as people mean it: up to twenty agents with a brief each, in one session or in sessions of their own, that answer.
fn honest(dice: &Dice, root: &str, feed: &mut impl FnMut(&str, String, i64)) {
    const VERBS: [&str; 6] = ["Review", "Summarise", "Test", "Translate", "Migrate", "Document"];
    const WHAT: [&str; 8] = ["parser", "ledger", "scheduler", "onboarding", "cache", "billing", "search", "archive"];
    let count = 2 + dice.below(19) as usize;
    let shares = dice.below(2) == 0;
    let template = dice.below(2) == 0;
    let mut briefs = BTreeSet::new();
    while briefs.len() < count {
        let (verb, what) = (VERBS[dice.below(6) as usize], WHAT[dice.below(8) as usize]);
        // Half of them have a long text in common, and differ in what it is about.
        let more =
            if template { " with care, list what is wrong with its place, and change nothing that is not yours" } else { "" };
        briefs.insert(format!("{verb} the {what}, part {}{more}.", dice.below(40)));
    }
    let mut time_ms = START_MS + dice.below(20 * 60_000) as i64;
    for (number, brief) in briefs.iter().enumerate() {
        time_ms += 1 + dice.below(20_000) as i64;
        let call = json!({ "kind": "tool", "tool": "Task", "args": { "description": "part", "prompt": brief },
            "result": format!("part {number} of {root}: {brief} Done, with {} notes", dice.below(9)) });
        feed(root, event(root, number, time_ms, &call), time_ms);
        let session = if shares { root.to_owned() } else { format!("{root}-{number}") };
        for step in 0..1 + dice.below(4) as usize {
            feed(&session, event(&session, 100 + 10 * number + step, time_ms + step as i64, &work(number, step, root)), time_ms);
        }
    }
}

#[test]
fn one_hundred_honest_fan_outs_of_up_to_twenty_briefs_are_told_nothing() {
    let dice = Dice::new(47);
    let mut world = world((4, 3), policy("default", "[detectors.tree]\nmode = \"block\"\n"), settings(TIMED));
    world.start("a", 2);
    let mut events = 0;
    for number in 0..100 {
        honest(&dice, &format!("root{number}"), &mut |session, json, time_ms| {
            events += 1;
            feed(&world, session, &json, time_ms);
        });
    }
    settle(&mut world);
    assert_eq!(about_trees(&world), Vec::<Value>::new());
    assert!(events > 2_000, "{events}");
}

/// Trees that run away, and some that do not, in an order of their own.
fn fan_outs(dice: &Dice, count: usize) -> Vec<(String, String, i64)> {
    (0..count)
        .map(|id| {
            let time_ms = START_MS + id as i64 * (50 * MINUTE_MS / count as i64);
            let root = format!("root{}", dice.below(3));
            let number = dice.below(40) as usize;
            let (session, what) = match dice.below(4) {
                0 => (root.clone(), spawn(&format!("Do part {}", dice.below(30)), &json!({}))),
                1 => {
                    let agent = json!({ "agent": { "id": format!("a{number}"), "root_id": root } });
                    (format!("{root}-{number}"), spawn(&format!("Do part {}", dice.below(30)), &agent))
                }
                _ => (format!("{root}-{number}"), work(number, id, &root)),
            };
            (session.clone(), event(&session, id, time_ms, &what), time_ms)
        })
        .collect()
}

/// Sums of trees as the stores hold them, by counter and pane.
fn sums(world: &TestWorld) -> BTreeMap<(Vec<u8>, i64), String> {
    let mut sums = BTreeMap::new();
    for task in world.tasks.iter().copied().filter(|task| task.stage == Stage::Swarm) {
        let store = world.store_of(task);
        for key in records(store, task, KeyFamily::SwarmCounter).into_keys() {
            let counter = swarm::load(store, task, &key).unwrap().unwrap().counter;
            sums.insert((key.clone(), i64::MIN), format!("{:?}", counter.life));
            sums.extend(counter.panes.into_iter().map(|(start, pane)| ((key.clone(), start.0), format!("{pane:?}"))));
        }
    }
    sums
}

#[test]
fn what_a_tree_is_told_depends_on_no_cut_no_lag_and_no_fault() {
    for seed in 0..15 {
        let dice = Dice::new(seed ^ 0x7ee);
        let events = fan_outs(&dice, 300);
        let policy = policy("default", "[detectors.tree]\nmode = \"block\"\nagents = 12\nagents_block = 20\nrepeats = 4\n");
        let (expected, world) = whole_and_cut(seed, &dice, &policy, &events);
        assert!(!ids(&expected).is_empty(), "seed {seed}");
        assert_eq!(ids(&world), ids(&expected), "seed {seed}");
        assert_eq!(sums(&world), sums(&expected), "seed {seed}");
    }
}
