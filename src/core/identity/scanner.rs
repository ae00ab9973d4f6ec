//! The shipped masks in one pass over the text, word by word.
//!
//! It gives the bytes that the expressions of `SHIPPED_MASKS` give one after the other. Why one pass can:
//! - A replacement is no word, and no later mask can match across `<` or `>`. So whatever is replaced cuts the text into
//!   parts that later masks see on their own, with a word boundary at the cut.
//! - Only a time of the first mask can be cut out of a word. It begins with four digits before a `-`, so it can only take the end of
//!   a word: [`word_at`] gives the word as the later masks see it, without that end.
//! - An id is a whole word, or five of them; a duration begins at the start of a word.
//! - A date in words, an address and a duration in parentheses each have digits at the start of a word, by which they are found; what
//!   belongs to them before it (a month, `at`, the parenthesis) no other mask takes.
//! - No date in words ends where a time can begin: a `:` stands before its last two digits, and no word character behind them.
//!
//! Few words are any of that, so most are passed over: `candidates.rs` finds where one may begin.

use crate::identity::candidates::Candidates;

/// Takes the place of a time.
pub(super) const TIME: &str = "<ts>";
/// Takes the place of an id.
pub(super) const ID: &str = "<id>";
/// Takes the place of a duration.
pub(super) const DURATION: &str = "<dur>";

/// Whether digits that begin at `start` are those behind a decimal point: a measurement, which means something, and no id. `from`: where the text
/// begins that no mask has replaced.
pub(super) fn is_behind_point(bytes: &[u8], from: usize, start: usize) -> bool {
    let before = bytes.get(from..start).unwrap_or_default();
    before.strip_suffix(b".").and_then(<[u8]>::last).is_some_and(u8::is_ascii_digit)
}

/// Digits of the shortest id.
const ID_DIGITS_MIN: usize = 8;
/// Digits of the shortest address.
const ADDRESS_DIGITS_MIN: usize = 6;

const MONTHS: [&[u8; 3]; 12] = [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

const WORD: u8 = 1;
const HEX: u8 = 2;
const DIGIT: u8 = 4;

/// What each byte is; bytes beyond ASCII are nothing.
static CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut classes = [0; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        let word = if byte.is_ascii_alphanumeric() || byte == b'_' { WORD } else { 0 };
        let hex = if byte.is_ascii_hexdigit() { HEX } else { 0 };
        let digit = if byte.is_ascii_digit() { DIGIT } else { 0 };
        #[expect(clippy::indexing_slicing, reason = "evaluated at compile time")]
        {
            classes[byte as usize] = word | hex | digit;
        }
        byte += 1;
    }
    classes
}

fn class(byte: u8) -> u8 {
    CLASSES.get(usize::from(byte)).copied().unwrap_or_default()
}

/// Whether a byte, which may not be there, is of a word.
fn is_word(byte: Option<&u8>) -> bool {
    byte.is_some_and(|byte| class(*byte) & WORD != 0)
}

/// A run of word characters, as the masks after the first one see it.
#[derive(Clone, Copy)]
struct Word {
    start: usize,
    /// Where it ends, or a time begins.
    end: usize,
    /// What all its characters are.
    class: u8,
    /// End of the time that follows without a gap; 0 = none.
    time_end: usize,
}

impl Word {
    const fn len(&self) -> usize {
        self.end - self.start
    }

    const fn is_number(&self) -> bool {
        self.class & DIGIT != 0
    }

    const fn is_id(&self) -> bool {
        self.class & HEX != 0 && self.len() >= ID_DIGITS_MIN
    }
}

