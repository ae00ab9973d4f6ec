//! Every metric: name, type, labels, help, and where its numbers come from. Lanes count in plain fields; here they get names, at scrape time.
//!
//! Labels are closed sets or own partitions, never a name from the wire.

use std::fmt;

use loopwarden_core::event::{Reason, Stage};
use loopwarden_core::policy::Detector;
use loopwarden_lane::{BUCKETS_US, COMMIT_STEPS, Histogram, LaneReport, Stats, TaskState};
use loopwarden_state::StoreStats;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::telemetry::process;

/// Prefix of every name.
pub const PREFIX: &str = "loopwarden";

/// Type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows; its name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Durations in seconds.
    Histogram,
}

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Name without the prefix.
    pub name: &'static str,
    /// Type.
    pub kind: Kind,
    /// Labels.
    pub labels: &'static [&'static str],
    /// What it tells.
    pub help: &'static str,
}

const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: Kind::Counter, labels, help }
}

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, labels, help }
}

const fn histogram(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: Kind::Histogram, labels, help }
}

/// All of them, in the order of the documentation.
pub const METRICS: &[Metric] = &[
    gauge("build_info", &["version", "revision"], "What runs"),
    gauge("policy_info", &["profile", "hash", "mode"], "The policy in force"),
    counter("events_total", &["topic", "kind"], "Events applied"),
    counter("event_bytes_total", &["topic"], "Bytes of record values"),
    counter("rejected_total", &["topic", "reason"], "Dead letters"),
    counter("duplicates_total", &["topic"], "Redelivered events, dropped"),
    counter("late_total", &["topic"], "Events whose time was moved up to the session's last"),
    counter("clamped_total", &["topic"], "Events whose time was moved down to what their record allows"),
    counter("seq_gaps_total", &["topic"], "Gaps in a producer's counter"),
    counter("seq_disorder_total", &["topic"], "A producer's counter went back"),
    counter("orphan_results_total", &["topic"], "Results without a call"),
    counter("events_without_total", &["topic", "what"], "Events without what detectors compare"),
    counter("key_mismatch_total", &["topic"], "Records whose key is not their session"),
    counter("placement_total", &["by"], "Records where murmur2 puts them, and elsewhere"),
    counter("detections_total", &["detector", "mode"], "Findings, published or not"),
    counter("commands_total", &["action", "mode"], "Commands, counted after the commit"),
    counter("born_expired_total", &["action"], "Commands that had expired when they were committed"),
    counter("acks_total", &["ack"], "What workers did with commands"),
    counter("denied_total", &["by"], "Refused calls"),
    counter("obeyed_total", &["detector", "answer"], "First step after a nudge"),
    histogram("command_delay_seconds", &["action"], "Record timestamp to commit"),
    histogram("commit_seconds", &["step"], "Where a commit spends its time"),
    counter("transactions_total", &["outcome"], "Commits by how they ended"),
    counter("unknown_resolved_total", &["as"], "Commits of unknown outcome, once a restore has shown how they ended"),
    counter("producers_replaced_total", &["cause"], "Producers opened again"),
    gauge("overlay_bytes", &["lane"], "Uncommitted work"),
    gauge("lag_records", &["stage", "partition"], "Own position to last stable offset"),
    gauge("lag_seconds", &["stage", "partition"], "Newest event time behind the clock, while there is something to read"),
    gauge("lso_lag_records", &["stage"], "Records of the input behind a transaction that stays open"),
    gauge("tasks", &["stage", "state"], "Tasks by what they are doing"),
    counter("rebalances_total", &["kind"], "Rebalance events"),
    histogram("rebalance_seconds", &["kind"], "How long they took, until tasks ran or were let go"),
    counter("tasks_moved_total", &["kind"], "Tasks in them"),
    gauge("restore_records_left", &["stage"], "Changelog records still to be read"),
    counter("restore_bytes_total", &["stage"], "Changelog bytes read"),
    histogram("restore_seconds", &["stage"], "How long restores took"),
    gauge("sessions", &[], "Sessions of the tasks that run here: begun and not forgotten"),
    gauge("sessions_blocked", &[], "Sessions with a live block in force"),
    counter("session_turnover_total", &["how"], "Sessions begun, and forgotten, since the start"),
    gauge("swarm_counters", &[], "Counters of the swarm stage"),
    gauge("session_cache_bytes", &[], "Decoded sessions"),
    counter("session_cache_total", &["result"], "Look-ups in the cache"),
    gauge("store_bytes", &["part"], "RocksDB"),
    counter("store_stall_seconds_total", &[], "Writers held back"),
    gauge("store_compaction_pending_bytes", &[], "What compaction still has to rewrite"),
    counter("limit_hits_total", &["limit"], "What a bound dropped"),
    gauge("log_bytes", &[], "Embedded log"),
    gauge("log_readers", &[], "Followers of the embedded log"),
    counter("http_requests_total", &["route", "status"], "Requests"),
    histogram("http_request_seconds", &["route"], "How long they took"),
    counter("loop_tokens_total", &[], "Tokens in the usage of events at which a detector of mode nudge or block found a loop"),
    counter("loop_cost_usd_total", &[], "Cost in the usage of these events"),
];

