//! A person answers a process with Kafka, by a link of a chat and over HTTP: the answer is an event of the topic, under the key of its session.

use std::io::{Read as _, Write as _};
use std::{fs, net::TcpStream};

use loopwarden::clock::Deadline;
use loopwarden::event::{EventTime, partition_of};
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use serde_json::{Value, json};

use crate::receiver::{Receiver, Request, TAKES};
use crate::run::{Running, Scratch, produce, with_tables};
use crate::world::{PATIENCE, World};
use crate::{broker, webhooks::loops};

const PUBLIC: &str = "https://warden.example";

/// Where the process listens, as its log has it.
fn listening(scratch: &Scratch) -> String {
    let log = scratch.log();
    let line = log.lines().find(|line| line.contains("\"listening\"")).expect("it listens");
    let line: Value = serde_json::from_str(line).expect("a whole line");
    line["address"].as_str().expect("an address").to_owned()
}

fn send(address: &str, path: &str, media: &str, body: &str) -> String {
    request(address, "POST", path, media, body)
}

fn request(address: &str, method: &str, path: &str, media: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the listener");
    let head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: {media}\r\n");
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// Answers on the topic of events, with their keys, once there are so many.
fn answers(world: &World, count: usize) -> Vec<(String, Value)> {
    let deadline = Deadline::after(PATIENCE);
    loop {
        let seen = world.read(&world.options.topics.input);
        let event = |seen: crate::world::Seen| {
            let event: Value = serde_json::from_slice(seen.value.as_deref()?).ok()?;
            (event["kind"] == "answer").then(|| (String::from_utf8_lossy(&seen.key).into_owned(), event))
        };
        let found: Vec<(String, Value)> = seen.into_iter().filter_map(event).collect();
        if found.len() >= count {
            return found;
        }
        assert!(!deadline.is_over(), "{} of {count} answers", found.len());
    }
}

#[test]
fn an_answer_by_a_link_or_over_http_is_an_event_of_the_topic() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 4);
    let scratch = Scratch::new("answers");
    fs::create_dir_all(&scratch.0).expect("a directory");
    fs::write(scratch.0.join("secret"), "0123456789abcdef0123456789abcdef").expect("a secret");
    let slack = Receiver::start(|_, _| TAKES);
    let tables = format!(
        "mode = \"live\"\n[http]\npublic_url = \"{PUBLIC}\"\nlink_secret_file = \"secret\"\n[[webhook]]\nname = \"chat\"\n\
         url = \"http://{}/hook\"\nformat = \"slack\"\nstart = \"earliest\"\n",
        slack.address
    );
    let running = Running::in_mode("live", with_tables(&world, &scratch, "lw-0", &tables), &scratch);
    let address = listening(&scratch);
    produce(&world, &loops(0..1));
    let link = |message: &Request| {
        let text = String::from_utf8_lossy(&message.body).into_owned();
        let mut links = text.split(&format!("{PUBLIC}/a/")).skip(1).map(str::to_owned).collect::<Vec<_>>().into_iter();
        links.nth(1).and_then(|rest| rest.split('"').next().map(|token| format!("/a/{token}")))
    };
    let seen = slack.until("a message with links", |seen| seen.iter().any(|message| link(message).is_some()));
    let path = seen.iter().find_map(link).expect("a link");
    let answer = send(&address, &path, "application/x-www-form-urlencoded", "name=Ann");
    // Lanes of this process judge it: mostly while whoever acts waits.
    let is_said = answer.contains("It is in force.") || answer.contains("in force once it is judged");
    assert!(answer.starts_with("HTTP/1.1 200 ") && is_said, "{answer}");
    let [(key, event)] = <[_; 1]>::try_from(answers(&world, 1)).expect("one");
    assert_eq!(Some(key.as_str()), event["session_id"].as_str());
    assert_eq!(
        (&event["answer"], &event["labels"]),
        (&json!("false_alarm"), &json!({ "actor": "link:chat", "typed_name": "Ann" })),
        "{event}"
    );
    let told = world.read(&world.options.topics.commands);
    let command: Value = serde_json::from_slice(told[0].value.as_deref().expect("a command")).expect("JSON");
    let body = json!({ "command_id": command["id"], "answer": "right" }).to_string();
    let answer = send(&address, "/v1/answers", "application/json", &body);
    assert!(answer.starts_with("HTTP/1.1 202 ") && answer.contains("\"judged\":"), "{answer}");
    assert_eq!(answers(&world, 2).len(), 2);
    // A stop and its release go the same way as an answer that stops, and to the same partition.
    let stop = json!({ "scope": "session", "session_id": key, "reason": "r", "for": "1h" }).to_string();
    let answer = send(&address, "/v1/stops", "application/json", &stop);
    assert!(answer.starts_with("HTTP/1.1 202 ") && answer.contains("\"in_force\":"), "{answer}");
    let wait = |count: usize| {
        let deadline = Deadline::after(PATIENCE);
        loop {
            let answer = request(&address, "GET", "/v1/stops", "application/json", "");
            if answer.matches("\"scope\":\"session\"").count() == count {
                return;
            }
            assert!(!deadline.is_over(), "{count}: {answer}");
        }
    };
    wait(1);
    let path = format!("/v1/stops?scope=session&session_id={key}");
    let answer = request(&address, "DELETE", &path, "application/json", "");
    assert!(answer.starts_with("HTTP/1.1 202 "), "{answer}");
    wait(0);
    // Nothing else is waiting to be judged by now.
    let answer = request(&address, "DELETE", &path, "application/json", "");
    assert!(answer.contains("nothing_to_release") || answer.contains("\"released\":false"), "{answer}");
    let unknown = json!({ "command_id": "0".repeat(26), "answer": "right" }).to_string();
    assert!(send(&address, "/v1/answers", "application/json", &unknown).starts_with("HTTP/1.1 404 "));
    assert_eq!(running.end("TERM"), Some(0));
}

