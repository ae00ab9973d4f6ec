//! Logs of agents as files: whose they are, what becomes of each line, and what happens to lines that are none.

use std::fs;
use std::path::{Path, PathBuf};

use loopwarden::event::{RecordMeta, decode};
use loopwarden::log::file::{FileInput, FileOptions, RecordedInput};
use loopwarden::transcript::{Converter, Format, PIECE_BYTES_MAX};
use serde_json::{Value, json};

use crate::{decode::record, fuzz::broken_of, random::Random, store::temp_dir::TempDir};

/// Where a converted line stands in its topic, and how large it may be.
fn meta() -> RecordMeta<'static> {
    RecordMeta { key: None, value_bytes_max: 256 * 1024, ..record(&[]) }
}

/// The format of a log, by its name for people.
fn format(name: &str) -> Format {
    Format::all().find(|format| format.as_str() == name).unwrap()
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/transcript").join(name)
}

/// Everything that is read, in order: time and value.
fn read(paths: &[PathBuf], is_strict: bool) -> (Vec<(i64, Value)>, RecordedInput) {
    let inputs = paths.iter().cloned().map(FileInput::Path).collect();
    let input = RecordedInput::open(inputs, &FileOptions { is_strict, ..FileOptions::default() }).unwrap();
    let mut got = Vec::new();
    let end = input.visit(|record| {
        decode(record.value, &record.meta).expect("what is converted is an event");
        got.push((record.meta.timestamp.0, serde_json::from_slice(record.value.unwrap()).unwrap()));
    });
    end.unwrap();
    (got, input)
}

/// Events, what was ignored, what was refused: a line each.
fn told(path: &Path) -> String {
    let (got, replay) = read(&[path.to_owned()], false);
    let mut text: String = got.iter().map(|(_, event)| format!("{event}\n")).collect();
    let skipped = replay.skipped().1;
    for (format, read) in replay.agent_logs() {
        text += &format!(
            "# {}: {} logs, events {:?}, ignored {:?}\n",
            format.as_str(),
            read.logs,
            read.tally.events,
            read.tally.ignored
        );
    }
    if skipped > 0 {
        text += &format!("# skipped {skipped}\n");
    }
    let (refused, total) = replay.refused();
    assert_eq!(refused.len() as u64, total);
    for (file, line, reason) in refused {
        let name = Path::new(&file).file_name().unwrap().to_string_lossy().into_owned();
        text += &format!("# {name}:{line}: {reason}\n");
    }
    text
}

