//! Logs of agents, from the file to the command: a loop is found, a session that works is left alone.

use super::*;

/// Sessions that get a nudge, as `replay` prints them.
fn nudged(log: &str) -> Vec<String> {
    let told =
        stdout(&expect(&["replay", &root(&format!("tests/golden/transcript/{log}")), "--output", "ndjson"], exit_code::DONE));
    let commands = told.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    commands
        .filter(|command| command["action"] == "nudge")
        .map(|command| command["session_id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn loops_in_logs_of_cline_and_goose_are_found_and_sessions_that_work_are_left_alone() {
    for (log, session) in [("cline", "1767603600000"), ("cline-older", "1741234567890"), ("goose", "20260105_3")] {
        let found = nudged(log);
        assert!(found.iter().any(|nudged| nudged == session), "{log}: {found:?}");
    }
    for log in ["cline-session", "goose-older"] {
        assert_eq!(nudged(log), Vec::<String>::new(), "{log}");
    }
}
