//! What `replay` reads, how far, and what they know about it: pipes, damage, strictness, labels, tenants.

use super::*;

fn json(arguments: &[&str], code: u8) -> Value {
    serde_json::from_str(&stdout(&expect(&[arguments, &["--output", "json"]].concat(), code))).unwrap()
}

/// A call that is like no other.
fn call(id: u32, session: &str, more: &str) -> String {
    format!(r#"{{"id":"{id}","kind":"tool","session_id":"{session}","tool":"t","args":{{"n":{id}}},"result":"{id}"{more}}}"#)
}

fn piped(arguments: &[&str], input: &[u8]) -> Output {
    let mut child =
        program().args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let bytes = input.to_vec();
    // Whoever refuses it does not read it.
    let writer = std::thread::spawn(move || drop(pipe.write_all(&bytes)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

#[test]
fn a_pipe_is_read_like_its_file_and_never_where_it_would_be_read_twice() {
    for file in [fleet(), root("tests/golden/transcript/claude-code/log.jsonl")] {
        let text = fs::read(&file).unwrap();
        let from_file = json(&["replay", &file], exit_code::DONE);
        let output = piped(&["replay", "/dev/stdin", "--output", "json"], &text);
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(serde_json::from_str::<Value>(&stdout(&output)).unwrap(), from_file, "{file}");
    }
    let set = "detectors.exact_repeat.threshold=3,4";
    let labels = root("no-such-labels");
    for arguments in
        [&["replay", "/dev/stdin", "--against", "default"][..], &["replay", "/dev/stdin", "--labels", &labels, "--sweep", set]]
    {
        let output = piped(arguments, b"{}");
        assert_eq!(output.status.code(), Some(i32::from(exit_code::USAGE)), "{arguments:?} {}", stderr(&output));
        assert!(stderr(&output).contains("/dev/stdin is there once"), "{}", stderr(&output));
    }
}

#[test]
fn a_label_counts_once_and_only_where_its_session_has_events() {
    let scratch = Scratch::new("label-rows");
    let row = |label: &str, first: u32, more: &str| {
        format!(r#"{{"session":"coding-01","label":"{label}","first_event_index":{first},"last_event_index":999{more}}}"#)
    };
    let judged = |rows: &[String]| {
        let labels = scratch.write("labels.jsonl", &format!("\u{feff}{}", rows.join("\n")));
        json(&["replay", &fleet(), "--labels", &labels], exit_code::DONE)["judgement"].clone()
    };
    // The same row twice, stretches behind the end, an agent that is none.
    let rows = [row("loop", 0, ""), row("loop", 0, ""), row("ok", 900, ""), row("loop", 1, r#","agent":"nobody""#)];
    let found = judged(&rows);
    assert_eq!((&found["loops"]["labelled"], &found["loops"]["found"]), (&Value::from(1), &Value::from(1)), "{found}");
    assert_eq!(
        (&found["look_alikes"]["sessions"], &found["labels_without_event"]),
        (&Value::from(0), &Value::from(2)),
        "{found}"
    );
    let labels = scratch.write("other.jsonl", &[row("loop", 0, ""), row("ok", 0, "")].join("\n"));
    let told = stderr(&expect(&["replay", &fleet(), "--labels", &labels], exit_code::FAILED));
    assert!(told.contains("other.jsonl:2: another row says something else of this stretch"), "{told}");
}

#[test]
fn an_event_above_the_limit_says_so_and_a_higher_limit_reads_it() {
    let scratch = Scratch::new("large");
    let text =
        format!(r#"{{"id":"1","kind":"tool","session_id":"s","tool":"t","args":{{}},"result":"{}"}}"#, "x".repeat(300_000));
    let file = scratch.write("large.ndjson", &format!("{text}\n{}", call(2, "s", "")));
    let told = stderr(&expect(&["replay", &file], exit_code::DONE));
    assert!(told.contains("no event: too_large") && told.contains("--set limits.record_bytes_max=BYTES"), "{told}");
    let found = json(&["replay", &file, "--set", "limits.record_bytes_max=400000"], exit_code::DONE);
    assert_eq!((found["events"].as_u64(), found["rejected"].as_u64()), (Some(2), Some(0)), "{found}");
    let told = stderr(&expect(&["replay", &file, "--set", "kafka.group=mine"], exit_code::USAGE));
    assert!(told.contains("is about a topic"), "{told}");
    let told = stderr(&expect(&["replay", &file, "--report", "-"], exit_code::USAGE));
    assert!(told.contains("--output html"), "{told}");
}

#[test]
fn no_name_from_outside_moves_the_cursor() {
    let scratch = Scratch::new("cursor");
    let session = "s\u{9b}31m\u{202e}x";
    let lines: Vec<String> = (0..4)
        .map(|n| {
            format!(r#"{{"id":"{n}","kind":"tool","session_id":"{session}","tool":"t","args":{{}},"result":"the same as ever"}}"#)
        })
        .collect();
    let file = scratch.write("events.ndjson", &lines.join("\n"));
    let label = format!(r#"{{"session":"{session}","label":"ok","first_event_index":0,"last_event_index":9}}"#);
    let missed = r#"{"session":"calm","label":"loop","first_event_index":0,"last_event_index":0,"kind":"\u001b[31mred"}"#;
    let labels = scratch.write("labels.jsonl", &format!("{label}\n{missed}\n"));
    let calm = scratch.write("calm.ndjson", &call(9, "calm", ""));
    for arguments in [&["replay", &file, &calm, "--labels", &labels][..], &["inspect", "session", session, "--file", &file]] {
        let shown = stdout(&expect(arguments, exit_code::DONE));
        assert!(shown.contains('\u{fffd}'), "{shown}");
        assert!(!shown.contains(['\u{9b}', '\u{202e}', '\u{1b}']), "{shown:?}");
    }
}

#[test]
fn strictness_ends_the_input_at_the_first_bad_line_whatever_the_threads_and_for_both_policies() {
    let scratch = Scratch::new("strict");
    let mut lines: Vec<String> = (0..20_000).map(|n| call(n, &format!("s{}", n % 97), "")).collect();
    for bad in [10, 4_000, 9_000, 19_000] {
        lines[bad] = "no event".to_owned();
    }
    let file = scratch.write("events.ndjson", &lines.join("\n"));
    for lanes in ["1", "3"] {
        let output = expect(&["replay", &file, "--strict", "--lanes", lanes, "--output", "json"], exit_code::ANSWER_IS_NO);
        let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!((report["events"].as_u64(), report["rejected"].as_u64()), (Some(10), Some(1)));
        assert_eq!((&report["is_partial"], &report["rejections"][0]["line"]), (&Value::Bool(true), &Value::from(11)));
        assert!(!stderr(&output).contains("more"), "{}", stderr(&output));
    }
    let mut fleet: Vec<String> = fs::read_to_string(fleet()).unwrap().lines().map(str::to_owned).collect();
    fleet.insert(500, "no event".to_owned());
    let file = scratch.write("fleet.ndjson", &fleet.join("\n"));
    let compared = json(&["replay", &file, "--strict", "--against", "default"], exit_code::ANSWER_IS_NO);
    assert_eq!((compared["policy"]["events"].as_u64(), compared["against"]["events"].as_u64()), (Some(500), Some(500)));
    let row = compared["changes"].as_array().unwrap().last().unwrap();
    assert!(row["newly_nudged"] == 0 && row["same"].as_u64() > Some(0), "{compared:#}");
    // Logs of agents end there too, and the report says that it is not whole.
    let logs = root("tests/golden/transcript/hostile.jsonl");
    assert_eq!(json(&["replay", &logs, "--strict"], exit_code::ANSWER_IS_NO)["is_partial"], true);
}

#[test]
fn of_a_damaged_file_the_report_has_what_was_read_and_says_that_this_is_not_all() {
    let scratch = Scratch::new("damaged");
    let text: String = (0..50_000_u32)
        .map(|n| call(n, &format!("s{}", n % 97), &format!(r#","x":{}"#, n.wrapping_mul(0x9e37_79b9))) + "\n")
        .collect();
    let packed = zstd::encode_all(text.as_bytes(), 1).unwrap();
    let file = scratch.0.join("cut.zst");
    fs::write(&file, &packed[..packed.len() / 2]).unwrap();
    let file = file.to_string_lossy().into_owned();
    let mut told = Vec::new();
    for arguments in [&["replay", &file][..], &["replay", &file, "--lanes", "1"], &["replay", &file, "--against", "default"]] {
        let output = expect(&[arguments, &["--output", "json"]].concat(), exit_code::FAILED);
        let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!(report["is_partial"], true);
        let report = if report["policy"]["events"].is_null() { report } else { report["policy"].clone() };
        told.push(report["events"].as_u64().unwrap());
        assert_eq!(stderr(&output).matches("E0302").count(), 1, "{}", stderr(&output));
    }
    assert!(told[0] > 1_000 && told.iter().all(|events| *events == told[0]), "{told:?}");
}

#[test]
fn what_is_packed_otherwise_is_refused_by_name() {
    let scratch = Scratch::new("packed-otherwise");
    for (name, bytes) in [
        ("bzip2", &b"BZh91AY&SY\x01\n\x02"[..]),
        ("xz", &b"\xfd7zXZ\0\0\x04\xe6\xd6\n\x02"[..]),
        ("zip", &b"PK\x03\x04\x14\0\n\x02"[..]),
    ] {
        let file = scratch.0.join(format!("events.{name}"));
        fs::write(&file, bytes).unwrap();
        let file = file.to_string_lossy().into_owned();
        let beside = format!("packed with {name}; unpack it, or pack it with gzip or zstd");
        let from_file = expect(&["replay", &file], exit_code::FAILED);
        for output in [from_file, piped(&["replay", "-"], bytes)] {
            let told = stderr(&output);
            assert!(told.contains("error[E0302]: cannot read ") && told.contains(&beside), "{told}");
            assert!(!told.contains("no event:"), "{told}");
        }
        let told = stderr(&expect(&["replay", &fleet(), "--labels", &file], exit_code::FAILED));
        assert!(told.contains(&beside), "{told}");
    }
}

#[test]
fn of_logs_one_of_which_is_damaged_the_others_are_read_and_the_report_is_no_whole_one() {
    let scratch = Scratch::new("damaged-log");
    let log = fs::read(root("tests/golden/transcript/claude-code/log.jsonl")).unwrap();
    let dir = scratch.0.join("logs");
    fs::create_dir_all(&dir).unwrap();
    let many: Vec<u8> = log.iter().copied().cycle().take(log.len() * 200).collect();
    let packed = zstd::encode_all(&*many, 1).unwrap();
    fs::write(dir.join("a.jsonl.zst"), &packed[..packed.len() / 2]).unwrap();
    let path = dir.to_string_lossy().into_owned();
    let alone = json(&["replay", &path], exit_code::FAILED);
    fs::write(dir.join("b.jsonl"), String::from_utf8(log).unwrap().replace("\"sessionId\":\"", "\"sessionId\":\"other-"))
        .unwrap();
    let output = expect(&["replay", &path, "--output", "json"], exit_code::FAILED);
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(report["is_partial"], true);
    assert!(
        stderr(&output).contains("error[E0302]: cannot read") && stderr(&output).contains("a.jsonl.zst"),
        "{}",
        stderr(&output)
    );
    assert!(report["events"].as_u64() > alone["events"].as_u64(), "the other log is read");
}

#[test]
fn events_in_one_document_are_read_and_an_input_without_any_event_is_a_failure() {
    let scratch = Scratch::new("document");
    let events: Vec<Value> =
        fs::read_to_string(fleet()).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let expected = json(&["replay", &fleet()], exit_code::DONE);
    let array = Value::Array(events);
    for text in [array.to_string(), format!("{array:#}")] {
        let got = json(&["replay", &scratch.write("events.json", &text)], exit_code::DONE);
        assert_eq!((&got["events"], &got["total"]), (&expected["events"], &expected["total"]));
    }
    // What is empty is no failure, and no success to be silent about.
    let told = stderr(&expect(&["replay", &scratch.write("empty.ndjson", "\n\n")], exit_code::DONE));
    assert!(told.contains("no event in this input"), "{told}");
    let file = scratch.write("none.csv", "a,b\n1,2\n");
    let output = expect(&["replay", &file], exit_code::FAILED);
    assert!(stderr(&output).contains("nothing in this input is an event"), "{}", stderr(&output));
}

#[test]
fn what_is_about_a_topic_is_refused_beside_files() {
    for (flag, value) in [("--from", "7d"), ("--to", "now"), ("--set", "kafka.group=mine")] {
        let told = stderr(&expect(&["replay", &fleet(), flag, value], exit_code::USAGE));
        assert!(told.contains("--topic"), "{told}");
        expect(&["inspect", "session", "coding-01", "--file", &fleet(), flag, value], exit_code::USAGE);
    }
    expect(&["inspect", "session", "coding-01", "--from", "7d"], exit_code::USAGE);
    expect(&["inspect", "session", "coding-01", "--file", &fleet(), "-c", "/nonexistent"], exit_code::USAGE);
    expect(&["replay", &fleet(), "-c", "/nonexistent"], exit_code::USAGE);
}

/// The same file, packed, beside it.
fn packed(path: &str) -> String {
    let beside = format!("{path}.zst");
    fs::write(&beside, zstd::encode_all(&*fs::read(path).unwrap(), 1).unwrap()).unwrap();
    beside
}

#[test]
fn a_session_belongs_to_its_tenant_in_counts_and_judgements() {
    let scratch = Scratch::new("tenants");
    let again = |id: u32, tenant: &str| {
        format!(
            r#"{{"id":"{id}","kind":"tool","session_id":"s","tenant":"{tenant}","tool":"Bash","args":{{"command":"make"}},"result":"no rule","outcome":"error"}}"#
        )
    };
    let text: Vec<String> = (0..8).map(|id| again(id, "loops")).chain((0..2).map(|id| again(id, "calm"))).collect();
    let file = scratch.write("events.ndjson", &text.join("\n"));
    let labels = scratch.write(
        "labels.jsonl",
        "{\"tenant\":\"loops\",\"session\":\"s\",\"label\":\"loop\",\"first_event_index\":0,\"last_event_index\":9}\n\
         {\"tenant\":\"calm\",\"session\":\"s\",\"label\":\"ok\",\"first_event_index\":0,\"last_event_index\":9}\n",
    );
    let outcomes = scratch.write(
        "outcomes.jsonl",
        "{\"tenant\":\"calm\",\"session\":\"s\",\"success\":true}\n{\"session\":\"s\",\"success\":true}\n",
    );
    let report = json(&["replay", &file, "--labels", &labels, "--outcomes", &outcomes], exit_code::DONE);
    assert_eq!((report["sessions"].as_u64(), report["total"]["told"].as_u64()), (Some(2), Some(1)), "{report:#}");
    let judged = &report["judgement"];
    assert_eq!((judged["loops"]["found"].as_u64(), judged["look_alikes"]["nudged"].as_u64()), (Some(1), Some(0)));
    assert_eq!(judged["successful"], serde_json::json!({ "sessions": 1, "nudged": 0, "blocked": 0 }));
    assert_eq!(judged["outcomes_without_session"], 1);
    let (labels, outcomes) = (packed(&labels), packed(&outcomes));
    assert_eq!(json(&["replay", &file, "--labels", &labels, "--outcomes", &outcomes], exit_code::DONE)["judgement"], *judged);
    fs::write(&labels, &fs::read(&labels).unwrap()[..20]).unwrap();
    let told = stderr(&expect(&["replay", &file, "--labels", &labels], exit_code::FAILED));
    assert!(told.contains("cannot read ") && told.contains("labels.jsonl.zst"), "{told}");
    let told = stderr(&expect(&["inspect", "session", "s", "--file", &file], exit_code::FAILED));
    assert!(told.contains("tenant \"calm\", tenant \"loops\""), "{told}");
    let bad = scratch.write("bad.jsonl", "{\"session\":\"s\",\"success\":true}\n{\"session\":\"s\",\"success\":false}\n");
    assert!(stderr(&expect(&["replay", &file, "--outcomes", &bad], exit_code::FAILED)).contains("bad.jsonl:2: "));
}

#[test]
fn a_sweep_says_what_it_could_not_know() {
    let scratch = Scratch::new("notes");
    let outcomes =
        scratch.write("outcomes.jsonl", "{\"session\":\"s\",\"success\":true}\n{\"session\":\"gone\",\"success\":true}\n");
    let event = |id: u32| format!(r#"{{"id":"{id}","kind":"tool","session_id":"s","tool":"t"}}"#);
    let file = scratch.write("events.ndjson", &format!("{}\nno event\n{}\n", event(0), event(1)));
    let arguments =
        ["replay", &file, "--outcomes", &outcomes, "--sweep", "detectors.exact_repeat.threshold=3,4", "--output", "json"];
    let output = expect(&arguments, exit_code::DONE);
    let told = stderr(&output);
    for part in ["events.ndjson:2: no event: not_json", "no events, and left out: 1 line", "W0301", "the sessions of 1 outcome"] {
        assert!(told.matches(part).count() == 1, "{part} once in {told}");
    }
    let sweep: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let point = &sweep["points"][0];
    assert!(point["loops_found"].is_null() && point["false_alarms"].is_null() && point["successes_disturbed"] == 0, "{sweep:#}");
    assert!(sweep["notes"].as_array().unwrap().len() >= 3, "{sweep:#}");
}

#[test]
fn a_looping_swarm_is_named_in_every_form_for_people_and_programs() {
    let report = json(&["replay", &fleet()], exit_code::DONE);
    let swarm = &report["swarms"][0];
    assert_eq!((swarm["swarm"].as_str(), swarm["tool"].as_str()), (Some("price-crawl"), Some("http_get")), "{report:#}");
    assert_eq!((swarm["calls"].as_u64(), swarm["agents"].as_u64(), swarm["nudges"].as_u64()), (Some(10), Some(3), Some(1)));
    assert!(stdout(&expect(&["replay", &fleet()], exit_code::DONE)).contains("price-crawl"));
    let page = stdout(&expect(&["replay", &fleet(), "--output", "html"], exit_code::DONE));
    assert!(page.contains("<h2>Swarms that loop</h2>") && page.contains("price-crawl"));
}

#[test]
fn events_without_a_time_have_no_timeline_and_a_second_copy_is_counted_as_such() {
    let scratch = Scratch::new("timeless");
    let again = |id: u32| format!(r#"{{"id":"{id}","kind":"tool","session_id":"s","tool":"t","args":{{}},"result":"x"}}"#);
    let file = scratch.write("events.ndjson", &(0..8).map(|id| again(id) + "\n").collect::<String>());
    let report = json(&["replay", &file], exit_code::DONE);
    assert!(report["total"]["nudges"].as_u64() > Some(0));
    assert_eq!((&report["timeline"]["slices"], &report["loops"][0]["first"]), (&serde_json::json!([]), &Value::Null));
    assert!(!stdout(&expect(&["replay", &file, "--output", "html"], exit_code::DONE)).contains("1970"));
    let shown = stdout(&expect(&["inspect", "session", "s", "--file", &file], exit_code::DONE));
    assert!(!shown.contains("1970-01-01T00:00:00.000Z"), "{shown}");
    let twice = expect(&["replay", &file, &file, "--output", "json"], exit_code::DONE);
    assert!(stderr(&twice).contains("8 under an id that was there before"), "{}", stderr(&twice));
    assert_eq!(serde_json::from_str::<Value>(&stdout(&twice)).unwrap()["duplicates"], 8);
}

#[test]
fn times_in_seconds_are_told_and_those_in_milliseconds_are_not() {
    let scratch = Scratch::new("seconds");
    let told = |time: u64| {
        let lines: Vec<String> = (0..3).map(|id| call(id, "s", &format!(r#","time":{}"#, time + u64::from(id)))).collect();
        stderr(&expect(&["replay", &scratch.write("events.ndjson", &lines.join("\n"))], exit_code::DONE))
    };
    let of_seconds = told(1_795_291_203);
    assert!(of_seconds.contains("warning[W0305]: 3 of 3 events say they are of January or February 1970"), "{of_seconds}");
    let of_milliseconds = told(1_795_291_203_000);
    assert!(!of_milliseconds.contains("W0305"), "{of_milliseconds}");
}

#[test]
fn events_of_partitions_that_share_a_lane_all_count() {
    let scratch = Scratch::new("many-partitions");
    let at = |partition: u32, offset: u32| {
        let place = format!(r#","_record":{{"partition":{partition},"offset":{offset},"timestamp":{offset}}}"#);
        call(offset + 100 * partition, &format!("s{partition}"), &place)
    };
    // The second partition of the lane lies far behind the first.
    let lines: Vec<String> = (50..60).flat_map(|at_| [at(0, at_), at(24, at_ - 50)]).collect();
    let report = json(&["replay", &scratch.write("events.ndjson", &lines.join("\n"))], exit_code::DONE);
    assert_eq!((report["events"].as_u64(), report["tools"][0]["calls"].as_u64()), (Some(20), Some(20)), "{report:#}");
}

#[test]
fn check_says_that_an_empty_list_of_tools_takes_none_away_and_the_example_of_the_documentation_is_short() {
    let scratch = Scratch::new("own-rules");
    let check = |policy: &str| {
        let set = format!("policy={}", scratch.write("own.toml", policy));
        stdout(&expect(&["check", "--set", &set], exit_code::DONE))
    };
    let told = check("profile = \"ours\"\ntool = []\n");
    assert!(told.contains("tool = [] leaves the base's [[tool]] in force; base_tools = false takes them away"), "{told}");
    for silent in ["profile = \"ours\"\n", "base_tools = false\n", "base_tools = false\ntool = []\n", "base = \"plain\"\n"] {
        assert!(!check(silent).contains("base_tools"), "{silent}");
    }
    let page = fs::read_to_string(root("src/docs/policies.md")).unwrap();
    let rules = page.split("## Own rules").nth(1).unwrap();
    let example = rules.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(example.matches("[[tool]]").count(), 1, "{example}");
    assert!(check(example).contains("policy         ok: ours"), "{example}");
}

#[test]
fn check_says_where_blocks_are_asked_for_and_only_nudges_can_come() {
    let scratch = Scratch::new("only-nudges");
    let check = |more: &str| {
        let policy = format!("{more}[detectors.dead_end]\nmode = \"block\"\n[detectors.stuck]\nmode = \"block\"\n");
        let set = format!("policy={}", scratch.write("own.toml", &policy));
        stdout(&expect(&["check", "--set", &set], exit_code::DONE))
    };
    assert!(check("").contains("mode \"block\" is as \"nudge\" for dead_end: "), "{}", check(""));
    assert!(!check("[fusion]\ndecides = true\n").contains("is as"));
}

#[test]
fn a_report_replaces_a_report_and_nothing_else() {
    let scratch = Scratch::new("replaced");
    let events = scratch.write("events.ndjson", &call(1, "s", ""));
    let before = fs::read(&events).unwrap();
    let refused = expect(&["replay", &events, "--report", &events], exit_code::USAGE);
    assert!(stderr(&refused).contains("--report would replace it"), "{}", stderr(&refused));
    let labels = scratch.write("labels.jsonl", r#"{"session":"s","label":"loop","first_event_index":0,"last_event_index":0}"#);
    let sweep = ["--sweep", "detectors.exact_repeat.threshold=2,3"];
    expect(&[&["replay", &events, "--labels", &labels, "--report", &labels][..], &sweep].concat(), exit_code::USAGE);
    assert_eq!(fs::read(&events).unwrap(), before);
    let page = scratch.write("page.html", "");
    for _ in 0..2 {
        expect(&["replay", &events, "--report", &page], exit_code::DONE);
    }
    assert!(fs::read_to_string(&page).unwrap().ends_with("</html>\n"));
}

#[test]
fn a_reader_that_has_gone_changes_neither_the_answer_nor_the_page() {
    let scratch = Scratch::new("gone");
    let page = scratch.0.join("page.html").display().to_string();
    for form in ["ndjson", "json"] {
        let _ = fs::remove_file(&page);
        let arguments = ["replay", &fleet(), "--output", form, "--fail-on", "nudge", "--report", &page];
        let mut child = program().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(i32::from(exit_code::ANSWER_IS_NO)), "{form}: {}", stderr(&output));
        assert!(fs::read_to_string(&page).unwrap().ends_with("</html>\n"), "{form}");
    }
}

#[test]
fn a_directory_without_any_event_is_a_failure_and_names_what_it_holds() {
    let scratch = Scratch::new("unknown");
    scratch.write("notes.json", r#"{"a":1}"#);
    let directory = scratch.0.display().to_string();
    let output = expect(&["replay", &directory, "--fail-on", "block"], exit_code::FAILED);
    assert!(
        stderr(&output).contains("no known log, and not read: ") && stderr(&output).contains("notes.json"),
        "{}",
        stderr(&output)
    );
    let labels = scratch.write("labels.txt", r#"{"session":"s","label":"loop","first_event_index":0,"last_event_index":0}"#);
    let set = "detectors.exact_repeat.threshold=2,3";
    expect(&["replay", &directory, "--labels", &labels, "--sweep", set], exit_code::FAILED);
}

#[test]
fn a_key_is_swept_once() {
    let scratch = Scratch::new("twice");
    let labels = scratch.write("labels.jsonl", r#"{"session":"s","label":"loop","first_event_index":0,"last_event_index":0}"#);
    let sets = ["--sweep", "detectors.stuck.threshold=2,4", "--set", "detectors.stuck.threshold=30"];
    let refused = expect(&[&["replay", &fleet(), "--labels", &labels][..], &sets].concat(), exit_code::USAGE);
    assert!(stderr(&refused).contains("detectors.stuck.threshold twice"), "{}", stderr(&refused));
}

#[test]
fn the_table_names_the_sessions_that_loop_and_says_no_cost_that_nobody_told() {
    let log = root("tests/golden/transcript/claude-code/log.jsonl");
    let fleet = stdout(&expect(&["replay", &fleet()], exit_code::DONE));
    assert!(fleet.contains("loopwarden inspect session ID") && fleet.contains("seen by"), "{fleet}");
    let of_log = json(&["replay", &log], exit_code::DONE);
    let spent = &of_log["in_loops"];
    assert!(spent["tokens"].as_u64().unwrap() > 0 && spent["cost_usd"] == Value::Null, "{of_log:#}");
    let table = stdout(&expect(&["replay", &log], exit_code::DONE));
    assert!(table.contains(" tokens\n") && !table.contains("US dollars"), "{table}");
}

#[test]
fn a_record_behind_one_of_its_partition_that_was_read_is_refused_and_told() {
    let scratch = Scratch::new("record-order");
    let at = |id: u32, offset: u32, topic: &str| {
        let record = format!(r#","_record":{{"topic":"{topic}","partition":3,"offset":{offset},"timestamp":1767603600000}}"#);
        call(id, "s", &record) + "\n"
    };
    let day = scratch.write("day.ndjson", &(at(1, 10, "a") + &at(2, 11, "a")));
    let before = scratch.write("before.ndjson", &(at(3, 8, "a") + &at(4, 9, "a") + &at(5, 12, "a")));
    let events = |files: &[&str]| {
        let report = json(&[&["replay"], files].concat(), exit_code::DONE);
        (report["events"].as_u64().unwrap(), report["rejected"].as_u64().unwrap())
    };
    assert_eq!(events(&[&day, &before]), (3, 2));
    assert_eq!(events(&[&before]), (3, 0));
    let told = stderr(&expect(&["replay", &day, &before], exit_code::DONE));
    assert!(told.contains("before.ndjson:1: no event: offset 8 of partition 3, which was read up to 11"), "{told}");
    let strict = expect(&["replay", &day, &before, "--strict"], exit_code::ANSWER_IS_NO);
    assert!(stdout(&strict).contains("2 events"), "{}", stdout(&strict));
    assert!(
        stderr(&expect(&["inspect", "session", "s", "--file", &day, "--file", &before], exit_code::DONE)).contains("offset 8")
    );
}
