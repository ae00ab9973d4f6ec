//! Sketches of texts: how much two of them share, without keeping either.
//!
//! A text is cut into words, the words into runs of three. Of the hashes of all runs a sketch keeps the smallest (bottom-k, Broder 1997). The
//! same bytes give the same sketch on every machine: live detection and a replay agree.

use crate::event::{Message, json};

/// Hashes of a sketch, one for each bit of a number. The standard error of a similarity estimated from 32 of them is 0.09 at one half; texts of up to 34 words are compared
/// exactly.
pub const SKETCH_HASHES: usize = 32;

/// Words of a call that are struck out of its failure. More are rare, and what is left only makes a failure look newer.
const OWN_WORDS_MAX: usize = 512;

/// Bytes between two quotes that are taken for a quoted name.
const QUOTED_BYTES_MAX: usize = 80;

/// What a word that is an id, or holds both letters and digits, is counted as.
const FOLDED: u64 = 0x9e37_79b9_7f4a_7c15;

/// The smallest hashes of what a text holds, ascending and each once; at most [`SKETCH_HASHES`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sketch(Box<[u32]>);

impl Sketch {
    /// A sketch from stored hashes, whatever their order; what is too much is dropped.
    #[must_use]
    pub fn of_hashes(mut hashes: Vec<u32>) -> Self {
        hashes.sort_unstable();
        hashes.dedup();
        hashes.truncate(SKETCH_HASHES);
        Self(hashes.into())
    }

    /// The hashes, ascending.
    #[must_use]
    pub fn hashes(&self) -> &[u32] {
        &self.0
    }

    /// Whether the text had no word.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the share of runs that two texts have in common (Jaccard) is at least `percent`. Two empty texts are alike.
    #[must_use]
    pub fn is_alike(&self, other: &Self, percent: usize) -> bool {
        if self.0 == other.0 {
            return true;
        }
        // No text of more than so many runs that differ can still be alike.
        let others_max = SKETCH_HASHES.min(self.0.len() + other.0.len()) * (100 - percent.min(100)) / 100;
        let (mut left, mut right) = (self.0.iter(), other.0.iter());
        let (mut one, mut two) = (left.next(), right.next());
        let (mut shared, mut others) = (0, 0);
        while shared + others < SKETCH_HASHES && others <= others_max {
            match (one, two) {
                (None, None) => break,
                (Some(a), Some(b)) if a == b => {
                    shared += 1;
                    (one, two) = (left.next(), right.next());
                }
                (Some(a), Some(b)) if a > b => {
                    others += 1;
                    two = right.next();
                }
                (Some(_), _) => {
                    others += 1;
                    one = left.next();
                }
                (None, Some(_)) => {
                    others += 1;
                    two = right.next();
                }
            }
        }
        shared * 100 >= percent * (shared + others) && shared > 0
    }

    /// Which of its hashes another sketch has too: a bit for the place of each.
    #[must_use]
    pub fn places_in(&self, other: &Self) -> u32 {
        let mut theirs = other.0.iter();
        let mut their = theirs.next();
        let mut places = 0;
        for (place, hash) in self.0.iter().enumerate() {
            while their.is_some_and(|their| their < hash) {
                their = theirs.next();
            }
            if their == Some(hash) {
                places |= 1 << place;
            }
        }
        places
    }

    /// The places of all its hashes.
    #[must_use]
    pub fn places(&self) -> u32 {
        u32::MAX.checked_shr(u32::BITS.saturating_sub(self.0.len() as u32)).unwrap_or_default()
    }

    /// Share of its hashes beside those at some places, in percent; 0 of an empty text.
    #[must_use]
    pub fn percent_beside(&self, places: u32) -> u8 {
        let others = self.0.len() - (places.count_ones() as usize).min(self.0.len());
        (others * 100 / self.0.len().max(1)) as u8
    }
}

/// A text of which only a hash is known: two of them are the same or share nothing.
#[must_use]
pub fn sketch_hash(hash: &[u8; 32]) -> Sketch {
    sketch_text(&hash.map(|byte| format!("{byte}q")).join(" ")).0
}

