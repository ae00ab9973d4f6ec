//! One pass over JSON text that nobody has looked at yet: is it valid, not too deep, without unpaired surrogates, and where are its
//! fields?
//!
//! It says yes or no. Why not is found out afterwards by slower means (`json::faults`, `json::is_valid`), since what is refused is
//! rare; a test holds the two against each other.

use std::{borrow::Cow, ops::Range};

use crate::event::blocks::{self, BLOCK, bits};
use crate::event::json;
use crate::limits::JSON_DEPTH_MAX;

/// The open containers are the bits of one word.
const _: () = assert!(JSON_DEPTH_MAX <= u64::BITS as usize);

/// Whether a text is one JSON value, no deeper than allowed and without unpaired surrogates.
pub(crate) fn is_sound(text: &str) -> bool {
    let mut scanner = Scanner::of(text);
    scanner.value(JSON_DEPTH_MAX).is_some() && scanner.is_at_end()
}

/// Shows the fields of a text that is one sound object, in source order, equal keys included: bytes of the key, unescaped, and where the value stands.
/// None where it is no such text; what was shown until then means nothing.
pub(super) fn fields<'a>(text: &'a str, mut visit: impl FnMut(Cow<'a, [u8]>, Range<usize>)) -> Option<()> {
    fields_while(text, |key, value| {
        visit(key, value);
        true
    })
}

/// The same, as long as `visit` is to be shown more: what stands behind that is not looked at.
pub fn fields_while<'a>(text: &'a str, mut visit: impl FnMut(Cow<'a, [u8]>, Range<usize>) -> bool) -> Option<()> {
    let mut scanner = Scanner::of(text);
    scanner.expect(b'{')?;
    if scanner.peek_after_space()? == b'}' {
        scanner.at += 1;
    } else {
        loop {
            let start = scanner.key_start()?;
            let has_escapes = scanner.string()?;
            let end = scanner.at;
            scanner.expect(b':')?;
            let value = scanner.peek_after_space().map(|_| scanner.at)?;
            scanner.value(JSON_DEPTH_MAX - 1)?;
            let key = if has_escapes {
                Cow::Owned(json::unquote(text.get(start..end)?).into_owned().into_bytes())
            } else {
                Cow::Borrowed(scanner.bytes.get(start + 1..end - 1)?)
            };
            if !visit(key, value..scanner.at) {
                return Some(());
            }
            match scanner.peek_after_space()? {
                b',' => scanner.at += 1,
                b'}' => break scanner.at += 1,
                _ => return None,
            }
        }
    }
    scanner.is_at_end().then_some(())
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where the block begins whose stops are known, and they: a bit for each byte that is not simply part of a string.
    block: usize,
    stops: u64,
}

/// Which bytes of a block are a quote, a backslash or a control character.
fn stops(block: &[u8; BLOCK]) -> u64 {
    bits(block, |byte| byte == b'"' || byte == b'\\' || byte < b' ')
}

impl<'a> Scanner<'a> {
    fn of(text: &'a str) -> Self {
        Self { bytes: text.as_bytes(), at: 0, block: 0, stops: blocks::at(text.as_bytes(), 0, stops) }
    }

    /// Offset of the first byte from `at` on that is not simply part of a string; the end where there is none, or beyond.
    #[inline]
    fn next_stop(&mut self, at: usize) -> usize {
        let bytes = self.bytes;
        let mut from = at;
        loop {
            let block = from - from % BLOCK;
            if block != self.block {
                (self.block, self.stops) = (block, blocks::at(bytes, block, stops));
            }
            let left = self.stops & (u64::MAX << (from % BLOCK));
            if left != 0 {
                return block + left.trailing_zeros() as usize;
            }
            from = block + BLOCK;
            if from >= bytes.len() {
                return from;
            }
        }
    }

    /// Skips one value of at most so many levels.
    #[inline]
    fn value(&mut self, depth_max: usize) -> Option<()> {
        match self.peek_after_space()? {
            b'"' => self.string().map(drop),
            b'{' | b'[' => self.container(depth_max),
            b'-' | b'0'..=b'9' => self.number(),
            _ => self.word(),
        }
    }

