//! `replay` as a page, two policies, a sweep: what a reader of a report gets.

use super::*;
use crate::golden::RULES;

const NAME: &str = "<script>alert(1)</script>";

/// Calls of one session, equal ones, each with what it cost.
fn repeated(session: &str, calls: u32) -> String {
    let event = |at: u32| {
        serde_json::json!({
            "id": format!("{session}-{at}"), "kind": "tool", "session_id": session, "tool": NAME, "args": { "q": "secret-argument" },
            "result": "secret-result", "outcome": "error", "time": format!("2026-01-05T09:{:02}:{:02}Z", at / 60, at % 60),
            "usage": { "input_tokens": 90, "output_tokens": 10, "cost_usd": 0.5 },
        })
    };
    (0..calls).map(|at| format!("{}\n", event(at))).collect()
}

fn json(arguments: &[&str], code: u8) -> Value {
    serde_json::from_str(&stdout(&expect(&[arguments, &["--output", "json"]].concat(), code))).unwrap()
}

#[test]
fn the_page_is_complete_in_itself_and_holds_neither_content_nor_foreign_markup() {
    let scratch = Scratch::new("page");
    let file = scratch.write("events.ndjson", &repeated(NAME, 20));
    let page = stdout(&expect(&["replay", &file, "--output", "html"], exit_code::DONE));
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert!(page.contains("&lt;script&gt;alert(1)") && !page.contains("<script"));
    for word in ["secret-", "http:", "https:", "src=", "url("] {
        assert!(!page.contains(word), "{word}");
    }
    assert!(
        page.contains("<dt>tokens in loops</dt>") && page.contains("prefers-color-scheme: dark") && page.contains("@media print")
    );
    assert_eq!(page.matches(">A</span>").count(), 21, "a cell for each call, and the letter's meaning");
    // The same page whatever the threads, and in a file beside another form.
    let copy = scratch.0.join("copy.html").to_string_lossy().into_owned();
    let table = stdout(&expect(&["replay", &file, "--lanes", "1", "--report", &copy], exit_code::DONE));
    assert!(table.starts_with("20 events of 1 session,") && table.contains("calls and texts in loops, "), "{table}");
    assert_eq!(fs::read_to_string(&copy).unwrap(), page);
    expect(&["replay", &file, "--report", &scratch.0.join("no/such/folder").to_string_lossy()], exit_code::FAILED);
}

#[test]
fn a_report_for_programs_has_the_loops_with_their_calls_and_what_they_cost() {
    let scratch = Scratch::new("loops");
    let mut text = repeated("long", 300);
    text.push_str(&repeated("short", 6));
    let report = json(&["replay", &scratch.write("events.ndjson", &text)], exit_code::DONE);
    let loops = report["loops"].as_array().unwrap();
    assert_eq!((loops[0]["session"].as_str(), loops[1]["session"].as_str(), loops.len()), (Some("long"), Some("short"), 2));
    let long = &loops[0];
    assert_eq!((long["calls"].as_u64(), long["repeated"][0]["failed"].as_u64()), (Some(300), Some(140)));
    assert_eq!(long["strip"].as_array().unwrap().len() + long["strip_end"].as_array().unwrap().len(), 140, "bounded");
    assert_eq!(long["strip_left_out"], 160);
    // From the third call on a detector counts it.
    assert_eq!(long["in_loop"], serde_json::json!({ "calls": 298, "tokens": 29_800, "cost_usd": 149.0 }));
    assert_eq!(report["tools"][0]["calls"], 306);
    let in_slices: u64 =
        report["timeline"]["slices"].as_array().unwrap().iter().map(|slice| slice["events"].as_u64().unwrap()).sum();
    assert_eq!(in_slices, 306);
}