/// One value of a metric under label values, in the order of its labels.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Number(f64),
    Durations(Histogram),
}

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
    /// Wall clock, Unix ms.
    pub now_ms: i64,
    /// By how much watermarks stay behind the newest event. Milliseconds.
    pub lateness_ms: i64,
    /// RocksDB.
    pub store: Option<StoreStats>,
    /// Bytes and readers of the embedded log.
    pub log: Option<(u64, u64)>,
    /// Requests by route and status, with how long they took.
    pub http: Vec<(&'static str, u16, Histogram)>,
}

/// The metrics as OpenMetrics text.
#[must_use]
pub fn render(snapshot: Snapshot) -> String {
    let mut registry = Registry::default();
    registry.sub_registry_with_prefix(PREFIX).register_collector(Box::new(Scrape(snapshot)));
    registry.register_collector(Box::new(process::Scrape));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    text
}

#[derive(Debug)]
struct Scrape(Snapshot);

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for metric in METRICS {
            let samples = samples(metric.name, &self.0);
            let (name, kind) = match metric.kind {
                // The encoder adds the ending.
                Kind::Counter => (metric.name.trim_end_matches("_total"), MetricType::Counter),
                Kind::Gauge => (metric.name, MetricType::Gauge),
                Kind::Histogram => (metric.name, MetricType::Histogram),
            };
            let mut family = encoder.encode_descriptor(name, metric.help, None, kind)?;
            for (values, value) in samples {
                let labels: Vec<(&str, String)> = metric.labels.iter().copied().zip(values).collect();
                let mut sample = family.encode_family(&labels)?;
                match (&value, metric.kind) {
                    (Value::Number(number), Kind::Counter) => sample.encode_counter::<NoLabelSet, f64, u64>(number, None)?,
                    (Value::Number(number), _) => sample.encode_gauge(number)?,
                    (Value::Durations(histogram), _) => {
                        let bounds = BUCKETS_US.iter().map(|bound| *bound as f64 / 1e6).chain([f64::INFINITY]);
                        let buckets: Vec<(f64, u64)> = bounds.zip(histogram.buckets).collect();
                        sample.encode_histogram::<NoLabelSet>(
                            histogram.sum_us as f64 / 1e6,
                            histogram.count(),
                            &buckets,
                            None,
                        )?;
                    }
                }
            }
        }
        Ok(())
    }
}

type Samples = Vec<(Vec<String>, Value)>;

fn one(value: f64) -> Samples {
    vec![(Vec::new(), Value::Number(value))]
}

fn list(names: &[&str], counters: &[u64]) -> Samples {
    names.iter().zip(counters).map(|(name, count)| (vec![(*name).to_owned()], Value::Number(*count as f64))).collect()
}

/// The same under a topic.
fn of_topic(topic: &str, samples: Samples) -> Samples {
    let put = |(mut labels, value): (Vec<String>, Value)| {
        labels.insert(0, topic.to_owned());
        (labels, value)
    };
    samples.into_iter().map(put).collect()
}

fn durations(names: &[&str], histograms: &[Histogram]) -> Samples {
    names.iter().zip(histograms).map(|(name, histogram)| (vec![(*name).to_owned()], Value::Durations(*histogram))).collect()
}

const KINDS: [&str; 9] =
    ["tool_call", "tool_result", "tool", "message", "session_start", "session_end", "progress", "reset", "ack"];
const ACTIONS: [&str; 3] = ["nudge", "block", "unblock"];
const STAGES: [&str; 2] = ["session", "swarm"];

