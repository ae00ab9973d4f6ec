//! One spelling per JSON value (RFC 8785), written straight from source text: no tree is built.
//!
//! Keys are sorted by UTF-16 code units and the last of equal ones wins; numbers are the shortest that read back as the same
//! double, as ECMAScript prints them. Two deviations, so that no two values become one: integers keep their digits however
//! large they are, and numbers beyond the range of a double stay as written.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::event::Content;
use crate::event::View;
use crate::event::json;
use crate::identity::hash::Digest;
use crate::identity::number;

/// Recursion stops here. `decode` and `Content::view` let nothing deeper than `JSON_DEPTH_MAX` through; what comes by another
/// way is copied as it stands.
const RECURSION_MAX: usize = 128;

/// Which fields of objects are written. Empty lists choose all and drop none.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Selection<'r> {
    /// Only these, at top level.
    pub(crate) only: &'r [String],
    /// Never these, at top level.
    pub(crate) never: &'r [String],
    /// Never these, at any depth.
    pub(crate) never_anywhere: [&'r [String]; 2],
}

/// Canonical text of a content: canonical JSON, text verbatim, `{}` where absent, `sha256:<hex>` for a hash.
#[must_use]
pub fn canonical_text(content: &Content<'_>) -> String {
    canonical(content, Selection::default()).into_owned()
}

/// The same with fields chosen.
pub(crate) fn canonical<'a>(content: &Content<'a>, selection: Selection<'_>) -> Cow<'a, str> {
    match content.view() {
        View::Absent => Cow::Borrowed("{}"),
        View::Json(source) => Cow::Owned(canonical_json(&source, selection)),
        View::Text(text) => text,
        View::Sha256(hash) => Cow::Owned(hash_as_text(hash)),
    }
}

/// How a hash stands for the content it was made of.
pub(crate) fn hash_as_text(hash: [u8; 32]) -> String {
    format!("sha256:{}", Digest(hash))
}

/// Canonical form of JSON source text.
pub(crate) fn canonical_json(source: &str, selection: Selection<'_>) -> String {
    let mut writer =
        Writer { source, at: 0, out: String::with_capacity(source.len()), members: Vec::new(), spare: String::new(), selection };
    writer.value(0);
    writer.out
}

/// A member of an object that is being written: where its `"key":value` stands in the output.
struct Member<'a> {
    key: Cow<'a, str>,
    start: usize,
    end: usize,
}

struct Writer<'a, 'r> {
    source: &'a str,
    at: usize,
    out: String,
    /// Members of all objects that are open, innermost last.
    members: Vec<Member<'a>>,
    /// Where members are put in order.
    spare: String,
    selection: Selection<'r>,
}

impl<'a> Writer<'a, '_> {
    fn value(&mut self, depth: usize) {
        self.at = json::skip_space(self.source, self.at);
        match self.peek() {
            Some(b'{') if depth < RECURSION_MAX => self.object(depth),
            Some(b'[') if depth < RECURSION_MAX => self.array(depth),
            Some(b'"') => {
                let source = self.take();
                write_string(source, &mut self.out);
            }
            Some(b'-' | b'0'..=b'9') => {
                let source = self.take();
                number::write(source, &mut self.out);
            }
            _ => {
                let source = self.take();
                self.out.push_str(source);
            }
        }
    }

    fn array(&mut self, depth: usize) {
        self.at += 1;
        self.out.push('[');
        let mut separator = "";
        while !matches!(self.peek_after_space(), None | Some(b']')) {
            self.out.push_str(separator);
            self.value(depth + 1);
            separator = ",";
            if self.peek_after_space() != Some(b',') {
                break;
            }
            self.at += 1;
        }
        self.close(b']');
        self.out.push(']');
    }

    /// Writes the members in source order, then sorts what was written, if it has to: most producers sort already.
    fn object(&mut self, depth: usize) {
        self.at += 1;
        self.out.push('{');
        let base = self.members.len();
        let start = self.out.len();
        let mut is_sorted = true;
        while self.peek_after_space() == Some(b'"') {
            let key_source = self.take();
            let key = json::unquote(key_source);
            self.at = json::skip_space(self.source, json::skip_space(self.source, self.at) + 1);
            if self.is_dropped(&key, depth) {
                self.at = json::value_end(self.source, self.at);
            } else {
                if let Some(last) = self.members.get(base..).and_then(<[_]>::last) {
                    is_sorted &= utf16_order(&last.key, &key) == Ordering::Less;
                    self.out.push(',');
                }
                let start = self.out.len();
                write_string(key_source, &mut self.out);
                self.out.push(':');
                self.value(depth + 1);
                self.members.push(Member { key, start, end: self.out.len() });
            }
            if self.peek_after_space() != Some(b',') {
                break;
            }
            self.at += 1;
        }
        self.close(b'}');
        if !is_sorted {
            self.sort(base, start);
        }
        self.members.truncate(base);
        self.out.push('}');
    }

    fn sort(&mut self, base: usize, start: usize) {
        let members = self.members.get_mut(base..).unwrap_or_default();
        members.sort_by(|a, b| utf16_order(&a.key, &b.key));
        self.spare.clear();
        for (index, member) in members.iter().enumerate() {
            // The sort is stable: of equal keys the last one of the source comes last.
            if members.get(index + 1).is_some_and(|next| next.key == member.key) {
                continue;
            }
            if !self.spare.is_empty() {
                self.spare.push(',');
            }
            self.spare.push_str(self.out.get(member.start..member.end).unwrap_or_default());
        }
        self.out.truncate(start);
        self.out.push_str(&self.spare);
    }

    fn is_dropped(&self, key: &str, depth: usize) -> bool {
        let holds = |names: &[String]| names.iter().any(|name| name == key);
        let Selection { only, never, never_anywhere: [first, second] } = self.selection;
        (depth == 0 && ((!only.is_empty() && !holds(only)) || holds(never))) || holds(first) || holds(second)
    }

    /// The source of the value here, whole.
    fn take(&mut self) -> &'a str {
        let end = json::value_end(self.source, self.at);
        let source = self.source.get(self.at..end).unwrap_or_default();
        self.at = end;
        source
    }

    fn close(&mut self, bracket: u8) {
        if self.peek() == Some(bracket) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.source.as_bytes().get(self.at).copied()
    }

    fn peek_after_space(&mut self) -> Option<u8> {
        self.at = json::skip_space(self.source, self.at);
        self.peek()
    }
}

