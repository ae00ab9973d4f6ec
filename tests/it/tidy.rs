//! The house rules as a test: who may import whom, which outside crates a layer may use, which words the pure layers may not say.
//!
//! [`TABLE`] is the one place where the layers are written down. A module that is not in it fails.
#![expect(clippy::indexing_slicing, reason = "a scanner over text that is in the repository; a wrong index fails the test")]

use std::{collections::BTreeSet, fs};

use crate::source::{after_bracket, code_only, files, paths, root, without_tests};

/// One module of the core. Between crates, Cargo holds the order.
struct Layer {
    /// Name of the module at the top of the crate.
    module: &'static str,
    /// Outside crates it may use (thiserror always).
    crates: &'static [&'static str],
}

const fn layer(module: &'static str, crates: &'static [&'static str]) -> Layer {
    Layer { module, crates }
}

/// Modules of the core in order: each imports only from those above it.
const TABLE: &[Layer] = &[
    layer("limits", &[]),
    layer("shares", &[]),
    layer("whom", &[]),
    layer("event", &["serde", "serde_json", "simdutf8"]),
    layer("identity", &["sha2", "regex", "smallvec", "zerocopy"]),
    layer("native", &["serde", "serde_json"]),
    layer("setting", &["regex", "smallvec"]),
    layer("detect", &["bitflags"]),
    layer("policy", &[]),
    layer("engine", &[]),
    layer("wire", &["serde", "serde_json"]),
];

/// Where clocks are read; the first one comes with RocksDB, which the proxy of MCP does without.
const CLOCKS: [&str; 2] = ["src/log/clock.rs", "src/mcp/circuit.rs"];
/// A name, and the only places of the crate (beginnings of paths) where it may stand.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("rocksdb", &["src/state/rocks"]),
    // The client panics on a header whose name is no UTF-8; only its reader of headers may catch that.
    ("catch_unwind", &["src/lane/task/poison.rs", "src/kafka/client/message.rs"]),
    // One call into librdkafka. The lints of the workspace deny it, and nobody else lifts that.
    ("unsafe_code", &["src/kafka/client/native.rs"]),
    ("tokio", &["src/lane/thread/supervise.rs", "src/loopwarden/http", "src/loopwarden/signals.rs", "src/mcp_http"]),
    ("Instant", &CLOCKS),
    ("SystemTime", &["src/log/clock.rs"]),
    ("UNIX_EPOCH", &["src/log/clock.rs"]),
];

/// Crates beside the core that decide as it does: from what they are given.
const PURE: &[&str] = &["guard/", "sources/"];

/// Words that the core never says.
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
/// Parts of the standard library that the core never uses.
const IMPURE_STD: &[&str] = &["fs", "net", "env", "thread"];

/// Outside crates of the core, as code spells them.
fn dependencies() -> BTreeSet<String> {
    let manifest: toml::Table =
        fs::read_to_string(root().join("src/core/Cargo.toml")).unwrap_or_default().parse().unwrap_or_default();
    let names = manifest.get("dependencies").and_then(toml::Value::as_table);
    names.into_iter().flat_map(toml::Table::keys).map(|name| name.replace('-', "_")).collect()
}

