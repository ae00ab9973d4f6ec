//! What a shell command line means, without running or fully parsing it.

use std::borrow::Cow;

use crate::event::Content;

/// Names the shell rules work with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShellRules {
    /// Tools that run a command line.
    pub tools: Vec<String>,
    /// Arguments that hold it: the first that is text, or an array of texts (joined by spaces).
    pub args: Vec<String>,
    /// Commands that read one file.
    pub readers: Vec<String>,
    /// Commands that write files.
    pub writers: Vec<String>,
    /// `foo` and `./foo` are one path.
    pub clean_paths: bool,
}

impl ShellRules {
    /// The command line of a shell tool's call; `None` for other tools or where no argument holds one.
    #[must_use]
    pub fn command<'a>(&self, _tool: &str, _args: &'a Content<'a>) -> Option<Cow<'a, str>> {
        None
    }

    /// The file that a simple read names (`detectors.md` 1.3, rule 1), as written unless `clean_paths`.
    #[must_use]
    pub fn simple_read<'a>(&self, _command: &'a str) -> Option<Cow<'a, str>> {
        None
    }

    /// Whether the command writes files: `cat`, `echo`, `printf` with `>`, `>>` or `<<`, or `heredoc` or `EOF` in it, or one of
    /// `writers` first (`detectors.md` 3.12).
    #[must_use]
    pub fn writes_files(&self, _command: &str) -> bool {
        false
    }
}
