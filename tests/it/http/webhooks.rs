//! Commands as webhooks of a process with a log of its own: in order, each at least once, whatever a receiver does.

use std::{fs, path::Path, process::Command};

use loopwarden_token::hmac_sha256;
use native_tls::{Identity, TlsAcceptor};
use serde_json::{Value, json};

use crate::http::{Running, Scratch, failed_call};
use crate::receiver::{Receiver, Reply, Request, TAKES, taken};

/// A table `[[webhook]]` for a receiver.
fn table(name: &str, receiver: &Receiver, more: &str) -> String {
    format!("[[webhook]]\nname = \"{name}\"\nurl = \"http://{}/hook?to={name}\"\n{more}\n", receiver.address)
}

/// Starts the process with these tables.
fn start(dir: &Path, tables: &[String]) -> Running {
    let config = dir.join("loopwarden.toml");
    fs::write(&config, tables.concat()).unwrap();
    Running::start_with(dir, &["--log-level", "info", "--config", &config.to_string_lossy()], &[])
}

/// Equal calls of a session: enough for a nudge and a block.
const CALLS: usize = 10;

/// A name in an address.
fn encoded(name: &str) -> String {
    let byte = |byte: u8| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    name.bytes().map(byte).collect()
}

/// Sends a loop in each of these sessions, and waits until all is said. The commands of all time, in order.
fn loops(running: &Running, sessions: &[&str]) -> Vec<Value> {
    for number in 1..=CALLS {
        sessions.iter().for_each(|session| running.accept(&failed_call(session, number)));
    }
    sessions.iter().for_each(|session| running.until_said(&encoded(session), CALLS));
    let commands = running.commands("after=0&wait=0s").0;
    assert!(sessions.iter().all(|session| commands.iter().any(|command| command["session_id"] == *session)), "{commands:?}");
    commands
}

fn ids(commands: &[Value]) -> Vec<String> {
    commands.iter().map(|command| command["id"].as_str().unwrap().to_owned()).collect()
}

fn has_taken(count: usize) -> impl Fn(&[Request]) -> bool {
    move |seen| taken(seen).len() >= count
}

/// The value of a metric of webhooks.
fn metric(running: &Running, name: &str) -> Option<f64> {
    let text = running.client.get("/metrics").text;
    text.lines().find_map(|line| line.strip_prefix(&format!("loopwarden_webhook_{name} "))?.parse().ok())
}

/// Waits until a metric is so.
#[track_caller]
fn metric_until(running: &Running, name: &str, is_so: impl Fn(f64) -> bool) {
    running.until("/metrics", |answer| {
        let line = answer.text.lines().find_map(|line| line.strip_prefix(&format!("loopwarden_webhook_{name} ")));
        line.and_then(|value| value.parse::<f64>().ok()).is_some_and(&is_so)
    });
}

