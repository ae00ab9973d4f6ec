//! Webhooks of a fleet: its processes share the commands of the topic, and each is delivered, whoever dies.

use std::{collections::BTreeMap, ops::Range};

use loopwarden::clock::Deadline;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use serde_json::{Value, json};

use crate::broker;
use crate::receiver::{Receiver, Reply, TAKES, taken};
use crate::run::{Running, Scratch, produce, with_tables};
use crate::world::{PATIENCE, Seen, World};

/// Sessions that repeat one call: a nudge each, and then a block.
pub(crate) fn loops(sessions: Range<u32>) -> Vec<(String, Option<Vec<u8>>)> {
    let call = |session: u32, number: u32| {
        let event = json!({ "id": format!("s{session}-{number}"), "kind": "tool", "session_id": format!("s{session}"), "tool": "Bash",
            "args": { "command": "make" }, "result": "no rule", "outcome": "error" });
        (format!("s{session}"), Some(event.to_string().into_bytes()))
    };
    (0..10).flat_map(|number| sessions.clone().map(move |session| call(session, number))).collect()
}

/// All commands, once so many sessions are blocked: a block is the last one of its session.
fn commands(world: &World, sessions: usize) -> Vec<Seen> {
    let deadline = Deadline::after(PATIENCE);
    loop {
        let seen = world.read(&world.options.topics.commands);
        let is_block =
            |seen: &&Seen| String::from_utf8_lossy(seen.value.as_deref().unwrap_or_default()).contains("\"action\":\"block\"");
        if seen.iter().filter(is_block).count() >= sessions {
            return seen;
        }
        assert!(!deadline.is_over(), "no block in {} sessions: {} commands", sessions, seen.len());
    }
}

/// Waits until the group of the webhook knows where it begins.
fn until_begun(world: &World) {
    let group = format!("{}-webhook-r", world.options.app);
    let servers = &world.options.bootstrap_servers;
    let consumer: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", servers).set("group.id", group).create().expect("a consumer");
    let deadline = Deadline::after(PATIENCE);
    loop {
        let mut list = TopicPartitionList::new();
        for partition in 0..4 {
            list.add_partition(&world.options.topics.commands, partition);
        }
        let known = consumer.committed_offsets(list, PATIENCE).expect("offsets");
        if known.elements().iter().all(|element| matches!(element.offset(), Offset::Offset(_))) {
            return;
        }
        assert!(!deadline.is_over(), "the group of the webhook has no offsets");
    }
}

fn id(seen: &Seen) -> String {
    let command: Value = serde_json::from_slice(seen.value.as_deref().expect("a value")).expect("a command");
    command["id"].as_str().expect("an id").to_owned()
}

/// The ids of what a process without webhooks said to three sessions.
fn said_before(world: &World, scratch: &Scratch) -> Vec<String> {
    produce(world, &loops(0..3));
    let without = Running::of(with_tables(world, scratch, "lw-0", ""), scratch);
    let said = commands(world, 3).iter().map(id).collect();
    assert_eq!(without.end("TERM"), Some(0));
    said
}

#[test]
fn each_command_is_delivered_in_the_order_of_its_session_through_the_death_of_a_process() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 4);
    let [first, second] = ["webhook-a", "webhook-b"].map(Scratch::new);

    // What was there before a webhook is not for it.
    let before = said_before(&world, &first);

    // It takes some, then none: whatever dies then has a command in hand.
    let receiver = Receiver::start(|_, number| if number < 6 { TAKES } else { Reply::HangsUp });
    let tables = format!("[[webhook]]\nname = \"r\"\nurl = \"http://{}/hook\"\n", receiver.address);
    let killed = Running::of(with_tables(&world, &first, "lw-0", &tables), &first);
    let left = Running::of(with_tables(&world, &second, "lw-1", &tables), &second);
    until_begun(&world);
    produce(&world, &loops(3..20));
    commands(&world, 20);
    receiver.until("the receiver is away", |seen| seen.len() >= 8);
    assert_eq!(killed.end("KILL"), None);
    produce(&world, &loops(20..24));
    let all = commands(&world, 24);
    receiver.turn(|_, _| TAKES);

    let all: Vec<Seen> = all.into_iter().filter(|seen| !before.contains(&id(seen))).collect();
    let seen = receiver.until("all commands", |seen| taken(seen).len() >= all.len());
    assert_eq!(left.end("TERM"), Some(0));
    let mut came = taken(&seen);
    let mut of_session: BTreeMap<&[u8], Vec<String>> = BTreeMap::new();
    all.iter().for_each(|seen| of_session.entry(&seen.key).or_default().push(id(seen)));
    for ids in of_session.values() {
        assert!(ids.len() > 1, "{ids:?}");
        let in_order: Vec<&String> = came.iter().filter(|id| ids.contains(id)).collect();
        assert_eq!(in_order, ids.iter().collect::<Vec<_>>());
    }
    let mut expected: Vec<String> = all.iter().map(id).collect();
    came.sort();
    expected.sort();
    assert_eq!(came, expected);
    for request in &seen {
        let command = all.iter().find(|seen| id(seen) == request.id()).expect("a command of the topic");
        assert_eq!(Some(&request.body), command.value.as_ref());
        assert_eq!(request.header("ce-subject").map(str::as_bytes), Some(&command.key[..]));
    }
}

#[test]
fn a_webhook_that_begins_with_the_oldest_gets_what_was_there() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 4);
    let scratch = Scratch::new("webhook-earliest");
    let mut before = said_before(&world, &scratch);
    let receiver = Receiver::start(|_, _| TAKES);
    let tables = format!("[[webhook]]\nname = \"r\"\nurl = \"http://{}/hook\"\nstart = \"earliest\"\n", receiver.address);
    let with = Running::of(with_tables(&world, &scratch, "lw-0", &tables), &scratch);
    let seen = receiver.until("all commands", |seen| taken(seen).len() >= before.len());
    assert_eq!(with.end("TERM"), Some(0));
    let mut came = taken(&seen);
    came.sort();
    before.sort();
    assert_eq!(came, before);
}
