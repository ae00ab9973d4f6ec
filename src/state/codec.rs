//! Values on disk and in changelogs: the byte of the format, then postcard. All values of a program have one format. One that changes any of
//! them has another, and reads the former as long as it must.

use loopwarden_core::identity::{Hash64, Hash128};
use serde::{Deserialize, Serialize};

use crate::StoreError;

/// Format of every value. Formats are digits of ASCII: programs before the first one wrote bytes below them, whose values look alike and
/// mean something else.
pub const FORMAT: u8 = b'1';

/// Writes the format, then `value`.
///
/// # Errors
/// [`StoreError::Corrupt`] for a value whose length is not known before it is written; none of the stored types is one.
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::with_capacity(192);
    bytes.push(FORMAT);
    append(bytes, value)
}

/// Writes one more value behind others.
pub(super) fn append<T: Serialize + ?Sized>(bytes: Vec<u8>, value: &T) -> Result<Vec<u8>, StoreError> {
    postcard::to_extend(value, bytes).map_err(|error| StoreError::Corrupt(format!("cannot encode: {error}")))
}

/// Reads one value; the bytes that follow it are the other part of the answer.
pub(super) fn take<'a, T: Deserialize<'a>>(what: &str, bytes: &'a [u8]) -> Result<(T, &'a [u8]), StoreError> {
    postcard::take_from_bytes(bytes).map_err(|error| StoreError::Corrupt(format!("{what}: {error}")))
}

/// What stands behind the format. `what` is for messages, as `position`.
///
/// # Errors
/// [`StoreError::OtherFormat`] for another format; [`StoreError::Corrupt`] for no bytes at all.
pub(super) fn body<'a>(what: &str, bytes: &'a [u8]) -> Result<&'a [u8], StoreError> {
    match bytes.split_first() {
        Some((&FORMAT, body)) => Ok(body),
        Some((found, _)) => Err(StoreError::OtherFormat(format!(
            "{what} has format {}, this program reads format {}; run the version that wrote it, or begin anew",
            shown(*found),
            shown(FORMAT)
        ))),
        None => Err(StoreError::Corrupt(format!("{what}: no bytes"))),
    }
}

/// Reads a value, to its last byte.
///
/// # Errors
/// [`StoreError::OtherFormat`] for another format; [`StoreError::Corrupt`] for bytes that are not such a value.
pub fn decode<'a, T: Deserialize<'a>>(what: &str, bytes: &'a [u8]) -> Result<T, StoreError> {
    let (value, rest) = take(what, body(what, bytes)?)?;
    if rest.is_empty() { Ok(value) } else { Err(StoreError::Corrupt(format!("{what}: {} bytes too many", rest.len()))) }
}

/// A format for people.
fn shown(format: u8) -> String {
    if format.is_ascii_graphic() { char::from(format).to_string() } else { format!("0.{format}") }
}

/// A hash; none is one byte.
pub(super) type H64 = Option<[u8; 8]>;
/// A hash; none is one byte.
pub(super) type H128 = Option<[u8; 16]>;

pub(super) fn pack64(hash: Hash64) -> H64 {
    hash.is_some().then(|| hash.0.to_be_bytes())
}

pub(super) fn unpack64(hash: H64) -> Hash64 {
    hash.map_or(Hash64::NONE, |bytes| Hash64(u64::from_be_bytes(bytes)))
}

pub(super) fn pack128(hash: Hash128) -> H128 {
    hash.is_some().then(|| hash.0.to_be_bytes())
}

pub(super) fn unpack128(hash: H128) -> Hash128 {
    hash.map_or(Hash128::NONE, |bytes| Hash128(u128::from_be_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn another_format_is_refused_by_its_name() {
        let mut bytes = encode(&7u32).unwrap();
        assert_eq!(decode::<u32>("x", &bytes), Ok(7));
        for (format, name) in [(0, "0.0"), (6, "0.6"), (b'0', "0"), (b'2', "2"), (255, "0.255")] {
            bytes[0] = format;
            let refused =
                format!("x has format {name}, this program reads format 1; run the version that wrote it, or begin anew");
            assert_eq!(decode::<u32>("x", &bytes), Err(StoreError::OtherFormat(refused)));
        }
    }

    #[test]
    fn a_byte_too_many_or_too_few_is_corrupt() {
        let mut bytes = encode("text").unwrap();
        bytes.push(0);
        assert!(matches!(decode::<String>("x", &bytes), Err(StoreError::Corrupt(_))));
        assert!(matches!(decode::<String>("x", &bytes[..4]), Err(StoreError::Corrupt(_))));
        assert!(matches!(decode::<String>("x", &[]), Err(StoreError::Corrupt(_))));
    }

    proptest! {
        #[test]
        fn what_is_encoded_reads_back(value in any::<(u64, i64, String, Option<Vec<u8>>)>()) {
            let bytes = encode(&value).unwrap();
            prop_assert_eq!(decode::<(u64, i64, String, Option<Vec<u8>>)>("x", &bytes).unwrap(), value);
        }

        #[test]
        fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = decode::<(u64, String, Vec<u32>)>("x", &bytes);
        }
    }
}
