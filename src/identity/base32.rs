//! Ids as people read them.

const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// 128 bits in 26 digits of Crockford's base 32, the most significant first: such texts sort as the bytes do.
#[must_use]
pub fn base32(bytes: &[u8; 16]) -> String {
    let value = u128::from_be_bytes(*bytes);
    let digit = |place: u32| DIGITS.get((value >> (place * 5)) as usize & 31).copied().map_or('0', char::from);
    (0..26).rev().map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::base32;

    #[test]
    fn all_bits_and_none_are_the_ends_of_the_range() {
        assert_eq!(base32(&[0; 16]), "00000000000000000000000000");
        assert_eq!(base32(&[255; 16]), "7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
        assert_eq!(base32(&33_u128.to_be_bytes()), "00000000000000000000000011");
    }
}
