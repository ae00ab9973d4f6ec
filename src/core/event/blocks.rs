//! Texts 64 bytes at a time: which bytes are of a kind, as the bits of one number.

/// Bytes that are looked at in one step.
pub(crate) const BLOCK: usize = 64;

/// Which bytes are of a kind, the first one lowest. The compiler makes vectors of the first loop; the product gathers the lowest bits of
/// eight bytes.
#[inline]
pub(crate) fn bits(block: &[u8; BLOCK], is_meant: impl Fn(u8) -> bool) -> u64 {
    let flags = block.map(|byte| u8::from(is_meant(byte)));
    let (eights, _) = flags.as_chunks::<8>();
    let gathered = |eight: &[u8; 8]| u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    eights.iter().rev().fold(0, |bits, eight| bits << 8 | gathered(eight))
}

/// What `of` makes of the bytes from a place on; beyond the end stand zeros.
#[inline]
pub(crate) fn at<T>(bytes: &[u8], at: usize, of: impl Fn(&[u8; BLOCK]) -> T) -> T {
    let rest = bytes.get(at..).unwrap_or_default();
    if let Some(block) = rest.first_chunk() {
        return of(block);
    }
    let mut block = [0; BLOCK];
    if let Some(place) = block.get_mut(..rest.len()) {
        place.copy_from_slice(rest);
    }
    of(&block)
}
