//! The proxy between small servers and clients of the tests: what it changes, and what it passes as it came.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener as Listener, TcpStream as Stream};
use std::{os::unix::net::UnixListener, thread::JoinHandle};

use serde_json::{Value, json};

use super::*;

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{ "a":1.0 }}}"#;
const RESULT: &str = r#"{"jsonrpc":"2.0", "id":1,"result":{"content":[{"type":"text","text":"x"}]}}"#;
const NUDGED: &str = r#"{"jsonrpc":"2.0", "id":1,"result":{"content":[{"type":"text","text":"x"},{"text":"n","type":"text"}]}}"#;

/// A request or an answer of HTTP: head and body.
fn message(stream: &mut BufReader<impl Read>) -> (String, Vec<u8>) {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        length = line.to_lowercase().strip_prefix("content-length: ").map_or(length, |rest| rest.trim().parse().unwrap());
        head += &line;
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    (head, body)
}

/// Heads and bodies of what came.
type Received = Vec<(String, Vec<u8>)>;

/// A server that gives these bytes in turn, a few at a time; what it was asked.
fn server(answers: Vec<String>) -> (String, JoinHandle<Received>) {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let asked = std::thread::spawn(move || {
        let serve = |answer: &String| {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            let asked = message(&mut stream);
            for bytes in answer.as_bytes().chunks((answer.len() / 100).max(3)) {
                stream.get_mut().write_all(bytes).unwrap();
                stream.get_mut().flush().unwrap();
            }
            asked
        };
        answers.iter().map(serve).collect()
    });
    (address, asked)
}

/// A guard that answers these in turn; where it is, and what it was asked.
fn guard(name: &str, answers: Vec<Value>) -> (String, JoinHandle<Vec<Value>>) {
    let path = std::env::temp_dir().join(format!("lw-mcp-http-{}-{name}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    let address = format!("unix:{}", path.display());
    let asked = std::thread::spawn(move || {
        let serve = |answer: &Value| {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            let (_, body) = message(&mut stream);
            let answer = answer.to_string();
            write!(stream.get_mut(), "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{answer}", answer.len()).unwrap();
            serde_json::from_slice(&body).unwrap()
        };
        let asked = answers.iter().map(serve).collect();
        std::fs::remove_file(&path).unwrap();
        asked
    });
    (address, asked)
}

/// The proxy in front of a server; where it is. It ends with the process.
fn proxy(server: &str, guard: &str) -> String {
    let options = Options { name: Some("s".to_owned()), address: Some(guard.to_owned()), ..Options::default() };
    let proxy = Arc::new(Proxy::new(server.to_owned(), &options, Duration::from_secs(10)));
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async { serve(&TcpListener::from_std(listener).unwrap(), &proxy).await });
    });
    address
}

