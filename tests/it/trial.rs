//! What loops cost, and what a trial makes of it: over kills, on other processes, when the policy changes.

use std::{collections::BTreeMap, sync::Arc, thread};

use loopwarden::config::policy::{load, load_with_overrides};
use loopwarden::engine::{Cost, Effects, Input, Session, SessionEngine, SourcePosition, SubjectKey, TrialSums};
use loopwarden::event::{EventTime, decode};
use loopwarden::policy::{Arm, Detector, Policy};
use loopwarden::task::{CommitTrigger, Stats};
use serde_json::{Value, json};

use crate::world::{Fed, TestWorld, config, feed, outputs_by_task, reference_under, settings};
use crate::{decode::record, golden::RULES, random::Random};

/// Sessions of the suite; `LOOPWARDEN_BILL_SESSIONS` says how many others.
const SESSIONS: u64 = 10_000;
const START_MS: i64 = 1_795_291_200_000;

/// Events of a session that may loop, whose sources say what they cost in whatever way.
fn hostile(random: &mut Random) -> Vec<String> {
    let mut open = Vec::new();
    let number = 4 + random.below(28);
    let events = (0..number).map(|at| {
        let usage = match random.below(8) {
            0 => json!({}),
            1 => json!({ "input_tokens": 1_u64 << 52, "output_tokens": 1_u64 << 52 }),
            _ => json!({ "input_tokens": random.below(50), "output_tokens": random.below(50), "cost_usd": random.below(9) as f64 / 8.0 }),
        };
        let tool = random.pick(&["a", "a", "b"]);
        let (call_id, args, result) = (format!("c{at}"), json!({ "q": random.below(2) }), random.pick(&["same", "same", "other"]));
        let mut event = match random.below(16) {
            0..=4 => {
                open.push(call_id.clone());
                json!({ "kind": "tool_call", "tool": tool, "call_id": call_id, "args": args })
            }
            5..=8 if !open.is_empty() => {
                // Now and then the call stays open, and another result may come.
                let at = random.below(open.len());
                let call_id = if random.below(4) == 0 { open[at].clone() } else { open.swap_remove(at) };
                json!({ "kind": random.pick(&["tool_result", "tool"]), "tool": tool, "call_id": call_id, "outcome": random.pick(&["ok", "error", "denied"]), "result": result })
            }
            12 => json!({ "kind": "message", "role": random.pick(&["assistant", "user"]), "text": random.pick(&["I try again.", "Go on."]) }),
            13 => json!({ "kind": random.pick(&["session_start", "session_end", "progress"]) }),
            14 => json!({ "kind": "reset", "scope": "agent" }),
            _ => json!({ "kind": "tool", "tool": tool, "args": args, "outcome": random.pick(&["ok", "error"]), "result": result }),
        };
        // An event may come twice.
        let id = if random.below(12) == 0 { at.saturating_sub(1) } else { at };
        let more = json!({ "id": format!("e{id}"), "session_id": "s", "time": START_MS + 1_000 * at as i64, "turn": at / 3, "usage": usage });
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event.to_string()
    });
    events.collect()
}

/// Costs of a session that was judged: in all, and in loops.
fn judged(policy: &Arc<Policy>, events: &[String]) -> [Cost; 2] {
    let engine = SessionEngine::new("lw", Arc::clone(policy));
    let (mut session, mut effects) = (Session::new(policy.history_steps), Effects::default());
    let (mut all, mut in_loops) = (Cost::default(), Cost::default());
    for (at, json) in events.iter().enumerate() {
        let mut meta = record(&[]);
        meta.timestamp = EventTime(START_MS + 1_000 * at as i64);
        let event = decode(Some(json.as_bytes()), &meta).unwrap_or_else(|rejected| panic!("{rejected}: {json}"));
        effects.clear();
        let place = SourcePosition { topic: "t", partition: 0, offset: at as u64, watermark: event.time };
        engine.apply(&SubjectKey::of_event(&event), &mut session, Input::Event(&event, place), &mut effects);
        all = all.and(effects.spending.event);
        in_loops = in_loops.and(effects.spending.in_loops());
        for detector in Detector::ALL {
            assert!(is_within(effects.spending.in_loops_of(detector.bit()), all), "{detector:?} at {at} of {events:#?}");
        }
        assert!(is_within(in_loops, all), "{in_loops:?} of {all:?} at {at} of {events:#?}");
    }
    [all, in_loops]
}