/// What is replaced: from, to, by what.
type Found = (usize, usize, &'static str);

/// The masked text, or nothing if there is nothing to mask.
pub(super) fn mask(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut candidates = Candidates::new(bytes);
    let mut out = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(word) = next_word(bytes, at, at > 0 && at == copied, &mut candidates) {
        at = word.end;
        let found = date(bytes, copied, word)
            .or_else(|| address(bytes, copied, word))
            .or_else(|| id(bytes, copied, word))
            .or_else(|| duration(bytes, word))
            .or_else(|| clock(bytes, copied, word));
        // A time begins where its word ends, unless a duration has gone beyond that.
        let time = (found.is_none() && word.time_end != 0).then_some((word.end, word.time_end, TIME));
        if let Some((start, end, replacement)) = found.or(time) {
            out.push_str(text.get(copied..start).unwrap_or_default());
            out.push_str(replacement);
            copied = end;
            at = end;
        }
    }
    if copied == 0 {
        return None;
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Some(out)
}

/// The next word from `at` on that may have to be replaced. After a cut, what follows without a gap is a word of its own.
fn next_word(bytes: &[u8], at: usize, is_cut: bool, candidates: &mut Candidates<'_>) -> Option<Word> {
    if is_cut && is_word(bytes.get(at)) {
        return Some(word_at(bytes, at));
    }
    let candidate = candidates.next(at)?;
    let before = bytes.get(at..candidate)?.iter().rev().take_while(|byte| class(**byte) & WORD != 0).count();
    Some(word_at(bytes, candidate - before))
}

/// The word that begins at `start`, which may be none.
fn word_at(bytes: &[u8], start: usize) -> Word {
    let rest = bytes.get(start..).unwrap_or_default();
    let mut common = WORD | HEX | DIGIT;
    let mut length = 0;
    for byte in rest {
        let class = class(*byte);
        if class & WORD == 0 {
            break;
        }
        common &= class;
        length += 1;
    }
    let end = start + length;
    if rest.get(length) == Some(&b'-')
        && length >= 4
        && let Some(time_end) = time_end(bytes, end - 4)
    {
        let end = end - 4;
        let common =
            rest.get(..length - 4).unwrap_or_default().iter().fold(WORD | HEX | DIGIT, |common, byte| common & class(*byte));
        return Word { start, end, class: common, time_end };
    }
    Word { start, end, class: common, time_end: 0 }
}

/// End of what begins at `start`, if it has a form: `d` is a digit there, `x` a hexadecimal one, `A` and `a` are letters, `T` is itself or a space, and
/// all else is itself.
fn form_end(bytes: &[u8], start: usize, form: &[u8]) -> Option<usize> {
    let end = start + form.len();
    let fits = bytes.get(start..end)?.iter().zip(form).all(|(byte, wanted)| match wanted {
        b'd' => byte.is_ascii_digit(),
        b'x' => byte.is_ascii_hexdigit(),
        b'A' => byte.is_ascii_uppercase(),
        b'a' => byte.is_ascii_lowercase(),
        b'T' => matches!(byte, b'T' | b' '),
        other => byte == other,
    });
    fits.then_some(end)
}

/// End of the time that begins at `start`: the first mask, whole.
fn time_end(bytes: &[u8], start: usize) -> Option<usize> {
    let seconds_end = form_end(bytes, start, b"dddd-dd-ddTdd:dd:dd")?;
    let fraction_end = match bytes.get(seconds_end) {
        Some(b'.') => Some(seconds_end + 1 + digits_at(bytes, seconds_end + 1)).filter(|end| *end > seconds_end + 1),
        Some(b',') => form_end(bytes, seconds_end, b",ddd").filter(|end| !is_word(bytes.get(*end))),
        _ => None,
    };
    let end = fraction_end.unwrap_or(seconds_end);
    Some(match bytes.get(end) {
        Some(b'Z') => end + 1,
        Some(b'+' | b'-') => offset_end(bytes, end),
        _ => end,
    })
}

/// End of an offset `+hh:mm` or `+hhmm`; where it is none, its start.
fn offset_end(bytes: &[u8], sign: usize) -> usize {
    let are_digits = |at: usize| bytes.get(at..at + 2).is_some_and(|pair| pair.iter().all(u8::is_ascii_digit));
    let minutes = if bytes.get(sign + 3) == Some(&b':') { sign + 4 } else { sign + 3 };
    if are_digits(sign + 1) && are_digits(minutes) { minutes + 2 } else { sign }
}

fn digits_at(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..).unwrap_or_default().iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// The second mask: a date in words or with slashes, and a time of day.
fn date(bytes: &[u8], copied: usize, word: Word) -> Option<Found> {
    let end_of = |form: &[u8]| form_end(bytes, word.start, form);
    let whole = match (word.len(), bytes.get(word.end)?) {
        (4, b'/') => end_of(b"dddd/dd/dd dd:dd:dd"),
        (2, b'/') => end_of(b"dd/Aaa/dddd:dd:dd:dd"),
        (2, b' ') => end_of(b"dd Aaa dddd dd:dd:dd"),
        _ => None,
    };
    let (start, end) = whole.map(|end| (word.start, end)).or_else(|| day(bytes, copied, word))?;
    (word_at(bytes, end - 2).end == end).then_some((start, end, TIME))
}

/// Start and end of a date without a year, where `word` is its day: the month stands before it, and a day of one digit has two spaces.
fn day(bytes: &[u8], copied: usize, word: Word) -> Option<(usize, usize)> {
    let gap: &[u8] = match word.len() {
        1 => b"  ",
        2 => b" ",
        _ => return None,
    };
    let end = form_end(bytes, word.end, b" dd:dd:dd").filter(|_| word.is_number())?;
    let (before, month) = bytes.get(copied..word.start)?.strip_suffix(gap)?.split_last_chunk::<3>()?;
    (MONTHS.contains(&month) && !is_word(before.last())).then_some((copied + before.len(), end))
}

/// The third mask: an object's address, with the `at` in front of it, else with the mark behind it.
fn address(bytes: &[u8], copied: usize, word: Word) -> Option<Found> {
    let digits = bytes.get(word.start..word.end)?.strip_prefix(b"0x")?;
    if digits.len() < ADDRESS_DIGITS_MIN || !digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let before = bytes.get(copied..word.start)?.strip_suffix(b"at ").filter(|before| !is_word(before.last()));
    if let Some(before) = before {
        return Some((copied + before.len(), word.end, ID));
    }
    matches!(bytes.get(word.end), Some(b'>' | b')' | b';' | b',')).then_some((word.start, word.end + 1, ID))
}

/// The fourth and fifth mask: five words joined by `-`, or one long one that is no fraction.
fn id(bytes: &[u8], copied: usize, word: Word) -> Option<Found> {
    if !word.is_id() {
        return None;
    }
    let guid_end = if word.len() == 8 { guid_end(bytes, word.start) } else { None };
    if guid_end.is_none() && word.is_number() && is_behind_point(bytes, copied, word.start) {
        return None;
    }
    Some((word.start, guid_end.unwrap_or(word.end), ID))
}

fn guid_end(bytes: &[u8], start: usize) -> Option<usize> {
    let end = form_end(bytes, start, b"xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx")?;
    // The last word may be longer, or end where a time begins; the others cannot be either, since a `-` follows them.
    (word_at(bytes, start + 24).end == end).then_some(end)
}

/// The sixth and seventh mask: digits, perhaps a fraction, perhaps space, and a unit that ends its word. Seconds in words need the fraction: `3 seconds`
/// are what somebody has set.
fn duration(bytes: &[u8], word: Word) -> Option<Found> {
    // Digits that run into a time end beyond their word; no fraction, space or unit is looked for there.
    let digits = digits_at(bytes, word.start);
    if digits == 0 {
        return None;
    }
    let (last, mut at) = fraction(bytes, word, word.start + digits)?;
    let has_fraction = at > word.start + digits;
    let mut unit_end = last.end;
    if at == last.end {
        let is_space = |byte: &&u8| matches!(**byte, b' ' | b'\t' | b'\n' | b'\x0b' | b'\x0c' | b'\r');
        at += bytes.get(at..)?.iter().take_while(is_space).count();
        unit_end = word_at(bytes, at).end;
    }
    let is_unit = match bytes.get(at..unit_end)? {
        b"s" | b"ms" => true,
        b"sec" | b"secs" | b"second" | b"seconds" => has_fraction,
        _ => false,
    };
    is_unit.then_some((word.start, unit_end, DURATION))
}

/// The last mask: hours, minutes and seconds in parentheses. Two digits of hours would be a time of day.
fn clock(bytes: &[u8], copied: usize, word: Word) -> Option<Found> {
    let start = word.start.checked_sub(1).filter(|start| *start >= copied)?;
    form_end(bytes, start, b"(d:dd:dd)").map(|end| (start, end, DURATION))
}

/// The word in which the number ends, and where: `word` and `at`, unless a fraction follows. None if that fraction is an id with letters.
fn fraction(bytes: &[u8], word: Word, at: usize) -> Option<(Word, usize)> {
    let has_fraction = at == word.end && bytes.get(at) == Some(&b'.');
    if !has_fraction {
        return Some((word, at));
    }
    let next = word_at(bytes, at + 1);
    let digits = digits_at(bytes, at + 1);
    (digits > 0 && (next.is_number() || !next.is_id())).then_some((next, at + 1 + digits))
}
