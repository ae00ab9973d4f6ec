//! The house rules as a test: who may import whom, which outside crates a layer may use, which words the pure layers may not say.
//!
//! [`TABLE`] is the one place where the layers are written down. A module that is not in it fails.
#![expect(clippy::indexing_slicing, reason = "a scanner over text that is in the repository; a wrong index fails the test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// One module of the crate.
struct Layer {
    /// Row of the table; rows 1 to 5 are the pure core.
    row: u8,
    /// Name of the module at the top of the crate.
    module: &'static str,
    /// Modules it may import.
    may: &'static [&'static str],
    /// Outside crates it may use (thiserror always).
    crates: &'static [&'static str],
}

const fn layer(row: u8, module: &'static str, may: &'static [&'static str], crates: &'static [&'static str]) -> Layer {
    Layer { row, module, may, crates }
}

const ALL: &[&str] = &[
    "limits",
    "clock",
    "event",
    "identity",
    "transcript",
    "policy",
    "detect",
    "engine",
    "store",
    "log",
    "task",
    "telemetry",
    "report",
    "http",
    "config",
];

#[rustfmt::skip]
const TABLE: &[Layer] = &[
    layer(0, "docs", &[], &[]),
    layer(0, "limits", &[], &[]),
    layer(0, "clock", &[], &[]),
    layer(1, "event", &["limits"], &["serde", "serde_json", "simdutf8"]),
    layer(2, "identity", &["limits", "event"], &["sha2", "regex", "smallvec"]),
    layer(3, "policy", &["limits", "event", "identity"], &["serde", "regex"]),
    layer(3, "transcript", &["limits", "event", "identity"], &["serde_json"]),
    layer(4, "detect", &["limits", "event", "identity", "policy"], &[]),
    layer(5, "engine", &["limits", "event", "identity", "policy", "detect"], &[]),
    layer(6, "store", &["limits", "clock", "event", "identity", "policy", "detect", "engine"], &["rocksdb", "postcard", "serde", "tracing"]),
    layer(7, "log", &["limits", "clock", "event", "transcript"], &["rdkafka", "zstd", "flate2", "tracing"]),
    layer(8, "task", &["limits", "clock", "event", "identity", "policy", "detect", "engine", "store", "log"], &["ahash", "tokio", "serde_json", "tracing"]),
    layer(9, "telemetry", &["limits", "clock", "event", "identity", "policy", "detect", "engine", "store", "log", "task"],
        &["prometheus_client", "tracing", "tracing_subscriber", "serde_json"]),
    layer(9, "report", &["limits", "clock", "event", "identity", "policy", "detect", "engine", "store", "log", "task"],
        &["serde", "serde_json", "unicode_width"]),
    layer(10, "http", &["limits", "clock", "event", "identity", "policy", "detect", "engine", "store", "log", "task", "telemetry", "report"],
        &["axum", "futures_util", "serde_json", "tokio", "tracing"]),
    layer(11, "config", &["limits", "event", "policy", "store", "log", "task", "telemetry", "report", "http"], &["toml", "serde", "serde_json"]),
    layer(12, "cli", ALL, &["clap", "clap_complete", "clap_mangen", "tokio", "serde", "serde_json", "serde_saphyr", "terminal_size"]),
    layer(13, "main", ALL, &["mimalloc", "rustix"]),
];

/// Files that may import one module more than their row.
const EXTRA_IMPORTS: &[(&str, &str)] = &[("src/log/embedded", "store")];

/// A name, and the only places of the crate (beginnings of paths) where it may stand.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("rocksdb", &["src/store/rocks"]),
    ("rdkafka", &["src/log/kafka"]),
    // The client panics on a header whose name is no UTF-8; only its reader of headers may catch that.
    ("catch_unwind", &["src/task/poison.rs", "src/log/kafka/consumer.rs"]),
    ("tokio", &["src/task/supervise.rs", "src/http", "src/cli"]),
    ("SystemTime", &["src/clock.rs"]),
    ("UNIX_EPOCH", &["src/clock.rs"]),
];

/// Words that the pure layers, rows 1 to 5, never say.
const IMPURE: &[&str] = &[
    "async",
    "await",
    "tokio",
    "tracing",
    "rocksdb",
    "rdkafka",
    "Instant",
    "SystemTime",
    "rand",
    "random",
    "fastrand",
    "getrandom",
    "thread_rng",
    "RandomState",
];
/// Parts of the standard library that the pure layers never use.
const IMPURE_STD: &[&str] = &["fs", "net", "env", "thread"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Outside crates, as code spells them.
fn dependencies() -> BTreeSet<String> {
    let manifest: toml::Table = fs::read_to_string(root().join("Cargo.toml")).unwrap_or_default().parse().unwrap_or_default();
    let names = manifest.get("dependencies").and_then(toml::Value::as_table);
    names.into_iter().flat_map(toml::Table::keys).map(|name| name.replace('-', "_")).collect()
}

/// Every file below `folder`, as (path from the root, text); what is no text is left out.
fn files(folder: &str, extensions: &[&str]) -> Vec<(String, String)> {
    fn walk(folder: &Path, root: &Path, extensions: &[&str], out: &mut Vec<(String, String)>) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            if path.is_dir() {
                if !path.ends_with(".git") && !path.ends_with("target") {
                    walk(&path, root, extensions, out);
                }
            } else if extensions.iter().any(|extension| path.to_string_lossy().ends_with(extension))
                && let Ok(text) = fs::read_to_string(&path)
            {
                out.push((path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned(), text));
            }
        }
    }
    let mut out = Vec::new();
    walk(&root().join(folder), &root(), extensions, &mut out);
    out
}

