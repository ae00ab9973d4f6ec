//! Sketches of texts: how much two of them share, without keeping either.
//!
//! A text is cut into words, the words into runs of three. Of the hashes of all runs a sketch keeps the smallest (bottom-k, Broder 1997). The
//! same bytes give the same sketch on every machine: live detection and a replay agree.

use smallvec::SmallVec;

use crate::event::{Message, json};
use crate::identity::arguments::Arguments;
use crate::identity::likeness::{SKETCH_HASHES, Sketch};

/// Words of a call that are struck out of its failure. More are rare, and what is left only makes a failure look newer.
const OWN_WORDS_MAX: usize = 512;

/// Hashes of arguments and of words; of most calls there are few.
pub type Hashes = SmallVec<[u32; 64]>;

/// Bytes between two quotes that are taken for a quoted name.
const QUOTED_BYTES_MAX: usize = 80;

/// What a word that is an id, or holds both letters and digits, is counted as.
const FOLDED: u64 = 0x9e37_79b9_7f4a_7c15;

/// A text of which only a hash is known: two of them are the same or share nothing.
fn sketch_hash(hash: &[u8; 32]) -> Sketch {
    // One word, of letters alone: a word with a digit would be taken for an id, and all ids for one.
    let letter = |half: u8| char::from(b'a' + half);
    let word: String = hash.iter().flat_map(|byte| [letter(byte >> 4), letter(byte & 15)]).collect();
    sketch_text(&word).0
}

/// A text of a person or a tool.
#[must_use]
pub fn sketch_text(text: &str) -> (Sketch, usize) {
    let mut sketcher = Sketcher::default();
    words(text, Escapes::None, &mut |word| sketcher.add(word.folded(false)));
    sketcher.finish()
}

/// Sketch of a message, and the number of its words; a text that only its producer knows is compared as a whole.
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

/// Sketch of an answer, from one walk over it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AnswerSketch {
    pub sketch: Sketch,
    /// Number of words in the answer.
    pub words: usize,
    /// Words that could name something.
    pub named: NamingWords,
    /// Hash of it without numbers and ids: two texts have the same where only these differ.
    pub shape: u32,
}

/// An answer of which only a hash is known: it names nothing, and no other differs from it in numbers alone.
#[must_use]
pub fn read_hash(hash: &[u8; 32]) -> AnswerSketch {
    let [one, two, three, four, ..] = *hash;
    let (sketch, words) = (sketch_hash(hash), hash.len());
    AnswerSketch { sketch, words, named: NamingWords::new(), shape: u32::from_le_bytes([one, two, three, four]) }
}

/// A text of a tool; at most `most` words are kept as names.
#[must_use]
pub fn read_text(text: &str, most: usize) -> AnswerSketch {
    read(text, Escapes::None, most)
}

/// Canonical JSON, its keys included; at most `most` words are kept as names.
#[must_use]
pub fn read_json(source: &str, most: usize) -> AnswerSketch {
    read(source, Escapes::Json, most)
}

fn read(text: &str, escapes: Escapes, most: usize) -> AnswerSketch {
    let (mut sketcher, mut named, mut shape) = (Sketcher::default(), NamingWords::new(), 0_u64);
    words(text, escapes, &mut |word| {
        sketcher.add(word.folded(false));
        shape = mixed(shape ^ word.folded(true));
        word.add_to(&mut named, most);
    });
    let (sketch, words) = sketcher.finish();
    AnswerSketch { sketch, words, named: in_order(named), shape: small(shape) }
}

/// The values of arguments, and their words that could name something; at most `most`. A number in one of `modifiers`, which choose which
/// part is meant, names nothing.
#[must_use]
pub fn read_arguments(args: &Arguments<'_>, modifiers: &[String], most: usize) -> (Sketch, NamingWords) {
    let (mut sketcher, mut named) = (Sketcher::default(), NamingWords::new());
    let mut take = |text: &str, is_modifier: bool| {
        values(text, &mut |value| {
            words(value, Escapes::Json, &mut |word| {
                sketcher.add(word.hash);
                if !is_modifier {
                    word.add_to(&mut named, most);
                }
            });
        });
    };
    if args.is_object() {
        args.members(|key, value| {
            let is_number = value.bytes().all(|byte| byte.is_ascii_digit() || b"[]-,. ".contains(&byte));
            take(value, is_number && modifiers.iter().any(|name| name == key));
        });
    } else {
        take(args.text(), false);
    }
    (sketcher.finish().0, in_order(named))
}

/// A hash for each top-level argument with its value, ascending; at most `most`.
#[must_use]
pub fn argument_hashes(args: &Arguments<'_>, most: usize) -> Hashes {
    let mut hashes = Hashes::new();
    args.members(|key, value| {
        if hashes.len() < most {
            let mut word = Word::default();
            for part in [key, "=", value] {
                part.bytes().for_each(|byte| word.mix(byte.to_ascii_lowercase()));
            }
            hashes.push(small(word.hash));
        }
    });
    hashes.sort_unstable();
    hashes
}

