//! `doctor --try`: recorded records are judged as a running process judges them.

use std::fs;

use loopwarden::exit_code;
use serde_json::Value;

use crate::cli::{Scratch, expect, root, stdout};

/// The bodies of a recording, one a line, as a collector's file exporter writes them.
fn bodies(agent: &str) -> String {
    let text = fs::read_to_string(root(&format!("src/sources/tests/recordings/{agent}.otlp.ndjson"))).unwrap();
    let body = |line: &str| serde_json::from_str::<Value>(line).unwrap()["body"].to_string();
    text.lines().map(body).collect::<Vec<_>>().join("\n")
}

#[test]
fn recorded_exports_are_judged_without_a_process() {
    let scratch = Scratch::new("doctor-otlp");
    let file = |agent: &str| scratch.write(&format!("{agent}.ndjson"), &bodies(agent));
    let codex = stdout(&expect(&["doctor", "--try", &file("codex")], exit_code::DONE));
    assert!(codex.contains("(Codex): 2 calls; names, arguments and results can be compared\nnothing to do\n"), "{codex}");
    let claude = stdout(&expect(&["doctor", "--try", &file("claude")], exit_code::ANSWER_IS_NO));
    for part in [
        "todo  [W0307] claude-code (Claude Code): names and arguments can be compared; 0 of 2 calls have no arguments, 2 of 2 have no result",
        "its hooks report both",
        "one thing to do",
    ] {
        assert!(claude.contains(part), "{part} is not in\n{claude}");
    }
}

#[test]
fn events_cloud_events_and_foreign_json_are_told_apart() {
    let scratch = Scratch::new("doctor-forms");
    let records = [
        r#"{"id":"1","kind":"tool","session_id":"s","tool":"t","args":{},"result":"r"}"#,
        r#"{"specversion":"1.0","id":"1","source":"/fleet","type":"t","subject":"s","data":{"kind":"tool","tool":"t","outcome":"ok"}}"#,
        r#"{"run":"s","name":"t"}"#,
        r#"{"id":"2","kind":"tool","session_id":"s"}"#,
        "\u{1b}[31m no JSON",
    ];
    let file = scratch.write("records.ndjson", &records.join("\n"));
    let told = stdout(&expect(&["doctor", "--try", &file], exit_code::ANSWER_IS_NO));
    for line in [
        "ok    events: 1 call; names, arguments and results can be compared\n",
        "todo  [W0308] events: 1 of 2 records are refused\n",
        "todo  [W0301] /fleet (CloudEvents): names only can be compared; 1 of 1 calls have no arguments, 1 of 1 have no result\n",
        "todo  [W0306] sessions that two sources report, so that calls count twice: 1: s (events, CloudEvents)\n",
        "todo  [W0308] 2 of 5 records are of no form that is read\n",
    ] {
        assert!(told.contains(line), "{line:?} is not in\n{told}");
    }
    let mapping = scratch.write("map.toml", "[fields]\nsession_id = \"run\"\ntool = \"name\"\n");
    let mapped = stdout(&expect(&["doctor", "--try", &file, "--mapping", &mapping], exit_code::ANSWER_IS_NO));
    assert!(mapped.contains("todo  [W0301] mapping: names only can be compared; 1 of 1 calls"), "{mapped}");
    assert!(mapped.contains("1 of 5 records are of no form") && mapped.contains("`loopwarden map --try`"), "{mapped}");
}

#[test]
fn one_document_over_several_lines_is_one_record_and_nothing_is_nothing() {
    let scratch = Scratch::new("doctor-document");
    let pretty = |line: &str| serde_json::to_string_pretty(&serde_json::from_str::<Value>(line).unwrap()).unwrap();
    let file = scratch.write("pretty.json", &pretty(bodies("python").lines().next().unwrap()));
    let told = stdout(&expect(&["doctor", "--try", &file], exit_code::DONE));
    assert!(told.contains(": 4 calls; names, arguments and results can be compared\n"), "{told}");
    let told = stdout(&expect(&["doctor", "--try", &scratch.write("empty", "\n")], exit_code::ANSWER_IS_NO));
    assert!(told.contains("[W0304] there is no record in this file"), "{told}");
    expect(&["doctor", "--try", &scratch.0.join("absent").to_string_lossy()], exit_code::FAILED);
    expect(&["doctor", "--try", &file, "--address", "localhost:1"], exit_code::USAGE);
}
