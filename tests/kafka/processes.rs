//! Real processes: stopped, joined, left, cut off, started for the first time. Whatever happens, the auditor sees each output once
//! and the end is that of the uninterrupted run.

use std::{collections::BTreeSet, time::Duration};

use loopwarden::{clock::Deadline, event::Stage};

use crate::proxy::{Action, END_TXN, INIT_PRODUCER_ID, Proxy, Side};
use crate::{broker, surface};
use crate::{process::Process, scenario::Scenario};

/// A session (10 s), an open transaction (10 s) and the broker's scans, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

fn processed(scenario: &mut Scenario, events: u64) {
    scenario.wait(&format!("{events} events"), PATIENCE, |scenario| scenario.processed() >= events);
}

/// Who committed last for each partition of events.
fn readers(scenario: &Scenario) -> BTreeSet<String> {
    let audit = scenario.look();
    audit.positions.iter().filter(|(task, _)| task.stage == Stage::Session).map(|(_, at)| at.owner.clone()).collect()
}

#[test]
pub(crate) fn a_process_that_was_stopped_beyond_its_session_wakes_up_and_publishes_nothing_twice() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let mut scenario = Scenario::new(bootstrap, "zombie", 5, 4);
    for _ in 0..2 {
        scenario.add(1, &[]);
    }
    // Not only sums: the first may read all events that come before the second has any of their partitions, and nobody commits them again.
    let has_events = |process: &Process| process.told("\"task\":\"session/") > 0;
    scenario.wait("both have partitions of events", PATIENCE, |scenario| scenario.processes.iter().all(has_events));
    scenario.produce(4_000);
    scenario.wait("both read events", PATIENCE, |scenario| readers(scenario).len() == 2);
    // In the middle of its work: with open transactions as often as not.
    scenario.processes[0].freeze();
    scenario.produce(4_000);
    processed(&mut scenario, 8_000);
    assert_eq!(readers(&scenario).len(), 1, "its tasks moved while it was stopped");
    scenario.processes[0].thaw();
    scenario.produce(4_000);
    scenario.settle();
    scenario.verify().assert_exactly_once();
}

#[test]
pub(crate) fn processes_join_and_leave_under_load_and_nothing_shows() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let mut scenario = Scenario::new(bootstrap, "rolling", 8, 6);
    scenario.add(2, &[]);
    scenario.produce(3_000);
    processed(&mut scenario, 1_000);
    for _ in 0..2 {
        scenario.add(2, &[]);
        scenario.produce(3_000);
    }
    scenario.wait("all three ready", PATIENCE, |scenario| scenario.processes.iter().all(Process::is_ready));
    scenario.produce(3_000);
    // One after the other is restarted, as a new version is rolled out.
    for at in 0..3 {
        assert!(scenario.processes[at].finish("TERM").success());
        scenario.start(at);
        scenario.produce(1_000);
    }
    // And two leave for good: the group does not wait for their sessions.
    for at in 1..3 {
        assert!(scenario.processes[at].finish("USR1").success());
        scenario.produce(1_000);
    }
    scenario.settle();
    assert_eq!(scenario.exits.len(), 0, "{:?}", scenario.exits);
    scenario.verify().assert_exactly_once();
}

#[test]
fn a_coordinator_that_never_answers_holds_a_process_for_40_s_at_most() {
    let proxy = Proxy::new();
    let Some(broker) = broker::behind("silent", &proxy) else { return };
    let mut scenario = Scenario::new(&broker.bootstrap, "silent", 20, 2);
    scenario.add(1, &[]);
    scenario.produce(2_000);
    processed(&mut scenario, 500);
    // Join, sync, heartbeat, offsets asked and committed, offsets of a transaction: whatever only the group's coordinator answers.
    for api in [8, 9, 11, 12, 14, 28] {
        proxy.arm("", api, Side::Answer, Action::Drop, usize::MAX);
    }
    scenario.produce(2_000);
    let ended = scenario.processes[0].wait(Duration::from_secs(40));
    let noticed =
        ["transaction aborted", "log in trouble", "nobody knows how the transaction ended", "fenced; restoring", "tasks lost"];
    let troubles: usize = noticed.iter().map(|words| scenario.processes[0].told(words)).sum();
    println!("with a silent coordinator for 40 s: ended {ended:?}, troubles told {troubles}");
    assert!(ended.is_some() || troubles > 0, "it neither ended nor noticed");
    proxy.release("");
    if ended.is_some() {
        scenario.start(0);
    }
    scenario.produce(1_000);
    scenario.settle();
    scenario.verify().assert_exactly_once();
}