/// Sessions, calls and events of two tenants may have the same names.
#[test]
fn what_a_call_costs_is_its_own_tenants() {
    let scratch = Scratch::new("tenants");
    let event = |tenant: &str, at: u32, kind: &str, tokens: u32| {
        let mut event = serde_json::json!({
            "id": format!("{kind}-{at}"), "tenant": tenant, "kind": kind, "session_id": "s", "tool": "t", "call_id": format!("c{at}"),
            "time": format!("2026-01-05T09:00:{at:02}Z"),
        });
        if kind == "tool_call" {
            event["args"] = serde_json::json!({ "q": if tenant == "loops" { 1 } else { at } });
            event["usage"] = serde_json::json!({ "input_tokens": tokens, "output_tokens": 0 });
        } else {
            event["result"] = if tenant == "loops" { "no".into() } else { format!("answer {at}").into() };
            event["outcome"] = if tenant == "loops" { "error".into() } else { "ok".into() };
        }
        format!("{event}\n")
    };
    let text: String = (0..10)
        .map(|at| {
            // The other tenant's call comes between, and would take the place of the first.
            [
                event("loops", at, "tool_call", 1),
                event("works", at, "tool_call", 1_000),
                event("works", at, "tool_result", 0),
                event("loops", at, "tool_result", 0),
            ]
            .concat()
        })
        .collect();
    let report = json(&["replay", &scratch.write("events.ndjson", &text)], exit_code::DONE);
    let (calls, tokens) = (report["in_loops"]["calls"].as_u64().unwrap(), report["in_loops"]["tokens"].as_u64().unwrap());
    assert_eq!((report["sessions"].as_u64(), report["loops"][0]["tenant"].as_str()), (Some(2), Some("loops")));
    assert_eq!(tokens, calls, "{report:#}");
}

/// Failures in a row go on across calls of other tools, which are no part of the loop.
#[test]
fn a_strip_marks_the_calls_that_fail_and_not_those_between() {
    let scratch = Scratch::new("between");
    let event = |at: u32, tool: &str, args: Value, outcome: &str, result: &str| {
        let event = serde_json::json!({
            "id": format!("e{at}"), "kind": "tool", "session_id": "s", "tool": tool, "args": args, "outcome": outcome, "result": result,
            "time": format!("2026-01-05T09:00:{at:02}Z"),
        });
        format!("{event}\n")
    };
    let text: String = (0..8)
        .map(|at| {
            let run = serde_json::json!({ "command": format!("run-{at} --all") });
            event(2 * at, "Bash", run, "error", &format!("exit {at}: step {at} has failed"))
                + &event(
                    2 * at + 1,
                    "Read",
                    serde_json::json!({ "path": format!("f{at}") }),
                    "ok",
                    &format!("text of file number {at}"),
                )
        })
        .collect();
    let file = scratch.write("events.ndjson", &text);
    let report = json(&["replay", &file, "--policy", RULES, "--set", "only=[\"shell_failures\"]"], exit_code::DONE);
    let one = &report["loops"][0];
    assert_eq!(one["detectors"], serde_json::json!(["shell_failures"]), "{report:#}");
    let marked: Vec<(&str, bool)> = one["strip"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cell| (cell["tool"].as_str().unwrap(), cell["in_loop"].as_bool().unwrap()))
        .collect();
    assert!(marked.contains(&("Bash", true)) && !marked.contains(&("Read", true)), "{marked:?}");
}

/// More agents loop at the same time than are kept with their calls.
#[test]
fn of_very_many_that_loop_the_worst_are_told_with_all_they_did() {
    let scratch = Scratch::new("many");
    let event = |session: &str, at: u32| {
        let (minute, second) = (at / 60, at % 60);
        format!(
            "{{\"id\":\"{session}-{at}\",\"kind\":\"tool\",\"session_id\":\"{session}\",\"tool\":\"t\",\"args\":{{\"q\":1}},\"result\":\"no\",\"outcome\":\"error\",\"time\":\"2026-01-05T09:{minute:02}:{second:02}Z\"}}\n"
        )
    };
    // In turn, so that each has been put out by the others when it goes on.
    let mut text: String = (0..8).flat_map(|at| (0..2_400).map(move |session| event(&format!("s{session}"), at))).collect();
    text.push_str(&(8..10).map(|at| event("s0", at)).collect::<String>());
    let report = json(&["replay", &scratch.write("events.ndjson", &text)], exit_code::DONE);
    let loops: Vec<(&str, u64)> = report["loops"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["session"].as_str().unwrap(), one["in_loop"]["calls"].as_u64().unwrap()))
        .collect();
    // From the third call on a detector counts it.
    assert_eq!(loops[0], ("s0", 8));
    assert!(loops.len() == 20 && loops[1..].iter().all(|(_, calls)| *calls == 6), "{loops:?}");
}

