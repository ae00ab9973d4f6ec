//! Layers: defaults < file < environment < flags. Each value keeps its origin, all problems are reported at once.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopwarden_core::limits::LANES_MAX;
use loopwarden_core::setting::{Form, Setting};

use crate::layers::tree::{Effective, Node, Source, Table, Value};
use crate::layers::{documented, file, names, native, shape, shape::Codes, tree};
use crate::messages::diagnostic::{BAD, Diagnostic, Diagnostics, Origin, UNKNOWN};
use crate::process::config::Config;
use crate::process::relations::{self, BasePaths, Reader};

const HEADER: &str = "\
# Every setting of loopwarden with its default. What has none stands behind a `#` that touches it.
#
# Layers: these defaults < a file < environment < flags. In the environment a key is LOOPWARDEN_ and its path with __ between
# levels (LOOPWARDEN_KAFKA__BOOTSTRAP_SERVERS; an empty variable counts as not set), as a flag it is --set kafka.bootstrap_servers=…
# Paths in a file are relative to that file. Nothing is substituted inside files: secrets are named by *_file.

";

const CODES: Codes = Codes { unknown: UNKNOWN, bad: BAD };

/// What stands above the defaults. Nothing is read from the process itself, so that tests give all of it.
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
    /// Dotted path of the key.
    pub key: String,
    /// The value as it was written.
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
    pub config: Config,
    tree: Table,
}

impl Loaded {
    /// Every effective value with its origin, sorted by key; what may be a secret is `"***"`.
    pub fn effective(&self) -> Vec<Effective> {
        let mut effective = tree::effective(&self.tree);
        for value in effective.iter_mut().filter(|value| native::is_secret(&value.key)) {
            "\"***\"".clone_into(&mut value.value);
        }
        effective
    }

    /// Keys whose values differ in `other`, sorted.
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

/// The documented file of defaults: `config/default.toml`.
pub fn default_file() -> String {
    HEADER.to_owned() + &documented::file(Config::SETTINGS, "#")
}

/// Loads the configuration.
///
/// # Errors
/// Every problem of every layer.
pub fn load(layers: &Layers) -> Result<Loaded, Diagnostics> {
    let mut diagnostics = Vec::new();
    let (mut merged, shape) = (documented::defaults(Config::SETTINGS), documented::shape(Config::SETTINGS));
    let file = layers.file.clone().or_else(|| variable(layers, "LOOPWARDEN_CONFIG").map(PathBuf::from));
    if let Some(path) = &file {
        match read_file(path) {
            Ok(mut layer) => {
                native::flatten(&mut layer);
                shape::check(&mut layer, &shape, "", CODES, &mut diagnostics);
                let directory = path.parent().unwrap_or(Path::new(""));
                resolve_paths(&mut layer, Config::SETTINGS, directory);
                // A policy is a path where it is no name of a profile.
                if let Some(Node { value: Value::Text(policy), .. }) = layer.get_mut("policy")
                    && policy.contains(['/', '.'])
                {
                    resolve(policy, directory);
                }
                tree::merge(&mut merged, layer);
            }
            Err(problems) => diagnostics.extend(problems),
        }
    }
    for (name, value) in &layers.environment {
        if let Some(key) = name.strip_prefix(names::PREFIX).filter(|key| !names::is_other(key) && !value.is_empty()) {
            let path = names::environment_path(key);
            set(&mut merged, &shape, &path, value, &Origin::Environment(Arc::from(name.as_str())), &mut diagnostics);
        }
    }
    for flag in &layers.flags {
        let path = names::flag_path(&flag.key);
        set(&mut merged, &shape, &path, &flag.value, &Origin::Flag(Arc::from(flag.name.as_str())), &mut diagnostics);
    }
    if !merged.contains_key("instance") {
        let host = host_name(layers).unwrap_or_else(|| {
            diagnostics.push(Diagnostic::new(BAD, "instance is not set, and this host has no name to take instead"));
            // With that message there is no configuration: the name is for the checks of the rest.
            "unnamed".to_owned()
        });
        merged.insert("instance".to_owned(), Value::Text(host).with_origin(&Origin::Host));
    }
    native::check(&mut merged, &mut diagnostics);
    let file = file.as_deref().and_then(Path::parent).filter(|directory| !directory.as_os_str().is_empty());
    let base = BasePaths { temporary: variable(layers, "TMPDIR"), file };
    match read(&merged, &base, &mut diagnostics) {
        Some(config) if diagnostics.is_empty() => Ok(Loaded { config, tree: merged }),
        _ => Err(Diagnostics::sorted(diagnostics)),
    }
}

/// The configuration of the merged layers; where `diagnostics` grows, there is none.
fn read(merged: &Table, base: &BasePaths<'_>, diagnostics: &mut Vec<Diagnostic>) -> Option<Config> {
    let reader = &mut Reader { tree: merged, problems: diagnostics };
    relations::commit(reader);
    let config = reader.config();
    relations::data_dir(reader, base);
    relations::kafka(reader);
    relations::inputs(reader, config.as_ref());
    relations::webhooks(reader, config.as_ref());
    relations::listener(reader, config.as_ref());
    relations::tokens(reader, config.as_ref());
    let mut config = config?;
    if config.lanes == 0 {
        config.lanes = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32).min(LANES_MAX);
    }
    Some(config)
}

