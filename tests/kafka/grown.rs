//! An input that was given more partitions (B8): nothing is read without a changelog beside it, and the error says what to do.

use std::time::Duration;

use loopwarden::event::{NextOffset, Stage};
use loopwarden::log::{Log, LogError, LogEvent};
use loopwarden::{clock::Deadline, log::kafka::KafkaLog};
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions};
use rdkafka::{ClientConfig, client::DefaultClientContext};

use crate::broker;
use crate::world::{PATIENCE, World, join, session, take};

fn admin(world: &World) -> AdminClient<DefaultClientContext> {
    ClientConfig::new().set("bootstrap.servers", &world.options.bootstrap_servers).create().expect("an admin client")
}

/// Partitions of a topic, as clients are told.
pub(crate) fn partitions(world: &World, topic: &str) -> usize {
    admin(world).inner().fetch_metadata(Some(topic), PATIENCE).expect("metadata").topics()[0].partitions().len()
}

/// Gives a topic so many partitions.
pub(crate) fn add_partitions(world: &World, topic: &str, partitions: usize) {
    let admin = admin(world);
    let new = [NewPartitions::new(topic, partitions)];
    let grown = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(admin.create_partitions(&new, &AdminOptions::new().operation_timeout(Some(PATIENCE))));
    grown.expect("an answer")[0].as_ref().expect("grown");
    // The controller knows them first; clients are told by the broker.
    let deadline = Deadline::after(PATIENCE);
    let told = || admin.inner().fetch_metadata(Some(topic), PATIENCE).expect("metadata").topics()[0].partitions().len();
    while told() != partitions {
        assert!(!deadline.is_over(), "{topic} does not grow");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// The error of a refusal, which must say what has grown and how to go on.
fn refused(error: &LogError, world: &World) {
    let LogError::Fatal { code, message } = error else { panic!("not fatal: {error:?}") };
    assert_eq!(*code, "E0104", "{message}");
    for words in [
        world.options.topics.input.as_str(),
        &world.options.changelog_topic(Stage::Session),
        "loopwarden topics grow --partitions 3",
    ] {
        assert!(message.contains(words), "{words} is not in: {message}");
    }
}

#[test]
fn a_grown_input_is_refused_until_its_changelog_has_grown_too() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let mut world = World::new(bootstrap, 2);
    // A running lane notices soon.
    world.options.native.all.insert("topic.metadata.refresh.interval.ms".into(), "500".into());
    let mut running = world.open();
    for task in join(&mut running, 4) {
        running.start(task, NextOffset(0)).expect("started");
    }
    add_partitions(&world, &world.options.topics.input, 3);
    let deadline = Deadline::after(PATIENCE);
    let error = loop {
        assert!(!deadline.is_over(), "the new partition is never assigned");
        match running.poll(Duration::from_millis(100), &mut |task, _| panic!("{task} has no records")).expect("a poll") {
            LogEvent::Assigned(tasks) if tasks.contains(&session(2)) => break running.assign(&tasks).expect_err("refused"),
            LogEvent::Assigned(tasks) => running.assign(&tasks).expect("assigned"),
            LogEvent::Revoked(tasks) | LogEvent::Lost(tasks) => running.unassign(&tasks).expect("unassigned"),
            LogEvent::Records(_) | LogEvent::End => {}
        }
    };
    refused(&error, &world);
    drop(running);
    // So does one that starts.
    refused(&KafkaLog::open(world.options.clone()).err().expect("refused"), &world);
    // Once both have grown, all of it is read.
    add_partitions(&world, &world.options.changelog_topic(Stage::Session), 3);
    world.produce(&[(2, "a", "new")]);
    let mut log = world.open();
    for task in join(&mut log, 5) {
        log.start(task, NextOffset(0)).expect("started");
    }
    assert_eq!(take(&mut log, 1), vec![(session(2), 0, "new".to_owned())]);
}