/// A session that was forgotten counts its calls from the beginning when it comes back; a report goes on counting.
#[test]
fn a_session_that_comes_back_goes_on_in_the_report() {
    let scratch = Scratch::new("again");
    let text = repeated("s", 6) + &repeated("s", 5).replace("\"s-", "\"later-").replace("2026-01-05", "2026-01-08");
    let report = json(&["replay", &scratch.write("events.ndjson", &text), "--policy", RULES], exit_code::DONE);
    let one = &report["loops"][0];
    assert_eq!(one["calls"], 11, "{one:#}");
    let cells = one["strip"].as_array().unwrap();
    let numbers: Vec<u64> = cells.iter().map(|cell| cell["sequence"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..11).collect::<Vec<u64>>());
    // The first two of either part are no loop yet, until the third makes them one.
    assert!(cells.iter().all(|cell| cell["in_loop"] == true), "{one:#}");
}

/// Of what no event tells nothing is told; names of tenants stand where there are any; no cell is a formula.
#[test]
fn tables_tell_what_is_known() {
    let scratch = Scratch::new("known");
    let without = repeated("s", 6).replace(",\"usage\":{\"cost_usd\":0.5,\"input_tokens\":90,\"output_tokens\":10}", "");
    assert!(!without.contains("usage"), "{without}");
    let file = scratch.write("events.ndjson", &without);
    let report = json(&["replay", &file], exit_code::DONE);
    assert_eq!(report["in_loops"], serde_json::json!({ "calls": 4, "tokens": null, "cost_usd": null }));
    assert_eq!(report["detectors"][0]["in_loops"], 4, "{report:#}");
    let table = stdout(&expect(&["replay", &file], exit_code::DONE));
    assert!(!table.contains("tenant") && !table.contains("loop tokens"), "{table}");
    let of_tenant = without.replace("\"kind\"", "\"tenant\":\"acme\",\"kind\"");
    let table = stdout(&expect(&["replay", &scratch.write("tenants.ndjson", &of_tenant)], exit_code::DONE));
    assert!(table.contains("tenant") && table.contains("acme"), "{table}");
    // An empty document is no events, not none that can be read.
    let empty = json(&["replay", &scratch.write("empty.json", "[]\n")], exit_code::DONE);
    assert_eq!((empty["events"].as_u64(), empty["rejected"].as_u64()), (Some(0), Some(0)));
}

#[test]
fn what_a_call_costs_is_counted_once_however_its_events_are_cut() {
    let scratch = Scratch::new("halves");
    let event = |at: u32, kind: &str| {
        let mut event = serde_json::json!({
            "id": format!("{kind}-{at}"), "kind": kind, "session_id": "s", "tool": "t", "call_id": format!("c{at}"),
            "time": format!("2026-01-05T09:00:{at:02}Z"),
        });
        if kind == "tool_call" {
            event["args"] = serde_json::json!({ "q": 1 });
            event["usage"] = serde_json::json!({ "input_tokens": 90, "output_tokens": 10 });
        } else {
            event["result"] = "no".into();
            event["outcome"] = "error".into();
        }
        format!("{event}\n")
    };
    let text: String = (0..10).map(|at| event(at, "tool_call") + &event(at, "tool_result")).collect();
    let report = json(&["replay", &scratch.write("events.ndjson", &text)], exit_code::DONE);
    let (calls, tokens) = (report["in_loops"]["calls"].as_u64().unwrap(), report["in_loops"]["tokens"].as_u64().unwrap());
    assert!((7..=8).contains(&calls), "{calls}");
    assert_eq!(tokens, 100 * calls);
    assert_eq!((report["tools"][0]["calls"].as_u64(), report["tools"][0]["failed"].as_u64()), (Some(10), Some(10)));
}

