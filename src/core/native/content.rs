//! Long arguments and results, made short enough for an event: what was equal stays equal, and what differed still differs.

use std::borrow::Cow;

use crate::event::{Content, View, json};
use crate::identity::{base32, canonical_json, hash_text, shipped_masks};

/// Longest text that stays whole. Bytes.
const TEXT_BYTES_MAX: usize = 48 * 1024;
/// Kept of a longer one: the beginning, and the end, where tools report how it went. Bytes.
const HEAD_BYTES: usize = 24 * 1024;
const TAIL_BYTES: usize = 8 * 1024;
/// Longest value that stays one, in its canonical spelling. Bytes.
const VALUE_BYTES_MAX: usize = 64 * 1024;
/// Longest source of a text or a value. Bytes. Two of them and the rest of an event fit into a record.
const SOURCE_BYTES_MAX: usize = 96 * 1024;
/// Of a text whose source is longer only so much of what else is kept: a control character is written in six bytes.
const WIDE: usize = 3;
/// JSON source that needs no look. Bytes. The canonical spelling of a number has at most 21 digits where the source has four (`1e20`), and
/// nothing else grows: no spelling of such a value passes a bound above.
const SOURCE_BYTES_SHORT: usize = 8 * 1024;

/// A hash of a text that is left out, in letters that no mask of ids removes: texts that differ have marks that differ.
#[must_use]
pub fn mark(of: &str) -> String {
    base32(&hash_text(of).hash128().0.to_be_bytes())
}

/// What content is, which decides what of it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Each character counts.
    Arguments,
    /// Times and ids do not: results that only differ in them stay equal.
    Result,
}

/// A text that fits. A longer one keeps both ends, with the mark of the whole text between them.
fn shortened(text: &str, part: Part) -> Cow<'_, str> {
    if text.len() <= TEXT_BYTES_MAX { Cow::Borrowed(text) } else { Cow::Owned(ends(text, part, HEAD_BYTES, TAIL_BYTES)) }
}

fn ends(text: &str, part: Part, head: usize, tail: usize) -> String {
    let (mut head, mut tail) = (head, text.len().saturating_sub(tail));
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    let (head, tail) = (text.get(..head).unwrap_or_default(), text.get(tail..).unwrap_or_default());
    let mark = match part {
        Part::Arguments => mark(text),
        Part::Result => mark(&shipped_masks(text)),
    };
    format!("{head}\n… {} KiB, {mark} …\n{tail}", text.len() / 1024)
}

/// JSON source of a text, shortened where it does not fit.
pub(super) fn text_source(text: &str, part: Part) -> String {
    let source = quoted(&shortened(text, part));
    if source.len() <= SOURCE_BYTES_MAX { source } else { quoted(&ends(text, part, HEAD_BYTES / WIDE, TAIL_BYTES / WIDE)) }
}

/// JSON source of a value that fits, for the source of any. Each of its texts fits, and so does the whole: of a value of many texts or
/// many small items its canonical text stays, shortened. The value counts and not its spelling: a text that holds JSON is that JSON.
pub(super) fn fitting(source: String, part: Part) -> String {
    if source.len() <= SOURCE_BYTES_SHORT {
        return source;
    }
    let is_narrow = source.len() <= SOURCE_BYTES_MAX;
    match Content::Raw(&source).view() {
        View::Text(text) if text.len() > TEXT_BYTES_MAX || !is_narrow => text_source(&text, part),
        View::Json(value) => {
            let canonical = canonical_json(&value);
            match with_short_texts(&canonical, part) {
                short if short.len() > VALUE_BYTES_MAX => text_source(&short, part),
                Cow::Owned(short) => short,
                Cow::Borrowed(_) if !is_narrow => canonical,
                Cow::Borrowed(_) => source,
            }
        }
        View::Text(_) | View::Absent | View::Sha256(_) => source,
    }
}