/// The source with comments and literals blanked out; lines stay where they are.
fn code_only(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let length = blank_length(&bytes[at..], at > 0 && is_word(bytes[at - 1])).min(bytes.len() - at);
        if length == 0 {
            out.push(bytes[at]);
            at += 1;
        } else {
            out.extend(bytes[at..at + length].iter().map(|&byte| if byte == b'\n' { b'\n' } else { b' ' }));
            at += length;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}

/// Length of the comment or literal that begins here; 0 if none does.
fn blank_length(rest: &[u8], inside_word: bool) -> usize {
    let end_of = |from: usize, needle: &[u8]| find(&rest[from..], needle).map_or(rest.len(), |at| from + at + needle.len());
    if rest.starts_with(b"//") {
        return find(rest, b"\n").unwrap_or(rest.len());
    }
    if rest.starts_with(b"/*") {
        let (mut depth, mut at) = (0_u32, 0);
        while at < rest.len() {
            if rest[at..].starts_with(b"/*") {
                depth += 1;
                at += 2;
            } else if rest[at..].starts_with(b"*/") {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            } else {
                at += 1;
            }
        }
        return rest.len();
    }
    if !inside_word && matches!(rest[0], b'r' | b'b' | b'c') {
        let prefix = rest.iter().take(2).take_while(|byte| matches!(byte, b'r' | b'b' | b'c')).count();
        let hashes = rest[prefix..].iter().take_while(|&&byte| byte == b'#').count();
        if rest[prefix - 1] == b'r' && rest.get(prefix + hashes) == Some(&b'"') {
            let mut close = vec![b'"'];
            close.resize(1 + hashes, b'#');
            return end_of(prefix + hashes + 1, &close);
        }
    }
    match rest[0] {
        b'"' => {
            let mut at = 1;
            while at < rest.len() && rest[at] != b'"' {
                at += if rest[at] == b'\\' { 2 } else { 1 };
            }
            at + 1
        }
        b'\'' if rest.get(1) == Some(&b'\\') => end_of(3, b"'"),
        b'\'' => {
            // A character literal closes after one character; anything else is a lifetime.
            let width = rest.get(1).map_or(0, |&first| utf8_width(first));
            if rest.get(1 + width) == Some(&b'\'') { width + 2 } else { 0 }
        }
        _ => 0,
    }
}

fn utf8_width(first: u8) -> usize {
    match first {
        0xF0.. => 4,
        0xE0.. => 3,
        0x80.. => 2,
        _ => 1,
    }
}

/// Position just after the bracket that closes the one at `open`.
fn after_bracket(code: &str, open: usize) -> usize {
    let mut depth = 0_u32;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'{' | b'[' => depth += 1,
            b')' | b'}' | b']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    code.len()
}

/// Code with everything under `#[cfg(test)]` blanked out.
fn without_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut code = code.to_owned();
    while let Some(start) = code.find(MARK) {
        let body = start + MARK.len();
        let end = match code[body..].find(['{', ';']) {
            Some(at) if code.as_bytes()[body + at] == b'{' => after_bracket(&code, body + at),
            Some(at) => body + at + 1,
            None => code.len(),
        };
        let blank: String = code[start..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        code.replace_range(start..end, &blank);
    }
    code
}

/// A path in code, as `crate::event::decode`; a single word is a path too. An opened group ends it with `{`.
struct Found<'a> {
    parts: Vec<&'a str>,
    start: usize,
    end: usize,
}

