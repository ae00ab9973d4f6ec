//! Entries of settings files, in the forms that agents share.

use jsonc_parser::{cst::CstInputValue, json};

/// A command of a shell, in the form that Claude Code began. How long `timeout` is in which unit is the agent's.
pub(crate) fn run(command: &str, timeout: u32) -> CstInputValue {
    json!({ "type": "command", "command": command, "timeout": timeout })
}

/// A handler in the group around it, for every tool where there are tools.
pub(crate) fn group(has_matcher: bool, handler: CstInputValue) -> CstInputValue {
    let hooks = CstInputValue::Array(vec![handler]);
    let mut members = vec![("hooks".to_owned(), hooks)];
    if has_matcher {
        members.insert(0, ("matcher".to_owned(), "*".into()));
    }
    CstInputValue::Object(members)
}

/// One object of the members of several.
pub(crate) fn merged(objects: &[serde_json::Value]) -> serde_json::Value {
    let members = objects.iter().filter_map(serde_json::Value::as_object).flatten();
    serde_json::Value::Object(members.map(|(name, value)| (name.clone(), value.clone())).collect())
}

pub(crate) fn pretty(value: &serde_json::Value) -> Vec<u8> {
    format!("{value:#}\n").into_bytes()
}
