//! What the masks took out of an answer, as far as it may be what the agent waits for: two answers that are the same but for it may still move.
//! Of an answer that was cut, its size.

use crate::identity::fnv::Fnv64;

/// A check of the ids, long numbers and dates in words that masks have replaced, whatever their order. Times in digits and dashes and durations in
/// `s` are not among them: they change by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Residue(u64);

impl Residue {
    /// Bits that are kept of it.
    pub const BITS: u32 = 6;

    /// That of an answer that was cut, and is known to have so many bytes: never 0.
    #[must_use]
    pub const fn of_size(bytes: u64) -> Self {
        Self(bytes | 1)
    }

    /// Takes what a mask has replaced.
    pub(super) fn take(&mut self, masked: &[u8]) {
        self.0 = self.0.wrapping_add(Fnv64::new().with(masked).finish() | 1);
    }

    /// Its [`Self::BITS`] bits: 0 where nothing was replaced, and where no size is known. One pair of different ones in 63 is equal.
    #[must_use]
    pub const fn bits(self) -> u8 {
        if self.0 == 0 { 0 } else { (1 + self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) % ((1 << Self::BITS) - 1)) as u8 }
    }
}