/// Everything there is to say under a name.
fn samples(name: &str, snapshot: &Snapshot) -> Samples {
    let stats = snapshot.lanes.iter().fold(Stats::default(), |mut sum, lane| {
        sum.add(&lane.stats);
        sum
    });
    let topic = |samples| of_topic(&snapshot.topic, samples);
    match name {
        "build_info" => {
            let (version, revision) = snapshot.build.clone();
            vec![(vec![version, revision], Value::Number(1.0))]
        }
        "policy_info" => {
            let (profile, hash, mode) = snapshot.policy.clone();
            vec![(vec![profile, hash, mode], Value::Number(1.0))]
        }
        "events_total" => topic(list(&KINDS, &stats.events)),
        "event_bytes_total" => topic(one(stats.event_bytes as f64)),
        "rejected_total" => topic(list(&Reason::ALL.map(Reason::as_str), &stats.rejected)),
        "duplicates_total" => topic(one(stats.duplicates as f64)),
        "late_total" => topic(one(stats.late as f64)),
        "clamped_total" => topic(one(stats.clamped as f64)),
        "seq_gaps_total" => topic(one(stats.seq_gaps as f64)),
        "seq_disorder_total" => topic(one(stats.seq_disorder as f64)),
        "orphan_results_total" => topic(one(stats.orphan_results as f64)),
        "events_without_total" => topic(list(&["args", "result", "time", "agent"], &stats.without)),
        "key_mismatch_total" => topic(one(stats.key_mismatch as f64)),
        "placement_total" => list(&["murmur2", "other"], &stats.placement),
        "detections_total" => by_detector(&stats.detections, &["off", "shadow", "nudge", "block"]),
        "commands_total" => {
            let of = |(action, modes): (&&str, &[u64; 3])| {
                list(&["live", "shadow", "replay"], modes)
                    .into_iter()
                    .map(|(mut labels, value)| {
                        labels.insert(0, (*action).to_owned());
                        (labels, value)
                    })
                    .collect::<Samples>()
            };
            ACTIONS.iter().zip(&stats.commands).flat_map(of).collect()
        }
        "born_expired_total" => list(&ACTIONS, &stats.born_expired),
        "acks_total" => {
            list(&["received", "applied", "ignored_expired", "ignored_stale", "ignored_shadow", "failed"], &stats.acks)
        }
        "denied_total" => list(&["us", "other"], &stats.denied),
        "obeyed_total" => by_detector(&stats.obeyed, &["changed", "repeated", "ended"]),
        "command_delay_seconds" => durations(&ACTIONS, &stats.command_delay),
        "commit_seconds" => durations(&COMMIT_STEPS, &stats.commit),
        "transactions_total" => list(&["committed", "aborted", "unknown", "fenced"], &stats.transactions),
        "producers_replaced_total" => list(&["outcome", "request"], &stats.reopened),
        "rebalances_total" => list(&["assigned", "revoked", "lost"], &stats.rebalances),
        "tasks_moved_total" => list(&["assigned", "revoked", "lost"], &stats.tasks_moved),
        "rebalance_seconds" => durations(&["assigned", "revoked", "lost"], &stats.rebalance_time),
        "unknown_resolved_total" => list(&["committed", "aborted"], &stats.unknown_resolved),
        "restore_bytes_total" => list(&STAGES, &stats.restore_bytes),
        "restore_seconds" => durations(&STAGES, &stats.restore_time),
        "session_turnover_total" => list(&["begun", "forgotten"], &[stats.sessions_begun, stats.sessions_forgotten]),
        "session_cache_total" => list(&["hit", "miss"], &stats.cache),
        "limit_hits_total" => list(
            &["reset_agents", "texts", "dead_letters", "blocks", "swarm_keys", "swarm_workers", "swarm_steps", "swarm_late"],
            &[
                stats.limit_reset_agents,
                stats.limit_texts,
                stats.limit_dead_letters,
                stats.limit_blocks,
                stats.limit_swarm_keys,
                stats.limit_swarm_workers,
                stats.limit_swarm_steps,
                stats.swarm_late,
            ],
        ),
        "loop_tokens_total" => one(stats.loop_tokens as f64),
        "loop_cost_usd_total" => one(stats.loop_cost_micro_usd as f64 / 1e6),
        _ => elsewhere(name, snapshot),
    }
}

fn by_detector<const N: usize>(counters: &[[u64; N]; Detector::COUNT], names: &[&str; N]) -> Samples {
    let mut samples = Vec::new();
    for (detector, row) in Detector::ALL.iter().zip(counters) {
        for (name, count) in names.iter().zip(row) {
            // Sixteen detectors by four modes: what never happened is not shown.
            if *count > 0 {
                samples.push((vec![detector.as_str().to_owned(), (*name).to_owned()], Value::Number(*count as f64)));
            }
        }
    }
    samples
}

