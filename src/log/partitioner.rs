//! Murmur2, as Java's client partitions: for topics whose partition number matters and must not depend on a client's setting.

const SEED: u32 = 0x9747_b28c;
const M: u32 = 0x5bd1_e995;

/// Murmur2 of a key, as `org.apache.kafka.common.utils.Utils.murmur2` computes it.
#[must_use]
pub fn murmur2(key: &[u8]) -> u32 {
    let mut hash = SEED ^ (key.len() as u32);
    let (words, tail) = key.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !tail.is_empty() {
        for (at, byte) in tail.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * at);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

/// The partition of a key in a topic of `partitions` partitions (at least 1), as Java's default partitioner chooses it.
#[must_use]
pub fn partition_of(key: &[u8], partitions: u32) -> u32 {
    (murmur2(key) & 0x7fff_ffff) % partitions.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vectors_of_the_java_client_hold() {
        // UtilsTest.testMurmur2 of Apache Kafka.
        for (key, expected) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()) as i32, expected, "{key}");
        }
    }

    #[test]
    fn a_topic_of_no_partitions_does_not_divide_by_zero() {
        assert_eq!(partition_of(b"key", 0), 0);
    }
}
