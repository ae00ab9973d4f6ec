//! Anything at all, at every route, by everybody: nothing panics, and nobody gets what is not his.

use std::io::{Read as _, Write as _};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{collections::BTreeMap, net::TcpStream};

use loopwarden::clock::Stopwatch;
use serde_json::{Value, json};

use crate::hostile::access::{MATRIX, address_of, bearer, of_tenant, send, with_tokens};
use crate::http::client::{Answer, Client, parse};
use crate::http::{PAUSE, Scratch, failed_call};
use crate::random::Random;

/// Requests, unless `LOOPWARDEN_HOSTILE` says how many.
const REQUESTS: usize = 6_000;
/// Clients that send them at the same time.
const CLIENTS: usize = 4;
const SEED: u64 = 20_261_127;
/// A session of "globex". The name of its tenant is in what others send, this one is not: whoever is shown it was shown another's.
const SECRET: &str = "what-globex-alone-knows";
/// Events of who is honest, also where the others have soon ended.
const HONEST_MIN: usize = 50;

/// Who asks, and its column of the matrix.
const ASKING: [(&str, usize); 5] = [("nobody", 0), ("liar", 0), ("source-acme", 2), ("reader-acme", 3), ("operator", 4)];

const HOSTS: [&str; 8] =
    ["localhost", "127.0.0.1:1", "evil.example", "localhost:x@evil", "[::1]evil", "", "localhost\u{7f}", "a, localhost"];
const MEDIA: [&str; 8] = [
    "application/json",
    "application/x-ndjson",
    "application/cloudevents+json",
    "application/cloudevents-batch+json",
    "application/x-protobuf",
    "text/plain",
    "application/json; charset=\u{ff}",
    "",
];
const PIECES: [&str; 12] = [
    "{",
    "}",
    "[[[[[[[[",
    "\"tenant\":\"globex\",",
    "\"tenant\":null,",
    "\"kind\":\"reset\",",
    "\\ud800",
    "\u{0}",
    "\n",
    "1e999",
    "\"session_id\":\"x\",",
    ",",
];

/// An event, good or not quite.
fn event(random: &mut Random) -> Value {
    let number = random.below(1_000_000);
    let mut event = failed_call(["a", "b", "victim"][random.below(3)], number);
    event["id"] = format!("fuzz-{number}").into();
    event["kind"] =
        (*random.pick(&["tool", "tool_call", "reset", "session_start", "session_end", "progress", "message", "x"])).into();
    event["scope"] = (*random.pick(&["session", "agent", "swarm", "all"])).into();
    event["labels"] = json!({ "actor": "somebody" });
    if random.below(3) > 0 {
        event = of_tenant(random.pick(&["acme", "globex", "Acme", "", "acme\u{1f}"]), event);
    }
    event
}

fn body(random: &mut Random) -> Vec<u8> {
    let event = event(random);
    let mut text = match random.below(7) {
        0 => String::new(),
        1 => (0..random.below(8)).map(|_| event.to_string() + "\n").collect(),
        2 => json!({ "event": event, "record": random.below(2) == 0, "deadline_ms": 20 }).to_string(),
        3 => json!({ "specversion": "1.0", "id": "c", "source": "s", "type": "t", "data": event }).to_string(),
        4 => json!({ "session_id": "victim", "hook_event_name": "SessionStart", "tool_name": "Bash", "tool_input": event })
            .to_string(),
        5 => json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [event] }] }] }).to_string(),
        _ => event.to_string(),
    };
    // Half of them are as they should be: what is taken is to be looked at, too.
    for _ in 0..random.below(4) * random.below(2) {
        let at = (0..=random.below(text.len() + 1)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.insert_str(at, random.pick(&PIECES));
    }
    let mut bytes = text.into_bytes();
    if random.below(8) == 0 && !bytes.is_empty() {
        let at = random.below(bytes.len());
        bytes[at] = random.next() as u8;
    }
    bytes
}

/// A request.
struct Sent {
    bytes: Vec<u8>,
    /// Who sends it, of [`ASKING`].
    asking: usize,
    /// The row of the matrix that may answer it, if one may.
    meant: Option<usize>,
    /// It says where it ends. After any other the sender must say so.
    has_end: bool,
}

