//! A person answers in a chat: by a link that asks once more, ends, and does nothing when it was altered.

use std::{fs, path::Path};

use loopwarden::clock::{Stopwatch, now_ms};
use loopwarden::event::EventTime;
use loopwarden_webhook::{AnswerKind, Link, LinkKey};
use serde_json::{Value, json};

use crate::http::answers::{about, fail, slow};
use crate::http::client::Answer;
use crate::http::{Running, Scratch, failed_call};
use crate::receiver::{Receiver, Request, TAKES};

const PUBLIC: &str = "https://warden.example/lw";
const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// A live process that posts to a chat of each format, with links.
fn start(scratch: &Scratch, receivers: &[(&str, &Receiver)], more: &str) -> Running {
    let dir: &Path = &scratch.0;
    fs::write(dir.join("link-secret"), SECRET).unwrap();
    fs::write(dir.join("routing-key"), "0123456789abcdef0123456789abcdef").unwrap();
    let table = |(format, receiver): &(&str, &Receiver)| {
        let token = if *format == "pagerduty" { "token_file = \"routing-key\"\n" } else { "" };
        format!(
            "[[webhook]]\nname = \"to-{format}\"\nurl = \"http://{}/hook\"\nformat = \"{format}\"\n{token}{more}",
            receiver.address
        )
    };
    let tables: String = receivers.iter().map(table).collect();
    let config = dir.join("loopwarden.toml");
    fs::write(&config, format!("[http]\npublic_url = \"{PUBLIC}/\"\nlink_secret_file = \"link-secret\"\n{tables}")).unwrap();
    let policy = format!("policy={}", slow(scratch).display());
    Running::start_with(dir, &["--log-level", "info", "--config", &config.to_string_lossy()], &["mode=live", &policy])
}

/// The path of the link of an answer in a message of Slack.
fn path(message: &Request, answer: AnswerKind) -> Option<String> {
    let message = message.json();
    let actions = message["blocks"].as_array()?.iter().find(|block| block["type"] == "actions")?.clone();
    let button = actions["elements"].as_array()?.iter().find(|button| button["text"]["text"] == answer.label())?.clone();
    button["url"].as_str()?.strip_prefix(PUBLIC).map(str::to_owned)
}

/// Sends equal failures until the chat has a block, and returns its message.
fn blocked(running: &Running, receiver: &Receiver, session: &str) -> Request {
    (0..40).for_each(|number| running.accept(&failed_call(session, number)));
    let title = format!("loopwarden: block for session {session}");
    let is_block = |message: &&Request| message.json()["blocks"][0]["text"]["text"] == title;
    let seen = receiver.until("a block", |seen| seen.iter().any(|message| is_block(&message)));
    fail(running, session, 40..41);
    seen.iter().find(is_block).unwrap().clone()
}

/// Whether one more of the calls that fail is refused.
fn is_denied(running: &Running, session: &str) -> bool {
    let mut event = failed_call(session, 9_999);
    event["kind"] = "tool_call".into();
    event.as_object_mut().unwrap().remove("outcome");
    let check = json!({ "event": event, "record": false }).to_string();
    let answer = running.client.post("/v1/check", "application/json", check.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()["decision"] == "deny"
}

/// Events of the log of these kinds.
fn acts(running: &Running) -> Vec<Value> {
    let events = running.client.whole("/v1/events", None).text;
    let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| ["answer", "stop"].iter().any(|kind| event["kind"] == *kind)).collect()
}

fn submit(running: &Running, path: &str, name: &str) -> Answer {
    let headers = [
        ("content-type", "application/x-www-form-urlencoded"),
        // What browsers send for a form of a page without a referrer, by way of the proxy in front of the process.
        ("origin", "null"),
        ("x-forwarded-for", "203.0.113.9"),
        ("host", "warden.example"),
    ];
    running.client.send("POST", path, &headers, format!("name={name}").as_bytes())
}

