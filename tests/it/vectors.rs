//! Vectors of what a client computes by itself: canonical arguments, identities, times, and what commands mean for a call.
//!
//! One seeded generator makes them, and the guard is held to them here. They are written to `tmp/client-vectors.ndjson` in the target
//! directory, where the tests of the Python and of the TypeScript client read them. Each line says in `is` what it is:
//!
//! - `text`: canonical `text` of `args`, and of the same arguments in other `spellings`.
//! - `print`: the `fingerprint` of a call as an `identity` says; null where nobody can make one.
//! - `units`: the canonical `text` of a text that is written in UTF-16 code units, and the same in a `list`. Each half of a surrogate pair
//!   that stands alone is U+FFFD.
//! - `time`: what a text of RFC 3339 is in Unix milliseconds; null where it is none.
//! - `story`: commands and questions in order, with the answer to each question.
//! - `binding`: the same, of a stop, a budget, a tree or a release, and of an agent at each place: whom they bind.
//! - `stop`: the `subject` of the row of a stop, and what the page makes of it: whom it shows (`whom`), and the request that releases (`query`).
//!
//! Arguments are JSON source text, as an event has them.

pub(crate) mod binding;
mod story;
mod value;

use std::{collections::BTreeMap, fs, path::Path};

use loopwarden::event::{Content, EventTime};
use loopwarden::identity::canonical_text;
use serde_json::{Value, json};

use crate::random::Random;
use crate::vectors::value::{Json, NAMES, TOOLS, deep_texts, odd_texts, written};

const SEED: u64 = 31;
const TEXTS: usize = 2_500;
const PRINTS: usize = 2_500;
const UNITS: usize = 300;
const TIMES: usize = 500;
const STORIES: usize = 200;
/// Where a fingerprint is 32 hex digits.
const PRINT_DIGITS: usize = 32;

fn text(random: &mut Random, number: usize) -> Value {
    let fixed: Vec<String> = deep_texts().into_iter().chain(odd_texts()).map(|text| json!(text).to_string()).collect();
    if let Some(args) = fixed.get(number) {
        return json!({ "is": "text", "args": args, "text": canonical_text(&Content::Raw(args)), "spellings": [] });
    }
    let value = value::arguments(random);
    let args = written(&value, random);
    let text = canonical_text(&Content::Raw(&args));
    // A string that stands alone is a text, which holds JSON or not: its spellings are those of the text.
    let spellings: Vec<String> = match &value {
        Json::Text(_) => vec![written(&value, random)],
        // As another spelling, and as a text that holds one.
        _ => vec![written(&value, random), json!(format!(" {}\n", written(&value, random))).to_string()],
    };
    for spelling in &spellings {
        assert_eq!(canonical_text(&Content::Raw(spelling)), text, "{args} as {spelling}");
    }
    json!({ "is": "text", "args": args, "text": text, "spellings": spellings })
}

/// Some of the names that arguments have.
fn names(random: &mut Random) -> Vec<&'static str> {
    (0..random.below(4)).map(|_| NAMES[random.below(NAMES.len())]).collect()
}

/// How a fingerprint is made; null stands for no recipe.
fn identity(random: &mut Random) -> Value {
    match random.below(12) {
        0 => Value::Null,
        1 => json!({}),
        2 => json!({ "kind": null, "args": names(random) }),
        3 => json!({ "kind": "opaque" }),
        4 => json!({ "kind": "smell", "args": names(random) }),
        5 | 6 => json!({ "kind": "args", "args": names(random), "args_ignored": names(random) }),
        7 => json!({ "kind": "call" }),
        8 => json!({ "kind": "call", "args": names(random) }),
        9 => json!({ "kind": "call", "args_ignored": names(random) }),
        _ => json!({ "kind": "coarse", "args": names(random), "args_ignored": names(random) }),
    }
}

/// The fingerprint as the page `workers` describes it, made without the code of the guard.
fn fingerprint(tool: &str, args: &Json, identity: &Value) -> Option<String> {
    let listed = |field: &str, name: &str| identity[field].as_array().is_some_and(|list| list.iter().any(|known| known == name));
    let has = |field: &str| identity[field].as_array().is_some_and(|list| !list.is_empty());
    let kind = identity["kind"].as_str().unwrap_or("call");
    let chosen = match args {
        Json::Object(members) => {
            let is_chosen = |name: &str| match kind {
                "coarse" => !members.iter().any(|(name, _)| listed("args", name)) || listed("args", name),
                _ => (!has("args") || listed("args", name)) && !listed("args_ignored", name),
            };
            Json::Object(members.iter().filter(|(name, _)| is_chosen(name)).cloned().collect())
        }
        other => other.clone(),
    };
    let text = canonical_text(&Content::Raw(&written(&chosen, &mut Random(0))));
    let text = match kind {
        "call" => format!("{tool}\n{text}"),
        "coarse" => format!("{tool}:{text}"),
        "args" => text,
        _ => return None,
    };
    Some(loopwarden::identity::hash_text(&text).to_string()[..PRINT_DIGITS].to_owned())
}

