//! Requests that are wrong, slow or huge: each gets its answer or its end, and nobody else notices.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;

use loopwarden::limits;

use crate::http::{Running, Scratch, failed_call};

#[test]
fn a_wrong_request_is_told_what_is_wrong() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &[]);
    let client = &running.client;
    let huge = vec![b' '; limits::HTTP_BODY_BYTES_MAX + 1];
    let many = "{}\n".repeat(limits::HTTP_EVENTS_MAX + 1);
    let long = "x".repeat(limits::HTTP_HEAD_BYTES_MAX);
    let ndjson = "application/x-ndjson";
    for (name, answer, status) in [
        ("no event", client.post("/v1/events", ndjson, b" \n \n"), 400),
        ("no body", client.post("/v1/events", "application/json", b""), 400),
        ("a body too large", client.post("/v1/events", ndjson, &huge), 413),
        ("too many events", client.post("/v1/events", ndjson, many.as_bytes()), 413),
        ("another media type", client.post("/v1/events", "text/plain", b"{}"), 415),
        ("a form, as curl -d sends by itself", client.post("/v1/events", "application/x-www-form-urlencoded", b"{}"), 415),
        ("a compressed body", client.send("POST", "/v1/events", &[("content-encoding", "gzip")], b"{}"), 415),
        ("a page of somebody else", client.send("POST", "/v1/events", &[("origin", "http://evil.example")], b"{}"), 403),
        ("the wrong method", client.send("DELETE", "/v1/events", &[], b""), 405),
        ("no such route", client.get("/v2/events"), 404),
        ("an unknown parameter", client.get("/v1/commands?sesion_id=a"), 400),
        ("a misspelt tenant, whose blocks would be none", client.get("/v1/state/a?tennant=b"), 400),
        ("a tenant given twice", client.get("/sessions/a?tenant=b&tenant=c"), 400),
        ("a name that no event has", client.get("/v1/state/a%00"), 400),
        ("no position", client.get("/v1/commands?after=-1"), 400),
        ("a wait without end", client.get("/v1/commands?wait=1000000s"), 400),
        ("a huge head", client.send("GET", "/livez", &[("x-long", &long)], b""), 431),
        ("two hosts", client.send("GET", "/livez", &[("host", "localhost"), ("host", "localhost")], b""), 400),
        ("a filter of two lines", client.send("PUT", "/log-level", &[], b"warn\nFAKE=1"), 400),
        ("no such task", client.get("/tasks/session/4000000000"), 404),
        ("steps without end", client.get("/sessions/a?steps=1000000000"), 400),
        ("no filter", client.send("PUT", "/log-level", &[], b"loopwarden=loud"), 400),
        ("an escape that is none", client.get("/v1/state/%zz"), 400),
        ("an escape cut short", client.get("/sessions/a?tenant=%4"), 400),
        ("a name that is no text", client.get("/sessions/%FF%FE"), 400),
    ] {
        assert_eq!(answer.status, status, "{name}: {}", answer.text);
        let said = serde_json::from_str::<serde_json::Value>(&answer.text).unwrap_or_default();
        assert!(said["error"].is_string() && said["message"].is_string(), "{name}: {}", answer.text);
    }
    let mut chunked = b"POST /v1/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n".to_vec();
    for _ in 0..=limits::HTTP_BODY_BYTES_MAX / 65_536 {
        chunked.extend_from_slice(b"10000\r\n");
        chunked.extend(std::iter::repeat_n(b'a', 65_536));
        chunked.extend_from_slice(b"\r\n");
    }
    let answer = client.raw(&chunked).expect("an answer to a body that is too large");
    assert_eq!(answer.status, 413, "{}", answer.text);
    for garbage in [
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n",
        "GET /../../etc/passwd HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
    ] {
        let answer = client.raw(garbage.as_bytes()).unwrap_or_else(|| panic!("no answer to {garbage:?}"));
        assert!((400..500).contains(&answer.status), "{garbage:?}: {}", answer.status);
    }
    assert_eq!(client.get("/readyz").status, 200);
}

