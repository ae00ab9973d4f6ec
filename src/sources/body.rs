//! Bodies of many records: how large they may be, how they are inflated, and why one cannot be read.

/// A body after it was inflated. Bytes. A few kilobytes of gzip can hold gigabytes.
pub const INFLATED_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Spans, log records or events of one body, and groups of them. An exporter sends 512, a collector 8,192.
pub(crate) const RECORDS_MAX: usize = 65_536;
/// One span or log record as it was sent. Bytes. Decoded it may take thirty times as much for a moment.
pub const RECORD_BYTES_MAX: usize = 1024 * 1024;

/// Why nothing of a body can be read. The codes are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It is larger than the bound, possibly only when inflated.
    #[error("a body may have {0} bytes when it is inflated; send smaller batches")]
    TooLarge(usize),
    /// It was to be gzip and is not, or it ends early.
    #[error("the body is no gzip, or ends early")]
    NotGzip,
    /// It was to be protobuf and is not.
    #[error("the body is no protobuf of this kind")]
    NotProtobuf,
    /// It was to be JSON and is not.
    #[error("the body is no JSON")]
    NotJson,
    /// It is JSON of another shape.
    #[error("the JSON has another shape than this form")]
    OtherShape,
    /// It holds more records than one body may.
    #[error("a body may have {RECORDS_MAX} records; send smaller batches")]
    TooManyRecords,
}

impl Fault {
    /// The code for programs and dead letters.
    pub const fn code(self) -> &'static str {
        match self {
            Self::TooLarge(_) => "too_large",
            Self::NotGzip => "not_gzip",
            Self::NotProtobuf => "not_protobuf",
            Self::NotJson => "not_json",
            Self::OtherShape => "unsupported_format",
            Self::TooManyRecords => "too_many_records",
        }
    }
}

/// Inflates a gzip body, all its members, to at most `bytes_max` bytes. The bound holds while it is inflated.
///
/// # Errors
/// [`Fault::NotGzip`], [`Fault::TooLarge`].
#[cfg(feature = "gzip")]
pub fn inflate(body: &[u8], bytes_max: usize) -> Result<Vec<u8>, Fault> {
    use std::io::Read as _;

    let mut bytes = Vec::new();
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    flate2::read::MultiGzDecoder::new(body).take(limit).read_to_end(&mut bytes).map_err(|_| Fault::NotGzip)?;
    if bytes.len() > bytes_max { Err(Fault::TooLarge(bytes_max)) } else { Ok(bytes) }
}

#[cfg(feature = "gzip")]
#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_body_is_inflated_as_far_as_the_bound() {
        assert_eq!(inflate(&gzip(b"body"), 4).unwrap(), b"body");
        assert_eq!(inflate(&[gzip(b"bo"), gzip(b"dy")].concat(), 4).unwrap(), b"body");
        assert_eq!(inflate(&gzip(b"bodyx"), 4), Err(Fault::TooLarge(4)));
        assert_eq!(inflate(&gzip(&vec![0; 64 << 20]), 1 << 20), Err(Fault::TooLarge(1 << 20)));
    }

    #[test]
    fn what_is_no_gzip_or_ends_early_is_refused() {
        let whole = gzip(b"a body of some length, so that there is something to cut");
        for body in [&b"plain"[..], b"", &whole[..whole.len() - 3]] {
            assert_eq!(inflate(body, 1_000), Err(Fault::NotGzip));
        }
    }
}
