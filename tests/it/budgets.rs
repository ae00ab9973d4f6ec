//! Budgets above a session through the whole pipeline: many partitions and processes, one sum, and what is told at its shares.

use std::{collections::BTreeMap, sync::Arc};

use loopwarden::config::policy::load_with_overrides;
use loopwarden::engine::{SwarmCallKey, SwarmReport, UsedWindow};
use loopwarden::event::{EventTime, Stage, partition_of};
use loopwarden::policy::{Per, Policy, Used};
use loopwarden::store::report::{SwarmRecord, report_key};
use loopwarden::store::{KeyFamily, read, swarm};
use loopwarden::task::{CommitTrigger, LaneSettings, Order};
use loopwarden::whom::{Kind, Whom};
use loopwarden_guard::{Check, Client, Decision, Guard, Knowledge, Options, Source};
use loopwarden_sim::{Faults, MemoryTopic};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::cuts::{cut_anywhere, random_turn};
use crate::swarm::{MINUTE_MS, START_MS, TIMED, direct, feed, ids, policy, records, settle, stats, swarm_task, told, world};
use crate::world::{Dice, TestWorld, settings};

const DAY_MS: i64 = 24 * 60 * MINUTE_MS;

/// A policy with these budgets; each a TOML table without its header.
fn budgets(tables: &[&str]) -> String {
    tables.iter().enumerate().map(|(number, table)| format!("[[budget]]\nname = \"b{number}\"\n{table}\n")).collect()
}

/// A call of a session, with what it used.
fn call(session: &str, id: usize, time_ms: i64, more: &Value) -> String {
    let mut event = json!({
        "id": format!("{session}-{id}"), "session_id": session, "time": time_ms, "kind": "tool", "tool": "t",
        "args": { "n": format!("{session}{id}") }, "result": format!("{session} {id}")
    });
    event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    event.to_string()
}

fn make(world: &TestWorld, session: &str, id: usize, time_ms: i64, more: &Value) {
    feed(world, session, &call(session, id, time_ms, more), time_ms);
}

/// What was told: action and mode, step, seq.
fn steps(world: &TestWorld) -> Vec<(String, u64)> {
    let told = told(world).into_iter();
    told.map(|(_, command)| {
        let step = command["reason"]["evidence"]["step"].as_str().unwrap_or("-");
        let (action, mode) = (command["action"].as_str().unwrap(), command["mode"].as_str().unwrap());
        (format!("{step} {action} {mode}"), command["seq"].as_u64().unwrap())
    })
    .collect()
}

fn expected(steps: &[(&str, u64)]) -> Vec<(String, u64)> {
    steps.iter().map(|(step, seq)| ((*step).to_owned(), *seq)).collect()
}

/// Sums as the stores hold them, by counter and window.
fn sums(world: &TestWorld) -> BTreeMap<(Vec<u8>, i64), Used> {
    let mut sums = BTreeMap::new();
    for task in world.tasks.iter().copied().filter(|task| task.stage == Stage::Swarm) {
        let store = world.store_of(task);
        for key in records(store, task, KeyFamily::SwarmCounter).into_keys() {
            let counter = swarm::load(store, task, &key).unwrap().unwrap().counter;
            let used = counter.panes.into_iter().filter_map(|(start, pane)| Some((start.0, pane.used?)));
            sums.extend(used.map(|(start, used)| ((key.clone(), start), used)));
        }
    }
    sums
}

/// A guard that knows the rows in force.
pub(crate) fn guard(world: &TestWorld, now: EventTime) -> Guard {
    let mut guard = Guard::new(Options::default());
    for row in world.broker.committed(MemoryTopic::State) {
        guard.row(row.key.as_deref().unwrap(), row.value.as_deref(), now);
    }
    guard
}

