//! What a shell command line means, without running or fully parsing it.

use std::borrow::Cow;

use crate::event::Content;
use crate::event::View;
use crate::event::json;

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

/// Commands whose redirection writes a file.
const PRINTERS: [&str; 3] = ["cat", "echo", "printf"];

impl ShellRules {
    /// The command line of a shell tool's call; `None` for other tools or where no argument holds one.
    #[must_use]
    pub fn command<'a>(&self, tool: &str, args: &'a Content<'a>) -> Option<Cow<'a, str>> {
        if !self.tools.iter().any(|name| name == tool) {
            return None;
        }
        match args.view() {
            View::Json(Cow::Borrowed(source)) => self.command_in(source),
            View::Json(Cow::Owned(source)) => self.command_in(&source).map(|command| Cow::Owned(command.into_owned())),
            View::Absent | View::Text(_) | View::Sha256(_) => None,
        }
    }

    fn command_in<'a>(&self, source: &'a str) -> Option<Cow<'a, str>> {
        self.args.iter().find_map(|name| {
            let (_, value) = json::fields(source).filter(|(key, _)| key == name).last()?;
            command_text(value)
        })
    }

    /// The file that a simple read names (`detectors.md` 1.3, rule 1), as written unless `clean_paths`.
    ///
    /// As the expression `^\s*(READER)(\s+-\S+)*\s+(PATH)\s*$` on commands without `|`, `>`, `<`, `;`, `&`.
    #[must_use]
    pub fn simple_read<'a>(&self, command: &'a str) -> Option<Cow<'a, str>> {
        if command.contains(['|', '>', '<', ';', '&']) {
            return None;
        }
        let mut words = command.split_whitespace();
        let reader = words.next()?;
        let path = words.next_back()?;
        let is_simple = self.readers.iter().any(|name| name == reader)
            && words.all(|word| word.len() > 1 && word.starts_with('-'))
            && !path.starts_with('-')
            && path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_./@-".contains(&byte));
        if !is_simple {
            return None;
        }
        Some(if self.clean_paths { clean_path(path) } else { Cow::Borrowed(path) })
    }

    /// Whether the command writes files: `cat`, `echo`, `printf` with `>`, `>>` or `<<`, or `heredoc` or `EOF` in it, or one of
    /// `writers` first (`detectors.md` 3.12). The redirection counts on the line of the command, as in attocode.
    #[must_use]
    pub fn writes_files(&self, command: &str) -> bool {
        let command = command.trim_start();
        let first_end =
            command.find(|character: char| !(character.is_alphanumeric() || character == '_')).unwrap_or(command.len());
        let (first, _) = command.split_at(first_end);
        let line = command.lines().next().unwrap_or_default();
        let prints_to_file = PRINTERS.contains(&first) && (line.contains('>') || line.contains("<<"));
        let first_word = command.split_whitespace().next().unwrap_or_default();
        prints_to_file
            || command.contains("heredoc")
            || command.contains("EOF")
            || self.writers.iter().any(|writer| writer == first_word)
    }
}

/// Whether `words`, which may hold spaces, stands in the text with neither a letter, a digit nor `_` beside it.
#[must_use]
pub fn contains_word(text: &str, words: &str) -> bool {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    !words.is_empty()
        && text.match_indices(words).any(|(at, found)| {
            let (before, rest) = text.split_at(at);
            let after = rest.strip_prefix(found).unwrap_or_default();
            !before.chars().next_back().is_some_and(is_word) && !after.chars().next().is_some_and(is_word)
        })
}

/// A command line given as text, or as an array of texts.
fn command_text(value: &str) -> Option<Cow<'_, str>> {
    if json::is_string(value) {
        return Some(json::unquote(value));
    }
    if !value.starts_with('[') {
        return None;
    }
    let mut words = json::elements(value).map(|word| json::is_string(word).then(|| json::unquote(word)));
    let first = words.next()??;
    words.try_fold(first, |line, word| Some(Cow::Owned(line.into_owned() + " " + &word?)))
}

