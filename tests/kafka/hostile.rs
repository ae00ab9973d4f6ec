//! Who writes to a topic, and nothing else: he speaks for his own tenant, frees nobody, and stops no partition for the others.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use loopwarden::{clock::Deadline, event::partition_of};
use serde_json::{Value, json};

use crate::intake::{header, topic, write};
use crate::run::{Running, Scratch, events, produce, repeats, until, with_tables};
use crate::world::{PATIENCE, Seen, World};
use crate::{broker, surface};

fn values(seen: &[Seen]) -> Vec<Value> {
    seen.iter().map(|seen| serde_json::from_slice(seen.value.as_deref().expect("a value")).expect("JSON")).collect()
}

/// A call that fails, the same in each session.
fn call(session: &str, number: usize) -> Value {
    json!({ "id": format!("{session}-{number}"), "kind": "tool", "session_id": session, "tool": "Bash",
        "args": { "command": "make" }, "result": "no rule", "outcome": "error" })
}

fn of(tenant: &str, mut event: Value) -> Value {
    event["tenant"] = tenant.into();
    event
}

/// Reads the commands until one is so.
fn until_said(world: &World, scratch: &Scratch, what: &str, is_so: impl Fn(&Value) -> bool) -> Vec<Value> {
    let deadline = Deadline::after(PATIENCE);
    loop {
        let commands = values(&world.read(&world.options.topics.commands));
        if commands.iter().any(&is_so) {
            return commands;
        }
        assert!(!deadline.is_over(), "{what}: {commands:?}\n{}", scratch.log());
    }
}

#[test]
fn whoever_writes_to_the_topic_of_one_tenant_speaks_for_no_other_and_resets_nobody() {
    const RESETS: usize = 120;
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 2);
    let [acme, globex, operators] = ["acme", "globex", "operators"].map(|name| topic(&world, name, 1));
    let table = |topic: &str, more: &str| format!("[[input]]\ntopic = \"{topic}\"\n{more}\n");
    let tables = table(&acme, "tenants = \"acme\"")
        + &table(&globex, "tenants = \"globex\"")
        + &table(&operators, "roles = \"operator\"\ntenants = \"globex\"");
    let scratch = Scratch::new("hostile-tenants");
    let running = Running::of(with_tables(&world, &scratch, "lw-0", &tables), &scratch);

    // A name that both tenants have, so that it is seen whose it is.
    (0..14).for_each(|number| write(&world, &globex, &[], &call("shared", number).to_string()));
    let is_block = |command: &Value| command["action"] == "block" && command["session_id"] == "shared";
    let blocked = until_said(&world, &scratch, "never blocked", is_block);
    assert!(blocked.iter().all(|command| command["tenant"] == "globex"), "{blocked:?}");

    // More than a partition takes of records that nobody can read, by one who would free the other.
    for number in 0..RESETS {
        let tenant = if number % 2 == 0 { "acme" } else { "globex" };
        let reset = json!({ "id": format!("r{number}"), "kind": "reset", "session_id": "shared", "scope": "session" });
        write(&world, &acme, &[], &of(tenant, reset).to_string());
    }
    let foreign = [
        of("globex", json!({ "id": "end", "kind": "session_end", "session_id": "shared" })),
        of("globex", json!({ "id": "start", "kind": "session_start", "session_id": "shared" })),
        of("globex", call("shared", 100)),
        of("Acme", call("shared", 101)),
    ];
    foreign.iter().for_each(|event| write(&world, &acme, &[], &event.to_string()));
    // Nor does who may only reset report anything.
    write(&world, &operators, &[], &call("shared", 102).to_string());
    (0..4).for_each(|number| write(&world, &acme, &[], &call("shared", number).to_string()));

    let of_acme = |command: &Value| command["tenant"] == "acme" && command["session_id"] == "shared";
    let commands = until_said(&world, &scratch, "its own calls are not judged", of_acme);
    assert!(commands.iter().all(|command| command["action"] != "unblock"), "{commands:?}");
    let letters = until(&world, &world.options.topics.dead_letters, RESETS + foreign.len() + 1);
    let mut reasons = BTreeMap::<(&str, &str), usize>::new();
    letters
        .iter()
        .for_each(|letter| *reasons.entry((header(letter, "dlq.topic"), header(letter, "dlq.reason"))).or_default() += 1);
    let expected = [
        ((acme.as_str(), "foreign_tenant"), foreign.len()),
        ((acme.as_str(), "not_permitted"), RESETS),
        ((operators.as_str(), "not_permitted"), 1),
    ];
    assert_eq!(reasons, BTreeMap::from(expected));
    let events = values(&world.read(&world.options.topics.input));
    let tenants = |tenant: &str| events.iter().filter(|event| event["tenant"] == tenant).count();
    assert_eq!((tenants("globex"), tenants("acme"), events.len()), (14, 4, 18), "{events:?}");

    // Whose act it is can lift it.
    let reset = json!({ "id": "by-right", "kind": "reset", "session_id": "shared", "scope": "session" });
    write(&world, &operators, &[], &reset.to_string());
    let lifted = until_said(&world, &scratch, "never lifted", |command| command["action"] == "unblock");
    let lifted = lifted.iter().filter(|command| command["action"] == "unblock");
    assert!(lifted.inspect(|command| assert_eq!(command["tenant"], "globex", "{command}")).count() > 0);
    assert_eq!(running.end("TERM"), Some(0), "{}", scratch.log());
}

