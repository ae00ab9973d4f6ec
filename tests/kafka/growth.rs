//! `topics grow`: sessions go on where they were, whatever interrupts it, and nothing is grown over that was not read.

use std::io::{BufRead as _, BufReader};
use std::process::{Output, Stdio};
use std::{collections::BTreeMap, fs};

use loopwarden::clock::Deadline;
use loopwarden::event::{NextOffset, Stage, partition_of};
use serde_json::Value;

use crate::broker;
use crate::grown::{add_partitions, partitions};
use crate::run::{Running, Scratch, produce, program};
use crate::world::{PATIENCE, World, session};

const SESSIONS: u32 = 40;

/// Equal calls that fail, of each session: which of them.
fn calls(numbers: std::ops::Range<u32>) -> Vec<(String, Option<Vec<u8>>)> {
    let call = |session: u32, number: u32| {
        let event = format!(
            r#"{{"id":"s{session}-{number}","kind":"tool","session_id":"s{session}","time":"2026-01-05T10:00:{number:02}Z","tool":"Bash","args":{{"command":"make"}},"result":"no rule","outcome":"error"}}"#
        );
        (format!("s{session}"), Some(event.into_bytes()))
    };
    numbers.flat_map(|number| (0..SESSIONS).map(move |session| call(session, number))).collect()
}

fn directory(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    fs::create_dir_all(&scratch.0).expect("a directory");
    scratch
}

/// Runs a process until it has read all there is, and lets it leave.
fn read_all(world: &World, scratch: &Scratch) {
    let running = Running::start(world, scratch);
    let mut ends = BTreeMap::new();
    for seen in world.read(&world.options.topics.input) {
        ends.insert(seen.partition as u32, NextOffset(seen.offset as u64 + 1));
    }
    let deadline = Deadline::after(PATIENCE);
    while ends.iter().any(|(partition, end)| world.committed(session(*partition)) != Some(*end)) {
        assert!(!deadline.is_over(), "the input is not read\n{}", scratch.log());
    }
    assert_eq!(running.end("USR1"), Some(0), "{}", scratch.log());
}

fn grow(world: &World, scratch: &Scratch, to: u32, more: &[&str]) -> std::process::Command {
    let (dir, to) = (scratch.0.to_string_lossy().into_owned(), to.to_string());
    let mut command = program(world, &["topics", "grow", "--partitions", &to, "--data-dir", &dir]);
    command.args(more);
    command
}

/// Lets the command run until it has said so many lines, and kills it. What it said; `None` if it came to its end before.
fn killed_at(mut command: std::process::Command, lines: usize) -> Option<Vec<String>> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program");
    let said: Vec<String> =
        BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok).take(lines).collect();
    if said.len() == lines {
        child.kill().expect("killed");
    }
    let output = child.wait_with_output().expect("the program");
    assert!(said.len() == lines || output.status.success(), "{said:?}\n{}", stderr(&output));
    (said.len() == lines).then_some(said)
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What was said to whom, in which words, without what names the world; each command once.
fn commands(world: &World) -> Vec<[String; 5]> {
    let commands: Vec<Value> =
        world.values(&world.options.topics.commands).iter().map(|text| serde_json::from_str(text).expect("JSON")).collect();
    let mut ids: Vec<String> = commands.iter().map(|command| command["id"].to_string()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), commands.len(), "a command came twice");
    let mut said: Vec<_> = commands
        .iter()
        .map(|command| {
            let reason = &command["reason"];
            [&command["session_id"], &command["seq"], &command["kind"], &reason["code"], &reason["summary"]]
                .map(ToString::to_string)
        })
        .collect();
    said.sort();
    said
}

/// A fleet that has read two calls of each session: each stands in the middle of a loop.
fn within_loops(bootstrap: &str, name: &str) -> (World, Scratch) {
    let (world, scratch) = (World::new(bootstrap, 4), directory(name));
    produce(&world, &calls(0..2));
    read_all(&world, &scratch);
    (world, scratch)
}

/// What a fleet says that never grew.
fn never_grown(bootstrap: &str, calls: &[(String, Option<Vec<u8>>)]) -> Vec<[String; 5]> {
    let world = World::new(bootstrap, 4);
    let scratch = directory("never-grown");
    produce(&world, calls);
    read_all(&world, &scratch);
    let said = commands(&world);
    assert!(said.len() >= SESSIONS as usize, "{said:?}");
    said
}

/// That a process does not start while a growth is under way.
fn refuses_to_run(world: &World, scratch: &Scratch) {
    let dir = scratch.0.to_string_lossy().into_owned();
    let mut run = program(world, &["run", "--data-dir", &dir]);
    let mut child = run.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program");
    let deadline = Deadline::after(PATIENCE);
    while child.try_wait().expect("the program").is_none() {
        if deadline.is_over() {
            child.kill().expect("killed");
        }
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }
    let output = child.wait_with_output().expect("the program");
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(69), "{told}");
    assert!(told.contains("E0104") && told.contains("loopwarden topics grow --partitions"), "{told}");
}

