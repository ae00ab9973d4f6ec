//! `loopwarden-hook mcp-proxy` as a process: bytes, exit codes and signals are those of the server behind it.
#![expect(clippy::unwrap_used, reason = "a test stops where something is missing")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::{os::unix::net::UnixListener, os::unix::process::ExitStatusExt as _, path::Path};

use rustix::process::{Pid, Signal, kill_process};

/// The proxy in front of a shell script. Nobody listens at port 1.
fn proxy(script: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_loopwarden-hook"))
        .args(["mcp-proxy", "--address", "127.0.0.1:1", "--", "sh", "-c", script])
        .env("LOOPWARDEN_HOOK_WAIT_MS", "10000")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What it says to an input that ends, on both outputs, and how it ended.
fn said(script: &str, input: &[u8]) -> (Vec<u8>, String, ExitStatus) {
    let mut child = proxy(script);
    // It may have ended before it read all of it.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    (output.stdout, String::from_utf8(output.stderr).unwrap(), output.status)
}

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{}}}"#;

#[test]
fn bytes_come_back_as_they_went_and_the_end_of_the_input_ends_the_server() {
    let mut input = format!("{CALL}\n\r\n \u{e9}\n").into_bytes();
    input.extend(b"\xff\x00[\n");
    input.extend(vec![b'x'; loopwarden_mcp::LINE_BYTES_MAX + 1]);
    input.extend(b"\nno end");
    let (output, errors, status) = said("cat", &input);
    assert!(output == input, "{} bytes of {}", output.len(), input.len());
    assert_eq!(status.code(), Some(0));
    // One call was checked, and nobody was there; that is said once.
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(errors.starts_with("loopwarden: the guard at 127.0.0.1:1 does not answer: "), "{errors}");
}

#[test]
fn calls_in_a_row_without_a_guard_are_one_warning() {
    let input = format!("{CALL}\n").repeat(20);
    let (output, errors, _) = said("cat", input.as_bytes());
    assert_eq!((String::from_utf8(output).unwrap(), errors.lines().count()), (input, 1));
}

/// Answers one check, and is gone.
fn guard_once(path: &Path, headers: &str) -> std::thread::JoinHandle<()> {
    let _ = std::fs::remove_file(path);
    let (listener, headers, path) = (UnixListener::bind(path).unwrap(), headers.to_owned(), path.to_owned());
    std::thread::spawn(move || {
        let mut stream = BufReader::new(listener.accept().unwrap().0);
        let (mut line, mut length) = (String::new(), 0);
        while line != "\r\n" {
            line.clear();
            stream.read_line(&mut line).unwrap();
            length = line.strip_prefix("Content-Length: ").map_or(length, |rest| rest.trim().parse().unwrap());
        }
        stream.read_exact(&mut vec![0; length]).unwrap();
        drop(listener);
        std::fs::remove_file(path).unwrap();
        let answer = r#"{"v":1,"decision":"deny","action":"block","message":"an operator has stopped this agent"}"#;
        write!(stream.get_mut(), "HTTP/1.1 200 OK\r\n{headers}Content-Length: {}\r\n\r\n{answer}", answer.len()).unwrap();
    })
}

#[test]
fn a_stop_that_fails_closed_outlives_the_guard_and_any_other_refusal_does_not() {
    for (headers, passes) in [("Loopwarden-Refuse-For-Ms: 3600000\r\n", false), ("", true)] {
        let path = std::env::temp_dir().join(format!("lw-mcp-stop-{}-{passes}", std::process::id()));
        let guard = guard_once(&path, headers);
        let mut child = Command::new(env!("CARGO_BIN_EXE_loopwarden-hook"))
            .args(["mcp-proxy", "--address", &format!("unix:{}", path.display()), "--", "cat"])
            .env("LOOPWARDEN_HOOK_WAIT_MS", "10000")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (mut input, mut output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()).lines());
        let mut call = || {
            writeln!(input, "{CALL}").unwrap();
            output.next().unwrap().unwrap()
        };
        assert!(call().contains("an operator has stopped"), "{headers:?}");
        guard.join().unwrap();
        // Three failures open its circuit, and then nobody is asked.
        for _ in 0..5 {
            assert_eq!(call() == CALL, passes, "{headers:?}");
        }
        drop(input);
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn what_the_server_says_on_standard_error_passes() {
    let (output, errors, status) = said("cat >/dev/null; echo out; echo err >&2; exit 3", b"");
    assert_eq!((output.as_slice(), errors.as_str(), status.code()), (&b"out\n"[..], "err\n", Some(3)));
}

#[test]
fn a_server_that_ends_by_itself_ends_the_proxy_while_the_client_still_listens() {
    let mut child = proxy("echo bye; exit 7");
    let mut output = String::new();
    child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    // The input is still open.
    assert_eq!((output.as_str(), child.wait().unwrap().code()), ("bye\n", Some(7)));
}

#[test]
fn a_server_killed_by_a_signal_is_told_as_shells_tell_it() {
    assert_eq!(said("kill -9 $$", b"").2.code(), Some(137));
}

#[test]
fn a_child_of_the_server_that_holds_its_output_holds_nobody_else() {
    let (output, _, status) = said("sleep 600 2>/dev/null & echo $!; exit 0", b"");
    assert_eq!(status.code(), Some(0));
    let held: i32 = String::from_utf8(output).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(held).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn signals_reach_the_server_and_its_answer_to_them_counts() {
    for (signal, name) in [(Signal::TERM, "TERM"), (Signal::INT, "INT"), (Signal::HUP, "HUP")] {
        // It waits in a builtin, so that the trap runs at once.
        let mut child = proxy(&format!("trap 'echo got {name}; exit 9' {name}; echo ready; while read -r line; do :; done"));
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), format!("got {name}"));
        assert_eq!(child.wait().unwrap().code(), Some(9), "{name}");
    }
    let mut child = proxy("echo ready; exec cat");
    // Whoever waits closes the input, and at its end the server ends too.
    let _input = child.stdin.take();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let status = child.wait().unwrap();
    assert_eq!((status.code(), status.signal()), (Some(143), None));
}

#[test]
fn what_cannot_be_started_is_said() {
    let run = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_loopwarden-hook")).arg("mcp-proxy").args(arguments).output().unwrap()
    };
    let missing = run(&["--", "/nowhere/server"]);
    assert_eq!((missing.status.code(), missing.stdout.len()), (Some(127), 0));
    assert!(String::from_utf8(missing.stderr).unwrap().contains("/nowhere/server cannot be run"));
    let usage = run(&["npx"]);
    assert_eq!(usage.status.code(), Some(2));
    assert!(String::from_utf8(usage.stderr).unwrap().contains("usage: mcp-proxy"));
}
