//! An event with some of its members changed; all others stay as they were written, digit for digit.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// Sets members of an event that was decoded. The event as it is where it cannot be written anew.
pub(crate) fn with(event: &str, members: &[(&str, Value)]) -> String {
    let rewritten = || -> Option<String> {
        let own: BTreeMap<String, &RawValue> = serde_json::from_str(event).ok()?;
        let mut all: BTreeMap<&str, Box<RawValue>> = BTreeMap::new();
        all.extend(own.iter().map(|(name, value)| (name.as_str(), (*value).to_owned())));
        for (name, value) in members {
            all.insert(name, to_raw_value(value).ok()?);
        }
        serde_json::to_string(&all).ok()
    };
    rewritten().unwrap_or_else(|| event.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::with;

    #[test]
    fn other_members_stay_as_they_were_written() {
        let event = r#"{"kind":"tool_call","args":{"id":9007199254740993,"x":1.50,"é":"\u00e9"},"call_id":null}"#;
        let changed = with(event, &[("kind", json!("tool")), ("call_id", json!("c"))]);
        assert_eq!(changed, r#"{"args":{"id":9007199254740993,"x":1.50,"é":"\u00e9"},"call_id":"c","kind":"tool"}"#);
        assert_eq!(with("[1]", &[("kind", json!("tool"))]), "[1]");
    }
}
