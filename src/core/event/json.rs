//! Walking over JSON source text that is already known to be valid, without building a tree.
//!
//! [`faults`] finds what `serde_json` does not look for in skipped values: nesting and unpaired surrogates. Everything else
//! here relies on valid text; on other text it still ends, stays in bounds and returns something.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use crate::limits::JSON_DEPTH_MAX;

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
const SPACES: u64 = LOW_BITS * b' ' as u64;

/// Bytes as text; `None` where they are no UTF-8. Every byte of the input passes here: many at a time.
pub fn text(bytes: &[u8]) -> Option<&str> {
    simdutf8::basic::from_utf8(bytes).ok()
}

/// What makes valid JSON unusable here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults {
    /// It nests deeper than `JSON_DEPTH_MAX`.
    pub is_too_deep: bool,
    /// Where the first unpaired surrogate stands. Byte offset.
    pub surrogate: Option<usize>,
}

/// Looks for too deep nesting and unpaired surrogates. No recursion: hostile depth costs nothing.
pub fn faults(text: &str) -> Faults {
    let bytes = text.as_bytes();
    let mut faults = Faults::default();
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(skipped) =
        bytes.get(at..).and_then(|rest| rest.iter().position(|byte| matches!(byte, b'"' | b'[' | b'{' | b']' | b'}')))
    {
        at += skipped;
        match bytes.get(at) {
            Some(b'"') => {
                at = string_end_with(bytes, at, |escape| {
                    if faults.surrogate.is_none() && surrogate_fault(bytes, escape) {
                        faults.surrogate = Some(escape);
                    }
                });
                continue;
            }
            Some(b'[' | b'{') => {
                depth += 1;
                if depth > JSON_DEPTH_MAX {
                    faults.is_too_deep = true;
                    return faults;
                }
            }
            _ => depth = depth.saturating_sub(1),
        }
        at += 1;
    }
    faults
}

/// Whether the escape at `at` is half of a surrogate pair whose other half is missing.
fn surrogate_fault(bytes: &[u8], at: usize) -> bool {
    match unit(bytes, at) {
        Some(0xD800..=0xDBFF) => !matches!(unit(bytes, at + 6), Some(0xDC00..=0xDFFF)),
        // The second half of a pair is never asked about: its first half has skipped it.
        Some(0xDC00..=0xDFFF) => true,
        _ => false,
    }
}

/// The UTF-16 unit of a `\uXXXX` at `at`.
pub(super) fn unit(bytes: &[u8], at: usize) -> Option<u32> {
    let escape = bytes.get(at..at + 6)?;
    let digits = escape.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |value, &digit| Some(value * 16 + char::from(digit).to_digit(16)?))
}

/// Offset of the first byte from `at` on that `hits` marks, or the end: `hits` takes eight bytes, and of what it gives only the lowest mark
/// counts. What is shorter than eight bytes is padded with spaces, which it must not mark.
#[inline]
fn first_hit(bytes: &[u8], at: usize, hits: impl Fn(u64) -> u64) -> usize {
    let (words, tail) = bytes.get(at..).unwrap_or_default().as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let hit = hits(u64::from_le_bytes(*word));
        if hit != 0 {
            return at + index * 8 + (hit.trailing_zeros() / 8) as usize;
        }
    }
    let from = bytes.len() - tail.len();
    let Some(shift) = (8 - tail.len() as u32).checked_mul(8).filter(|shift| *shift < u64::BITS) else {
        return bytes.len().max(at);
    };
    let word = match bytes.last_chunk::<8>() {
        // The last eight bytes, without those that were looked at.
        Some(last) => u64::from_le_bytes(*last) >> shift,
        None => tail.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    };
    let hit = hits(word | SPACES << (u64::BITS - shift));
    if hit == 0 { bytes.len() } else { from + (hit.trailing_zeros() / 8) as usize }
}

/// Offset of the first `"` or `\` from `at` on, or the end.
fn quote_or_backslash(bytes: &[u8], at: usize) -> usize {
    first_hit(bytes, at, |word| bytes_equal(word, b'"') | bytes_equal(word, b'\\'))
}

/// The high bit of every byte that is `byte`; the lowest one is exact, which is all that is asked for.
#[inline]
const fn bytes_equal(word: u64, byte: u8) -> u64 {
    bytes_below(word ^ (LOW_BITS * byte as u64), 1)
}

