//! What a lane that died, or sleeps, left open: whoever has its tasks now ends it, and need not wait for a time-out (rule R9).

use std::{thread, time::Duration};

use loopwarden::log::{Changelog, CommitOutcome, Destination, Log, LogError};
use loopwarden::{event::NextOffset, log::kafka::KafkaLog};

use crate::proxy::{Action, END_TXN, Proxy, Side};
use crate::world::{World, commit, committed, join, next, output, session};
use crate::{broker, unknown};
use crate::{process::Process, scenario::Scenario};

/// Longer than a session, on a busy machine; the transactions of these tests last longer.
const PATIENCE: Duration = Duration::from_secs(90);
/// No broker ends a transaction while such a test runs.
const FOR_EVER: &str = "kafka.producer.librdkafka.transaction.timeout.ms=800000";
/// What a restore says of what was left open: that it has ended it; or, of brokers that took long to answer, that it could not tell.
const SAID: [&str; 2] = ["ended what a lane left open", "an open transaction is left to its time-out"];

fn has_met_it(process: &Process) -> bool {
    SAID.iter().any(|words| process.told(words) > 0)
}

fn reader(log: &KafkaLog) -> Box<dyn Changelog> {
    log.changelog().expect("a reader").expect("there is one")
}

/// So many processes that all have partitions of events, and the first of them at the end of a transaction of its own.
fn at_the_end_of_a_transaction(name: &str, processes: usize, seed: u64, action: Action) -> Option<(Scenario, &'static Proxy)> {
    let (proxy, bootstrap) = unknown::proxied()?;
    let mut scenario = Scenario::new(&bootstrap, name, seed, 6);
    for _ in 0..processes {
        scenario.add(1, &[FOR_EVER]);
    }
    let has_events = |at: &Process| at.told("\"task\":\"session/") > 0;
    scenario.wait("all have partitions of events", PATIENCE, |scenario| scenario.processes.iter().all(has_events));
    scenario.produce(2_000);
    scenario.wait("work", PATIENCE, |scenario| scenario.processed() >= 2_000);
    let client = format!("{}-lw-0-0-producer", scenario.world.options.app);
    proxy.arm(&client, END_TXN, Side::Request, action, 1);
    scenario.produce(2_000);
    scenario.wait("the end of a transaction", PATIENCE, |_| proxy.taken(&client) > 0);
    Some((scenario, proxy))
}

#[test]
fn what_a_killed_process_left_open_is_ended_by_whoever_takes_over() {
    let Some((mut scenario, _)) = at_the_end_of_a_transaction("left-open", 2, 41, Action::Drop) else { return };
    scenario.kill(0);
    scenario.produce(2_000);
    scenario.wait("everything", PATIENCE, |scenario| scenario.processed() >= 6_000);
    assert!(has_met_it(&scenario.processes[1]), "it was not open");
    scenario.start(0);
    scenario.produce(1_000);
    scenario.settle();
    assert_eq!(scenario.exits.len(), 0, "{:?}", scenario.exits);
    scenario.verify().assert_exactly_once();
}

#[test]
fn several_may_end_what_one_left_open() {
    let Some((mut scenario, _)) = at_the_end_of_a_transaction("left-open-to-two", 3, 42, Action::Drop) else { return };
    scenario.kill(0);
    scenario.produce(2_000);
    scenario.wait("everything", PATIENCE, |scenario| scenario.processed() >= 6_000);
    assert!(scenario.processes[1..].iter().any(has_met_it), "it was not open");
    scenario.settle();
    assert_eq!(scenario.exits.len(), 0, "{:?}", scenario.exits);
    scenario.verify().assert_exactly_once();
}

#[test]
fn a_process_that_slept_at_the_end_of_a_transaction_wakes_up_fenced() {
    let Some((mut scenario, proxy)) = at_the_end_of_a_transaction("asleep", 2, 43, Action::Hold) else { return };
    let client = format!("{}-lw-0-0-producer", scenario.world.options.app);
    scenario.processes[0].freeze();
    scenario.produce(2_000);
    scenario.wait("everything", PATIENCE, |scenario| scenario.processed() >= 6_000);
    assert!(has_met_it(&scenario.processes[1]), "it was not open");
    // Its order to commit arrives now, long after somebody else has committed the same records.
    assert_eq!(proxy.release(&client), 1);
    scenario.processes[0].thaw();
    scenario.produce(2_000);
    scenario.settle();
    // Where it slept for too long, its watchdog comes first.
    let told: usize = ["fenced", "a lane hangs"].iter().map(|words| scenario.processes[0].told(words)).sum();
    assert!(told > 0, "it was never told");
    scenario.verify().assert_exactly_once();
}

#[test]
fn who_is_no_member_is_fenced_once_or_twice_and_its_offsets_are_those_of_before() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    let mut log = world.running(1);
    commit(&mut log, &[(session(0), 3)]);
    let pending = world.pending(session(0), 7);
    let mut asking = reader(&log);
    let withheld = asking.committed(session(0), Duration::from_millis(300));
    assert!(matches!(withheld, Err(LogError::Transient(_))), "{withheld:?}");
    let owner = format!("{}-rival", world.options.app);
    let evictors: Vec<_> = (0..2)
        .map(|_| {
            let (mut reader, owner) = (reader(&log), owner.clone());
            thread::spawn(move || reader.evict(&owner))
        })
        .collect();
    let said: Vec<_> = evictors.into_iter().map(|evictor| evictor.join().expect("no panic")).collect();
    // One may be told that its identity is taken: by the other.
    assert!(said.contains(&Ok(true)), "{said:?}");
    assert_eq!(committed(&log, session(0)), Some(NextOffset(3)));
    assert!(pending.is_fenced());
    assert_eq!(committed(&log, session(0)), Some(NextOffset(3)));
    commit(&mut log, &[(session(0), 4)]);
}

#[test]
fn a_member_is_left_alone_and_so_is_another_group() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    // Who asks is gone before the other joins, or each would wait for the other to share the tasks.
    let mut asking = KafkaLog::open(world.options_of("lw-1", 0)).expect("another lane");
    let mut reader = reader(&asking);
    asking.close(true).expect("left");
    let mut living = world.open();
    join(&mut living, 2);
    assert_eq!(reader.evict(living.owner()), Ok(false), "a member");
    assert_eq!(reader.evict(asking.owner()), Ok(false), "itself");
    assert_eq!(reader.evict("somebody-elses-lw-0-0"), Ok(false), "another group's");
    living.start(session(0), NextOffset(0)).expect("started");
    living.stage(output(Destination::Commands, "a", "in time"));
    let outcome = living.commit(&next(&[(session(0), 1)]));
    assert!(matches!(outcome, CommitOutcome::Committed { .. }), "{outcome:?}");
}