/// A text of a person or a tool.
#[must_use]
pub fn sketch_text(text: &str) -> (Sketch, usize) {
    let mut sketcher = Sketcher::default();
    words(text, Escapes::None, &mut |word| sketcher.add(word.folded(false)));
    sketcher.finish()
}

/// What a message says, and its words; a text that only its producer knows is compared as a whole.
#[must_use]
pub fn sketch_message(message: &Message<'_>) -> (Sketch, usize) {
    let text = message.text().unwrap_or_default();
    match message.text_sha256 {
        Some(hash) if text.is_empty() => (sketch_hash(&hash), 1),
        _ => sketch_text(&text),
    }
}

/// How often the most frequent run of so many words occurs in a text.
#[must_use]
pub fn repeated_run(text: &str, run: usize) -> usize {
    let mut hashes = Vec::new();
    words(text, Escapes::None, &mut |word| hashes.push(word.hash));
    let mut runs: Vec<u64> = hashes.windows(run.max(1)).map(|run| run.iter().fold(0, |hash, word| mixed(hash ^ word))).collect();
    runs.sort_unstable();
    runs.chunk_by(|one, two| one == two).map(<[u64]>::len).max().unwrap_or_default()
}

/// Canonical JSON, its keys included.
#[must_use]
pub fn sketch_json(source: &str) -> (Sketch, usize) {
    let mut sketcher = Sketcher::default();
    words(source, Escapes::Json, &mut |word| sketcher.add(word.folded(false)));
    sketcher.finish()
}

/// The values of arguments: canonical JSON of an object, or any text.
#[must_use]
pub fn sketch_arguments(text: &str) -> Sketch {
    let mut sketcher = Sketcher::default();
    values(text, &mut |value| words(value, Escapes::Json, &mut |word| sketcher.add(word.folded(false))));
    sketcher.finish().0
}

/// A hash for each top-level argument with its value, ascending; at most `most`.
#[must_use]
pub fn argument_hashes(text: &str, most: usize) -> Box<[u32]> {
    let mut hashes: Vec<u32> = json::fields(text)
        .take(most)
        .map(|(key, value): (std::borrow::Cow<'_, str>, &str)| {
            let mut word = Word::default();
            key.bytes().chain([b'=']).chain(value.bytes()).for_each(|byte| word.push(byte.to_ascii_lowercase()));
            small(word.hash)
        })
        .collect();
    hashes.sort_unstable();
    hashes.into()
}

/// The words of a call: its tool, and its arguments with their names. Ascending.
#[must_use]
pub fn own_words(tool: &str, arguments: &str) -> Box<[u32]> {
    let mut own = Vec::new();
    for text in [tool, arguments] {
        words(text, Escapes::Json, &mut |word| {
            if own.len() < OWN_WORDS_MAX {
                own.push(small(word.hash));
            }
        });
    }
    own.sort_unstable();
    own.dedup();
    own.into()
}

/// The template of a failure: its text without the words of the call, quoted names, numbers and ids.
#[must_use]
pub fn sketch_failure(text: &str, own: &[u32]) -> Sketch {
    let mut sketcher = Sketcher::default();
    let mut rest = text;
    while !rest.is_empty() {
        let (before, after) = split_at_quoted(rest);
        words(before, Escapes::None, &mut |word| {
            let folded = word.folded(true);
            if folded != FOLDED && own.binary_search(&small(word.hash)).is_err() {
                sketcher.add(folded);
            }
        });
        rest = after;
    }
    sketcher.finish().0
}

/// What stands before the first quoted name, and what stands behind it.
fn split_at_quoted(text: &str) -> (&str, &str) {
    let bytes = text.as_bytes();
    for (start, quote) in bytes.iter().enumerate().filter(|(_, byte)| matches!(byte, b'\'' | b'"' | b'`')) {
        let inside = bytes.get(start + 1..).unwrap_or_default();
        let end = inside.iter().take(QUOTED_BYTES_MAX + 1).take_while(|byte| **byte != b'\n').position(|byte| byte == quote);
        if let Some(length) = end.filter(|length| *length > 0) {
            return (text.get(..start).unwrap_or_default(), text.get(start + length + 2..).unwrap_or_default());
        }
    }
    (text, "")
}

