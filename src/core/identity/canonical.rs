//! One spelling per JSON value (RFC 8785), written straight from source text: no tree is built.
//!
//! Keys are sorted by UTF-16 code units and the last of equal ones wins; numbers are the shortest that read back as the same
//! double, as ECMAScript prints them. Two deviations, so that no two values become one: integers keep their digits however
//! large they are, and numbers beyond the range of a double stay as written.

use std::{borrow::Cow, cmp::Ordering};

use smallvec::SmallVec;

use crate::event::json;
use crate::identity::{hash::Digest, number};

/// Recursion stops here. `decode` and `Content::view` let nothing deeper than `JSON_DEPTH_MAX` through; what comes by another
/// way is copied as it stands.
const RECURSION_MAX: usize = 128;

/// Members of an ordinary object.
const MEMBERS: usize = 8;

/// The members of an object.
pub(crate) type Members = SmallVec<[Member; MEMBERS]>;

/// Where a member of an object stands in its canonical text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Member {
    /// Offset of the quote that opens the key.
    pub(crate) start: usize,
    /// Of what follows the key.
    pub(crate) colon: usize,
    /// Offset of the first byte after the value.
    pub(crate) end: usize,
}

/// How a hash stands for the content it was made of.
pub(crate) fn hash_as_text(hash: [u8; 32]) -> String {
    format!("sha256:{}", Digest(hash))
}

/// Canonical form of JSON source text.
pub(crate) fn canonical_json(source: &str) -> String {
    written(source, [&[], &[]]).out
}

/// The same, but of its objects, at any depth, the fields named in `dropped` are left out. Also whether there were none.
pub(crate) fn canonical_without(source: &str, dropped: [&[String]; 2]) -> (String, bool) {
    let written = written(source, dropped);
    (written.out, written.is_whole)
}

/// Canonical form of JSON source text and, where it is an object, its top-level members in the order written.
pub(crate) fn canonical_object(source: &str) -> (String, Members) {
    let writer = written(source, [&[], &[]]);
    (writer.out, writer.members.into_iter().map(|(_, member)| member).collect())
}

fn written<'a, 'r>(source: &'a str, dropped: [&'r [String]; 2]) -> CanonicalWriter<'a, 'r> {
    let out = String::with_capacity(source.len());
    let mut writer =
        CanonicalWriter { source, at: 0, out, members: SmallVec::new(), spare: String::new(), dropped, is_whole: true };
    writer.value(0);
    writer
}