#[test]
fn every_command_comes_once_and_in_order_as_a_cloud_event_and_a_restart_goes_on() {
    let scratch = Scratch::new();
    let (binary, structured) = (Receiver::start(|_, _| TAKES), Receiver::start(|_, _| TAKES));
    let tables = [
        table("binary", &binary, ""),
        table("structured", &structured, "format = \"structured\"\nactions = \"block, unblock\"\ntenant = \"\"\n"),
    ];
    let running = start(&scratch.0, &tables);
    let commands = loops(&running, &["a", "b", "größe 100% \"x\""]);
    let seen = binary.until("all commands", has_taken(commands.len()));
    assert_eq!(seen.iter().map(Request::id).collect::<Vec<_>>(), ids(&commands), "each once, and in the order of the log");
    for (request, command) in seen.iter().zip(&commands) {
        assert_eq!((request.line.as_str(), &request.json()), ("POST /hook?to=binary HTTP/1.1", command));
        assert_eq!(request.header("content-type"), Some("application/json"));
        assert_eq!(request.header("ce-specversion"), Some("1.0"));
        assert_eq!(request.header("ce-source"), Some("/loopwarden/loopwarden"));
        let kind = format!("dev.loopwarden.command.{}.v1", command["action"].as_str().unwrap());
        assert_eq!(request.header("ce-type"), Some(kind.as_str()));
        assert_eq!(request.header("ce-time"), command["issued_at"].as_str());
        let subject = match command["session_id"].as_str().unwrap() {
            plain @ ("a" | "b") => plain.to_owned(),
            _ => "gr%C3%B6%C3%9Fe%20100%25%20%22x%22".to_owned(),
        };
        assert_eq!(request.header("ce-subject"), Some(subject.as_str()));
        // What the topic says of arguments and results, and no more.
        assert!(!String::from_utf8_lossy(&request.body).contains("cargo test"), "{request:?}");
    }
    let blocks: Vec<&Value> = commands.iter().filter(|command| command["action"] != "nudge").collect();
    assert!(!blocks.is_empty() && blocks.len() < commands.len(), "{commands:?}");
    let seen = structured.until("all blocks", |seen| seen.len() >= blocks.len());
    for (request, command) in seen.iter().zip(&blocks) {
        assert_eq!(request.header("content-type"), Some("application/cloudevents+json; charset=utf-8"));
        assert_eq!(request.header("ce-id"), None);
        let event = request.json();
        assert_eq!((&event["data"], &event["id"], &event["subject"]), (*command, &command["id"], &command["session_id"]));
        assert_eq!((&event["specversion"], &event["datacontenttype"]), (&json!("1.0"), &json!("application/json")));
    }
    for (name, count) in [("binary", commands.len()), ("structured", blocks.len())] {
        let accepted = format!("requests_total{{webhook=\"{name}\",answer=\"accepted\"}}");
        metric_until(&running, &accepted, |accepted| accepted == count as f64);
        metric_until(&running, &format!("behind_commands{{webhook=\"{name}\"}}"), |behind| behind == 0.0);
    }
    let nudges = (commands.len() - blocks.len()) as f64;
    assert_eq!(metric(&running, "passed_total{webhook=\"structured\",why=\"filtered\"}"), Some(nudges));
    let of_now = ["up", "waiting_seconds"].map(|name| metric(&running, &format!("{name}{{webhook=\"binary\"}}")));
    assert_eq!(of_now, [Some(1.0), Some(0.0)]);
    assert_eq!(running.terminate(), Some(0));

    let running = start(&scratch.0, &tables);
    let more = loops(&running, &["c"]);
    let seen = binary.until("those of another session", has_taken(more.len()));
    assert_eq!(seen.iter().map(Request::id).collect::<Vec<_>>(), ids(&more), "nothing came again");
}

#[test]
fn whoever_hears_of_blocks_is_asked_where_none_may_follow() {
    let scratch = Scratch::new();
    let pager = Receiver::start(|_, _| TAKES);
    let running = start(&scratch.0, &[table("pager", &pager, "actions = \"block\"\n")]);
    let from_ms = loopwarden::clock::now_ms() - 100_000;
    for number in 0..20 {
        running.accept(&json!({ "id": format!("c-{number}"), "kind": "tool_call", "session_id": "c", "tool": "click",
            "args": { "x": 4 }, "time": from_ms + number * 5_000 }));
    }
    running.until_said("c", 20);
    let commands = running.commands("after=0&wait=0s").0;
    assert!(commands.iter().all(|command| command["action"] == "nudge") && commands.len() == 3, "{commands:?}");
    let seen = pager.until("a person is asked for", has_taken(1));
    assert_eq!(seen.iter().map(Request::json).collect::<Vec<_>>(), commands[2..], "the third nudge alone");
    assert_eq!((&commands[1]["advice"], &commands[2]["advice"]), (&json!("change_approach"), &json!("ask_human")));
}

/// The identity of 127.0.0.1, by its own authority, which is in the file `ca.pem`.
fn identity(dir: &Path) -> Identity {
    let output = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "ca.pem", "-days", "2"])
        .args(["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"])
        .current_dir(dir)
        .output()
        .expect("the program openssl, which `make setup` installs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read = |name: &str| fs::read(dir.join(name)).unwrap();
    Identity::from_pkcs8(&read("ca.pem"), &read("key.pem")).unwrap()
}