#[test]
fn another_policy_is_compared_by_detector_and_tool_with_examples() {
    let scratch = Scratch::new("against");
    let file = scratch.write("events.ndjson", &repeated("looping", 8));
    let set = ["--set", "detectors.exact_repeat.threshold=2", "--set", "detectors.exact_repeat.block_at=4"];
    let stricter = [&["replay", &file, "--policy", RULES, "--against", RULES], &set[..]].concat();
    let change = json(&stricter, exit_code::DONE);
    let row = change["changes"].as_array().unwrap().iter().find(|row| row["name"] == "exact_repeat").unwrap();
    assert_eq!((row["newly_blocked"].as_u64(), row["no_longer_blocked"].as_u64()), (Some(1), Some(0)), "{change:#}");
    let example = &change["examples"][0];
    assert_eq!((example["change"].as_str(), example["session"].as_str()), (Some("newly_blocked"), Some("looping")));
    assert!(change["changes"].as_array().unwrap().iter().any(|row| row["by"] == "tool" && row["newly_blocked"] == 1));
    assert!(stdout(&expect(&stricter, exit_code::DONE)).contains("newly_blocked"));
    let page = stdout(&expect(&[&stricter[..], &["--output", "html"]].concat(), exit_code::DONE));
    assert!(page.contains("newly blocked by <code>exact_repeat</code>") && !page.contains("<script"));
    // For scripts: only what is new counts.
    expect(&[&stricter[..], &["--fail-on", "block"]].concat(), exit_code::ANSWER_IS_NO);
    expect(&["replay", &file, "--policy", RULES, "--against", RULES, "--fail-on", "nudge"], exit_code::DONE);
    // Who hears of the same loop from other detectors is not newly told, and is one agent in each table.
    let quiet = ["--set", "detectors.exact_repeat.mode=off"];
    let other = [&["replay", &file, "--policy", RULES, "--against", RULES, "--fail-on", "nudge"], &quiet[..]].concat();
    let change = json(&other, exit_code::DONE);
    let rows = change["changes"].as_array().unwrap();
    let agents =
        |row: &Value| ["newly_nudged", "no_longer_nudged", "no_longer_blocked", "same"].map(|kind| row[kind].as_u64().unwrap());
    assert!(rows.iter().any(|row| row["by"] == "detector" && row["newly_nudged"] == 1), "{change:#}");
    for row in rows.iter().filter(|row| row["by"] != "detector") {
        assert_eq!(agents(row).iter().sum::<u64>(), 1, "{change:#}");
        assert_eq!(row["newly_nudged"], 0, "{change:#}");
    }
    assert!(stderr(&expect(&["replay", "-", "--against", "default"], exit_code::USAGE)).contains("standard input"));
    expect(&[&stricter[..], &["--output", "ndjson"]].concat(), exit_code::USAGE);
}

