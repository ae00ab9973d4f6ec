//! Foreign topics on a real broker: their records become events by session, each once, whatever dies in between.

use std::collections::{BTreeMap, BTreeSet};
use std::{fs, process::Command, time::Duration};

use loopwarden::log::kafka::admin::topics::{Admin, Purpose, TopicPlan};
use loopwarden::{clock, clock::Deadline, event::EventTime};
use loopwarden_sources::{Sessions, otlp};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::{Value, json};

use crate::broker;
use crate::replay::{by_id, commands, comparable, replay, text};
use crate::run::{Running, Scratch, program, repeats, until, with_tables};
use crate::world::{PATIENCE, Seen, World, session};

const PARTITIONS: u32 = 4;

/// Protobuf, as much of it as a span needs.
mod proto {
    fn varint(mut value: u64, bytes: &mut Vec<u8>) {
        while value >= 0x80 {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
    }

    pub(super) fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        varint(field << 3 | 2, &mut bytes);
        varint(value.len() as u64, &mut bytes);
        bytes.extend_from_slice(value);
        bytes
    }

    pub(super) fn fixed64(field: u64, value: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        varint(field << 3 | 1, &mut bytes);
        bytes.extend_from_slice(&value.to_le_bytes());
        bytes
    }

    pub(super) fn attribute(key: &str, value: &str) -> Vec<u8> {
        let any = bytes(1, value.as_bytes());
        bytes(9, &[bytes(1, key.as_bytes()), bytes(2, &any)].concat())
    }
}

/// A call by the semantic conventions. Its trace is its session's.
fn span(session: u32, number: u32, end_ms: i64) -> Vec<u8> {
    let name = format!("s{session}");
    // Every second one repeats itself.
    let command = if session.is_multiple_of(2) { "make".to_owned() } else { format!("make part-{number}") };
    let [trace, id] = [u128::from(session) + 1, (u128::from(session) << 32) + u128::from(number) + 1];
    let end_ns = end_ms as u64 * 1_000_000;
    [
        proto::bytes(1, &trace.to_be_bytes()),
        proto::bytes(2, &(id as u64).to_be_bytes()),
        proto::bytes(5, b"execute_tool Bash"),
        proto::fixed64(7, end_ns - 50_000_000),
        proto::fixed64(8, end_ns),
        proto::attribute("gen_ai.operation.name", "execute_tool"),
        proto::attribute("gen_ai.tool.name", "Bash"),
        proto::attribute("gen_ai.conversation.id", &name),
        proto::attribute("gen_ai.tool.call.arguments", &json!({ "command": command }).to_string()),
        proto::attribute("gen_ai.tool.call.result", "error: no rule"),
    ]
    .concat()
}

/// What a collector's exporter writes.
fn export(spans: &[Vec<u8>]) -> Vec<u8> {
    let spans: Vec<u8> = spans.iter().flat_map(|span| proto::bytes(2, span)).collect();
    proto::bytes(1, &proto::bytes(2, &spans))
}

/// One record: partition, value, time.
type Made = (i32, Vec<u8>, i64);

/// Sessions 0 to 23 have their agents behind one collector each, which writes to one partition; those from 24 on are spread over all.
fn exports(first_ms: i64) -> Vec<Made> {
    let mut made = Vec::new();
    for round in 0..14 {
        for partition in 0..PARTITIONS {
            let of = |session: u32| span(session, round, first_ms + i64::from(round * 40 + session) * 250);
            let mut spans: Vec<Vec<u8>> = (0..24).filter(|session| session % PARTITIONS == partition).map(of).collect();
            spans.extend((24..30).filter(|session| (session + round) % PARTITIONS == partition).map(of));
            made.push((partition as i32, export(&spans), first_ms + i64::from(round * 40 + 40) * 250));
        }
    }
    made
}

pub(crate) fn topic(world: &World, name: &str, partitions: u32) -> String {
    let name = format!("{}.{name}", world.options.app);
    let config = vec![("retention.ms", "-1".to_owned())];
    let plan = TopicPlan { name: name.clone(), purpose: Purpose::Input, partitions, replication: 1, config };
    Admin::new(&world.options).expect("an admin client").create(&[plan]).expect("a topic");
    name
}

fn produce(world: &World, topic: &str, records: &[Made]) {
    let producer: BaseProducer =
        rdkafka::ClientConfig::new().set("bootstrap.servers", &world.options.bootstrap_servers).create().expect("a producer");
    for (partition, value, time_ms) in records {
        let record = BaseRecord::<(), [u8]>::to(topic).partition(*partition).payload(value).timestamp(*time_ms);
        producer.send(record).map_err(|(error, _)| error).expect("queued");
    }
    producer.flush(PATIENCE).expect("delivered");
}

