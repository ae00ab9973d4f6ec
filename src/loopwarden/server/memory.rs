//! What the process may need of memory by its settings, and what it is allowed by its control group.

use std::fmt::Write as _;
use std::fs;

use loopwarden_settings::Config;

use crate::server::deployment::kafka_lanes;

const MIB: u64 = 1024 * 1024;

/// The sum of what the settings bound, and a quarter for everything else. Bytes.
pub(super) fn budget(config: &Config) -> u64 {
    let limits = &config.limits;
    // Without Kafka nothing is fetched ahead.
    let (lanes, fetched) =
        if config.kafka.is_some() { (kafka_lanes(config), limits.fetch_queue_bytes) } else { (config.lanes, 0) };
    let lanes = (u64::from(lanes) + config.input.len() as u64) * (fetched + config.commit.overlay_bytes_max) as u64;
    let shared = (limits.block_cache_bytes + limits.write_buffer_bytes + limits.session_cache_bytes) as u64;
    (shared + lanes) / 4 * 5
}

/// For people: the sum, and a warning where the control group gives less.
pub(super) fn told(config: &Config) -> String {
    let (needed, limit) = (budget(config), group_limit());
    let mut text = format!("  memory: up to {} MiB by the settings of caches, buffers and queues", needed / MIB);
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
        // 256 + 256 + 128 MiB, 32 MiB a lane, and a quarter of all that.
        assert_eq!(one, (640 + 32) * MIB / 4 * 5);
        assert_eq!(budget(&with(&[sets[0], "lanes=3"])) - one, 2 * 32 * MIB / 4 * 5);
        let kafka = with(&[sets[0], sets[1], "kafka.bootstrap_servers=h:1"]);
        // One more lane, for the sums, and 64 MiB for what each of the two fetches.
        assert_eq!(budget(&kafka) - one, (32 + 2 * 64) * MIB / 4 * 5);
        assert!(told(&kafka).contains("memory: up to 1040 MiB"), "{}", told(&kafka));
    }
}
