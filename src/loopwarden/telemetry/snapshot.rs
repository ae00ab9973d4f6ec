//! What metrics are read off: the process at one moment.

use loopwarden_core::event::Stage;
use loopwarden_lane::{Histogram, IntakeReport, LaneReport, Samples, Stats, Value};
use loopwarden_state::StoreStats;
use loopwarden_webhook::WebhookReport;

use crate::telemetry::guard::GuardReport;

pub(super) const STAGES: [&str; 2] = ["session", "swarm"];

/// How long each partition of each stage has waited: stage, partition, milliseconds.
type Waiting = Vec<(Stage, u32, u64)>;

/// The process at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Version and, where the build said so, revision.
    pub build: (String, String),
    /// Profile, hash and mode of the policy in force.
    pub policy: (String, String, String),
    /// Name of the event topic.
    pub topic: String,
    /// What the lanes show of themselves.
    pub lanes: Vec<LaneReport>,
    /// What reads other topics.
    pub intakes: Vec<IntakeReport>,
    /// What sends commands on.
    pub webhooks: Vec<WebhookReport>,
    /// Wall clock, Unix ms.
    pub now_ms: i64,
    /// By how much watermarks stay behind the newest event. Milliseconds.
    pub lateness_ms: i64,
    /// RocksDB.
    pub store: Option<StoreStats>,
    /// How long each partition of each stage of the embedded log has waited, in milliseconds; events sent away: behind, share.
    pub backlog: Option<(Waiting, [u64; 2])>,
    /// Bytes and readers of the embedded log.
    pub log: Option<(u64, u64)>,
    /// Requests by route and status, with how long they took.
    pub http: Vec<(&'static str, u16, Histogram)>,
    /// The guard, where this process has one.
    pub guard: Option<GuardReport>,
}

impl Snapshot {
    pub(super) fn stats(&self) -> Stats {
        let mut sum = Stats::default();
        self.lanes.iter().for_each(|lane| sum.add(&lane.stats));
        sum
    }
}

pub(super) fn list(words: &[&str], counts: &[u64]) -> Samples {
    words.iter().zip(counts).map(|(word, count)| (vec![(*word).to_owned()], Value::Number(*count as f64))).collect()
}
