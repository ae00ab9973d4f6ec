//! Which partition a key belongs to: murmur2 as Kafka's Java client computes it, so that every producer agrees.

const SEED: u32 = 0x9747_b28c;
const M: u32 = 0x5bd1_e995;

/// murmur2 of a key, as `org.apache.kafka.common.utils.Utils.murmur2`.
#[must_use]
pub fn murmur2(bytes: &[u8]) -> u32 {
    // A record key is shorter than 2^31 bytes; the Java code has the same 32 bits.
    let mut hash = SEED ^ bytes.len() as u32;
    let mut chunks = bytes.chunks_exact(4);
    for chunk in &mut chunks {
        let mut k = chunk.iter().rev().fold(0u32, |word, byte| (word << 8) | u32::from(*byte)).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let rest = chunks.remainder();
    if !rest.is_empty() {
        let tail = rest.iter().rev().fold(0u32, |tail, byte| (tail << 8) | u32::from(*byte));
        hash = (hash ^ tail).wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

/// Partition of a key among `count`, as the Java client's default: `toPositive(murmur2(key)) % count`. A `count` of 0 counts as 1.
#[must_use]
pub fn partition_of(key: &[u8], count: u32) -> u32 {
    (murmur2(key) & 0x7fff_ffff) % count.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn murmur2_answers_as_the_java_client() {
        for (text, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(text.as_bytes()) as i32, hash, "{text}");
        }
    }

    #[test]
    fn a_partition_is_below_the_count_also_for_negative_hashes() {
        assert_eq!(partition_of(b"21", 24), (2_147_483_648 - 973_932_308) % 24);
        assert_eq!(partition_of(b"abc", 24), 479_470_107 % 24);
        assert_eq!(partition_of(b"abc", 0), 0);
    }
}