#[test]
fn two_dozen_hostile_connections_disturb_nobody_and_are_cut() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &["mode=live"]);
    let open = |bytes: &[u8]| {
        let mut stream = running.client.connect();
        stream.write_all(bytes).unwrap();
        stream
    };
    // Heads that never end or begin, bodies that never come, a stream that nobody reads, a head without end.
    let mut heads: Vec<TcpStream> = (0..7).map(|_| open(b"GET /livez HTTP/1.1\r\nhost: localhost\r\nx-slow: ")).collect();
    heads.push(open(b"\r\n\r\n\r\n\r\n"));
    let head =
        "POST /v1/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 4000000\r\n\r\n{";
    let bodies: Vec<TcpStream> = (0..8).map(|_| open(head.as_bytes())).collect();
    let streams: Vec<TcpStream> = (0..7).map(|_| open(b"GET /v1/commands HTTP/1.1\r\nhost: localhost\r\n\r\n")).collect();
    let mut endless = running.client.connect();
    let _ = endless.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n");
    for number in 0..64 {
        let _ = endless.write_all(format!("x-{number}: {}\r\n", "y".repeat(2_000)).as_bytes());
    }
    for session in 0..20 {
        (1..=4).for_each(|number| running.accept(&failed_call(&format!("s{session}"), number)));
        let (commands, _) = running.commands(&format!("wait=30s&session_id=s{session}"));
        assert!(!commands.is_empty(), "session {session} was never answered");
    }
    for path in ["/livez", "/readyz"] {
        assert_eq!(running.client.get(path).status, 200, "{path}");
    }
    // Each head has an end in time: the slot comes back.
    for mut stream in heads.into_iter().chain([endless]) {
        let mut rest = Vec::new();
        let cut = stream.read_to_end(&mut rest);
        // A reset is an end too; a wait for one that does not come is none.
        let is_cut = cut.as_ref().err().is_none_or(|error| error.kind() == ErrorKind::ConnectionReset);
        assert!(is_cut, "still open: {cut:?}");
        assert!(!String::from_utf8_lossy(&rest).contains("200 OK"));
    }
    drop((bodies, streams));
    assert_eq!(running.terminate(), Some(0));
}

#[test]
fn a_body_that_is_too_large_is_answered_to_who_writes_all_of_it_first() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &[]);
    let body = vec![b' '; 3 * limits::HTTP_BODY_BYTES_MAX];
    let chunk = |bytes: &[u8]| [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
    let forms = [
        ("content-length", format!("content-length: {}\r\n\r\n", body.len()), body.clone()),
        (
            "chunks",
            "transfer-encoding: chunked\r\n\r\n".to_owned(),
            [body.chunks(65_536).flat_map(chunk).collect(), chunk(b"")].concat(),
        ),
    ];
    for (name, rest_of_head, body) in forms {
        let mut stream = running.client.connect();
        let head = "POST /v1/events HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
        stream.write_all(format!("{head}{rest_of_head}").as_bytes()).unwrap();
        stream.write_all(&body).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 413 "), "{name}: {answer}");
    }
}

#[test]
fn where_many_keep_their_connections_nobody_keeps_one_for_ever() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &[]);
    let ask = |stream: &mut TcpStream| {
        stream.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        String::from_utf8(head).unwrap()
    };
    let room = limits::HTTP_CONNECTIONS_MAX - limits::HTTP_CONNECTIONS_SPARE;
    let mut kept = vec![running.client.connect()];
    // Before the others: the listener takes a place for the next one as soon as it has taken them all.
    let first = ask(&mut kept[0]);
    assert!(!first.contains("connection: close"), "{first}");
    kept.extend((1..room).map(|_| running.client.connect()));
    // Sees to it that all of them have been taken.
    ask(&mut kept[room - 1]);
    kept.push(running.client.connect());
    let late = ask(&mut kept[room]);
    assert!(late.contains("connection: close"), "{late}");
    let mut rest = Vec::new();
    kept[room].read_to_end(&mut rest).unwrap();
}