#[test]
fn a_link_of_a_chat_is_answered_and_the_loop_is_let_be_once_however_often() {
    let scratch = Scratch::new();
    let slack = Receiver::start(|_, _| TAKES);
    let running = start(&scratch, &[("slack", &slack)], "");
    let message = blocked(&running, &slack, "s");
    let link = path(&message, AnswerKind::FalseAlarm).expect("a link");
    let told = about(&running, "s").len();
    // A preview, as chats and mail servers make them.
    for method in ["GET", "HEAD", "GET"] {
        let shown = running.client.send(method, &link, &[("x-forwarded-for", "203.0.113.9")], b"");
        assert_eq!((shown.status, shown.header("content-type")), (200, Some("text/html; charset=utf-8")), "{}", shown.text);
        assert_eq!((shown.header("referrer-policy"), shown.header("cache-control")), (Some("no-referrer"), Some("no-store")));
        let policy = shown.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
        let has_form = shown.text.contains("<form method=\"post\">") && shown.text.contains("Nothing has happened yet");
        assert!(method == "HEAD" || has_form && shown.text.contains("<dd>s</dd>"), "{}", shown.text);
    }
    assert!(is_denied(&running, "s"));
    assert_eq!((acts(&running), about(&running, "s").len()), (Vec::new(), told), "a preview has acted");

    let click = Stopwatch::start();
    let answered = submit(&running, &link, "Ann%20Lee");
    assert_eq!(answered.status, 200, "{}", answered.text);
    assert!(!is_denied(&running, "s"), "the next repetition is let be: {}", answered.text);
    println!("from the click to the call that runs: {:.1} ms", click.elapsed().as_secs_f64() * 1e3);
    assert!(answered.text.contains("It is in force."), "{}", answered.text);
    let is_lifted = |all: &[Value]| all.iter().any(|one| one["action"] == "unblock");
    running.commands_until("session_id=s", is_lifted);
    let lifted = about(&running, "s");
    let unblock = lifted.last().unwrap();
    assert_eq!(
        (&unblock["reason"]["code"], &unblock["labels"]["actor"], &unblock["labels"]["typed_name"]),
        (&json!("answer"), &json!("link:to-slack"), &json!("Ann Lee")),
        "{unblock}"
    );
    assert_eq!(submit(&running, &link, "Somebody").status, 200, "once more, by another name");
    fail(&running, "s", 41..80);
    assert_eq!(about(&running, "s").len(), lifted.len(), "it was let be, and answered once");
    let written = acts(&running);
    assert!(written.len() == 2 && written[0]["id"] == written[1]["id"], "one answer, which came twice: {written:?}");
    assert!(!running.client.get("/metrics").text.contains(&link), "a link is no label");
    let log = fs::read_to_string(scratch.0.join("stderr")).unwrap();
    assert!(log.contains("an operator acts") && !log.contains(link.trim_start_matches("/a/")), "{log}");
}

#[test]
fn an_altered_or_expired_link_and_one_of_other_settings_does_nothing_and_says_so() {
    let scratch = Scratch::new();
    let slack = Receiver::start(|_, _| TAKES);
    let running = start(&scratch, &[("slack", &slack)], "links = \"right, false_alarm\"\n");
    let message = blocked(&running, &slack, "s");
    assert_eq!(AnswerKind::ALL.map(|kind| path(&message, kind).is_some()), [true, true, false, false]);
    let good = path(&message, AnswerKind::FalseAlarm).expect("a link");
    let (key, other) = (LinkKey::of(SECRET).unwrap(), LinkKey::of(&SECRET.replace('0', "1")).unwrap());
    let now = EventTime(now_ms());
    let read = key.read(good.strip_prefix("/a/").unwrap(), now).unwrap();
    let day_ms = read.expires.0 - now.0;
    assert!((86_340_000..=86_400_000).contains(&day_ms), "{day_ms}");
    let of = |key: &LinkKey, link: Link| format!("/a/{}", key.token(&link));
    let letter = if good.ends_with('A') { "B" } else { "A" };
    for (path, status) in [
        (of(&key, Link { expires: now, ..read.clone() }), 410),
        (of(&other, read.clone()), 404),
        (format!("{}{letter}", &good[..good.len() - 1]), 404),
        (format!("{good}A"), 404),
        (good[..good.len() - 1].to_owned(), 404),
        ("/a/0".to_owned(), 404),
        (format!("/a/{}", "A".repeat(8_000)), 404),
        (of(&key, Link { answer: AnswerKind::Stop, ..read.clone() }), 403),
        (of(&key, Link { answer: AnswerKind::Allow, ..read.clone() }), 403),
        (of(&key, Link { webhook: "gone".to_owned(), ..read.clone() }), 403),
    ] {
        for answer in [running.client.get(&path), submit(&running, &path, "")] {
            assert_eq!(answer.status, status, "{path}: {}", answer.text);
            assert!(answer.text.contains("Nothing was changed"), "{}", answer.text);
        }
    }
    let test = of(&key, Link { is_test: true, ..read });
    assert!(submit(&running, &test, "").text.contains("This link works"));
    for name in ["a%0Ab", &"x".repeat(65)] {
        assert_eq!(submit(&running, &good, name).status, 400, "{name}");
    }
    assert_eq!(submit(&running, &good, &"x".repeat(5_000)).status, 413);
    assert!(is_denied(&running, "s"));
    assert_eq!(acts(&running), Vec::<Value>::new());
}

