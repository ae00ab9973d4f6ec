//! What is said to a model is true: each message's claims, how many, of what, since when and without what, against the events of its session.
//!
//! Over recorded sessions, where the sets lie in `../shared/data`: one session in eight, `LOOPWARDEN_MESSAGES_ALL` for all. And over sessions
//! made at random, in which calls are asked and answered apart, refused, let through in spite of a block, and made with words.

mod claims;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use loopwarden::exit_code;
use loopwarden::identity::hash_text;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::{Scratch, expect, stdout};
use crate::random::Random;

/// One recorded session in so many.
const SAMPLED: u64 = 8;
/// Sessions made at random.
const MADE: u64 = 1_500;
/// The policy `default` with what it leaves off, and a tool that does not count.
const POLICY: &str = "profile = \"messages\"\nbase = \"default\"\n\
    [[tool]]\nnames = [\"log\"]\nclass = \"exempt\"\n\
    [detectors.own_words]\nmode = \"nudge\"\n\
    [detectors.budget]\nmode = \"block\"\ncalls = 15\ncalls_block = 40\n";

const ANSWERS: [&str; 4] = [
    "error: no rule to make target for this part of the tree",
    "nothing was found in any of the places that were searched",
    "the file has forty lines and the function begins at line seven of them",
    "ok",
];
const TEXTS: [&str; 3] =
    ["I will look at the next part of the task now", "Status: all is going well so far", "Done with this step of it"];

#[derive(Deserialize)]
struct Named {
    session_id: String,
}

/// Every untrue claim about these events, which are replayed under a policy; and how many messages there were.
fn untrue(events: &[String], policy: &str) -> (usize, Vec<String>) {
    let scratch = Scratch::new(&format!("messages-{}", hash_text(policy)));
    let (file, rules) = (scratch.0.join("events.ndjson"), scratch.0.join("policy.toml"));
    fs::write(&file, events.join("\n")).unwrap();
    fs::write(&rules, policy).unwrap();
    let paths = [file.to_str().unwrap(), "--policy", rules.to_str().unwrap(), "--output", "ndjson"];
    let told = stdout(&expect(&[&["replay", "--quiet"][..], &paths[..]].concat(), exit_code::DONE));
    let commands: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let spoken_to: Vec<&str> = commands.iter().filter_map(|command| command["session_id"].as_str()).collect();
    let mut sessions: BTreeMap<String, Vec<Value>> = spoken_to.iter().map(|name| ((*name).to_owned(), Vec::new())).collect();
    for line in events {
        let Named { session_id } = serde_json::from_str(line).unwrap();
        if let Some(session) = sessions.get_mut(&session_id) {
            session.push(serde_json::from_str(line).unwrap());
        }
    }
    let (mut nudges, mut found, mut messages) = (BTreeMap::<String, u64>::new(), Vec::new(), 0);
    for command in commands.iter().filter(|command| command["message"].is_string()) {
        messages += 1;
        let before = nudges.entry(command["episode"].to_string()).or_default();
        let none = Vec::new();
        let events = command["session_id"].as_str().and_then(|name| sessions.get(name)).unwrap_or(&none);
        if let Err(why) = claims::check(command, events, *before) {
            found.push(format!("{}: {why}: {}", command["trigger"]["event_id"], command["message"]));
        }
        *before += u64::from(command["action"] == "nudge");
    }
    (messages, found)
}

#[test]
fn what_is_said_of_recorded_sessions_is_true() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    let is_all = std::env::var_os("LOOPWARDEN_MESSAGES_ALL").is_some();
    for set in ["", "2", "3", "4", "5"] {
        let path = folder.join(format!("events{set}.ndjson.zst"));
        let Ok(packed) = fs::read(&path) else {
            println!("skipped: there are no recorded sessions at {}", path.display());
            continue;
        };
        let text = String::from_utf8(zstd::decode_all(&*packed).unwrap()).unwrap();
        let is_sampled = |line: &&str| {
            let Named { session_id } = serde_json::from_str(line).unwrap();
            is_all || hash_text(&session_id).hash64().0.is_multiple_of(SAMPLED)
        };
        let events: Vec<String> = text.lines().filter(is_sampled).map(str::to_owned).collect();
        let (messages, found) = untrue(&events, "profile = \"messages\"\nbase = \"default\"\n");
        assert!(messages > 0 && found.is_empty(), "set {set}: {} of {messages}\n{}", found.len(), found.join("\n"));
    }
}

