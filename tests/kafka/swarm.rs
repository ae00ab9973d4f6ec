//! The whole pipeline on a real broker: processes of lanes, killed and replaced, and what their swarms are told.

use std::process::{Child, Command, Stdio};
use std::{io::Read, path::Path, sync::Arc, time::Duration};

use loopwarden::task::{Clock, CommitTrigger, Exit, Fleet, Lane, LaneSettings, Leases, ProcessMode, RestorePool, SystemClock};
use loopwarden::{
    clock, clock::Deadline, engine::SessionEngine, event::partition_of, log::Log, log::kafka::KafkaLog, store::MemoryStore,
};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Headers;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Message};
use serde_json::{Value, json};

use crate::broker;
use crate::swarm_cases::{SWARM_CASES, SwarmCase};
use crate::world::{PATIENCE, World};

/// What a child of this binary is told: it then is a process of lanes.
const TOLD: &str = "LOOPWARDEN_TEST_PROCESS";
/// A whole hour: panes, windows and periods begin here.
const START_MS: i64 = 1_795_291_200_000;

/// Lanes of one process on threads, with state in memory: what a killed one knew comes back from the changelog.
fn lanes(world: &World, instance: &str, lanes: u32, profile: &str, overrides: &Value) -> Fleet {
    let policy = Arc::new(loopwarden::config::policy::load_with_overrides(profile, overrides).expect("a policy"));
    let clock = SystemClock::start();
    let store = MemoryStore::new();
    let settings = Arc::new(LaneSettings {
        mode: ProcessMode::Live,
        trigger: CommitTrigger::Timed { max_ms: 100, min_ms: 5 },
        swarm: true,
        poll_ms_max: 10,
        ..LaneSettings::default()
    });
    let leases = Leases::new();
    let mut fleet = Fleet::new(clock, lanes as usize);
    for number in 0..lanes {
        let (options, store, settings) = (world.options_of(instance, number), store.clone(), Arc::clone(&settings));
        let (leases, policy) = (leases.clone(), Arc::clone(&policy));
        let make = move || {
            let log = KafkaLog::open(options).map_err(|error| Exit::Failed(error.to_string()))?;
            let readers = log.changelog().map_err(|error| Exit::Failed(error.to_string()))?.into_iter().collect();
            let shared: Arc<dyn Clock + Send + Sync> = Arc::new(clock);
            let pool = RestorePool::start(store.clone(), Arc::clone(&settings), readers, &shared).expect("restore threads");
            Ok(Lane::new(log, store, SessionEngine::new("loopwarden", policy), pool.client(), leases, settings))
        };
        fleet.spawn(make).expect("a thread");
    }
    fleet
}

/// Not a claim: this binary as a process of lanes, when [`TOLD`] says so. It ends when its standard input does.
#[test]
fn a_process_of_lanes() {
    let Ok(told) = std::env::var(TOLD) else { return };
    let told: Value = serde_json::from_str(&told).unwrap();
    let text = |name: &str| told[name].as_str().unwrap().to_owned();
    let world = World::attach(&text("bootstrap"), text("app"));
    let count = told["lanes"].as_u64().unwrap() as u32;
    let lanes = lanes(&world, &text("instance"), count, &text("profile"), &told["overrides"]);
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    loop {
        if let Some((lane, exit)) = lanes.next_exit(Duration::from_secs(1)) {
            eprintln!("lane {lane} ended: {exit}");
            std::process::exit(1);
        }
    }
}

/// Such a process, from outside. Dropping it is a `kill -9`.
struct Process {
    child: Child,
}

impl Process {
    fn start(world: &World, instance: &str, lanes: u32, profile: &str, overrides: &Value) -> Self {
        let told = json!({
            "bootstrap": world.options.bootstrap_servers, "app": world.options.app, "instance": instance, "lanes": lanes,
            "profile": profile, "overrides": overrides,
        });
        let child = Command::new(std::env::current_exe().expect("this binary"))
            .args(["--exact", "swarm::a_process_of_lanes", "--nocapture", "--test-threads=1"])
            .env(TOLD, told.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("a process");
        Self { child }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn producer(world: &World) -> BaseProducer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &world.options.bootstrap_servers).set("linger.ms", "1").create().expect("a producer")
}

fn send(producer: &BaseProducer, world: &World, partitions: u32, session: &str, json: &str, time_ms: i64) {
    let partition = partition_of(session.as_bytes(), partitions) as i32;
    let record = BaseRecord::to(&world.options.topics.input).partition(partition).key(session).payload(json).timestamp(time_ms);
    producer.send(record).expect("queued");
}

/// Commands as they come, under `read_committed`.
struct Commands {
    reader: BaseConsumer,
    seen: Vec<(String, String, Value)>,
}

impl Commands {
    fn of(world: &World) -> Self {
        let mut config = ClientConfig::new();
        let reader: BaseConsumer = config
            .set("bootstrap.servers", &world.options.bootstrap_servers)
            .set("group.id", format!("{}-reader", world.options.app))
            .set("isolation.level", "read_committed")
            .set("auto.offset.reset", "earliest")
            .set("fetch.wait.max.ms", "5")
            .create()
            .expect("a reader");
        reader.subscribe(&[&world.options.topics.commands]).expect("subscribed");
        Self { reader, seen: Vec::new() }
    }