#[test]
fn over_https_commands_go_to_a_receiver_that_is_known_and_to_no_other() {
    let scratch = Scratch::new();
    let receiver = Receiver::encrypted(TlsAcceptor::new(identity(&scratch.0)).unwrap(), |_, _| TAKES);
    let trusts = format!("ca_file = \"{}\"", scratch.0.join("ca.pem").display());
    let tables = [("known", trusts.as_str()), ("unknown", "")].map(|(name, more)| table(name, &receiver, more));
    let running = start(&scratch.0, &tables.map(|table| table.replace("http://", "https://")));
    let commands = ids(&loops(&running, &["a", "b"]));
    let seen = receiver.until("all commands", has_taken(commands.len()));
    assert_eq!(seen.iter().map(Request::id).collect::<Vec<_>>(), commands);
    metric_until(&running, "requests_total{webhook=\"unknown\",answer=\"none\"}", |none| none >= 2.0);
    assert!(receiver.seen().iter().all(|request| request.line.starts_with("POST /hook?to=known ")), "{:?}", receiver.seen());
    assert_eq!(metric(&running, "requests_total{webhook=\"unknown\",answer=\"accepted\"}").unwrap_or_default(), 0.0);
}

#[test]
fn what_fails_is_sent_again_with_the_same_id_before_anything_else() {
    let scratch = Scratch::new();
    let receiver = Receiver::start(|_, number| match number {
        0 | 1 => Reply::Status(500, ""),
        2 => Reply::HangsUp,
        // Not followed: the command is no business of another place.
        3 => Reply::Status(307, "location: /elsewhere\r\n"),
        _ => TAKES,
    });
    let running = start(&scratch.0, &[table("r", &receiver, "")]);
    let commands = ids(&loops(&running, &["a", "b"]));
    let seen = receiver.until("all commands", has_taken(commands.len()));
    let came: Vec<String> = seen.iter().map(Request::id).collect();
    assert_eq!(
        came[..5],
        [commands[0].clone(), commands[0].clone(), commands[0].clone(), commands[0].clone(), commands[0].clone()]
    );
    assert_eq!(came[4..], commands);
    assert!(seen.iter().all(|request| request.line.starts_with("POST /hook?")), "{seen:?}");
    let requests = |answer: &str| metric(&running, &format!("requests_total{{webhook=\"r\",answer=\"{answer}\"}}"));
    metric_until(&running, "requests_total{webhook=\"r\",answer=\"accepted\"}", |accepted| accepted == commands.len() as f64);
    assert_eq!((requests("again"), requests("none")), (Some(3.0), Some(1.0)));
}

#[test]
fn a_receiver_that_asks_for_a_pause_gets_it_within_a_bound() {
    let scratch = Scratch::new();
    let receiver = Receiver::start(|_, number| match number {
        0 => Reply::Status(429, "retry-after: 2\r\n"),
        1 => Reply::Status(503, "retry-after: 86400\r\n"),
        _ => TAKES,
    });
    let running = start(&scratch.0, &[table("r", &receiver, "")]);
    loops(&running, &["a"]);
    receiver.until("the second try", |seen| seen.len() >= 2);
    metric_until(&running, "requests_total{webhook=\"r\",answer=\"again\"}", |again| again == 2.0);
    let told = fs::read_to_string(scratch.0.join("stderr")).unwrap();
    let pauses: Vec<u64> = told
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|line| line["webhook"] == "r")
        .filter_map(|line| line["again_ms"].as_u64())
        .collect();
    assert_eq!(pauses, [2_000, 300_000], "{told}");
    metric_until(&running, "waiting_seconds{webhook=\"r\"}", |waiting| waiting > 0.0);
    assert_eq!(running.terminate(), Some(0), "who waits ends at once");
}

