//! The two directions. Each line is written as it was read, unless the guard has something to say about it.

use std::io::{Read, Write};
use std::{io, sync::Mutex};

use crate::calls::{Answers, Calls, lock, with};
use crate::desk::Desk;
use crate::line::{Lines, Piece};

/// What both directions share. `O` is where the client reads.
pub(crate) struct Relay<O> {
    calls: Calls,
    client: Mutex<O>,
    bytes_max: usize,
}

impl<O: Write> Relay<O> {
    pub(crate) fn new(desk: Desk, client: O, bytes_max: usize) -> Self {
        Self { calls: Calls::new(desk), client: Mutex::new(client), bytes_max }
    }

    /// From the client to the server, until one of them ends.
    pub(crate) fn to_server(&self, client: impl Read, mut server: impl Write) -> io::Result<()> {
        let (mut lines, mut piece) = (Lines::new(client, self.bytes_max), Vec::new());
        while let Some(kind) = lines.next(&mut piece)? {
            match (kind == Piece::Line).then(|| self.calls.asked(&piece)).flatten() {
                None => server.write_all(&piece)?,
                Some(Answers { reply, rest }) => {
                    if let Some(rest) = rest {
                        server.write_all(rest.as_bytes())?;
                    }
                    let mut client = lock(&self.client);
                    client.write_all(reply.as_bytes())?;
                    client.flush()?;
                }
            }
            server.flush()?;
        }
        Ok(())
    }

