//! Our entries in a settings file of an agent: added and taken out again, and all else in it as it was, comments included.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstRootNode};
use loopwarden_sources::install::Edit;

/// What stands in every entry of ours, and in nobody else's.
const MARKS: [&str; 2] = ["loopwarden-hook", "/v1/hooks/"];

/// The file with our entries. The same text where they are there already.
///
/// # Errors
/// The text is no JSON with comments, or has something else where lists of hooks belong.
pub(super) fn with(text: &str, edit: &Edit) -> Result<String, String> {
    let root = parse(text)?;
    let top = root.object_value_or_create().ok_or("its top is no object")?;
    if let Some(version) = edit.version
        && top.get("version").is_none()
    {
        top.append("version", version.into());
    }
    let events = top.object_value_or_create(edit.under).ok_or_else(|| format!("{:?} is no object", edit.under))?;
    let wanted: Vec<&str> = edit.entries.iter().map(|(event, _)| *event).collect();
    for property in events.properties() {
        let name = property.decoded_name().unwrap_or_default();
        if let Some(list) = property.array_value()
            && !wanted.contains(&name.as_str())
        {
            take_out(&events, &name, &list);
        }
    }
    for (event, entry) in &edit.entries {
        let list = events.array_value_or_create(event).ok_or_else(|| format!("{:?} of {:?} is no list", event, edit.under))?;
        let ours = ours(&list);
        let is_there = match ours.as_slice() {
            [one] => is_same(one, entry),
            _ => false,
        };
        if !is_there {
            ours.into_iter().for_each(CstNode::remove);
            list.append(entry.clone());
        }
    }
    Ok(root.to_string())
}

/// The file without our entries, and without what they leave empty; `None` where it has none of ours.
///
/// # Errors
/// As [`with`].
pub(super) fn without(text: &str, under: &str) -> Result<Option<String>, String> {
    let root = parse(text)?;
    let Some(top) = root.object_value() else { return Ok(None) };
    let Some(events) = top.object_value(under) else { return Ok(None) };
    let mut found = false;
    for property in events.properties() {
        if let (Some(name), Some(list)) = (property.decoded_name(), property.array_value()) {
            found |= take_out(&events, &name, &list);
        }
    }
    if found
        && events.properties().is_empty()
        && let Some(property) = top.get(under)
    {
        property.remove();
    }
    Ok(found.then(|| root.to_string()))
}

/// How many entries of ours the file has.
///
/// # Errors
/// As [`with`].
pub(super) fn count(text: &str, under: &str) -> Result<usize, String> {
    let root = parse(text)?;
    let events = root.object_value().and_then(|top| top.object_value(under));
    let lists = events.iter().flat_map(CstObject::properties).filter_map(|property| property.array_value());
    Ok(lists.map(|list| ours(&list).len()).sum())
}

fn parse(text: &str) -> Result<CstRootNode, String> {
    CstRootNode::parse(text, &ParseOptions::default()).map_err(|error| format!("it is no JSON: {error}"))
}

fn ours(list: &CstArray) -> Vec<CstNode> {
    let is_ours = |node: &CstNode| MARKS.iter().any(|mark| node.to_string().contains(mark));
    list.elements().into_iter().filter(is_ours).collect()
}

/// Takes our entries out of a list, and the list if nothing is left of it. Whether there were any.
fn take_out(events: &CstObject, name: &str, list: &CstArray) -> bool {
    let ours = ours(list);
    let found = !ours.is_empty();
    ours.into_iter().for_each(CstNode::remove);
    if found
        && list.elements().is_empty()
        && let Some(property) = events.get(name)
    {
        property.remove();
    }
    found
}

/// Whether an entry is there as it should be, however it is laid out.
fn is_same(node: &CstNode, wanted: &CstInputValue) -> bool {
    match (node, wanted) {
        (_, CstInputValue::String(text)) => {
            node.as_string_lit().and_then(|given| given.decoded_value().ok()).is_some_and(|given| given == *text)
        }
        (_, CstInputValue::Array(list)) => node.as_array().is_some_and(|given| {
            let given = given.elements();
            given.len() == list.len() && given.iter().zip(list).all(|(given, wanted)| is_same(given, wanted))
        }),
        (_, CstInputValue::Object(members)) => node.as_object().is_some_and(|given| {
            given.properties().len() == members.len()
                && members.iter().all(|(name, wanted)| {
                    given.get(name).and_then(|property| property.value()).is_some_and(|given| is_same(&given, wanted))
                })
        }),
        (_, CstInputValue::Number(number)) => node.to_string() == *number,
        (_, CstInputValue::Bool(flag)) => node.as_boolean_lit().is_some_and(|given| given.value() == *flag),
        (_, CstInputValue::Null) => node.as_null_keyword().is_some(),
    }
}

#[cfg(test)]
mod tests {
    use jsonc_parser::json;

    use super::*;

    fn edit(command: &str) -> Edit {
        let entry = json!({ "matcher": "*", "hooks": [{ "type": "command", "command": command, "timeout": 5 }] });
        Edit { version: None, under: "hooks", entries: vec![("PreToolUse", entry.clone()), ("Stop", entry)] }
    }

    #[test]
    fn entries_come_once_and_leave_nothing_behind() {
        let before =
            "{\n  // mine\n  \"model\": \"x\",\n  \"hooks\": {\n    \"PreToolUse\": [{ \"hooks\": [] }], // keep\n  },\n}\n";
        let once = with(before, &edit("/bin/loopwarden-hook a")).unwrap();
        assert!(once.contains("// mine") && once.contains("// keep") && once.contains("\"Stop\""), "{once}");
        assert_eq!(with(&once, &edit("/bin/loopwarden-hook a")).unwrap(), once);
        assert_eq!(count(&once, "hooks"), Ok(2));
        let moved = with(&once, &edit("/opt/loopwarden-hook a")).unwrap();
        assert!(!moved.contains("/bin/") && moved.contains("/opt/"), "{moved}");
        let left = without(&moved, "hooks").unwrap().unwrap();
        assert_eq!(count(&left, "hooks"), Ok(0));
        assert!(left.contains("// mine") && left.contains("{ \"hooks\": [] }") && !left.contains("Stop"), "{left}");
        assert_eq!(without(&left, "hooks"), Ok(None));
    }

    #[test]
    fn an_empty_file_is_as_good_as_none() {
        for text in ["", "\n", "{}", "{\n}\n"] {
            let with = with(text, &Edit { version: Some(1), ..edit("loopwarden-hook") }).unwrap();
            let value: serde_json::Value = serde_json::from_str(&with).unwrap();
            assert_eq!((&value["version"], value["hooks"]["Stop"].as_array().map(Vec::len)), (&1.into(), Some(1)), "{with}");
            let left: serde_json::Value = serde_json::from_str(&without(&with, "hooks").unwrap().unwrap()).unwrap();
            assert_eq!(left, serde_json::json!({ "version": 1 }));
        }
    }

    #[test]
    fn what_is_no_settings_file_is_left_alone() {
        for text in ["[]", "{", "\"x\"", "{\"hooks\":[]}", "{\"hooks\":{\"Stop\":{}}}", "{\"hooks\":1}"] {
            assert!(with(text, &edit("loopwarden-hook")).is_err(), "{text}");
        }
    }
}