fn is_within(part: Cost, whole: Cost) -> bool {
    part.calls <= whole.calls && part.tokens <= whole.tokens && part.micro_usd <= whole.micro_usd
}

#[test]
fn what_loops_cost_is_never_above_what_their_session_did() {
    let asked = std::env::var("LOOPWARDEN_BILL_SESSIONS").map_or(SESSIONS, |number| number.parse().unwrap());
    let policies = ["default", RULES, "hackeurope", "ironcurtain"].map(|profile| Arc::new(load(profile).unwrap()));
    let work = |from: u64| {
        let (mut loops, mut whole) = (0_u64, 0_u64);
        for seed in (from..asked).step_by(2) {
            let events = hostile(&mut Random(seed));
            let [all, in_loops] = judged(&policies[(seed / 2 % 4) as usize], &events);
            loops += u64::from(in_loops.calls > 0);
            whole += u64::from(all.tokens > 0);
        }
        (loops, whole)
    };
    let (loops, whole) = thread::scope(|scope| {
        let other = scope.spawn(|| work(1));
        let (one, other) = (work(0), other.join().unwrap());
        (one.0 + other.0, one.1 + other.1)
    });
    println!("{asked} sessions, {loops} of them with loops, {whole} with tokens");
    assert!(loops > asked / 10 && whole > asked / 2, "{loops} with loops, {whole} with tokens of {asked}");
}

fn policy(trial: &Value) -> Arc<Policy> {
    let overrides = json!({ "only": ["exact_repeat"], "trial": trial });
    Arc::new(load_with_overrides(RULES, &overrides).unwrap())
}

/// A call of a session at a step of the stream.
fn call(session: &str, at: i64, args: &str) -> Fed {
    let event = json!({
        "id": format!("{session}-{at}"), "session_id": session, "kind": "tool", "tool": "search", "args": { "q": args },
        "result": "nothing", "usage": { "input_tokens": 9, "output_tokens": 1, "cost_usd": 0.5 },
    });
    (session.to_owned(), Some(event.to_string().into_bytes()), START_MS + 1_000 * at)
}

/// Sixty agents side by side: each makes one call seven times and works on, but for every third, which ends in the loop.
fn agents() -> Vec<Fed> {
    let sessions: Vec<String> = (0..60).map(|at| format!("s{at}")).collect();
    let mut records = Vec::new();
    for at in 0..18 {
        for (number, session) in sessions.iter().enumerate() {
            let same = at < 7 || number % 3 == 0;
            records.push(call(session, at, &if same { "the same".to_owned() } else { format!("{at}") }));
        }
    }
    for session in &sessions {
        let end = json!({ "id": format!("{session}-end"), "session_id": session, "kind": "session_end" });
        records.push((session.clone(), Some(end.to_string().into_bytes()), START_MS + 60_000));
    }
    records
}

/// Counters of all processes, each since its start, and of those that are gone.
fn stats(world: &TestWorld) -> Stats {
    let mut sum = Stats::default();
    world.processes.iter().flat_map(|process| &process.lanes).flatten().for_each(|lane| sum.add(&lane.stats()));
    sum
}

/// Arm, mode and text of the commands of each session.
fn arms(world: &TestWorld) -> BTreeMap<String, Vec<(String, String, String)>> {
    let mut arms: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for seen in outputs_by_task(&world.broker).values().flatten() {
        let command: Value = serde_json::from_slice(seen.value.as_ref().unwrap()).unwrap();
        // What lifts a block is of no arm.
        if command["action"] == "unblock" {
            continue;
        }
        let word = |name: &str| command[name].as_str().unwrap_or_default().to_owned();
        arms.entry(word("session_id")).or_default().push((word("trial"), word("mode"), word("message")));
    }
    arms
}