#[test]
fn thresholds_are_swept_over_a_grid_and_judged() {
    let scratch = Scratch::new("sweep");
    let labels = scratch.write(
        "labels.jsonl",
        "{\"session\":\"loops\",\"label\":\"loop\",\"first_event_index\":0,\"last_event_index\":99,\"kind\":\"exact\"}\n\
         {\"session\":\"fine\",\"label\":\"ok\",\"first_event_index\":0,\"last_event_index\":99,\"kind\":\"poll\"}\n",
    );
    let file = scratch.write("events.ndjson", &(repeated("loops", 8) + &repeated("fine", 4)));
    let only = ["outcome_repeat", "near_repeat", "stagnation", "dead_end", "state_repeat"]
        .map(|name| format!("detectors.{name}.mode=off"));
    let mut arguments =
        vec!["replay", &file, "--policy", RULES, "--labels", &labels, "--sweep", "detectors.exact_repeat.threshold=3,6,9,x"];
    for set in &only {
        arguments.extend(["--set", set]);
    }
    let swept = json(&arguments, exit_code::DONE);
    let told: Vec<(u64, u64, String)> = swept["points"]
        .as_array()
        .unwrap()
        .iter()
        .take(3)
        .map(|row| (row["loops_found"].as_u64().unwrap(), row["false_alarms"].as_u64().unwrap(), row["note"].to_string()))
        .collect();
    assert_eq!(told, [(1, 1, "null".to_owned()), (1, 0, "\"best\"".to_owned()), (0, 0, "null".to_owned())], "{swept:#}");
    assert!(swept["points"][3]["note"].as_str().unwrap().contains("threshold"), "a value that cannot be says why");
    assert_eq!(swept["points"][1]["delay_events"], 5);
    let table = stdout(&expect(&arguments, exit_code::DONE));
    assert!(table.starts_with("row") && table.lines().count() == 5 && table.contains("best"), "{table}");
    let page = stdout(&expect(&[&arguments[..], &["--output", "html"]].concat(), exit_code::DONE));
    assert!(page.contains("4 policies, begun from") && !page.contains("<script"));
    let csv = stdout(&expect(&[&arguments[..], &["--output", "csv"]].concat(), exit_code::DONE));
    assert!(csv.starts_with("row,detectors.exact_repeat.threshold,") && csv.lines().count() == 5, "{csv}");
    let wide = (0..300).map(|value| value.to_string()).collect::<Vec<_>>().join(",");
    let set = format!("detectors.exact_repeat.threshold={wide}");
    expect(&["replay", &file, "--labels", &labels, "--sweep", &set], exit_code::USAGE);
    expect(&["replay", &file, "--sweep", "detectors.exact_repeat.threshold=3"], exit_code::USAGE);
    expect(&["replay", &file, "--labels", &labels, "--sweep", "detectors.no_such.threshold=3"], exit_code::CONFIG);
    // A page that cannot be written is told before anything is read.
    for command in [&["replay", &file][..], &arguments] {
        let output = expect(&[command, &["--report", "/nonexistent/page.html"]].concat(), exit_code::FAILED);
        assert!(
            stdout(&output).is_empty() && stderr(&output).contains("cannot write /nonexistent/page.html"),
            "{}",
            stderr(&output)
        );
        assert!(!stderr(&output).contains("events"), "{}", stderr(&output));
    }
}