/// The strings and scalars of a JSON text, without the keys of its objects; of other text the whole.
fn values(text: &str, each: &mut impl FnMut(&str)) {
    if !text.starts_with(['{', '[']) {
        return each(text);
    }
    let (mut at, mut from) = (0, 0);
    while let Some(byte) = text.as_bytes().get(at) {
        if *byte != b'"' {
            at += 1;
            continue;
        }
        let end = json::string_end(text, at).max(at + 1);
        let is_key = text.as_bytes().get(json::skip_space(text, end)) == Some(&b':');
        if is_key {
            each(text.get(from..at).unwrap_or_default());
            from = end;
        }
        at = end;
    }
    each(text.get(from..).unwrap_or_default());
}

/// How a text spells characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escapes {
    /// As they are.
    None,
    /// With backslashes, as JSON does: an escape ends a word.
    Json,
}

/// A word while it is read.
#[derive(Debug, Clone, Copy)]
struct Word {
    hash: u64,
    bytes: u32,
    digits: u32,
}

impl Default for Word {
    fn default() -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, bytes: 0, digits: 0 }
    }
}

impl Word {
    const fn push(&mut self, lower: u8) {
        self.hash = (self.hash ^ lower as u64).wrapping_mul(0x0000_0100_0000_01b3);
        self.bytes += 1;
        self.digits += lower.is_ascii_digit() as u32;
    }

    /// The word as it is compared: letters and digits mixed, or eight digits and more, are an id; with `all`, so is every number.
    const fn folded(&self, all: bool) -> u64 {
        let is_number = self.digits == self.bytes;
        let is_id = self.digits > 0 && (!is_number || self.bytes >= 8 || all);
        if is_id { FOLDED } else { self.hash }
    }
}

/// Each byte of a word in lower case; 0 of a byte that ends one.
static WORD_BYTES: [u8; 256] = word_bytes();

#[expect(clippy::indexing_slicing, reason = "a constant: an index out of bounds does not compile")]
const fn word_bytes() -> [u8; 256] {
    let mut bytes = [0; 256];
    let mut byte = 0;
    while byte < bytes.len() {
        let letter = byte as u8;
        if letter.is_ascii_alphanumeric() || letter == b'_' || !letter.is_ascii() {
            bytes[byte] = letter.to_ascii_lowercase();
        }
        byte += 1;
    }
    bytes
}

#[expect(clippy::indexing_slicing, reason = "there are 256 bytes")]
const fn word_byte(byte: u8) -> u8 {
    WORD_BYTES[byte as usize]
}

/// Calls `each` for every word: letters, digits, underscores, and all bytes of other scripts.
fn words(text: &str, escapes: Escapes, each: &mut impl FnMut(Word)) {
    let mut word = Word::default();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let lower = word_byte(byte);
        if lower != 0 {
            word.push(lower);
            continue;
        }
        if word.bytes > 0 {
            each(std::mem::take(&mut word));
        }
        if byte == b'\\' && escapes == Escapes::Json && bytes.next() == Some(b'u') {
            bytes.by_ref().take(4).for_each(drop);
        }
    }
    if word.bytes > 0 {
        each(word);
    }
}

/// Takes words and keeps the smallest hashes of runs of three.
#[derive(Debug, Default)]
struct Sketcher {
    words: usize,
    /// The last two words, older first.
    last: [u64; 2],
    kept: Vec<u32>,
}

impl Sketcher {
    fn add(&mut self, word: u64) {
        self.words += 1;
        let [first, second] = self.last;
        if self.words >= 3 {
            self.keep(small(first.rotate_left(42) ^ second.rotate_left(21) ^ word));
        }
        self.last = [second, word];
    }

    fn keep(&mut self, hash: u32) {
        if self.kept.len() >= SKETCH_HASHES && self.kept.last().is_some_and(|last| hash >= *last) {
            return;
        }
        if let Err(place) = self.kept.binary_search(&hash) {
            if self.kept.len() >= SKETCH_HASHES {
                self.kept.pop();
            }
            self.kept.insert(place, hash);
        }
    }