#[test]
fn each_format_has_links_that_allow_and_that_stop() {
    let scratch = Scratch::new();
    let formats = ["slack", "teams", "discord", "pagerduty"];
    let receivers = formats.map(|_| Receiver::start(|_, _| TAKES));
    let named: Vec<(&str, &Receiver)> = formats.into_iter().zip(&receivers).collect();
    let running = start(&scratch, &named, "");
    let message = blocked(&running, &receivers[0], "s");
    let allow = path(&message, AnswerKind::Allow).expect("a link");
    let key = LinkKey::of(SECRET).unwrap();
    for (format, receiver) in &named {
        let seen = receiver.until("a message", |seen| !seen.is_empty());
        let body = String::from_utf8_lossy(&seen[0].body).into_owned();
        let tokens: Vec<&str> = body.split(&format!("{PUBLIC}/a/")).skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let links: Vec<Link> = tokens.iter().map(|token| key.read(token, EventTime(now_ms())).unwrap()).collect();
        assert_eq!(links.iter().map(|link| link.answer).collect::<Vec<_>>(), AnswerKind::ALL, "{format}: {body}");
        assert!(links.iter().all(|link| link.webhook == format!("to-{format}") && !link.is_test), "{links:?}");
        let query = if *format == "discord" { "?with_components=true" } else { "" };
        assert_eq!(seen[0].line, format!("POST /hook{query} HTTP/1.1"));
    }
    assert!(is_denied(&running, "s"));
    assert!(submit(&running, &allow, "").text.contains("It is in force. It ends at "));
    assert!(!is_denied(&running, "s"));
    // The session of another loop is stopped as a whole.
    let message = blocked(&running, &receivers[0], "t");
    let stop = path(&message, AnswerKind::Stop).expect("a link");
    let pressed = || {
        let answer = submit(&running, &stop, "");
        assert!(answer.status == 200 && answer.text.contains("It is in force."), "{}", answer.text);
        running.client.get("/v1/stops").json()["stops"].clone()
    };
    let first = pressed();
    assert_eq!(pressed(), first, "pressed twice: one stop");
    let released = running.client.send("DELETE", "/v1/stops?scope=session&session_id=t", &[], b"");
    assert_eq!(released.json()["released"], true, "{}", released.text);
    let stops = pressed();
    let ids: std::collections::BTreeSet<String> = acts(&running).iter().map(|act| act["id"].to_string()).collect();
    assert_eq!(ids.len(), 3, "an allowance, a stop, and the stop anew after its release: {ids:?}");
    assert_eq!(stops.as_array().map(Vec::len), Some(1), "{stops}");
    assert_eq!((&stops[0]["session_id"], &stops[0]["actor"]), (&json!("t"), &json!("link:to-slack")), "{stops}");
    let mut other = failed_call("t", 1);
    (other["kind"], other["id"], other["args"]) = ("tool_call".into(), "other".into(), json!({ "command": "ls" }));
    other.as_object_mut().unwrap().remove("outcome");
    let check = json!({ "event": other, "record": false }).to_string();
    let checked = running.client.post("/v1/check", "application/json", check.as_bytes()).json();
    assert_eq!((&checked["decision"], &checked["reason"]["code"]), (&json!("deny"), &json!("stop")), "{checked}");
}