/// What the client gets. HTTP/1.0: the body ends with the connection.
fn posted(proxy: &str, headers: &str, body: &str) -> (String, String) {
    let mut stream = Stream::connect(proxy).unwrap();
    write!(stream, "POST /mcp?q HTTP/1.0\r\nHost: {proxy}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

fn answer(kind: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nMcp-Session-Id: a\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn said(decision: &str, action: &str, text: &str) -> Value {
    json!({ "v": 1, "decision": decision, "action": action, "message": text })
}

#[test]
fn a_nudge_stands_behind_the_result_and_a_refused_call_does_not_arrive() {
    let (guard, checks) =
        guard("json", vec![said("allow", "none", ""), said("allow", "nudge", "n"), said("deny", "block", "no")]);
    let (server, asked) = server(vec![answer("application/json", RESULT)]);
    let proxy = proxy(&server, &guard);
    let headers = "Authorization: Bearer t\r\nMcp-Session-Id: a\r\nMCP-Protocol-Version: 2025-06-18\r\n";
    let (head, body) = posted(&proxy, headers, CALL);
    assert_eq!(body, NUDGED, "{head}");
    assert!(head.to_lowercase().contains("mcp-session-id: a"), "{head}");
    let (_, refused) = posted(&proxy, headers, CALL);
    let refused: Value = serde_json::from_str(&refused).unwrap();
    assert_eq!((&refused["id"], &refused["result"]["isError"]), (&json!(1), &json!(true)));
    assert_eq!(refused["result"]["content"][0]["text"], "no");
    let (head, body) = asked.join().unwrap().remove(0);
    assert_eq!(body, CALL.as_bytes());
    let head = head.to_lowercase();
    for kept in
        ["post /mcp?q http/1.1", "authorization: bearer t", "mcp-protocol-version: 2025-06-18", &format!("host: {server}")]
    {
        assert!(head.contains(kept), "{kept}: {head}");
    }
    let checks = checks.join().unwrap();
    assert_eq!((&checks[1]["event"]["kind"], &checks[1]["event"]["result"]), (&json!("tool_result"), &json!("x")));
    assert_eq!(checks[2]["event"]["session_id"], checks[0]["event"]["session_id"]);
}

#[test]
fn of_a_stream_only_the_event_with_the_result_changes() {
    for (name, end) in [("lf", "\n"), ("crlf", "\r\n"), ("cr", "\r")] {
        let stream = |result: &str| {
            let other = "event: message\nid: 7\ndata: {\"method\":\"notifications/progress\"}\n\n: ping\n\n";
            let result = result.replace(", \"id\"", ",\ndata:\"id\"");
            format!("{other}id: 8\ndata: {result}\n\n{other}data: no end").replace('\n', end)
        };
        let (guard, checks) = guard(name, vec![said("allow", "none", ""), said("allow", "nudge", "n")]);
        let (server, _) = server(vec![answer("text/event-stream", &stream(RESULT))]);
        assert_eq!(posted(&proxy(&server, &guard), "", CALL).1, stream(NUDGED), "{name}");
        checks.join().unwrap();
    }
}

#[test]
fn without_a_guard_all_passes_large_and_strange_bodies_too() {
    let large = format!("data: {}\n\ndata: {RESULT}\n\n", "x".repeat(loopwarden_mcp::LINE_BYTES_MAX + 9));
    let kinds = [("text/event-stream", large.clone()), ("application/json", large), ("application/json", "[{".to_owned())];
    let (server, asked) = server(kinds.iter().map(|(kind, body)| answer(kind, body)).collect());
    let proxy = proxy(&server, "127.0.0.1:1");
    for (kind, body) in &kinds {
        assert!(posted(&proxy, "", body).1 == *body, "{kind}, {} bytes", body.len());
    }
    for ((_, got), (_, sent)) in asked.join().unwrap().iter().zip(&kinds) {
        assert!(got == sent.as_bytes());
    }
}

#[test]
fn a_server_that_is_gone_is_said_and_a_page_of_another_host_is_refused() {
    let proxy = proxy("127.0.0.1:1", "127.0.0.1:1");
    let (head, body) = posted(&proxy, "", CALL);
    let body: Value = serde_json::from_str(&body).unwrap();
    assert!(head.contains(" 502 ") && body["error"]["message"].as_str().unwrap().contains("127.0.0.1:1"), "{head} {body}");
    assert!(posted(&proxy, "Origin: http://localhost:3000\r\n", CALL).0.contains(" 502 "));
    for origin in ["http://evil.example", "null", "http://localhost.evil.example"] {
        assert!(posted(&proxy, &format!("Origin: {origin}\r\n"), CALL).0.contains(" 403 "), "{origin}");
    }
}

#[test]
fn a_url_that_cannot_be_used_is_told_why() {
    assert_eq!(authority("http://localhost/mcp").unwrap(), "localhost:80");
    assert!(authority("https://h/mcp").unwrap_err().contains("TLS"));
    assert!(authority("h:1").is_err() && authority("ftp://h").is_err());
}

/// A guard that counts the failed results of each session, and tells its model how many there were; it ends with the process.
fn counting_guard(name: &str) -> String {
    let path = std::env::temp_dir().join(format!("lw-mcp-http-{}-{name}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    let address = format!("unix:{}", path.display());
    std::thread::spawn(move || {
        let mut failures = std::collections::BTreeMap::<String, u32>::new();
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (_, body) = message(&mut stream);
            let check: Value = serde_json::from_slice(&body).unwrap();
            let failed = failures.entry(check["event"]["session_id"].as_str().unwrap().to_owned()).or_default();
            *failed += u32::from(check["event"]["kind"] == "tool_result");
            let answer = said("allow", "nudge", &format!("{failed} times")).to_string();
            write!(stream.get_mut(), "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{answer}", answer.len()).unwrap();
        }
    });
    address
}

/// A server that takes every session and answers each call with the same result.
fn server_of_all() -> String {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (head, body) = message(&mut stream);
            let is_known = !head.to_lowercase().contains("mcp-session-id: forged");
            let body = if body == CALL.as_bytes() { RESULT } else { "{}" };
            let status = if is_known { "200 OK" } else { "404 Not Found" };
            write!(
                stream.get_mut(),
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .unwrap();
        }
    });
    address
}

#[test]
fn sessions_beyond_the_bound_are_not_told_what_others_did_and_forged_ids_push_out_nobody() {
    let proxy = proxy(&server_of_all(), &counting_guard("many"));
    let session = |name: &str| format!("Mcp-Session-Id: {name}\r\n");
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let call = |name: &str| posted(&proxy, &session(name), CALL).1;
    assert!(call("old").contains("1 times") && call("old").contains("2 times"));
    // The server knows none of these.
    for number in 0..1_001 {
        assert!(posted(&proxy, &session(&format!("forged-{number}")), ping).0.contains(" 404 "));
    }
    assert!(call("old").contains("3 times"), "it was forgotten");
    for number in 0..1_000 {
        assert!(posted(&proxy, &session(&format!("s{number}")), ping).0.contains(" 200 "));
    }
    for number in 0..5 {
        let told = call(&format!("new-{number}"));
        assert!(told.contains("1 times"), "client {number}: {told}");
    }
    // What was idle for longest begins anew.
    assert!(call("old").contains("1 times"));
}
