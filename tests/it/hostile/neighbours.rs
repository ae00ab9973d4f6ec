//! Other users of the same host: they reach the port, and get health, metrics and the version.

use std::process::{Command, Stdio};
use std::{io::Write as _, os::unix::process::CommandExt as _};

use serde_json::{Value, json};

use crate::http::client::{Answer, Client, parse};
use crate::http::{Running, Scratch, failed_call};

/// A user that runs nothing here.
pub(super) const NOBODY: u32 = 65_534;

/// Whether this process may act as another user.
pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// What a user sends by a program of his own; it reads the answer where it waits for one.
fn sent_by(user: u32, client: &Client, bytes: &[u8], waits: bool) -> Vec<u8> {
    let (host, port) = client.address().rsplit_once(':').unwrap();
    let script = if waits { "exec 3<>/dev/tcp/$0/$1; cat >&3; cat <&3" } else { "exec 3<>/dev/tcp/$0/$1; cat >&3" };
    let mut shell = Command::new("/bin/bash");
    shell.args(["-c", script, host, port]).uid(user).gid(user).current_dir("/");
    let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // Whoever hung up first gets no more of it.
    let _ = child.stdin.take().unwrap().write_all(bytes);
    child.wait_with_output().unwrap().stdout
}

fn request(client: &Client, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n", client.address());
    head.push_str(&format!("content-type: application/json\r\ncontent-length: {length}\r\n"));
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

/// A request of another user.
pub(super) fn as_user(user: u32, client: &Client, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    parse(&sent_by(user, client, &request(client, method, path, headers, body), true))
}

/// Everything that somebody on this host would like to do to an agent that is not his.
fn attempts() -> Vec<(&'static str, &'static str, String)> {
    let check = json!({ "event": failed_call("victim", 100) });
    let hook = json!({ "session_id": "victim", "hook_event_name": "SessionStart" });
    let reset = json!({ "id": "r", "kind": "reset", "session_id": "victim" });
    vec![
        ("GET", "/", String::new()),
        ("GET", "/overview", String::new()),
        ("GET", "/config", String::new()),
        ("GET", "/sessions/victim", String::new()),
        ("GET", "/v1/commands?wait=0", String::new()),
        ("GET", "/v1/state/victim", String::new()),
        ("GET", "/v1/events", String::new()),
        ("PUT", "/log-level", "off".to_owned()),
        ("POST", "/v1/events", reset.to_string()),
        ("POST", "/v1/events", failed_call("victim", 101).to_string()),
        ("POST", "/v1/check", check.to_string()),
        ("POST", "/v1/hooks/claude-code", hook.to_string()),
        ("POST", "/v1/traces", "{}".to_owned()),
    ]
}

fn blocked(running: &Running) {
    (1..=10).for_each(|number| running.accept(&failed_call("victim", number)));
    running.commands_until("session_id=victim", |all| all.iter().any(|command| command["action"] == "block"));
}

fn kept(running: &Running) -> Vec<Value> {
    running.client.whole("/v1/events", None).text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn another_user_of_this_host_reads_nothing_reports_nothing_and_frees_nobody() {
    if !is_root() {
        println!("skipped: requests of another user, which root alone can make");
        return;
    }
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &["mode=live"]);
    blocked(&running);
    for (method, path, body) in attempts() {
        let answer = as_user(NOBODY, &running.client, method, path, &[], body.as_bytes());
        assert_eq!(answer.status, 403, "{method} {path}: {}", answer.text);
        let said = answer.json();
        let is_told = said["error"] == "other_user" || said["title"] == "other_user";
        assert!(is_told && answer.text.contains("[[token]]"), "{method} {path}: {}", answer.text);
        assert!(!answer.text.contains("victim"), "{method} {path}: {}", answer.text);
        // By no trick of words either.
        for header in [("host", "localhost"), ("x-real-ip", "127.0.0.1"), ("authorization", "Bearer root")] {
            let answer = as_user(NOBODY, &running.client, method, path, &[header], body.as_bytes());
            assert!(matches!(answer.status, 400 | 401 | 403), "{method} {path} with {header:?}: {}", answer.text);
        }
    }
    for path in ["/livez", "/readyz", "/metrics", "/version"] {
        assert_eq!(as_user(NOBODY, &running.client, "GET", path, &[], b"").status, 200, "{path}");
    }
    assert_eq!(kept(&running).len(), 10);
    let state = running.client.get("/v1/state/victim").json();
    assert_eq!(state["active"][0]["status"], "blocked", "{state}");
    assert_eq!(running.terminate(), Some(0));
}

/// The system shows root as the user of a connection that no program holds any more.
#[test]
fn another_user_who_hangs_up_before_he_is_looked_at_is_not_taken_for_root() {
    const TIMES: usize = 200;
    if !is_root() {
        println!("skipped: requests of another user, which root alone can make");
        return;
    }
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &["mode=live"]);
    blocked(&running);
    let reset = json!({ "id": "r", "kind": "reset", "session_id": "victim" }).to_string();
    let bytes = request(&running.client, "POST", "/v1/events", &[], reset.as_bytes());
    let (host, port) = running.client.address().rsplit_once(':').unwrap();
    // One program that sends and hangs up at once, again and again: some are gone when they are looked at.
    let script = "read -r -d '' text; for n in $(seq $2); do exec 3<>/dev/tcp/$0/$1; printf '%s' \"$text\" >&3; exec 3>&-; done";
    let mut shell = Command::new("/bin/bash");
    shell.args(["-c", script, host, port, &TIMES.to_string()]).uid(NOBODY).gid(NOBODY).current_dir("/");
    let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    child.wait().unwrap();
    // Some of them were seen, and all of them have their end when the process has.
    let is_seen = |metrics: &str| metrics.contains(r#"loopwarden_http_requests_total{route="/v1/events",status="403"}"#);
    running.until("/metrics", |answer| is_seen(&answer.text));
    assert_eq!(running.terminate(), Some(0));
    let running = Running::start(&scratch.0, &["mode=live"]);
    assert_eq!(kept(&running).len(), 10, "a reset was taken");
    assert_eq!(running.client.get("/v1/state/victim").json()["active"][0]["status"], "blocked");
    assert_eq!(running.terminate(), Some(0));
}
