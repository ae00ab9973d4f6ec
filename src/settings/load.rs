//! Layers: defaults < file < environment < flags. Each value keeps its origin, each problem is told, all at once.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize as _;

use crate::diagnostic::{Diagnostic, Diagnostics, Origin};
use crate::raw::RawConfig;
use crate::shape::Codes;
use crate::tree::{Effective, Node, Source, Table, Value};
use crate::validate::BAD;
use crate::{Config, file, native, shape, tree, validate};

/// The file of defaults, each key with unit and reason.
pub const DEFAULT_TOML: &str = include_str!("../../config/default.toml");

const UNKNOWN: &str = "E0201";
const CODES: Codes = Codes { unknown: UNKNOWN, bad: BAD };
const PREFIX: &str = "LOOPWARDEN_";

/// What stands above the defaults. Nothing is read from the process itself, so that tests say everything.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    /// The configuration file; without one, `LOOPWARDEN_CONFIG` of the environment names it.
    pub file: Option<PathBuf>,
    /// The environment; only names that begin with `LOOPWARDEN_` count, and `HOSTNAME` and `TMPDIR`.
    pub environment: Vec<(String, String)>,
    /// Settings from the command line, later ones above earlier ones.
    pub flags: Vec<Flag>,
}

/// A setting from the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// The flag, for messages: `--set`, `--data-dir`.
    pub name: String,
    /// Dotted key.
    pub key: String,
    /// Value as written.
    pub value: String,
}

impl Flag {
    /// `key=value` of a `--set`.
    ///
    /// # Errors
    /// E0202 where there is no `=`.
    pub fn set(text: &str) -> Result<Self, Diagnostic> {
        let (key, value) = text.split_once('=').ok_or_else(|| {
            Diagnostic::new(BAD, "--set needs a key and a value").help("as in: --set kafka.bootstrap_servers=localhost:9092")
        })?;
        Ok(Self { name: "--set".to_owned(), key: key.trim().to_owned(), value: value.to_owned() })
    }
}

/// A configuration with the origin of each of its values.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    tree: Table,
}

impl Loaded {
    /// Every effective value with its origin, sorted by key; what may be a secret is `"***"`.
    #[must_use]
    pub fn effective(&self) -> Vec<Effective> {
        let mut effective = tree::effective(&self.tree);
        for value in effective.iter_mut().filter(|value| native::is_secret(&value.key)) {
            "\"***\"".clone_into(&mut value.value);
        }
        effective
    }

