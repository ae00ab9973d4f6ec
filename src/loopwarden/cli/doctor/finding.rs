//! One thing that was looked at.

use serde_json::{Value, json};

/// How it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Good,
    /// Worth knowing; nothing is wrong.
    Note,
    /// Something is to be done.
    Todo,
}

impl Level {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Note => "note",
            Self::Todo => "todo",
        }
    }
}

/// One thing that was looked at, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) level: Level,
    /// A documented code, as `W0301`.
    pub(super) code: Option<String>,
    what: String,
    /// What to do, a line each.
    help: Vec<String>,
}

impl Finding {
    pub(super) fn good(what: impl Into<String>) -> Self {
        Self::new(Level::Good, what)
    }

    pub(super) fn note(what: impl Into<String>) -> Self {
        Self::new(Level::Note, what)
    }

    pub(super) fn todo(what: impl Into<String>) -> Self {
        Self::new(Level::Todo, what)
    }

    fn new(level: Level, what: impl Into<String>) -> Self {
        Self { level, code: None, what: what.into(), help: Vec::new() }
    }

    /// The same, with its code.
    pub(super) fn coded(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }

    /// The same, with one more line of what to do.
    pub(super) fn help(mut self, line: impl Into<String>) -> Self {
        self.help.push(line.into());
        self
    }

    /// As text. What a process says does nothing to a terminal.
    pub(super) fn lines(&self) -> Vec<String> {
        let code = self.code.as_ref().map(|code| format!("[{code}] ")).unwrap_or_default();
        let first = format!("{:<6}{code}{}", self.level.as_str(), self.what);
        let explain = self.code.as_ref().map(|code| format!("      loopwarden explain {code}"));
        let all = std::iter::once(first).chain(self.help.iter().map(|help| format!("      {help}"))).chain(explain);
        all.map(|line| line.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()).collect()
    }

    pub(super) fn to_json(&self) -> Value {
        json!({ "level": self.level.as_str(), "code": self.code, "what": self.what, "help": self.help })
    }
}
