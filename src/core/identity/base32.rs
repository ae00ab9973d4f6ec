//! Ids as people read them.

const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// 128 bits in 26 digits of Crockford's base 32, the most significant first: such texts sort as the bytes do.
#[must_use]
pub fn base32(bytes: &[u8; 16]) -> String {
    let value = u128::from_be_bytes(*bytes);
    let mut text = [b'0'; 26];
    text.iter_mut().rev().fold(value, |value, place| {
        *place = DIGITS.get(value as usize & 31).copied().unwrap_or(b'0');
        value >> 5
    });
    std::str::from_utf8(&text).unwrap_or_default().to_owned()
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