#[test]
fn one_session_whose_calls_are_nested_too_deep_stops_no_partition_and_is_judged_beside_all_others() {
    const PARTITIONS: u32 = 24;
    const SESSIONS: u32 = 400;
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, PARTITIONS);
    let scratch = Scratch::new("hostile-deep");
    fs::create_dir_all(&scratch.0).expect("a directory");
    let deep = format!("{}1{}", "[".repeat(65), "]".repeat(65));
    let evil = |numbers: std::ops::Range<usize>| -> Vec<(String, Option<Vec<u8>>)> {
        let event = |number| format!(r#"{{"id":"e{number}","session_id":"evil","kind":"tool","tool":"t","args":{deep}}}"#);
        numbers.map(|number| ("evil".to_owned(), Some(event(number).into_bytes()))).collect()
    };
    let beside = (0..SESSIONS)
        .filter(|number| partition_of(format!("s{number}").as_bytes(), PARTITIONS) == partition_of(b"evil", PARTITIONS));
    assert!(beside.count() >= 5, "some lie in the partition of the evil one");
    // A restart is no way to go on, nor to stop again: half of it comes before one.
    for (round, sessions) in [(0, 0..SESSIONS / 2), (1, SESSIONS / 2..SESSIONS)] {
        produce(&world, &evil(round * 60..round * 60 + 60));
        produce(&world, &events(sessions.clone()));
        let running = Running::start(&world, &scratch);
        let expected: BTreeSet<String> = (0..sessions.end).map(|session| format!("s{session}")).collect();
        let deadline = Deadline::after(PATIENCE);
        loop {
            let found: BTreeSet<String> = repeats(&world.read(&world.options.topics.commands)).into_iter().collect();
            let missing: Vec<&String> = expected.difference(&found).take(15).collect();
            if missing.is_empty() {
                break;
            }
            assert!(!deadline.is_over(), "never seen: {missing:?}\n{}", scratch.log());
        }
        until(&world, &world.options.topics.dead_letters, (round + 1) * 60);
        let log = scratch.log();
        let line = log.lines().find(|line| line.contains("\"listening\"")).expect("it listens");
        let line: Value = serde_json::from_str(line).expect("a whole line");
        // All is judged, and tasks that had nothing to judge may still restore: none of them stops.
        let ready = || surface::answer(line["address"].as_str().expect("an address"), "/readyz");
        while !ready().starts_with("HTTP/1.1 200 ") {
            assert!(!deadline.is_over(), "{}", ready());
        }
        assert!(!log.contains("E0301"), "{log}");
        assert_eq!(running.end("TERM"), Some(0), "{}", scratch.log());
    }
}
