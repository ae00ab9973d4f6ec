//! Sketches of texts: how much two of them share, without keeping either.
//!
//! A text is cut into words, the words into runs of three. Of the hashes of all runs a sketch keeps the smallest (bottom-k, Broder 1997). The
//! same bytes give the same sketch on every machine: live detection and a replay agree.

use std::ops::Range;

use smallvec::SmallVec;

use crate::event::{Message, json};
use crate::identity::arguments::Arguments;
use crate::identity::likeness::{SKETCH_HASHES, Sketch};

mod words;

use words::{Escapes, TakesWords, Word, mixed, small, words};

/// Words of a call that are struck out of its failure. More are rare, and what is left only makes a failure look newer.
const OWN_WORDS_MAX: usize = 512;

/// Hashes of arguments and of words; of most calls there are few.
type Hashes = SmallVec<[u32; 64]>;

/// Bytes between two quotes that are taken for a quoted name.
const QUOTED_BYTES_MAX: usize = 80;

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
    words(text, Escapes::None, &mut sketcher);
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
    let mut hashes: Vec<u64> = Vec::new();
    words(text, Escapes::None, &mut hashes);
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
    let mut reader = AnswerReader::new(most);
    words(text, escapes, &mut reader);
    reader.finish()
}

struct AnswerReader {
    sketcher: Sketcher,
    names: NameSet,
    shape: u64,
}

impl AnswerReader {
    fn new(most: usize) -> Self {
        Self { sketcher: Sketcher::default(), names: NameSet::new(most), shape: 0 }
    }

    fn finish(self) -> AnswerSketch {
        let (sketch, words) = self.sketcher.finish();
        AnswerSketch { sketch, words, named: self.names.named().into(), shape: small(self.shape) }
    }
}

impl TakesWords for AnswerReader {
    #[inline(never)]
    fn take(&mut self, word: Word) {
        self.sketcher.add(word.without_ids());
        self.shape = mixed(self.shape ^ word.without_numbers());
        self.names.take(word);
    }
}

/// What arguments show, from one walk over them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ArgumentSketch {
    /// Of their values, without their names.
    pub sketch: Sketch,
    /// A hash for each top-level argument with its value, ascending.
    pub hashes: SmallVec<[u32; 16]>,
    /// Their words that could name something.
    pub named: SmallVec<[u16; 64]>,
    /// The words of the call: of its tool, and of the arguments with their names. Ascending; none where they were not asked for.
    pub own: Hashes,
}

/// At most so many arguments are hashed one by one, and at most `most` words are kept as names. A number in one of `modifiers`, which choose
/// which part is meant, names nothing. `tool`: whose call it is, where the words of the call are asked for.
#[must_use]
pub fn read_arguments(
    args: &Arguments<'_>,
    modifiers: &[String],
    most_hashes: usize,
    most: usize,
    tool: Option<&str>,
) -> ArgumentSketch {
    let own = OwnReader { words: Hashes::new(), is_asked: tool.is_some() };
    let mut reader = ArgumentReader { sketcher: Sketcher::default(), names: NameSet::new(most), is_modifier: false, own };
    reader.own.read(tool.unwrap_or_default(), Escapes::Json);
    let mut hashes = SmallVec::new();
    args.members(|key, value| {
        if hashes.len() < most_hashes {
            let mut word = Word::default();
            for part in [key, "=", value] {
                part.bytes().for_each(|byte| word.mix(byte.to_ascii_lowercase()));
            }
            hashes.push(small(word.hash));
        }
        if args.is_object() {
            let is_number = || value.bytes().all(|byte| byte.is_ascii_digit() || b"[]-,. ".contains(&byte));
            reader.is_modifier = modifiers.iter().any(|name| name == key) && is_number();
            reader.own.read(key, Escapes::None);
            values(value, &mut |piece| reader.read(piece));
        }
    });
    if !args.is_object() {
        values(args.text(), &mut |piece| reader.read(piece));
    }
    hashes.sort_unstable();
    let own = reader.own.ascending();
    ArgumentSketch { sketch: reader.sketcher.finish().0, hashes, named: reader.names.named().into(), own }
}

struct ArgumentReader {
    sketcher: Sketcher,
    names: NameSet,
    /// What is read chooses which part is meant.
    is_modifier: bool,
    own: OwnReader,
}

impl ArgumentReader {
    fn read(&mut self, piece: Piece<'_>) {
        match piece {
            Piece::Value(value) => words(value, Escapes::Json, self),
            Piece::Key(key) => self.own.read(key, Escapes::Json),
        }
    }
}

impl TakesWords for ArgumentReader {
    #[inline(never)]
    fn take(&mut self, word: Word) {
        self.sketcher.add(word.hash);
        if self.own.is_asked {
            self.own.note(word);
        }
        if !self.is_modifier {
            self.names.take(word);
        }
    }
}

/// Takes the first [`OWN_WORDS_MAX`] words, where they are asked for.
struct OwnReader {
    words: Hashes,
    is_asked: bool,
}

impl OwnReader {
    fn read(&mut self, text: &str, escapes: Escapes) {
        if self.is_asked {
            words(text, escapes, self);
        }
    }

    #[inline]
    fn note(&mut self, word: Word) {
        if self.words.len() < OWN_WORDS_MAX {
            self.words.push(small(word.hash));
        }
    }

    fn ascending(mut self) -> Hashes {
        self.words.sort_unstable();
        self.words.dedup();
        self.words
    }
}

impl TakesWords for OwnReader {
    #[inline(never)]
    fn take(&mut self, word: Word) {
        self.note(word);
    }
}