fn paths(code: &str) -> Vec<Found<'_>> {
    let bytes = code.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if !is_word(bytes[at]) {
            at += 1;
            continue;
        }
        let start = at;
        let mut parts = Vec::new();
        loop {
            let word = at;
            while at < bytes.len() && is_word(bytes[at]) {
                at += 1;
            }
            parts.push(&code[word..at]);
            if !code[at..].starts_with("::") {
                break;
            }
            match bytes.get(at + 2) {
                Some(b'{') => {
                    parts.push("{");
                    at += 2;
                    break;
                }
                Some(&byte) if is_word(byte) => at += 2,
                _ => break,
            }
        }
        out.push(Found { parts, start, end: at });
    }
    out
}

/// Top module of a file, and how deep its own module lies (1 = at the top).
fn place(path: &str) -> (&str, usize) {
    let inner = path.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
    (inner.split('/').next().unwrap_or_default(), inner.split('/').count())
}

/// Everything that is wrong with one file of the crate.
fn violations(path: &str, source: &str, dependencies: &BTreeSet<String>) -> Vec<String> {
    let mut out = Vec::new();
    let all = code_only(source);
    let code = without_tests(&all);
    let line = |at: usize| all[..at].matches('\n').count() + 1;
    if !source.starts_with("//!") {
        out.push(format!("{path}: does not begin with `//!`, saying what it is for"));
    }
    check_statements(path, &all, &mut out);
    if path.starts_with("tests/") || path == "src/lib.rs" {
        return out;
    }
    let (module, depth) = place(path);
    let Some(layer) = TABLE.iter().find(|layer| layer.module == module) else {
        out.push(format!("{path}: module `{module}` is not in the table of layers"));
        return out;
    };
    // Imports are checked in unit tests too.
    for found in paths(&all).iter().filter(|found| found.parts[0] == "crate" && found.parts.len() > 1) {
        let target = found.parts[1];
        let extra = EXTRA_IMPORTS.iter().any(|(file, module)| path.starts_with(file) && *module == target);
        if target == "{" {
            out.push(format!("{path}:{}: one `use crate::x` per line", line(found.start)));
        } else if target != module && !layer.may.contains(&target) && !extra {
            out.push(format!("{path}:{}: `{module}` (row {}) may not import `{target}`", line(found.start), layer.row));
        }
    }
    let pure = (1..=5).contains(&layer.row);
    for found in paths(&code) {
        let mut say = |what: String| out.push(format!("{path}:{}: {what}", line(found.start)));
        let first = found.parts[0];
        let climbs = found.parts.iter().take_while(|part| **part == "super").count();
        if climbs >= depth {
            say("`super` reaches the top of the crate; write `crate::`".to_owned());
        }
        if found.parts.len() > 1 && dependencies.contains(first) && first != "thiserror" && !layer.crates.contains(&first) {
            say(format!("`{module}` (row {}) may not use the crate `{first}`", layer.row));
        }
        if first == "std" && pure {
            let group =
                &code[found.end..if found.parts.last() == Some(&"{") { after_bracket(&code, found.end) } else { found.end }];
            let grouped = paths(group);
            let named = grouped.iter().map(|inner| inner.parts[0]).chain(found.parts.get(1).copied());
            for part in named.filter(|part| IMPURE_STD.contains(part)) {
                say(format!("`std::{part}` in a pure layer"));
            }
        }
        if found.parts.windows(2).any(|pair| pair == ["Instant", "now"]) && path != "src/clock.rs" {
            say("wall time is read in clock.rs only".to_owned());
        }
        for part in &found.parts {
            if let Some((_, places)) =
                ONLY_IN.iter().find(|(name, places)| name == part && !places.iter().any(|place| path.starts_with(place)))
            {
                say(format!("`{part}` stands in {} only", places.join(", ")));
            }
            if pure && IMPURE.contains(part) {
                say(format!("`{part}` in a pure layer"));
            }
            if pure && matches!(*part, "HashMap" | "HashSet") && path != "src/detect/index.rs" {
                say(format!("`{part}` in a pure layer: no map order may reach an output"));
            }
            if matches!(module, "detect" | "engine") && *part == "Serialize" {
                say("`Serialize` in detect or engine: every boundary owns its encoding".to_owned());
            }
        }
    }
    out
}

