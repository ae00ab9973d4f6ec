//! A swarm's verdicts: what is in force, what a reset lifts, and what is told under another policy.

use loopwarden::engine::{IdentityRecipe, SwarmCallKey};
use loopwarden::identity::{CallRules, Hash128};
use loopwarden::{store::report::report_key, store::swarm};
use loopwarden_sim::MemoryTopic;
use serde_json::Value;

use crate::swarm::{
    MINUTE_MS, START_MS, direct, failing, feed, ids, key, policy, report, report_of, reset, settle, swarm_task, told,
};
use crate::world::TestWorld;

const BLOCK: &str = "mode = \"block\"\nthreshold = 2\nblock_at = 4\nworkers_min = 1\n";

/// Calls of a swarm that a worker can match: what it cannot match it is not told to refuse.
fn calls(world: &mut TestWorld, agents: &[&str], after_ms: i64) {
    report_of(world, IdentityRecipe::Args(CallRules::default()), &key("w", 1), agents, START_MS + after_ms);
    settle(world);
}

fn actions(world: &TestWorld) -> Vec<String> {
    told(world).iter().map(|(_, command)| command["action"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_reset_lifts_the_block_of_a_swarm_once_and_what_is_told_then_comes_after_it() {
    let mut world = direct(&format!("[detectors.swarm_repeat]\n{BLOCK}"));
    world.start("a", 1);
    calls(&mut world, &["a", "b"], 1_000);
    calls(&mut world, &["c", "d"], 1_100);
    reset(&world, 0, "w", START_MS + 2_000);
    settle(&mut world);
    assert_eq!(actions(&world), ["nudge", "block", "unblock"]);
    let told_so_far = told(&world);
    let [_, (_, block), (_, unblock)] = &told_so_far[..] else { panic!() };
    assert_eq!((&unblock["epoch"], &unblock["seq"]), (&block["epoch"], &Value::from(3)), "above the block");
    for same in ["scope", "episode", "expires_at", "level"] {
        assert_eq!(unblock[same], block[same], "{same}");
    }
    assert_eq!(unblock["reason"]["code"], "reset");
    let rows = world.broker.committed(MemoryTopic::State);
    assert!(rows.last().unwrap().value.is_none(), "nothing is in force");
    // What loops on is a loop of its own, and above the `unblock`.
    calls(&mut world, &["a", "b"], 3_000);
    let (_, nudge) = told(&world).pop().unwrap();
    assert_eq!((&nudge["action"], &nudge["epoch"]), (&"nudge".into(), &Value::from(START_MS + 2_000)));
    assert_eq!(nudge["episode"], nudge["id"]);
    // There is no block to lift now.
    reset(&world, 0, "w", START_MS + 4_000);
    settle(&mut world);
    assert_eq!(ids(&world).len(), 4);
    // When nothing of the period can come any more, nothing is left of all this.
    report(&world, &key("v", 1), &["a"], START_MS + 80 * MINUTE_MS);
    settle(&mut world);
    assert!(swarm::load(world.store_of(swarm_task(0)), swarm_task(0), &report_key(&key("w", 1))).unwrap().is_none());
}

#[test]
fn a_reset_of_before_what_a_swarm_was_told_lifts_its_block_by_the_next_word_of_that_period() {
    let mut world = direct(&format!("[detectors.swarm_repeat]\n{BLOCK}"));
    world.start("a", 1);
    let period_ms = START_MS - START_MS.rem_euclid(10 * MINUTE_MS) + 10 * MINUTE_MS;
    report_of(&world, IdentityRecipe::Args(CallRules::default()), &key("w", 1), &["a", "b", "c", "d"], period_ms + 1_000);
    settle(&mut world);
    reset(&world, 0, "w", period_ms - 1_000);
    settle(&mut world);
    let told = told(&world);
    let numbers: Vec<_> =
        told.iter().map(|(_, command)| (command["action"].as_str().unwrap(), &command["epoch"], &command["seq"])).collect();
    let (epoch, seqs) = (Value::from(period_ms), [1, 2, 3].map(Value::from));
    assert_eq!(numbers, [("nudge", &epoch, &seqs[0]), ("block", &epoch, &seqs[1]), ("unblock", &epoch, &seqs[2])]);
}

#[test]
fn a_block_is_lifted_however_long_ago_its_period_was() {
    let mut world = direct(&format!("[episodes]\nblock_ms = 7_200_000\n[detectors.swarm_repeat]\n{BLOCK}"));
    world.start("a", 1);
    calls(&mut world, &["a", "b", "c", "d"], 1_000);
    // Its panes are gone after an hour, and its period would be, ten minutes later.
    reset(&world, 0, "w", START_MS + 110 * MINUTE_MS);
    settle(&mut world);
    assert_eq!(actions(&world), ["nudge", "block", "unblock"]);
    calls(&mut world, &["a", "b", "c", "d"], 111 * MINUTE_MS);
    assert_eq!(actions(&world)[3..], ["nudge", "block"]);
    // A block that expires takes its period with it.
    report(&world, &key("v", 1), &["a"], START_MS + 300 * MINUTE_MS);
    settle(&mut world);
    assert!(swarm::load(world.store_of(swarm_task(0)), swarm_task(0), &report_key(&key("w", 1))).unwrap().is_none());
}

#[test]
fn two_resets_of_one_commit_are_those_of_two() {
    let commands = |in_one: bool| {
        let mut world = direct(&format!("[detectors.swarm_repeat]\n{BLOCK}"));
        world.start("a", 1);
        calls(&mut world, &["a", "b", "c", "d"], 1_000);
        // The block has expired when the second of them was sent.
        for (number, after_ms) in [(1, MINUTE_MS), (2, 20 * MINUTE_MS)] {
            let time_ms = START_MS + after_ms;
            let reset =
                format!(r#"{{"id":"{number}","session_id":"s","swarm_id":"w","time":{time_ms},"kind":"reset","scope":"swarm"}}"#);
            feed(&world, "s", &reset, time_ms);
            if !in_one {
                settle(&mut world);
            }
        }
        settle(&mut world);
        assert_eq!(actions(&world), ["nudge", "block", "unblock"]);
        told(&world)
    };
    assert_eq!(commands(true), commands(false));
}

#[test]
fn what_is_lifted_was_issued_before() {
    let mut world = direct(&format!("[detectors.swarm_repeat]\n{BLOCK}"));
    world.start("a", 1);
    // Producers whose clock is five minutes slow: what they are told is of the time of their records.
    let record_ms = |time_ms: i64| time_ms + 5 * MINUTE_MS;
    for number in 0..4 {
        let session = format!("s{number}");
        feed(&world, &session, &failing(&session, 0, "w", "http://dead", START_MS), record_ms(START_MS));
    }
    settle(&mut world);
    let time_ms = START_MS + MINUTE_MS;
    let reset = format!(r#"{{"id":"r","session_id":"s","swarm_id":"w","time":{time_ms},"kind":"reset","scope":"swarm"}}"#);
    feed(&world, "s", &reset, record_ms(time_ms));
    settle(&mut world);
    assert_eq!(actions(&world), ["nudge", "block", "unblock"]);
    let told = told(&world);
    assert_eq!(told[2].1["issued_at"], told[1].1["issued_at"]);
}

#[test]
fn a_nudge_leaves_the_block_of_its_episode_in_force() {
    let of_mode = |mode: &str| {
        policy("default", &format!("[detectors.swarm_repeat]\n{}steps = \"double\"\n", BLOCK.replace("block\"", mode)))
    };
    let mut world = direct("");
    world.policy = of_mode("block\"");
    world.start("a", 1);
    calls(&mut world, &["a", "b", "c", "d"], 1_000);
    world.kill(0);
    world.policy = of_mode("nudge\"");
    world.restart(0);
    calls(&mut world, &["a", "b", "c", "d"], 2_000);
    let row = world.broker.committed(MemoryTopic::State).pop().unwrap().value.unwrap();
    let row: Value = serde_json::from_slice(&row).unwrap();
    assert_eq!(
        row["active"].as_array().unwrap().iter().map(|verdict| &verdict["action"]).collect::<Vec<_>>(),
        ["block", "nudge"]
    );
    reset(&world, 0, "w", START_MS + 3_000);
    settle(&mut world);
    assert_eq!(actions(&world), ["nudge", "block", "nudge", "unblock"]);
    let told = told(&world);
    assert_eq!(told[3].1["episode"], told[1].1["episode"]);
}

#[test]
fn every_block_in_force_is_lifted_where_each_period_has_one() {
    // The longest life that a policy may give to a block.
    let mut world = direct(&format!("[episodes]\nblock_ms = 7_800_000\n[detectors.swarm_repeat]\n{BLOCK}"));
    world.start("a", 1);
    // Enough for a block that is nobody's own, in each minute of two hours and a half.
    for minute in 0..150 {
        calls(&mut world, &["a", "b", "c", "d"], minute * MINUTE_MS);
    }
    reset(&world, 0, "w", START_MS + 150 * MINUTE_MS);
    settle(&mut world);
    let end_ms = START_MS + 150 * MINUTE_MS;
    let told = told(&world);
    let of = |action: &str| -> Vec<&Value> {
        told.iter().map(|(_, command)| command).filter(|command| command["action"] == action).collect()
    };
    let is_in_force = |block: &&Value| {
        let expires_at = loopwarden::event::EventTime::parse_rfc3339(block["expires_at"].as_str().unwrap()).unwrap();
        expires_at.0 > end_ms
    };
    let blocks: Vec<&Value> = of("block").into_iter().filter(is_in_force).map(|block| &block["episode"]).collect();
    assert!((12..=16).contains(&blocks.len()), "{}", blocks.len());
    assert_eq!(of("unblock").into_iter().map(|unblock| &unblock["episode"]).collect::<Vec<_>>(), blocks);
    assert_eq!(ids(&world).len(), told.len());
}

#[test]
fn what_was_counted_before_a_detector_was_switched_off_tells_nothing() {
    let mut world = direct("[detectors.swarm_repeat]\nmode = \"off\"\n[detectors.fleet_rate]\nmode = \"block\"\nlimit = 0\n");
    world.start("a", 1);
    let fleet = SwarmCallKey::Fleet { tenant: String::new(), fingerprint: Hash128(1) };
    let agents: Vec<String> = (0..100).map(|number| format!("a{number}")).collect();
    let agents: Vec<&str> = agents.iter().map(String::as_str).collect();
    for key in [key("w", 1), fleet] {
        report_of(&world, IdentityRecipe::Args(CallRules::default()), &key, &agents, START_MS);
    }
    settle(&mut world);
    assert_eq!(told(&world), []);
}