pub(crate) fn header<'a>(seen: &'a Seen, name: &str) -> &'a str {
    let found = seen.headers.iter().rev().find(|(header, _)| header == name);
    std::str::from_utf8(found.map_or(&[][..], |(_, value)| value)).expect("text")
}

/// Waits until everything in the input topic was judged.
fn until_judged(world: &World, log: &Scratch) {
    let deadline = Deadline::after(PATIENCE);
    loop {
        let input = world.read(&world.options.topics.input);
        let next = |partition: u32| {
            input.iter().filter(|seen| seen.partition == partition as i32).map(|seen| seen.offset as u64 + 1).max().unwrap_or(0)
        };
        if (0..PARTITIONS).all(|at| world.committed(session(at)).map_or(0, |offset| offset.0) >= next(at)) {
            return;
        }
        assert!(!deadline.is_over(), "the lanes do not get on\n{}", log.log());
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

/// The events that records are meant to become, by the library and in their order.
fn expected(records: &[Made]) -> Vec<(String, String)> {
    let mut events = Vec::new();
    for (_, value, time_ms) in records {
        let kind = (otlp::Signal::Traces, otlp::Form::Protobuf);
        let batch = otlp::read(kind, value, &mut Sessions::default(), EventTime(*time_ms), 1 << 18).expect("an export");
        assert!(batch.refused.is_empty() && batch.ignored == 0, "{:?}", batch.refused);
        events.extend(batch.events.into_iter().map(|made| (made.session_id, String::from_utf8(made.json).expect("text"))));
    }
    events
}

#[test]
fn spans_without_a_key_become_events_by_session_once_through_the_deaths_of_every_process() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, PARTITIONS);
    let spans = topic(&world, "otlp_spans", PARTITIONS);
    let inputs = format!("[[input]]\ntopic = \"{spans}\"\nform = \"otlp_proto\"\n");
    let scratches = [Scratch::new("intake-a"), Scratch::new("intake-b")];
    let start = |at: usize| {
        let instance = ["lw-0", "lw-1"][at];
        Running::of(with_tables(&world, &scratches[at], instance, &inputs), &scratches[at])
    };
    let records = exports(clock::now_ms() - 3_600_000);
    let events = expected(&records);
    let input = world.options.topics.input.clone();
    let garbage = b"\xff\xff\xff no protobuf".to_vec();

    // In five parts; between them a process dies in the middle of what it does, and comes back.
    let parts: Vec<&[Made]> = records.chunks(records.len().div_ceil(5)).collect();
    let mut running = [Some(start(0)), Some(start(1))];
    let mut written = 0;
    for (number, part) in parts.iter().enumerate() {
        produce(&world, &spans, part);
        produce(&world, &spans, &[(number as i32 % 4, garbage.clone(), part[0].2)]);
        // Some of it is there, the rest is under way.
        until(&world, &input, written + 1);
        let at = number % 2;
        assert_eq!(running[at].take().expect("it runs").end("KILL"), None);
        written += expected(part).len();
        running[at] = Some(start(at));
    }
    until(&world, &input, events.len());
    until(&world, &world.options.topics.dead_letters, parts.len());
    until_judged(&world, &scratches[0]);
    for process in running {
        assert_eq!(process.expect("it runs").end("TERM"), Some(0));
    }

    // Each event once, keyed by its session, and in the order of its source's partition.
    let seen = world.read(&input);
    let mut values: Vec<&str> =
        seen.iter().map(|seen| std::str::from_utf8(seen.value.as_deref().expect("a value")).expect("text")).collect();
    let mut wanted: Vec<&str> = events.iter().map(|(_, event)| event.as_str()).collect();
    values.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(values.len(), wanted.len(), "so many events");
    assert!(values == wanted, "the events are others");
    let mut last: BTreeMap<(i32, String), u64> = BTreeMap::new();
    for event in &seen {
        let value: Value = serde_json::from_slice(event.value.as_deref().expect("a value")).expect("JSON");
        assert_eq!(value["session_id"].as_str().map(str::as_bytes), Some(&event.key[..]));
        let (from, offset) = header(event, "lw_source").rsplit_once('/').expect("a place");
        let offset: u64 = offset.parse().expect("an offset");
        let before = last.insert((event.partition, from.to_owned()), offset);
        assert!(before.is_none_or(|before| before <= offset), "{from}/{offset} stands behind {before:?}");
    }
    let letters = world.read(&world.options.topics.dead_letters);
    let places: BTreeSet<String> = letters
        .iter()
        .map(|letter| ["dlq.topic", "dlq.partition", "dlq.offset"].map(|name| header(letter, name)).join("/"))
        .collect();
    assert_eq!((letters.len(), places.len()), (parts.len(), parts.len()), "a dead letter for each record that is no export");
    for letter in &letters {
        assert_eq!((header(letter, "dlq.reason"), header(letter, "dlq.form")), ("unsupported_format", "otlp_proto"));
        assert_eq!(letter.value.as_deref(), Some(&garbage[..]));
    }

    // The commands are those of a replay of what stands in the input topic, id by id.
    let live = commands(&world.read(&world.options.topics.commands));
    let again = replay(&scratches[0], &world, &["--from", "7d", "--to", "now", "--output", "ndjson", "--lanes", "1"]);
    assert!(again.status.success(), "{}", text(&again.stderr));
    let replayed = by_id(text(&again.stdout).lines().map(|line| serde_json::from_str(line).expect("a command")));
    assert_eq!(replayed.keys().collect::<Vec<_>>(), live.keys().collect::<Vec<_>>());
    for (id, command) in &replayed {
        assert_eq!(comparable(command.clone()), comparable(live[id].clone()), "{id}");
    }

    // And, for sessions that lay in one partition, those of a replay of the spans themselves.
    let is_whole =
        |session: &str| session.strip_prefix('s').and_then(|number| number.parse::<u32>().ok()).is_some_and(|s| s < 24);
    let file = scratches[0].0.join("spans.ndjson");
    let lines: Vec<&str> = events.iter().filter(|(session, _)| is_whole(session)).map(|(_, event)| event.as_str()).collect();
    fs::write(&file, lines.join("\n")).expect("a file");
    let output = Command::new(env!("CARGO_BIN_EXE_loopwarden"))
        .args(["replay", &file.to_string_lossy(), "--lanes", "1", "--output", "ndjson"])
        .output()
        .expect("the program");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = |command: &Value| {
        let reason = &command["reason"];
        [&command["session_id"], &command["action"], &reason["code"], &command["seq"]].map(ToString::to_string)
    };
    let of_file: BTreeSet<[String; 4]> =
        text(&output.stdout).lines().map(|line| said(&serde_json::from_str(line).expect("a command"))).collect();
    let of_live: BTreeSet<[String; 4]> =
        live.values().filter(|command| command["session_id"].as_str().is_some_and(is_whole)).map(said).collect();
    assert_eq!(of_live, of_file);
    assert!(of_file.len() >= 12, "every second session repeats itself: {of_file:?}");
}