/// Leftovers and statements without effect, anywhere.
fn check_statements(path: &str, code: &str, out: &mut Vec<String>) {
    let line = |at: usize| code[..at].matches('\n').count() + 1;
    for found in paths(code) {
        let name = found.parts[found.parts.len() - 1];
        let is_macro = code[found.end..].starts_with('!') && !code[found.end..].starts_with("!=");
        if is_macro && matches!(name, "todo" | "dbg" | "unimplemented") {
            out.push(format!("{path}:{}: `{name}!` left over", line(found.start)));
        }
        if is_macro && name == "matches" {
            let before = code[..found.start].trim_end().chars().next_back();
            let after = code[after_bracket(code, found.end + 1)..].trim_start().chars().next();
            if matches!(before, None | Some(';' | '{' | '}')) && after == Some(';') {
                out.push(format!("{path}:{}: the answer of `matches!` is thrown away", line(found.start)));
            }
        }
    }
}

/// Lines that name a place of somebody's machine.
fn machine_paths(path: &str, text: &str) -> Vec<String> {
    let places = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];
    let named = |line: &&str| {
        places.iter().any(|place| {
            line.match_indices(place)
                .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-')))
        })
    };
    text.lines()
        .enumerate()
        .filter(|(_, line)| named(line))
        .map(|(number, _)| format!("{path}:{}: path of a machine", number + 1))
        .collect()
}

