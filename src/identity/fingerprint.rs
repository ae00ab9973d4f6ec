//! The coarse identity of a call: its primary arguments (attocode).

use std::borrow::Cow;
use std::sync::Arc;

use crate::identity::arguments::Arguments;
use crate::identity::arguments::holds;
use crate::identity::hash::Digest;
use crate::identity::hash::hash_parts;
use crate::identity::shell::ShellRules;

/// What stands between tool and path in the text of a shell read.
const READ_MARK: &str = ":file_read:";

/// How fingerprints are made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FingerprintRules {
    /// Top-level arguments that make the fingerprint where one of them is present. In the order of the policy, and shared with the
    /// recipes that name them.
    pub args: Arc<[String]>,
    /// What a shell command means.
    pub shell: ShellRules,
}

/// The fingerprint of a call (page `detection`): SHA-256 of [`fingerprint_text`]. `read` is what [`ShellRules::simple_read`] has
/// found in the command of a shell tool.
#[must_use]
pub fn fingerprint(tool: &str, args: &Arguments<'_>, read: Option<&str>, rules: &FingerprintRules) -> Digest {
    let (mark, what) = coarse(args, read, rules);
    hash_parts(&[tool, mark, &what])
}

/// The text that [`fingerprint`] hashes, for people who want to know why two calls are one.
#[must_use]
pub fn fingerprint_text(tool: &str, args: &Arguments<'_>, rules: &FingerprintRules) -> String {
    let command = rules.shell.command(tool, args);
    let read = command.as_deref().and_then(|command| rules.shell.simple_read(command));
    let (mark, what) = coarse(args, read.as_deref(), rules);
    format!("{tool}{mark}{what}")
}

/// What stands behind the tool. Rule 1: of a simple read the file, whichever command reads it. Rules 2 to 4: arguments that are no
/// object as they are; else the primary ones that are present, or all.
fn coarse<'a>(args: &'a Arguments<'_>, read: Option<&'a str>, rules: &FingerprintRules) -> (&'static str, Cow<'a, str>) {
    if let Some(path) = read {
        return (READ_MARK, Cow::Borrowed(path));
    }
    let primary = &rules.args;
    (":", if args.has_any(primary) { args.chosen(|name| holds(primary, name)) } else { Cow::Borrowed(args.text()) })
}

#[cfg(test)]
mod tests {
    use super::FingerprintRules;
    use super::fingerprint;
    use super::fingerprint_text;
    use crate::event::Content;
    use crate::identity::arguments::Arguments;
    use crate::identity::hash::hash_text;
    use crate::identity::shell::ShellRules;

    fn rules() -> FingerprintRules {
        let names = |list: &[&str]| -> Vec<String> { list.iter().map(ToString::to_string).collect() };
        let primary = ["path", "file_path", "command", "pattern", "query", "url", "content", "filename", "offset", "limit"];
        FingerprintRules {
            args: names(&primary).into(),
            shell: ShellRules {
                tools: names(&["bash"]),
                args: names(&["command"]),
                readers: names(&["cat", "head", "tail"]),
                writers: Vec::new(),
                waiters: Vec::new(),
                clean_paths: false,
            },
        }
    }

    #[test]
    fn the_first_rule_that_applies_makes_the_text() {
        for (tool, args, text) in [
            ("bash", r#"{"command":"head -20 foo.ts","timeout":1}"#, "bash:file_read:foo.ts"),
            ("bash", r#"{"command":"cat \"foo.ts\""}"#, r#"bash:{"command":"cat \"foo.ts\""}"#),
            ("bash", r#"{"command":"cat \tfoo.ts","b":1}"#, "bash:file_read:foo.ts"),
            ("bash", r#"{"timeout":1,"command":"ls | cat f"}"#, r#"bash:{"command":"ls | cat f"}"#),
            ("sh", r#"{"command":"cat foo.ts"}"#, r#"sh:{"command":"cat foo.ts"}"#),
            ("tool", r#""not-json""#, "tool:not-json"),
            ("tool", "[2, 1]", "tool:[2,1]"),
            ("tool", r#"{"z":1,"path":null}"#, r#"tool:{"path":null}"#),
            ("tool", r#""{\"z\":1, \"path\":\"p\"}""#, r#"tool:{"path":"p"}"#),
            ("tool", r#"{"z":1,"a":{"path":2}}"#, r#"tool:{"a":{"path":2},"z":1}"#),
        ] {
            let args = Content::Raw(args);
            let (args, rules) = (Arguments::of(&args), rules());
            let command = rules.shell.command(tool, &args);
            let read = command.as_deref().and_then(|command| rules.shell.simple_read(command));
            assert_eq!(fingerprint_text(tool, &args, &rules), text);
            assert_eq!(fingerprint(tool, &args, read.as_deref(), &rules), hash_text(text), "{text}");
        }
        let of = |args: Content<'_>| fingerprint_text("t", &Arguments::of(&args), &rules());
        assert_eq!(of(Content::Absent), "t:{}");
        assert_eq!(of(Content::Sha256([0; 32])), format!("t:sha256:{}", "0".repeat(64)));
    }
}
