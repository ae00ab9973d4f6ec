//! `replay --follow`: the real binary beside files that grow.

use std::fs;
use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cli::program;
use crate::http::{Running, Scratch};

/// A directory of logs, and what an agent writes into one of them.
struct Logs(PathBuf);

impl Logs {
    fn new(scratch: &Scratch) -> Self {
        let dir = scratch.0.join("logs/project");
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    /// The same failing call of a session, for these numbers, as Claude Code writes it.
    fn calls(&self, session: &str, numbers: std::ops::RangeInclusive<usize>) {
        let mut log = fs::File::options().create(true).append(true).open(self.0.join(format!("{session}.jsonl"))).unwrap();
        for number in numbers {
            let line = |kind: &str, part: Value| {
                let time = loopwarden::event::EventTime(loopwarden::clock::now_ms()).to_rfc3339();
                json!({ "type": kind, "sessionId": session, "uuid": format!("{kind}-{number}"), "timestamp": time,
                    "message": { "id": format!("m{number}"), "role": kind, "content": [part] } })
            };
            let id = format!("toolu_{number}");
            let call = json!({ "type": "tool_use", "id": id, "name": "Bash", "input": { "command": "make test" } });
            let answer =
                json!({ "type": "tool_result", "tool_use_id": id, "is_error": true, "content": "no rule to make target" });
            writeln!(log, "{}\n{}", line("assistant", call), line("user", answer)).unwrap();
        }
    }

    fn start(&self, scratch: &Scratch, more: &[&str]) -> Running {
        let above = self.0.parent().unwrap().to_string_lossy().into_owned();
        Running::of(&scratch.0, "replay", &[&["--follow", &above], more].concat(), &[])
    }
}

/// Sessions with a nudge, in the order of the commands, once each command.
fn nudged(running: &Running) -> Vec<String> {
    let said = running.commands("after=0&wait=0s").0;
    let nudges = said.iter().filter(|command| command["action"] == "nudge");
    nudges.map(|command| command["session_id"].as_str().unwrap().to_owned()).collect()
}

fn said(dir: &Path) -> String {
    fs::read_to_string(dir.join("stderr")).unwrap()
}

#[test]
fn what_an_agent_writes_is_judged_while_it_writes_and_what_it_wrote_before_is_not() {
    let scratch = Scratch::new();
    let logs = Logs::new(&scratch);
    logs.calls("before", 1..=9);
    let running = logs.start(&scratch, &[]);
    assert!(running.greeting.starts_with("ready: mode shadow"), "{}", running.greeting);
    assert!(said(&scratch.0).contains("1 log of Claude Code"), "{}", said(&scratch.0));
    logs.calls("now", 1..=9);
    let commands = running.commands_until("session_id=now", |said| said.iter().any(|command| command["action"] == "nudge"));
    assert_eq!(commands[0]["mode"], "shadow", "nobody is told");
    assert_eq!(nudged(&running), ["now"], "a loop that ended before is not judged");
    // What the session looks like is on the page.
    running.json_until("/sessions/now", |session| session["agents"][0]["steps"].as_array().is_some_and(|steps| steps.len() == 9));
    assert_eq!(running.terminate(), Some(0));
}

#[test]
fn what_is_written_while_nobody_follows_is_read_once_by_the_next_process_also_after_a_kill() {
    let scratch = Scratch::new();
    let logs = Logs::new(&scratch);
    logs.calls("a", 1..=2);
    let running = logs.start(&scratch, &[]);
    logs.calls("a", 3..=4);
    running.until_said("a", 2);
    running.kill();
    // The places it had kept are older than what it has judged, as after a kill between the two.
    let kept = scratch.0.join("data/followed.json");
    let mut places: Value = serde_json::from_slice(&fs::read(&kept).unwrap()).unwrap();
    let place = places["logs"].as_object_mut().unwrap().values_mut().next().unwrap();
    let bytes = place["bytes"].as_u64().unwrap();
    *place = json!({ "bytes": bytes - 200 });
    fs::write(&kept, places.to_string()).unwrap();
    logs.calls("a", 5..=6);
    logs.calls("b", 1..=9);
    let running = logs.start(&scratch, &[]);
    running.until_said("b", 9);
    running.until_said("a", 4);
    assert_eq!(nudged(&running).iter().filter(|session| *session == "b").count(), 1);
    assert_eq!(running.terminate(), Some(0));
}

#[test]
fn a_place_that_cannot_be_understood_counts_as_none_and_what_cannot_be_followed_is_told() {
    let scratch = Scratch::new();
    let logs = Logs::new(&scratch);
    logs.calls("a", 1..=9);
    fs::create_dir_all(scratch.0.join("data")).unwrap();
    fs::write(scratch.0.join("data/followed.json"), "[1").unwrap();
    let running = logs.start(&scratch, &[]);
    assert!(said(&scratch.0).contains("followed.json says nothing that can be understood"), "{}", said(&scratch.0));
    logs.calls("b", 1..=9);
    running.commands_until("session_id=b", |said| !said.is_empty());
    assert_eq!(nudged(&running), ["b"]);
    assert_eq!(running.terminate(), Some(0));

    let dir = logs.0.to_string_lossy().into_owned();
    let (missing, file) = (format!("{dir}/none"), format!("{dir}/a.jsonl"));
    let data = format!("data_dir={}", scratch.0.join("data").display());
    let base = ["replay", "--follow", "--set", &data];
    for (more, code, told) in [
        (vec![missing.as_str()], 1, "error[E0302]: cannot follow"),
        (vec![file.as_str()], 1, "error[E0302]: cannot follow"),
        (vec![&dir, "--set", "mode=live"], 78, "error[E0202]: --follow reads what agents wrote"),
        (vec![&dir, "--set", "kafka.bootstrap_servers=localhost:1"], 78, "error[E0202]: --follow has a log of its own"),
        (vec![&dir, "--set", "http.listen=nowhere"], 78, "http.listen"),
        (vec![&dir, "--fail-on", "block"], 2, "cannot be used with"),
        (vec![], 2, "required"),
    ] {
        let output = program().args([&base[..], &more].concat()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(code) && said.contains(told), "{more:?}: {:?}, {said}", output.status);
    }
}

#[test]
fn what_would_have_been_told_is_printed_as_it_comes_a_line_each() {
    let scratch = Scratch::new();
    let logs = Logs::new(&scratch);
    let mut command = program();
    command.args(["replay", "--follow"]).arg(logs.0.parent().unwrap()).args(["--set", "http.listen=127.0.0.1:0"]);
    command.args(["--log-level", "warn", "--set"]).arg(format!("data_dir={}", scratch.0.join("data").display()));
    let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null()).spawn().unwrap();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut line = None;
    // Whoever waits for a line in vain is freed when the process is ended.
    crate::bounded::bounded(child.id(), crate::bounded::START_WAIT, || {
        let greeting = lines.by_ref().find(|line| line.contains("/readyz")).unwrap();
        let client = crate::http::client::Client::new(greeting.split("http://").nth(1).unwrap().split('/').next().unwrap());
        // The printer follows as soon as it is counted among the readers.
        while !client.get("/metrics").text.contains("loopwarden_log_readers{} 1.0\n") {
            std::thread::park_timeout(crate::http::PAUSE);
        }
        logs.calls("now", 1..=9);
        line = lines.find(|line| line.contains("nudge (shadow)"));
        line.is_some()
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(line.is_some_and(|line| line.contains("  now  ")));
}