/// The same JSON with each of its texts shortened.
fn with_short_texts(canonical: &str, part: Part) -> Cow<'_, str> {
    let (mut out, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(start) = canonical.get(at..).and_then(|rest| rest.find('"')).map(|found| at + found) {
        at = json::string_end(canonical, start);
        let source = canonical.get(start..at).unwrap_or_default();
        if source.len() > TEXT_BYTES_MAX
            && let text = json::unquote(source)
            && let Cow::Owned(short) = shortened(&text, part)
        {
            out.push_str(canonical.get(copied..start).unwrap_or_default());
            out.push_str(&quoted(&short));
            copied = at;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(canonical);
    }
    out.push_str(canonical.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

/// A text as JSON source.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn fitting_value(value: &Value) -> Value {
        serde_json::from_str(&fitting(value.to_string(), Part::Result)).unwrap()
    }

    #[test]
    fn a_long_text_keeps_its_ends_and_what_was_equal_stays_equal() {
        let long = format!("é{}", "é".repeat(60_000));
        let other = format!("{}x{}", "é".repeat(40_000), "é".repeat(20_000));
        assert!(shortened(&long, Part::Result).len() < TEXT_BYTES_MAX);
        let masked = |text: &str| shipped_masks(&shortened(text, Part::Result)).into_owned();
        assert_ne!(masked(&long), masked(&other), "the mark is no id that a mask takes out");
        let took = |ms: u32| format!("{}\ntook {ms} ms\n{}", "é".repeat(40_000), "é".repeat(20_000));
        let result = |ms| shortened(&took(ms), Part::Result).into_owned();
        assert_eq!(result(3), result(7));
        let written = |ms| shortened(&took(ms), Part::Arguments).into_owned();
        assert_ne!(written(3), written(7), "of arguments nothing is masked");
        assert_eq!(shortened("short", Part::Result), "short");
    }

    #[test]
    fn a_value_of_many_small_items_is_bounded_and_still_told_from_another() {
        let many = |last: u32| fitting_value(&(0..30_000).chain([last]).collect::<Vec<u32>>().into());
        assert!(many(1).to_string().len() < VALUE_BYTES_MAX);
        assert_eq!(many(1), many(1));
        assert_ne!(many(1), many(2));
        let few = json!({ "a": [1, 2], "b": "x".repeat(40_000) });
        assert_eq!(fitting_value(&few), few);
    }

    #[test]
    fn the_spelling_of_a_value_does_not_count() {
        for long in [
            json!({ "path": "/a", "text": format!("é\u{1}{}", "x".repeat(60_000)) }),
            (0..30_000).collect::<Vec<u32>>().into(),
            json!({ "a": "x".repeat(47_000), "b": "y".repeat(20_000) }),
        ] {
            let plain = fitting(long.to_string(), Part::Result);
            assert_eq!(fitting(format!("{long:#}"), Part::Result), plain);
            assert_eq!(fitting(quoted(&long.to_string()), Part::Result), plain);
            assert_eq!(fitting(long.to_string().replace('é', "\\u00e9"), Part::Result), plain);
            assert!(plain.len() <= VALUE_BYTES_MAX);
        }
        // What is short in one spelling is short in all of them.
        let short = json!({ "a": "x".repeat(48_000) });
        let spaced = format!("{{{}\"a\":\"{}\"}}", " ".repeat(80_000), "x".repeat(48_000));
        assert_eq!(
            (fitting(short.to_string(), Part::Result), fitting(spaced, Part::Result)),
            (short.to_string(), short.to_string())
        );
    }

    #[test]
    fn a_text_of_control_characters_is_bounded_as_it_is_written() {
        let wide = |last: &str| fitting(quoted(&format!("{}{last}", "\u{1}".repeat(48_000))), Part::Result);
        assert!(wide("a").len() <= SOURCE_BYTES_MAX);
        assert_ne!(wide("a"), wide("b"));
        let mut escaped = String::from("\"");
        escaped.extend(std::iter::repeat_n("\\u0061", 48_000));
        assert_eq!(fitting(escaped + "\"", Part::Result), quoted(&"a".repeat(48_000)));
    }
}
