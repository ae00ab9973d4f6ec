//! Texts of a log, short enough for an event.

use std::borrow::Cow;

use loopwarden_core::event::{Reason, Rejected};
use loopwarden_core::identity::{MaskSet, base32, hash_text};
use serde_json::Value;

/// Longest text in an event. Bytes.
const TEXT_BYTES_MAX: usize = 48 * 1024;
/// Kept of a longer one: the beginning, and the end, where tools say how it went.
const HEAD_BYTES: usize = 24 * 1024;
const TAIL_BYTES: usize = 8 * 1024;

/// The hash of a text that is left out, in letters that no mask of ids removes: texts that differ have marks that differ.
fn mark(of: &str) -> String {
    base32(&hash_text(of).hash128().0.to_be_bytes())
}

/// A text that fits. A longer one keeps both ends, with a mark of the whole text between them. The mark ignores times and ids: texts
/// that only differ in them stay equal.
pub(super) fn shortened(text: &str) -> String {
    if text.len() <= TEXT_BYTES_MAX {
        return text.to_owned();
    }
    let mut head = HEAD_BYTES;
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    let mut tail = text.len() - TAIL_BYTES;
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    let (head, tail) = (text.get(..head).unwrap_or_default(), text.get(tail..).unwrap_or_default());
    format!("{head}\n… {} KiB, {} …\n{tail}", text.len() / 1024, mark(&MaskSet::shipped().apply(text)))
}

/// A value in which every text fits.
pub(super) fn shortened_value(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(shortened(text)),
        Value::Array(items) => Value::Array(items.iter().map(shortened_value).collect()),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(name, value)| (shortened(name), shortened_value(value))).collect())
        }
        other => other.clone(),
    }
}

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

/// The whole number behind a label, as in `Exit code: 2`; labels are tried in order, in the first lines only.
pub(super) fn number_after(text: &str, labels: &[&str]) -> Option<i64> {
    let lines = text.lines().take(8);
    let mut found = lines.filter_map(|line| labels.iter().find_map(|label| line.trim().strip_prefix(label)));
    found.find_map(|rest| rest.trim_start_matches([':', ' ']).split_whitespace().next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_keeps_its_ends_and_what_was_equal_stays_equal() {
        let long = format!("é{}", "é".repeat(60_000));
        let other = format!("{}x{}", "é".repeat(40_000), "é".repeat(20_000));
        assert!(shortened(&long).len() < TEXT_BYTES_MAX);
        assert_eq!(shortened(&long), shortened(&long.clone()));
        let masked = |text: &str| MaskSet::shipped().apply(&shortened(text)).into_owned();
        assert_ne!(masked(&long), masked(&other), "the mark is no id that a mask takes out");
        let took = |ms: u32| format!("{}\ntook {ms} ms\n{}", "é".repeat(40_000), "é".repeat(20_000));
        assert_eq!(shortened(&took(3)), shortened(&took(7)));
        assert_eq!(shortened("short"), "short");
    }

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

    #[test]
    fn exit_codes_are_found_in_the_head_only() {
        assert_eq!(number_after("Exit code: 2\nOutput:", &["Exit code"]), Some(2));
        assert_eq!(number_after("Chunk\nProcess exited with code 101\n", &["Process exited with code"]), Some(101));
        assert_eq!(number_after(&format!("{}Exit code: 2", "x\n".repeat(9)), &["Exit code"]), None);
        assert_eq!(number_after("Exit code: none", &["Exit code"]), None);
    }
}
