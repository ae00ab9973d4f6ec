//! One field's source text to its value, held to type and bounds.

use std::borrow::Cow;

use crate::event::wire::Raw;
use crate::event::{Content, EventTime, MessageText, Reason, RecordMeta, Rejected, json};
use crate::limits::NAME_CHARS_MAX;
use crate::whom::is_name;

/// The latest `time` in Unix milliseconds: the last moment of the year 9999.
const TIME_MS_MAX: i64 = 253_402_300_799_999;

/// Texts cut and labels dropped so far.
#[derive(Default)]
pub(super) struct Cuts(pub(super) u32);

/// A field that the kind needs.
pub(super) fn required<T>(value: Option<T>, name: &str) -> Result<T, Rejected> {
    value.ok_or_else(|| Rejected::at(Reason::MissingField, name))
}

pub(super) fn text<'a>(raw: Raw<'a>, name: &str) -> Result<Option<Cow<'a, str>>, Rejected> {
    raw.map(|raw| text_of(raw, name)).transpose()
}

/// The text of a string's source.
pub(super) fn text_of<'a>(source: &'a str, name: &str) -> Result<Cow<'a, str>, Rejected> {
    if json::is_string(source) { Ok(json::unquote(source)) } else { Err(Rejected::at(Reason::BadType, name)) }
}

/// A name: short enough to be a key, and without the control characters that separate the parts of keys.
#[inline]
pub(super) fn name<'a>(raw: Raw<'a>, name: &str) -> Result<Option<Cow<'a, str>>, Rejected> {
    raw.map(|source| name_of(source, name)).transpose()
}

/// A name from the source of a string.
pub(super) fn name_of<'a>(source: &'a str, name: &str) -> Result<Cow<'a, str>, Rejected> {
    // Nearly all names are so, and are looked at once.
    if let Some(plain) = json::plain(source).filter(|plain| (1..=NAME_CHARS_MAX).contains(&plain.len())) {
        return Ok(Cow::Borrowed(plain));
    }
    checked_name(text_of(source, name)?, name)
}

/// A name that must be one.
pub(super) fn checked_name<'a>(text: Cow<'a, str>, name: &str) -> Result<Cow<'a, str>, Rejected> {
    if is_name(&text) { Ok(text) } else { Err(Rejected::at(Reason::BadValue, name)) }
}

/// Whether a letter is not seen, breaks a line or turns the direction of a text: people are shown none of them, wherever a name comes from.
#[must_use]
pub fn is_unseen(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// A name of the payload, else of a CloudEvents header.
pub(super) fn name_or_header<'a>(
    raw: Raw<'a>,
    field: &str,
    record: &RecordMeta<'a>,
    header_name: &str,
) -> Result<Option<Cow<'a, str>>, Rejected> {
    match name(raw, field)? {
        None => header(record, header_name).map(|text| checked_name(Cow::Borrowed(text), field)).transpose(),
        given => Ok(given),
    }
}

/// The last header of that name, where it is text.
pub(super) fn header<'a>(record: &RecordMeta<'a>, name: &str) -> Option<&'a str> {
    let (_, value) = record.headers.iter().rev().find(|(key, _)| *key == name)?;
    std::str::from_utf8((*value)?).ok()
}

/// A text that must not be longer than `chars_max`.
pub(super) fn bounded_text<'a>(raw: Raw<'a>, name: &str, chars_max: usize) -> Result<Option<Cow<'a, str>>, Rejected> {
    match text(raw, name)? {
        Some(text) if !char_count_within(&text, chars_max) => Err(Rejected::at(Reason::BadValue, name)),
        text => Ok(text),
    }
}

/// A text of which `chars_max` characters are kept.
pub(super) fn cut_text<'a>(
    raw: Raw<'a>,
    name: &str,
    chars_max: usize,
    cuts: &mut Cuts,
) -> Result<Option<Cow<'a, str>>, Rejected> {
    Ok(text(raw, name)?.map(|text| cut(text, chars_max, cuts)))
}

/// As [`cut_text`], left as it was written where nothing can have to be cut: no text has more characters than its source has bytes.
pub(super) fn message_text<'a>(
    raw: Raw<'a>,
    name: &str,
    chars_max: usize,
    cuts: &mut Cuts,
) -> Result<Option<MessageText<'a>>, Rejected> {
    match raw {
        Some(source) if source.len() <= chars_max && json::is_string(source) => Ok(Some(MessageText::Source(source))),
        _ => Ok(cut_text(raw, name, chars_max, cuts)?.map(MessageText::Kept)),
    }
}

/// Cuts at a character boundary, and counts it.
pub(super) fn cut<'a>(text: Cow<'a, str>, chars_max: usize, cuts: &mut Cuts) -> Cow<'a, str> {
    if text.len() <= chars_max {
        return text;
    }
    let Some((end, _)) = text.char_indices().nth(chars_max) else { return text };
    cuts.0 = cuts.0.saturating_add(1);
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.get(..end).unwrap_or(text)),
        Cow::Owned(mut text) => {
            text.truncate(end);
            Cow::Owned(text)
        }
    }
}