/// Writes one record with headers and without a key.
pub(crate) fn write(world: &World, topic: &str, headers: &[(&str, &str)], value: &str) {
    let producer: BaseProducer =
        rdkafka::ClientConfig::new().set("bootstrap.servers", &world.options.bootstrap_servers).create().expect("a producer");
    let with = |all: OwnedHeaders, (key, value): &(&str, &str)| all.insert(Header { key, value: Some(*value) });
    let headers = headers.iter().fold(OwnedHeaders::new(), with);
    let record = BaseRecord::<(), str>::to(topic).payload(value).headers(headers);
    producer.send(record).map_err(|(error, _)| error).expect("queued");
    producer.flush(PATIENCE).expect("delivered");
}

/// Asks the process how it is until it tells all of this: what is committed is counted a moment later.
fn until_told(world: &World, scratch: &Scratch, parts: &[&str]) {
    let log = scratch.log();
    let line = log.lines().find(|line| line.contains("\"listening\"")).expect("it listens");
    let line: Value = serde_json::from_str(line).expect("a whole line");
    let address = line["address"].as_str().expect("an address");
    let deadline = Deadline::after(PATIENCE);
    loop {
        let output = program(world, &["doctor", "--address", address]).output().expect("the program");
        let told = text(&output.stdout);
        if parts.iter().all(|part| told.contains(part)) {
            return;
        }
        assert!(!deadline.is_over(), "{told}\n{}", text(&output.stderr));
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

const MAPPING: &str = r#"
filter = "type == 'tool.finished'"

[fields]
session_id = "run.id"
tool = "call.name"
args = "call.input"
result = "call.output"
outcome = "call.failed && 'error' || 'ok'"
id = "key"
"#;

#[test]
fn a_mapping_cloud_events_by_headers_and_native_events_without_a_key_are_read_beside_one_another() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, PARTITIONS);
    let [jobs, clouds, natives] = ["jobs", "clouds", "natives"].map(|name| topic(&world, name, 2));
    let scratch = Scratch::new("intake-forms");
    fs::create_dir_all(&scratch.0).expect("a directory");
    fs::write(scratch.0.join("map.toml"), MAPPING).expect("a mapping");
    // The path is relative to the file.
    let inputs = format!(
        "[[input]]\ntopic = \"{jobs}\"\nform = \"json\"\nmapping = \"map.toml\"\n\
         [[input]]\ntopic = \"{clouds}\"\nform = \"cloudevents\"\n[[input]]\ntopic = \"{natives}\"\n"
    );
    let running = Running::of(with_tables(&world, &scratch, "lw-0", &inputs), &scratch);
    let native = |session: &str, number: u32| {
        json!({ "id": format!("{session}-{number}"), "kind": "tool", "session_id": session, "tool": "Bash",
            "args": { "command": "make" }, "result": "no rule", "outcome": "error" })
    };
    for number in 0..3 {
        let job = json!({ "type": "tool.finished", "key": format!("j-{number}"), "run": { "id": "job" },
            "call": { "name": "Bash", "input": { "command": "make" }, "output": "no rule", "failed": true } });
        write(&world, &jobs, &[], &job.to_string());
        write(&world, &natives, &[], &native("plain", number).to_string());
        let mut data = native("binary", number);
        data.as_object_mut().expect("an object").retain(|name, _| name != "session_id" && name != "id");
        let id = number.to_string();
        let mut headers = vec![("ce_specversion", "1.0"), ("ce_source", "/fleet"), ("ce_type", "call"), ("ce_subject", "binary")];
        headers.extend([("ce_id", id.as_str()), ("content-type", "application/json")]);
        write(&world, &clouds, &headers, &data.to_string());
        let whole = json!({ "specversion": "1.0", "id": id, "source": "/fleet", "type": "call", "subject": "structured",
            "data": native("structured", number) });
        write(&world, &clouds, &[("content-type", "application/cloudevents+json; charset=utf-8")], &whole.to_string());
    }
    // One session of two topics.
    let job = json!({ "type": "tool.finished", "key": "both", "run": { "id": "both" },
        "call": { "name": "Bash", "input": { "command": "ls" }, "output": "a" } });
    write(&world, &jobs, &[], &job.to_string());
    write(&world, &natives, &[], &native("both", 0).to_string());
    write(&world, &jobs, &[], &json!({ "type": "tool.started" }).to_string());
    write(&world, &jobs, &[], &json!({ "type": "tool.finished", "run": {} }).to_string());
    write(&world, &clouds, &[], "{}");
    let seen = until(&world, &world.options.topics.commands, 4);
    let letters = until(&world, &world.options.topics.dead_letters, 2);
    until(&world, &world.options.topics.input, 14);
    let of_jobs = format!("ok    topic {jobs}, mapping: 4 calls; names, arguments and results can be compared\n");
    let of_clouds =
        format!("ok    topic {clouds}, /fleet (CloudEvents): 6 calls; names, arguments and results can be compared\n");
    let refused = format!("todo  [W0308] topic {jobs}, mapping: 1 of 6 records are refused\n");
    let twofold = "todo  [W0306] sessions that two sources report, so that calls count twice: 1: both (";
    until_told(&world, &scratch, &[&of_jobs, &of_clouds, &refused, twofold]);
    assert_eq!(running.end("TERM"), Some(0), "{}", scratch.log());
    assert_eq!(repeats(&seen), ["binary", "job", "plain", "structured"]);
    let mut told: Vec<[&str; 3]> =
        letters.iter().map(|letter| ["dlq.form", "dlq.reason", "dlq.topic"].map(|name| header(letter, name))).collect();
    told.sort_unstable();
    assert_eq!(told, [["cloudevents", "unsupported_format", clouds.as_str()], ["json", "missing_field", jobs.as_str()]]);
    let events = world.read(&world.options.topics.input);
    assert_eq!(events.len(), 14, "the filter leaves one out");
    assert!(events.iter().all(|event| !event.key.is_empty()));
}