#[test]
fn the_house_rules_hold_in_every_file() {
    let dependencies = dependencies();
    assert!(dependencies.contains("rocksdb") && dependencies.contains("serde_json"), "Cargo.toml was not read: {dependencies:?}");
    let sources = files("src", &[".rs"]);
    assert!(sources.iter().any(|(path, _)| path == "src/lib.rs"), "src was not read");
    let tests = files("tests", &[".rs"]);
    let found: Vec<String> =
        sources.iter().chain(&tests).flat_map(|(path, text)| violations(path, text, &dependencies)).collect();
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn no_file_names_a_place_of_a_machine() {
    let kinds = [
        ".rs",
        ".md",
        ".toml",
        ".yaml",
        ".yml",
        ".json",
        ".py",
        ".sh",
        ".java",
        ".service",
        ".tpl",
        "Makefile",
        "Dockerfile",
        "NOTICE",
    ];
    let mut texts = files("", &kinds);
    texts.extend(files(".ci", &["run", "setup", "deny"]));
    let found: Vec<String> = texts.iter().flat_map(|(path, text)| machine_paths(path, text)).collect();
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn the_ten_largest_files_are_shown() {
    let mut sizes: Vec<(usize, String)> =
        files("src", &[".rs"]).into_iter().map(|(path, text)| (text.lines().count(), path)).collect();
    sizes.sort_by(|a, b| b.cmp(a));
    assert!(!sizes.is_empty());
    for (lines, path) in sizes.iter().take(10) {
        println!("{lines:6} {path}");
    }
}

#[test]
fn the_table_only_points_to_smaller_rows() {
    let row = |name: &str| TABLE.iter().find(|layer| layer.module == name).map(|layer| layer.row);
    for layer in TABLE {
        for target in layer.may {
            assert!(row(target).is_some_and(|below| below < layer.row), "{} -> {target}", layer.module);
        }
    }
}

/// Whether a file of this text is refused with these words.
fn refused(path: &str, code: &str, words: &str) -> bool {
    let source = format!("//! For a test.\n{code}\n");
    violations(path, &source, &dependencies()).iter().any(|violation| violation.contains(words))
}

/// Each line: where, what is wrong there, and what the complaint says.
const BAD: &[(&str, &str, &str)] = &[
    ("src/event/mod.rs", "use crate::identity::Digest;", "may not import `identity`"),
    ("src/detect/step.rs", "fn f() { crate::engine::go() }", "may not import `engine`"),
    ("src/telemetry/mod.rs", "use crate::report::Text;", "may not import `report`"),
    ("src/event/mod.rs", "use crate::clock::now;", "may not import `clock`"),
    ("src/log/kafka/mod.rs", "use crate::store::StateStore;", "may not import `store`"),
    ("src/config/mod.rs", "use crate::engine::Session;", "may not import `engine`"),
    ("src/task/lane.rs", "use crate::{store, log};", "one `use crate::x` per line"),
    ("src/event/mod.rs", "#[cfg(test)]\nmod tests { use crate::policy::Policy; }", "may not import `policy`"),
    ("src/detect/step.rs", "use super::super::engine;", "reaches the top of the crate"),
    ("src/helpers.rs", "", "not in the table"),
    ("src/util/mod.rs", "", "not in the table"),
    ("src/detect/step.rs", "use serde::Deserialize;", "may not use the crate `serde`"),
    ("src/store/session.rs", "fn f() { serde_json::from_str(x) }", "may not use the crate `serde_json`"),
    ("src/event/wire.rs", "use regex::Regex;", "may not use the crate `regex`"),
    ("src/store/session.rs", "use rocksdb::DB;", "`rocksdb` stands in src/store/rocks only"),
    ("src/log/embedded.rs", "use rocksdb::WriteBatch;", "`rocksdb` stands in src/store/rocks only"),
    ("src/log/memory.rs", "use rdkafka::Message;", "`rdkafka` stands in src/log/kafka only"),
    (
        "src/task/lane.rs",
        "fn f() { std::panic::catch_unwind(g); }",
        "`catch_unwind` stands in src/task/poison.rs, src/log/kafka/consumer.rs only",
    ),
    ("src/task/lane.rs", "use tokio::sync::mpsc;", "`tokio` stands in"),
    ("src/task/lane.rs", "fn f() { std::time::SystemTime::now(); }", "`SystemTime` stands in src/clock.rs only"),
    ("src/http/routes.rs", "fn f() { Instant::now(); }", "wall time is read in clock.rs only"),
    ("src/engine/session.rs", "async fn f() {}", "`async` in a pure layer"),
    ("src/engine/session.rs", "fn f(t: Instant) {}", "`Instant` in a pure layer"),
    ("src/engine/session.rs", "use tracing::warn;", "`tracing` in a pure layer"),
    ("src/policy/validate.rs", "use std::fs;", "`std::fs` in a pure layer"),
    ("src/policy/validate.rs", "use std::{fmt, env::var};", "`std::env` in a pure layer"),
    ("src/identity/mask.rs", "fn f() { std::thread::yield_now() }", "`std::thread` in a pure layer"),
    ("src/identity/mask.rs", "fn f() { rand::random() }", "`rand` in a pure layer"),
    ("src/policy/tool.rs", "use std::collections::HashMap;", "`HashMap` in a pure layer"),
    ("src/detect/history.rs", "use std::collections::HashSet;", "`HashSet` in a pure layer"),
    ("src/engine/command.rs", "#[derive(Serialize)]\nstruct Command;", "`Serialize` in detect or engine"),
    ("src/detect/step.rs", "impl serde::Serialize for Step {}", "`Serialize` in detect or engine"),
    ("src/task/lane.rs", "fn f() { todo!() }", "`todo!` left over"),
    ("tests/it/golden.rs", "fn f() { dbg!(1); }", "`dbg!` left over"),
    ("tests/it/golden.rs", "fn f() { matches!(run(1), Some(_)); }", "thrown away"),
];

/// Each line: where, and what is right there.
const GOOD: &[(&str, &str)] = &[
    ("src/identity/mod.rs", "use crate::event::Content;\nuse crate::limits::TOKENS_MAX;\nuse sha2::Sha256;"),
    ("src/log/embedded.rs", "use crate::store::StateStore;"),
    ("src/log/embedded/append.rs", "use crate::store::StateStore;"),
    ("src/store/rocks/mod.rs", "use rocksdb::DB;"),
    ("src/log/kafka/producer.rs", "use rdkafka::producer::Producer;"),
    ("src/clock.rs", "fn now() { std::time::SystemTime::now(); std::time::Instant::now(); }"),
    ("src/detect/index.rs", "use std::collections::HashMap;"),
    (
        "src/event/decode.rs",
        "/// As [`crate::engine`] does, async, with a HashMap.\nconst X: &str = \"use crate::engine; todo!()\";",
    ),
    (
        "src/event/decode.rs",
        "const X: &str = r#\"a \" crate::engine::x\"#; const Y: char = '\"'; fn f<'a>(x: &'a str) {} // crate::task::x",
    ),
    ("src/event/decode.rs", "/* crate::engine::x /* dbg!() */ crate::task::y */ const A: char = '\\''; const B: char = 'é';"),
    (
        "src/detect/step.rs",
        "#[cfg(test)]\nmod tests { use std::collections::HashMap; use serde::Serialize; use super::super::x; }\nfn after() {}",
    ),
    (
        "src/engine/session.rs",
        "#[derive(Debug, thiserror::Error)]\nenum E {}\nfn f() -> bool { let a = matches!(1, 1); return matches!(a, true); }",
    ),
    ("src/engine/session.rs", "fn f() { assert!(matches!(1, 1)); if matches!(2, 2) { g(); } }"),
    ("src/policy/validate.rs", "use std::collections::BTreeMap;\nuse std::{fmt, mem};"),
    ("tests/it/golden.rs", "use loopwarden::engine::Session; fn f() { HashMap::new(); std::fs::read(x); }"),
];

#[test]
fn every_rule_refuses_its_bad_example() {
    for (path, code, words) in BAD {
        assert!(refused(path, code, words), "{path} with {code:?} is not refused with {words:?}");
    }
    assert!(violations("src/event/mod.rs", "use crate::limits;\n", &dependencies())[0].contains("does not begin"));
    assert_eq!(machine_paths("README.md", concat!("see /wo", "rk/notes")), ["README.md:1: path of a machine"]);
    assert_eq!(machine_paths("README.md", concat!("cd /ro", "ot/x")), ["README.md:1: path of a machine"]);
}

#[test]
fn no_rule_refuses_what_is_right() {
    for (path, code) in GOOD {
        let found = violations(path, &format!("//! For a test.\n{code}\n"), &dependencies());
        assert!(found.is_empty(), "{path} with {code:?}: {found:?}");
    }
    assert!(machine_paths("README.md", concat!("src/wo", "rk/x and .github/wo", "rk/")).is_empty());
}