    /// The sketch, and the number of words. Fewer than three words stand for themselves.
    fn finish(mut self) -> (Sketch, usize) {
        if self.words < 3 {
            for word in self.last.into_iter().rev().take(self.words) {
                self.keep(small(word));
            }
        }
        (Sketch(self.kept.into()), self.words)
    }
}

/// 32 bits of a hash, each depending on all of its bits.
const fn small(hash: u64) -> u32 {
    (mixed(hash) >> 32) as u32
}

/// A hash of which every bit depends on all bits of another (the finaliser of MurmurHash3, but for its last step).
const fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> Sketch {
        sketch_text(text).0
    }

    #[test]
    fn texts_that_differ_in_an_id_are_the_same_and_in_a_number_nearly() {
        let page = |n: u32, id: &str| format!("page {n} of the archive, request {id}, loaded with nine rows and a footer");
        assert_eq!(of(&page(3, "7f3a9c21")), of(&page(3, "1b2c")));
        assert!(of(&page(3, "a1")).is_alike(&of(&page(4, "a1")), 60));
        assert!(!of(&page(3, "a1")).is_alike(&of("nothing at all was found in this place today"), 10));
        assert!(of("").is_alike(&of(" ... "), 60) && !of("").is_alike(&of("a"), 60));
    }

    #[test]
    fn a_failure_is_what_is_left_without_the_call_and_what_it_quotes() {
        let template = |text: &str, args: &str| sketch_failure(text, &own_words("get_user", args));
        assert_eq!(
            template("user 4711 not found in table users", r#"{"id":4711}"#),
            template("user 12 not found in table users", r#"{"id":12}"#)
        );
        assert_eq!(template("must have property 'path'", "{}"), template("must have property 'content'", "{}"));
        assert_ne!(template("must have property 'path'", "{}"), template("must not have property 'path'", "{}"));
    }

    #[test]
    fn arguments_are_their_values() {
        assert_eq!(sketch_arguments(r#"{"a":"x y","b":{"c":[1,true]}}"#), of("x y 1 true"));
        assert_eq!(sketch_arguments(r#"{"a":"x\ny \"z\" A"}"#), of("x y z A"));
        assert_eq!(argument_hashes(r#"{"a":1,"b":2}"#, 9), argument_hashes(r#"{"b":2,"a":1}"#, 9));
        assert_ne!(argument_hashes(r#"{"a":1}"#, 9), argument_hashes(r#"{"a":2}"#, 9));
    }

    #[test]
    fn a_phrase_is_counted_where_it_comes_again() {
        assert_eq!(repeated_run(&"I will try it once more, then. ".repeat(6), 4), 6);
        assert_eq!(repeated_run("one two three four five six", 4), 1);
        assert_eq!(repeated_run("one two", 4), 0);
    }

    #[test]
    fn sketches_are_the_same_on_every_machine() {
        assert_eq!(of("the quick brown fox").hashes(), [1_152_222_596, 2_927_781_095]);
    }

    proptest! {
        #[test]
        fn an_estimate_is_near_the_truth(shared in 0usize..200, left in 0usize..100, right in 0usize..100) {
            let text = |side: &str, own: usize| {
                let word = |n: usize| ["ka", "lo", "mi", "nu", "pe"].map(|part| part.repeat(n % 7 + 1))[n / 7 % 5].clone() + &"q".repeat(n / 35);
                (0..shared).map(|n| format!("{0} {0} {0} ; ", word(n))).chain((0..own).map(|n| format!("{0}{side} {0}{side} {0}{side} ", word(n)))).collect::<String>()
            };
            let (a, b) = (of(&text("l", left)), of(&text("r", right)));
            prop_assert!(a.hashes().len() <= SKETCH_HASHES && a.hashes().is_sorted());
            prop_assert_eq!(a.is_alike(&b, 50), b.is_alike(&a, 50));
            prop_assert!(a.is_alike(&a, 100));
        }

        #[test]
        fn any_text_has_a_sketch(text in any::<String>(), own in any::<String>()) {
            let _ = (sketch_json(&text), sketch_arguments(&text), argument_hashes(&text, 16));
            let _ = sketch_failure(&text, &own_words("t", &own));
        }
    }
}