    /// Skips an object or array. No recursion: hostile depth costs nothing.
    fn container(&mut self, depth_max: usize) -> Option<()> {
        let mut open = 0;
        // One bit for each open container, the innermost lowest: whether it is an object.
        let mut kinds = 0_u64;
        loop {
            match self.peek_after_space()? {
                b'"' => _ = self.string()?,
                b'-' | b'0'..=b'9' => self.number()?,
                opener @ (b'{' | b'[') => {
                    let is_object = opener == b'{';
                    open += 1;
                    if open > depth_max {
                        return None;
                    }
                    kinds = kinds << 1 | u64::from(is_object);
                    self.at += 1;
                    let is_empty = matches!((self.peek_after_space()?, is_object), (b'}', true) | (b']', false));
                    if !is_empty {
                        if is_object {
                            self.key()?;
                        }
                        continue;
                    }
                }
                _ => self.word()?,
            }
            // After a value: what it stands in ends, or goes on with the next one.
            while open > 0 {
                let is_object = kinds & 1 == 1;
                match (self.peek_after_space()?, is_object) {
                    (b',', _) => break,
                    (b'}', true) | (b']', false) => {
                        open -= 1;
                        kinds >>= 1;
                        self.at += 1;
                    }
                    _ => return None,
                }
            }
            if open == 0 {
                return Some(());
            }
            self.at += 1;
            if kinds & 1 == 1 {
                self.key()?;
            }
        }
    }

    /// A key and its colon.
    fn key(&mut self) -> Option<()> {
        self.key_start()?;
        self.string()?;
        self.expect(b':')
    }

    /// Where the quote stands that opens a key.
    #[inline]
    fn key_start(&mut self) -> Option<usize> {
        (self.peek_after_space()? == b'"').then_some(self.at)
    }

    /// A string from its opening quote on; whether it holds escapes.
    #[inline]
    fn string(&mut self) -> Option<bool> {
        // Most are short and without escapes: their end is known already.
        let from = self.at + 1;
        let left = if from - from % BLOCK == self.block { self.stops & (u64::MAX << (from % BLOCK)) } else { 0 };
        let end = self.block + left.trailing_zeros() as usize;
        if left != 0 && self.bytes.get(end) == Some(&b'"') {
            self.at = end + 1;
            return Some(false);
        }
        self.long_string()
    }

    /// The same for any string. A call of its own: beside it the short ones would pay for its registers.
    #[inline(never)]
    fn long_string(&mut self) -> Option<bool> {
        let bytes = self.bytes;
        let mut has_escapes = false;
        let mut at = self.at + 1;
        loop {
            at = self.next_stop(at);
            match bytes.get(at)? {
                b'"' => {
                    self.at = at + 1;
                    return Some(has_escapes);
                }
                b'\\' => {
                    has_escapes = true;
                    at = escape_end(bytes, at)?;
                }
                _ => return None,
            }
        }
    }

    fn number(&mut self) -> Option<()> {
        self.at += usize::from(self.peek()? == b'-');
        match self.peek()? {
            b'0' => self.at += 1,
            _ => self.digits()?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            self.at += usize::from(matches!(self.peek()?, b'+' | b'-'));
            self.digits()?;
        }
        Some(())
    }

    #[inline]
    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    fn word(&mut self) -> Option<()> {
        let rest = self.bytes.get(self.at..)?;
        let word = [&b"true"[..], b"false", b"null"].into_iter().find(|word| rest.starts_with(word))?;
        self.at += word.len();
        Some(())
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek_after_space()? == byte).then(|| self.at += 1)
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline]
    fn peek_after_space(&mut self) -> Option<u8> {
        // Most writers leave no space.
        self.peek().filter(|byte| *byte > b' ').or_else(|| {
            self.at = json::space_end(self.bytes, self.at);
            self.peek()
        })
    }

    fn is_at_end(&mut self) -> bool {
        self.peek_after_space().is_none()
    }
}