    /// The next command within the wait: task, id, JSON.
    fn next(&mut self, wait: Duration) -> Option<&(String, String, Value)> {
        let message = self.reader.poll(wait)?.expect("a record");
        let headers = message.headers().expect("headers");
        let header = |name: &str| {
            let found = headers.iter().find(|header| header.key == name).and_then(|header| header.value).expect("a header");
            String::from_utf8(found.to_vec()).expect("text")
        };
        let command = serde_json::from_slice(message.payload().expect("a value")).expect("JSON");
        self.seen.push((header("lw_task"), header("ce_id"), command));
        self.seen.last()
    }

    /// Reads until `done` says so.
    fn until(&mut self, what: &str, done: impl Fn(&[(String, String, Value)]) -> bool) {
        let deadline = Deadline::after(PATIENCE * 2);
        while !done(&self.seen) {
            assert!(!deadline.is_over(), "{what} never came: {:?}", self.seen);
            self.next(Duration::from_millis(100));
        }
    }

    fn of_swarm(&self) -> Vec<&Value> {
        self.seen.iter().filter(|(task, ..)| task.starts_with("swarm/")).map(|(.., command)| command).collect()
    }
}

/// The last event of a test: a session that loops by itself. When it is told, what came before it in each partition has been read; a
/// second one, sent then, is told after the swarm stage had its turn.
fn sentinel(producer: &BaseProducer, world: &World, partitions: u32, commands: &mut Commands, round: usize, time_ms: i64) {
    for partition in 0..partitions {
        let name = |salt: u32| format!("sentinel-{round}-{salt}");
        let session = (0..).map(name).find(|name| partition_of(name.as_bytes(), partitions) == partition).unwrap();
        for id in 0..4 {
            let json = failing(&session, id, "sentinels", &format!("http://sentinel{session}"), time_ms);
            send(producer, world, partitions, &session, &json, time_ms);
        }
    }
    producer.flush(PATIENCE).expect("delivered");
    let count = partitions as usize;
    commands.until("a sentinel", |seen| {
        let prefix = format!("sentinel-{round}-");
        let mut told: Vec<&str> = seen.iter().filter_map(|(.., command)| command["session_id"].as_str()).collect();
        told.retain(|session| session.starts_with(&prefix));
        told.sort_unstable();
        told.dedup();
        told.len() == count
    });
}

fn failing(session: &str, id: usize, swarm: &str, url: &str, time_ms: i64) -> String {
    json!({
        "id": format!("{session}-{id}"), "session_id": session, "swarm_id": swarm, "time": time_ms, "kind": "tool",
        "tool": "fetch", "args": {"url": url}, "outcome": "error", "error": "timed out",
    })
    .to_string()
}

/// A call that worked, with an answer of its own.
fn working(session: &str, id: usize, swarm: &str, url: &str, time_ms: i64) -> String {
    json!({
        "id": format!("{session}-{id}"), "session_id": session, "swarm_id": swarm, "time": time_ms, "kind": "tool",
        "tool": "fetch", "args": {"url": url}, "outcome": "ok", "result": format!("page {id} of the list"),
    })
    .to_string()
}

/// Steps that a swarm was told.
fn steps(commands: &Commands, swarm: &str) -> Vec<u64> {
    let mine = commands.of_swarm().into_iter().filter(|command| command["swarm_id"] == swarm);
    let mut steps: Vec<u64> = mine.map(|command| command["reason"]["evidence"]["calls_at_least"].as_u64().unwrap()).collect();
    steps.sort_unstable();
    steps
}

#[test]
fn attocodes_global_cases_on_a_broker_with_two_processes() {
    const PARTITIONS: u32 = 4;
    let Some(bootstrap) = broker::bootstrap() else { return };
    let mut thresholds: Vec<u32> = SWARM_CASES.iter().map(|case| case.threshold).collect();
    thresholds.sort_unstable();
    thresholds.dedup();
    for threshold in thresholds {
        let world = World::new(bootstrap, PARTITIONS);
        let overrides = json!({"detectors": {"swarm_repeat": {"threshold": threshold}}});
        let start = |instance: &str| Process::start(&world, instance, 2, "attocode", &overrides);
        let mut processes = vec![start("lw-0"), start("lw-1")];
        let (producer, mut commands) = (producer(&world), Commands::of(&world));
        let cases: Vec<&SwarmCase> = SWARM_CASES.iter().filter(|case| case.threshold == threshold).collect();
        let mut events = 0;
        for case in &cases {
            for number in 0..case.acts.len() {
                match case.event(number, START_MS) {
                    Some((session, json, time_ms)) => send(&producer, &world, PARTITIONS, &session, &json, time_ms),
                    None => {
                        processes.clear();
                        processes.extend([start("lw-0"), start("lw-1")]);
                    }
                }
                events += 1;
            }
        }
        producer.flush(PATIENCE).expect("delivered");
        let expected: usize = cases.iter().map(|case| case.told.len()).sum();
        commands.until("a command to the swarms", |_| true);
        for round in 0..2 {
            sentinel(&producer, &world, PARTITIONS, &mut commands, round, START_MS + 60_000);
        }
        commands.until("the commands to the swarms", |seen| {
            seen.iter().filter(|(task, _, command)| task.starts_with("swarm/") && command["swarm_id"] != "sentinels").count()
                >= expected
        });
        for case in &cases {
            let told: Vec<u64> = case.told.iter().map(|(calls, _)| *calls).collect();
            assert_eq!(steps(&commands, case.name), told, "{}", case.name);
            let agents = commands.seen.iter().filter_map(|(.., command)| command["session_id"].as_str());
            let agents: Vec<&str> = agents.filter_map(|session| session.strip_prefix(&format!("{}-", case.name))).collect();
            assert_eq!(agents, case.told_agents, "{}", case.name);
        }
        let mut ids: Vec<&String> = commands.seen.iter().map(|(_, id, _)| id).collect();
        ids.sort_unstable();
        assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "an id twice");
        println!("threshold {threshold}: {} cases, {events} events, {} commands", cases.len(), commands.seen.len());
    }
}

