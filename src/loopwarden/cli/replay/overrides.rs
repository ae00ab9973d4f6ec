//! `--set`: keys of a policy on the command line.

use loopwarden_core::policy::Policy;
use loopwarden_settings::{Diagnostic, Diagnostics, policy};
use serde_json::{Map, Value};

use crate::{failure::Failure, output::say};

/// Key and value of one `--set`.
pub(crate) fn split(set: &str) -> Result<(&str, &str), Failure> {
    let (key, value) = set.split_once('=').ok_or_else(|| bad(set, "has no `=`"))?;
    Ok((key.trim(), value.trim()))
}

fn bad(set: &str, what: &str) -> Failure {
    Diagnostic::new("E0601", format!("--set {set:?} {what}")).help("as in: --set score.nudge_at=3.5").into()
}

/// `a.b.c=value` as nested tables. A value is JSON if it can be read as such, else text.
pub(crate) fn overrides(sets: &[String]) -> Result<Value, Failure> {
    let mut root = Map::new();
    for set in sets {
        let (key, text) = split(set)?;
        let value = match serde_json::from_str::<Value>(text) {
            Ok(Value::Null) | Err(_) => Value::String(text.to_owned()),
            Ok(value) => value,
        };
        let mut parts: Vec<&str> = key.split('.').collect();
        let last = parts.pop().filter(|last| !last.is_empty()).ok_or_else(|| bad(set, "has no key"))?;
        let mut table = &mut root;
        for part in parts {
            let inner = table.entry(part).or_insert_with(|| Value::Object(Map::new()));
            table = inner.as_object_mut().ok_or_else(|| bad(set, "names a key below a value"))?;
        }
        table.insert(last.to_owned(), value);
    }
    Ok(Value::Object(root))
}

/// Loads a policy with them, and says which of their keys, and of the policy's own, change nothing.
pub(crate) fn load(name: &str, overrides: &Value) -> Result<Policy, Diagnostics> {
    let loaded = policy::load_with(name, overrides)?;
    for told in loaded.without_effect {
        say(format!("warning: {told}"));
    }
    Ok(loaded.policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_become_nested_tables() {
        let sets = ["detectors.exact_repeat.threshold=5", "detectors.exact_repeat.mode=shadow", "a=[1,2]"].map(str::to_owned);
        let value = overrides(&sets).expect("overrides");
        assert_eq!(
            value,
            serde_json::json!({ "detectors": { "exact_repeat": { "threshold": 5, "mode": "shadow" } }, "a": [1, 2] })
        );
        assert!(overrides(&["x".to_owned()]).is_err());
        assert!(overrides(&["a=1".to_owned(), "a.b=2".to_owned()]).is_err());
    }
}