impl TakesWords for Vec<u64> {
    fn take(&mut self, word: Word) {
        self.push(word.hash);
    }
}

/// Hashes of words that could name something: of two letters or more, or with a digit. Each once. Room for those of a long answer.
pub type NamingWords = SmallVec<[u16; 256]>;

/// A text of a person: its sketch and the number of its words, and those that could name something, ascending; at most `most`.
#[must_use]
pub fn read_message(text: &str, most: usize) -> AnswerSketch {
    let mut read = read_text(text, most);
    read.named.sort_unstable();
    read
}

/// Words that are kept as names at most: their places are numbers of eight bits.
const NAMES_MAX: usize = u8::MAX as usize;
/// Slots for words, of which at most half are taken.
const NAME_SLOTS: usize = 512;

/// Takes words that could name something, each once.
struct NameSet {
    /// In the order of the text.
    named: [u16; NAMES_MAX],
    len: usize,
    /// Words that are left to be looked at, equal ones included.
    left: usize,
    /// Where each word stands among those taken, plus one; 0 = free.
    slots: [u8; NAME_SLOTS],
}

impl NameSet {
    fn new(most: usize) -> Self {
        Self { named: [0; NAMES_MAX], len: 0, left: most.min(NAMES_MAX), slots: [0; NAME_SLOTS] }
    }

    #[inline]
    fn take(&mut self, word: Word) {
        if self.left == 0 || (word.bytes < 2 && word.digits == 0) {
            return;
        }
        self.left -= 1;
        let name = (small(word.hash) >> 16) as u16;
        let mut at = usize::from(name) % NAME_SLOTS;
        while let Some(slot) = self.slots.get_mut(at) {
            let Some(place) = slot.checked_sub(1) else {
                if let Some(named) = self.named.get_mut(self.len) {
                    *named = name;
                }
                self.len += 1;
                *slot = self.len as u8;
                return;
            };
            if self.named.get(usize::from(place)) == Some(&name) {
                return;
            }
            at = (at + 1) % NAME_SLOTS;
        }
    }

    fn named(&self) -> &[u16] {
        self.named.get(..self.len).unwrap_or_default()
    }
}

/// A text of a tool that failed, and its template: what is left without the words of the call, quoted names, numbers and ids. At most `most`
/// words are kept as names.
#[must_use]
pub fn read_failure(text: &str, most: usize, own: &[u32]) -> (AnswerSketch, Sketch) {
    let mut reader = FailureReader { answer: AnswerReader::new(most), template: Sketcher::default(), own };
    let mut rest = text;
    while let Some(name) = first_quoted(rest.as_bytes()) {
        words(rest.get(..name.start).unwrap_or_default(), Escapes::None, &mut reader);
        words(rest.get(name.clone()).unwrap_or_default(), Escapes::None, &mut reader.answer);
        rest = rest.get(name.end..).unwrap_or_default();
    }
    words(rest, Escapes::None, &mut reader);
    (reader.answer.finish(), reader.template.finish().0)
}

struct FailureReader<'a> {
    answer: AnswerReader,
    template: Sketcher,
    own: &'a [u32],
}

impl TakesWords for FailureReader<'_> {
    #[inline(never)]
    fn take(&mut self, word: Word) {
        self.answer.take(word);
        if word.digits == 0 && self.own.binary_search(&small(word.hash)).is_err() {
            self.template.add(word.hash);
        }
    }
}

/// Where the first quoted name stands, with its quotes.
fn first_quoted(text: &[u8]) -> Option<Range<usize>> {
    let mut quotes = text.iter().enumerate().filter(|(_, byte)| matches!(byte, b'\'' | b'"' | b'`'));
    quotes.find_map(|(start, quote)| {
        let inside = text.get(start + 1..)?.iter().take(QUOTED_BYTES_MAX + 1);
        let length = inside.take_while(|byte| **byte != b'\n').position(|byte| byte == quote)?;
        (length > 0).then_some(start..start + length + 2)
    })
}

/// A piece of a JSON text.
#[derive(Clone, Copy)]
enum Piece<'a> {
    /// Strings and scalars, and what stands between them.
    Value(&'a str),
    /// The key of an object, with its quotes.
    Key(&'a str),
}

/// The strings and scalars of a JSON text, and the keys of its objects; of other text the whole.
fn values(text: &str, each: &mut impl FnMut(Piece<'_>)) {
    if !text.starts_with(['{', '[']) {
        return each(Piece::Value(text));
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
            each(Piece::Value(text.get(from..at).unwrap_or_default()));
            each(Piece::Key(text.get(at..end).unwrap_or_default()));
            from = end;
        }
        at = end;
    }
    each(Piece::Value(text.get(from..).unwrap_or_default()));
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

impl TakesWords for Sketcher {
    #[inline(never)]
    fn take(&mut self, word: Word) {
        self.add(word.without_ids());
    }
}

impl Sketcher {
    #[inline]
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
            self.thin_out();
        }
        if let Some(place) = self.kept.get_mut(self.len) {
            *place = hash;
            self.len += 1;
        }
    }

    /// Keeps the smallest hashes, each once.
    #[cold]
    fn thin_out(&mut self) {
        let sketch = self.smallest();
        self.len = sketch.hashes().len();
        self.kept.iter_mut().zip(sketch.hashes()).for_each(|(place, hash)| *place = *hash);
        self.bound = sketch.hashes().get(SKETCH_HASHES - 1).map_or(u64::MAX, |last| u64::from(*last));
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

#[cfg(test)]
mod tests;