/// Order of UTF-16 code units. It is that of UTF-8 unless both texts leave ASCII: surrogates sort below U+E000.
fn utf16_order(a: &str, b: &str) -> Ordering {
    if a.is_ascii() || b.is_ascii() { a.cmp(b) } else { a.encode_utf16().cmp(b.encode_utf16()) }
}

/// A string's source in its canonical spelling: only what must be escaped is, in the shortest way.
fn write_string(source: &str, out: &mut String) {
    let mut rest = source;
    while let Some((plain, escaped)) = rest.split_once('\\') {
        out.push_str(plain);
        let (character, length) = json::unescape(escaped);
        write_escaped(character, out);
        rest = escaped.get(length..).unwrap_or_default();
    }
    out.push_str(rest);
}

fn write_escaped(character: char, out: &mut String) {
    match character {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\u{8}' => out.push_str("\\b"),
        '\t' => out.push_str("\\t"),
        '\n' => out.push_str("\\n"),
        '\u{c}' => out.push_str("\\f"),
        '\r' => out.push_str("\\r"),
        control @ '\0'..='\u{1f}' => {
            out.push_str("\\u00");
            out.extend(
                [u32::from(control) >> 4, u32::from(control) & 15].into_iter().filter_map(|digit| char::from_digit(digit, 16)),
            );
        }
        other => out.push(other),
    }
}

#[cfg(test)]
mod tests {
    use super::Selection;
    use super::canonical_json;

    fn canonical(source: &str) -> String {
        canonical_json(source, Selection::default())
    }

    #[test]
    fn keys_are_sorted_by_utf16_and_the_last_of_equal_ones_wins() {
        assert_eq!(canonical(r#" { "b" : [2, 1.0] , "a" : {"d":null,"c":true} } "#), r#"{"a":{"c":true,"d":null},"b":[2,1]}"#);
        assert_eq!(canonical("{\"\u{ff61}\":1,\"\u{1f600}\":2,\"a\":3}"), "{\"a\":3,\"\u{1f600}\":2,\"\u{ff61}\":1}");
        assert_eq!(canonical(r#"{"a":1,"a":2}"#), r#"{"a":2}"#);
        assert_eq!(canonical(r#"{"a":1,"b":2,"\u0061":{"x":[]}}"#), r#"{"a":{"x":[]},"b":2}"#);
        assert_eq!(
            canonical(r#"{"b":{"z":1,"y":2},"a":{"z":1,"y":[{"q":1,"p":2}]}}"#),
            r#"{"a":{"y":[{"p":2,"q":1}],"z":1},"b":{"y":2,"z":1}}"#
        );
    }

    #[test]
    fn strings_have_one_spelling() {
        assert_eq!(canonical(r#""\u0041\/\u00e9\ud83d\ude00\u000a\u001F\u007f\"\\""#), "\"A/é😀\\n\\u001f\u{7f}\\\"\\\\\"");
    }

    #[test]
    fn chosen_fields_concern_the_top_level_and_volatile_ones_any() {
        let names = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (only, never, volatile) = (names(&["a", "b"]), names(&["b"]), names(&["pid"]));
        let source = r#"{"c":1,"b":2,"a":{"c":1,"b":2,"pid":3},"pid":[{"pid":1}]}"#;
        let select = |only, never, volatile| canonical_json(source, Selection { only, never, never_anywhere: [volatile, &[]] });
        assert_eq!(select(&only, &[], &[]), r#"{"a":{"b":2,"c":1,"pid":3},"b":2}"#);
        assert_eq!(select(&only, &never, &volatile), r#"{"a":{"b":2,"c":1}}"#);
        assert_eq!(select(&[], &[], &volatile), r#"{"a":{"b":2,"c":1},"b":2,"c":1}"#);
        assert_eq!(select(&[], &names(&["a", "b", "c", "pid"]), &[]), "{}");
    }

    #[test]
    fn what_is_no_json_or_too_deep_still_ends() {
        for source in ["", "{", "[", "[1", "[1,", "{\"a\"", "{\"a\":", "{\"a\":1,", "]", "[}", "{]", "nul", "\"", "\"\\"] {
            let _ = canonical(source);
        }
        for (opener, closer) in [("[ ", "]"), ("{\"a\": ", "}")] {
            let deep = format!("{}1{}", opener.repeat(100_000), closer.repeat(100_000));
            assert!(canonical(&deep).len() <= deep.len());
        }
    }
}