/// The high bit of every byte below `bound`, at most 128; the lowest one is exact.
#[inline]
const fn bytes_below(word: u64, bound: u8) -> u64 {
    word.wrapping_sub(LOW_BITS * bound as u64) & !word & HIGH_BITS
}

/// Whether a text holds an ASCII control character. Eight bytes at a time: names are too short for more.
pub(super) fn has_control(text: &str) -> bool {
    first_hit(text.as_bytes(), 0, controls) < text.len()
}

/// The high bit of every byte that is an ASCII control character; the lowest one is exact.
#[inline]
const fn controls(word: u64) -> u64 {
    bytes_below(word, 0x20) | bytes_equal(word, 0x7F)
}

/// What a string's source stands for, where that is plain to see: it has no escapes, and so no control character but one.
#[inline]
pub(super) fn plain(source: &str) -> Option<&str> {
    let inner = source.get(1..source.len().checked_sub(1)?).filter(|_| is_string(source))?;
    let marks = |word: &[u8; 8]| {
        let word = u64::from_le_bytes(*word);
        bytes_equal(word, b'\\') | bytes_equal(word, 0x7F)
    };
    let bytes = inner.as_bytes();
    let (words, tail) = bytes.as_chunks::<8>();
    let of_tail = match bytes.last_chunk::<8>() {
        Some(last) => marks(last),
        None => u64::from(tail.iter().any(|byte| matches!(byte, b'\\' | 0x7F))),
    };
    (words.iter().fold(of_tail, |all, word| all | marks(word)) == 0).then_some(inner)
}

/// Offset after the string whose opening quote stands at `at`; shows every escape on the way, a pair of surrogates once.
fn string_end_with(bytes: &[u8], at: usize, mut escape: impl FnMut(usize)) -> usize {
    let mut at = at + 1;
    loop {
        at = quote_or_backslash(bytes, at);
        match bytes.get(at) {
            Some(b'\\') => {
                escape(at);
                let is_pair =
                    matches!(unit(bytes, at), Some(0xD800..=0xDBFF)) && matches!(unit(bytes, at + 6), Some(0xDC00..=0xDFFF));
                at += if is_pair { 12 } else { 2 };
            }
            Some(_) => return at + 1,
            None => return bytes.len(),
        }
    }
}

/// Offset after the string whose opening quote stands at `at`.
pub fn string_end(text: &str, at: usize) -> usize {
    string_span(text, at).0
}

/// Offset after the string whose opening quote stands at `at`, and whether it holds escapes.
#[inline]
pub(crate) fn string_span(text: &str, at: usize) -> (usize, bool) {
    let bytes = text.as_bytes();
    let mut has_escapes = false;
    let mut at = at + 1;
    loop {
        at = quote_or_backslash(bytes, at);
        match bytes.get(at) {
            Some(b'\\') => {
                has_escapes = true;
                at += 2;
            }
            Some(_) => return (at + 1, has_escapes),
            None => return (bytes.len(), has_escapes),
        }
    }
}

/// Offset of the first byte from `at` on that is no JSON white space.
#[inline]
pub fn skip_space(text: &str, at: usize) -> usize {
    // Most writers leave none.
    if text.as_bytes().get(at).is_some_and(|byte| *byte > b' ') { at } else { space_end(text.as_bytes(), at) }
}

/// The same. A call of its own: it is rarely needed.
#[inline(never)]
pub(super) fn space_end(bytes: &[u8], at: usize) -> usize {
    let mut at = at;
    while bytes.get(at).is_some_and(|byte| is_space(*byte)) {
        at += 1;
    }
    at
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Offset after the value that begins at `at`.
pub fn value_end(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    match bytes.get(at) {
        Some(b'"') => string_end(text, at),
        Some(b'[' | b'{') => container_end(text, at),
        _ => {
            let rest = bytes.get(at..).unwrap_or_default();
            at + rest.iter().take_while(|byte| !matches!(byte, b',' | b']' | b'}') && !is_space(**byte)).count()
        }
    }
}

fn container_end(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    let mut depth = 0_usize;
    let mut at = at;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = string_end(text, at);
                continue;
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// The fields of an object, in source order, equal keys included.
pub struct Fields<'a> {
    text: &'a str,
    at: usize,
}

/// The fields of `text`, an object; none where it is something else.
pub fn fields(text: &str) -> Fields<'_> {
    let at = skip_space(text, 0);
    Fields { text, at: if text.as_bytes().get(at) == Some(&b'{') { at + 1 } else { text.len() } }
}