#[test]
fn loops_go_on_at_the_same_step_although_the_growth_is_killed_at_every_step() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let (world, scratch) = within_loops(bootstrap, "growth");
    assert_eq!(commands(&world).len(), 0);
    // Six is no multiple of four: sessions move between the old partitions too.
    let mut kills = 0;
    while let Some(said) = killed_at(grow(&world, &scratch, 6, &[]), kills + 1) {
        kills += 1;
        if kills == 2 {
            refuses_to_run(&world, &scratch);
            let other = grow(&world, &scratch, 8, &[]).output().expect("the program");
            assert!(stderr(&other).contains("end it first: --partitions 6"), "{} {said:?}", stderr(&other));
        }
    }
    assert!(kills >= 6, "killed {kills} times");
    assert_eq!(partitions(&world, &world.options.topics.input), 6);
    assert_eq!(partitions(&world, &world.options.changelog_topic(Stage::Session)), 6);
    // Half of each session's calls come to a process that has the old state on its disk, the others to one that has none.
    produce(&world, &calls(2..4));
    read_all(&world, &scratch);
    produce(&world, &calls(4..6));
    read_all(&world, &directory("growth-elsewhere"));
    assert_eq!(commands(&world), never_grown(bootstrap, &calls(0..6)));
}

#[test]
fn a_growth_by_hand_is_made_up_for_and_no_process_runs_beside_it() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let (world, scratch) = within_loops(bootstrap, "by-hand");
    add_partitions(&world, &world.options.topics.input, 8);
    produce(&world, &calls(2..6));
    let other = grow(&world, &scratch, 9, &[]).output().expect("the program");
    assert!(stderr(&other).contains("--partitions 8"), "{}", stderr(&other));
    refuses_to_run(&world, &scratch);
    // Input and changelog are even from here on: only the note tells.
    let said = killed_at(grow(&world, &scratch, 8, &[]), 2).expect("killed");
    assert!(said[1].contains("the changelog has 8 partitions"), "{said:?}");
    let deadline = Deadline::after(PATIENCE);
    while partitions(&world, &world.options.changelog_topic(Stage::Session)) != 8 {
        assert!(!deadline.is_over());
    }
    refuses_to_run(&world, &scratch);
    let done = grow(&world, &scratch, 8, &[]).output().expect("the program");
    assert!(done.status.success(), "{}", stderr(&done));
    read_all(&world, &scratch);
    assert_eq!(commands(&world), never_grown(bootstrap, &calls(0..6)));
}

#[test]
fn nothing_is_changed_while_processes_run_or_records_of_moving_sessions_are_unread() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 4);
    let scratch = directory("not-yet");
    produce(&world, &calls(0..2));
    let running = Running::start(&world, &scratch);
    let busy = grow(&world, &directory("not-yet-beside"), 6, &["--timeout-ms", "0"]).output().expect("the program");
    assert!(!busy.status.success() && stderr(&busy).contains("stop all its processes first"), "{}", stderr(&busy));
    assert_eq!(running.end("USR1"), Some(0));
    read_all(&world, &scratch);
    produce(&world, &calls(2..3));
    let late = grow(&world, &scratch, 6, &[]).output().expect("the program");
    assert_eq!(late.status.code(), Some(1), "{}", stderr(&late));
    assert!(stderr(&late).contains("not read: ") && stderr(&late).contains("; nothing was changed"), "{}", stderr(&late));
    assert_eq!(partitions(&world, &world.options.changelog_topic(Stage::Session)), 4);
    let smaller = grow(&world, &scratch, 3, &[]).output().expect("the program");
    assert!(stderr(&smaller).contains("N must be larger"), "{}", stderr(&smaller));
    read_all(&world, &scratch);
    let done = grow(&world, &scratch, 6, &[]).output().expect("the program");
    assert!(done.status.success(), "{}", stderr(&done));
}

#[test]
fn records_that_come_too_late_stop_a_growth_and_are_judged_apart_where_that_is_accepted() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let (world, scratch) = within_loops(bootstrap, "late");
    killed_at(grow(&world, &scratch, 6, &[]), 2).expect("killed");
    produce(&world, &calls(2..3));
    let refused = grow(&world, &scratch, 6, &[]).output().expect("the program");
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("the input has not grown yet"), "{}", stderr(&refused));
    assert_eq!(partitions(&world, &world.options.topics.input), 4);
    let accepted = grow(&world, &scratch, 6, &["--accept-late"]).output().expect("the program");
    assert!(accepted.status.success(), "{}", stderr(&accepted));
    assert!(stderr(&accepted).contains("they will be judged apart"), "{}", stderr(&accepted));
    produce(&world, &calls(3..6));
    read_all(&world, &scratch);

    // Who moved has left one call behind, which alone says nothing.
    let moves = |[session, ..]: &[String; 5]| {
        let [before, after] = [4, 6].map(|partitions| partition_of(session.trim_matches('"').as_bytes(), partitions));
        before != after
    };
    let mut expected = never_grown(bootstrap, &calls(0..6));
    expected.retain(|said| !moves(said));
    let stay = expected.len();
    let without = [calls(0..2), calls(3..6)].concat();
    expected.extend(never_grown(bootstrap, &without).into_iter().filter(moves));
    assert!(0 < stay && stay < expected.len(), "{expected:?}");
    expected.sort();
    assert_eq!(commands(&world), expected);
}
