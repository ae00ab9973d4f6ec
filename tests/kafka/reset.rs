//! What an operator resets: a session by an event, a task whose offsets somebody moved.

use std::{fs, process::Output};

use loopwarden::{clock::Deadline, event::NextOffset};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::Value;

use crate::broker;
use crate::run::{Running, Scratch, events, produce, program};
use crate::world::{PATIENCE, World, session, swarm};

fn reset(world: &World, arguments: &[&str]) -> Output {
    program(world, &[&["reset"], arguments].concat()).output().expect("the program")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

fn until(what: &str, scratch: &Scratch, is_so: impl Fn() -> bool) {
    let deadline = Deadline::after(PATIENCE);
    while !is_so() {
        assert!(!deadline.is_over(), "{what}\n{}", scratch.log());
    }
}

fn commands(world: &World) -> Vec<Value> {
    world.values(&world.options.topics.commands).iter().map(|text| serde_json::from_str(text).expect("JSON")).collect()
}

/// Somebody moves the group's offset, as `kafka-consumer-groups --reset-offsets` does: once nobody is in the group.
fn move_offset(world: &World, scratch: &Scratch, next: i64) {
    let client: BaseConsumer = rdkafka::ClientConfig::new()
        .set("bootstrap.servers", &world.options.bootstrap_servers)
        .set("group.id", &world.options.app)
        .create()
        .expect("a client");
    until("the group is not empty", scratch, || {
        let found = client.fetch_group_list(Some(&world.options.app), PATIENCE).expect("an answer");
        found.groups().iter().all(|group| group.members().is_empty())
    });
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&world.options.topics.input, 0, Offset::Offset(next)).expect("an offset");
    client.commit(&list, CommitMode::Sync).expect("moved");
}

#[test]
fn a_session_is_reset_by_an_event_that_its_process_reads() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 2);
    let scratch = Scratch::new("reset-session");
    fs::create_dir_all(&scratch.0).expect("a directory");
    let running = Running::start(&world, &scratch);
    produce(&world, &events(0..1));
    until("no nudge", &scratch, || !commands(&world).is_empty());
    let output = reset(&world, &["session", "s0"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains(&world.options.topics.input), "{}", stdout(&output));
    // What was counted is forgotten: the same three calls lead to the same nudge, in an episode of its own.
    let again: Vec<_> = events(0..1)
        .into_iter()
        .map(|(key, value)| {
            (key, value.map(|value| String::from_utf8(value).expect("text").replace("\"id\":\"", "\"id\":\"again-").into()))
        })
        .collect();
    produce(&world, &again);
    let nudges =
        |world: &World| commands(world).into_iter().filter(|command| command["reason"]["code"] == "similar_repeat").count();
    until("no second nudge", &scratch, || nudges(&world) == 2);
    assert_eq!(running.end("TERM"), Some(0));
    let told = stderr(&reset(&world, &["session", "a\u{1}b"]));
    assert!(told.contains("no such name can be"), "{told}");
}

#[test]
fn a_task_whose_offset_was_moved_begins_anew_once_an_operator_says_so() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    let scratch = Scratch::new("reset-task");
    fs::create_dir_all(&scratch.0).expect("a directory");
    produce(&world, &events(0..4));
    let running = Running::start(&world, &scratch);
    until("no nudges", &scratch, || commands(&world).len() >= 4);
    assert_eq!(commands(&world).len(), 4);
    // Nobody resets under a running process.
    let refused = reset(&world, &["task", "session:0", "--yes", "--timeout-ms", "0"]);
    assert!(!refused.status.success() && stderr(&refused).contains("stop all its processes first"), "{}", stderr(&refused));
    // Leaves the group: nobody waits for its session.
    assert_eq!(running.end("USR1"), Some(0));
    let end = world.committed(session(0)).expect("an offset").0;
    move_offset(&world, &scratch, 3);
    let dir = scratch.0.to_string_lossy().into_owned();
    let output = program(&world, &["run", "--data-dir", &dir]).output().expect("the program");
    assert!(
        stderr(&output).contains("E0502") && stderr(&output).contains("loopwarden reset task session:0"),
        "{}",
        stderr(&output)
    );

    let asked = reset(&world, &["task", "session:0"]);
    assert_eq!(asked.status.code(), Some(3), "{}", stderr(&asked));
    assert!(
        stdout(&asked).contains(&format!("it stands at {end}, by the group at 3; it would go on at 3")),
        "{}",
        stdout(&asked)
    );
    assert_eq!(world.committed(session(0)), Some(NextOffset(3)));
    let done = reset(&world, &["task", "session:0", "--yes"]);
    assert!(done.status.success(), "{}", stderr(&done));
    let running = Running::start(&world, &scratch);
    until("it does not go on", &scratch, || world.committed(session(0)).is_some_and(|next| next.0 >= end));
    // What it knew is forgotten: the calls behind the new offset, of three sessions, are none that it has seen.
    let nudges = || commands(&world).into_iter().filter(|command| command["reason"]["code"] == "similar_repeat").count();
    assert_eq!(nudges(), 4 + 3);
    assert_eq!(running.end("USR1"), Some(0));

    // Beyond the end of the input there is nothing to go on at.
    move_offset(&world, &scratch, 1_000_000);
    let done = reset(&world, &["task", "session:0", "--yes"]);
    assert!(done.status.success(), "{}", stderr(&done));
    assert!(stdout(&done).contains("begins anew at"), "{}", stdout(&done));
    let running = Running::start(&world, &scratch);
    produce(&world, &events(9..10));
    until("new calls are not judged", &scratch, || commands(&world).iter().any(|command| command["session_id"] == "s9"));
    assert_eq!(running.end("USR1"), Some(0));
    let none = reset(&world, &["task", "swarm:9"]);
    assert!(stderr(&none).contains("there is no task swarm/9"), "{} {:?}", stderr(&none), swarm(9));
}