#[test]
fn every_format_reads_as_its_golden_file_says() {
    let mut wrong = Vec::new();
    for (name, log) in [
        ("claude-code", "claude-code/log.jsonl"),
        ("claude-stream", "claude-stream/log.jsonl"),
        ("cline", "cline/1767603600000/api_conversation_history.json"),
        ("cline-hostile", "cline-hostile"),
        ("cline-older", "cline-older"),
        ("cline-session", "cline-session"),
        ("codex", "codex/log.jsonl"),
        ("codex-older", "codex-older/log.jsonl"),
        ("gemini", "gemini/log.jsonl"),
        ("gemini-older", "gemini-older/log.json"),
        ("gemini-stream", "gemini-stream/log.jsonl"),
        ("goose", "goose/session.json"),
        ("goose-hostile", "goose-hostile"),
        ("goose-older", "goose-older"),
        ("opencode", "opencode/log.json"),
        ("openhands", "openhands/log.json"),
        ("openhands-events", "openhands-events"),
        ("qwen", "qwen/log.jsonl"),
        ("hostile", "hostile.jsonl"),
    ] {
        let got = told(&golden(log));
        let expected = fs::read_to_string(golden(&format!("{name}.expected"))).unwrap_or_default();
        if got != expected {
            let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.expected"));
            fs::write(&place, &got).unwrap();
            wrong.push(format!("{name}: what came is in {}", place.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_first_refusal_ends_a_strict_reading() {
    let (all, replay) = read(&[golden("hostile.jsonl")], false);
    assert!(all.len() >= 2 && replay.refused().1 > 10);
    let (some, replay) = read(&[golden("hostile.jsonl")], true);
    assert_eq!((some.len(), replay.refused().1), (1, 1));
}

#[test]
fn usage_of_a_reply_is_counted_once_and_at_its_call_whoever_speaks_in_between() {
    let reply = |id: &str, agent: Option<&str>, block: Value, tokens: u64| {
        let uuid = format!("{id}-{}-{tokens}", block["type"].as_str().unwrap());
        json!({ "type": "assistant", "sessionId": "s", "uuid": uuid, "isSidechain": agent.is_some(), "agentId": agent,
            "message": { "id": id, "role": "assistant", "content": [block], "stop_reason": null,
                "usage": { "input_tokens": tokens, "output_tokens": 1 } } })
    };
    let text = || json!({ "type": "text", "text": "I will look." });
    let call = |id: &str| json!({ "type": "tool_use", "id": id, "name": "Bash", "input": { "command": "make" } });
    let result = json!({ "type": "user", "sessionId": "s", "uuid": "r", "message": { "role": "user", "content": [
        { "type": "tool_result", "tool_use_id": "c1", "content": "no rule", "is_error": true }] } });
    let progress = json!({ "type": "progress", "sessionId": "s", "uuid": "p" });
    let lines = [
        reply("main-1", None, text(), 100),
        reply("side-1", Some("a"), text(), 7),
        progress,
        reply("main-1", None, call("c1"), 100),
        reply("side-1", Some("a"), call("c2"), 7),
        reply("main-1", None, call("c3"), 100),
        result,
        reply("main-2", None, text(), 40),
        reply("main-3", None, text(), 50),
    ];
    let (mut made, mut converter) = (Vec::new(), Converter::new(format("Claude Code"), "name"));
    for line in &lines {
        converter.piece(line.to_string().as_bytes(), &mut made).unwrap();
    }
    // A line that is refused lets nothing go; the end of the log does.
    let before = made.len();
    converter.piece(br#"{"type":"user","sessionId":"s","uuid":"x","message":{"content":7}}"#, &mut made).unwrap_err();
    assert_eq!(made.len(), before);
    converter.finish(&mut made).unwrap();
    let told: Vec<String> = made
        .iter()
        .map(|made| serde_json::from_str::<Value>(&made.json).unwrap())
        .map(|event| format!("{} {}", event["id"].as_str().unwrap(), event["usage"]["input_tokens"]))
        .collect();
    assert_eq!(
        told,
        [
            "main-1-text-100 null",
            "side-1-text-7 null",
            "main-1-tool_use-100 100",
            "side-1-tool_use-7 7",
            "main-1-tool_use-100 null",
            "r null",
            "main-2-text-40 40",
            "main-3-text-50 50",
        ]
    );
    assert_eq!(converter.tally().events.values().sum::<u64>(), 8);
}

/// Same calls of one turn are one piece of evidence: where nothing names replies, calls that were answered in between are no such.
#[test]
fn calls_that_were_answered_in_between_are_of_different_turns_in_every_version() {
    let call = |at: u32| json!({ "type": "function_call", "name": "shell", "call_id": format!("c{at}"), "arguments": "{\"command\":\"make\"}" });
    let output = |at: u32| json!({ "type": "function_call_output", "call_id": format!("c{at}"), "output": "no rule" });
    let item = |payload: Value| json!({ "timestamp": "2026-01-05T09:00:00Z", "type": "response_item", "payload": payload });
    let tokens = json!({ "type": "event_msg", "payload": { "type": "token_count", "info": { "last_token_usage": { "input_tokens": 1 } } } });
    let codex = [
        item(call(1)),
        item(call(2)),
        item(output(1)),
        item(output(2)),
        item(call(3)),
        tokens.clone(),
        item(output(3)),
        item(call(4)),
        tokens,
        item(call(5)),
    ];
    let action = |id: u32| json!({ "id": id, "timestamp": "2026-01-05T09:00:00", "source": "agent", "action": "run", "args": { "command": "make" } });
    let observation = |id: u32| {
        json!({ "id": id, "timestamp": "2026-01-05T09:00:01", "source": "agent", "observation": "run",
        "cause": id - 1, "content": "no rule" })
    };
    let openhands = [action(1), observation(2), action(3), observation(4), action(5)];
    for (format, pieces, expected) in
        [(format("Codex"), &codex[..], vec![1, 1, 2, 3, 4]), (format("OpenHands"), &openhands[..], vec![1, 2, 3])]
    {
        let (mut made, mut converter) = (Vec::new(), Converter::new(format, "name"));
        for piece in pieces {
            converter.piece(piece.to_string().as_bytes(), &mut made).unwrap();
        }
        converter.finish(&mut made).unwrap();
        let events = made.iter().map(|made| serde_json::from_str::<Value>(&made.json).unwrap());
        let turns: Vec<u64> =
            events.filter(|event| event["kind"] == "tool_call").map(|event| event["turn"].as_u64().unwrap()).collect();
        assert_eq!(turns, expected, "{}", format.as_str());
    }
}

fn line(session: &str, second: u32) -> String {
    format!(
        "{}\n",
        json!({ "type": "user", "sessionId": session, "uuid": format!("{session}-{second}"), "message": { "role": "user", "content": "x" },
            "timestamp": format!("2026-03-02T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60) })
    )
}

#[test]
fn logs_of_a_directory_are_read_side_by_side_in_the_order_of_their_times() {
    let dir = TempDir::new();
    // More than may be open at once; most are over before the next begins, some go on all the time.
    for number in 0..300_u32 {
        let folder = dir.path().join(format!("project-{}", number % 7));
        fs::create_dir_all(&folder).unwrap();
        let seconds = if number % 10 == 0 {
            [number, number + 5_000, number + 50_000]
        } else {
            [10 * number, 10 * number + 3, 10 * number + 6]
        };
        let text: String = seconds.iter().map(|second| line(&format!("s{number}"), *second)).collect();
        fs::write(folder.join(format!("{number}-log.jsonl")), text).unwrap();
    }
    fs::write(dir.path().join("notes.json"), "{\"a\": 1}").unwrap();
    fs::write(dir.path().join("readme.txt"), "no log").unwrap();
    let (got, replay) = read(&[dir.path().to_owned()], false);
    assert_eq!(got.len(), 900);
    assert!(got.is_sorted_by_key(|(time, _)| *time), "out of order");
    let (logs, skipped) = (replay.agent_logs(), replay.skipped().1);
    assert_eq!((logs[&format("Claude Code")].logs, skipped, replay.refused().1), (300, 1, 0));
    assert_eq!(read(&[dir.path().to_owned()], false).0, got, "another reading gives another order");
}

#[test]
fn events_and_logs_may_be_mixed_and_packed() {
    let dir = TempDir::new();
    let native = dir.path().join("events.ndjson");
    fs::write(&native, "{\"id\":\"1\",\"kind\":\"tool\",\"session_id\":\"n\",\"tool\":\"t\"}\n").unwrap();
    let packed = dir.path().join("log.jsonl.zst");
    fs::write(&packed, zstd::encode_all(line("s", 1).as_bytes(), 1).unwrap()).unwrap();
    let (got, replay) = read(&[packed, native, golden("codex")], false);
    assert_eq!(got[0].1["session_id"], "n", "events as they are come first");
    assert_eq!(replay.agent_logs().keys().copied().collect::<Vec<_>>(), [format("Claude Code"), format("Codex")]);
    assert!(got.len() > 3);
}

#[test]
fn a_piece_that_is_too_long_is_refused_and_one_that_fits_is_shortened() {
    let mut made = Vec::new();
    let mut converter = Converter::new(format("Claude Code"), "name");
    let of = |length: usize| {
        json!({ "type": "user", "uuid": "u", "message": { "content": [
            { "type": "tool_result", "tool_use_id": "t", "content": "x".repeat(length), "is_error": false }] } })
        .to_string()
    };
    assert!(converter.piece(of(PIECE_BYTES_MAX).as_bytes(), &mut made).is_err() && made.is_empty());
    converter.piece(of(PIECE_BYTES_MAX / 2).as_bytes(), &mut made).unwrap();
    assert!(made[0].json.len() < 64 * 1024 && made[0].session_id == "name");
    decode(Some(made[0].json.as_bytes()), &meta()).unwrap();
}

proptest::proptest! {
    #[test]
    fn any_piece_gives_events_or_a_reason(text in hostile(), number in 0..3_usize) {
        let format = [format("Claude Code"), format("Codex"), format("OpenHands")][number];
        let mut made = Vec::new();
        let _ = Converter::new(format, "name").piece(text.as_bytes(), &mut made);
            for made in made {
            proptest::prop_assert!(decode(Some(made.json.as_bytes()), &meta()).is_ok(), "{}", made.json);
        }
    }
}

/// Recorded logs, broken in small ways: nothing panics, and what is made is read by the engine.
#[test]
fn a_broken_recording_gives_events_or_a_reason() {
    let logs = [
        (format("Claude Code"), "claude-code/log.jsonl"),
        (format("Cline"), "cline/1767603600000/api_conversation_history.json"),
        (format("Cline"), "cline-older/1741234567890/api_conversation_history.json"),
        (format("Cline"), "cline-session/1784094124598_rruoq/1784094124598_rruoq.messages.json"),
        (format("Codex"), "codex/log.jsonl"),
        (format("goose"), "goose/session.json"),
        (format("goose"), "goose-older/20250801_100315.jsonl"),
        (format("Gemini CLI"), "gemini/log.jsonl"),
        (format("Gemini CLI"), "gemini-older/log.json"),
        (format("opencode"), "opencode/log.json"),
        (format("Qwen Code"), "qwen/log.jsonl"),
    ];
    let mut random = Random(11);
    for (format, name) in logs {
        let text = fs::read_to_string(golden(name)).unwrap();
        let is_document = Path::new(name).extension().is_some_and(|is| is == "json");
        let elements: Vec<Box<serde_json::value::RawValue>> = serde_json::from_str(&text).unwrap_or_default();
        let pieces: Vec<&str> = match is_document {
            true if elements.is_empty() => vec![&text],
            true => elements.iter().map(|element| element.get()).collect(),
            false => text.lines().collect(),
        };
        let (mut made, mut refused) = (Vec::new(), 0);
        for round in 0..2_000 {
            // A new log now and then: what one remembers is another input.
            let mut converter = Converter::new(format, "name");
            for piece in pieces.iter().take(1 + round % pieces.len()) {
                let piece = broken_of(piece.as_bytes(), &mut random);
                refused += u32::from(converter.piece(&piece, &mut made).is_err());
            }
            for made in made.drain(..) {
                assert!(decode(Some(made.json.as_bytes()), &meta()).is_ok(), "{name}: {}", made.json);
            }
        }
        assert!(refused > 500, "{name}: {refused} refused");
    }
}

/// Objects of the fields that the formats have, with values of any type.
fn hostile() -> impl proptest::strategy::Strategy<Value = String> {
    use proptest::prelude::*;
    const NAMES: [&str; 34] = [
        "type",
        "message",
        "content",
        "uuid",
        "sessionId",
        "payload",
        "id",
        "name",
        "input",
        "tool_use_id",
        "call_id",
        "output",
        "action",
        "args",
        "observation",
        "cause",
        "source",
        "kind",
        "tool_name",
        "tool_call_id",
        "llm_message",
        "timestamp",
        "role",
        "usage",
        "history",
        "extras",
        "metadata",
        "exit_code",
        "info",
        "last_token_usage",
        "arguments",
        "tool_call_metadata",
        "model_response",
        "text",
    ];
    const WORDS: [&str; 22] = [
        "user",
        "assistant",
        "tool_use",
        "tool_result",
        "text",
        "response_item",
        "event_msg",
        "function_call",
        "function_call_output",
        "token_count",
        "session_meta",
        "message",
        "run",
        "agent",
        "finish",
        "ActionEvent",
        "ObservationEvent",
        "MessageEvent",
        "x",
        "2026-03-02T10:00:00Z",
        "{\"a\":1}",
        "",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        proptest::sample::select(&WORDS[..]).prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map(proptest::sample::select(&NAMES[..]), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())),
        ]
    });
    proptest::collection::btree_map(proptest::sample::select(&NAMES[..]), value, 0..9)
        .prop_map(|fields| Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()).to_string())
}

fn codex(payload: Value) -> String {
    format!("{}\n", json!({ "timestamp": "2026-01-05T09:00:00Z", "type": "response_item", "payload": payload }))
}

fn converted(format: Format, lines: &str) -> Vec<Value> {
    let (mut made, mut converter) = (Vec::new(), Converter::new(format, "name"));
    for line in lines.lines() {
        converter.piece(line.as_bytes(), &mut made).unwrap();
    }
    converter.finish(&mut made).unwrap();
    made.iter().map(|made| serde_json::from_str(&made.json).unwrap()).collect()
}

#[test]
fn a_log_whose_first_lines_are_long_is_told_all_the_same() {
    let dir = TempDir::new();
    let long = "x".repeat(700_000);
    let picture = json!({ "type": "user", "sessionId": "s", "uuid": "u", "timestamp": "2026-03-02T00:00:00Z",
        "message": { "role": "user", "content": long } });
    fs::write(dir.path().join("log.jsonl"), format!("{picture}\n{}", line("s", 1))).unwrap();
    fs::write(dir.path().join("none.json"), format!("{{\"a\":\"{long}\"}}")).unwrap();
    let (got, replay) = read(&[dir.path().to_owned()], false);
    let (logs, (names, skipped)) = (replay.agent_logs(), replay.skipped());
    assert_eq!((got.len(), logs[&format("Claude Code")].logs, skipped), (2, 1, 1));
    assert!(names[0].ends_with("none.json"), "{names:?}");
}

#[test]
fn notices_of_the_program_are_nobodys_words() {
    let of_claude = |text: &str| {
        json!({ "type": "user", "sessionId": "s", "uuid": "u", "message": { "role": "user", "content": text } }).to_string()
    };
    let of_codex =
        |text: &str| codex(json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": text }] }));
    for notice in ["<task-notification>done", "<bash-stdout>x</bash-stdout>", "<bash-stderr>", "<user-prompt-submit-hook>y"] {
        assert_eq!(converted(format("Claude Code"), &of_claude(notice)), [Value::Null; 0], "{notice}");
    }
    for notice in ["<subagent_notification>{}", "<user_shell_command>ls", "<codex_internal_context a>", "<recommended_plugins>"] {
        assert_eq!(converted(format("Codex"), &of_codex(notice)), [Value::Null; 0], "{notice}");
    }
    assert_eq!(converted(format("Claude Code"), &of_claude("go on")).len(), 1);
    assert_eq!(converted(format("Codex"), &of_codex("go on")).len(), 1);
}

#[test]
fn a_forked_rollout_keeps_its_own_name_and_a_second_one_behind_it_gets_its_own() {
    let meta = |id: &str| format!("{}\n", json!({ "type": "session_meta", "payload": { "id": id } }));
    let call = |id: &str| codex(json!({ "type": "function_call", "name": "shell", "call_id": id, "arguments": "{}" }));
    let log = [meta("own"), meta("parent"), call("c1"), meta("next"), call("c2")].concat();
    let events = converted(format("Codex"), &log);
    let sessions: Vec<&str> = events.iter().map(|event| event["session_id"].as_str().unwrap()).collect();
    assert_eq!(sessions, ["own", "next"]);
    // Older ones have a line without a type.
    let older = |id: &str| format!("{}\n", json!({ "id": id, "timestamp": "2026-01-05T09:00:00Z", "instructions": null }));
    let item = |id: &str| format!("{}\n", json!({ "type": "function_call", "name": "shell", "call_id": id, "arguments": "{}" }));
    let events = converted(format("Codex"), &[older("a"), item("c1"), older("b"), item("c2")].concat());
    assert_eq!(events.iter().map(|event| event["session_id"].as_str().unwrap()).collect::<Vec<_>>(), ["a", "b"]);
    // An event of another kind in the middle is no header.
    let (mut made, mut converter) = (Vec::new(), Converter::new(format("Codex"), "name"));
    converter.piece(call("c1").trim().as_bytes(), &mut made).unwrap();
    converter.piece(br#"{"id":"e1","kind":"tool","session_id":"n","tool":"t"}"#, &mut made).unwrap_err();
}

#[test]
fn what_a_fork_copied_from_its_parent_is_left_out_and_its_own_counts() {
    let line = |time: &str, kind: &str, payload: Value| {
        format!("{}\n", json!({ "timestamp": format!("2026-01-05T09:00:{time}Z"), "type": kind, "payload": payload }))
    };
    let call = |time: &str, id: &str| {
        line(time, "response_item", json!({ "type": "function_call", "name": "shell", "call_id": id, "arguments": "{}" }))
    };
    let spent = |time: &str, total: u64| {
        let tokens = json!({ "last_token_usage": { "input_tokens": 5 }, "total_token_usage": { "total_tokens": total } });
        line(time, "event_msg", json!({ "type": "token_count", "info": tokens }))
    };
    let own = [call("03.100", "c3"), spent("04", 20), call("05", "c4")];
    let copies = [call("00.900", "c1"), spent("00.900", 10), call("01.100", "c2")].concat();
    // The newer ones name their parent; the older ones have its line behind their own.
    let newer = line("00", "session_meta", json!({ "id": "own", "forked_from_id": "parent" }));
    let older = line("00", "session_meta", json!({ "id": "own" })) + &line("00.010", "session_meta", json!({ "id": "parent" }));
    for head in [newer, older] {
        let log = [head, copies.clone(), own.concat()].concat();
        let (mut made, mut converter) = (Vec::new(), Converter::new(format("Codex"), "name"));
        log.lines().for_each(|line| converter.piece(line.as_bytes(), &mut made).unwrap());
        let events: Vec<Value> = made.iter().map(|made| serde_json::from_str(&made.json).unwrap()).collect();
        let calls: Vec<&str> = events.iter().map(|event| event["call_id"].as_str().unwrap()).collect();
        assert_eq!(calls, ["c3", "c4"]);
        assert!(events.iter().all(|event| event["session_id"] == "own"), "{events:?}");
        assert_eq!((&events[0]["usage"], &events[1]["usage"]["input_tokens"]), (&Value::Null, &json!(5)));
        assert_eq!(converter.tally().ignored["forked"], 2);
    }
    // A session of its own begins at once.
    let log = line("00", "session_meta", json!({ "id": "own" })) + &copies;
    assert_eq!(converted(format("Codex"), &log).len(), 2);
}

#[test]
fn equal_looks_at_a_process_that_still_runs_have_equal_results() {
    let look = |chunk: &str, seconds: &str| {
        let said =
            format!("Chunk ID: {chunk}\nWall time: {seconds} seconds\nProcess running with session ID 7\nOutput:\nwaiting\n");
        codex(json!({ "type": "function_call_output", "call_id": "c", "output": said }))
    };
    let events = converted(format("Codex"), &[look("3fa2b1", "1.0024"), look("99aa00", "5.1")].concat());
    assert_eq!(events[0]["result"], "Process running with session ID 7\nwaiting\n");
    assert_eq!(events[0]["result"], events[1]["result"]);
}

#[test]
fn runs_of_one_task_in_two_directories_are_two_sessions() {
    let dir = TempDir::new();
    for run in ["run1", "run2"] {
        fs::create_dir_all(dir.path().join(run)).unwrap();
        fs::copy(golden("openhands/log.json"), dir.path().join(run).join("django-1.2.json")).unwrap();
    }
    let (got, _) = read(&[dir.path().to_owned()], false);
    let sessions: std::collections::BTreeSet<&str> = got.iter().map(|(_, event)| event["session_id"].as_str().unwrap()).collect();
    assert_eq!(sessions.into_iter().collect::<Vec<_>>(), ["django-1.2", "run2/django-1.2"]);
}

#[test]
fn a_damaged_first_event_costs_itself_and_not_the_conversation() {
    let whole = read(&[golden("openhands-events/conv-7/events")], false).0.len();
    let dir = TempDir::new();
    let mut files: Vec<PathBuf> =
        fs::read_dir(golden("openhands-events/conv-7/events")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.is_file());
    files.sort();
    for file in &files {
        fs::copy(file, dir.path().join(file.file_name().unwrap())).unwrap();
    }
    let first = dir.path().join(files[0].file_name().unwrap());
    let text = fs::read(&first).unwrap();
    fs::write(&first, &text[..text.len() / 2]).unwrap();
    let (got, replay) = read(&[dir.path().to_owned()], false);
    assert!(whole > 2 && got.len() + 1 >= whole, "{} of {whole}", got.len());
    assert_eq!((replay.refused().1, replay.skipped().1), (1, 0));
}

fn claude(kind: &str, uuid: &str, fields: Value) -> String {
    let mut line = json!({ "type": kind, "sessionId": "s", "uuid": uuid });
    if let (Value::Object(line), Value::Object(fields)) = (&mut line, fields) {
        line.extend(fields);
    }
    format!("{line}\n")
}

#[test]
fn answers_saved_to_a_file_of_their_own_are_equal_where_they_begin_equally() {
    let answer = |uuid: &str, said: &str| {
        claude(
            "user",
            uuid,
            json!({ "message": { "content": [{ "type": "tool_result", "tool_use_id": uuid, "content": said }] } }),
        )
    };
    let saved = |size: &str, file: &str| {
        let place = format!("/home/dev/.claude/projects/shop/tool-results/{file}.txt");
        format!(
            "<persisted-output>\nOutput too large ({size}KB). Full output saved to: {place}\n\nPreview (first 2KB):\na.ts:12: unused\n...\n</persisted-output>"
        )
    };
    let told = "Full output saved to: /tmp/a.txt\ndone";
    let quoted = "<persisted-output>\nOutput too large.\n\nFull output saved to: /tmp/a.txt\ndone";
    let log = [
        answer("u1", &saved("54.7", "bj7wqc2ln")),
        answer("u2", &saved("54.7", "k3mzzp0q")),
        answer("u3", &saved("91.2", "x9aaqr1t")),
        answer("u4", told),
        answer("u5", quoted),
    ]
    .concat();
    let events = converted(format("Claude Code"), &log);
    let without = "<persisted-output>\nOutput too large (54.7KB). Full output saved to:\n\nPreview (first 2KB):\na.ts:12: unused\n...\n</persisted-output>";
    assert_eq!((&events[0]["result"], &events[0]["truncated"]), (&json!(without), &json!(true)));
    assert_eq!((&events[1]["result"], &events[1]["truncated"]), (&json!(without), &json!(true)));
    assert_ne!(events[2]["result"], events[0]["result"], "another size is another answer");
    assert_eq!((&events[3]["result"], &events[3]["truncated"]), (&json!(told), &Value::Null));
    assert_eq!((&events[4]["result"], &events[4]["truncated"]), (&json!(quoted), &Value::Null));
}

#[test]
fn a_prompt_typed_while_the_agent_works_is_a_persons_and_what_the_program_queues_is_not() {
    let queued =
        |attachment: Value| converted(format("Claude Code"), &claude("attachment", "u", json!({ "attachment": attachment })));
    let blocks = json!([{ "type": "text", "text": "check again" }, { "type": "image", "source": {} }]);
    for typed in [
        json!({ "type": "queued_command", "prompt": "check again", "commandMode": "prompt", "origin": { "kind": "human" } }),
        json!({ "type": "queued_command", "prompt": "check again" }),
        json!({ "type": "queued_command", "prompt": blocks, "commandMode": "prompt" }),
    ] {
        let events = queued(typed);
        assert_eq!(events.len(), 1);
        assert_eq!((&events[0]["kind"], &events[0]["role"]), (&json!("message"), &json!("user")));
        assert_eq!((&events[0]["text"], &events[0]["id"]), (&json!("check again"), &json!("u")));
    }
    for other in [
        json!({ "type": "queued_command", "prompt": "a task is done", "commandMode": "task-notification" }),
        json!({ "type": "queued_command", "prompt": "a task is done", "commandMode": "prompt", "origin": { "kind": "channel" } }),
        json!({ "type": "queued_command", "prompt": "a hook says", "isMeta": true }),
        json!({ "type": "queued_command", "prompt": "<task-notification>done" }),
        json!({ "type": "queued_command", "prompt": 7 }),
        json!({ "type": "todo_reminder", "prompt": "check again" }),
        json!("check again"),
    ] {
        assert_eq!(queued(other.clone()), [Value::Null; 0], "{other}");
    }
}

#[test]
fn a_total_that_is_told_again_counts_no_tokens_and_ends_no_reply() {
    let call = |id: &str| codex(json!({ "type": "function_call", "name": "shell", "call_id": id, "arguments": "{}" }));
    let output = |id: &str| codex(json!({ "type": "function_call_output", "call_id": id, "output": "no rule" }));
    let tokens = |total: u64| {
        let info = json!({ "total_token_usage": { "input_tokens": total, "total_tokens": total }, "last_token_usage": { "input_tokens": 10 } });
        format!("{}\n", json!({ "type": "event_msg", "payload": { "type": "token_count", "info": info } }))
    };
    let log = [
        call("c1"),
        tokens(10),
        output("c1"),
        tokens(10),
        call("c2"),
        tokens(10),
        call("c3"),
        tokens(20),
        output("c2"),
        output("c3"),
    ]
    .concat();
    let told: Vec<(u64, Option<u64>)> = converted(format("Codex"), &log)
        .iter()
        .map(|event| (event["turn"].as_u64().unwrap(), event["usage"]["input_tokens"].as_u64()))
        .collect();
    assert_eq!(told, [(1, None), (1, Some(10)), (2, None), (2, None), (2, Some(10)), (2, None)]);
}

#[test]
fn how_a_call_went_is_told_by_the_head_of_its_answer_and_not_by_what_the_tool_printed() {
    let exec = "Chunk ID: a\nWall time: 0.1 seconds\n";
    for (said, outcome, exit_code, result) in [
        (
            "Wall time: 0.1 seconds\nOutput:\njob 7\nExit code: 2\nretrying".to_owned(),
            "ok",
            None,
            "job 7\nExit code: 2\nretrying",
        ),
        (format!("{exec}Process exited with code 0\nOutput:\n// rejected by user"), "ok", None, "// rejected by user"),
        (format!("{exec}Process exited with code 3\nOutput:\nExit code: 0"), "error", Some(3), "Exit code: 0"),
        (format!("{exec}Process exited with code 3\nOutput:"), "error", Some(3), ""),
        ("page 3\nExit code: 1 means usage".to_owned(), "ok", None, "page 3\nExit code: 1 means usage"),
        ("log\nExit code: 1\nOutput:\nx".to_owned(), "ok", None, "log\nExit code: 1\nOutput:\nx"),
        ("Exit code: 1\nWall time: 2 seconds\nOutput:\nno rule".to_owned(), "error", Some(1), "no rule"),
        ("Exit code: 2\nno rule".to_owned(), "error", Some(2), "Exit code: 2\nno rule"),
        ("exec command rejected by user".to_owned(), "denied", None, "exec command rejected by user"),
    ] {
        let events =
            converted(format("Codex"), &codex(json!({ "type": "function_call_output", "call_id": "c", "output": said })));
        let event = &events[0];
        assert_eq!((event["outcome"].as_str(), event["result"].as_str()), (Some(outcome), Some(result)), "{said}");
        assert_eq!(event["error"]["exit_code"].as_i64(), exit_code, "{said}");
    }
}

#[test]
fn lines_copied_from_the_session_that_was_forked_are_counted_and_left_out() {
    let from = json!({ "sessionId": "parent", "messageUuid": "m" });
    let log = [
        claude("user", "u1", json!({ "forkedFrom": from, "message": { "content": "watch the deploy" } })),
        claude(
            "assistant",
            "u2",
            json!({ "forkedFrom": from, "message": { "id": "m1", "content": "done", "usage": { "input_tokens": 9 } } }),
        ),
        claude("user", "u3", json!({ "forkedFrom": null, "message": { "content": "now write the notes" } })),
    ];
    let (mut made, mut converter) = (Vec::new(), Converter::new(format("Claude Code"), "name"));
    for line in &log {
        converter.piece(line.as_bytes(), &mut made).unwrap();
    }
    assert_eq!(made.len(), 1);
    assert!(made[0].json.contains("now write the notes"));
    assert_eq!(converter.tally().ignored["forked"], 2);
}
