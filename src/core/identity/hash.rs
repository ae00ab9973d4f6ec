//! SHA-256 and its shortened forms; FNV, which only distinguishes things and never defends against anybody; and ids as people read them.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// All 32 bytes of a SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

/// The first 128 bits of a SHA-256: what commands show and steps keep. 0 = none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Hash128(pub u128);

/// The first 64 bits of a SHA-256: equality inside one session. 0 = none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Hash64(pub u64);

impl Digest {
    /// The shortened form that steps keep; never 0.
    #[must_use]
    pub fn hash128(self) -> Hash128 {
        let (head, _) = self.0.split_at(16);
        Hash128(u128::from_be_bytes(head.try_into().unwrap_or_default()).max(1))
    }

    /// The shortest form; never 0.
    #[must_use]
    pub fn hash64(self) -> Hash64 {
        let (head, _) = self.0.split_at(8);
        Hash64(u64::from_be_bytes(head.try_into().unwrap_or_default()).max(1))
    }
}

impl Hash128 {
    /// The value that stands for no hash.
    pub const NONE: Self = Self(0);

    /// Whether there is a hash at all.
    #[must_use]
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }

    /// Reads 32 hexadecimal digits, as they are displayed; capital ones are read too.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits: &[u8; 32] = text.as_bytes().try_into().ok()?;
        let value = digits.iter().try_fold(0, |value, digit| Some(value << 4 | u128::from(char::from(*digit).to_digit(16)?)))?;
        Some(Self(value))
    }
}

impl Hash64 {
    /// The value that stands for no hash.
    pub const NONE: Self = Self(0);

    /// Whether there is a hash at all.
    #[must_use]
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Hash128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not by the number's own formatting, which would divide it: each report has one in its key.
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut digits = [0; 32];
        let (pairs, _) = digits.as_chunks_mut::<2>();
        for (pair, byte) in pairs.iter_mut().zip(self.0.to_be_bytes()) {
            *pair = [byte >> 4, byte & 15].map(|digit| DIGITS.get(usize::from(digit)).copied().unwrap_or(b'0'));
        }
        f.write_str(std::str::from_utf8(&digits).unwrap_or_default())
    }
}

impl fmt::Debug for Hash128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Hash64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Hash64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[must_use]
pub fn hash_text(text: &str) -> Digest {
    Digest(Sha256::digest(text.as_bytes()).into())
}

#[must_use]
pub fn hash_bytes(bytes: &[u8]) -> Digest {
    Digest(Sha256::digest(bytes).into())
}

/// SHA-256 of texts one after the other, nothing between them.
pub fn hash_parts(parts: &[&str]) -> Digest {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part.as_bytes());
    }
    Digest(hasher.finalize().into())
}

/// FNV-1a, 64 bits: offset basis `cbf29ce484222325`, prime `100000001b3`.
#[derive(Debug, Clone, Copy)]
pub struct Fnv64(u64);

impl Default for Fnv64 {
    fn default() -> Self {
        Self::new()
    }
}

impl Fnv64 {
    /// The hash of nothing: the offset basis.
    pub const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// The hash of what was hashed so far, and these bytes after it.
    pub fn with(self, bytes: &[u8]) -> Self {
        Self(bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)))
    }

    /// The hash as a number.
    pub const fn finish(self) -> u64 {
        self.0
    }
}

/// Digits of ids: Crockford's base 32.
const ID_DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// 128 bits in 26 digits of Crockford's base 32, the most significant first: such texts sort as the bytes do.
#[must_use]
pub fn base32(bytes: &[u8; 16]) -> String {
    let value = u128::from_be_bytes(*bytes);
    let mut text = [b'0'; 26];
    text.iter_mut().rev().fold(value, |value, place| {
        *place = ID_DIGITS.get(value as usize & 31).copied().unwrap_or(b'0');
        value >> 5
    });
    std::str::from_utf8(&text).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::{Fnv64, base32};

    #[test]
    fn fnv_answers_as_published() {
        assert_eq!(Fnv64::new().finish(), 0xcbf2_9ce4_8422_2325);
        assert_eq!(Fnv64::new().with(b"a").finish(), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(Fnv64::new().with(b"foobar").finish(), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn all_bits_and_none_are_the_ends_of_the_range() {
        assert_eq!(base32(&[0; 16]), "00000000000000000000000000");
        assert_eq!(base32(&[255; 16]), "7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
        assert_eq!(base32(&33_u128.to_be_bytes()), "00000000000000000000000011");
    }
}