#[test]
fn a_process_that_is_killed_while_the_receiver_is_away_loses_nothing() {
    let scratch = Scratch::new();
    let receiver = Receiver::start(|_, number| if number < 3 { TAKES } else { Reply::HangsUp });
    let tables = [table("r", &receiver, "")];
    let running = start(&scratch.0, &tables);
    let before = ids(&loops(&running, &["a", "b", "c", "d"]));
    assert!(before.len() > 4);
    receiver.until("the receiver is away", |seen| seen.len() >= 5);
    running.kill();
    let running = start(&scratch.0, &tables);
    // Detection waits for nobody.
    let all = ids(&loops(&running, &["e"]));
    receiver.turn(|_, _| TAKES);
    let seen = receiver.until("all commands", has_taken(all.len()));
    assert_eq!(taken(&seen), all, "all of them, in order");
    let came = seen.iter().filter(|request| request.is_taken).count();
    assert!(came <= all.len() + 1, "of what was kept only the last may come again: {came} for {}", all.len());
}

#[test]
fn a_command_that_is_refused_is_given_up_and_the_next_one_comes() {
    let scratch = Scratch::new();
    let receiver = Receiver::start(|_, number| if number == 1 { Reply::Status(400, "") } else { TAKES });
    let running = start(&scratch.0, &[table("r", &receiver, "")]);
    let commands = ids(&loops(&running, &["a", "b"]));
    let seen = receiver.until("all commands", |seen| seen.len() >= commands.len());
    assert_eq!(seen.iter().map(Request::id).collect::<Vec<_>>(), commands, "each once");
    metric_until(&running, "passed_total{webhook=\"r\",why=\"refused\"}", |refused| refused == 1.0);
    let told = fs::read_to_string(scratch.0.join("stderr")).unwrap();
    assert!(told.lines().any(|line| line.contains("a command was refused") && line.contains(&commands[1])), "{told}");
}

#[test]
fn a_receiver_that_is_gone_gets_nothing_more_before_a_restart() {
    let scratch = Scratch::new();
    let receiver = Receiver::start(|_, _| Reply::Status(410, ""));
    let tables = [table("r", &receiver, "")];
    let running = start(&scratch.0, &tables);
    metric_until(&running, "up{webhook=\"r\"}", |up| up == 1.0);
    loops(&running, &["a"]);
    metric_until(&running, "up{webhook=\"r\"}", |up| up == 0.0);
    let commands = ids(&loops(&running, &["b"]));
    assert_eq!(receiver.seen().len(), 1);
    assert_eq!(running.terminate(), Some(0));
    receiver.turn(|_, _| TAKES);
    let _running = start(&scratch.0, &tables);
    let seen = receiver.until("all commands", has_taken(commands.len()));
    assert_eq!(taken(&seen), commands);
}

#[test]
fn hostile_receivers_are_bounded_and_hold_up_neither_detection_nor_one_another() {
    let scratch = Scratch::new();
    let silent = Receiver::start(|_, _| Reply::Silent);
    let endless = Receiver::start(|_, _| Reply::EndlessBody);
    let slow = Receiver::start(|_, _| Reply::SlowHead);
    let good = Receiver::start(|_, _| TAKES);
    let hurried = "request_ms_max = 300\nconnect_ms_max = 300\n";
    let tables = [
        table("silent", &silent, hurried),
        table("patient", &silent, ""),
        table("endless", &endless, hurried),
        table("slow", &slow, hurried),
        table("good", &good, ""),
    ];
    let running = start(&scratch.0, &tables);
    let commands = ids(&loops(&running, &["a", "b"]));
    assert_eq!(taken(&good.until("all commands", has_taken(commands.len()))), commands);
    assert_eq!(taken(&endless.until("all commands", has_taken(commands.len()))), commands);
    for name in ["silent", "slow"] {
        metric_until(&running, &format!("requests_total{{webhook=\"{name}\",answer=\"none\"}}"), |none| none >= 2.0);
        metric_until(&running, &format!("behind_commands{{webhook=\"{name}\"}}"), |behind| behind == commands.len() as f64);
    }
    assert_eq!(running.terminate(), Some(0), "a request under way holds up no end");
}

