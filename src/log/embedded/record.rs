//! Bytes of a stored record: events and outputs alike.
//!
//! Version 1: timestamp (8), key, value, number of headers (2), of each its name and value. Key, name, value: length (4), bytes; the
//! length `ffffffff` is null. Numbers are big endian.

use loopwarden_core::event::Header;

const VERSION: u8 = 1;
const NULL: u32 = u32::MAX;

/// A stored record, borrowed from its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stored<'a> {
    pub(super) timestamp_ms: i64,
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
    pub(super) headers: Vec<Header<'a>>,
}

impl<'a> Stored<'a> {
    pub(super) fn encode(&self) -> Vec<u8> {
        let of = |bytes: Option<&[u8]>| 4 + bytes.map_or(0, <[u8]>::len);
        let headers: usize = self.headers.iter().map(|(name, value)| 4 + name.len() + of(*value)).sum();
        let mut bytes = Vec::with_capacity(11 + of(self.key) + of(self.value) + headers);
        bytes.push(VERSION);
        bytes.extend_from_slice(&self.timestamp_ms.to_be_bytes());
        put(&mut bytes, self.key);
        put(&mut bytes, self.value);
        // More headers than this never come: a request's are bounded, ours are a handful.
        let count = self.headers.len().min(usize::from(u16::MAX));
        bytes.extend_from_slice(&(count as u16).to_be_bytes());
        for (name, value) in self.headers.iter().take(count) {
            put(&mut bytes, Some(name.as_bytes()));
            put(&mut bytes, *value);
        }
        bytes
    }

    pub(super) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (&VERSION, bytes) = bytes.split_first()? else { return None };
        let (timestamp, mut rest) = bytes.split_first_chunk()?;
        let key = take(&mut rest)?;
        let value = take(&mut rest)?;
        let (count, mut rest) = rest.split_first_chunk()?;
        let count = u16::from_be_bytes(*count);
        let mut headers = Vec::new();
        for _ in 0..count {
            let name = std::str::from_utf8(take(&mut rest)??).ok()?;
            headers.push((name, take(&mut rest)?));
        }
        rest.is_empty().then_some(Self { timestamp_ms: i64::from_be_bytes(*timestamp), key, value, headers })
    }
}

fn put(to: &mut Vec<u8>, bytes: Option<&[u8]>) {
    // Records are bounded far below 4 GiB.
    to.extend_from_slice(&bytes.map_or(NULL, |bytes| bytes.len() as u32).to_be_bytes());
    to.extend_from_slice(bytes.unwrap_or_default());
}

/// Bytes, or null.
type Field<'a> = Option<&'a [u8]>;

/// `None` where the bytes end too early.
fn take<'a>(rest: &mut &'a [u8]) -> Option<Field<'a>> {
    let (length, after) = rest.split_first_chunk()?;
    let length = u32::from_be_bytes(*length);
    if length == NULL {
        *rest = after;
        return Some(None);
    }
    let (bytes, after) = after.split_at_checked(length as usize)?;
    *rest = after;
    Some(Some(bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Bytes = Option<Vec<u8>>;

    proptest! {
        #[test]
        fn a_record_reads_back(timestamp_ms in any::<i64>(), key in any::<Bytes>(), value in any::<Bytes>(), headers in any::<Vec<(String, Bytes)>>()) {
            let headers: Vec<Header<'_>> = headers.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
            let record = Stored { timestamp_ms, key: key.as_deref(), value: value.as_deref(), headers };
            let bytes = record.encode();
            prop_assert_eq!(Stored::decode(&bytes), Some(record));
        }

        #[test]
        fn a_record_cut_short_is_none(value in any::<Bytes>(), cut in any::<prop::sample::Index>()) {
            let record = Stored { timestamp_ms: 1, key: None, value: value.as_deref(), headers: vec![("a", None), ("b", Some(b"c"))] };
            let bytes = record.encode();
            let cut = cut.index(bytes.len());
            prop_assert_eq!(Stored::decode(&bytes[..cut]), None);
        }

        #[test]
        fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Stored::decode(&bytes);
        }
    }

    #[test]
    fn a_byte_too_many_or_another_version_is_none() {
        let mut bytes = Stored { timestamp_ms: 1, key: None, value: None, headers: vec![] }.encode();
        assert!(Stored::decode(&bytes).is_some());
        bytes.push(0);
        assert_eq!(Stored::decode(&bytes), None);
        bytes.pop();
        bytes[0] = 2;
        assert_eq!(Stored::decode(&bytes), None);
    }
}