#[test]
fn a_broker_that_does_not_hand_out_identities_is_waited_for_and_is_no_hang() {
    let proxy = Proxy::new();
    let Some(broker) = broker::behind("identities", &proxy) else { return };
    let mut scenario = Scenario::new(&broker.bootstrap, "identities", 23, 2);
    scenario.add(1, &[]);
    scenario.produce(2_000);
    processed(&mut scenario, 500);
    // A start that gets no identity ends its process, and each lane has one of its own.
    scenario.wait("it is ready", PATIENCE, |scenario| scenario.processes[0].is_ready());
    // The end of a transaction is unknown, so the producer must be replaced; and no new one gets its id.
    proxy.arm("", INIT_PRODUCER_ID, Side::Answer, Action::Drop, usize::MAX);
    proxy.arm("", END_TXN, Side::Answer, Action::Drop, usize::MAX);
    scenario.produce(2_000);
    let ended = scenario.processes[0].wait(Duration::from_secs(45));
    assert!(ended.is_none(), "it ended with {ended:?}, and said last: {:#?}", scenario.processes[0].said_last(20));
    // On a slow machine it is in need of a producer only now.
    let in_need = |scenario: &mut Scenario| scenario.processes[0].told("-0\\\" takes too long") > 0;
    scenario.wait("the need of a producer", PATIENCE, in_need);
    assert_eq!(scenario.exits.len(), 0, "{:?}", scenario.exits);
    proxy.release("");
    // The transaction nobody knew the end of may have been the last: with nothing more to do, the lane would be told to end before it
    // has taken over what that one wrote.
    scenario.produce(1_000);
    scenario.settle();
    scenario.verify().assert_exactly_once();
}

/// Where its listener is, once it has one.
fn listens_at(process: &Process) -> Option<String> {
    let log = std::fs::read_to_string(process.log()).ok()?;
    let line = log.lines().find(|line| line.contains("\"listening\""))?;
    let fields: serde_json::Value = serde_json::from_str(line).expect("a whole line");
    Some(fields["address"].as_str().expect("an address").to_owned())
}

#[test]
fn a_process_is_not_ready_before_all_of_its_lanes_have_their_identities() {
    let proxy = Proxy::new();
    let Some(broker) = broker::behind("opening", &proxy) else { return };
    let mut scenario = Scenario::new(&broker.bootstrap, "opening", 25, 2);
    let sums = format!("{}-lw-0-swarm", scenario.world.options.app);
    proxy.arm(&sums, INIT_PRODUCER_ID, Side::Answer, Action::Hold, usize::MAX);
    scenario.add(1, &[]);
    let mut state = String::new();
    scenario.wait("the lane that reads events", PATIENCE, |scenario| {
        state =
            listens_at(&scenario.processes[0]).map(|address| surface::answer(&address, "/readyz?verbose")).unwrap_or_default();
        state.contains("2 of 2 tasks run")
    });
    assert!(state.starts_with("HTTP/1.1 503 "), "the lane that reads sums has no identity yet: {state}");
    assert!(!scenario.processes[0].is_ready());
    assert!(proxy.release(&sums) > 0, "it has asked for one");
    scenario.wait("it is ready", PATIENCE, |scenario| scenario.processes[0].is_ready());
    scenario.produce(1_000);
    scenario.settle();
    scenario.verify().assert_exactly_once();
}