fn request(random: &mut Random) -> Sent {
    let asking = random.below(ASKING.len());
    let events = MATRIX.iter().position(|(method, path, _)| (*method, *path) == ("POST", "/v1/events")).unwrap();
    let row = if random.below(4) == 0 { events } else { random.below(MATRIX.len()) };
    let (method, path, _) = MATRIX[row];
    let (mut method, mut path, mut meant) = (method.to_owned(), address_of(path), Some(row));
    match random.below(10) {
        0 => path.push_str(random.pick(&[
            "?tenant=globex",
            "?tenant=",
            "?after=-1",
            "?x=%zz",
            "/../../overview",
            "%2f",
            "?tenant=acme",
        ])),
        1 => (path, meant) = ((*random.pick(&["/../overview", "//v1/commands", "/v1/events/", "*", "/%"])).to_owned(), None),
        2 => {
            // Whose host that is matters to who needs no token, and nobody here does.
            path = format!("http://evil.example{path}");
        }
        3 => {
            method = (*random.pick(&["DELETE", "TRACE", "get", "CONNECT", "HEAD", "OPTIONS", "P\u{0}ST"])).to_owned();
            // It is answered as GET is, and nothing else is answered at all.
            let is_read = |(read, other, _): &(&str, &str, &str)| method == "HEAD" && *read == "GET" && *other == MATRIX[row].1;
            meant = MATRIX.iter().position(is_read);
        }
        _ => {}
    }
    let body = body(random);
    let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
    let host = if random.below(4) > 0 { "localhost" } else { random.pick(&HOSTS) };
    let media = if random.below(2) == 0 { "application/x-ndjson" } else { random.pick(&MEDIA) };
    head.push_str(&format!("host: {host}\r\ncontent-type: {media}\r\n"));
    match ASKING[asking].0 {
        "nobody" => {}
        "liar" => head.push_str(random.pick(&[
            "authorization: Bearer x\r\n",
            "authorization: Basic !!\r\n",
            "authorization: Bearer \r\n",
        ])),
        name => head.push_str(&format!("authorization: {}\r\n", bearer(name))),
    }
    if asking == 0 || random.below(4) == 0 {
        // Nobody is the person at this host: that is whom it is to be told from.
        head.push_str("x-forwarded-for: 127.0.0.1\r\n");
    }
    for _ in 0..random.below(3) * random.below(2) {
        head.push_str(random.pick(&[
            "origin: http://evil.example\r\n",
            "sec-fetch-site: cross-site\r\n",
            "content-encoding: gzip\r\n",
            "traceparent: 00-x\r\n",
            "ce-id: 1\r\n",
            "last-event-id: x\r\n",
            "host: localhost\r\n",
            "expect: 100-continue\r\n",
            "upgrade: h2c\r\n",
        ]));
    }
    let ends = random.below(12);
    match ends {
        0 => head.push_str("transfer-encoding: chunked\r\n\r\n"),
        1 => head.push_str(&format!("content-length: {}\r\n\r\n", random.pick(&["-1", "1, 1", "99999999999999999999", "0"]))),
        2 => {}
        _ => head.push_str(&format!("content-length: {}\r\n\r\n", body.len())),
    }
    Sent { bytes: [head.as_bytes(), &body].concat(), asking, meant, has_end: ends > 2 }
}

