//! What an installation of hooks writes for an agent: which files, and what into them.

mod root;

use std::path::PathBuf;

use jsonc_parser::{cst::CstInputValue, json};
pub use root::{InstallRoot, quoted};

/// How long an agent is to wait for its hook. Seconds. The hook itself gives up long before.
pub(crate) const WAIT_S: u32 = 5;

/// How hooks of an agent are installed.
#[derive(Debug)]
pub struct Install {
    /// Its command; absent where it has none.
    pub program: Option<&'static str>,
    /// The directory below the user's home that is there where the agent is, where it has no command.
    pub folder: Option<&'static str>,
    /// The variable with which it moves its own directory.
    pub variable: Option<&'static str>,
    /// Whether it can post to an address by itself.
    pub posts: bool,
    /// What its user has to do before hooks work.
    pub todo: Option<&'static str>,
    pub(crate) targets: fn(&InstallRoot) -> Result<Vec<Target>, String>,
}

impl Install {
    /// An agent that starts a program for each call.
    pub(crate) const fn new(program: &'static str, targets: fn(&InstallRoot) -> Result<Vec<Target>, String>) -> Self {
        Self { program: Some(program), folder: None, variable: None, posts: false, todo: None, targets }
    }

    /// The files of the agent.
    ///
    /// # Errors
    /// The agent needs the program `loopwarden-hook`, and it is not installed.
    pub fn targets(&self, root: &InstallRoot) -> Result<Vec<Target>, String> {
        (self.targets)(root)
    }
}

#[derive(Debug, Clone)]
pub enum Target {
    /// A file of the agent's, with entries of ours among others.
    Shared(PathBuf, Edit),
    /// A file of our own.
    Own(PathBuf, Vec<u8>, Mode),
}

impl Target {
    /// A file of the agent's with entries below `hooks`.
    pub(crate) fn hooks(path: PathBuf, entries: Vec<(&'static str, CstInputValue)>) -> Vec<Self> {
        vec![Self::Shared(path, Edit { version: None, under: "hooks", entries })]
    }
}

/// What a file of our own is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Plain,
    Program,
}

/// Our entries of one file.
#[derive(Debug, Clone)]
pub struct Edit {
    /// Number that the agent wants under `version`, where the file has none.
    pub version: Option<u32>,
    /// Key at the top below which events stand.
    pub under: &'static str,
    /// Name of an event, and the entry for the list under it.
    pub entries: Vec<(&'static str, CstInputValue)>,
}

/// A command of a shell, in the form that Claude Code began. How long `timeout` is in which unit is the agent's.
pub(crate) fn run(command: &str, timeout: u32) -> CstInputValue {
    json!({ "type": "command", "command": command, "timeout": timeout })
}

/// A handler in the group around it, for every tool where there are tools.
pub(crate) fn group(has_matcher: bool, handler: CstInputValue) -> CstInputValue {
    let hooks = CstInputValue::Array(vec![handler]);
    let mut members = vec![("hooks".to_owned(), hooks)];
    if has_matcher {
        members.insert(0, ("matcher".to_owned(), "*".into()));
    }
    CstInputValue::Object(members)
}

/// One object of the members of several.
pub(crate) fn merged(objects: &[serde_json::Value]) -> serde_json::Value {
    let members = objects.iter().filter_map(serde_json::Value::as_object).flatten();
    serde_json::Value::Object(members.map(|(name, value)| (name.clone(), value.clone())).collect())
}

pub(crate) fn pretty(value: &serde_json::Value) -> Vec<u8> {
    format!("{value:#}\n").into_bytes()
}
