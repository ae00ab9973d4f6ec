//! What the README says about the first minutes, as it stands there: its commands are run by a shell.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use crate::http::{Running, Scratch};

/// The first block of shell commands that holds a text.
fn block(with: &str) -> String {
    let page = include_str!("../../../README.md");
    let mut blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.find(|block| block.contains(with)).unwrap_or_else(|| panic!("no block with {with}")).to_owned()
}

#[test]
fn the_quick_start_over_http_works_as_it_stands() {
    if Command::new("curl").arg("--version").output().is_err() {
        println!("skipped: there is no curl");
        return;
    }
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &[]);
    let address = running.greeting.split("http://").nth(1).and_then(|rest| rest.split('/').next()).unwrap();
    let script = block("/v1/events").replace("localhost:9464", address);
    let output = Command::new("bash").args(["-c", &script]).env("no_proxy", "*").output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(told.matches(r#"{"accepted":1,"rejected":[]}"#).count(), 3, "{told}");
    for part in [r#""action":"nudge""#, r#""mode":"shadow""#, r#""session_id":"sess-42""#] {
        assert!(told.contains(part), "{part} in\n{told}");
    }
    // And on the page's numbers, which are those of a moment ago.
    running.json_until("/overview", |overview| overview["commands"]["nudge"] == 1);
    // The feed, followed: it does not end by itself.
    let mut curl = Command::new("curl");
    curl.args(["-sN", "-m", "60", &format!("{address}/v1/commands")]).env("no_proxy", "*");
    let mut curl = curl.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(curl.stdout.take().unwrap()).lines().map_while(Result::ok);
    let has_command = lines.any(|line| line == "event: command");
    curl.kill().unwrap();
    curl.wait().unwrap();
    assert!(has_command, "the feed is empty");
}
