//! Texts of a log, short enough for an event.

use std::borrow::Cow;

use loopwarden_core::event::{Reason, Rejected};
use loopwarden_ingest::text::mark;
pub(super) use loopwarden_ingest::text::{number_after, shortened, shortened_value};
use serde_json::Value;

/// The text of content: a text, or the texts of its blocks, one line each. A block without text has a mark, so that two pictures are
/// two answers.
pub(super) fn content(value: &Value, pointer: &str) -> Result<String, Rejected> {
    match value {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        Value::Array(blocks) => {
            let mut lines: Vec<Cow<'_, str>> = Vec::new();
            for block in blocks {
                let text = match block {
                    Value::String(text) => Some(text.as_str()),
                    Value::Object(block) => block.get("text").or_else(|| block.get("content")).and_then(Value::as_str),
                    _ => return Err(Rejected::at(Reason::BadType, pointer)),
                };
                lines.push(text.map_or_else(|| Cow::Owned(no_text(block)), Cow::Borrowed));
            }
            Ok(lines.join("\n"))
        }
        Value::Object(block) => Ok(block.get("text").and_then(Value::as_str).unwrap_or_default().to_owned()),
        _ => Err(Rejected::at(Reason::BadType, pointer)),
    }
}

fn no_text(block: &Value) -> String {
    let is_image = block.get("type").and_then(Value::as_str).is_some_and(|kind| kind.contains("image"));
    format!("[{} {}]", if is_image { "image" } else { "no text" }, mark(&block.to_string()))
}

/// Arguments of a call: JSON inside a text is taken out of it.
pub(super) fn arguments(value: &Value) -> Value {
    match value {
        Value::String(source) => match serde_json::from_str::<Value>(source) {
            Ok(parsed @ Value::Object(_)) => shortened_value(&parsed),
            _ => shortened_value(value),
        },
        other => shortened_value(other),
    }
}

#[cfg(test)]
mod tests {
    use loopwarden_core::identity::MaskSet;

    use super::*;

    #[test]
    fn pictures_that_differ_are_other_answers() {
        let shot = |data: &str| {
            let blocks = serde_json::json!([{ "type": "text", "text": "done" }, { "type": "image", "source": { "data": data } }]);
            let said = content(&blocks, "content").unwrap();
            MaskSet::shipped().apply(&said).into_owned()
        };
        assert_eq!(shot("aGVsbG8="), shot("aGVsbG8="));
        assert_ne!(shot("aGVsbG8="), shot("d29ybGQ="));
        assert!(shot("aGVsbG8=").starts_with("done\n[image "));
    }
}