/// Offset after the escape at `at`; after both halves of a surrogate pair. None for what is no escape, and for half a pair.
#[inline]
fn escape_end(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at + 1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(at + 2),
        b'u' => match json::unit(bytes, at)? {
            0xD800..=0xDBFF => matches!(json::unit(bytes, at + 6), Some(0xDC00..=0xDFFF)).then_some(at + 12),
            0xDC00..=0xDFFF => None,
            _ => Some(at + 6),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{fields, fields_while, is_sound};
    use crate::event::json;

    fn text_of(key: &[u8]) -> String {
        String::from_utf8(key.to_vec()).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn one_pass_says_what_the_slower_means_say(pieces in proptest::collection::vec(piece(), 0..24)) {
            for text in [pieces.concat(), format!("{{\"a\":{}}}", pieces.concat()), format!("[\"{}\"]", pieces.concat())] {
                let sound = json::is_valid(&text) && json::faults(&text) == json::Faults::default();
                prop_assert_eq!(is_sound(&text), sound, "{}", text);
                let mut found = Vec::new();
                let read = fields(&text, |key, value| found.push((text_of(&key), &text[value]))).is_some();
                prop_assert_eq!(read, sound && text.trim_start().starts_with('{'), "{}", text);
                if read {
                    let fields = json::fields(&text).map(|(key, value)| (key.into_owned(), value));
                    prop_assert_eq!(found, fields.collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn a_string_ends_at_its_quote_wherever_that_stands() {
        for length in 0..200 {
            for stop in ['"', '\\', '\n', '!', '#', '\u{7f}', '\u{80}', '¢'] {
                let text = format!("[\"{}{stop}\",\"{}\"]", "x".repeat(length), "y".repeat(length));
                assert_eq!(is_sound(&text), json::is_valid(&text), "{text}");
            }
        }
    }

    #[test]
    fn what_stands_behind_the_last_field_asked_for_is_not_looked_at() {
        let mut shown = Vec::new();
        let visit = |key: std::borrow::Cow<'_, [u8]>, _| {
            shown.push(text_of(&key));
            shown.len() < 2
        };
        assert_eq!(fields_while(r#"{"a":1,"b":[2],"c":"#, visit), Some(()));
        assert_eq!(shown, ["a", "b"]);
        assert_eq!(fields_while(r#"{"a":1,"c":"#, |_, _| true), None);
    }

    /// Pieces of JSON that often enough make JSON, and often enough just not.
    fn piece() -> impl Strategy<Value = String> {
        let fixed = [
            "{",
            "}",
            "[",
            "]",
            "\"",
            "\"",
            ",",
            ":",
            "{\"k\":",
            "\"x\"",
            ",\"y\":",
            "[]",
            "{}",
            "0",
            "1",
            "-",
            ".",
            "e",
            "+",
            "true",
            "false",
            "null",
            "\\",
            "\\n",
            "\\\"",
            "\\u00e9",
            "\\ud83d",
            "\\ude00",
            "\\u12",
            " ",
            "\n",
            "\u{1}",
            "é",
            "plain text",
        ];
        prop_oneof![
            8 => proptest::sample::select(fixed.to_vec()).prop_map(str::to_owned),
            1 => (60_usize..70).prop_map(|levels| format!("{}{}", "[".repeat(levels), "]".repeat(levels))),
            1 => any::<f64>().prop_map(|number| number.to_string()),
        ]
    }

    #[test]
    fn values_are_told_from_what_is_none() {
        for (text, sound) in [
            (r#" {"a" : [1, -0.5e+3, "x\n\u00e9", true, {}], "b":null} "#, true),
            ("\"\"", true),
            ("0", true),
            ("-0", true),
            ("1E5", true),
            ("[[],[{}],{\"a\":[]}]", true),
            (r#""\ud83d\ude00""#, true),
            ("", false),
            (" ", false),
            ("01", false),
            ("1.", false),
            (".5", false),
            ("1e", false),
            ("-", false),
            ("+1", false),
            ("truE", false),
            ("nullx", false),
            ("[1,]", false),
            ("[,1]", false),
            ("[1 2]", false),
            ("[1}", false),
            ("{\"a\":1]", false),
            ("{\"a\"}", false),
            ("{\"a\":}", false),
            ("{\"a\":1,}", false),
            ("{a:1}", false),
            ("[1", false),
            ("\"a", false),
            ("\"a\nb\"", false),
            ("\"\u{1f}\"", false),
            (r#""\x""#, false),
            (r#""\u12g4""#, false),
            (r#""\u12"#, false),
            (r#""\ud83d""#, false),
            (r#""\ude00""#, false),
            (r#""\ud83d\ud83d""#, false),
            ("1 2", false),
            ("{} {}", false),
            ("\u{a0}1", false),
        ] {
            assert_eq!(is_sound(text), sound, "{text}");
        }
    }

    #[test]
    fn sixty_four_levels_are_allowed() {
        let nested = |open: &str, close: &str, levels: usize| format!("{}0{}", open.repeat(levels), close.repeat(levels));
        assert!(is_sound(&nested("[", "]", 64)) && !is_sound(&nested("[", "]", 65)));
        let object = |levels| nested("{\"a\":", "}", levels);
        let depth = |text: &str| fields(text, |_, _| ()).is_some();
        assert!(is_sound(&object(64)) && depth(&object(64)));
        assert!(!is_sound(&object(65)) && !depth(&object(65)));
    }

    #[test]
    fn fields_come_in_source_order_and_only_of_a_whole_object() {
        let mut found = Vec::new();
        let text = r#" { "a" : [1, {"x":"}"}] , "\u0062\"" :"\\", "a":null} "#;
        assert!(fields(text, |key, value| found.push(format!("{}={}", text_of(&key), &text[value]))).is_some());
        assert_eq!(found, [r#"a=[1, {"x":"}"}]"#, r#"b"="\\""#, "a=null"]);
        for text in ["{}", " { } "] {
            assert!(fields(text, |_, _| unreachable!()).is_some());
        }
        for text in ["[1]", "", "{", "{}x", "{\"a\":1}}", "1"] {
            assert!(fields(text, |_, _| ()).is_none(), "{text}");
        }
    }
}
