//! Messages for people: a code, what happened, where, what to do.

use std::{fmt, sync::Arc};

use strsim::osa_distance;

/// Code of a key that is unknown.
pub(crate) const UNKNOWN: &str = "E0201";
/// Code of a value that is bad.
pub(crate) const BAD: &str = "E0202";

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Default,
    /// A shipped profile, by name.
    Profile(Arc<str>),
    /// A place in a file; line and column (in characters) begin at 1.
    File {
        /// The file as the user named it.
        file: Arc<str>,
        line: u32,
        column: u32,
    },
    /// An environment variable, by name.
    Environment(Arc<str>),
    /// A command-line flag, as `--set` or `--lanes`.
    Flag(Arc<str>),
    /// Handed in by the program, as the overrides of a policy case.
    Override,
    /// The operating system, as the host name.
    Host,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Profile(name) => write!(f, "profile {name}"),
            Self::File { file, line, column } => write!(f, "{file}:{line}:{column}"),
            Self::Environment(name) => write!(f, "environment variable {name}"),
            Self::Flag(name) => f.write_str(name),
            Self::Override => f.write_str("override"),
            Self::Host => f.write_str("host name"),
        }
    }
}

/// One message. Its `Display` is what people read, over several lines and without a line end after the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Documented code, as `E0102`; `W` codes are warnings.
    pub code: &'static str,
    /// What happened: a lower-case fragment.
    pub message: String,
    /// Where: the value's origin and its key.
    pub place: Option<(Origin, String)>,
    /// What to do, a line each.
    pub help: Vec<String>,
}

impl Diagnostic {
    /// A message without place and help.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), place: None, help: Vec::new() }
    }

    /// The same, with its place.
    pub fn at(mut self, origin: &Origin, key: impl Into<String>) -> Self {
        self.place = Some((origin.clone(), key.into()));
        self
    }

    /// The same, with one more line of help.
    pub fn help(mut self, line: impl Into<String>) -> Self {
        self.help.push(line.into());
        self
    }

    /// Whether it is a warning only.
    pub fn is_warning(&self) -> bool {
        self.code.starts_with('W')
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = if self.is_warning() { "warning" } else { "error" };
        write!(f, "{severity}[{}]: {}", self.code, self.message)?;
        if let Some((origin, key)) = &self.place {
            let verb = match origin {
                Origin::Default | Origin::Profile(_) | Origin::Host => "from",
                Origin::File { .. } => "set in",
                Origin::Environment(_) | Origin::Flag(_) | Origin::Override => "set by",
            };
            write!(f, "\n  {verb} {origin}")?;
            if !key.is_empty() {
                write!(f, " ({key})")?;
            }
        }
        self.help.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

impl std::error::Error for Diagnostic {}

/// All problems of one load; never empty. Its `Display` puts an empty line between two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    /// Problems in the order of a file's lines; those from elsewhere follow in the order they were found.
    pub(crate) fn sorted(mut diagnostics: Vec<Diagnostic>) -> Self {
        diagnostics.sort_by_key(|diagnostic| match &diagnostic.place {
            Some((Origin::File { line, column, .. }, _)) => (*line, *column),
            _ => (u32::MAX, 0),
        });
        Self(diagnostics)
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n\n")?;
            }
            diagnostic.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Self {
        Self(vec![diagnostic])
    }
}

/// Words longer than this get no suggestion: they are no typing error, and comparing is quadratic.
const CHARS_MAX: usize = 96;

/// "Did you mean": the candidate closest to `word`, if it is close enough to be meant: at most a third of the letters differ.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = word.chars().take(CHARS_MAX + 1).count();
    if letters > CHARS_MAX {
        return None;
    }
    let word = word.to_ascii_lowercase();
    let distance_max = (letters / 3).clamp(1, 4);
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= CHARS_MAX)
        .map(|candidate| (osa_distance(&word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= distance_max && *distance < candidate.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The same as the end of a message; empty where nothing is close.
pub(crate) fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    closest(word, candidates).map(|meant| format!(" (did you mean \"{meant}\"?)")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn a_word_far_from_all_gets_no_suggestion() {
        assert_eq!(closest("treshold", ["mode", "threshold"]), Some("threshold"));
        assert_eq!(closest("THRESHOLD", ["mode", "threshold"]), Some("threshold"));
        assert_eq!(closest("kakfa", ["mode", "kafka"]), Some("kafka"), "two letters that changed places are one error");
        assert_eq!(closest("colour", ["mode", "threshold"]), None);
        assert_eq!(closest("x", ["y"]), None, "one letter of one replaced is another word");
        assert_eq!(closest(&"m".repeat(200), ["mode"]), None);
    }
}
