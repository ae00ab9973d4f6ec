//! Evidence: what a step brought, measured once when its outcome is known, and kept with it.
//!
//! What it means is seen against the steps before it: `news`.

use crate::detect::steps::facts::Facts;
use crate::identity::{SketchView, paired, pairs_of, unpaired};

/// Answers of fewer words are too short to be compared.
pub const LITTLE_WORDS: usize = 10;
/// Arguments that are compared one by one.
pub const ARGUMENTS_MAX: usize = 16;

/// Words of arguments that are kept as names.
pub const ARGUMENT_WORDS_MAX: usize = 64;
/// Words of an answer that are kept as names.
pub const ANSWER_WORDS_MAX: usize = 160;

/// What is kept of a step to compare it with others. All hashes stand in one piece of memory: a history holds many of these.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Evidence {
    /// The parts of [`Hashed`], in its order; of words, two in a number.
    hashes: Box<[u32]>,
    /// Hashes of the first four parts.
    lens: [u8; 4],
    /// Number of words asked, and of words shown.
    words: [u8; 2],
    /// Share of what it brought that was not known. Percent.
    pub news: u8,
    pub marks: Marks,
    pub facts: Facts,
    /// Hash of its answer without numbers and ids.
    pub around_numbers: u32,
}

/// The hashes that evidence is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hashed<'a> {
    /// The values of its arguments.
    pub arguments: SketchView<'a>,
    /// A hash for each of its first [`ARGUMENTS_MAX`] arguments, ascending.
    pub values: &'a [u32],
    pub answer: SketchView<'a>,
    /// The template of its failure; empty of a success.
    pub failure: SketchView<'a>,
    /// Hashes of the words in its arguments that could name something, each once; at most [`ARGUMENT_WORDS_MAX`].
    pub asked: &'a [u16],
    /// Those of the words in its answer; at most [`ANSWER_WORDS_MAX`]. A worklist is seen in both: an item was shown before it is asked for.
    pub shown: &'a [u16],
    /// The words of the call, until its answer has come.
    pub own: &'a [u32],
    /// Its answer without numbers and ids.
    pub around_numbers: u32,
}

impl Evidence {
    /// Evidence with these hashes. Of a part, more than a byte can count are dropped: there are none.
    #[must_use]
    pub fn new(hashed: Hashed<'_>, news: u8, marks: Marks) -> Self {
        let Hashed { arguments, values, answer, failure, asked, shown, own, around_numbers } = hashed;
        let parts = [arguments.hashes(), values, answer.hashes(), failure.hashes()].map(counted);
        let words = [asked, shown].map(counted);
        let len =
            parts.iter().map(|part| part.len()).chain(words.iter().map(|part| pairs_of(part.len()))).sum::<usize>() + own.len();
        let mut all = Vec::with_capacity(len);
        for part in parts {
            all.extend_from_slice(part);
        }
        for part in words {
            all.extend(paired(part));
        }
        all.extend_from_slice(own);
        Self {
            hashes: all.into(),
            lens: parts.map(|part| part.len() as u8),
            words: words.map(|part| part.len() as u8),
            news,
            marks,
            facts: Facts::default(),
            around_numbers,
        }
    }

    /// The values of its arguments.
    #[must_use]
    pub fn arguments(&self) -> SketchView<'_> {
        let [len, ..] = self.lens;
        SketchView::of(self.part(0, len))
    }

    /// A hash for each of its first [`ARGUMENTS_MAX`] arguments, ascending.
    #[must_use]
    pub fn values(&self) -> &[u32] {
        let [before, len, ..] = self.lens;
        self.part(usize::from(before), len)
    }

    #[must_use]
    pub fn answer(&self) -> SketchView<'_> {
        let [one, two, len, _] = self.lens;
        SketchView::of(self.part(usize::from(one) + usize::from(two), len))
    }

    /// The template of its failure; empty of a success.
    #[must_use]
    pub fn failure(&self) -> SketchView<'_> {
        let [one, two, three, len] = self.lens;
        SketchView::of(self.part(usize::from(one) + usize::from(two) + usize::from(three), len))
    }

    /// Hashes of the words in its arguments that could name something.
    #[must_use]
    pub fn asked(&self) -> &[u16] {
        let [len, _] = self.words;
        self.named(self.counted(), len)
    }

    /// Those of the words in its answer.
    #[must_use]
    pub fn shown(&self) -> &[u16] {
        let [asked, len] = self.words;
        self.named(self.counted() + pairs_of(usize::from(asked)), len)
    }

    /// The words of the call, until its answer has come.
    #[must_use]
    pub fn own(&self) -> &[u32] {
        let words = self.words.map(|len| pairs_of(usize::from(len))).into_iter().sum::<usize>();
        self.hashes.get(self.counted() + words..).unwrap_or_default()
    }

    /// Hashes of the first four parts.
    fn counted(&self) -> usize {
        self.lens.into_iter().map(usize::from).sum()
    }

    fn part(&self, start: usize, len: u8) -> &[u32] {
        self.hashes.get(start..start + usize::from(len)).unwrap_or_default()
    }

    fn named(&self, start: usize, len: u8) -> &[u16] {
        let len = usize::from(len);
        unpaired(self.hashes.get(start..start + pairs_of(len)).unwrap_or_default(), len)
    }

    /// Bytes held, for the cache's budget: at most 970 of a completed step.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.hashes)
    }
}

/// So many as a byte can count.
fn counted<T>(part: &[T]) -> &[T] {
    part.get(..usize::from(u8::MAX)).unwrap_or(part)
}

bitflags::bitflags! {
    /// Yes-or-no facts of evidence. The bits are stored and never reused: 5 and 6 are those of format 2, and are kept.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Marks: u16 {
        /// Its only argument is one word with a digit, that may name something.
        const HANDLE = 1;
        /// Its answer has fewer than [`LITTLE_WORDS`] words.
        const LITTLE = 1 << 1;
        /// It took five seconds or more: time has passed.
        const SLOW = 1 << 2;
        /// No call like it was made before.
        const NOVEL = 1 << 3;
        /// It changed something, and was not made before: of class `mutates`, or answered by a receipt.
        const CHANGE = 1 << 4;
        /// Its arguments were not reported.
        const NO_ARGUMENTS = 1 << 7;
        /// Its answer was not reported.
        const NO_ANSWER = 1 << 8;
        /// It worked and brought nothing: neither news nor a change nor an item.
        const BARREN = 1 << 9;
        /// Its only argument is an id by its form: letters and digits, or a long number. Asked again, it looks at what runs elsewhere.
        const ID = 1 << 10;
        /// It took an item off a list, and was not made before.
        const ITEM = 1 << 11;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_read_as_it_was_written() {
        let words = [7, 300, 65_535];
        for asked in 0..=words.len() {
            let hashed = Hashed { values: &[1, 2], asked: &words[..asked], shown: &words[1..], own: &[9], ..Hashed::default() };
            let evidence = Evidence::new(hashed, 0, Marks::default());
            assert_eq!((evidence.values(), evidence.own()), (&[1, 2][..], &[9][..]));
            assert_eq!((evidence.asked(), evidence.shown()), (&words[..asked], &words[1..]));
            assert!(evidence.answer().is_empty());
        }
    }
}
