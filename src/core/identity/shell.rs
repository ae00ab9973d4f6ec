//! What a shell command line means, without running or fully parsing it.

use std::borrow::Cow;

use crate::event::json;
use crate::identity::arguments::{Arguments, holds};
use crate::identity::phrases::Phrases;

/// Names the shell rules work with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShellRules {
    /// Tools that run a command line.
    pub tools: Vec<String>,
    /// Arguments that hold it: the first that is text, or an array of texts (joined by spaces).
    pub args: Vec<String>,
    /// Commands that read one file.
    pub readers: Vec<String>,
    /// Commands that write files, by name.
    pub writers: Vec<String>,
    /// Tools and commands that let time pass.
    pub waiters: Phrases,
    /// `foo` and `./foo` are one path.
    pub clean_paths: bool,
}

/// Commands whose redirection writes a file.
const PRINTERS: [&str; 3] = ["cat", "echo", "printf"];

impl ShellRules {
    /// The command line of a shell tool's call; `None` for other tools or where no argument holds one.
    #[must_use]
    pub fn command<'a>(&self, tool: &str, args: &'a Arguments<'_>) -> Option<Cow<'a, str>> {
        if !holds(&self.tools, tool) {
            return None;
        }
        self.args.iter().find_map(|name| command_text(args.value(name)?))
    }

    /// The file that a simple read names (page `detection`), as written unless `clean_paths`.
    ///
    /// As the expression `^\s*(READER)(\s+-\S+)*\s+(PATH)\s*$` on commands without `|`, `>`, `<`, `;`, `&`.
    #[must_use]
    pub fn simple_read<'a>(&self, command: &'a str) -> Option<Cow<'a, str>> {
        let mut words = command.split_whitespace();
        if !holds(&self.readers, words.next()?) || command.contains(['|', '>', '<', ';', '&']) {
            return None;
        }
        let path = words.next_back()?;
        let is_simple = words.all(|word| word.len() > 1 && word.starts_with('-'))
            && !path.starts_with('-')
            && path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_./@-".contains(&byte));
        if !is_simple {
            return None;
        }
        Some(if self.clean_paths { clean_path(path) } else { Cow::Borrowed(path) })
    }

    /// Whether the command is about writing files: `cat`, `echo`, `printf` with `>`, `>>` or `<<`, or `heredoc` or `EOF` in it, or one
    /// of `writers` first (page `detection`). The redirection counts on the line of the command, as in attocode. Enough to choose words
    /// by; `sed -n` and `cat f 2>/dev/null` are among them.
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

    /// Whether one of the line's commands lets time pass: `sleep 30; kubectl get pods`.
    #[must_use]
    pub fn waits(&self, command: &str) -> bool {
        // Hardly any line holds one of the words at all.
        let is_waiter = |words: &_| self.waiters.list().iter().any(|waiter| begins_with(Clone::clone(words), waiter));
        self.waiters.stand_in(command) && commands(command).any(|words| is_waiter(&words))
    }

    /// Whether a command that [`Self::writes_files`] does change a file as far as can be seen: `sed` and `awk` in place, a printer or one
    /// of these with a redirection to a file or through `tee`, any other with a here-document, any other of `writers`.
    #[must_use]
    pub fn changes_files(&self, command: &str) -> bool {
        let first = command.split_whitespace().next().unwrap_or_default();
        if PRINTERS.contains(&first) || FILTERS.contains(&first) {
            let is_in_place = FILTERS.contains(&first) && edits_in_place(command);
            let line = command.trim_start().lines().next().unwrap_or_default();
            return is_in_place || redirects_to_file(line);
        }
        command.contains("<<") || self.writers.iter().any(|writer| writer == first)
    }
}

/// A line without the changes of directory in front of its work: `cd /repo && sed -i s/a/b/ f`.
#[must_use]
pub fn after_cd(line: &str) -> &str {
    let mut line = line.trim_start();
    while let Some(rest) = line.strip_prefix("cd ") {
        let Some((_, work)) = rest.split_once("&&").or_else(|| rest.split_once([';', '\n'])) else { break };
        line = work.trim_start();
    }
    line
}

/// Words that a command may follow, with options and numbers between: `timeout -k 5 60`.
const BEFORE_A_COMMAND: [&str; 13] =
    ["do", "then", "else", "while", "until", "if", "!", "{", "time", "timeout", "sudo", "nohup", "exec"];

/// The words of each command of a line. What is quoted is not distinguished: it costs no more than a nudge that comes later.
fn commands(line: &str) -> impl Iterator<Item = impl Iterator<Item = &str> + Clone> {
    let is_before = |word: &&str| BEFORE_A_COMMAND.contains(word) || word.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    // Each of these is one byte: lines may be long.
    let mut from = Some(0);
    let parts = std::iter::from_fn(move || {
        let rest = line.get(from?..)?;
        let end = rest.bytes().position(|byte| matches!(byte, b';' | b'&' | b'|' | b'\n' | b'(' | b')'));
        from = end.map(|end| line.len() - rest.len() + end + 1);
        rest.get(..end.unwrap_or(rest.len()))
    });
    parts.map(move |part| part.split_whitespace().skip_while(is_before))
}

/// Whether a command's first words are those of `beginning`.
fn begins_with<'a>(mut command: impl Iterator<Item = &'a str>, beginning: &str) -> bool {
    beginning.split_whitespace().all(|word| command.next() == Some(word))
}

