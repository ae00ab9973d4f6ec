//! Compressed bodies.

use std::io::Read as _;

use flate2::read::MultiGzDecoder;

use crate::fault::Fault;

/// Inflates a gzip body, all its members, to at most `bytes_max` bytes. The bound holds while it is inflated.
///
/// # Errors
/// [`Fault::NotGzip`], [`Fault::TooLarge`].
pub fn inflate(body: &[u8], bytes_max: usize) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    MultiGzDecoder::new(body).take(limit).read_to_end(&mut bytes).map_err(|_| Fault::NotGzip)?;
    if bytes.len() > bytes_max { Err(Fault::TooLarge(bytes_max)) } else { Ok(bytes) }
}

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
