//! What the process may need of memory by its settings, and what it is allowed by its control group.

use std::{fmt::Write as _, fs};

use loopwarden_core::limits::HTTP_BODIES_BYTES_MAX;
use loopwarden_settings::Config;

use crate::server::deployment::kafka_lanes;

const MIB: u64 = 1024 * 1024;

/// Bodies on their way in, what is made of them, and as much for those of checks. Bytes.
const BODIES: u64 = 3 * HTTP_BODIES_BYTES_MAX as u64;
/// Verdicts that checks are answered by. Bytes.
const VERDICTS: u64 = 48 * MIB;
/// Counters of swarms may take so much of what sessions may: a part.
const COUNTERS_PART: usize = 4;

/// The program itself, its threads, and what the allocator keeps for them. Bytes.
const PROGRAM: u64 = 64 * MIB;

/// The sum of what the settings and the bounds of the listener allow, and a quarter for what lies between: an upper bound of what the process
/// holds when it holds most. Bytes.
pub(super) fn budget(config: &Config) -> u64 {
    let limits = &config.limits;
    // Without Kafka nothing is fetched ahead.
    let (lanes, fetched) =
        if config.kafka.is_some() { (kafka_lanes(config), limits.fetch_queue_bytes) } else { (config.lanes, 0) };
    // What waits for a commit is written from a copy.
    let lanes = (u64::from(lanes) + config.input.len() as u64) * (fetched + 2 * config.commit.overlay_bytes_max) as u64;
    let counters = limits.session_cache_bytes / COUNTERS_PART;
    let shared = (limits.block_cache_bytes + limits.write_buffer_bytes + limits.session_cache_bytes + counters) as u64;
    (shared + BODIES + VERDICTS + lanes) / 4 * 5 + PROGRAM
}

/// For people: the sum, and a warning where the control group gives less.
pub(super) fn told(config: &Config) -> String {
    let (needed, limit) = (budget(config), group_limit());
    let mut text = format!(
        "  memory: up to {} MiB by the settings of caches, buffers and queues, and what the listener takes in",
        needed / MIB
    );
    if let Some(limit) = limit.filter(|limit| *limit < needed) {
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "\n  warning: this process may have {} MiB only; give it more, or lower limits.session_cache_bytes, \
             limits.block_cache_bytes or lanes",
            limit / MIB
        );
    }
    text
}

/// The limit of the control group this process is in; none where there is none.
fn group_limit() -> Option<u64> {
    let files = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    files.iter().find_map(|file| fs::read_to_string(file).ok()).and_then(|text| text.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use loopwarden_settings::{Flag, Layers};

    use super::*;

    fn with(sets: &[&str]) -> Config {
        let flags = sets.iter().map(|set| Flag::set(set).unwrap()).collect();
        loopwarden_settings::load(&Layers { flags, ..Layers::default() }).unwrap().config
    }

    #[test]
    fn each_lane_adds_its_queues() {
        let sets = ["instance=a", "lanes=1"];
        let one = budget(&with(&sets));
        // 256 + 256 + 128 MiB, 64 for counters, 240 for the listener, twice 32 MiB a lane, and a quarter of all that.
        assert_eq!(one, (640 + 64 + 240 + 64) * MIB / 4 * 5 + PROGRAM);
        assert_eq!(budget(&with(&[sets[0], "lanes=3"])) - one, 2 * 64 * MIB / 4 * 5);
        let kafka = with(&[sets[0], sets[1], "kafka.bootstrap_servers=h:1"]);
        // One more lane, for the sums, and 64 MiB for what each of the two fetches.
        assert_eq!(budget(&kafka) - one, (64 + 2 * 64) * MIB / 4 * 5);
        assert!(told(&kafka).contains("memory: up to 1564 MiB"), "{}", told(&kafka));
    }
}
