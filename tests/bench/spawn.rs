//! What a hook costs a call: `loopwarden-hook` from its start to its end, a thousand times, against a guard that answers at once.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock and prints"
)]
#![expect(clippy::indexing_slicing, reason = "the indices are below the number of spawns")]

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::{fs, os::unix::net::UnixListener, path::PathBuf, time::Instant};

const SPAWNS: usize = 1_000;
const INPUT: &[u8] =
    br#"{"session_id":"s","hook_event_name":"BeforeTool","tool_name":"run_shell_command","tool_input":{"command":"ls"}}"#;

fn main() {
    let home = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("spawn");
    let _ = fs::remove_dir_all(&home);
    fs::create_dir_all(home.join(".config/loopwarden")).expect("a directory");
    let socket = home.join("s");
    let listener = UnixListener::bind(&socket).expect("a socket");
    fs::write(home.join(".config/loopwarden/hook-address"), format!("unix:{}", socket.display())).expect("a file");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n{\"reason\":\"n\"}");
        }
    });
    let mut took: Vec<f64> = (0..SPAWNS)
        .map(|_| {
            let start = Instant::now();
            let mut child = Command::new(env!("CARGO_BIN_EXE_loopwarden-hook"))
                .arg("gemini")
                .env_clear()
                .env("HOME", &home)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("the hook");
            child.stdin.take().expect("its input").write_all(INPUT).expect("its input");
            let output = child.wait_with_output().expect("its end");
            assert!(output.status.success() && output.stdout == b"{\"reason\":\"n\"}");
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    took.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| took[((SPAWNS - 1) as f64 * share) as usize];
    println!("{SPAWNS} hooks, ms: p50 {:.2}, p99 {:.2}, slowest {:.2}", at(0.5), at(0.99), at(1.0));
    let _ = fs::remove_dir_all(&home);
}
