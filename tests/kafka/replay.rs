//! A replay of a range of a topic: the same commands as the live run gave, id by id, and nothing written anywhere.

use std::process::{Command, Output, Stdio};
use std::{collections::BTreeMap, fs, time::Duration};

use loopwarden::{clock, clock::Deadline};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::{Value, json};

use crate::broker;
use crate::environment::told_nothing;
use crate::run::{Running, Scratch};
use crate::world::{PATIENCE, Seen, World, session, swarm};

const PARTITIONS: u32 = 4;

/// One record: key, value, headers.
type Made = (String, Vec<u8>, Vec<(&'static str, String)>);

fn call(id: &str, session: &str, command: &str) -> Value {
    json!({ "id": id, "kind": "tool", "session_id": session, "tool": "Bash", "args": { "command": command },
        "result": "error: no rule", "outcome": "error" })
}

/// A fleet: sessions that repeat one call until it is blocked, sessions that work, a swarm at one dead endpoint, events whose ids
/// are in headers only, and records that are no events.
fn fleet() -> Vec<Made> {
    let mut made: Vec<Made> = Vec::new();
    for round in 0..14 {
        for number in 0..24 {
            let name = format!("s{number}");
            let command = if number % 2 == 0 { "make".to_owned() } else { format!("make part-{round}") };
            made.push((name.clone(), call(&format!("{name}-{round}"), &name, &command).to_string().into_bytes(), vec![]));
        }
        let name = format!("w{round}");
        let mut event = call(&format!("{name}-0"), &name, "curl http://dead.example/");
        event["swarm_id"] = json!("swarm-1");
        made.push((name, event.to_string().into_bytes(), vec![]));
        let mut event = call("", "headers", "ls /none");
        event.as_object_mut().expect("an object").remove("id");
        let headers = vec![("ce_id", format!("h-{round}"))];
        made.push(("headers".to_owned(), event.to_string().into_bytes(), headers));
        made.push((format!("bad-{round}"), b"no json".to_vec(), vec![]));
    }
    made
}

/// Writes records of the day before yesterday, half a second apart, placed by murmur2.
fn produce(world: &World, records: &[Made], first_ms: i64) {
    let producer: BaseProducer = rdkafka::ClientConfig::new()
        .set("bootstrap.servers", &world.options.bootstrap_servers)
        .set("partitioner", "murmur2_random")
        .create()
        .expect("a producer");
    for (at, (key, value, headers)) in records.iter().enumerate() {
        let headers = headers
            .iter()
            .fold(OwnedHeaders::new(), |headers, (name, value)| headers.insert(Header { key: name, value: Some(value) }));
        let record = BaseRecord::to(&world.options.topics.input).key(key).payload(value).headers(headers);
        producer.send(record.timestamp(first_ms + 500 * at as i64)).map_err(|(error, _)| error).expect("queued");
    }
    producer.flush(PATIENCE).expect("delivered");
}

/// The topics of a live run.
fn topics(world: &World) -> Vec<String> {
    let options = &world.options;
    let topics = &options.topics;
    let mut names = vec![topics.input.clone(), topics.commands.clone(), topics.state.clone(), topics.dead_letters.clone()];
    for task in [session(0), swarm(0)] {
        names.push(options.input_topic(task.stage));
        names.push(options.changelog_topic(task.stage));
    }
    names
}

/// The end of every partition of the topics that a live run writes to, and the group's offsets.
fn marks(world: &World) -> BTreeMap<String, Vec<Option<i64>>> {
    let reader: BaseConsumer = rdkafka::ClientConfig::new()
        .set("bootstrap.servers", &world.options.bootstrap_servers)
        .set("group.id", format!("{}-marks", world.options.app))
        .create()
        .expect("a reader");
    let end = |name: &str, partition| reader.fetch_watermarks(name, partition, PATIENCE).ok().map(|(_, end)| end);
    let mut marks: BTreeMap<String, Vec<Option<i64>>> =
        topics(world).into_iter().map(|name| (name.clone(), (0..PARTITIONS as i32).map(|at| end(&name, at)).collect())).collect();
    let offsets = (0..PARTITIONS).map(|at| world.committed(session(at)).map(|next| next.0 as i64));
    marks.insert("group offsets".to_owned(), offsets.collect());
    marks
}

/// Waits until the live run has read everything and its swarm stage has spoken.
fn until_done(world: &World, running: &Scratch) {
    let deadline = Deadline::after(PATIENCE);
    loop {
        let now = marks(world);
        let said = commands(&world.read(&world.options.topics.commands));
        if now["group offsets"] == now[&world.options.topics.input]
            && said.values().any(|command| command["reason"]["code"] == "swarm_repeat")
        {
            return;
        }
        assert!(!deadline.is_over(), "the live run does not get on\n{}", running.log());
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

/// Commands by id.
pub(crate) fn commands(seen: &[Seen]) -> BTreeMap<String, Value> {
    by_id(seen.iter().map(|seen| serde_json::from_slice(seen.value.as_deref().unwrap_or_default()).expect("a command")))
}

pub(crate) fn by_id(commands: impl Iterator<Item = Value>) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for command in commands {
        let id = command["id"].as_str().expect("an id").to_owned();
        assert!(found.insert(id, command).is_none(), "an id came twice");
    }
    found
}

/// A command without what a replay may say otherwise: that it is one. Of a swarm's, how far its sums had come when it was sent
/// depends on their cut, and with it times, numbers and texts; what was crossed does not.
pub(crate) fn comparable(mut command: Value) -> Value {
    let is_swarm = command["scope"]["kind"] == "swarm";
    let fields = command.as_object_mut().expect("an object");
    fields.remove("mode");
    if is_swarm {
        for name in ["issued_at", "expires_at", "contributors", "message"] {
            fields.remove(name);
        }
        let reason = command["reason"].as_object_mut().expect("a reason");
        reason.remove("summary");
        let evidence = reason["evidence"].as_object_mut().expect("evidence");
        evidence.remove("count");
        evidence.remove("workers");
    }
    command
}

pub(crate) fn replay(scratch: &Scratch, world: &World, arguments: &[&str]) -> Output {
    told("replay", scratch, world, arguments)
}

/// What a command says about the world's events.
fn told(name: &str, scratch: &Scratch, world: &World, arguments: &[&str]) -> Output {
    let config = scratch.0.join("replay.toml");
    let options = &world.options;
    let text = format!(
        "instance = \"somebody\"\n[kafka]\nbootstrap_servers = \"{}\"\ngroup = \"{}\"\n",
        options.bootstrap_servers, options.app
    );
    fs::write(&config, text).expect("a configuration");
    let mut command = Command::new(env!("CARGO_BIN_EXE_loopwarden"));
    told_nothing(&mut command);
    command.args([name, "--topic", &options.topics.input, "--config"]).arg(&config).args(arguments);
    command.stdin(Stdio::null()).output().expect("the program")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[test]
fn a_replay_of_a_range_says_what_the_live_run_said_id_by_id_and_writes_nothing() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, PARTITIONS);
    let scratch = Scratch::new("replay");
    fs::create_dir_all(&scratch.0).expect("a directory");
    let records = fleet();
    let first_ms = clock::now_ms() - 2 * 86_400_000;
    produce(&world, &records, first_ms);

    // Before any live run: a replay leaves no trace of a group.
    let before = marks(&world);
    assert!(before["group offsets"].iter().all(Option::is_none));
    let early = replay(&scratch, &world, &["--from", "7d", "--to", "now", "--output", "ndjson", "--lanes", "1"]);
    assert!(early.status.success(), "{}", text(&early.stderr));
    assert_eq!(marks(&world), before, "a replay wrote or committed something");

    let running = Running::start(&world, &scratch);
    until_done(&world, &scratch);
    assert_eq!(running.end("TERM"), Some(0));
    let live = commands(&world.read(&world.options.topics.commands));
    for (action, code) in [("nudge", "similar_repeat"), ("block", "similar_repeat"), ("nudge", "swarm_repeat")] {
        let is_meant = |command: &&Value| command["action"] == action && command["reason"]["code"] == code;
        assert!(live.values().any(|command| is_meant(&command)), "the fleet leads to no {action} by {code}");
    }
    assert!(live.values().any(|command| command["session_id"] == "headers"), "ids in headers were not read");

    // The markers of the last transactions move the ends once more.
    topics(&world).iter().for_each(|topic| world.until_stable(topic));
    let before = marks(&world);
    for lanes in ["1", "2"] {
        let again = replay(&scratch, &world, &["--from", "7d", "--to", "now", "--output", "ndjson", "--lanes", lanes]);
        assert!(again.status.success(), "{}", text(&again.stderr));
        assert_eq!(text(&again.stdout), text(&early.stdout), "another replay says it otherwise");
    }
    assert_eq!(marks(&world), before, "a replay wrote or committed something");
    let replayed = by_id(text(&early.stdout).lines().map(|line| serde_json::from_str(line).expect("a command")));
    assert!(replayed.values().all(|command| command["mode"] != "live"));
    assert_eq!(replayed.keys().collect::<Vec<_>>(), live.keys().collect::<Vec<_>>());
    for (id, command) in replayed {
        assert_eq!(comparable(command), comparable(live[&id].clone()), "{id}");
    }
}

#[test]
fn a_range_ends_at_an_offset_or_a_time_and_what_is_no_event_is_told_with_its_place() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, PARTITIONS);
    let scratch = Scratch::new("range");
    fs::create_dir_all(&scratch.0).expect("a directory");
    let records = fleet();
    let first_ms = clock::now_ms() - 2 * 86_400_000;
    produce(&world, &records, first_ms);
    let input = world.read(&world.options.topics.input);
    let counted = |arguments: &[&str]| -> (u64, Output) {
        let output = replay(&scratch, &world, &[arguments, &["--output", "json"]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (json["events"].as_u64().expect("events") + json["rejected"].as_u64().expect("rejected"), output)
    };
    let within = |keep: &dyn Fn(&Seen) -> bool| input.iter().filter(|seen| keep(seen)).count() as u64;
    assert_eq!(counted(&[]).0, records.len() as u64);
    assert_eq!(counted(&["--from", "3", "--to", "9"]).0, within(&|seen| (3..9).contains(&seen.offset)));
    let time = loopwarden::event::EventTime(first_ms + 50_000);
    let (count, _) = counted(&["--to", &time.to_rfc3339()]);
    assert_eq!(count, within(&|seen| seen.timestamp_ms < time.0));
    assert_eq!(counted(&["--from", "1h"]).0, 0);
    let (_, output) = counted(&["--to", "20"]);
    let bad = input.iter().find(|seen| seen.value.as_deref() == Some(b"no json") && seen.offset < 20).expect("a bad record");
    let place = format!("{}/{}:{}: no event: not_json", world.options.topics.input, bad.partition, bad.offset);
    assert!(text(&output.stderr).contains(&place), "{place} in\n{}", text(&output.stderr));
    let strict = replay(&scratch, &world, &["--strict"]);
    assert_eq!(strict.status.code(), Some(3), "{}", text(&strict.stderr));
    let nowhere = replay(&scratch, &world, &["--from", "yesterday"]);
    assert!(text(&nowhere.stderr).contains("no place in a topic"), "{}", text(&nowhere.stderr));
}

#[test]
fn thresholds_are_swept_over_a_range_of_a_topic() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, PARTITIONS);
    let scratch = Scratch::new("sweep");
    fs::create_dir_all(&scratch.0).expect("a directory");
    produce(&world, &fleet(), clock::now_ms() - 2 * 86_400_000);
    let labels = scratch.0.join("labels.jsonl");
    let looping = |number: u32| {
        json!({ "session": format!("s{number}"), "label": "loop", "kind": "exact",
        "first_event_index": 0, "last_event_index": 13 })
    };
    fs::write(&labels, format!("{}\n{}\n", looping(0), looping(2))).expect("labels");
    let arguments = [
        "--labels",
        labels.to_str().expect("a path"),
        "--output",
        "json",
        "--policy",
        "hackeurope",
        "--sweep",
        "detectors.exact_repeat.threshold=3,12",
    ];
    let before = marks(&world);
    let swept = |range: &[&str]| -> Vec<(u64, u64)> {
        let output = told("replay", &scratch, &world, &[&arguments[..], range].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let row = |row: &Value| (row["loops_found"].as_u64().expect("loops"), row["delay_events"].as_u64().unwrap_or_default());
        json["points"].as_array().expect("points").iter().map(row).collect()
    };
    assert_eq!(swept(&[]), [(2, 2), (2, 11)]);
    // Within the first records of each partition nothing goes on for long.
    assert_eq!(swept(&["--to", "2"]), [(0, 0), (0, 0)]);
    assert_eq!(marks(&world), before, "a sweep wrote or committed something");
}