/// Partitions of the topic that a record without a partition of its own goes to.
const PARTITIONS: u32 = 4;

#[test]
fn an_act_without_its_own_key_or_from_another_partitioner_is_a_dead_letter_and_its_release_finds_every_stop() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, PARTITIONS);
    let scratch = Scratch::new("acts");
    fs::create_dir_all(&scratch.0).expect("a directory");
    let running = Running::in_mode("live", with_tables(&world, &scratch, "lw-0", "mode = \"live\"\n"), &scratch);
    let address = listening(&scratch);
    let until = |hours: i64| EventTime(loopwarden::clock::now_ms()).plus_ms(3_600_000 * hours).to_rfc3339();
    let act = |id: String, kind: &str, until: String| {
        json!({ "id": id, "kind": kind, "scope": "session", "session_id": "s", "reason": "r", "until": until }).to_string()
    };
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", &world.options.bootstrap_servers).create().expect("a producer");
    let send_to = |partition: u32, key: Option<&str>, act: &str| {
        let mut record = BaseRecord::<str, str>::to(&world.options.topics.input).partition(partition as i32).payload(act);
        record.key = key;
        producer.send(record).map_err(|(error, _)| error).expect("queued");
    };
    let own = partition_of(b"s", PARTITIONS);
    send_to(own, Some("s"), &act("long".to_owned(), "stop", until(2)));
    for partition in 0..PARTITIONS {
        send_to(partition, None, &act(format!("keyless-{partition}"), "stop", until(1)));
        send_to(partition, Some("t"), &act(format!("other-{partition}"), "release", until(1)));
        if partition != own {
            send_to(partition, Some("s"), &act(format!("elsewhere-{partition}"), "stop", until(1)));
        }
    }
    send_to(own, Some("s"), &act("release".to_owned(), "release", until(1)));
    producer.flush(PATIENCE).expect("delivered");
    let told = |topic: &str, count: usize| {
        let deadline = Deadline::after(PATIENCE);
        loop {
            let seen = world.read(topic);
            if seen.len() >= count {
                return seen;
            }
            assert!(!deadline.is_over(), "{} of {count} in {topic}", seen.len());
        }
    };
    let letters = told(&world.options.topics.dead_letters, 3 * PARTITIONS as usize - 1);
    assert!(letters.iter().all(|letter| crate::intake::header(letter, "dlq.reason") == "wrong_key"));
    let commands = told(&world.options.topics.commands, 2);
    let actions: Vec<Value> = commands
        .iter()
        .map(|seen| serde_json::from_slice::<Value>(seen.value.as_deref().expect("one")).expect("JSON")["action"].clone())
        .collect();
    assert_eq!(actions, ["block", "unblock"]);
    assert!(!request(&address, "GET", "/v1/stops", "application/json", "").contains("\"session_id\":\"s\""), "nobody is stopped");
    assert_eq!(running.end("TERM"), Some(0));
}