fn char_count_within(text: &str, chars_max: usize) -> bool {
    text.len() <= chars_max || text.chars().nth(chars_max).is_none()
}

/// One of a closed list of words.
pub(super) fn choice<T>(raw: Raw<'_>, name: &str, parse: fn(&str) -> Option<T>) -> Result<Option<T>, Rejected> {
    text(raw, name)?.map(|word| parse(&word).ok_or_else(|| Rejected::at(Reason::BadValue, name))).transpose()
}

/// True or false; absent is false.
pub(super) fn flag(raw: Raw<'_>, name: &str) -> Result<bool, Rejected> {
    match raw {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(Rejected::at(Reason::BadType, name)),
    }
}

/// A whole number, not negative.
pub(super) fn count(raw: Raw<'_>, name: &str) -> Result<Option<u64>, Rejected> {
    raw.map(|raw| count_of(raw, name)).transpose()
}

/// A whole number, not negative, from its source.
pub(super) fn count_of(source: &str, name: &str) -> Result<u64, Rejected> {
    u64::try_from(integer_of(source, name)?).map_err(|_| Rejected::at(Reason::BadValue, name))
}

/// A whole number. `1.0` and `1e3` are whole, as in JSON Schema.
pub(super) fn integer_of(source: &str, name: &str) -> Result<i64, Rejected> {
    if let Ok(integer) = source.parse() {
        return Ok(integer);
    }
    let value = number_of(source, name)?;
    let is_whole = source.contains(['.', 'e', 'E']) && value.fract() == 0.0 && value.abs() < 9_223_372_036_854_775_808.0;
    if is_whole { Ok(value as i64) } else { Err(Rejected::at(Reason::BadValue, name)) }
}

/// A number that is not negative.
pub(super) fn number(raw: Raw<'_>, name: &str) -> Result<Option<f64>, Rejected> {
    raw.map(|raw| amount_of(raw, name)).transpose()
}

/// A number that is not negative, from its source.
pub(super) fn amount_of(source: &str, name: &str) -> Result<f64, Rejected> {
    let value = number_of(source, name)?;
    if value >= 0.0 { Ok(value) } else { Err(Rejected::at(Reason::BadValue, name)) }
}

fn number_of(source: &str, name: &str) -> Result<f64, Rejected> {
    if !source.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return Err(Rejected::at(Reason::BadType, name));
    }
    source.parse().map_err(|_| Rejected::at(Reason::BadValue, name))
}

/// Whether the source of `v` is the number 1.
pub(super) fn is_version(source: &str) -> bool {
    integer_of(source, "v") == Ok(i64::from(crate::event::SCHEMA_VERSION))
}

/// RFC 3339, or Unix milliseconds.
pub(super) fn time(raw: Raw<'_>, name: &str) -> Result<Option<EventTime>, Rejected> {
    let Some(source) = raw else { return Ok(None) };
    let time = if json::is_string(source) {
        EventTime::parse_rfc3339(&json::unquote(source))
    } else {
        Some(EventTime(integer_of(source, name)?)).filter(|time| (0..=TIME_MS_MAX).contains(&time.0))
    };
    time.map(Some).ok_or_else(|| Rejected::at(Reason::BadValue, name))
}

/// A SHA-256 in 64 hex digits.
pub(super) fn sha256(raw: Raw<'_>, name: &str) -> Result<Option<[u8; 32]>, Rejected> {
    text(raw, name)?.map(|text| hash(&text).ok_or_else(|| Rejected::at(Reason::BadValue, name))).transpose()
}

fn hash(text: &str) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    if pairs.len() != hash.len() {
        return None;
    }
    for (byte, [high, low]) in hash.iter_mut().zip(pairs) {
        *byte = (char::from(*high).to_digit(16)? * 16 + char::from(*low).to_digit(16)?) as u8;
    }
    Some(hash)
}

/// A value as it is, else its hash.
pub(super) fn content<'a>(raw: Raw<'a>, hashed: Raw<'a>, hash_name: &str) -> Result<Content<'a>, Rejected> {
    let hash = sha256(hashed, hash_name)?;
    Ok(match (raw, hash) {
        (Some(raw), _) => Content::Raw(raw),
        (None, Some(hash)) => Content::Sha256(hash),
        (None, None) => Content::Absent,
    })
}

/// W3C trace context: version, trace id, parent id, flags; lower-case hex, no id all zeros, and no version `ff`.
pub(super) fn is_traceparent(text: &str) -> bool {
    let mut parts = text.split('-');
    let is_hex =
        |part: &str, length: usize| part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let (Some(version), Some(trace), Some(parent), Some(flags)) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    is_hex(version, 2)
        && version != "ff"
        && is_hex(trace, 32)
        && trace.bytes().any(|byte| byte != b'0')
        && is_hex(parent, 16)
        && parent.bytes().any(|byte| byte != b'0')
        && is_hex(flags, 2)
        && (version != "00" || parts.next().is_none())
        && text.len() <= NAME_CHARS_MAX
}