#[test]
fn a_key_of_a_detector_that_is_off_changes_nothing_and_that_is_said_once() {
    let scratch = Scratch::new("idle-keys");
    let file = scratch.write("events.ndjson", &repeated("loops", 8));
    let labels =
        scratch.write("labels.jsonl", r#"{"session":"loops","label":"loop","first_event_index":0,"last_event_index":9}"#);
    let line = "detectors.exact_repeat.threshold changes nothing: exact_repeat is off here; \
                detectors.exact_repeat.mode = \"nudge\" switches it on";
    let said = |arguments: &[&str]| {
        let told = stderr(&expect(arguments, exit_code::DONE));
        told.lines().filter(|told| told.contains("changes nothing")).map(str::to_owned).collect::<Vec<_>>()
    };
    let (sweep, set) = ("detectors.exact_repeat.threshold=3,4", "detectors.exact_repeat.threshold=3");
    let warning = format!("warning: {line}");
    assert_eq!(said(&["replay", &file, "--labels", &labels, "--sweep", sweep]), std::slice::from_ref(&warning));
    let swept = json(&["replay", &file, "--labels", &labels, "--sweep", sweep], exit_code::DONE);
    assert!(swept["notes"].as_array().unwrap().iter().any(|note| note == line), "{swept:#}");
    assert_eq!(said(&["replay", &file, "--set", set]), [warning]);
    for silent in [
        &["replay", &file, "--set", "score.nudge_at=3.5"][..],
        &["replay", &file, "--policy", RULES, "--set", set],
        &["replay", &file, "--set", set, "--set", "detectors.exact_repeat.mode=nudge"],
        &["replay", &file, "--policy", "hackeurope"],
    ] {
        assert_eq!(said(silent), [""; 0], "{silent:?}");
    }
    let check = |policy: &str| {
        let set = format!("policy={}", scratch.write("own.toml", policy));
        stdout(&expect(&["check", "--set", &set], exit_code::DONE))
    };
    let told = check("[detectors.exact_repeat]\nthreshold = 5\n[detectors.stuck]\nthreshold = 5\n");
    assert!(told.contains(&format!("warning: {line}")), "{told}");
    assert!(!told.contains("stuck"), "a file that repeats what holds anyway changes nothing on purpose: {told}");
    let told = check("base = \"plain\"\nonly = [\"exact_repeat\"]\ndetectors.stuck.threshold = 6\n");
    assert!(told.contains("detectors.stuck.threshold changes nothing: `only` leaves stuck out"), "{told}");
    assert!(!check("[detectors.exact_repeat]\nmode = \"off\"\nthreshold = 5\n").contains("nothing"), "it says so itself");
}

/// Interrupted in the middle of its input, a replay reports what it has seen, and says that this is not all.
#[test]
fn an_interrupted_replay_leaves_a_valid_partial_report() {
    for form in ["json", "html"] {
        let mut child = program()
            .args(["replay", "-", "--output", form])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        // More than the reader may run ahead of the lanes: when all is written, lanes run, and signals are listened to.
        for round in 0..1_000 {
            input.write_all(repeated(&format!("s{round}"), 50).as_bytes()).unwrap();
        }
        // Twice, as `timeout` does: the process, then its group.
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        let _ = Command::new("kill").args(["-TERM", &pid]).stderr(Stdio::null()).status().unwrap();
        let output = child.wait_with_output().unwrap();
        // Its input had not ended.
        drop(input);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let text = stdout(&output);
        if form == "json" {
            let report: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(report["is_partial"], true);
            assert!(report["events"].as_u64().unwrap() > 0 && report["loops"][0]["session"].is_string(), "{report:#}");
        } else {
            assert!(text.contains("<b>Partial:</b>") && text.ends_with("</html>\n"));
        }
        assert!(stderr(&output).contains("stopped before the end"));
    }
}

/// Agents of a trial: who is sent a command leaves the loop after one call more and works on; who is only watched goes on for nine.
fn of_a_trial(session: &str, calls_in_loop: u32) -> String {
    let event = |at: u32| {
        let in_loop = at < calls_in_loop;
        serde_json::json!({
            "id": format!("{session}-{at}"), "kind": "tool", "session_id": session, "tool": "search", "outcome": "ok",
            "args": { "q": if in_loop { "the same".to_owned() } else { format!("page {at} of {session}") } },
            "result": if in_loop { "nothing was found here".to_owned() } else { format!("a text about subject {at} in {session}") },
            "time": format!("2026-01-05T09:{:02}:{:02}Z", at / 60, at % 60), "usage": { "input_tokens": 90, "output_tokens": 10, "cost_usd": 0.5 },
        })
    };
    (0..calls_in_loop + 10).map(|at| format!("{}\n", event(at))).collect()
}

/// As where a log runs on: time passes for all of it, whatever shares a partition with a silent agent.
#[test]
fn an_agent_that_fell_silent_in_its_loop_counts_in_a_replay_wherever_the_log_goes_on() {
    let scratch = Scratch::new("silent");
    let silent: String = (0..40).map(|at| repeated(&format!("silent{at}"), 8)).collect();
    let later = repeated("later", 1).replace("T09:", "T12:");
    let file = scratch.write("silent.ndjson", &(silent + &later));
    let policy = [
        "--policy",
        RULES,
        "--set",
        "only=[\"exact_repeat\"]",
        "--set",
        "trial.share=0.5",
        "--set",
        "trial.salt=\"0123456789abcdef\"",
    ];
    for lanes in ["1", "4"] {
        let found = json(&[&["replay", &file, "--lanes", lanes][..], &policy].concat(), exit_code::DONE);
        let row = &found["trial"][0];
        let agents = [&row["agents"], &row["agents_against"]].map(|agents| agents.as_u64().unwrap_or_default());
        assert!(agents.iter().sum::<u64>() == 40 && agents[0] > 10 && agents[1] > 10, "{row}");
        assert_eq!(found["events"], 40 * 8 + 1, "a tick is no event");
    }
}

#[test]
fn a_trial_shows_what_commands_are_worth_and_equal_arms_show_nothing() {
    let scratch = Scratch::new("trial");
    let policy = [
        "--policy",
        RULES,
        "--set",
        "only=[\"exact_repeat\"]",
        "--set",
        "trial.share=0.3",
        "--set",
        "trial.salt=\"0123456789abcdef\"",
    ];
    let replay = |name: &str, text: &str, more: &[&str]| {
        json(&[&["replay", &scratch.write(name, text)][..], &policy, more].concat(), exit_code::DONE)
    };
    let sessions: Vec<String> = (0..200).map(|at| format!("s{at}")).collect();
    let equal: String = sessions.iter().map(|session| of_a_trial(session, 12)).collect();
    let same = replay("equal.ndjson", &equal, &[]);
    let row = &same["trial"][0];
    assert_eq!((&row["detector"], &row["advised"]), (&"exact_repeat".into(), &"wait".into()), "{row}");
    let (treated, control) = (row["agents"].as_u64().unwrap(), row["agents_against"].as_u64().unwrap());
    assert!(treated + control == 200 && (40..80).contains(&control), "{row}");
    assert_eq!((&row["calls"]["mean"], &row["calls"]["against"]), (&9.0.into(), &9.0.into()), "{row}");
    let (in_loops, all) = (&same["in_loops"], &same["spent"]);
    assert_eq!((&in_loops["tokens"], &all["tokens"]), (&(200 * 10 * 100).into(), &(200 * 22 * 100).into()));
    let saved = &same["saved"]["calls"];
    assert!(saved["low"].as_f64().unwrap() < 0.0 && saved["high"].as_f64().unwrap() > 0.0, "{saved}");

    // The arms, as the commands name them.
    let file = scratch.write("equal.ndjson", &equal);
    let commands = stdout(&expect(&[&["replay", &file, "--output", "ndjson"][..], &policy].concat(), exit_code::DONE));
    let mut arms = std::collections::BTreeMap::new();
    for command in commands.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let (session, arm) = (command["session_id"].as_str().unwrap().to_owned(), command["trial"].as_str().unwrap().to_owned());
        assert_eq!(arms.insert(session, arm.clone()).unwrap_or_else(|| arm.clone()), arm, "one arm a session");
    }
    let heeded = sessions.iter().map(|session| of_a_trial(session, if arms[session] == "control" { 12 } else { 4 }));
    let heeded: String = heeded.collect();
    let helped = replay("heeded.ndjson", &heeded, &["--lanes", "1"]);
    let row = &helped["trial"][0];
    let calls = &row["calls"];
    assert_eq!((&row["advised"], &calls["mean"], &calls["against"]), (&"keep".into(), &1.0.into(), &9.0.into()), "{row}");
    let difference = &calls["difference"];
    assert!(difference["low"].as_f64().unwrap() < -8.0 && difference["high"].as_f64().unwrap() < 0.0, "{row}");
    assert_eq!(row["agents"], treated, "the arms depend on names alone");
    // Eight calls of half a dollar, of each agent that was sent something.
    let usd = &helped["saved"]["usd"];
    assert_eq!(usd["value"].as_f64().unwrap(), 4.0 * treated as f64, "{usd}");
    assert!(usd["low"].as_f64().unwrap() > 0.0, "{usd}");
    assert_eq!(helped["trial"], replay("heeded.ndjson", &heeded, &["--lanes", "4"])["trial"]);
    // Without a control arm nobody knows what was saved, and the report says so; for people too.
    let file = scratch.write("heeded.ndjson", &heeded);
    let bill = |more: &[&str]| {
        let arguments = [&["replay", &file][..], &policy[..4], more].concat();
        stdout(&expect(&arguments, exit_code::DONE))
    };
    let without: Value = serde_json::from_str(&bill(&["--output", "json"])).unwrap();
    assert_eq!((&without["saved"], &without["not_saved"]), (&Value::Null, &"no_trial".into()));
    assert!(bill(&[]).contains("saved: unknown without a control arm"), "{}", bill(&[]));
    let table = bill(&policy[4..]);
    assert!(
        table.contains("saved: ")
            && table.contains(" US dollars, in the first loops of ")
            && table.contains("treatment : control"),
        "{table}"
    );
    assert!(bill(&["--output", "html"]).contains("unknown without a control arm"));
}
