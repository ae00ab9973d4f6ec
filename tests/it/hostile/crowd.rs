//! Many at once: half heads, strangers without a token, pages in a browser. Each spends what is its own.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};

use loopwarden::limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::hostile::access::{bearer, with_tokens};
use crate::http::client::{Answer, Client};
use crate::http::{PAUSE, Running, Scratch, failed_call};

/// More than the listener has places for.
const HALF_HEADS: usize = 700;

/// Both ends of each connection are files, here and there.
fn allow_files() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
}

/// Sends the rest of a request; what comes back until the connection ends, or its time is over.
fn finish(connection: &mut TcpStream, rest: &str) -> String {
    let _ = connection.write_all(format!("{rest}\r\nconnection: close\r\n\r\n").as_bytes());
    let mut answer = Vec::new();
    let _ = connection.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn hundreds_of_half_heads_keep_neither_a_probe_nor_an_agent_out() {
    allow_files();
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &["mode=live"]);
    const { assert!(HALF_HEADS > limits::HTTP_CONNECTIONS_MAX) };
    let mut stream = running.client.follow("", None);
    let mut half: Vec<TcpStream> = Vec::new();
    for _ in 0..HALF_HEADS {
        let mut connection = running.client.connect();
        // Who is displaced while he still writes hears it at the next word.
        let _ = connection.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\nx-slow: ");
        half.push(connection);
    }
    // Long before the time of half a head is over: whoever waits for that has hung.
    let mut probe = running.client.connect();
    probe.set_read_timeout(Some(limits::HTTP_HEAD_WAIT / 2)).unwrap();
    let answer = finish(&mut probe, "GET /livez HTTP/1.1\r\nhost: localhost");
    assert!(answer.starts_with("HTTP/1.1 200"), "no answer: {answer:?}");
    for _ in 0..20 {
        for path in ["/livez", "/readyz"] {
            assert_eq!(running.client.get(path).status, 200, "{path}");
        }
    }
    // Whoever is answered keeps his place: the stream was there before all of them.
    (1..=4).for_each(|number| running.accept(&failed_call("s", number)));
    assert!(stream.command().is_some(), "the stream was cut for half a head");
    // The oldest made room; the newest is still waited for.
    let mut oldest = half.swap_remove(0);
    let mut rest = Vec::new();
    let _ = oldest.read_to_end(&mut rest);
    assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
    let answer = finish(half.last_mut().unwrap(), "");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(running.terminate(), Some(0));
}

/// How many of so many requests on one connection are answered with each status.
fn flood(client: &Client, path: &str, headers: &str, times: usize) -> impl Fn(u16) -> usize + use<> {
    let one = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{headers}");
    let all = format!("{one}\r\n").repeat(times - 1) + &format!("{one}connection: close\r\n\r\n");
    let Answer { head, text, .. } = client.raw(all.as_bytes()).expect("an answer");
    let text = head + "\r\n" + &text;
    move |status| text.matches(&format!("HTTP/1.1 {status} ")).count()
}

#[test]
fn a_stranger_and_a_page_of_the_web_spend_nothing_of_who_may_ask() {
    let scratch = Scratch::new();
    let running = with_tokens(&scratch, &[]);
    let client = &running.client;
    let route = "/v1/commands?wait=0";
    // More than the route has for those who may ask it.
    let strange = flood(client, route, "x-forwarded-for: 10.0.0.1\r\n", 2_000);
    assert!(strange(401) > 0 && strange(429) > 0 && strange(401) + strange(429) == 2_000);
    let page = flood(client, route, "sec-fetch-site: cross-site\r\nsec-fetch-mode: no-cors\r\n", 2_000);
    assert_eq!(page(200), 0);
    assert_eq!(page(403) + page(429), 2_000);
    let metrics = flood(client, "/metrics", "sec-fetch-site: cross-site\r\nsec-fetch-mode: no-cors\r\n", 300);
    assert!(metrics(429) > 0);
    let reader = format!("authorization: {}\r\n", bearer("reader-acme"));
    assert_eq!(flood(client, route, &reader, 400)(200), 400, "who has a token");
    assert_eq!(flood(client, route, "", 400)(200), 400, "who is at this host");
    assert_eq!(flood(client, "/metrics", "", 50)(200), 50);
    // One token's requests are not another one's.
    assert!(flood(client, "/sessions/a", &reader, 600)(429) > 0);
    let operator = format!("authorization: {}\r\n", bearer("operator"));
    assert_eq!(flood(client, "/sessions/a", &operator, 40)(429), 0);
    assert_eq!(running.terminate(), Some(0));
}

/// A body as large as it may be, of sessions, tools and swarms that nobody knows yet.
fn large(client: usize, number: usize) -> Vec<u8> {
    let mut body = String::new();
    for line in 0.. {
        let name = format!("{client}-{number}-{line}");
        let mut event = failed_call(&name, line);
        event["swarm_id"] = format!("w{name}").into();
        event["tool"] = format!("t{name}").into();
        event["args"] = serde_json::json!({ "command": name, "text": "x".repeat(1_000) });
        let event = event.to_string();
        if body.len() + event.len() >= limits::HTTP_BODY_BYTES_MAX {
            break;
        }
        body.push_str(&event);
        body.push('\n');
    }
    body.into_bytes()
}

#[test]
fn many_who_send_all_they_can_take_no_more_memory_than_the_start_speaks_of() {
    const CLIENTS: usize = 24;
    let scratch = Scratch::new();
    // Small caches: what is left is what clients send.
    let small = ["lanes=1", "limits.session_cache_bytes=16777216", "limits.block_cache_bytes=8388608"];
    let settings = [&small[..], &["limits.write_buffer_bytes=16777216", "http.intake_share_ms_max=0"]].concat();
    let running = Running::start(&scratch.0, &settings);
    let sent = AtomicUsize::new(0);
    let (said, most) = std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (running, sent) = (&running, &sent);
            scope.spawn(move || {
                for number in 0..4 {
                    let answer = running.client.post("/v1/events", "application/x-ndjson", &large(client, number));
                    assert!(matches!(answer.status, 202 | 429 | 503), "{}", answer.text);
                    sent.fetch_add(1, Ordering::Release);
                }
            });
        }
        let (said, mut most) = running.memory();
        while sent.load(Ordering::Acquire) < CLIENTS * 4 {
            most = most.max(running.memory().1);
            std::thread::park_timeout(PAUSE);
        }
        (said, most)
    });
    println!("the start speaks of {said} MiB, and at most {most} MiB were held");
    assert!(most <= said, "{most} MiB of {said}");
    assert_eq!(running.terminate(), Some(0));
}