pub(crate) fn is_refused(guard: &mut Guard, event: &str, now: EventTime) -> bool {
    let event = event.replace(r#""kind":"tool""#, r#""kind":"tool_call""#);
    let check = Check::new(RawValue::from_string(event).unwrap(), Client::default());
    let mut opened = guard.open(check, now).unwrap();
    let knowledge = Knowledge { as_of: Some(now), late_ms: 0, source: Source::Kafka };
    guard.decide(&mut opened, knowledge, now).decision == Decision::Deny
}

/// All that a policy brings is told: nothing is read for it, so only time shows that a commit is due.
fn compared(world: &mut TestWorld) {
    for _ in 0..3 {
        settle(world);
        world.broker.advance(200);
    }
    settle(world);
}

/// Another policy for every lane, as a reload brings it.
fn reload(world: &mut TestWorld, policy: &Arc<Policy>) {
    world.policy = Arc::clone(policy);
    for at in 0..world.processes.len() {
        for lane in 0..world.processes[at].lanes.len() {
            let Some(found) = world.processes[at].lanes[lane].take() else { continue };
            let (sender, orders) = std::sync::mpsc::sync_channel(1);
            sender.send(Order::Policy(Arc::clone(policy))).unwrap();
            world.processes[at].lanes[lane] = Some(found.with_orders(orders));
        }
    }
    compared(world);
}

const CALLS: &str = "scope = \"tenant\"\nmode = \"block\"\ncalls = 10\nnudge_share = 0.9";

/// A call of an agent that another one has started.
fn child(root: &str) -> Value {
    json!({ "agent": { "root_id": root } })
}

#[test]
fn each_tree_has_the_budget_by_itself_and_all_its_agents_are_bound() {
    let mut world = direct(&budgets(&[
        "scope = \"tenant\"\nper = \"tree\"\nmode = \"block\"\ncalls = 10\nwarn_share = 0.0\nnudge_share = 0.0",
    ]));
    world.start("a", 1);
    // Ten agents of one tree in as many sessions, five of another, and as many that are in none.
    for id in 0..10 {
        make(&world, &format!("one{id}"), id, START_MS + id as i64, &child("boss"));
    }
    for id in 0..5 {
        make(&world, &format!("two{id}"), id, START_MS + id as i64, &child("other"));
        make(&world, "alone", id, START_MS + id as i64, &json!({}));
    }
    settle(&mut world);
    assert_eq!(steps(&world), expected(&[("block block live", 1)]));
    let (_, block) = told(&world).pop().unwrap();
    assert_eq!(block["scope"], json!({ "kind": "tree", "name": "boss", "by": "budget/b0/tree" }));
    let now = EventTime(START_MS + 1_000);
    let mut guard = guard(&world, now);
    let is_bound = |guard: &mut Guard, session: &str, more: &Value| is_refused(guard, &call(session, 99, START_MS, more), now);
    assert!(is_bound(&mut guard, "new", &child("boss")) && is_bound(&mut guard, "boss", &json!({})), "the root too");
    assert!(is_bound(&mut guard, "new", &json!({ "agent": { "parent_id": "boss" } })), "whom the root started");
    assert!(!is_bound(&mut guard, "new", &child("other")) && !is_bound(&mut guard, "alone", &json!({})));
}

#[test]
fn so_many_agents_as_a_budget_allows_are_started() {
    let table = "scope = \"tenant\"\nper = \"tree\"\nmode = \"block\"\nagents = 3\nwarn_share = 0.0\nnudge_share = 0.0";
    let mut world = direct(&budgets(&[table]));
    world.start("a", 1);
    // An agent counts when it first shows itself, however often it calls; the root was started by nobody.
    for (id, session) in ["one", "one", "two", "boss", "two"].into_iter().enumerate() {
        let more = if session == "boss" { json!({}) } else { child("boss") };
        make(&world, session, id, START_MS + id as i64, &more);
    }
    settle(&mut world);
    assert!(steps(&world).is_empty());
    make(&world, "three", 5, START_MS + 5, &child("boss"));
    settle(&mut world);
    assert_eq!(steps(&world), expected(&[("block block live", 1)]));
    let (_, block) = told(&world).pop().unwrap();
    let evidence = &block["reason"]["evidence"];
    assert_eq!((&evidence["quantity"], &evidence["count"], &evidence["threshold"]), (&"agents".into(), &3.into(), &3.into()));
}

#[test]
fn people_are_warned_the_agents_nudged_then_blocked_to_the_end_of_the_window() {
    let mut world = direct(&budgets(&[CALLS]));
    world.start("a", 1);
    let tenant = json!({ "tenant": "acme" });
    for (number, told) in [(7, 0), (8, 1), (9, 2), (10, 3), (11, 3)] {
        let made = if number == 7 { 0..7 } else { number - 1..number };
        for id in made {
            make(&world, &format!("s{}", id % 3), id, START_MS + id as i64, &tenant);
        }
        settle(&mut world);
        assert_eq!(steps(&world).len(), told, "{number}");
    }
    assert_eq!(steps(&world), expected(&[("warn nudge shadow", 1), ("nudge nudge live", 2), ("block block live", 3)]));
    let (_, block) = told(&world).pop().unwrap();
    let day = EventTime(START_MS - START_MS.rem_euclid(DAY_MS));
    assert_eq!(block["scope"], json!({ "kind": "tenant", "by": "budget/b0/day" }));
    assert_eq!((&block["tenant"], &block["level"], &block["epoch"]), (&"acme".into(), &4.into(), &day.0.into()));
    assert_eq!(block["expires_at"], day.plus_ms(DAY_MS).to_rfc3339());
    assert_eq!((&block["reason"]["evidence"]["count"], &block["reason"]["evidence"]["threshold"]), (&10.into(), &10.into()));
    // Every agent of the tenant is refused, whatever it calls, and nobody else; until the day is over.
    let now = EventTime(START_MS + 1_000);
    let mut guard = guard(&world, now);
    let of = |tenant: &str| call("new", 1, START_MS, &json!({ "tenant": tenant }));
    assert!(is_refused(&mut guard, &of("acme"), now));
    assert!(!is_refused(&mut guard, &of("other"), now));
    assert!(!is_refused(&mut guard, &of("acme"), day.plus_ms(DAY_MS)));
    // The next day begins with nothing.
    make(&world, "s1", 99, START_MS + DAY_MS, &tenant);
    settle(&mut world);
    assert_eq!(steps(&world).len(), 3);
}

/// The name of those whom a command means, wherever it stands.
fn name_of(command: &Value) -> &Value {
    let names = [&command["session_id"], &command["swarm_id"], &command["scope"]["name"]];
    names.into_iter().find(|name| !name.is_null()).unwrap_or(&Value::Null)
}

#[test]
fn each_scope_adds_up_its_own_and_in_its_own_windows() {
    let tables = [
        "scope = \"agent\"\nper = \"hour\"\ncalls = 4",
        "scope = \"swarm\"\nper = \"minute\"\ncost_usd = 0.3",
        "scope = \"label:team\"\nnames = [\"search\"]\nper = \"week\"\ntokens = 300",
        "scope = \"tenant\"\nper = \"session\"\nwall_ms = 9_000",
        "scope = \"tenant\"\nmode = \"shadow\"\ncalls = 5\nwarn_share = 0.0",
    ];
    let mut world = direct(&budgets(&tables));
    world.start("a", 1);
    for id in 0..6 {
        let session = format!("s{}", id % 2);
        let more = json!({
            "agent": { "id": (["x", "y"][id % 2]) }, "swarm_id": "w", "labels": { "team": (["search", "ads"][id % 2]) },
            "usage": { "input_tokens": 80, "output_tokens": 20, "cost_usd": 0.1 }
        });
        make(&world, &session, id, START_MS + 2_000 * id as i64, &more);
    }
    settle(&mut world);
    let by: Vec<(String, String)> = told(&world)
        .into_iter()
        .filter(|(_, command)| command["reason"]["evidence"]["step"] != "warn")
        .map(|(_, command)| {
            let (by, name) = (&command["scope"]["by"], name_of(&command).as_str().unwrap_or_default().to_owned());
            (format!("{} {name}", by.as_str().unwrap()), command["mode"].to_string())
        })
        .collect();
    let live = |group: &str| (group.to_owned(), "\"live\"".to_owned());
    let mut expected = vec![
        live("budget/b1/minute w"),
        live("budget/b2/week team=search"),
        ("budget/b4/day ".to_owned(), "\"shadow\"".to_owned()),
        ("budget/b4/day ".to_owned(), "\"shadow\"".to_owned()),
    ];
    let mut by = by;
    by.sort();
    expected.sort();
    assert_eq!(by, expected);
    // Three calls of each agent are below four; the sessions ran for four seconds, and run on.
    for (id, session) in ["s0", "s1"].iter().enumerate() {
        make(&world, session, 10 + id, START_MS + 12_000 + id as i64, &json!({ "agent": { "id": "x" } }));
    }
    settle(&mut world);
    let more: Vec<String> = told(&world)
        .iter()
        .filter(|(_, command)| command["reason"]["evidence"]["step"] == "nudge")
        .map(|(_, command)| format!("{} {}", command["scope"]["by"], name_of(command)))
        .collect();
    for group in [r#""budget/b0/hour" "x""#, r#""budget/b3/session" "s0""#, r#""budget/b3/session" "s1""#] {
        assert!(more.iter().any(|told| told == group), "{group} {more:?}");
    }
}

/// Calls of a small fleet over most of an hour; one partition far behind.
fn calls(seed: u64, count: usize) -> Vec<(String, String, i64)> {
    let dice = Dice::new(seed);
    (0..count)
        .map(|number| {
            let session = format!("s{}", dice.below(25));
            // Clocks of agents differ: the first use of a session is not that of its first event.
            let agent = dice.below(3);
            let time_ms = START_MS + number as i64 * (50 * MINUTE_MS / count as i64) - 20_000 * agent as i64;
            let more = json!({
                "tenant": (["a", "b"][dice.below(2) as usize]), "swarm_id": format!("w{}", dice.below(2)),
                "agent": { "id": format!("x{agent}") }, "labels": { "team": format!("t{}", dice.below(2)) },
                "usage": { "input_tokens": dice.below(1_000), "output_tokens": 7, "cost_usd": dice.below(100) as f64 / 1_000.0 }
            });
            let json = call(&session, number, time_ms, &more);
            (session, json, time_ms)
        })
        .collect()
}

#[test]
fn what_a_budget_says_depends_on_no_cut_no_lag_and_no_fault() {
    let tables = [
        "scope = \"tenant\"\nmode = \"block\"\ncost_usd = 3.0",
        "scope = \"agent\"\nper = \"hour\"\nmode = \"block\"\ntokens = 20_000",
        "scope = \"swarm\"\nper = \"minute\"\ncalls = 5",
        "scope = \"label:team\"\nper = \"week\"\nmode = \"block\"\nwall_ms = 1_000_000",
        "scope = \"tenant\"\nper = \"session\"\nmode = \"block\"\ncalls = 9",
    ];
    let policy = policy("default", &budgets(&tables));
    for seed in 0..20 {
        let dice = Dice::new(seed ^ 0xcafe);
        let calls = calls(seed, 300);
        let mut expected = world((8, 3), Arc::clone(&policy), settings(CommitTrigger::EveryRecords(1)));
        for (session, json, time_ms) in &calls {
            feed(&expected, session, json, *time_ms);
        }
        expected.start("ref", 1);
        settle(&mut expected);

        let settings = cut_anywhere(&dice, settings);
        let mut world = world((8, 3), Arc::clone(&policy), settings);
        world.broker.set_faults(Faults::seed(seed, 5 + dice.below(40) as u32));
        for name in ["a", "b"] {
            world.start(name, 1 + dice.below(2) as usize);
        }
        let (late, early): (Vec<_>, Vec<_>) = calls.iter().partition(|(session, ..)| partition_of(session.as_bytes(), 8) == 0);
        for (session, json, time_ms) in early {
            feed(&world, session, json, *time_ms);
            for _ in 0..dice.below(4) {
                random_turn(&mut world, &dice, 30);
            }
            if dice.below(100) == 0 {
                world.restart(dice.below(2) as usize);
            }
        }
        for (session, json, time_ms) in late {
            feed(&world, session, json, *time_ms);
        }
        world.broker.set_faults(Faults::none());
        settle(&mut world);
        assert!(ids(&expected).len() > 10, "seed {seed}");
        assert_eq!(ids(&world), ids(&expected), "seed {seed}");
        assert_eq!(sums(&world), sums(&expected), "seed {seed}");
        let days = sums(&world).into_iter().filter(|((key, _), _)| key.windows(4).any(|part| part == b"\x1fday"));
        assert_eq!(days.map(|(_, used)| used.calls).sum::<u64>(), 300, "seed {seed}");
        assert_eq!(stats(&world).swarm_late, 0);
    }
}

#[test]
fn a_raised_budget_lifts_its_block_at_once_and_goes_on_from_its_sum() {
    let of = |calls: u32| {
        policy("default", &budgets(&[&format!("scope = \"tenant\"\nmode = \"block\"\ncalls = {calls}\nwarn_share = 0.0")]))
    };
    for by_restart in [false, true] {
        let mut world = world((3, 2), of(5), settings(TIMED));
        world.start("a", 2);
        for id in 0..6 {
            make(&world, &format!("s{id}"), id, START_MS + id as i64, &json!({}));
        }
        settle(&mut world);
        let change = |world: &mut TestWorld, policy: Arc<Policy>| {
            if by_restart {
                world.policy = policy;
                world.restart(0);
                compared(world);
            } else {
                reload(world, &policy);
            }
        };
        assert_eq!(steps(&world), expected(&[("nudge nudge live", 1), ("block block live", 2)]));
        // Nobody calls: the block is lifted all the same.
        change(&mut world, of(8));
        assert_eq!(steps(&world)[2..], expected(&[("- unblock live", 3)]));
        let (_, unblock) = told(&world).pop().unwrap();
        assert_eq!(unblock["reason"]["code"], "policy");
        assert!(world.broker.committed(MemoryTopic::State).last().unwrap().value.is_none(), "nothing is in force");
        // Two more are what is left of eight.
        for id in [6, 7] {
            make(&world, "s", id, START_MS + id as i64, &json!({}));
            settle(&mut world);
        }
        assert_eq!(steps(&world)[3..], expected(&[("nudge nudge live", 4), ("block block live", 5)]));
        // The same policy again says nothing. A lower limit blocks nobody twice, and none at all lifts the block.
        change(&mut world, of(8));
        change(&mut world, of(7));
        assert_eq!(steps(&world).len(), 5);
        change(&mut world, policy("default", ""));
        assert_eq!(steps(&world)[5..], expected(&[("- unblock live", 6)]));
        // Back again, it knows what was used: blocked without another use.
        change(&mut world, of(8));
        assert_eq!(steps(&world)[6..], expected(&[("nudge nudge live", 7), ("block block live", 8)]));
        // One of others, or of something else, is none of this tenant.
        for (scope, seq) in [("scope = \"tenant\"\nnames = [\"other\"]", 9), ("scope = \"swarm\"", 12)] {
            change(&mut world, policy("default", &budgets(&[&format!("{scope}\nmode = \"block\"\ncalls = 1")])));
            assert_eq!(steps(&world).pop().unwrap(), ("- unblock live".to_owned(), seq));
            change(&mut world, of(8));
        }
        ids(&world);
    }
}

#[test]
fn who_writes_old_times_chooses_no_window_and_a_replay_of_the_record_times_says_the_same() {
    let policy = policy("default", &budgets(&["scope = \"tenant\"\nper = \"day\"\ncalls = 10\nmode = \"block\""]));
    // Each event of another day of last week; all of half an hour ago.
    for (age_ms, apart_ms) in [(7 * DAY_MS, DAY_MS), (30 * MINUTE_MS, 0)] {
        let mut world = world((4, 3), Arc::clone(&policy), settings(TIMED));
        world.start("a", 2);
        for id in 0..12 {
            let (session, recorded) = (format!("s{id}"), START_MS + DAY_MS / 2 + id as i64 * 1_000);
            let time_ms = recorded - age_ms + id as i64 / 2 * apart_ms;
            feed(&world, &session, &call(&session, id, time_ms, &json!({})), recorded);
        }
        settle(&mut world);
        assert!(steps(&world).iter().any(|(step, _)| step == "block block live"), "{age_ms} ms old: {:?}", steps(&world));
    }
    // Recorded on those days, they are within the budget of each.
    let mut world = world((4, 3), policy, settings(TIMED));
    world.start("a", 2);
    for id in 0..12 {
        make(&world, &format!("s{id}"), id, START_MS + id as i64 / 2 * DAY_MS, &json!({}));
    }
    settle(&mut world);
    assert!(steps(&world).is_empty(), "{:?}", steps(&world));
}

#[test]
fn a_session_whose_budget_is_used_up_stays_blocked_however_long_it_pauses() {
    let mut world = direct(&budgets(&["scope = \"tenant\"\nper = \"session\"\nmode = \"block\"\ncalls = 3"]));
    world.start("a", 1);
    for id in 0..3 {
        make(&world, "s", id, START_MS + id as i64, &json!({}));
    }
    settle(&mut world);
    let now = EventTime(START_MS + 2 * DAY_MS);
    let mut guard = guard(&world, EventTime(START_MS + 3));
    assert!(is_refused(&mut guard, &call("s", 9, now.0, &json!({})), now));
    assert!(!is_refused(&mut guard, &call("other", 9, now.0, &json!({})), now));
    let (_, block) = told(&world).pop().unwrap();
    let of = |field: &str| EventTime::parse_rfc3339(block[field].as_str().unwrap()).unwrap();
    assert_eq!(of("expires_at").0 - of("issued_at").0, 7 * DAY_MS);
}

#[test]
fn a_process_that_dies_within_a_comparison_of_budgets_begins_it_anew() {
    const AGENTS: usize = 40;
    let of = |calls: u32| {
        let table = format!("scope = \"agent\"\nmode = \"block\"\ncalls = {calls}\nwarn_share = 0.0\nnudge_share = 0.0");
        policy("default", &budgets(&[&table]))
    };
    let mut world = world((1, 1), of(2), LaneSettings { overlay_bytes_max: 4_096, ..settings(TIMED) });
    world.start("a", 1);
    for id in 0..2 * AGENTS {
        let agent = json!({ "agent": { "id": format!("a{}", id % AGENTS) } });
        make(&world, &format!("s{}", id % AGENTS), id, START_MS + id as i64, &agent);
    }
    settle(&mut world);
    let count = |world: &TestWorld, action: &str| told(world).iter().filter(|(_, command)| command["action"] == action).count();
    assert_eq!(count(&world, "block"), AGENTS);
    world.policy = of(3);
    world.restart(0);
    while count(&world, "unblock") == 0 {
        world.turn(0, 0);
        world.broker.advance(1);
    }
    assert!(count(&world, "unblock") < AGENTS, "the whole comparison was one commit");
    world.restart(0);
    compared(&mut world);
    assert_eq!(count(&world, "unblock"), AGENTS, "nobody uses anything any more: who is not compared stays blocked");
    ids(&world);
}

#[test]
fn a_budget_is_exceeded_by_no_more_than_what_is_on_its_way() {
    const LIMIT: usize = 120;
    let table = format!("scope = \"tenant\"\nmode = \"block\"\ncalls = {LIMIT}\nwarn_share = 0.0");
    for seed in 0..10 {
        let dice = Dice::new(seed);
        let mut world = world((8, 3), policy("default", &budgets(&[&table])), settings(TIMED));
        world.start("a", 2);
        world.start("b", 2);
        let (mut made, mut most) = (0, 0);
        for round in 0..60 {
            world.broker.set_faults(Faults::seed(seed * 100 + round, dice.below(30) as u32));
            // Agents ask, and call where they may; then all that is on its way arrives.
            let now = EventTime(START_MS + round as i64);
            let mut guard = guard(&world, now);
            let asked = 1 + dice.below(12) as usize;
            let mut on_its_way = 0;
            for number in 0..asked {
                let session = format!("s{}", dice.below(40));
                let event = call(&session, made + number, now.0, &json!({}));
                if !is_refused(&mut guard, &event, now) {
                    feed(&world, &session, &event, now.0);
                    on_its_way += 1;
                }
            }
            made += on_its_way;
            most = most.max(on_its_way);
            if dice.below(3) == 0 {
                world.turn(0, 0);
                world.restart(dice.below(2) as usize);
            }
            world.broker.set_faults(Faults::none());
            settle(&mut world);
        }
        assert!((LIMIT..LIMIT + most).contains(&made), "seed {seed}: {made} calls, {most} on their way at most");
        assert_eq!(sums(&world).into_values().map(|used| used.calls).collect::<Vec<_>>(), [made as u64], "seed {seed}");
    }
}

/// Counters of each kind that the task of the swarm stage keeps.
fn counters(world: &TestWorld) -> [u64; 3] {
    read(world.store_of(swarm_task(0)), swarm_task(0), &[]).unwrap().unwrap()
}

/// Puts what a group used into `swarm-counts`, as a lane would.
fn used(world: &TestWorld, tenant: &str, agent: &str, used: Used) {
    let whom = Whom::new(tenant, Kind::Agent, agent);
    let key = report_key(&SwarmCallKey::Budget { budget: "b0".to_owned(), per: Per::Day, whom });
    let start = Per::Day.window_of(used.last);
    let report = SwarmRecord::Report(SwarmReport::of_use(used.last, UsedWindow { start: Some(start), used }));
    world.broker.append(swarm_task(0), Some(&key), Some(&report.encode().unwrap()), used.last.0);
}

#[test]
fn agents_without_number_push_out_no_budget_of_another_tenant() {
    const AGENTS: usize = 70_000;
    let mut world = direct(&budgets(&["scope = \"agent\"\nmode = \"block\"\ncalls = 3\nwarn_share = 0.0"]));
    world.start("a", 1);
    let at = |after_ms: usize| {
        let time = EventTime(START_MS + after_ms as i64);
        Used { calls: 1, first: time, last: time, ..Used::default() }
    };
    used(&world, "victim", "x", Used { calls: 2, ..at(0) });
    for number in 0..AGENTS {
        used(&world, "flood", &format!("y{number}"), at(60_000 + 10 * number));
        if number.is_multiple_of(5_000) {
            settle(&mut world);
        }
    }
    settle(&mut world);
    assert_eq!(counters(&world), [0, 0, 65_536]);
    assert_eq!(stats(&world).limit_swarm_keys as usize, AGENTS + 1 - 65_536);
    // What the victim had used is still known.
    used(&world, "victim", "x", at(900_000));
    settle(&mut world);
    assert_eq!(steps(&world), expected(&[("nudge nudge live", 1), ("block block live", 2)]));
    // After the day and the hour that a partition may lag nothing is left of it.
    used(&world, "victim", "x", at(2 * DAY_MS as usize));
    settle(&mut world);
    assert_eq!(counters(&world), [0, 0, 1]);
}

#[test]
fn hostile_amounts_neither_overflow_nor_count() {
    let tables = [
        "scope = \"tenant\"\nmode = \"block\"\ncost_usd = 1e9\nwarn_share = 0.0",
        "scope = \"label:team\"\ncalls = 1\nwarn_share = 0.0",
    ];
    let mut world = direct(&budgets(&tables));
    world.start("a", 1);
    let usages = [
        r#"{"cost_usd":-1}"#,
        r#"{"cost_usd":1e10}"#,
        r#"{"cost_usd":1e400}"#,
        r#"{"cost_usd":NaN}"#,
        r#"{"input_tokens":-5}"#,
        r#"{"input_tokens":1e30}"#,
        r#"{"cached_tokens":"many"}"#,
    ];
    for (id, usage) in usages.iter().enumerate() {
        let event = format!(r#"{{"id":"{id}","session_id":"s","kind":"tool","tool":"t","usage":{usage}}}"#);
        feed(&world, "s", &event, START_MS + id as i64);
    }
    settle(&mut world);
    assert_eq!(world.broker.committed(MemoryTopic::DeadLetters).len(), usages.len());
    assert_eq!(sums(&world).len(), 0);
    // A label that cannot be part of a key is nobody's.
    make(&world, "s", 0, START_MS, &json!({ "labels": { "team": "a\u{1f}b" } }));
    let most = json!({ "usage": { "input_tokens": i64::MAX, "output_tokens": i64::MAX, "cost_usd": 1e9 } });
    for id in 1..4 {
        make(&world, "s", id, START_MS + id as i64, &most);
    }
    settle(&mut world);
    let sums: Vec<Used> = sums(&world).into_values().collect();
    assert_eq!(sums.len(), 1);
    assert_eq!((sums[0].calls, sums[0].tokens, sums[0].cost_micro_usd), (4, u64::MAX, 3_000_000_000_000_000));
    assert_eq!(steps(&world).len(), 2);
}

#[test]
fn prices_fill_in_what_a_source_leaves_out_and_an_unknown_model_is_counted() {
    let prices = "[prices]\nversion = \"2026-11-27\"\n[[prices.model]]\nnames = [\"opus-*\"]\ninput_usd = 10\noutput_usd = 50.0\ncached_usd = 1.0\n\
        [[prices.model]]\nnames = [\"opus-4\"]\ninput_usd = 5.0\noutput_usd = 25.0\n";
    let mut world = direct(&(budgets(&["scope = \"tenant\"\ncost_usd = 1000.0"]) + prices));
    world.start("a", 1);
    let usage = |input: u64, cached: u64| json!({ "input_tokens": input, "cached_tokens": cached, "output_tokens": 1_000 });
    for (id, (model, usage)) in [
        (Some("opus-4"), usage(1_000_000, 400_000)),
        (Some("opus-4-5"), usage(1_000_000, 400_000)),
        (Some("haiku"), usage(500, 0)),
        (None, usage(500, 0)),
        // What a source says is taken.
        (Some("haiku"), json!({ "input_tokens": 9, "cost_usd": 2.5 })),
    ]
    .into_iter()
    .enumerate()
    {
        make(&world, "s", id, START_MS + id as i64, &json!({ "usage": usage, "agent": { "model": model } }));
    }
    settle(&mut world);
    let costs: Vec<u64> = sums(&world).into_values().map(|used| used.cost_micro_usd).collect();
    // Without a price of their own tokens of a cache cost what others do.
    assert_eq!(costs, [5_025_000 + (6_000_000 + 400_000 + 50_000) + 2_500_000]);
    assert_eq!(stats(&world).unpriced_tokens, 2 * 1_500);
}

#[test]
fn a_budget_that_makes_no_sense_is_an_error_with_its_place() {
    for (entry, expected) in [
        ("scope = \"tenant\"", "budget[0].name must be a text"),
        ("name = \"a/b\"\nscope = \"tenant\"", "budget[0].name holds \"a/b\", but must hold no /"),
        ("name = \"a\"", "budget[0].scope must be a text"),
        (
            "name = \"a\"\nscope = \"world\"",
            "budget[0].scope is \"world\", but must be one of: agent, tree, swarm, tenant, label:KEY",
        ),
        ("name = \"a\"\nscope = \"label:a=b\"", "budget[0].scope is \"label:a=b\""),
        ("name = \"a\"\nscope = \"agent\"\nper = \"session\"", "set detectors.budget"),
        (
            "name = \"a\"\nscope = \"tenant\"\nper = \"year\"",
            "budget[0].per is \"year\", but must be one of: session, tree, minute",
        ),
        ("name = \"a\"\nscope = \"tenant\"\nnames = []", "budget[0].names is empty, but must name somebody"),
        ("name = \"a\"\nscope = \"tenant\"\nnames = [\"a*b\"]", "a * may only stand at the end"),
        ("name = \"a\"\nscope = \"tenant\"\ncalls = -1", "budget[0].calls is -1, but must be at least 0"),
        ("name = \"a\"\nscope = \"tenant\"\ntokens = 1_000_000_000_000_001", "budget[0].tokens is 1000000000000001"),
        ("name = \"a\"\nscope = \"tenant\"\ncost_usd = nan", "budget[0].cost_usd is NaN, but must be between 0 and 1000000000"),
        ("name = \"a\"\nscope = \"tenant\"\ncost_usd = -0.5", "budget[0].cost_usd is -0.5"),
        ("name = \"a\"\nscope = \"tenant\"\nwarn_share = inf", "budget[0].warn_share is inf"),
        ("name = \"a\"\nscope = \"tenant\"\nnudge_share = 0.5", "none must be below one before it"),
        (
            "name = \"a\"\nscope = \"tenant\"\n[[budget]]\nname = \"a\"\nscope = \"swarm\"",
            "budget[1].name is \"a\" a second time",
        ),
        ("name = \"a\"\nscope = \"tenant\"\ncals = 1", "cals"),
        (
            "name = \"a\"\nscope = \"tenant\"\n[[prices.model]]\nnames = [\"m\"]\ninput_usd = 1.0\noutput_usd = 1.0",
            "prices.version is empty, but a table of prices must name its day",
        ),
        (
            "name = \"a\"\nscope = \"tenant\"\n[prices]\nversion = \"1\"\n[[prices.model]]\nnames = [\"m\"]\ninput_usd = -1.0\noutput_usd = 1.0",
            "prices.model[0].input_usd is -1, but must be between 0 and 1000000",
        ),
    ] {
        let overrides: toml::Table = format!("[[budget]]\n{entry}\n").parse().unwrap();
        let told = load_with_overrides("default", &overrides).unwrap_err().to_string();
        assert!(told.contains(expected), "{entry}: {told}");
    }
    let many: String = (0..33).map(|number| format!("[[budget]]\nname = \"b{number}\"\nscope = \"tenant\"\n")).collect();
    let overrides: toml::Table = many.parse().unwrap();
    let told = load_with_overrides("default", &overrides).unwrap_err().to_string();
    assert!(told.contains("budget has 33 entries, but must not have above 32"), "{told}");
}