struct CanonicalWriter<'a, 'r> {
    source: &'a str,
    at: usize,
    out: String,
    /// Members of all objects that are open, innermost last; in the end those of the outermost.
    members: SmallVec<[(Cow<'a, str>, Member); MEMBERS]>,
    /// Where members are put in order.
    spare: String,
    dropped: [&'r [String]; 2],
    /// No field was left out.
    is_whole: bool,
}

impl<'a> CanonicalWriter<'a, '_> {
    fn value(&mut self, depth: usize) {
        self.at = json::skip_space(self.source, self.at);
        match self.peek() {
            Some(b'{') if depth < RECURSION_MAX => self.object(depth),
            Some(b'[') if depth < RECURSION_MAX => self.array(depth),
            Some(b'"') => {
                let (source, has_escapes) = self.take_string();
                self.string(source, has_escapes);
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
            let (key_source, has_escapes) = self.take_string();
            let key = if has_escapes { json::unquote(key_source) } else { Cow::Borrowed(json::inner(key_source)) };
            self.at = json::skip_space(self.source, json::skip_space(self.source, self.at) + 1);
            if self.dropped.iter().any(|names| names.iter().any(|name| *name == key)) {
                self.at = json::value_end(self.source, self.at);
                self.is_whole = false;
            } else {
                if let Some((last, _)) = self.members.get(base..).and_then(<[_]>::last) {
                    is_sorted &= utf16_order(last, &key) == Ordering::Less;
                    self.out.push(',');
                }
                let start = self.out.len();
                self.string(key_source, has_escapes);
                let colon = self.out.len();
                self.out.push(':');
                self.value(depth + 1);
                self.members.push((key, Member { start, colon, end: self.out.len() }));
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
        if depth > 0 {
            self.members.truncate(base);
        }
        self.out.push('}');
    }

    /// Puts the members of the innermost object in order; they begin at `start` of the output.
    fn sort(&mut self, base: usize, start: usize) {
        let mut members: Vec<_> = self.members.drain(base..).collect();
        // The sort is stable: of equal keys the last one of the source comes last, and that one stays.
        members.sort_by(|(a, _), (b, _)| utf16_order(a, b));
        members.dedup_by(|(key, member), (kept_key, kept)| {
            let is_same = key == kept_key;
            if is_same {
                std::mem::swap(member, kept);
            }
            is_same
        });
        self.spare.clear();
        for (_, member) in &mut members {
            if !self.spare.is_empty() {
                self.spare.push(',');
            }
            let moved = start + self.spare.len();
            self.spare.push_str(self.out.get(member.start..member.end).unwrap_or_default());
            let Member { start, colon, end } = *member;
            *member = Member { start: moved, colon: moved + (colon - start), end: moved + (end - start) };
        }
        self.out.truncate(start);
        self.out.push_str(&self.spare);
        self.members.extend(members);
    }

    /// The source of the value here, whole.
    fn take(&mut self) -> &'a str {
        let end = json::value_end(self.source, self.at);
        let source = self.source.get(self.at..end).unwrap_or_default();
        self.at = end;
        source
    }

    /// The source of the string here, and whether it holds escapes.
    fn take_string(&mut self) -> (&'a str, bool) {
        let (end, has_escapes) = json::string_span(self.source, self.at);
        let source = self.source.get(self.at..end).unwrap_or_default();
        self.at = end;
        (source, has_escapes)
    }

    fn string(&mut self, source: &str, has_escapes: bool) {
        if has_escapes {
            write_string(source, &mut self.out);
        } else {
            self.out.push_str(source);
        }
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

/// A string's source in its canonical spelling: only what must be escaped is, in the shortest way. Most escapes are so already and
/// are copied with the text around them.
fn write_string(source: &str, out: &mut String) {
    let bytes = source.as_bytes();
    let (mut copied, mut at) = (0, 0);
    loop {
        at = json::backslash(bytes, at);
        match bytes.get(at + 1) {
            None => break,
            Some(b'"' | b'\\' | b'b' | b't' | b'n' | b'f' | b'r') => at += 2,
            Some(_) => {
                out.push_str(source.get(copied..at).unwrap_or_default());
                let (character, length) = json::unescape(source.get(at + 1..).unwrap_or_default());
                write_escaped(character, out);
                at += 1 + length;
                copied = at;
            }
        }
    }
    out.push_str(source.get(copied..).unwrap_or_default());
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
    use super::{canonical_json, canonical_object, canonical_without};

    fn canonical(source: &str) -> String {
        canonical_json(source)
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
    fn fields_are_dropped_at_any_depth() {
        let names = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        let source = r#"{"c":1,"b":2,"a":{"c":1,"b":2,"pid":3},"pid":[{"pid":1}]}"#;
        let without = |dropped: [&[String]; 2]| canonical_without(source, dropped).0;
        assert_eq!(without([&names(&["pid"]), &[]]), r#"{"a":{"b":2,"c":1},"b":2,"c":1}"#);
        assert_eq!(without([&names(&["pid"]), &names(&["b"])]), r#"{"a":{"c":1},"c":1}"#);
        assert_eq!(without([&names(&["pid", "a", "b"]), &names(&["c"])]), "{}");
    }

    #[test]
    fn members_stand_at_their_offsets() {
        for source in
            [r#"{"b":[{"x":1,"a":2}],"a":"y"}"#, r#"{ "a" : 1, "c":{"z":1,"b":2}, "b":3, "a":{"q":[]} }"#, "{}", r#"[{"a":1}]"#]
        {
            let (text, members) = canonical_object(source);
            let joined: Vec<&str> = members.iter().map(|member| &text[member.start..member.end]).collect();
            if text.starts_with('{') {
                assert_eq!(format!("{{{}}}", joined.join(",")), text, "{source}");
            } else {
                assert!(joined.is_empty());
            }
            assert!(members.iter().all(|member| text[member.colon..].starts_with(':')), "{source}");
        }
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