/// Commands that print what they read unless an option forbids it.
const FILTERS: [&str; 3] = ["sed", "awk", "gawk"];

/// Whether an option of the first command of a line makes it edit in place: `-i`, `-i.bak`, `-Ei`, `--in-place`, awk's `-i inplace`.
fn edits_in_place(command: &str) -> bool {
    let is_in_place = |word: &str| {
        word.starts_with("--in-place")
            || word
                .strip_prefix('-')
                .is_some_and(|letters| letters.chars().take_while(char::is_ascii_alphabetic).any(|letter| letter == 'i'))
    };
    command.split_whitespace().skip(1).take_while(|word| !matches!(*word, "|" | "||" | "&&" | ";")).any(is_in_place)
}

/// Whether a line sends output to a file, by a redirection or through `tee`. Not to another descriptor, nor to a device; what is quoted or
/// escaped redirects nothing.
fn redirects_to_file(line: &str) -> bool {
    let mut quote = None;
    let mut characters = line.char_indices();
    while let Some((at, character)) = characters.next() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (None | Some('"'), '\\') => _ = characters.next(),
            (None, '\'' | '"') => quote = Some(character),
            (None, '>') => {
                let target = line.get(at..).unwrap_or_default().trim_start_matches(['>', '|']).trim_start();
                let is_device = target.is_empty() || target.starts_with('&') || target.starts_with("/dev/");
                if !is_device {
                    return true;
                }
            }
            (None, '|') => {
                let next = line.get(at..).unwrap_or_default().trim_start_matches(['|', '&']).split_whitespace().next();
                if next == Some("tee") {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
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

    use super::{ShellRules, after_cd};
    use crate::event::Content;
    use crate::identity::arguments::Arguments;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(ToString::to_string).collect()
    }

    fn rules() -> ShellRules {
        ShellRules {
            tools: names(&["bash"]),
            args: names(&["command", "cmd"]),
            readers: names(&["cat", "head", "wc"]),
            writers: names(&["sed", "awk", "tee"]),
            waiters: names(&["sleep", "gh run watch"]).into(),
            clean_paths: false,
        }
    }

    #[test]
    fn a_line_waits_where_one_of_its_commands_does() {
        for line in [
            "sleep 30",
            "  sleep 5 && gh run view",
            "make & sleep 1",
            "for i in 1 2; do sleep 5; done",
            "(sleep 3; ls)",
            "ls\nsleep 1",
            "timeout 60 sleep 90",
            "sudo timeout -k 5 60s sleep 90",
            "make; gh run watch 7",
        ] {
            assert!(rules().waits(line), "{line}");
        }
        for line in [
            "echo sleep",
            "man sleep",
            "sleepy 3",
            "grep -r sleep src",
            "./sleep.sh",
            "",
            "gh run view 7",
            "gh run",
            "echo gh run watch",
        ] {
            assert!(!rules().waits(line), "{line}");
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
            let args = Arguments::of(&Content::Raw(args));
            assert_eq!(rules().command("bash", &args).as_deref(), command, "{}", args.text());
        }
        assert_eq!(rules().command("Bash", &Arguments::of(&Content::Raw(r#"{"cmd":"ls"}"#))), None);
        assert_eq!(rules().command("bash", &Arguments::of(&Content::Absent)), None);
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
    fn writing_is_distinguished_from_printing() {
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
    fn only_what_writes_a_file_changes_it() {
        for (command, changes) in [
            ("cat > f", true),
            (" echo a >> f", true),
            ("printf x>f", true),
            ("echo a >| f", true),
            ("cat a b &> f", true),
            ("cat <<'EOF' > src/f.rs\nfn a() -> u8 {}\nEOF", true),
            ("cat <<EOF | tee -a f\nx\nEOF", true),
            ("cat f 2>/dev/null", false),
            ("cat f > /dev/null 2>&1", false),
            ("cat f >&2", false),
            ("echo 'a > b'", false),
            (r#"echo "a > b" \> c"#, false),
            ("cat <<EOF\na > b\nEOF", false),
            ("python - <<EOF", true),
            ("grep -n EOF f", false),
            ("sed -n '1,20p' build.log", false),
            ("sed -n '/a/p' f | grep -i b", false),
            ("sed -i s/a/b/ f", true),
            ("sed -Ei.bak s/a/b/ f", true),
            ("sed --in-place s/a/b/ f", true),
            ("sed -e s/a/b/ --in-place=.bak f", true),
            ("sed s/a/b/ f > g", true),
            ("awk '$1 > 5' f", false),
            ("awk -i inplace 1 f", true),
            ("tee f", true),
        ] {
            assert_eq!(rules().writes_files(command) && rules().changes_files(command), changes, "{command}");
        }
    }

    #[test]
    fn work_begins_behind_the_changes_of_directory() {
        for (line, work) in [
            ("cd /repo && sed -i s/a/b/ f", "sed -i s/a/b/ f"),
            (" cd a; cd 'b c'\nmake", "make"),
            ("cd /repo", "cd /repo"),
            ("cdrecord a && b", "cdrecord a && b"),
            ("make && cd a && ls", "make && cd a && ls"),
        ] {
            assert_eq!(after_cd(line), work);
        }
    }
}
