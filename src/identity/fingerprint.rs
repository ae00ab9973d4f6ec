//! The coarse identity of a call: its primary arguments (attocode).

use std::borrow::Cow;

use crate::event::Content;
use crate::event::View;
use crate::event::json;
use crate::identity::canonical::Selection;
use crate::identity::canonical::canonical_json;
use crate::identity::canonical::hash_as_text;
use crate::identity::hash::Digest;
use crate::identity::hash::hash_parts;
use crate::identity::shell::ShellRules;

/// What stands between tool and path in the text of a shell read.
const READ_MARK: &str = ":file_read:";

/// How fingerprints are made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FingerprintRules {
    /// Top-level arguments that make the fingerprint where one of them is present. In the order of the policy.
    pub args: Vec<String>,
    /// What a shell command means.
    pub shell: ShellRules,
}

/// A fingerprint with what it says about the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint<'a> {
    /// SHA-256 of the fingerprint's text.
    pub digest: Digest,
    /// File that a simple shell read names (cleaned where the rules say so).
    pub shell_read: Option<Cow<'a, str>>,
    /// Whether a worker can recompute it from tool and `args`: false for shell reads, whose scope is then `opaque`.
    pub is_recomputable: bool,
}

/// The fingerprint of a call (`detectors.md` 1.3).
#[must_use]
pub fn fingerprint<'a>(tool: &str, args: &'a Content<'a>, rules: &FingerprintRules) -> Fingerprint<'a> {
    let shell_read = shell_read(tool, args, &rules.shell);
    let digest = match &shell_read {
        Some(path) => hash_parts(&[tool, READ_MARK, path]),
        None => hash_parts(&[tool, ":", &coarse_args(args, &rules.args)]),
    };
    Fingerprint { digest, is_recomputable: shell_read.is_none(), shell_read }
}

/// The text that [`fingerprint`] hashes, for people who want to know why two calls are one.
#[must_use]
pub fn fingerprint_text(tool: &str, args: &Content<'_>, rules: &FingerprintRules) -> String {
    match shell_read(tool, args, &rules.shell) {
        Some(path) => format!("{tool}{READ_MARK}{path}"),
        None => format!("{tool}:{}", coarse_args(args, &rules.args)),
    }
}

/// Rule 1: what a simple read names, whichever command reads it.
fn shell_read<'a>(tool: &str, args: &'a Content<'a>, shell: &ShellRules) -> Option<Cow<'a, str>> {
    match shell.command(tool, args)? {
        Cow::Borrowed(command) => shell.simple_read(command),
        Cow::Owned(command) => shell.simple_read(&command).map(|path| Cow::Owned(path.into_owned())),
    }
}

/// Rules 2 to 4: arguments that are no object as they are; else the primary ones that are present, or all.
fn coarse_args<'a>(args: &Content<'a>, primary: &[String]) -> Cow<'a, str> {
    match args.view() {
        View::Json(source) => {
            let holds_primary = json::fields(&source).any(|(key, _)| primary.iter().any(|name| *name == key));
            let only = if holds_primary { primary } else { &[] };
            Cow::Owned(canonical_json(&source, Selection { only, ..Selection::default() }))
        }
        View::Text(text) => text,
        View::Absent => Cow::Borrowed("{}"),
        View::Sha256(hash) => Cow::Owned(hash_as_text(hash)),
    }
}

#[cfg(test)]
mod tests {
    use super::FingerprintRules;
    use super::fingerprint;
    use super::fingerprint_text;
    use crate::event::Content;
    use crate::identity::hash::hash_text;
    use crate::identity::shell::ShellRules;

    fn rules() -> FingerprintRules {
        let names = |list: &[&str]| list.iter().map(ToString::to_string).collect();
        FingerprintRules {
            args: names(&["path", "file_path", "command", "pattern", "query", "url", "content", "filename", "offset", "limit"]),
            shell: ShellRules {
                tools: names(&["bash"]),
                args: names(&["command"]),
                readers: names(&["cat", "head", "tail"]),
                writers: Vec::new(),
                clean_paths: false,
            },
        }
    }

    #[test]
    fn the_first_rule_that_applies_makes_the_text() {
        for (tool, args, text, is_recomputable) in [
            ("bash", r#"{"command":"head -20 foo.ts","timeout":1}"#, "bash:file_read:foo.ts", false),
            ("bash", r#"{"command":"cat \"foo.ts\""}"#, r#"bash:{"command":"cat \"foo.ts\""}"#, true),
            ("bash", r#"{"command":"cat \tfoo.ts","b":1}"#, "bash:file_read:foo.ts", false),
            ("bash", r#"{"timeout":1,"command":"ls | cat f"}"#, r#"bash:{"command":"ls | cat f"}"#, true),
            ("sh", r#"{"command":"cat foo.ts"}"#, r#"sh:{"command":"cat foo.ts"}"#, true),
            ("tool", r#""not-json""#, "tool:not-json", true),
            ("tool", "[2, 1]", "tool:[2,1]", true),
            ("tool", r#"{"z":1,"path":null}"#, r#"tool:{"path":null}"#, true),
            ("tool", r#""{\"z\":1, \"path\":\"p\"}""#, r#"tool:{"path":"p"}"#, true),
            ("tool", r#"{"z":1,"a":{"path":2}}"#, r#"tool:{"a":{"path":2},"z":1}"#, true),
        ] {
            let args = Content::Raw(args);
            let found = fingerprint(tool, &args, &rules());
            assert_eq!(fingerprint_text(tool, &args, &rules()), text);
            assert_eq!(found.digest, hash_text(text), "{text}");
            assert_eq!(found.is_recomputable, is_recomputable, "{text}");
        }
        assert_eq!(fingerprint_text("t", &Content::Absent, &rules()), "t:{}");
        assert_eq!(fingerprint_text("t", &Content::Sha256([0; 32]), &rules()), format!("t:sha256:{}", "0".repeat(64)));
    }
}