    /// Keys whose values differ in `other`, sorted.
    #[must_use]
    pub fn changed_keys(&self, other: &Self) -> Vec<String> {
        let values = |loaded: &Self| -> std::collections::BTreeMap<String, String> {
            tree::effective(&loaded.tree).into_iter().map(|value| (value.key, value.value)).collect()
        };
        let (own, others) = (values(self), values(other));
        let mut keys: Vec<String> =
            own.keys().chain(others.keys()).filter(|key| own.get(*key) != others.get(*key)).cloned().collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

/// Loads the configuration.
///
/// # Errors
/// Every problem of every layer.
pub fn load(layers: &Layers) -> Result<Loaded, Diagnostics> {
    let mut told = Vec::new();
    let mut merged = tree::parse(DEFAULT_TOML, &Source::Default, BAD).map_err(Diagnostics)?;
    let shape = tree::parse(&with_undefaulted(DEFAULT_TOML), &Source::Default, BAD).map_err(Diagnostics)?;
    let file = layers.file.clone().or_else(|| variable(layers, "LOOPWARDEN_CONFIG").map(PathBuf::from));
    if let Some(path) = &file {
        match read_file(path) {
            Ok(mut layer) => {
                native::flatten(&mut layer);
                shape::check(&mut layer, &shape, "", CODES, &mut told);
                resolve_paths(&mut layer, path.parent().unwrap_or(Path::new("")));
                tree::merge(&mut merged, layer);
            }
            Err(problems) => told.extend(problems),
        }
    }
    for (name, value) in &layers.environment {
        if let Some(key) = name.strip_prefix(PREFIX).filter(|key| !is_other(key) && !value.is_empty()) {
            let path = environment_path(key);
            set(&mut merged, &shape, &path, value, &Origin::Environment(Arc::from(name.as_str())), &mut told);
        }
    }
    for flag in &layers.flags {
        let path = flag_path(&flag.key);
        set(&mut merged, &shape, &path, &flag.value, &Origin::Flag(Arc::from(flag.name.as_str())), &mut told);
    }
    if !merged.contains_key("instance")
        && let Some(host) = host_name(layers)
    {
        merged.insert("instance".to_owned(), Node { value: Value::Text(host), key: Origin::Host, origin: Origin::Host });
    }
    native::check(&mut merged, &mut told);
    let raw = RawConfig::deserialize(tree::to_toml(&merged))
        .map_err(|error| Diagnostic::new(BAD, format!("this is no configuration: {}", error.message())))?;
    let file = file.as_deref().and_then(Path::parent).filter(|directory| !directory.as_os_str().is_empty());
    let places = validate::Places { temporary: variable(layers, "TMPDIR"), file };
    let config = validate::config(&raw, &merged, &places, &mut told);
    if told.is_empty() { Ok(Loaded { config, tree: merged }) } else { Err(Diagnostics::sorted(told)) }
}

fn read_file(path: &Path) -> Result<Table, Vec<Diagnostic>> {
    let text = file::read(path, BAD).map_err(|diagnostic| vec![diagnostic])?;
    tree::parse(&text, &Source::File(Arc::from(path.to_string_lossy().as_ref())), BAD)
}

/// The defaults with the keys that have none: a line that begins with `#key` has an example as its value.
pub(super) fn with_undefaulted(text: &str) -> String {
    let line = |line: &str| match line.strip_prefix('#') {
        Some(key) if key.starts_with(|letter: char| letter.is_ascii_lowercase()) => format!("{key}\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

fn variable<'a>(layers: &'a Layers, name: &str) -> Option<&'a str> {
    let found = layers.environment.iter().find(|(variable, _)| variable == name);
    found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
}

/// Variables that begin like ours and are no settings: the file's name, the address for client scripts, and what Kubernetes sets in every pod beside a service
/// whose name begins with `loopwarden`.
fn is_other(key: &str) -> bool {
    let is_port = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = key.split('_').collect();
    let is_service = parts.windows(2).any(|pair| matches!(pair, ["SERVICE", "HOST" | "PORT"]));
    let is_link = parts.windows(3).any(|three| matches!(three, ["PORT", port, "TCP" | "UDP" | "SCTP"] if is_port(port)));
    let is_foreign = is_service || is_link || parts.last() == Some(&"PORT");
    matches!(key, "CONFIG" | "URL") || (is_foreign && !key.contains("__"))
}

fn environment_path(key: &str) -> Vec<String> {
    if key == "LOG" {
        return vec!["log".to_owned(), "level".to_owned()];
    }
    let path: Vec<String> = key.split("__").map(str::to_ascii_lowercase).collect();
    native_path(path, native::from_environment)
}

/// The variable that sets the key at a path.
pub(super) fn environment_name(path: &str) -> String {
    format!("{PREFIX}{}", path.replace('.', "__").to_ascii_uppercase())
}

fn flag_path(key: &str) -> Vec<String> {
    native_path(key.split('.').map(str::to_owned).collect(), str::to_owned)
}

/// Joins what follows a librdkafka table into one name.
fn native_path(path: Vec<String>, name: impl Fn(&str) -> String) -> Vec<String> {
    for table in native::TABLES {
        if let Some((head, tail)) = path.split_at_checked(table.len())
            && head.iter().map(String::as_str).eq(table.iter().copied())
            && !tail.is_empty()
        {
            return head.iter().cloned().chain([name(&tail.join("."))]).collect();
        }
    }
    path
}

/// Puts one value, written as text, at its path.
fn set(merged: &mut Table, shape: &Table, path: &[String], value: &str, origin: &Origin, told: &mut Vec<Diagnostic>) {
    let mut known = shape;
    let mut nodes = Vec::new();
    for (depth, key) in path.iter().enumerate() {
        let is_last = depth + 1 == path.len();
        match known.get(key).map(|node| &node.value) {
            Some(Value::Table(table)) if !is_last => {
                nodes.push(key.clone());
                known = table;
            }
            // An empty table in the shape takes any key.
            None if known.is_empty() && is_last => {
                return insert(merged, &nodes, key, Value::Text(value.to_owned()), origin);
            }
            Some(Value::Table(_)) => {
                let message = format!("{} is a table, but a value must have a key of its own", path.join("."));
                return told.push(Diagnostic::new(BAD, message).at(origin, path.join(".")));
            }
            Some(expected) if is_last => {
                let Some(value) = parse(value, expected) else {
                    let shown: String = value.chars().take(64).collect();
                    let message = format!("{} is {shown:?}, but must be {}", path.join("."), shape::kind(expected));
                    return told.push(Diagnostic::new(BAD, message).at(origin, path.join(".")));
                };
                return insert(merged, &nodes, key, value, origin);
            }
            _ => {
                let written: String = path.join(".").chars().filter(|letter| !letter.is_control()).take(256).collect();
                let table = nodes.join(".");
                let unknown = shape::unknown_key(UNKNOWN, &written, (&tree::join(&table, key), key), known, origin);
                return told.push(unknown.at(origin, table));
            }
        }
    }
}

fn insert(merged: &mut Table, tables: &[String], key: &str, value: Value, origin: &Origin) {
    let node = Node { value, key: origin.clone(), origin: origin.clone() };
    let layer = tables.iter().rev().fold(Table::from([(key.to_owned(), node)]), |inner, table| {
        let node = Node { value: Value::Table(inner), key: origin.clone(), origin: origin.clone() };
        Table::from([(table.clone(), node)])
    });
    tree::merge(merged, layer);
}

/// A value of the expected type from text. No key has arrays.
fn parse(text: &str, expected: &Value) -> Option<Value> {
    match expected {
        Value::Text(_) => Some(Value::Text(text.to_owned())),
        Value::Integer(_) => text.trim().replace('_', "").parse().ok().map(Value::Integer),
        Value::Float(_) => text.trim().parse().ok().map(Value::Float),
        Value::Boolean(_) => text.trim().parse().ok().map(Value::Boolean),
        Value::Array(_) | Value::Table(_) => None,
    }
}

/// Paths in a file are relative to that file, wherever the process was started.
fn resolve_paths(layer: &mut Table, directory: &Path) {
    let resolve = |node: Option<&mut Node>| {
        if let Some(Node { value: Value::Text(path), .. }) = node
            && !path.is_empty()
        {
            *path = directory.join(path.as_str()).to_string_lossy().into_owned();
        }
    };
    for path in validate::PATHS {
        resolve(tree::at_mut(layer, path));
    }
    let policy = tree::at_mut(layer, &["policy"]);
    let is_file = |node: &Node| matches!(&node.value, Value::Text(policy) if policy.contains(['/', '.']));
    resolve(policy.filter(|node| is_file(node)));
}

fn host_name(layers: &Layers) -> Option<String> {
    let written = variable(layers, "HOSTNAME").map(str::to_owned);
    let name = written.or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok())?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}