/// Makes the next file that the store writes to one that nobody ever reads: whoever opens it waits for ever.
fn stall_disk(state_dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    // Those of its own log are times.
    let number = |name: &str| name.strip_suffix(".log").or(name.strip_suffix(".sst")).and_then(|name| name.parse::<u64>().ok());
    let names = std::fs::read_dir(state_dir).expect("a store").flatten().map(|entry| entry.file_name());
    let last = names.filter_map(|name| number(&name.to_string_lossy())).max().expect("files");
    let pipes: Vec<_> = (last + 1..last + 400).map(|number| state_dir.join(format!("{number:06}.log"))).collect();
    // One of these names may be taken by now.
    std::process::Command::new("mkfifo").args(&pipes).status().expect("mkfifo");
    pipes
}

#[test]
fn a_lane_that_hangs_takes_its_process_with_it_and_nothing_is_lost_or_doubled() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let mut scenario = Scenario::new(bootstrap, "hang", 24, 2);
    // A small write buffer: the store soon begins another write-ahead log.
    scenario.add(1, &["limits.write_buffer_bytes=1048576"]);
    scenario.produce(1_000);
    processed(&mut scenario, 500);
    let pipes = stall_disk(&scenario.processes[0].state_dir());
    // The fewer the commits, the more events one file takes.
    let deadline = Deadline::after(PATIENCE);
    let ended = loop {
        scenario.produce(1_000);
        let ended = scenario.processes[0].wait(Duration::from_secs(2));
        if ended.is_some() || deadline.is_over() {
            break ended;
        }
    };
    let signal = std::os::unix::process::ExitStatusExt::signal(&ended.expect("a hung lane holds its process for ever"));
    assert_eq!(signal, Some(6), "it ended, but not by the watchdog");
    assert_eq!(scenario.processes[0].told("a lane hangs"), 1);
    for pipe in pipes {
        // Files that the store has made in between stay.
        if std::os::unix::fs::FileTypeExt::is_fifo(&std::fs::metadata(&pipe).expect("it is there").file_type()) {
            std::fs::remove_file(pipe).expect("removed");
        }
    }
    scenario.start(0);
    scenario.produce(1_000);
    scenario.settle();
    scenario.verify().assert_exactly_once();
}

#[test]
fn where_a_first_start_begins_is_committed_before_anything_else() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let scenario = Scenario::new(bootstrap, "first", 22, 2);
    let world = &scenario.world;
    world.produce(&[(0, "a", "old"), (1, "b", "old")]);
    let topic = world.options.topics.dead_letters.clone();
    let mut scenario = scenario;
    scenario.add(1, &["kafka.start=latest"]);
    scenario.wait("the first commit", PATIENCE, |scenario| {
        (0..2).all(|partition| scenario.world.committed(crate::world::session(partition)).is_some())
    });
    scenario.kill(0);
    // What comes while it is dead must not be skipped: what it began with is no longer `latest`.
    scenario.world.produce(&[(0, "a", "new"), (1, "b", "new")]);
    scenario.start(0);
    scenario.wait("both", PATIENCE, |scenario| scenario.look().outputs() >= 2);
    assert_eq!(scenario.world.values(&topic), vec!["new", "new"]);
}

#[test]
pub(crate) fn a_lost_disk_is_restored_from_the_changelog_through_three_more_deaths() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let mut scenario = Scenario::new(bootstrap, "disk", 13, 4);
    scenario.add(2, &[]);
    scenario.produce(20_000);
    processed(&mut scenario, 20_000);
    scenario.kill(0);
    scenario.processes[0].lose_disk();
    for _ in 0..3 {
        scenario.start(0);
        scenario.produce(500);
        scenario.kill(0);
    }
    scenario.start(0);
    scenario.settle();
    scenario.verify().assert_exactly_once();
}