/// Without `.` and empty parts; `..` stays, since links make it mean anything.
fn clean_path(path: &str) -> Cow<'_, str> {
    let is_part = |part: &&str| !part.is_empty() && *part != ".";
    let is_clean = path.strip_prefix('/').unwrap_or(path).split('/').all(|part| is_part(&part));
    if is_clean {
        return Cow::Borrowed(path);
    }
    let parts: Vec<&str> = path.split('/').filter(is_part).collect();
    let root = if path.starts_with('/') { "/" } else { "" };
    let clean = format!("{root}{}", parts.join("/"));
    Cow::Owned(if clean.is_empty() { ".".to_owned() } else { clean })
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::ShellRules;
    use super::contains_word;
    use crate::event::Content;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(ToString::to_string).collect()
    }

    fn rules() -> ShellRules {
        ShellRules {
            tools: names(&["bash"]),
            args: names(&["command", "cmd"]),
            readers: names(&["cat", "head", "wc"]),
            writers: names(&["sed", "awk", "tee"]),
            clean_paths: false,
        }
    }

    #[test]
    fn the_command_is_the_first_argument_that_holds_one() {
        for (args, command) in [
            (r#"{"command":"ls -la"}"#, Some("ls -la")),
            (r#"{"cmd":"a","command":"b"}"#, Some("b")),
            (r#"{"command":5,"cmd":"a"}"#, Some("a")),
            (r#"{"cmd":["cat", "a\tb"]}"#, Some("cat a\tb")),
            (r#"{"cmd":["cat", 5]}"#, None),
            (r#"{"cmd":[]}"#, None),
            (r#"{"command":"a","command":"b"}"#, Some("b")),
            (r#""{\"cmd\": \"ls\"}""#, Some("ls")),
            (r#""ls""#, None),
            ("[]", None),
        ] {
            assert_eq!(rules().command("bash", &Content::Raw(args)).as_deref(), command, "{args}");
        }
        assert_eq!(rules().command("Bash", &Content::Raw(r#"{"cmd":"ls"}"#)), None);
        assert_eq!(rules().command("bash", &Content::Absent), None);
    }

    #[test]
    fn a_simple_read_names_one_file() {
        for (command, path) in [
            ("cat /src/foo.ts", Some("/src/foo.ts")),
            ("  head -20 f ", Some("f")),
            ("head -n 20 f", None),
            ("cat ./f", Some("./f")),
            ("cat", None),
            ("cat -n", None),
            ("cat - f", None),
            ("cat f g", None),
            ("cat 'f'", None),
            ("cat f|wc", None),
            ("cat f > g", None),
            ("cat f; ls", None),
            ("cat f &", None),
            ("npm test", None),
            ("concat f", None),
        ] {
            assert_eq!(rules().simple_read(command).as_deref(), path, "{command}");
        }
    }

    #[test]
    fn clean_paths_have_one_spelling() {
        let rules = ShellRules { clean_paths: true, ..rules() };
        for (path, clean) in [
            ("foo", "foo"),
            ("./foo", "foo"),
            ("a//b/./c/", "a/b/c"),
            ("/a/../b", "/a/../b"),
            (".", "."),
            ("./", "."),
            ("//a", "/a"),
            ("/", "/"),
        ] {
            assert_eq!(rules.simple_read(&format!("cat {path}")).as_deref(), Some(clean), "{path}");
        }
        assert!(matches!(rules.simple_read("cat a/b"), Some(Cow::Borrowed("a/b"))));
    }

    #[test]
    fn writing_is_told_from_printing() {
        for (command, writes) in [
            ("cat > f", true),
            (" echo a >> f", true),
            ("printf x>f", true),
            ("cat <<X\nhi\nX", true),
            ("cat f", false),
            ("echo a\nls > f", false),
            ("ls > f", false),
            ("python - <<EOF", true),
            ("sed -i s/a/b/ f", true),
            ("sedate f", false),
            ("tee f", true),
            ("", false),
        ] {
            assert_eq!(rules().writes_files(command), writes, "{command}");
        }
    }

    #[test]
    fn words_stand_alone() {
        for (text, words, found) in [
            ("cargo test -p core", "cargo test", true),
            ("cargo tests", "cargo test", false),
            ("cat latest", "test", false),
            ("npm run test:unit", "test", true),
            ("my_test", "test", false),
            ("testtest test", "test", true),
            ("größetest", "test", false),
            ("x", "", false),
        ] {
            assert_eq!(contains_word(text, words), found, "{text} / {words}");
        }
    }
}