fn read_file(path: &Path) -> Result<Table, Vec<Diagnostic>> {
    let text = file::read(path, BAD).map_err(|diagnostic| vec![diagnostic])?;
    tree::parse(&text, &Source::File(Arc::from(path.to_string_lossy().as_ref())), BAD)
}

fn variable<'a>(layers: &'a Layers, name: &str) -> Option<&'a str> {
    let found = layers.environment.iter().find(|(variable, _)| variable == name);
    found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
}

/// Puts one value, written as text, at its path.
fn set(merged: &mut Table, shape: &Table, path: &[String], value: &str, origin: &Origin, diagnostics: &mut Vec<Diagnostic>) {
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
                return diagnostics.push(Diagnostic::new(BAD, message).at(origin, path.join(".")));
            }
            Some(expected) if is_last => {
                let Some(value) = parse(value, expected) else {
                    let shown: String = value.chars().take(64).collect();
                    let message = format!("{} is {shown:?}, but must be {}", path.join("."), shape::kind(expected));
                    return diagnostics.push(Diagnostic::new(BAD, message).at(origin, path.join(".")));
                };
                return insert(merged, &nodes, key, value, origin);
            }
            _ => {
                let written: String = path.join(".").chars().filter(|letter| !letter.is_control()).take(256).collect();
                let table = nodes.join(".");
                let unknown = shape::unknown_key(UNKNOWN, &written, (&tree::join(&table, key), key), known, origin);
                return diagnostics.push(unknown.at(origin, table));
            }
        }
    }
}

fn insert(merged: &mut Table, tables: &[String], key: &str, value: Value, origin: &Origin) {
    let layer = tables.iter().rev().fold(Table::from([(key.to_owned(), value.with_origin(origin))]), |inner, table| {
        Table::from([(table.clone(), Value::Table(inner).with_origin(origin))])
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
fn resolve_paths(layer: &mut Table, settings: &[Setting], directory: &Path) {
    for setting in settings {
        match ((setting.form)(), layer.get_mut(setting.key).map(|node| &mut node.value)) {
            (Form::Path, Some(Value::Text(path))) if !path.is_empty() => resolve(path, directory),
            (Form::Table(inner), Some(Value::Table(table))) => resolve_paths(table, inner, directory),
            (Form::Tables(inner), Some(Value::Array(elements))) => {
                for element in elements {
                    if let Value::Table(table) = &mut element.value {
                        resolve_paths(table, inner, directory);
                    }
                }
            }
            _ => {}
        }
    }
}

fn resolve(path: &mut String, directory: &Path) {
    *path = directory.join(path.as_str()).to_string_lossy().into_owned();
}

fn host_name(layers: &Layers) -> Option<String> {
    let written = variable(layers, "HOSTNAME").map(str::to_owned);
    let name = written.or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok())?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}