impl Fields<'_> {
    /// Offset after the value given last.
    pub fn offset(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for Fields<'a> {
    /// Key, unescaped, and the source text of its value.
    type Item = (Cow<'a, str>, &'a str);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let mut key_start = skip_space(self.text, self.at);
        if self.text.as_bytes().get(key_start) == Some(&b',') {
            key_start = skip_space(self.text, key_start + 1);
        }
        if self.text.as_bytes().get(key_start) != Some(&b'"') {
            self.at = self.text.len();
            return None;
        }
        let (key_end, has_escapes) = string_span(self.text, key_start);
        let value_start = skip_space(self.text, skip_space(self.text, key_end) + 1);
        self.at = value_end(self.text, value_start);
        let key = self.text.get(key_start..key_end)?;
        let key = if has_escapes { unquote(key) } else { Cow::Borrowed(inner(key)) };
        Some((key, self.text.get(value_start..self.at)?))
    }
}

/// The elements of an array, in source order.
pub fn elements(text: &str) -> impl Iterator<Item = &str> {
    let start = skip_space(text, 0);
    let mut at = if text.as_bytes().get(start) == Some(&b'[') { start + 1 } else { text.len() };
    std::iter::from_fn(move || {
        let from = skip_space(text, at);
        let from = if text.as_bytes().get(from) == Some(&b',') { skip_space(text, from + 1) } else { from };
        at = value_end(text, from);
        text.get(from..at).filter(|element| !element.is_empty())
    })
}

/// Whether the source text is a string.
pub fn is_string(source: &str) -> bool {
    source.starts_with('"')
}

/// The text that a string's source stands for. Copies only where there are escapes.
#[inline]
pub fn unquote(source: &str) -> Cow<'_, str> {
    let inner = inner(source);
    // A quote inside is escaped, so only a backslash makes a difference.
    if backslash(inner.as_bytes(), 0) == inner.len() {
        return Cow::Borrowed(inner);
    }
    Cow::Owned(unescaped(inner))
}

/// What stands between the quotes.
#[inline]
pub(crate) fn inner(source: &str) -> &str {
    let inner = source.strip_prefix('"').unwrap_or(source);
    inner.strip_suffix('"').unwrap_or(inner)
}

/// Copies eight bytes at a time: what stands between two escapes is too short for more.
fn unescaped(inner: &str) -> String {
    let bytes = inner.as_bytes();
    let mut text = Vec::with_capacity(inner.len());
    let mut at = 0;
    loop {
        while let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
            let hit = bytes_equal(u64::from_le_bytes(*word), b'\\');
            text.extend_from_slice(word);
            if hit != 0 {
                let plain = (hit.trailing_zeros() / 8) as usize;
                text.truncate(text.len() - (word.len() - plain));
                at += plain;
                break;
            }
            at += word.len();
        }
        while let Some(byte) = bytes.get(at).filter(|byte| **byte != b'\\') {
            text.push(*byte);
            at += 1;
        }
        match bytes.get(at + 1) {
            Some(b'n') => text.push(b'\n'),
            Some(b't') => text.push(b'\t'),
            Some(same @ (b'"' | b'\\' | b'/')) => text.push(*same),
            _ => {
                let Some(escaped) = inner.get(at + 1..) else { break };
                let (character, length) = unescape(escaped);
                text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                at += 1 + length;
                continue;
            }
        }
        at += 2;
    }
    String::from_utf8(text).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Offset of the first backslash from `at` on, or the end. Eight bytes at a time: escapes are near one another, and a search that has
/// to warm up costs more than it saves.
#[inline]
pub fn backslash(bytes: &[u8], at: usize) -> usize {
    first_hit(bytes, at, |word| bytes_equal(word, b'\\'))
}