fn print(random: &mut Random) -> Value {
    let tool = *random.pick(&TOOLS.each_ref());
    // Mostly what tools have: an object.
    let args = if random.below(8) == 0 { value::arguments(random) } else { value::object(random, 0) };
    let identity = identity(random);
    let fingerprint = fingerprint(tool, &args, &identity);
    let source = written(&args, random);
    let told = fingerprint.clone().unwrap_or_else(|| "0".repeat(PRINT_DIGITS));
    let is_refused = story::is_refused(tool, &source, &told, &identity);
    assert_eq!(is_refused, fingerprint.is_some(), "the guard and {tool} {source} by {identity}");
    let other = if told.starts_with('0') { told.replacen('0', "1", 1) } else { format!("0{}", &told[1..]) };
    assert!(!story::is_refused(tool, &source, &other, &identity), "the guard and another fingerprint than {source}");
    json!({ "is": "print", "tool": tool, "args": source, "identity": identity, "fingerprint": fingerprint })
}

fn units(random: &mut Random) -> Value {
    let kinds: [u16; 8] = [0xD800, 0xDBFF, 0xDC00, 0xDFFF, 0xD83D, 0xDE00, 0x41, 0xFFFD];
    let units: Vec<u16> = (0..random.below(6)).map(|_| kinds[random.below(kinds.len())]).collect();
    let text = String::from_utf16_lossy(&units);
    let list = canonical_text(&Content::Raw(&json!([text]).to_string()));
    json!({ "is": "units", "units": units, "text": text, "list": list })
}

fn time(random: &mut Random) -> Value {
    // Each part is mostly one that can be.
    fn part<'a>(random: &mut Random, good: &[&'a str], bad: &[&'a str]) -> &'a str {
        let list = if random.below(8) > 0 { good } else { bad };
        list[random.below(list.len())]
    }
    let year = part(random, &["2026", "2024", "2000", "1900", "0001", "9999", "1969"], &["0000", "12026", "026", "２０２６"]);
    let month = part(random, &["01", "02", "04", "06", "12"], &["00", "13", "1", "-1"]);
    let day = part(random, &["01", "09", "28", "29", "30"], &["00", "31", "32", "5"]);
    let mark = part(random, &["T", "t"], &[" ", "_", ""]);
    let clock =
        part(random, &["00:00:00", "09:10:11", "23:59:59", "23:59:60"], &["24:00:00", "23:60:00", "23:59:61", "0910", "9:10:11"]);
    let fraction = part(random, &["", "", ".1", ".12", ".123", ".1239", ".999999999999"], &[".", ".x", ",5", ".1.2"]);
    let zone = part(
        random,
        &["Z", "z", "+00:00", "-00:00", "+02:00", "-11:30", "+23:59"],
        &["+24:00", "+02:60", "+02", "+0200", "", " Z", "Zx", "Z\n", "−02:00"],
    );
    let text = match random.below(20) {
        0 => format!(" {year}-{month}-{day}{mark}{clock}{zone}"),
        1 => format!("{year}/{month}/{day}{mark}{clock}{zone}"),
        2 => format!("{year}-W05-1T09:00:00{zone}"),
        3 => format!("{year}-{month}-{day}"),
        _ => format!("{year}-{month}-{day}{mark}{clock}{fraction}{zone}"),
    };
    let ms = EventTime::parse_rfc3339(&text).map(|time| time.0);
    json!({ "is": "time", "text": text, "ms": ms })
}

#[test]
fn the_guard_agrees_with_the_vectors_of_the_clients() {
    let mut random = Random(SEED);
    let mut lines: Vec<Value> = (0..TEXTS).map(|number| text(&mut random, number)).collect();
    lines.extend((0..PRINTS).map(|_| print(&mut random)));
    lines.extend((0..UNITS).map(|_| units(&mut random)));
    lines.extend((0..TIMES).map(|_| time(&mut random)));
    lines.extend((0..STORIES).map(|number| story::story(&mut random, number)));
    let table = binding::table();
    assert_eq!(table.iter().map(|row| row["cells"].as_u64().unwrap()).sum::<u64>(), binding::CELLS);
    lines.extend(table);
    lines.extend(binding::stops());

    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("client-vectors.ndjson");
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    // Written beside and moved: a reader sees the whole of it or the one before.
    let beside = file.with_extension("new");
    fs::write(&beside, text).unwrap();
    fs::rename(&beside, &file).unwrap();

    // What the lines hold, so that none of it is there in name only.
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut count = |what: String| *counts.entry(what).or_default() += 1;
    for line in &lines {
        match line["is"].as_str().unwrap() {
            "story" => {
                for step in line["steps"].as_array().unwrap() {
                    let Some(answer) = step.get("answer") else {
                        count("command".to_owned());
                        continue;
                    };
                    count(format!(
                        "{} {} {} {}",
                        step["phase"].as_str().unwrap(),
                        answer["decision"].as_str().unwrap(),
                        answer["action"].as_str().unwrap(),
                        answer["placement"].as_str().unwrap_or("-")
                    ));
                    if answer["stop"] == true {
                        count("stop".to_owned());
                    }
                }
            }
            "print" => count(format!("print {}", if line["fingerprint"].is_null() { "of none" } else { "made" })),
            "time" => count(format!("time {}", if line["ms"].is_null() { "of none" } else { "read" })),
            is => count(is.to_owned()),
        }
    }
    for what in [
        "before deny block before",
        "before deny nudge before",
        "before allow block before",
        "before allow block -",
        "before allow nudge before",
        "before allow none -",
        "after allow block append_to_result",
        "after allow nudge append_to_result",
        "turn allow nudge next_turn",
        "stop",
        "print of none",
        "time of none",
        "time read",
    ] {
        assert!(counts.get(what).is_some_and(|count| *count >= 15), "{what}: {counts:#?}");
    }
    let all: usize = counts.values().sum();
    assert!(all >= 10_000, "{all} vectors");

    println!("{all} vectors in {}", file.display());
}
