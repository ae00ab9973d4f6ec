//! Whether a verdict binds a call: its fingerprint is made again, from the arguments as the model wrote them.

use std::cell::RefCell;

use loopwarden_core::identity::{Arguments, CallRules, Hash128, IdentityRecipe, call_identity};
use loopwarden_core::{engine::Scope, event::Content};

/// Recipes whose fingerprints of one call are remembered: commands of one policy name few.
const REMEMBERED: usize = 16;

/// A call that verdicts are held against.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) tool: String,
    args: Arguments<'static>,
    made: RefCell<Vec<(IdentityRecipe, Hash128)>>,
}

/// What makes two calls of an agent the same: the tool, and the identity of all arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallKey<'a> {
    pub(crate) tool: &'a str,
    pub(crate) identity: Hash128,
}

impl Call {
    pub(crate) fn new(tool: &str, args: &Content<'_>) -> Self {
        Self { tool: tool.to_owned(), args: Arguments::of(args).into_owned(), made: RefCell::default() }
    }

    pub(crate) fn key(&self) -> CallKey<'_> {
        let identity = call_identity(&self.tool, &self.args, &CallRules::default()).0.hash128();
        CallKey { tool: &self.tool, identity }
    }

    /// What a recipe makes of it, made once for each recipe; none where nothing can be made.
    pub(crate) fn fingerprint(&self, recipe: &IdentityRecipe) -> Option<Hash128> {
        let mut made = self.made.borrow_mut();
        if let Some((_, hash)) = made.iter().find(|(known, _)| known == recipe) {
            return Some(*hash);
        }
        let hash = recipe.fingerprint(&self.tool, &self.args)?;
        if made.len() < REMEMBERED {
            made.push((recipe.clone(), hash));
        }
        Some(hash)
    }

    /// Whether it is among the calls of a scope. A call whose fingerprint cannot be made is not.
    pub(crate) fn is_in(&self, scope: &Scope) -> bool {
        scope.has_tool(&self.tool)
            && scope.fingerprint.as_ref().is_none_or(|(hash, recipe)| self.fingerprint(recipe) == Some(*hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> std::sync::Arc<[String]> {
        list.iter().map(ToString::to_string).collect()
    }

    fn made(tool: &str, args: &str, recipe: &IdentityRecipe) -> String {
        Call::new(tool, &Content::Raw(args)).fingerprint(recipe).unwrap().to_string()
    }

    /// The vectors of the wire.
    #[test]
    fn each_recipe_makes_the_fingerprint_that_commands_carry() {
        let call = IdentityRecipe::Call(CallRules::default());
        assert_eq!(made("Bash", r#"{"command":"cargo test -p core"}"#, &call), "a4404e81f177a67db9d08a78ed566b35");
        assert_eq!(made("search", r#"{"q":"loop","opts":{"b":[2,1],"a":1}}"#, &call), "0ac5c057b0fb4b88ebf2cd985bdaf4d7");
        let coarse = IdentityRecipe::Coarse(names(&["path"]));
        let args = r#"{"path":"src/größe.rs","encoding":"utf-8"}"#;
        assert_eq!(made("read_file", args, &coarse), "87f5fb79309ab8db4235f1eb037474d5");
        let args = IdentityRecipe::Args(CallRules::default());
        assert_eq!(made("any", r#"{"definition":"x"}"#, &args), "2748e54004c7867d13bdcb63b3a608d3");
        assert_eq!(Call::new("Bash", &Content::Absent).fingerprint(&IdentityRecipe::Opaque), None);
    }

    #[test]
    fn arguments_are_taken_as_the_model_wrote_them() {
        let dropped = IdentityRecipe::Call(CallRules { args_ignored: names(&["description"]), ..CallRules::default() });
        let expected = made("Bash", r#"{"command":"ls"}"#, &dropped);
        assert_eq!(made("Bash", r#"{"description":"x", "command" : "ls"}"#, &dropped), expected);
        assert_eq!(made("Bash", r#""{\"command\":\"ls\"}""#, &dropped), expected, "text that holds JSON is JSON");
        assert_ne!(made("Bash", r#"{"command":"ls -l"}"#, &dropped), expected);
        let all = IdentityRecipe::Call(CallRules::default());
        assert_ne!(made("t", r#"{"id":9007199254740993}"#, &all), made("t", r#"{"id":9007199254740992}"#, &all));
        assert_eq!(made("t", r#"{"id":1.0}"#, &all), made("t", r#"{"id":1}"#, &all));
    }

    #[test]
    fn a_scope_narrows_and_is_never_widened() {
        let call = Call::new("Bash", &Content::Raw(r#"{"command":"cargo test -p core"}"#));
        let print = call.fingerprint(&IdentityRecipe::Call(CallRules::default())).unwrap();
        let scope = |tool: Option<&str>, fingerprint| Scope {
            tool: tool.map(str::to_owned),
            tools: Vec::new(),
            fingerprint,
            only: Vec::new(),
        };
        let recipe = || IdentityRecipe::Call(CallRules::default());
        assert!(call.is_in(&scope(None, None)));
        assert!(call.is_in(&scope(Some("Bash"), None)) && !call.is_in(&scope(Some("bash"), None)));
        assert!(call.is_in(&scope(Some("Bash"), Some((print, recipe())))));
        assert!(!call.is_in(&scope(Some("Bash"), Some((Hash128(1), recipe())))));
        assert!(!call.is_in(&scope(Some("Bash"), Some((print, IdentityRecipe::Opaque)))));
    }
}
