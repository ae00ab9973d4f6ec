//! A session's calls in order, as a strip of cells: hashes and flags, no content. Bounded: of a long one its beginning and its end.

use std::collections::{BTreeMap, VecDeque};

use crate::report::Deed;

/// Cells kept of the beginning.
const HEAD_MAX: usize = 110;
/// Cells kept of the end.
const TAIL_MAX: usize = 30;
/// Tools named by a strip; a cell of a further one has no tool.
const TOOLS_MAX: usize = 64;

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ended {
    /// Nobody said.
    #[default]
    Unknown,
    /// Well.
    Ok,
    /// With an error.
    Failed,
    /// It was refused.
    Refused,
}

/// One call, or one text turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cell {
    /// Number of the call in its session; a text turn has that of the call before it.
    pub sequence: u64,
    /// Equal calls have equal hashes; 0 = it cannot be compared.
    pub call: u64,
    /// Index into the strip's tools; `None` for a text turn, or a tool beyond the bound.
    pub tool: Option<u16>,
    /// A text turn.
    pub is_text: bool,
    /// How it ended.
    pub ended: Ended,
    /// A detector that may nudge counts it as part of a loop.
    pub in_loop: bool,
    /// What was said because of it.
    pub deed: Option<Deed>,
    /// It was said to be looked at only.
    pub is_shadow: bool,
}

impl Cell {
    /// Notes what was said because of it: of several things the gravest that counts stays.
    pub fn note(&mut self, deed: Deed, is_shadow: bool) {
        let rank = |deed: Option<Deed>, is_shadow: bool| (deed.is_some(), !is_shadow, deed);
        if rank(Some(deed), is_shadow) > rank(self.deed, self.is_shadow) {
            (self.deed, self.is_shadow) = (Some(deed), is_shadow);
        }
    }
}

/// The strip.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Strip {
    head: Vec<Cell>,
    tail: VecDeque<Cell>,
    left_out: u64,
    tools: Vec<String>,
    /// Example of a call's content, by its hash; only where the policy lets excerpts leave.
    excerpts: BTreeMap<u64, String>,
}

impl Strip {
    /// Adds a cell behind the last.
    pub fn push(&mut self, cell: Cell) {
        if self.head.len() < HEAD_MAX {
            self.head.push(cell);
            return;
        }
        self.tail.push_back(cell);
        if self.tail.len() > TAIL_MAX {
            self.tail.pop_front();
            self.left_out += 1;
        }
    }

    /// Index of a tool; it is taken in if there is room.
    pub fn tool(&mut self, name: &str) -> Option<u16> {
        let at = self.tools.iter().position(|known| known == name).or_else(|| {
            (self.tools.len() < TOOLS_MAX).then(|| {
                self.tools.push(name.to_owned());
                self.tools.len() - 1
            })
        });
        at.map(|at| at as u16)
    }

    /// Notes an example of a call's content.
    pub fn note_excerpt(&mut self, call: u64, excerpt: &str) {
        if !excerpt.is_empty() && self.excerpts.len() < TOOLS_MAX {
            self.excerpts.entry(call).or_insert_with(|| excerpt.to_owned());
        }
    }

    /// Changes the newest cell.
    pub fn newest(&mut self) -> Option<&mut Cell> {
        self.tail.back_mut().or(self.head.last_mut())
    }

    /// Changes the cells of calls from this one on, text turns left out.
    pub fn from(&mut self, sequence: u64) -> impl Iterator<Item = &mut Cell> {
        let cells = self.tail.iter_mut().rev().chain(self.head.iter_mut().rev());
        cells.take_while(move |cell| cell.sequence >= sequence).filter(|cell| !cell.is_text)
    }

    /// The cells of the beginning, how many were left out behind them, and the cells of the end.
    #[must_use]
    pub fn parts(&self) -> (&[Cell], u64, Vec<Cell>) {
        (&self.head, self.left_out, self.tail.iter().copied().collect())
    }