#[test]
fn a_topic_of_another_form_is_stopped_where_that_is_asked_for_and_the_others_go_on() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, PARTITIONS);
    let [wrong, right] = ["wrong", "right"].map(|name| topic(&world, name, 1));
    let scratch = Scratch::new("intake-wrong");
    let inputs = format!("[[input]]\ntopic = \"{wrong}\"\nform = \"otlp_proto\"\n[[input]]\ntopic = \"{right}\"\n");
    let garbage: Vec<Made> = (0..200).map(|_| (0, b"\xff\xff\xff".to_vec(), clock::now_ms())).collect();
    produce(&world, &wrong, &garbage);
    let mut stopping = with_tables(&world, &scratch, "lw-0", &inputs);
    stopping.args(["--set", "kafka.on_bad_records=stop"]);
    let running = Running::of(stopping, &scratch);
    until(&world, &world.options.topics.dead_letters, 51);
    write(&world, &right, &[], r#"{"id":"e","kind":"tool","session_id":"s","tool":"t","outcome":"ok"}"#);
    until(&world, &world.options.topics.input, 1);
    assert_eq!(running.end("TERM"), Some(70), "a task that has stopped itself is told at the end\n{}", scratch.log());
    let log = scratch.log();
    assert!(log.contains("E0301") && log.contains(&wrong), "{log}");
    assert_eq!(world.read(&world.options.topics.dead_letters).len(), 51, "nothing more was read of it");
}
