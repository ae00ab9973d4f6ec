//! Values on disk and in changelogs: one version byte, then postcard. A format that changes gets a new byte and a step in `migrate`.

use loopwarden_core::identity::{Hash64, Hash128};
use serde::{Deserialize, Serialize};

use crate::StoreError;

/// Writes `version`, then `value`.
///
/// # Errors
/// [`StoreError::Corrupt`] for a value whose length is not known before it is written; none of the stored types is one.
pub fn encode<T: Serialize + ?Sized>(version: u8, value: &T) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::with_capacity(192);
    bytes.push(version);
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

/// Reads a value of exactly `version`, to its last byte. `what` is for messages, as `position`.
///
/// # Errors
/// [`StoreError::NewerFormat`] for a higher version; [`StoreError::Corrupt`] for a lower one (migrate first), for no bytes at all, and
/// for bytes that are not such a value.
pub fn decode<'a, T: Deserialize<'a>>(what: &str, version: u8, bytes: &'a [u8]) -> Result<T, StoreError> {
    let (found, body) = bytes.split_first().ok_or_else(|| StoreError::Corrupt(format!("{what}: no bytes")))?;
    if *found > version {
        return Err(newer(what, *found, version));
    }
    if *found < version {
        return Err(StoreError::Corrupt(format!("{what}: format {found} where {version} is due")));
    }
    let (value, rest) = take(what, body)?;
    if rest.is_empty() {
        Ok(value)
    } else {
        Err(StoreError::Corrupt(format!("{what}, format {found}: {} bytes too many", rest.len())))
    }
}

pub(super) fn newer(what: &str, found: u8, known: u8) -> StoreError {
    StoreError::NewerFormat(format!("{what} has format {found}, this program knows up to {known}; run the newer version"))
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
    fn a_newer_version_is_refused_and_an_older_one_is_not_guessed() {
        let bytes = encode(2, &7u32).unwrap();
        assert!(matches!(decode::<u32>("x", 1, &bytes), Err(StoreError::NewerFormat(_))));
        assert!(matches!(decode::<u32>("x", 3, &bytes), Err(StoreError::Corrupt(_))));
        assert_eq!(decode::<u32>("x", 2, &bytes), Ok(7));
    }

    #[test]
    fn a_byte_too_many_or_too_few_is_corrupt() {
        let mut bytes = encode(1, "text").unwrap();
        bytes.push(0);
        assert!(matches!(decode::<String>("x", 1, &bytes), Err(StoreError::Corrupt(_))));
        assert!(matches!(decode::<String>("x", 1, &bytes[..4]), Err(StoreError::Corrupt(_))));
        assert!(matches!(decode::<String>("x", 1, &[]), Err(StoreError::Corrupt(_))));
    }

    proptest! {
        #[test]
        fn what_is_encoded_reads_back(value in any::<(u64, i64, String, Option<Vec<u8>>)>()) {
            let bytes = encode(1, &value).unwrap();
            prop_assert_eq!(decode::<(u64, i64, String, Option<Vec<u8>>)>("x", 1, &bytes).unwrap(), value);
        }

        #[test]
        fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = decode::<(u64, String, Vec<u32>)>("x", 1, &bytes);
        }
    }
}