/// What is no counter of a lane.
fn elsewhere(name: &str, snapshot: &Snapshot) -> Samples {
    let numbered = |of: &dyn Fn(&LaneReport) -> f64| -> Samples {
        snapshot.lanes.iter().enumerate().map(|(lane, report)| (vec![lane.to_string()], Value::Number(of(report)))).collect()
    };
    match name {
        "overlay_bytes" => numbered(&|report| report.overlay_bytes as f64),
        "session_cache_bytes" => one(snapshot.lanes.iter().map(|report| report.cache_bytes as f64).sum()),
        "tasks" => tasks(snapshot),
        "lag_records" | "lag_seconds" => lag(name == "lag_seconds", snapshot),
        "lso_lag_records" => held_back(snapshot),
        "restore_records_left" => {
            let left = snapshot.lanes.iter().fold([0; 2], |[session, swarm], lane| {
                let [more_session, more_swarm] = lane.restore_left;
                [session + more_session, swarm + more_swarm]
            });
            list(&STAGES, &left)
        }
        "sessions" | "sessions_blocked" => {
            let of = |lane: &LaneReport| lane.census.get(usize::from(name == "sessions_blocked")).copied().unwrap_or_default();
            one(snapshot.lanes.iter().map(|lane| of(lane) as f64).sum())
        }
        "swarm_counters" => one(snapshot.lanes.iter().map(|lane| lane.swarm_counters as f64).sum()),
        "store_bytes" => snapshot.store.map_or_else(Vec::new, |store| {
            let bytes = [store.sst_bytes, store.memtable_bytes, store.cache_bytes, store.pinned_bytes];
            list(&["sst", "memtable", "cache", "pinned"], &bytes)
        }),
        "store_stall_seconds_total" => snapshot.store.map_or_else(Vec::new, |store| one(store.stall_us as f64 / 1e6)),
        "store_compaction_pending_bytes" => {
            snapshot.store.map_or_else(Vec::new, |store| one(store.compaction_pending_bytes as f64))
        }
        "log_bytes" => snapshot.log.map_or_else(Vec::new, |(bytes, _)| one(bytes as f64)),
        "log_readers" => snapshot.log.map_or_else(Vec::new, |(_, readers)| one(readers as f64)),
        "http_requests_total" => {
            let of = |(route, status, histogram): &(&'static str, u16, Histogram)| {
                (vec![(*route).to_owned(), status.to_string()], Value::Number(histogram.count() as f64))
            };
            snapshot.http.iter().map(of).collect()
        }
        "http_request_seconds" => {
            let mut routes: std::collections::BTreeMap<&str, Histogram> = std::collections::BTreeMap::new();
            for (route, _, histogram) in &snapshot.http {
                routes.entry(route).or_default().add(histogram);
            }
            routes.into_iter().map(|(route, histogram)| (vec![route.to_owned()], Value::Durations(histogram))).collect()
        }
        _ => Vec::new(),
    }
}

fn tasks(snapshot: &Snapshot) -> Samples {
    let mut samples = Vec::new();
    for stage in [Stage::Session, Stage::Swarm] {
        let count = |is: fn(&TaskState) -> bool| {
            let all = snapshot.lanes.iter().flat_map(|lane| &lane.tasks);
            all.filter(|task| task.id.stage == stage && is(&task.state)).count() as f64
        };
        for (state, number) in [
            ("restoring", count(|state| *state == TaskState::Restoring)),
            ("running", count(|state| *state == TaskState::Running)),
            ("poisoned", count(|state| matches!(state, TaskState::Poisoned(_)))),
        ] {
            samples.push((vec![stage.as_str().to_owned(), state.to_owned()], Value::Number(number)));
        }
    }
    samples
}

fn lag(in_seconds: bool, snapshot: &Snapshot) -> Samples {
    let mut samples = Vec::new();
    for (lane, task) in snapshot.lanes.iter().flat_map(|lane| lane.tasks.iter().map(move |task| (lane, task))) {
        let (Some(position), Some(records)) = (&task.position, lane.lag(task)) else { continue };
        let value = match (in_seconds, records) {
            (false, _) => records as f64,
            // Nothing to read is no lag, however old the last event.
            (true, 0) => 0.0,
            // Nothing was read yet: nobody knows how old it is.
            (true, _) if position.watermark.0 <= 0 => continue,
            (true, _) => snapshot.now_ms.saturating_sub(position.watermark.plus_ms(snapshot.lateness_ms).0).max(0) as f64 / 1e3,
        };
        samples.push((vec![task.id.stage.as_str().to_owned(), task.id.partition.to_string()], Value::Number(value)));
    }
    samples
}