/// The words of a call: its tool, and its arguments with their names. Ascending.
#[must_use]
pub fn own_words(tool: &str, arguments: &str) -> Hashes {
    let mut own = Hashes::new();
    for text in [tool, arguments] {
        words(text, Escapes::Json, &mut |word| {
            if own.len() < OWN_WORDS_MAX {
                own.push(small(word.hash));
            }
        });
    }
    own.sort_unstable();
    own.dedup();
    own
}

/// Hashes of words that could name something: of two letters or more, or with a digit. Ascending, each once. Room for those of a long answer.
pub type NamingWords = SmallVec<[u16; 256]>;

/// Those of a text, at most `most`.
#[must_use]
pub fn naming_words(text: &str, most: usize) -> NamingWords {
    let mut named = NamingWords::new();
    words(text, Escapes::None, &mut |word| word.add_to(&mut named, most));
    in_order(named)
}

fn in_order(mut named: NamingWords) -> NamingWords {
    named.sort_unstable();
    named.dedup();
    named
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
    /// Characters stand for themselves.
    None,
    /// With backslashes, as JSON does: an escape ends a word.
    Json,
}

/// A word while it is read.
#[derive(Debug, Clone, Copy)]
struct Word {
    hash: u64,
    bytes: usize,
    digits: usize,
}

impl Default for Word {
    fn default() -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, bytes: 0, digits: 0 }
    }
}

impl Word {
    const fn mix(&mut self, byte: u8) {
        self.hash = (self.hash ^ byte as u64).wrapping_mul(0x0000_0100_0000_01b3);
    }

    /// Adds it to words that could name something, if it could.
    fn add_to(self, named: &mut NamingWords, most: usize) {
        if named.len() < most && (self.bytes > 1 || self.digits > 0) {
            named.push((small(self.hash) >> 16) as u16);
        }
    }

    /// The word that a text begins with; one of no bytes where it begins with none.
    fn at_start_of(bytes: &[u8]) -> Self {
        let mut word = Self::default();
        for byte in bytes {
            let lower = word_byte(*byte);
            if lower == 0 {
                break;
            }
            word.mix(lower);
            word.bytes += 1;
            // Of all bytes of a word, digits are the smallest.
            word.digits += usize::from(lower <= b'9');
        }
        word
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
    let mut rest = text.as_bytes();
    loop {
        let word = Word::at_start_of(rest);
        if word.bytes > 0 {
            each(word);
        }
        let ended_by = match rest.get(word.bytes..) {
            None | Some([]) => return,
            Some([b'\\', b'u', ..]) if escapes == Escapes::Json => 6,
            Some([b'\\', ..]) if escapes == Escapes::Json => 2,
            Some(_) => 1,
        };
        rest = rest.get(word.bytes + ended_by..).unwrap_or_default();
    }
}

/// Hashes that are kept before they are thinned out.
const KEPT_MAX: usize = 2 * SKETCH_HASHES;

/// Takes words and keeps the smallest hashes of runs of three.
#[derive(Debug)]
struct Sketcher {
    words: usize,
    /// The last two words, older first.
    last: [u64; 2],
    /// In no order, some twice; the smallest are among them.
    kept: [u32; KEPT_MAX],
    len: usize,
    /// No hash from this one on is among the smallest.
    bound: u64,
}

impl Default for Sketcher {
    fn default() -> Self {
        Self { words: 0, last: [0; 2], kept: [0; KEPT_MAX], len: 0, bound: u64::MAX }
    }
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

    #[inline]
    fn keep(&mut self, hash: u32) {
        if u64::from(hash) >= self.bound {
            return;
        }
        if self.len >= KEPT_MAX {
            let sketch = self.smallest();
            self.len = sketch.hashes().len();
            self.kept.iter_mut().zip(sketch.hashes()).for_each(|(place, hash)| *place = *hash);
            self.bound = sketch.hashes().get(SKETCH_HASHES - 1).map_or(u64::MAX, |last| u64::from(*last));
        }
        if let Some(place) = self.kept.get_mut(self.len) {
            *place = hash;
            self.len += 1;
        }
    }

    fn smallest(&mut self) -> Sketch {
        let kept = self.kept.get_mut(..self.len).unwrap_or_default();
        kept.sort_unstable();
        let mut before = None;
        kept.iter().copied().filter(|hash| before.replace(*hash) != Some(*hash)).collect()
    }

    /// The sketch, and the number of words. Fewer than three words stand for themselves.
    fn finish(mut self) -> (Sketch, usize) {
        if self.words < 3 {
            for word in self.last.into_iter().rev().take(self.words) {
                self.keep(small(word));
            }
        }
        (self.smallest(), self.words)
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
mod tests;
