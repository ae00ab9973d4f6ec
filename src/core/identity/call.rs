//! Identity of a whole call: tool and canonical arguments.

use std::{borrow::Cow, sync::Arc};

use crate::identity::arguments::{Arguments, holds};
use crate::identity::hash::{Digest, hash_parts};

/// Which top-level arguments make the identity of a tool's calls. Shared with the recipes that name them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallRules {
    /// Only these; empty = all. Sorted.
    pub args: Arc<[String]>,
    /// Arguments that are left out of the identity, sorted.
    pub args_ignored: Arc<[String]>,
}

/// SHA-256 of `tool + "\n" + canonical arguments`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallIdentity(pub Digest);

impl CallRules {
    /// What of the arguments counts.
    fn counted<'a>(&self, args: &'a Arguments<'_>) -> Cow<'a, str> {
        if self.args.is_empty() && self.args_ignored.is_empty() {
            return Cow::Borrowed(args.text());
        }
        args.chosen(|name| (self.args.is_empty() || holds(&self.args, name)) && !holds(&self.args_ignored, name))
    }
}

/// Identity of a call under its tool's rules.
#[must_use]
pub fn call_identity(tool: &str, args: &Arguments<'_>, rules: &CallRules) -> CallIdentity {
    CallIdentity(hash_parts(&[tool, "\n", &rules.counted(args)]))
}

/// SHA-256 of the canonical arguments alone: a definition, whatever tool starts it.
#[must_use]
pub fn args_identity(args: &Arguments<'_>, rules: &CallRules) -> Digest {
    hash_parts(&[&rules.counted(args)])
}

#[cfg(test)]
mod tests {
    use super::{CallRules, args_identity, call_identity};
    use crate::event::Content;
    use crate::identity::arguments::Arguments;

    fn call(tool: &str, args: &Content<'_>, rules: &CallRules) -> String {
        call_identity(tool, &Arguments::of(args), rules).0.to_string()
    }

    #[test]
    fn absent_and_empty_arguments_are_one_call() {
        let rules = CallRules::default();
        assert_eq!(call("t", &Content::Absent, &rules), call("t", &Content::Raw("{}"), &rules));
        assert_eq!(call("t", &Content::Raw("\"{ }\""), &rules), call("t", &Content::Raw("{}"), &rules));
    }

    #[test]
    fn a_hash_stands_for_the_arguments_as_text() {
        let rules = CallRules::default();
        let text = format!("\"sha256:{}\"", "0a".repeat(32));
        assert_eq!(call("t", &Content::Sha256([10; 32]), &rules), call("t", &Content::Raw(&text), &rules));
    }

    #[test]
    fn rules_choose_and_drop_top_level_arguments() {
        let full = Content::Raw(r#"{"command":"ls","description":"look","timeout":5}"#);
        let bare = Content::Raw(r#"{"command":"ls"}"#);
        let all = CallRules::default();
        let chosen = CallRules { args: ["command".to_owned()].into(), ..CallRules::default() };
        let dropped = CallRules { args_ignored: ["description".to_owned(), "timeout".to_owned()].into(), ..CallRules::default() };
        assert_ne!(call("t", &full, &all), call("t", &bare, &all));
        assert_eq!(call("t", &full, &chosen), call("t", &bare, &all));
        assert_eq!(call("t", &full, &dropped), call("t", &bare, &all));
        assert_eq!(args_identity(&Arguments::of(&full), &dropped), args_identity(&Arguments::of(&bare), &all));
        assert_eq!(call("t", &Content::Raw("[1]"), &chosen), call("t", &Content::Raw("[1]"), &all));
    }
}