fn held_back(snapshot: &Snapshot) -> Samples {
    let of = |stage: Stage| -> u64 {
        let ends = snapshot.lanes.iter().flat_map(|lane| &lane.ends);
        ends.filter(|end| end.task.stage == stage).map(|end| end.held_back).sum()
    };
    list(&STAGES, &[of(Stage::Session), of(Stage::Swarm)])
}

#[cfg(test)]
mod tests {
    use loopwarden_core::event::{EventTime, NextOffset, TaskId};
    use loopwarden_lane::TaskView;
    use loopwarden_log::InputEnd;
    use loopwarden_state::Position;

    use super::*;

    #[test]
    fn every_metric_is_described_and_counters_end_in_total() {
        let text = render(Snapshot::default());
        for metric in METRICS {
            assert_eq!(metric.kind == Kind::Counter, metric.name.ends_with("_total"), "{}", metric.name);
            let family = format!("# TYPE {PREFIX}_{} ", metric.name.trim_end_matches("_total"));
            assert!(text.contains(&family), "{family} in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    /// A process of which everything can be told.
    fn telling() -> Snapshot {
        let id = TaskId { stage: Stage::Swarm, partition: 3 };
        let watermark = EventTime(30_000);
        let position = Position { next_offset: NextOffset(5), watermark, ..Position::default() };
        let mut stats = Stats::default();
        stats.detections[0][2] = 3;
        stats.obeyed[1][0] = 1;
        stats.swarm_late = 4;
        let lane = LaneReport {
            stats,
            tasks: vec![TaskView { id, state: TaskState::Running, position: Some(position) }],
            ends: vec![InputEnd { task: id, end: 9, held_back: 2 }],
            restore_left: [1, 2],
            census: [5, 2],
            swarm_counters: 7,
            ..LaneReport::default()
        };
        Snapshot {
            lanes: vec![lane.clone(), lane],
            store: Some(StoreStats { sst_bytes: 7, ..StoreStats::default() }),
            http: vec![("/metrics", 200, Histogram::default())],
            log: Some((1, 2)),
            topic: "t".to_owned(),
            now_ms: 99_500,
            lateness_ms: 60_000,
            ..Snapshot::default()
        }
    }

    #[test]
    fn every_metric_has_a_source() {
        let snapshot = telling();
        for metric in METRICS {
            assert!(!samples(metric.name, &snapshot).is_empty(), "{} is described and never told", metric.name);
        }
        let text = render(snapshot);
        for line in [
            "loopwarden_lag_records{stage=\"swarm\",partition=\"3\"} 4",
            "loopwarden_lag_seconds{stage=\"swarm\",partition=\"3\"} 9.5",
            "loopwarden_lso_lag_records{stage=\"swarm\"} 4",
            "loopwarden_lso_lag_records{stage=\"session\"} 0",
            "loopwarden_restore_records_left{stage=\"session\"} 2",
            "loopwarden_sessions{} 10",
            "loopwarden_sessions_blocked{} 4",
            "loopwarden_swarm_counters{} 14",
            "loopwarden_limit_hits_total{limit=\"swarm_late\"} 8",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }

    #[test]
    fn every_sample_has_a_value_for_each_label() {
        let snapshot = telling();
        for metric in METRICS {
            for (labels, _) in samples(metric.name, &snapshot) {
                assert_eq!(labels.len(), metric.labels.len(), "{}", metric.name);
            }
        }
        let text = render(snapshot);
        assert!(text.contains("loopwarden_detections_total{detector=\"exact_repeat\",mode=\"nudge\"} 6"), "{text}");
        assert!(text.contains("loopwarden_store_bytes{part=\"sst\"} 7"), "{text}");
    }

    #[test]
    fn durations_fall_into_buckets_of_seconds() {
        let mut stats = Stats::default();
        stats.command_delay[0].note_us(2_000);
        let lanes = vec![LaneReport { stats, ..LaneReport::default() }];
        let text = render(Snapshot { lanes, ..Snapshot::default() });
        assert!(text.contains("loopwarden_command_delay_seconds_bucket{le=\"0.0025\",action=\"nudge\"} 1"), "{text}");
        assert!(text.contains("loopwarden_command_delay_seconds_count{action=\"nudge\"} 1"), "{text}");
    }
}
