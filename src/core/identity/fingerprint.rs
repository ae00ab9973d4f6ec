//! The coarse identity of a call: its target (attocode).

use std::{borrow::Cow, sync::Arc};

use crate::identity::arguments::{Arguments, holds};
use crate::identity::hash::{Digest, hash_parts};
use crate::identity::shell::ShellRules;

/// What stands between tool and path in the text of a shell read.
const READ_MARK: &str = ":file_read:";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FingerprintRules {
    /// Top-level arguments that name what a call is about: where one of them is present, `args` make the fingerprint.
    pub targets: Vec<String>,
    /// The targets, and behind them what is kept beside them: which part of it, how much. In the order of the policy, and shared with the
    /// recipes that name them.
    pub args: Arc<[String]>,
    /// What a shell command means.
    pub shell: ShellRules,
}

impl FingerprintRules {
    /// Top-level arguments that choose which part of the target is meant, or how much of it.
    #[must_use]
    pub fn modifiers(&self) -> &[String] {
        self.args.get(self.targets.len()..).unwrap_or_default()
    }
}

/// The fingerprint of a call (page `detection`): SHA-256 of [`fingerprint_text`]; `None` where that is none, and the call identity
/// stands for it. `read` is what [`ShellRules::simple_read`] has found in the command of a shell tool.
#[must_use]
pub fn fingerprint(tool: &str, args: &Arguments<'_>, read: Option<&str>, rules: &FingerprintRules) -> Option<Digest> {
    let (mark, what) = coarse(args, read, rules)?;
    Some(hash_parts(&[tool, mark, &what]))
}

/// The text that [`fingerprint`] hashes, for people who want to know why two calls are one.
#[must_use]
pub fn fingerprint_text(tool: &str, args: &Arguments<'_>, rules: &FingerprintRules) -> Option<String> {
    let command = rules.shell.command(tool, args);
    let read = command.as_deref().and_then(|command| rules.shell.simple_read(command));
    let (mark, what) = coarse(args, read.as_deref(), rules)?;
    Some(format!("{tool}{mark}{what}"))
}

/// What stands behind the tool. Rule 1: of a simple read the file, whichever command reads it. Rules 2 to 4: arguments that are no
/// object as they are; where there is a target, those of the policy that are present; else all. Rule 5: a `limit` without a target
/// does not name what the call is about, so nothing coarser than the whole call does. That is no text of this form: a worker, which is
/// given `args`, would look at the `limit` alone. The call identity has a recipe of its own.
fn coarse<'a>(args: &'a Arguments<'_>, read: Option<&'a str>, rules: &FingerprintRules) -> Option<(&'static str, Cow<'a, str>)> {
    if let Some(path) = read {
        return Some((READ_MARK, Cow::Borrowed(path)));
    }
    let kept = &rules.args;
    let modifiers = rules.modifiers();
    if args.has_any(&rules.targets) {
        Some((":", args.chosen(|name| holds(kept, name))))
    } else if args.has_any(modifiers) {
        None
    } else {
        Some((":", Cow::Borrowed(args.text())))
    }
}

#[cfg(test)]
mod tests {
    use super::{FingerprintRules, fingerprint, fingerprint_text};
    use crate::event::Content;
    use crate::identity::{arguments::Arguments, hash::hash_text, phrases::Phrases, shell::ShellRules};

    fn rules() -> FingerprintRules {
        let names = |list: &[&str]| -> Vec<String> { list.iter().map(ToString::to_string).collect() };
        FingerprintRules {
            targets: names(&["path", "command", "query"]),
            args: names(&["path", "command", "query", "content", "offset", "limit"]).into(),
            shell: ShellRules {
                tools: names(&["bash"]),
                args: names(&["command"]),
                readers: names(&["cat", "head", "tail"]),
                writers: Vec::new(),
                waiters: Phrases::default(),
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
            ("tool", r#"{"z":1,"path":"p","limit":9}"#, r#"tool:{"limit":9,"path":"p"}"#),
        ] {
            let args = Content::Raw(args);
            let (args, rules) = (Arguments::of(&args), rules());
            let command = rules.shell.command(tool, &args);
            let read = command.as_deref().and_then(|command| rules.shell.simple_read(command));
            assert_eq!(fingerprint_text(tool, &args, &rules).unwrap(), text);
            assert_eq!(fingerprint(tool, &args, read.as_deref(), &rules), Some(hash_text(text)), "{text}");
        }
        let of = |args: Content<'_>| fingerprint_text("t", &Arguments::of(&args), &rules()).unwrap();
        assert_eq!(of(Content::Absent), "t:{}");
        assert_eq!(of(Content::Sha256([0; 32])), format!("t:sha256:{}", "0".repeat(64)));
    }

    #[test]
    fn what_is_kept_beside_a_target_is_none_itself() {
        let of = |args: &str| fingerprint_text("t", &Arguments::of(&Content::Raw(args)), &rules());
        for args in [r#"{"sql":"x","limit":9}"#, r#"{"to":"a","content":"hello"}"#, r#"{"limit":9}"#] {
            assert_eq!(of(args), None, "{args}");
        }
        let plain = FingerprintRules { targets: rules().args.to_vec(), ..rules() };
        let args = Content::Raw(r#"{"sql":"x","limit":9}"#);
        assert_eq!(fingerprint_text("t", &Arguments::of(&args), &plain).unwrap(), r#"t:{"limit":9}"#);
    }

    #[test]
    fn a_worker_that_knows_only_the_args_matches_the_same_calls() {
        // The recipe `coarse` as the schema has it: only those of `args` that are present, all where none is.
        let worker = |args: &Arguments<'_>| {
            let kept = rules().args;
            let is_any = args.has_any(&kept);
            hash_text(&format!("t:{}", args.chosen(|name| !is_any || kept.iter().any(|arg| arg == name))))
        };
        let calls = [
            r#"{"path":"p"}"#,
            r#"{"path":"p","z":1}"#,
            r#"{"path":"p","limit":9}"#,
            r#"{"path":"p","limit":9,"z":1}"#,
            r#"{"limit":9}"#,
            r#"{"limit":9,"z":1}"#,
            r#"{"limit":9,"z":2}"#,
            r#"{"z":1}"#,
            "{}",
        ];
        for known in calls {
            let known = Content::Raw(known);
            let Some(known) = fingerprint("t", &Arguments::of(&known), None, &rules()) else { continue };
            for call in calls {
                let args = Content::Raw(call);
                let args = Arguments::of(&args);
                let is_meant = fingerprint("t", &args, None, &rules()) == Some(known);
                assert_eq!(worker(&args) == known, is_meant, "{call}");
            }
        }
    }
}