    /// From the server to the client, until one of them ends.
    pub(crate) fn to_client(&self, server: impl Read) -> io::Result<()> {
        let (mut lines, mut piece) = (Lines::new(server, self.bytes_max), Vec::new());
        while let Some(kind) = lines.next(&mut piece)? {
            let additions = if kind == Piece::Line { self.calls.answered(&piece) } else { Vec::new() };
            let mut client = lock(&self.client);
            if additions.is_empty() {
                client.write_all(&piece)?;
            } else {
                client.write_all(&with(&piece, additions))?;
            }
            // A line that comes in parts is one for the client: nobody writes in between.
            let mut within = kind == (Piece::Part { is_last: false });
            while within {
                client.flush()?;
                let Some(kind) = lines.next(&mut piece)? else { break };
                client.write_all(&piece)?;
                within = kind == (Piece::Part { is_last: false });
            }
            client.flush()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{io::BufRead as _, io::BufReader, os::unix::net::UnixListener, path::PathBuf, time::Duration};

    use loopwarden_ask::GuardEndpoint;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    const LINE_MAX: usize = 4_096;

    fn relay(address: &str) -> Relay<Vec<u8>> {
        let place = GuardEndpoint { address: address.to_owned(), token: None, uid: None, marker: None };
        // Time is nothing that is looked at here, and the machine may be busy.
        Relay::new(Desk::new(place, Duration::from_secs(10), "s", None), Vec::new(), LINE_MAX)
    }

    /// What the server gets.
    fn asked(relay: &Relay<Vec<u8>>, bytes: &[u8]) -> Vec<u8> {
        let mut server = Vec::new();
        relay.to_server(bytes, &mut server).unwrap();
        server
    }

    /// What the client gets.
    fn answered(relay: &Relay<Vec<u8>>, bytes: &[u8]) -> Vec<u8> {
        relay.to_client(bytes).unwrap();
        std::mem::take(&mut *lock(&relay.client))
    }

    /// A guard that gives these answers in turn; the checks that it got.
    struct Guard {
        address: String,
        path: PathBuf,
        checks: std::thread::JoinHandle<Vec<Value>>,
    }

    impl Guard {
        fn new(name: &str, answers: Vec<Value>) -> Self {
            let path = std::env::temp_dir().join(format!("lw-mcp-{}-{name}", std::process::id()));
            let _ = std::fs::remove_file(&path);
            let listener = UnixListener::bind(&path).unwrap();
            let checks = std::thread::spawn(move || answers.iter().map(|answer| serve(&listener, answer)).collect());
            Self { address: format!("unix:{}", path.display()), path, checks }
        }

        fn checks(self) -> Vec<Value> {
            let checks = self.checks.join().unwrap();
            std::fs::remove_file(self.path).unwrap();
            checks
        }
    }

    fn serve(listener: &UnixListener, answer: &Value) -> Value {
        let mut stream = BufReader::new(listener.accept().unwrap().0);
        let mut length = 0;
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            if line == "\r\n" {
                break;
            }
            length = line.strip_prefix("Content-Length: ").map_or(length, |rest| rest.trim().parse().unwrap());
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        let answer = answer.to_string();
        write!(stream.get_mut(), "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{answer}", answer.len()).unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    fn allow() -> Value {
        json!({ "v": 1, "decision": "allow", "action": "none" })
    }

    fn nudge(text: &str) -> Value {
        json!({ "v": 1, "decision": "allow", "action": "nudge", "message": text })
    }

    fn deny(text: &str) -> Value {
        json!({ "v": 1, "decision": "deny", "action": "block", "message": text })
    }

    const CALL: &str = r#"{"id":1.0,"method":"tools/call","params":{"arguments":{ "b":1e0,"a":"é" },"name":"read"}}"#;

    #[test]
    fn a_call_that_is_allowed_passes_as_it_is_and_is_told_before_and_after() {
        let guard = Guard::new("allow", vec![allow(), allow()]);
        let relay = relay(&guard.address);
        let call = format!("  {CALL}\r\n");
        assert_eq!(asked(&relay, call.as_bytes()), call.as_bytes());
        let result = b"{ \"result\" : {\"content\":[{\"type\":\"text\",\"text\":\"x\"}],\"isError\":true},\"id\":1 }\n";
        assert_eq!(answered(&relay, result), result);
        // An answer that comes twice is none.
        assert_eq!(answered(&relay, result), result);
        let checks = guard.checks();
        let before = &checks[0]["event"];
        assert_eq!(
            (&before["kind"], &before["tool"], &before["args"]),
            (&json!("tool_call"), &json!("read"), &json!({"a":"é","b":1.0}))
        );
        assert_eq!(checks[0]["client"]["can"], json!(["deny", "context_after"]));
        let after = &checks[1]["event"];
        assert_eq!((&after["kind"], &after["outcome"], &after["result"]), (&json!("tool_result"), &json!("error"), &json!("x")));
        assert_eq!(after["error"], json!({ "message": "x" }));
        assert_eq!((&after["call_id"], &after["session_id"]), (&before["call_id"], &before["session_id"]));
    }

    #[test]
    fn a_nudge_is_one_more_text_and_nothing_else_changes() {
        let guard = Guard::new("nudge", vec![allow(), nudge("same \"again\"")]);
        let relay = relay(&guard.address);
        asked(&relay, CALL.as_bytes());
        let said = answered(&relay, br#"{"id":1,"result":{"x":1.0,"content":[ {"type":"text","text":"a]"} ],"_meta":{}}}"#);
        let whole = r#"{"id":1,"result":{"x":1.0,"content":[ {"type":"text","text":"a]"} ,{"text":"same \"again\"","type":"text"}],"_meta":{}}}"#;
        assert_eq!(String::from_utf8(said).unwrap(), whole);
        guard.checks();
    }

    #[test]
    fn what_has_no_place_for_a_text_is_asked_without_one() {
        let guard = Guard::new("no-place", vec![allow(), nudge("n"), allow(), nudge("n")]);
        let relay = relay(&guard.address);
        for (result, outcome) in
            [(r#"{"id":1,"error":{"code":-1,"message":"no"}}"#, "error"), (r#"{"id":1,"result":{"structuredContent":{}}}"#, "ok")]
        {
            asked(&relay, CALL.as_bytes());
            assert_eq!(answered(&relay, result.as_bytes()), result.as_bytes(), "{outcome}");
        }
        let checks = guard.checks();
        assert_eq!((&checks[1]["client"]["can"], &checks[1]["event"]["outcome"]), (&json!(["deny"]), &json!("error")));
        assert_eq!((&checks[3]["client"]["can"], &checks[3]["event"]["outcome"]), (&json!(["deny"]), &json!("ok")));
    }

    #[test]
    fn a_refused_call_is_answered_here_with_its_own_id() {
        for id in ["7", "\"a\\u0062\"", "1.5", "-1"] {
            let guard = Guard::new(&format!("deny{}", id.len()), vec![deny("no \u{e9}")]);
            let relay = relay(&guard.address);
            let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"t\"}}}}\n");
            assert_eq!(asked(&relay, line.as_bytes()), b"", "it reached the server");
            let said = String::from_utf8(answered(&relay, b"")).unwrap();
            assert!(
                said.starts_with(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":")) && said.ends_with("}\n"),
                "{said}"
            );
            let said: Value = serde_json::from_str(&said).unwrap();
            assert_eq!((&said["result"]["isError"], &said["result"]["content"][0]["text"]), (&json!(true), &json!("no é")));
            guard.checks();
        }
    }

    #[test]
    fn of_a_batch_only_what_is_refused_is_missing() {
        let guard = Guard::new("batch", vec![allow(), deny("no"), nudge("n")]);
        let relay = relay(&guard.address);
        let call = |id: u32| format!(r#"{{"id":{id},"method":"tools/call","params":{{"name":"t"}}}}"#);
        let ping = r#"{"id":3,"method" : "ping"}"#;
        let batch = format!("[{}, {},{ping} ]\n", call(1), call(2));
        assert_eq!(String::from_utf8(asked(&relay, batch.as_bytes())).unwrap(), format!("[{},{ping}]\n", call(1)));
        let refused: Value = serde_json::from_slice(&answered(&relay, b"")).unwrap();
        assert_eq!((refused[0]["id"].as_u64(), refused.as_array().map(Vec::len)), (Some(2), Some(1)));
        let said = answered(&relay, br#"[{"id":3,"result":{}} , {"id":1,"result":{"content":[]}}]"#);
        assert_eq!(
            String::from_utf8(said).unwrap(),
            r#"[{"id":3,"result":{}} , {"id":1,"result":{"content":[{"text":"n","type":"text"}]}}]"#
        );
        guard.checks();
    }

    #[test]
    fn a_call_that_the_client_gave_up_is_told_so_once() {
        let guard = Guard::new("cancel", vec![allow(), allow()]);
        let relay = relay(&guard.address);
        asked(&relay, CALL.as_bytes());
        let cancel = br#"{"method":"notifications/cancelled","params":{"requestId":1}}"#;
        assert_eq!([asked(&relay, cancel), asked(&relay, cancel)], [cancel, cancel]);
        let late = br#"{"id":1,"result":{"content":[]}}"#;
        assert_eq!(answered(&relay, late), late);
        assert_eq!(guard.checks()[1]["event"]["outcome"], "cancelled");
    }

    #[test]
    fn what_is_large_keeps_its_ends() {
        let guard = Guard::new("large", vec![allow()]);
        let place = GuardEndpoint { address: guard.address.clone(), token: None, uid: None, marker: None };
        let relay = Relay::new(Desk::new(place, Duration::from_secs(10), "s", Some("known")), Vec::new(), 1 << 20);
        let line = format!(r#"{{"id":1,"method":"tools/call","params":{{"name":"t","arguments":"{}"}}}}"#, "x".repeat(100_000));
        assert_eq!(asked(&relay, line.as_bytes()), line.as_bytes());
        let event = guard.checks().remove(0)["event"].take();
        assert_eq!(event["session_id"], "known");
        let args = event["args"].as_str().unwrap();
        assert!(args.starts_with("xxx") && args.ends_with("xxx") && args.len() < 40_000, "{}", args.len());
    }

    #[test]
    fn a_line_above_the_bound_passes_and_nobody_is_asked() {
        let relay = relay("127.0.0.1:1");
        let line = format!("{{\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"{}\"}}}}\n{{}}\n", "t".repeat(LINE_MAX));
        assert_eq!(asked(&relay, line.as_bytes()), line.as_bytes());
        assert_eq!(answered(&relay, line.as_bytes()), line.as_bytes());
        assert!(lock(&relay.calls.open).take(&crate::message::tests::number(1)).is_none());
    }

    /// Bytes, texts, and lines that begin as messages do.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..40),
            Just(CALL.as_bytes().to_vec()),
            Just(br#"{"id":1,"result":{"content":[{"type":"text","text":"\ud800"}]}}"#.to_vec()),
            Just(b"\n".to_vec()),
            Just(b"\r\n[".to_vec()),
            Just(vec![b'x'; LINE_MAX]),
        ];
        proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn without_a_guard_every_byte_passes_in_both_directions(there in bytes(), back in bytes()) {
            let relay = relay("127.0.0.1:1");
            prop_assert_eq!(asked(&relay, &there), there);
            prop_assert_eq!(answered(&relay, &back), back);
        }
    }
}