#[test]
fn arms_and_what_becomes_of_their_agents_are_the_same_on_another_process_and_after_a_kill() {
    let (policy, records) = (policy(&json!({ "share": 0.3, "salt": "0123456789abcdef" })), agents());
    let start = |name: &str, lanes| {
        let mut world = TestWorld::new(config(7), settings(CommitTrigger::Timed { max_ms: 100, min_ms: 2 }));
        world.policy = Arc::clone(&policy);
        world.start(name, lanes);
        world
    };
    let mut whole = start("whole", 1);
    feed(&whole.broker, &records);
    assert!(whole.settle());
    let expected = stats(&whole);

    // Killed three times amid loops; then another process goes on, on an empty disk, with two lanes.
    let mut world = start("a", 1);
    let mut gone = Stats::default();
    for part in records[..records.len() / 2].chunks(170) {
        feed(&world.broker, part);
        assert!(world.settle());
        gone.add(&stats(&world));
        world.restart(0);
    }
    world.kill(0);
    world.processes.remove(0);
    world.start("b", 2);
    feed(&world.broker, &records[records.len() / 2..]);
    assert!(world.settle());
    world.audit();
    gone.add(&stats(&world));
    let of = |stats: &Stats| (stats.trial.clone(), stats.loop_calls, stats.loop_tokens, stats.loop_cost_micro_usd);
    assert_eq!(of(&gone), of(&expected));
    world.outcome().assert_is(&reference_under(Arc::clone(&policy), &records), "trial");

    // Each arm has agents, two of three went on, and each command names the arm that names alone give.
    let by_arm = |sums: &TrialSums, arm| sums.get(Detector::ExactRepeat, arm).all();
    for arm in Arm::ALL {
        let found = by_arm(&expected.trial, arm);
        assert!(found.agents > 5 && found.went_on > 0 && found.went_on < found.agents, "{arm:?}: {found:?}");
    }
    assert_eq!(Arm::ALL.map(|arm| by_arm(&expected.trial, arm).agents).iter().sum::<u64>(), 60);
    for (session, commands) in arms(&world) {
        let arm = policy.trial.arm("", &session).unwrap();
        for (word, mode, _) in commands {
            assert_eq!((word.as_str(), mode.as_str()), (arm.as_str(), if arm == Arm::Control { "shadow" } else { "live" }));
        }
    }
}

/// The commands of a session in the control arm of a trial that ends or changes within its loop: after so many equal calls.
fn after(calls: i64, next: &Value) -> (Vec<(String, String, String)>, Stats) {
    let mut world = TestWorld::new(config(500), settings(CommitTrigger::Timed { max_ms: 100, min_ms: 2 }));
    world.policy = policy(&json!({ "share": 1.0, "salt": "0123456789abcdef" }));
    world.start("lw", 1);
    let calls_of = |from, to| (from..to).map(|at| call("s", at, "the same")).collect::<Vec<Fed>>();
    feed(&world.broker, &calls_of(0, calls));
    assert!(world.settle());
    world.policy = policy(next);
    world.restart(0);
    feed(&world.broker, &calls_of(calls, 12));
    assert!(world.settle());
    let stats = stats(&world);
    (arms(&world).remove("s").unwrap(), stats)
}

#[test]
fn a_control_arm_leaves_nothing_behind_when_its_trial_is_over() {
    // Eight calls: a nudge that nobody was sent. Then the same agent is nudged before it is blocked, as any other.
    let (commands, stats) = after(8, &json!({}));
    let shown: Vec<(&str, &str)> = commands.iter().map(|(arm, mode, _)| (arm.as_str(), mode.as_str())).collect();
    assert_eq!(shown.first(), Some(&("control", "shadow")));
    let first = shown.iter().position(|shown| *shown == ("", "live")).unwrap();
    assert!(commands[first].2.starts_with("[System] ") || !commands[first].2.contains("blocked"), "{commands:?}");
    assert_eq!(stats.trial, TrialSums::default(), "nothing is known of an agent that has left its arm");
    // While the trial stands nothing of it is sent.
    let (commands, _) = after(8, &json!({ "share": 1.0, "salt": "0123456789abcdef" }));
    assert!(commands.iter().all(|(arm, mode, _)| (arm.as_str(), mode.as_str()) == ("control", "shadow")), "{commands:?}");
}
