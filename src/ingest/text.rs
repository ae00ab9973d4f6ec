//! Foreign texts and values, short enough for an event.

use loopwarden_core::identity::{MaskSet, base32, hash_text};
use serde_json::Value;

/// Longest text in an event. Bytes.
const TEXT_BYTES_MAX: usize = 48 * 1024;
/// Kept of a longer one: the beginning, and the end, where tools say how it went.
const HEAD_BYTES: usize = 24 * 1024;
const TAIL_BYTES: usize = 8 * 1024;
/// Longest value in an event, as JSON. Bytes.
const VALUE_BYTES_MAX: usize = 64 * 1024;

/// The hash of a text that is left out, in letters that no mask of ids removes: texts that differ have marks that differ.
pub fn mark(of: &str) -> String {
    base32(&hash_text(of).hash128().0.to_be_bytes())
}

/// A text that fits. A longer one keeps both ends, with a mark of the whole text between them. The mark ignores times and ids: texts
/// that only differ in them stay equal.
pub fn shortened(text: &str) -> String {
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
pub fn shortened_value(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(shortened(text)),
        Value::Array(items) => Value::Array(items.iter().map(shortened_value).collect()),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(name, value)| (shortened(name), shortened_value(value))).collect())
        }
        other => other.clone(),
    }
}

/// A value that fits as a whole: of many texts, or of many small items, what stays is its JSON as a text with a mark.
pub(crate) fn fitting(value: Value) -> Value {
    match value {
        Value::String(text) if text.len() <= TEXT_BYTES_MAX => Value::String(text),
        Value::String(text) => Value::String(shortened(&text)),
        Value::Array(_) | Value::Object(_) => {
            let value = shortened_value(&value);
            let source = value.to_string();
            if source.len() <= VALUE_BYTES_MAX { value } else { Value::String(shortened(&source)) }
        }
        other => other,
    }
}

/// The whole number behind a label, as in `Exit code: 2`; labels are tried in order, in the first lines only.
pub fn number_after(text: &str, labels: &[&str]) -> Option<i64> {
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
    fn a_value_of_many_small_items_is_bounded_and_still_told_from_another() {
        let many = |last: u32| fitting((0..30_000).chain([last]).collect::<Vec<u32>>().into());
        assert!(many(1).to_string().len() < VALUE_BYTES_MAX);
        assert_eq!(many(1), many(1));
        assert_ne!(many(1), many(2));
        let few = serde_json::json!({ "a": [1, 2] });
        assert_eq!(fitting(few.clone()), few);
    }

    #[test]
    fn exit_codes_are_found_in_the_head_only() {
        assert_eq!(number_after("Exit code: 2\nOutput:", &["Exit code"]), Some(2));
        assert_eq!(number_after("Chunk\nProcess exited with code 101\n", &["Process exited with code"]), Some(101));
        assert_eq!(number_after(&format!("{}Exit code: 2", "x\n".repeat(9)), &["Exit code"]), None);
        assert_eq!(number_after("Exit code: none", &["Exit code"]), None);
    }
}
