//! Bytes of a batch that changed on the broker's disk: they are told, and what lies behind them is not read as if they had never been.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use loopwarden::event::NextOffset;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::{TopicPartitionList, client::DefaultClientContext};

use crate::bounded::{START_WAIT, bounded};
use crate::broker;
use crate::run::{Running, Scratch, events, produce, program, repeats, until};
use crate::world::{World, session};

/// Offset of the length of a batch, and of what it counts. Bytes.
const LENGTH_AT: usize = 8;
const HEAD_BYTES: usize = 12;

/// Turns the last byte of the batch of that number in a partition's first segment. The broker serves what is in the file.
fn damage(segment: &Path, number: usize) {
    let mut bytes = fs::read(segment).expect("a segment");
    let mut at = 0;
    for _ in 0..=number {
        let length = bytes[at + LENGTH_AT..at + HEAD_BYTES].try_into().expect("four bytes");
        at += HEAD_BYTES + u32::from_be_bytes(length) as usize;
    }
    bytes[at - 1] ^= 1;
    // In place, as a disk does it: the broker holds the file.
    let file = fs::OpenOptions::new().write(true).open(segment).expect("the segment");
    std::os::unix::fs::FileExt::write_all_at(&file, &bytes[at - 1..at], at as u64 - 1).expect("written");
}

/// A topic's only partition on the disk of the broker of these tests.
fn segment(topic: &str) -> Option<PathBuf> {
    let found = broker::data().map(|data| data.join(format!("{topic}-0/00000000000000000000.log")));
    if found.is_none() {
        broker::leave_out("the disk of the given broker cannot be reached");
    }
    found
}

/// Runs the program until it ends by itself.
fn ends(world: &World, dir: &Path, settings: &[&str]) -> Output {
    let mut command = program(world, &["run", "--data-dir", &dir.to_string_lossy()]);
    command.args(settings.iter().flat_map(|setting| ["--set", setting]));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program");
    bounded(child.id(), START_WAIT, || child.wait_with_output()).expect("its end")
}

fn assert_told(output: &Output, place: &str) {
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(70), "{told}");
    let error = told.lines().find(|line| line.contains("error[E0504]")).unwrap_or_else(|| panic!("{told}"));
    assert!(error.contains(place), "{error}");
}

/// Gives up all records of the input before an offset.
fn delete_before(world: &World, offset: i64) {
    let mut config = rdkafka::ClientConfig::new();
    config.set("bootstrap.servers", &world.options.bootstrap_servers);
    let admin: AdminClient<DefaultClientContext> = config.create().expect("a client");
    let mut places = TopicPartitionList::new();
    places.add_partition_offset(&world.options.topics.input, 0, rdkafka::Offset::Offset(offset)).expect("a place");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(admin.delete_records(&places, &AdminOptions::new())).expect("deleted");
}

#[test]
fn a_damaged_batch_of_the_input_is_not_passed_over() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    let Some(segment) = segment(&world.options.topics.input) else { return };
    let scratch = Scratch::new("damage");
    fs::create_dir_all(&scratch.0).expect("a directory");
    // A batch for each session.
    for number in 0..3 {
        produce(&world, &events(number..number + 1));
    }
    damage(&segment, 1);
    let place = format!("behind one of: {}/0 at 3", world.options.topics.input);
    for _ in 0..2 {
        let output = ends(&world, &scratch.0, &[]);
        assert_told(&output, &place);
        assert_eq!(world.committed(session(0)), Some(NextOffset(3)), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(repeats(&world.read(&world.options.topics.commands)), ["s0"]);
    }

    // As the error's page says.
    delete_before(&world, 6);
    let running = Running::start(&world, &scratch);
    assert_eq!(repeats(&until(&world, &world.options.topics.commands, 2)), ["s0", "s2"]);
    assert_eq!(running.end("TERM"), Some(0));
    assert!(scratch.log().contains("E0503"), "{}", scratch.log());
}

#[test]
fn a_damaged_batch_of_a_changelog_is_not_passed_over() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    let changelog = world.options.changelog_topic(session(0).stage);
    let Some(segment) = segment(&changelog) else { return };
    let scratch = Scratch::new("damaged-changelog");
    fs::create_dir_all(&scratch.0).expect("a directory");
    produce(&world, &events(0..3));
    let running = Running::start(&world, &scratch);
    until(&world, &world.options.topics.commands, 3);
    assert_eq!(running.end("TERM"), Some(0));

    damage(&segment, 0);
    fs::remove_dir_all(&scratch.0).expect("removed");
    fs::create_dir_all(&scratch.0).expect("a directory");
    assert_told(&ends(&world, &scratch.0, &[]), &format!("{changelog}/0"));
}