    /// All cells that are kept.
    pub fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.head.iter().chain(&self.tail)
    }

    /// Name of a cell's tool.
    #[must_use]
    pub fn tool_name(&self, cell: &Cell) -> &str {
        cell.tool.and_then(|tool| self.tools.get(usize::from(tool))).map_or("", String::as_str)
    }

    /// A letter for each call that is there more than once, in the order of their first cells.
    #[must_use]
    pub fn repeated(&self) -> Vec<Repeated> {
        let mut all: Vec<Repeated> = Vec::new();
        let mut places = BTreeMap::new();
        for cell in self.cells().filter(|cell| cell.call != 0) {
            let at = *places.entry(cell.call).or_insert_with(|| {
                all.push(Repeated {
                    call: cell.call,
                    tool: if cell.is_text { None } else { Some(self.tool_name(cell).to_owned()) },
                    times: 0,
                    failed: 0,
                    excerpt: self.excerpts.get(&cell.call).cloned(),
                });
                all.len() - 1
            });
            if let Some(repeated) = all.get_mut(at) {
                repeated.times += 1;
                repeated.failed += u64::from(cell.ended == Ended::Failed);
            }
        }
        all.retain(|repeated| repeated.times > 1);
        all
    }
}

/// A call that is in a strip more than once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeated {
    /// Its hash.
    pub call: u64,
    /// Its tool; `None` for a text.
    pub tool: Option<String>,
    /// How often it is there.
    pub times: u64,
    /// How often it failed.
    pub failed: u64,
    /// Its content, where the policy lets excerpts leave.
    pub excerpt: Option<String>,
}

/// The letter of the call at a place of [`Strip::repeated`]: `A` … `Z`, `a` … `z`, then `AA`, `AB` ….
#[must_use]
pub fn letter(place: usize) -> String {
    const ONE: &[u8; 52] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let digit = |at: usize| char::from(ONE.get(at % ONE.len()).copied().unwrap_or(b'?'));
    if place < ONE.len() {
        return digit(place).to_string();
    }
    let place = place - ONE.len();
    [digit(place / 26), digit(place % 26)].iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(sequence: u64, call: u64) -> Cell {
        Cell { sequence, call, ..Cell::default() }
    }

    #[test]
    fn of_a_long_strip_the_beginning_and_the_end_stay() {
        let mut strip = Strip::default();
        for sequence in 0..500 {
            strip.push(cell(sequence, 1 + sequence % 3));
        }
        let (head, left_out, tail) = strip.parts();
        assert_eq!((head.len(), left_out, tail.len()), (HEAD_MAX, 360, TAIL_MAX));
        assert_eq!((head.last().unwrap().sequence, tail[0].sequence, tail[29].sequence), (109, 470, 499));
        for cell in strip.from(105) {
            cell.in_loop = true;
        }
        assert_eq!(strip.cells().filter(|cell| cell.in_loop).count(), 35);
    }

    #[test]
    fn of_several_things_said_the_gravest_that_counts_is_marked() {
        let mut one = cell(1, 1);
        for (deed, is_shadow, expected) in [
            (Deed::Nudge, true, (Some(Deed::Nudge), true)),
            (Deed::Nudge, false, (Some(Deed::Nudge), false)),
            (Deed::Block, true, (Some(Deed::Nudge), false)),
            (Deed::Block, false, (Some(Deed::Block), false)),
            (Deed::Nudge, false, (Some(Deed::Block), false)),
        ] {
            one.note(deed, is_shadow);
            assert_eq!((one.deed, one.is_shadow), expected);
        }
    }

    #[test]
    fn only_what_is_repeated_has_a_letter() {
        let mut strip = Strip::default();
        let bash = strip.tool("Bash");
        for (sequence, call) in [5, 9, 7, 9, 0, 0, 5, 9].into_iter().enumerate() {
            strip.push(Cell { tool: bash, ended: Ended::Failed, ..cell(sequence as u64, call) });
        }
        let repeated: Vec<(u64, u64, u64)> = strip.repeated().iter().map(|one| (one.call, one.times, one.failed)).collect();
        assert_eq!(repeated, [(5, 2, 2), (9, 3, 3)]);
        assert_eq!(strip.repeated()[0].tool.as_deref(), Some("Bash"));
    }

    #[test]
    fn letters_do_not_run_out() {
        let letters: std::collections::BTreeSet<String> = (0..700).map(letter).collect();
        assert_eq!((letter(0), letter(26), letter(52), letters.len()), ("A".to_owned(), "a".to_owned(), "AA".to_owned(), 700));
    }
}