/// Top module of a file of the core, and how deep its own module lies (1 = at the top).
fn place(path: &str) -> Option<(&str, usize)> {
    let inner = path.strip_prefix("src/core/")?.trim_end_matches(".rs").trim_end_matches("/mod");
    Some((inner.split('/').next().unwrap_or_default(), inner.split('/').count()))
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
    if path.starts_with("tests/") {
        return out;
    }
    let core = place(path).filter(|(module, _)| *module != "lib");
    let is_of = |name: &str| path.strip_prefix("src/").and_then(|path| path.strip_prefix(name));
    let pure = PURE.iter().find(|name| is_of(name).is_some_and(|inner| !inner.starts_with("tests/")));
    let row = |name: &str| TABLE.iter().position(|layer| layer.module == name);
    if let Some((module, _)) = core {
        let Some(own) = row(module) else {
            out.push(format!("{path}: module `{module}` is not in the table of layers"));
            return out;
        };
        // Imports are checked in unit tests too.
        for found in paths(&all).iter().filter(|found| found.parts[0] == "crate" && found.parts.len() > 1) {
            let target = found.parts[1];
            if target == "{" {
                out.push(format!("{path}:{}: one `use crate::x` per line", line(found.start)));
            } else if row(target).is_none_or(|target| target > own) {
                out.push(format!("{path}:{}: `{module}` may not import `{target}`", line(found.start)));
            }
        }
    }
    for found in paths(&code) {
        let mut say = |what: String| out.push(format!("{path}:{}: {what}", line(found.start)));
        let first = found.parts[0];
        if let Some((module, depth)) = core {
            let crates = row(module).map_or(&[][..], |row| TABLE[row].crates);
            let climbs = found.parts.iter().take_while(|part| **part == "super").count();
            if climbs >= depth {
                say("`super` reaches the top of the crate; write `crate::`".to_owned());
            }
            if found.parts.len() > 1 && dependencies.contains(first) && first != "thiserror" && !crates.contains(&first) {
                say(format!("`{module}` may not use the crate `{first}`"));
            }
            if first == "std" {
                let group =
                    &code[found.end..if found.parts.last() == Some(&"{") { after_bracket(&code, found.end) } else { found.end }];
                let grouped = paths(group);
                let named = grouped.iter().map(|inner| inner.parts[0]).chain(found.parts.get(1).copied());
                for part in named.filter(|part| IMPURE_STD.contains(part)) {
                    say(format!("`std::{part}` in the core"));
                }
            }
        }
        if found.parts.windows(2).any(|pair| pair == ["Instant", "now"]) && !CLOCKS.contains(&path) {
            say("wall time is read in clock.rs only".to_owned());
        }
        for part in &found.parts {
            if let Some((_, places)) =
                ONLY_IN.iter().find(|(name, places)| name == part && !places.iter().any(|place| path.starts_with(place)))
            {
                say(format!("`{part}` stands in {} only", places.join(", ")));
            }
            if core.is_some() && IMPURE.contains(part) {
                say(format!("`{part}` in the core"));
            }
            if let (Some(name), true) = (pure, IMPURE.contains(part)) {
                say(format!("`{part}` in {}", name.trim_end_matches('/')));
            }
            if core.is_some() && matches!(*part, "HashMap" | "HashSet") && path != "src/core/detect/steps/index.rs" {
                say(format!("`{part}` in the core: no map order may reach an output"));
            }
            if matches!(core, Some(("detect" | "engine", _))) && *part == "Serialize" {
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
    assert!(
        dependencies.contains("regex") && dependencies.contains("serde_json"),
        "the core's Cargo.toml was not read: {dependencies:?}"
    );
    let sources = files("src", &[".rs"]);
    assert!(sources.iter().any(|(path, _)| path == "src/core/lib.rs"), "src was not read");
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

/// Largest file of the product. Lines.
const LINES_MAX: usize = 500;

#[test]
fn no_file_is_larger_than_one_idea() {
    let sizes = files("src", &[".rs"]).into_iter().map(|(path, text)| (path, text.lines().count()));
    let large: Vec<(String, usize)> = sizes.filter(|(_, lines)| *lines > LINES_MAX).collect();
    assert!(large.is_empty(), "files of more than {LINES_MAX} lines: {large:?}");
}

/// Whether a file of this text is refused with these words.
fn refused(path: &str, code: &str, words: &str) -> bool {
    let source = format!("//! For a test.\n{code}\n");
    violations(path, &source, &dependencies()).iter().any(|violation| violation.contains(words))
}

/// Each line: where, what is wrong there, and what the complaint says.
const BAD: &[(&str, &str, &str)] = &[
    ("src/core/event/mod.rs", "use crate::identity::Digest;", "may not import `identity`"),
    ("src/core/detect/steps/step.rs", "fn f() { crate::engine::go() }", "may not import `engine`"),
    ("src/core/event/mod.rs", "use crate::clock::now;", "may not import `clock`"),
    ("src/core/engine/mod.rs", "use crate::{event, policy};", "one `use crate::x` per line"),
    ("src/core/event/mod.rs", "#[cfg(test)]\nmod tests { use crate::policy::Policy; }", "may not import `policy`"),
    ("src/core/detect/finding.rs", "use super::super::engine;", "reaches the top of the crate"),
    ("src/core/helpers.rs", "", "not in the table"),
    ("src/core/detect/steps/step.rs", "use serde::Deserialize;", "may not use the crate `serde`"),
    ("src/core/event/wire.rs", "use regex::Regex;", "may not use the crate `regex`"),
    ("src/state/session.rs", "use rocksdb::DB;", "`rocksdb` stands in src/state/rocks only"),
    ("src/log/embedded.rs", "use rocksdb::WriteBatch;", "`rocksdb` stands in src/state/rocks only"),
    (
        "src/lane/thread/lane.rs",
        "fn f() { std::panic::catch_unwind(g); }",
        "`catch_unwind` stands in src/lane/task/poison.rs, src/kafka/client/message.rs only",
    ),
    ("src/lane/thread/lane.rs", "use tokio::sync::mpsc;", "`tokio` stands in"),
    ("src/kafka/lib.rs", "#[expect(unsafe_code)]\nfn f() {}", "`unsafe_code` stands in src/kafka/client/native.rs only"),
    ("src/lane/thread/lane.rs", "fn f() { std::time::SystemTime::now(); }", "`SystemTime` stands in src/log/clock.rs only"),
    ("src/loopwarden/http/routes.rs", "fn f() { Instant::now(); }", "wall time is read in clock.rs only"),
    ("src/core/engine/session.rs", "async fn f() {}", "`async` in the core"),
    ("src/core/engine/session.rs", "fn f(t: Instant) {}", "`Instant` in the core"),
    ("src/core/engine/session.rs", "use tracing::warn;", "`tracing` in the core"),
    ("src/core/policy/validate.rs", "use std::fs;", "`std::fs` in the core"),
    ("src/core/policy/validate.rs", "use std::{fmt, env::var};", "`std::env` in the core"),
    ("src/core/identity/mask.rs", "fn f() { std::thread::yield_now() }", "`std::thread` in the core"),
    ("src/core/identity/mask.rs", "fn f() { rand::random() }", "`rand` in the core"),
    ("src/guard/agents/deliveries.rs", "fn f(t: Instant) {}", "`Instant` in guard"),
    ("src/guard/guard.rs", "use tokio::sync::Mutex;", "`tokio` in guard"),
    ("src/sources/otlp/call.rs", "use tokio::sync::Mutex;", "`tokio` in sources"),
    ("src/sources/agents/codex/mod.rs", "fn f() { rand::random() }", "`rand` in sources"),
    ("src/core/event/mod.rs", "use crate::native::NativeEvent;", "may not import `native`"),
    ("src/core/setting/tool.rs", "use std::collections::HashMap;", "`HashMap` in the core"),
    ("src/core/detect/steps/history.rs", "use std::collections::HashSet;", "`HashSet` in the core"),
    ("src/core/engine/command.rs", "#[derive(Serialize)]\nstruct Command;", "`Serialize` in detect or engine"),
    ("src/core/detect/steps/step.rs", "impl serde::Serialize for Step {}", "`Serialize` in detect or engine"),
    ("src/lane/thread/lane.rs", "fn f() { todo!() }", "`todo!` left over"),
    ("tests/it/golden.rs", "fn f() { dbg!(1); }", "`dbg!` left over"),
    ("tests/it/golden.rs", "fn f() { matches!(run(1), Some(_)); }", "thrown away"),
];

/// Each line: where, and what is right there.
const GOOD: &[(&str, &str)] = &[
    ("src/core/identity/mod.rs", "use crate::event::Content;\nuse crate::limits::TOKENS_MAX;\nuse sha2::Sha256;"),
    ("src/state/rocks/mod.rs", "use rocksdb::DB;"),
    ("src/log/clock.rs", "fn now() { std::time::SystemTime::now(); std::time::Instant::now(); }"),
    ("src/core/detect/steps/index.rs", "use std::collections::HashMap;"),
    (
        "src/core/event/decode.rs",
        "/// As [`crate::engine`] does, async, with a HashMap.\nconst X: &str = \"use crate::engine; todo!()\";",
    ),
    (
        "src/core/event/decode.rs",
        "const X: &str = r#\"a \" crate::engine::x\"#; const Y: char = '\"'; fn f<'a>(x: &'a str) {} // crate::task::x",
    ),
    (
        "src/core/event/decode.rs",
        "/* crate::engine::x /* dbg!() */ crate::task::y */ const A: char = '\\''; const B: char = 'é';",
    ),
    (
        "src/core/detect/steps/step.rs",
        "#[cfg(test)]\nmod tests { use std::collections::HashMap; use serde::Serialize; use super::super::x; }\nfn after() {}",
    ),
    (
        "src/core/engine/session.rs",
        "#[derive(Debug, thiserror::Error)]\nenum E {}\nfn f() -> bool { let a = matches!(1, 1); return matches!(a, true); }",
    ),
    ("src/core/engine/session.rs", "fn f() { assert!(matches!(1, 1)); if matches!(2, 2) { g(); } }"),
    ("src/core/policy/validate.rs", "use std::collections::BTreeMap;\nuse std::{fmt, mem};"),
    ("tests/it/golden.rs", "use loopwarden::engine::Session; fn f() { HashMap::new(); std::fs::read(x); }"),
];

#[test]
fn every_rule_refuses_its_bad_example() {
    for (path, code, words) in BAD {
        assert!(refused(path, code, words), "{path} with {code:?} is not refused with {words:?}");
    }
    assert!(violations("src/core/event/mod.rs", "use crate::limits;\n", &dependencies())[0].contains("does not begin"));
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