#[test]
fn requests_prove_where_they_come_from_and_no_line_tells_how() {
    let scratch = Scratch::new();
    let file = |name: &str, text: &str| fs::write(scratch.0.join(name), text).unwrap();
    let receiver = Receiver::start(|_, _| TAKES);
    file("url", &format!("http://{}/s3cret-path\n", receiver.address));
    file("token", "s3cret-token\n");
    file("key", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
    let secrets = "url_file = \"url\"\ntoken_file = \"token\"\nsecret_file = \"key\"\n";
    let tables = [
        format!("[[webhook]]\nname = \"bearer\"\n{secrets}"),
        format!("[[webhook]]\nname = \"header\"\n{secrets}token_header = \"X-Api-Key\"\n"),
    ];
    let running = start(&scratch.0, &tables);
    let commands = loops(&running, &["a"]);
    let seen = receiver.until("all commands, twice", |seen| seen.len() >= 2 * commands.len());
    let key = [49, 242, 144, 246, 191, 6, 41, 138, 171, 79, 8, 212, 60, 63, 8, 44, 246, 72, 163, 98, 218, 45, 164, 176];
    for request in &seen {
        assert_eq!(request.line, "POST /s3cret-path HTTP/1.1");
        match request.header("x-api-key") {
            Some(token) => assert_eq!((token, request.header("authorization")), ("s3cret-token", None)),
            None => assert_eq!(request.header("authorization"), Some("Bearer s3cret-token")),
        }
        let (id, time) = (request.header("webhook-id").unwrap(), request.header("webhook-timestamp").unwrap());
        assert_eq!(id, request.id());
        let signed = [format!("{id}.{time}.").as_bytes(), &request.body].concat();
        use base64::Engine as _;
        let signature = base64::engine::general_purpose::STANDARD.encode(hmac_sha256(&key, &signed));
        assert_eq!(request.header("webhook-signature"), Some(format!("v1,{signature}").as_str()));
    }
    assert_eq!(seen.iter().filter(|request| request.header("x-api-key").is_some()).count(), commands.len());
    // Another token needs no restart; and without one, nothing is sent.
    fs::remove_file(scratch.0.join("token")).unwrap();
    loops(&running, &["b"]);
    metric_until(&running, "requests_total{webhook=\"bearer\",answer=\"none\"}", |none| none >= 1.0);
    file("token", "n3w-token");
    receiver
        .until("the new token", |seen| seen.iter().any(|request| request.header("authorization") == Some("Bearer n3w-token")));
    let told = fs::read_to_string(scratch.0.join("stderr")).unwrap();
    assert!(!told.contains("cret-") && !told.contains("n3w") && !told.contains("MfKQ"), "{told}");
}

#[test]
fn a_command_past_its_time_is_dropped_where_the_settings_say_so() {
    let scratch = Scratch::new();
    let policy = "profile = \"ours\"\nbase = \"plain\"\nonly = [\"exact_repeat\"]\n[episodes]\nnudge_ms = 1\n";
    fs::write(scratch.0.join("policy.toml"), policy).unwrap();
    let (all, timely) = (Receiver::start(|_, _| TAKES), Receiver::start(|_, _| TAKES));
    let tables =
        ["policy = \"policy.toml\"\n".to_owned(), table("all", &all, ""), table("timely", &timely, "expired = \"drop\"\n")];
    let running = start(&scratch.0, &tables);
    let commands = loops(&running, &["a", "b"]);
    // A nudge has expired before it is durable.
    let (nudges, blocks): (Vec<Value>, Vec<Value>) = commands.iter().cloned().partition(|command| command["action"] == "nudge");
    assert!(!nudges.is_empty() && !blocks.is_empty(), "{commands:?}");
    assert_eq!(taken(&all.until("all commands", has_taken(commands.len()))), ids(&commands));
    metric_until(&running, "passed_total{webhook=\"timely\",why=\"expired\"}", |expired| expired == nudges.len() as f64);
    assert_eq!(taken(&timely.until("those in force", has_taken(blocks.len()))), ids(&blocks));
}