#[test]
fn what_is_said_of_any_session_is_true() {
    let events: Vec<String> = (0..MADE).flat_map(made).map(|event| event.to_string()).collect();
    let (messages, found) = untrue(&events, POLICY);
    assert!(messages > 3_000 && found.is_empty(), "{} of {messages}\n{}", found.len(), found.join("\n"));
}

/// A session that may go round in circles: its calls are asked and answered in one event or in two, in turns or not.
fn made(seed: u64) -> Vec<Value> {
    let mut random = Random(seed);
    let dice = &mut random;
    let tools = &["Bash", "search", "read_file", "TodoWrite", "log"][..2 + dice.below(4)];
    let args = |dice: &mut Random| match dice.below(3) {
        0 => json!({ "path": format!("src/{}.rs", dice.below(3)), "offset": dice.below(4) * 10, "limit": 50 }),
        _ => json!({ "command": format!("make part{}", dice.below(4)) }),
    };
    let (talks, is_split, has_turns) = (dice.below(3), dice.below(2) == 0, dice.below(2) == 0);
    let (session, mut time_ms, mut turn) = (format!("s{seed}"), 1_764_374_400_000 + seed as i64 * 1_000, 0);
    let mut events: Vec<Value> = Vec::new();
    let mut put = |dice: &mut Random, turn: u64, mut event: Value| {
        time_ms += [100, 900, 3_000, 5_000, 20_000][dice.below(5)];
        let fields = event.as_object_mut().unwrap();
        fields.extend([("session_id".to_owned(), json!(session)), ("time".to_owned(), json!(time_ms))]);
        fields.insert("id".to_owned(), json!(format!("{session}-{}", events.len())));
        if has_turns && fields["kind"] != "tool_result" && fields.get("role") != Some(&json!("user")) {
            fields.insert("turn".to_owned(), json!(turn));
        }
        events.push(event);
    };
    let mut current = (dice.pick(tools), args(dice), dice.pick(&ANSWERS));
    for step in 0..10 + dice.below(50) {
        turn += u64::from(dice.below(3) > 0);
        if dice.below(6) < talks {
            for _ in 0..=dice.below(2) {
                let text = dice.pick(&TEXTS);
                put(dice, turn, json!({ "kind": "message", "role": "assistant", "text": text }));
            }
            continue;
        }
        if dice.below(30) == 0 {
            let text = if dice.below(2) == 0 { "Continue.".to_owned() } else { format!("now do task {step} in another way") };
            put(dice, turn, json!({ "kind": "message", "role": "user", "text": text }));
            continue;
        }
        if dice.below(4) == 0 {
            current = (dice.pick(tools), args(dice), dice.pick(&ANSWERS));
        }
        let (tool, mut args, answer) = current.clone();
        if dice.below(5) == 0 {
            args["command"] = json!(format!("make part{} again", dice.below(9)));
        }
        let answer = match dice.below(10) {
            0 => format!("something else came back with many new words of {} and {}", dice.next(), dice.next()),
            _ => answer.to_owned(),
        };
        let outcome = if answer.starts_with("error") || dice.below(10) == 0 { "error" } else { "ok" };
        if !is_split {
            put(dice, turn, json!({ "kind": "tool", "tool": tool, "args": args, "result": answer, "outcome": outcome }));
            continue;
        }
        let call = format!("c{step}");
        put(dice, turn, json!({ "kind": "tool_call", "tool": tool, "args": args, "call_id": call }));
        if dice.below(10) > 0 {
            let outcome = if dice.below(7) == 0 { "denied" } else { outcome };
            put(dice, turn, json!({ "kind": "tool_result", "call_id": call, "result": answer, "outcome": outcome }));
        }
    }
    events
}
