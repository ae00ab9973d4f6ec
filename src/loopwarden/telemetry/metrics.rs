//! The metrics of the process, each with its name, labels, help and values in one row. Those of lanes are in
//! [`Stats::METRICS`]; they count in plain fields, and get names here, at scrape time.
//!
//! Labels are closed sets or own partitions, never a name from the wire.

use std::{collections::BTreeMap, fmt};

use loopwarden_core::event::Stage;
use loopwarden_lane::{BUCKETS_US, Histogram, IntakeReport, LaneReport, Samples, Stats, TaskState, Value};
use loopwarden_webhook::WebhookReport;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::{collector::Collector, metrics::MetricType, registry::Registry};

use crate::telemetry::bill::saved;
use crate::telemetry::guard::{GuardReport, ROWS};
pub use crate::telemetry::snapshot::Snapshot;
use crate::telemetry::snapshot::{STAGES, list};
use crate::telemetry::{lag, process, webhooks};

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

#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Name without the prefix.
    pub name: &'static str,
    /// Type.
    pub kind: Kind,
    pub labels: &'static [&'static str],
    /// What it tells.
    pub help: &'static str,
    source: Source,
}

/// Where the values of a metric come from.
#[derive(Debug, Clone, Copy)]
enum Source {
    Lanes(fn(&Stats) -> Samples),
    Process(fn(&Snapshot) -> Samples),
    Guard(fn(&GuardReport) -> Samples),
    Webhooks(fn(&WebhookReport) -> Vec<(&'static str, f64)>),
}

type Row = (Kind, &'static str, &'static [&'static str], &'static str, fn(&Snapshot) -> Samples);

/// Metrics of the process beside those of its lanes.
const OWN: &[Row] = &[
    (Kind::Gauge, "build_info", &["version", "revision"], "What runs", |process| {
        let (version, revision) = process.build.clone();
        vec![(vec![version, revision], Value::Number(1.0))]
    }),
    (Kind::Gauge, "policy_info", &["profile", "hash", "mode"], "The policy in force", |process| {
        let (profile, hash, mode) = process.policy.clone();
        vec![(vec![profile, hash, mode], Value::Number(1.0))]
    }),
    (
        Kind::Gauge,
        "saved_calls",
        &["bound"],
        "Calls that agents did not make in loops, by the control arm of a trial",
        |process| saved(&process.stats(), |saved| Some(saved.calls)),
    ),
    (Kind::Gauge, "saved_cost_usd", &["bound"], "Dollars that they did not spend there", |process| {
        saved(&process.stats(), |saved| saved.usd)
    }),
    (Kind::Gauge, "overlay_bytes", &["lane"], "Uncommitted work", |process| by_lane(process, |lane| lane.overlay_bytes as f64)),
    (Kind::Gauge, "lag_records", &["stage", "partition"], "Own position to last stable offset", |process| {
        lag::lag(false, process)
    }),
    (
        Kind::Gauge,
        "lag_seconds",
        &["stage", "partition"],
        "Newest event time behind the clock, while there is something to read",
        |process| lag::lag(true, process),
    ),
    (Kind::Gauge, "lso_lag_records", &["stage"], "Records of the input behind a transaction that stays open", lag::held_back),
    (Kind::Gauge, "tasks", &["stage", "state"], "Tasks by what they are doing", tasks),
    (Kind::Gauge, "restore_records_left", &["stage"], "Changelog records still to be read", |process| {
        let left = process.lanes.iter().fold([0; 2], |[session, swarm], lane| {
            let [more_session, more_swarm] = lane.restore_left;
            [session + more_session, swarm + more_swarm]
        });
        list(&STAGES, &left)
    }),
    (Kind::Gauge, "sessions", &[], "Sessions of the tasks that run here: begun and not forgotten", |process| {
        sum(process, |lane| lane.census[0] as f64)
    }),
    (Kind::Gauge, "sessions_blocked", &[], "Sessions with a live block in force", |process| {
        sum(process, |lane| lane.census[1] as f64)
    }),
    (Kind::Gauge, "swarm_counters", &[], "Counters of the swarm stage", |process| {
        sum(process, |lane| lane.swarm_counters as f64)
    }),
    (Kind::Gauge, "session_cache_bytes", &[], "Decoded sessions", |process| sum(process, |lane| lane.cache_bytes as f64)),
    (Kind::Gauge, "store_bytes", &["part"], "RocksDB", |process| {
        process.store.map_or_else(Vec::new, |store| {
            let bytes = [store.sst_bytes, store.memtable_bytes, store.cache_bytes, store.pinned_bytes];
            list(&["sst", "memtable", "cache", "pinned"], &bytes)
        })
    }),
    (Kind::Counter, "store_stall_seconds_total", &[], "Writers held back", |process| {
        optional(process.store.map(|store| store.stall_us as f64 / 1e6))
    }),
    (Kind::Gauge, "store_compaction_pending_bytes", &[], "What compaction still has to rewrite", |process| {
        optional(process.store.map(|store| store.compaction_pending_bytes as f64))
    }),
    (Kind::Gauge, "log_bytes", &[], "Embedded log", |process| optional(process.log.map(|(bytes, _)| bytes as f64))),
    (Kind::Gauge, "log_readers", &[], "Followers of the embedded log", |process| {
        optional(process.log.map(|(_, readers)| readers as f64))
    }),
    (
        Kind::Gauge,
        "judged_lag_seconds",
        &["stage", "partition"],
        "How long the oldest record of the embedded log has waited to be judged",
        lag::judged,
    ),
    (
        Kind::Counter,
        "intake_refused_total",
        &["why"],
        "Events sent away: lanes are behind, or too many of a sender wait",
        lag::refused,
    ),
    (Kind::Counter, "intake_records_total", &["topic", "form"], "Records read of other topics", |process| {
        intakes(process, |intake| vec![(intake.form, intake.stats.records)])
    }),
    (Kind::Counter, "intake_parts_total", &["topic", "became"], "What became of parts of these records", |process| {
        intakes(process, |IntakeReport { stats, .. }| {
            vec![("event", stats.events), ("ignored", stats.ignored), ("refused", stats.refused)]
        })
    }),
    (Kind::Counter, "intake_calls_total", &["topic", "what"], "Calls among them, all and those without a field", |process| {
        intakes(process, |IntakeReport { stats, .. }| {
            vec![("all", stats.calls), ("without_args", stats.without_args), ("without_result", stats.without_results)]
        })
    }),
    (Kind::Counter, "intake_lost_total", &["topic"], "Records deleted before they were read", |process| {
        let lost = |intake: &IntakeReport| (vec![intake.topic.clone()], Value::Number(intake.stats.input_lost as f64));
        process.intakes.iter().map(lost).collect()
    }),
    (Kind::Counter, "intake_transactions_total", &["topic", "outcome"], "How their transactions ended", |process| {
        intakes(process, |IntakeReport { stats, .. }| vec![("committed", stats.committed), ("failed", stats.failed)])
    }),
    (Kind::Gauge, "intake_lag_records", &["topic"], "Records of other topics to read", |process| {
        let lag = |intake: &IntakeReport| Some((vec![intake.topic.clone()], Value::Number(intake.lag_records? as f64)));
        process.intakes.iter().filter_map(lag).collect()
    }),
    (Kind::Gauge, "intake_stopped", &["topic"], "Partitions of other topics that have stopped themselves", |process| {
        let stopped = |intake: &IntakeReport| (vec![intake.topic.clone()], Value::Number(intake.stopped.len() as f64));
        process.intakes.iter().map(stopped).collect()
    }),
    (Kind::Counter, "http_requests_total", &["route", "status"], "Requests", |process| {
        let of = |(route, status, histogram): &(&'static str, u16, Histogram)| {
            (vec![(*route).to_owned(), status.to_string()], Value::Number(histogram.count() as f64))
        };
        process.http.iter().map(of).collect()
    }),
    (Kind::Histogram, "http_request_seconds", &["route"], "How long they took", |process| {
        let mut routes: BTreeMap<&str, Histogram> = BTreeMap::new();
        for (route, _, histogram) in &process.http {
            routes.entry(route).or_default().add(histogram);
        }
        routes.into_iter().map(|(route, histogram)| (vec![route.to_owned()], Value::Durations(histogram))).collect()
    }),
];

/// Of each intake, under its topic.
fn intakes(process: &Snapshot, of: impl Fn(&IntakeReport) -> Vec<(&'static str, u64)>) -> Samples {
    let under = |intake: &IntakeReport| {
        let topic = intake.topic.clone();
        let sample = move |(word, count): (&str, u64)| (vec![topic.clone(), word.to_owned()], Value::Number(count as f64));
        of(intake).into_iter().map(sample)
    };
    process.intakes.iter().flat_map(under).collect()
}

/// All of them.
pub fn metrics() -> impl Iterator<Item = Metric> {
    let of_lanes = Stats::METRICS.iter().map(|metric| Metric {
        name: metric.name,
        kind: if metric.name.ends_with("_total") { Kind::Counter } else { Kind::Histogram },
        labels: metric.labels,
        help: metric.help,
        source: Source::Lanes(metric.samples),
    });
    let own = OWN.iter().map(|(kind, name, labels, help, read)| Metric {
        name,
        kind: *kind,
        labels,
        help,
        source: Source::Process(*read),
    });
    own.chain(guard_metrics()).chain(webhook_metrics()).chain(of_lanes)
}

/// Those of a guard.
fn guard_metrics() -> impl Iterator<Item = Metric> {
    ROWS.iter().map(|(name, labels, help, read)| Metric { name, kind: kind(name), labels, help, source: Source::Guard(*read) })
}

/// Those of webhooks.
fn webhook_metrics() -> impl Iterator<Item = Metric> {
    let metric = |(name, labels, help, read): &webhooks::Row| Metric {
        name,
        kind: kind(name),
        labels,
        help,
        source: Source::Webhooks(*read),
    };
    webhooks::ROWS.iter().map(metric)
}

/// Of a metric without durations.
fn kind(name: &str) -> Kind {
    if name.ends_with("_total") { Kind::Counter } else { Kind::Gauge }
}

impl Metric {
    /// Everything there is to say of it.
    fn samples(&self, snapshot: &Snapshot, stats: &Stats) -> Samples {
        match self.source {
            Source::Process(read) => read(snapshot),
            Source::Guard(read) => snapshot.guard.as_ref().map_or_else(Vec::new, read),
            Source::Webhooks(read) => webhooks::samples(&snapshot.webhooks, read),
            Source::Lanes(read) if self.labels.first() == Some(&"topic") => {
                let under = |(labels, value)| ([vec![snapshot.topic.clone()], labels].concat(), value);
                read(stats).into_iter().map(under).collect()
            }
            Source::Lanes(read) => read(stats),
        }
    }
}

/// The metrics as OpenMetrics text.
pub fn render(snapshot: Snapshot) -> String {
    encoded(snapshot, metrics().collect())
}

/// Those of a guard beside an agent.
pub fn render_guard(report: GuardReport) -> String {
    encoded(Snapshot { guard: Some(report), ..Snapshot::default() }, guard_metrics().collect())
}

fn encoded(snapshot: Snapshot, metrics: Vec<Metric>) -> String {
    let mut registry = Registry::default();
    registry.sub_registry_with_prefix(PREFIX).register_collector(Box::new(Scrape { snapshot, metrics }));
    registry.register_collector(Box::new(process::Scrape));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    text
}

#[derive(Debug)]
struct Scrape {
    snapshot: Snapshot,
    metrics: Vec<Metric>,
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let stats = self.snapshot.stats();
        for metric in &self.metrics {
            let samples = metric.samples(&self.snapshot, &stats);
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

fn one(value: f64) -> Samples {
    vec![(Vec::new(), Value::Number(value))]
}

fn optional(value: Option<f64>) -> Samples {
    value.map_or_else(Vec::new, one)
}

fn sum(snapshot: &Snapshot, of: fn(&LaneReport) -> f64) -> Samples {
    one(snapshot.lanes.iter().map(of).sum())
}

fn by_lane(snapshot: &Snapshot, of: fn(&LaneReport) -> f64) -> Samples {
    snapshot.lanes.iter().enumerate().map(|(lane, report)| (vec![lane.to_string()], Value::Number(of(report)))).collect()
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

#[cfg(test)]
mod tests {
    use loopwarden_core::engine::{Watch, WatchedAgent};
    use loopwarden_core::event::{EventTime, NextOffset, TaskId};
    use loopwarden_core::policy::{Arm, Detector};
    use loopwarden_lane::TaskView;
    use loopwarden_log::InputEnd;
    use loopwarden_state::Position;

    use loopwarden_state::StoreStats;

    use super::*;

    #[test]
    fn every_metric_is_described_and_counters_end_in_total() {
        let text = render(Snapshot::default());
        for metric in metrics() {
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
        // Fifty agents in each arm, which half of those of the treatment leave at once.
        for at in 0..50 {
            let arm = if at % 2 == 0 { Arm::Control } else { Arm::Treatment };
            let calls = if at % 4 == 1 { 0 } else { 6 };
            let watch = Watch::Over;
            let detector = Detector::ExactRepeat;
            stats.trial.note(&WatchedAgent {
                detector,
                arm,
                was_getting_on: false,
                calls,
                micro_usd: calls * 500_000,
                calls_outside: 1,
                watch,
            });
        }
        let lane = LaneReport {
            stats,
            tasks: vec![TaskView { id, state: TaskState::Running, position: Some(position) }],
            ends: vec![InputEnd { task: id, end: 9, held_back: 2, age_ms: 0 }],
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
            backlog: Some((vec![(Stage::Session, 3, 1_500)], [1, 2])),
            guard: Some(GuardReport { events_sent: Some(1), events_rejected: Some(1), ..GuardReport::default() }),
            intakes: vec![IntakeReport { topic: "otlp_spans".to_owned(), lag_records: Some(3), ..IntakeReport::default() }],
            webhooks: vec![WebhookReport { name: "orchestrator".to_owned(), behind: Some(1), ..WebhookReport::default() }],
            topic: "t".to_owned(),
            now_ms: 99_500,
            lateness_ms: 60_000,
            ..Snapshot::default()
        }
    }

    #[test]
    fn every_metric_has_a_source() {
        let snapshot = telling();
        for metric in metrics() {
            assert!(!metric.samples(&snapshot, &snapshot.stats()).is_empty(), "{} is described and never told", metric.name);
        }
        let text = render(snapshot);
        for line in [
            "loopwarden_lag_records{stage=\"swarm\",partition=\"3\"} 4",
            "loopwarden_lag_seconds{stage=\"swarm\",partition=\"3\"} 9.5",
            "loopwarden_lso_lag_records{stage=\"swarm\"} 4",
            "loopwarden_lso_lag_records{stage=\"session\"} 0",
            "loopwarden_restore_records_left{stage=\"session\"} 2",
            "loopwarden_judged_lag_seconds{stage=\"session\",partition=\"3\"} 1.5",
            "loopwarden_intake_refused_total{why=\"share\"} 2",
            "loopwarden_sessions{} 10",
            "loopwarden_sessions_blocked{} 4",
            "loopwarden_swarm_counters{} 14",
            "loopwarden_limit_hits_total{limit=\"swarm_late\"} 8",
            "loopwarden_trial_agents_total{detector=\"exact_repeat\",arm=\"control\",outcome=\"went_on\"} 50",
            "loopwarden_trial_calls_total{detector=\"exact_repeat\",arm=\"control\"} 300",
            "loopwarden_trial_cost_usd_total{detector=\"exact_repeat\",arm=\"control\"} 150",
            "loopwarden_saved_calls{bound=\"low\"} ",
            "loopwarden_saved_cost_usd{bound=\"high\"} ",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }

    #[test]
    fn every_sample_has_a_value_for_each_label() {
        let snapshot = telling();
        for metric in metrics() {
            for (labels, _) in metric.samples(&snapshot, &snapshot.stats()) {
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