/// Sends it; what comes back.
fn exchange(client: &Client, sent: &Sent) -> Option<Answer> {
    let mut stream: TcpStream = client.connect();
    let _ = stream.write_all(&sent.bytes);
    if !sent.has_end {
        let _ = stream.shutdown(std::net::Shutdown::Write);
    }
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = answer.strip_prefix(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap_or(&answer);
    (!answer.is_empty()).then(|| parse(answer))
}

/// What is wrong with an answer, if anything is.
fn fault(answer: &Answer, sent: &Sent) -> Option<String> {
    let (name, column) = ASKING[sent.asking];
    let may = sent.meant.is_some_and(|row| MATRIX[row].2.split(' ').nth(column) == Some("+"));
    let is_well = (200..300).contains(&answer.status);
    let shows_another = is_well && answer.text.contains(SECRET) && name != "operator";
    let is_defect = answer.status >= 500 && answer.status != 503;
    let text = || answer.text.chars().take(300).collect::<String>();
    (is_well && !may || shows_another || is_defect).then(|| format!("{name}: {} {}", answer.status, text()))
}

/// How many events an answer to the source of "acme" says were taken, where it is one to `POST /v1/events`.
fn taken(answer: &Answer, sent: &Sent) -> usize {
    let is_report = ASKING[sent.asking].0 == "source-acme" && sent.meant.is_some_and(|row| MATRIX[row].1 == "/v1/events");
    let told = (is_report && answer.status == 202).then(|| serde_json::from_str::<Value>(&answer.text).unwrap_or_default());
    told.and_then(|told| told["accepted"].as_u64()).unwrap_or(0) as usize
}

/// Somebody honest in the middle of it, of a tenant of his own: each of his events is taken at once. How many there were.
fn honest(client: &Client, is_done: &AtomicBool) -> usize {
    let mut number = 0;
    while number < HONEST_MIN || !is_done.load(Ordering::Acquire) {
        number += 1;
        let event = of_tenant("globex", failed_call(SECRET, number)).to_string();
        let answer = send(client, "source-globex", "POST", "/v1/events", &event);
        assert_eq!((answer.status, answer.text.trim()), (202, r#"{"accepted":1,"rejected":[]}"#), "event {number}");
        std::thread::park_timeout(PAUSE);
    }
    number
}

#[test]
fn whatever_is_sent_by_whomever_nothing_panics_and_nobody_gets_what_is_not_his() {
    let requests = std::env::var("LOOPWARDEN_HOSTILE").ok().and_then(|text| text.parse().ok()).unwrap_or(REQUESTS);
    let scratch = Scratch::new();
    let running = with_tokens(&scratch, &[]);
    let (is_done, answered, accepted) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let client = &running.client;
    let (mut waits, honest) = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (answered, accepted) = (&answered, &accepted);
                scope.spawn(move || {
                    let mut random = Random(SEED + number as u64);
                    for _ in 0..requests.div_ceil(CLIENTS) {
                        let sent = request(&mut random);
                        let Some(answer) = exchange(client, &sent) else { continue };
                        answered.fetch_add(1, Ordering::Relaxed);
                        accepted.fetch_add(taken(&answer, &sent), Ordering::Relaxed);
                        if let Some(fault) = fault(&answer, &sent) {
                            panic!("{fault}\n{}", String::from_utf8_lossy(&sent.bytes));
                        }
                    }
                })
            })
            .collect();
        let probe = scope.spawn(|| {
            let mut waits = Vec::new();
            while !is_done.load(Ordering::Acquire) {
                let watch = Stopwatch::start();
                assert_eq!(client.get("/livez").status, 200);
                waits.push(watch.elapsed());
            }
            waits
        });
        let honest = scope.spawn(|| honest(client, &is_done));
        let ended: Vec<_> = senders.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        is_done.store(true, Ordering::Release);
        let others = (probe.join(), honest.join());
        ended.into_iter().for_each(|ended| ended.unwrap());
        (others.0.unwrap(), others.1.unwrap())
    });
    waits.sort_unstable();
    let p99 = waits[(waits.len() - 1) * 99 / 100];
    let (sent, answered, accepted, most) = (requests, answered.into_inner(), accepted.into_inner(), waits[waits.len() - 1]);
    println!(
        "{sent} requests, {answered} answered, {accepted} events taken of them and {honest} of who is honest; health: {} asked \
         meanwhile, p99 {p99:?}, most {most:?}",
        waits.len()
    );
    assert!(answered > sent / 2, "{answered} of {sent} answered");
    // Everything in the log was said by who may say it.
    let kept = running.client.whole("/v1/events", None).text;
    let kept: Vec<Value> = kept.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let is_honest = |event: &&Value| event["tenant"] == "globex" && event["session_id"] == SECRET;
    let is_his = |event: &Value| match event["kind"].as_str() {
        Some("reset") => event["labels"]["actor"] == "operator",
        _ => event["tenant"] == "acme" || is_honest(&event),
    };
    for event in &kept {
        assert!(is_his(event), "{event}");
    }
    // What was taken is there: of who is honest everything, each once; of the flood no less than it was told.
    let mut times = BTreeMap::<&str, usize>::new();
    for event in kept.iter().filter(is_honest) {
        *times.entry(event["id"].as_str().unwrap()).or_default() += 1;
    }
    assert!(times.len() == honest && times.values().all(|times| *times == 1), "{} of {honest}: {times:?}", times.len());
    let of_flood = kept.iter().filter(|event| event["tenant"] == "acme").count();
    assert!(accepted > 0 && of_flood >= accepted, "{accepted} events were taken, and {of_flood} are kept");
    assert_eq!(running.terminate(), Some(0));
    let told = std::fs::read_to_string(scratch.0.join("stderr")).unwrap();
    assert!(!told.contains("panicked"), "{told}");
}
