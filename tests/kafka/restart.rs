//! How long a killed process takes to its first commit when it is started again with its directory. `LOOPWARDEN_RESTARTS` says how
//! often, `LOOPWARDEN_STATE_MB` how large its local state is made. Nothing about time is asserted: the numbers are printed.

use std::time::Duration;

use loopwarden::store::{Change, KeyFamily, Position, RocksOptions, RocksStore, StateKey, StateStore};

use crate::{broker, scenario::Scenario, world::session};

/// Session, transaction, the broker's scans, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
const VALUE_BYTES: usize = 400;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

/// Gives a process that does not run the state of a task that is elsewhere now.
fn fatten(scenario: &Scenario, megabytes: u64) {
    let process = &scenario.processes[0];
    let owner = scenario.world.owner(&process.name);
    let mut store = RocksStore::open(&process.state_dir(), &RocksOptions::default(), &owner).expect("its store");
    let task = session(1_000);
    let mut written = 0;
    while written < megabytes * 1_000_000 / (VALUE_BYTES as u64 + 40) {
        let mut changes = Vec::new();
        for number in written..written + 5_000 {
            // As dense as hashes are.
            let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let next = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 32) as u8
            };
            let value: Vec<u8> = std::iter::repeat_with(next).take(VALUE_BYTES).collect();
            let key = format!("\u{1f}session-{:016x}\u{1f}main", number.wrapping_mul(0xbf58_476d_1ce4_e5b9));
            changes.push(Change { task, key: StateKey::new(KeyFamily::Head, key.into_bytes()), value: Some(value) });
        }
        written += changes.len() as u64;
        store.commit(changes).expect("written");
    }
    let position = Position { at_end_ms: loopwarden::clock::now_ms(), ..Position::default() };
    let value = Some(position.encode_for_store().expect("bytes"));
    store.commit(vec![Change { task, key: StateKey::position(), value }]).expect("written");
    println!("local state: {} MB in files", store.stats().expect("stats").sst_bytes / 1_000_000);
}

#[test]
pub(crate) fn a_killed_process_goes_on_with_its_directory() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let (restarts, megabytes) = (number("LOOPWARDEN_RESTARTS", 2), number("LOOPWARDEN_STATE_MB", 0));
    let mut scenario = Scenario::new(bootstrap, "restart", number("LOOPWARDEN_SEED", 31), 6);
    scenario.add(2, &[]);
    scenario.produce(2_000);
    scenario.wait("work", PATIENCE, |scenario| scenario.processed() >= 1_000);
    if megabytes > 0 {
        scenario.kill(0);
        fatten(&scenario, megabytes);
        scenario.start(0);
    }
    let mut slowest = (0, 0);
    for number in 0..restarts {
        let produced = scenario.feeder.as_ref().expect("a feeder").produced;
        scenario.produce(500);
        // In the middle of its work, a little later each time: also inside of a transaction.
        let behind = produced + number * 37 % 400;
        scenario.wait("work", PATIENCE, |scenario| scenario.processed() >= behind);
        scenario.kill(0);
        scenario.produce(200);
        let known = scenario.look().first_commits.len();
        scenario.start(0);
        scenario.wait("a first commit", PATIENCE, |scenario| scenario.look().first_commits.len() > known);
        let took = scenario.look().first_commits[known];
        if took > slowest.0 {
            slowest = (took, scenario.processes[0].starts);
        }
    }
    let mut first = scenario.look().first_commits.clone();
    first.sort_unstable();
    println!(
        "{} starts: first commit after {:?} ms at the median, {} at the most (life {})",
        first.len(),
        first.get(first.len() / 2),
        slowest.0,
        slowest.1
    );
    if std::env::var_os("LOOPWARDEN_KEEP_LOG").is_some() {
        println!("{}", std::fs::read_to_string(scenario.processes[0].log()).expect("a log"));
    }
    scenario.settle();
    scenario.verify().assert_exactly_once();
}