#[test]
fn fifty_failing_sessions_are_one_command_although_processes_are_killed() {
    const PARTITIONS: u32 = 12;
    let Some(bootstrap) = broker::bootstrap() else { return };
    let mut ids = Vec::new();
    for lanes in [1, 3] {
        let world = World::new(bootstrap, PARTITIONS);
        let start = |instance: &str| Process::start(&world, instance, lanes, "default", &json!({}));
        let mut processes = vec![start("lw-0"), start("lw-1")];
        let (producer, mut commands) = (producer(&world), Commands::of(&world));
        for number in 0..50 {
            let session = format!("s{number}");
            let time_ms = START_MS + number * 700;
            send(&producer, &world, PARTITIONS, &session, &failing(&session, 0, "w", "http://dead", time_ms), time_ms);
            if number % 20 == 10 {
                producer.flush(PATIENCE).expect("delivered");
                let victim = (number as usize / 20) % 2;
                drop(processes.remove(victim));
                processes.insert(victim, start(&format!("lw-{victim}")));
            }
        }
        for round in 0..2 {
            sentinel(&producer, &world, PARTITIONS, &mut commands, round, START_MS + 60_000);
        }
        commands.until("the command", |seen| seen.iter().any(|(.., command)| command["swarm_id"] == "w"));
        let told: Vec<&Value> = commands.of_swarm().into_iter().filter(|command| command["swarm_id"] == "w").collect();
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!((&told[0]["action"], &told[0]["reason"]["code"]), (&"nudge".into(), &"swarm_repeat".into()));
        ids.push(told[0]["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(ids[0], ids[1]);
}

/// The interpreter with Kafka's client; `None` where it cannot be had, which is said aloud.
fn python() -> Option<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kafka/broker/python.sh");
    let made =
        Command::new("sh").arg(script).arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("python")).output().expect("a shell");
    if made.status.success() {
        return Some(String::from_utf8_lossy(&made.stdout).trim().to_owned());
    }
    println!("skipped: no Python with Kafka's client: {}", String::from_utf8_lossy(&made.stderr).trim());
    None
}

#[test]
fn the_example_orchestrator_stops_the_worker_that_is_blocked_and_no_other() {
    use std::os::unix::process::ExitStatusExt;
    let Some(bootstrap) = broker::bootstrap() else { return };
    let Some(python) = python() else { return };
    let world = World::new(bootstrap, 2);
    let pids = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pids-{}", world.options.app));
    std::fs::create_dir_all(&pids).unwrap();
    let mut workers: Vec<Child> = ["stuck", "busy"]
        .map(|session| {
            let worker = Command::new("sleep").arg("300").spawn().expect("a worker");
            std::fs::write(pids.join(format!("{session}.pid")), worker.id().to_string()).unwrap();
            worker
        })
        .into();
    let lanes = lanes(&world, "lw-0", 1, "default", &json!({}));
    let orchestrator = Command::new(python)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/examples/orchestrator.py"))
        .args(["--bootstrap", bootstrap, "--topic", &world.options.topics.commands])
        .args(["--group", &format!("{}-orchestrator", world.options.app), "--pids"])
        .arg(&pids)
        .stdout(Stdio::null())
        .spawn();
    let orchestrator = Process { child: orchestrator.expect("the orchestrator") };
    let producer = producer(&world);
    let now_ms = clock::now_ms();
    for id in 0..30 {
        let time_ms = now_ms + id;
        send(&producer, &world, 2, "stuck", &failing("stuck", id as usize, "w", "http://dead", time_ms), time_ms);
        send(&producer, &world, 2, "busy", &working("busy", id as usize, "w", &format!("http://{id}"), time_ms), time_ms);
    }
    producer.flush(PATIENCE).expect("delivered");
    let deadline = Deadline::after(PATIENCE * 2);
    let ended = loop {
        if let Some(ended) = workers[0].try_wait().unwrap() {
            break ended;
        }
        assert!(!deadline.is_over(), "the blocked worker lives: {:?}", world.values(&world.options.topics.commands));
        std::thread::park_timeout(Duration::from_millis(50));
    };
    assert_eq!(ended.signal(), Some(15));
    assert!(workers[1].try_wait().unwrap().is_none(), "a worker that gets on was stopped");
    workers[1].kill().unwrap();
    workers[1].wait().unwrap();
    drop(orchestrator);
    assert_eq!(lanes.stop(true), Exit::Stopped);
    std::fs::remove_dir_all(pids).unwrap();
}

/// Steps of a budget and lifted blocks, in the order in which they came.
fn of_budget(commands: &Commands) -> Vec<&str> {
    commands.of_swarm().into_iter().map(|command| command["action"].as_str().unwrap()).collect()
}

#[test]
fn a_budget_of_a_tenant_holds_over_eight_partitions_two_processes_and_kills_and_goes_on_when_it_is_raised() {
    const PARTITIONS: u32 = 8;
    const LIMIT: u64 = 150;
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, PARTITIONS);
    let start = |instance: &str, calls: u64| {
        let budget =
            json!({ "name": "b", "scope": "tenant", "mode": "block", "calls": calls, "warn_share": 0.0, "nudge_share": 0.0 });
        Process::start(&world, instance, 2, "default", &json!({ "budget": [budget] }))
    };
    let mut processes = vec![start("lw-0", LIMIT), start("lw-1", LIMIT)];
    let (producer, mut commands) = (producer(&world), Commands::of(&world));
    let mut made = 0_u64;
    for (round, blocks) in [1, 2].into_iter().enumerate() {
        // Forty agents call until they hear of the block; meanwhile one process after the other is killed and comes back.
        let limit = LIMIT * (round as u64 + 1);
        let begun = made;
        while of_budget(&commands).iter().filter(|action| **action == "block").count() < blocks {
            assert!(made < 100 * LIMIT, "no block: {:?}", commands.seen);
            for _ in 0..5 {
                let session = format!("s{}", made % 40);
                let json = json!({
                    "id": made.to_string(), "session_id": session, "tenant": "acme", "time": START_MS + made as i64, "kind": "tool",
                    "tool": "t", "args": { "n": made }, "result": format!("page {made}"),
                });
                send(&producer, &world, PARTITIONS, &session, &json.to_string(), START_MS + made as i64);
                made += 1;
            }
            producer.flush(PATIENCE).expect("delivered");
            if made - begun == 50 || made - begun == 100 {
                let at = usize::from(made - begun == 100);
                drop(processes.remove(at));
                processes.insert(at, start(["lw-0", "lw-1"][at], limit));
            }
            while commands.next(Duration::from_millis(20)).is_some() {}
        }
        let told = commands.of_swarm();
        let block = told.last().unwrap();
        let count = block["reason"]["evidence"]["count"].as_u64().unwrap();
        // What lies above the limit was on its way when the sum crossed it.
        assert!((limit..=made).contains(&count), "{count} of {limit}, {made} made");
        println!("blocked at {count} of {limit}; {made} calls were made until the block was heard of");
        if round == 0 {
            // Raised, it resumes without a call of anybody.
            processes.clear();
            processes.extend([start("lw-0", 2 * LIMIT), start("lw-1", 2 * LIMIT)]);
            commands.until("the block to be lifted", |seen| seen.iter().any(|(.., command)| command["action"] == "unblock"));
            assert_eq!(of_budget(&commands), ["block", "unblock"]);
            assert!(made < 2 * LIMIT, "there is something left of the raised budget: {made}");
        }
    }
    assert_eq!(of_budget(&commands), ["block", "unblock", "block"]);
    let seqs: Vec<u64> = commands.of_swarm().iter().map(|command| command["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, [1, 2, 3]);
    let mut ids: Vec<&String> = commands.seen.iter().map(|(_, id, _)| id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), commands.seen.len(), "a command twice");
}
