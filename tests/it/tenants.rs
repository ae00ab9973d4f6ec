//! Limits of tenants: what comes beyond is a dead letter, whatever restarts in between, and nobody else notices.

use std::sync::Arc;

use loopwarden::{config::policy::load_with_overrides, policy::Policy};
use loopwarden_sim::{Fault, Faults, MemoryTopic, Step};

use crate::world::{TestWorld, config, header, outputs_by_task, session_task, settings};
use crate::{golden::RULES, lane::TIMED};

const START_MS: i64 = 1_795_291_200_000;

/// The policy of the simulation, with a limit for every tenant.
pub(crate) fn limited(events_per_minute: u32) -> Arc<Policy> {
    let text = format!(
        "history_steps = 100\nopen_call_ms = 4000\nidle_ms = 20000\nended_ms = 2000\n[episodes]\nnudge_ms = 8000\nblock_ms = 8000\n\
         [[tenant]]\nnames = [\"*\"]\nevents_per_minute = {events_per_minute}\n"
    );
    let overrides: toml::Table = text.parse().unwrap();
    Arc::new(load_with_overrides(RULES, &overrides).unwrap())
}

fn world(events_per_minute: u32) -> TestWorld {
    let mut world = TestWorld::new(config(20), settings(TIMED));
    world.policy = limited(events_per_minute);
    world
}

/// A failing call, always the same one, of a session of that tenant.
fn call(world: &TestWorld, tenant: &str, number: i64, at_ms: i64) {
    let json = format!(
        r#"{{"id":"{tenant}{number}","tenant":"{tenant}","session_id":"s-{tenant}","kind":"tool","tool":"Bash","args":{{"command":"c"}},"outcome":"error","error":"boom"}}"#
    );
    world.broker.append(session_task(0), Some(b"k"), Some(json.as_bytes()), START_MS + at_ms);
}

/// Offsets of the dead letters, which are all of one reason.
fn refused(world: &TestWorld) -> Vec<u64> {
    let letters = world.broker.committed(MemoryTopic::DeadLetters);
    for letter in &letters {
        let said = ["dlq.reason", "dlq.field"].map(|name| header(letter, name).unwrap());
        assert_eq!(said, ["tenant_limit", "/tenant"]);
    }
    letters.iter().map(|letter| header(letter, "dlq.offset").unwrap().parse().unwrap()).collect()
}

#[test]
fn a_flood_is_refused_beyond_its_limit_and_the_loop_of_another_tenant_is_told_as_if_there_were_none() {
    let told = |world: &TestWorld| -> usize {
        let outputs = outputs_by_task(&world.broker);
        outputs.values().flatten().filter(|seen| seen.key == b"s-quiet").count()
    };
    let [alone, beside] = [false, true].map(|has_flood| {
        let mut world = world(10);
        for number in 0..10 {
            call(&world, "quiet", number, number * 100);
            if has_flood {
                (0..30).for_each(|more| call(&world, "loud", number * 30 + more, number * 100));
            }
        }
        world.start("lw", 1);
        assert!(world.settle(), "{:?}", world.exits);
        // 290 of 310 records are dead letters, and the task has not taken that for a bad deploy.
        assert_eq!(refused(&world).len(), if has_flood { 290 } else { 0 });
        told(&world)
    });
    assert_eq!(alone, beside);
    assert!(alone >= 2, "a loop of ten calls was told {alone} times");
}

#[test]
fn a_minute_is_one_minute_whatever_ends_in_between() {
    let mut world = world(10);
    world.start("lw", 1);
    for number in 0..6 {
        call(&world, "acme", number, number);
    }
    assert!(world.settle());
    world.kill(0);
    world.restart(0);
    for number in 6..9 {
        call(&world, "acme", number, number);
    }
    // What a transaction counted that was aborted is counted again, and once.
    world.broker.set_faults(Faults::script([(Step::Commit, Fault::Abort)]));
    assert!(world.settle());
    assert_eq!(world.broker.set_faults(Faults::none()).fired().len(), 1);
    // Another disk, which has only the changelog.
    world.kill(0);
    world.processes[0].store = Default::default();
    world.restart(0);
    for number in 9..15 {
        call(&world, "acme", number, number);
    }
    assert!(world.settle());
    assert_eq!(refused(&world), [10, 11, 12, 13, 14]);
    for number in 15..30 {
        call(&world, "acme", number, 60_000 + number);
    }
    assert!(world.settle());
    assert_eq!(refused(&world), [10, 11, 12, 13, 14, 25, 26, 27, 28, 29]);
    world.audit();
}

#[test]
fn a_reset_passes_since_it_lifts_blocks() {
    let mut world = world(4);
    for number in 0..6 {
        call(&world, "acme", number, number);
    }
    let reset = br#"{"id":"r","tenant":"acme","session_id":"s-acme","kind":"reset","scope":"session"}"#;
    world.broker.append(session_task(0), Some(b"k"), Some(reset), START_MS + 10);
    world.start("lw", 1);
    assert!(world.settle());
    assert_eq!(refused(&world), [4, 5]);
    assert_eq!(world.processes[0].lanes[0].as_ref().unwrap().stats().events.iter().sum::<u64>(), 5);
}

#[test]
fn the_last_entry_that_covers_a_tenant_decides() {
    let text = "[[tenant]]\nnames = [\"*\"]\nevents_per_minute = 9\n[[tenant]]\nnames = [\"acme\", \"big-*\"]\nevents_per_minute = 0\n\
                [[tenant]]\nnames = [\"big-one\"]\nevents_per_minute = 7\n[[tenant]]\nnames = [\"ac*\"]\nevents_per_minute = 3\n";
    let overrides: toml::Table = text.parse().unwrap();
    let limits = load_with_overrides("default", &overrides).unwrap().tenants;
    let of = |tenant| limits.events_per_minute(tenant);
    assert_eq!(["", "else", "acme", "big-two", "big-one"].map(of), [Some(9), Some(9), Some(3), None, Some(7)]);
    // The shipped policies limit nobody.
    for profile in ["default", RULES] {
        let none = toml::Table::new();
        assert_eq!(load_with_overrides(profile, &none).unwrap().tenants.events_per_minute("acme"), None);
    }
}

#[test]
fn an_entry_that_could_match_nothing_is_an_error() {
    for (entry, expected) in [
        ("names = []\nevents_per_minute = 1", "tenant[0].names is empty, but must name a tenant"),
        ("names = [\"a*b\"]\nevents_per_minute = 1", "tenant[0].names holds \"a*b\", but a * may only stand at the end"),
        ("names = [\"a**\"]\nevents_per_minute = 1", "tenant[0].names holds \"a**\", but a * may only stand at the end"),
        ("names = [\"a\"]\nevents_per_minute = -1", "tenant[0].events_per_minute is -1, but must be at least 0"),
        ("names = [\"a\"]", "tenant[0].events_per_minute must be an integer"),
    ] {
        let overrides: toml::Table = format!("[[tenant]]\n{entry}\n").parse().unwrap();
        let told = load_with_overrides("default", &overrides).unwrap_err().to_string();
        assert!(told.contains(expected), "{entry}: {told}");
    }
}