/// The character of an escape, and how many bytes after the backslash it takes.
pub fn unescape(escaped: &str) -> (char, usize) {
    let short = match escaped.as_bytes().first() {
        Some(b'u') => return unescape_unicode(escaped),
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        _ => return escaped.chars().next().map_or((char::REPLACEMENT_CHARACTER, 0), |same| (same, same.len_utf8())),
    };
    (short, 1)
}

fn unescape_unicode(escaped: &str) -> (char, usize) {
    let bytes = escaped.as_bytes();
    let hex =
        |at: usize| bytes.get(at..at + 4)?.iter().try_fold(0, |value, &digit| Some(value * 16 + char::from(digit).to_digit(16)?));
    let Some(first) = hex(1) else { return (char::REPLACEMENT_CHARACTER, 1) };
    if let (0xD800..=0xDBFF, Some(b"\\u"), Some(second @ 0xDC00..=0xDFFF)) = (first, bytes.get(5..7), hex(7)) {
        let code = 0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00);
        return (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 11);
    }
    (char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), 5)
}

/// Whether a text is one JSON value. Skipping is iterative: depth is no danger.
pub fn is_valid(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::{Faults, elements, faults, fields, has_control, unquote, value_end};

    #[test]
    fn depth_is_counted_outside_strings_only() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(!faults(&deep(64)).is_too_deep);
        assert!(faults(&deep(65)).is_too_deep);
        assert!(!faults(&format!("[\"{}\", \"\\\"[[[\"]", "[{".repeat(100))).is_too_deep);
        assert!(!faults(&format!("[{}]", vec!["[]"; 200].join(","))).is_too_deep);
    }

    #[test]
    fn an_unpaired_surrogate_is_found_wherever_it_stands() {
        for (text, at) in [
            (r#"["\ud83d\ude00"]"#, None),
            (r#"["\ud83d"]"#, Some(2)),
            (r#"["\ude00"]"#, Some(2)),
            (r#"["\ud83d\ud83d\ude00"]"#, Some(2)),
            (r#"["\ud83d\ude00\ude00"]"#, Some(14)),
            (r#"["\\ud83d"]"#, None),
            (r#"{"\uD83D":1}"#, Some(2)),
            (r#"["\ud83dx\ude00"]"#, Some(2)),
        ] {
            assert_eq!(faults(text), Faults { is_too_deep: false, surrogate: at }, "{text}");
        }
    }

    #[test]
    fn fields_come_in_source_order_with_unescaped_keys() {
        let text = r#" { "a" : [1, {"x":"}"}] , "\u0062\"" :"\\", "c":null}"#;
        let found: Vec<_> = fields(text).map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(found, [r#"a=[1, {"x":"}"}]"#, r#"b"="\\""#, "c=null"]);
        assert_eq!(fields("[1]").count(), 0);
        assert_eq!(fields("{}").count(), 0);
        assert_eq!(elements(r#"[1, "a,b" ,[2]]"#).collect::<Vec<_>>(), ["1", r#""a,b""#, "[2]"]);
        assert_eq!(elements("[]").count(), 0);
    }

    #[test]
    fn a_control_character_is_found_wherever_it_stands() {
        let plain = "größe-12345\u{80}x";
        assert!(!has_control(plain) && !has_control(""));
        for byte in 0..128_u8 {
            for (at, _) in plain.char_indices() {
                let mut text = plain.to_owned();
                text.insert(at, char::from(byte));
                assert_eq!(has_control(&text), byte.is_ascii_control(), "{text:?}");
            }
        }
    }

    #[test]
    fn a_string_without_escapes_is_borrowed() {
        assert!(matches!(unquote("\"plain größe\""), std::borrow::Cow::Borrowed("plain größe")));
        assert_eq!(unquote(r#""\"\\\/\b\f\n\r\té\ud83d\ude00""#), "\"\\/\u{8}\u{c}\n\r\té😀");
    }

    #[test]
    fn text_that_is_no_json_still_ends_in_bounds() {
        for text in ["", "{", "[", "\"", "\"\\", "{\"a", "{\"a\"", "{\"a\":", "{\"a\":1", "]", "{,}", "{\"\\u12"] {
            assert!(value_end(text, 0) <= text.len(), "{text}");
            let _ = faults(text);
            assert!(fields(text).count() <= 1, "{text}");
            assert!(elements(text).count() <= 1, "{text}");
            let _ = unquote(text);
        }
    }
}
