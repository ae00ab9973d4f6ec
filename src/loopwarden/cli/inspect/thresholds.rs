//! What other thresholds would have said: the events of a session under its policy with one number changed at a time.

use std::sync::Arc;

use loopwarden_core::engine::{Action, ReasonCode};
use loopwarden_core::event::{EventTime, Record, RecordMeta, RecordOffset, decode};
use loopwarden_core::policy::{Detector, Policy};
use loopwarden_lab::report::{Column, Table};
use loopwarden_settings::policy::load_with_overrides;
use serde_json::{Value, json};

use crate::cli::cases::Bench;

/// Events of a session that are run again; the first, since loops are told at their beginning.
const EVENTS_MAX: usize = 2_000;
/// Bytes of them.
const BYTES_MAX: usize = 32 << 20;
/// Numbers that are tried beside the one in force.
const TRIED: [u32; 10] = [2, 3, 4, 5, 6, 8, 10, 15, 20, 30];
/// Detectors of a session whose finding one number decides, and its key.
const SWEPT: [(Detector, &str); 14] = [
    (Detector::ExactRepeat, "threshold"),
    (Detector::NearRepeat, "threshold"),
    (Detector::OutcomeRepeat, "threshold"),
    (Detector::StateRepeat, "threshold"),
    (Detector::SemanticRepeat, "threshold"),
    (Detector::Oscillation, "threshold"),
    (Detector::DeadEnd, "threshold"),
    (Detector::Stagnation, "threshold"),
    (Detector::Stuck, "threshold"),
    (Detector::CallRate, "limit"),
    (Detector::TestFix, "threshold"),
    (Detector::ShellFailures, "threshold"),
    (Detector::TextOnly, "threshold"),
    (Detector::Exploration, "threshold"),
];

/// Records of a session, as many as are run again.
#[derive(Default)]
pub(super) struct Kept {
    records: Vec<One>,
    bytes: usize,
    is_cut: bool,
}

struct One {
    topic: String,
    partition: u32,
    offset: u64,
    timestamp: EventTime,
    headers: Vec<(String, Option<Vec<u8>>)>,
    value: Vec<u8>,
}

impl Kept {
    pub(super) fn keep(&mut self, record: &Record<'_>) {
        let value = record.value.unwrap_or_default();
        if self.is_cut || self.records.len() >= EVENTS_MAX || self.bytes + value.len() > BYTES_MAX {
            self.is_cut = true;
            return;
        }
        self.bytes += value.len();
        let meta = &record.meta;
        let headers = meta.headers.iter().map(|(name, value)| ((*name).to_owned(), value.map(<[u8]>::to_vec)));
        self.records.push(One {
            topic: meta.topic.to_owned(),
            partition: meta.partition,
            offset: meta.offset.0,
            timestamp: meta.timestamp,
            headers: headers.collect(),
            value: value.to_vec(),
        });
    }

    /// How many, for people.
    pub(super) fn told(&self) -> String {
        if self.is_cut { format!("its first {} events", self.records.len()) } else { "all of its events".to_owned() }
    }
}

/// What a detector says under a policy: nudges, blocks, index of the event of the first command, as the session's events have it.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Said {
    nudges: u64,
    blocks: u64,
    first: Option<u64>,
}

/// Tries other numbers, one detector at a time. Rows of detectors that say nothing under any of them are left out.
pub(super) fn sweep(kept: &Kept, policy_name: &str, overrides: &Value, policy: &Policy) -> Table {
    let mut table = Table::new(&[
        Column::text("detector"),
        Column::number("threshold"),
        Column::text("in_force"),
        Column::number("nudges"),
        Column::number("blocks"),
        Column::number("first_at"),
    ]);
    for (detector, key) in SWEPT {
        if !policy.detectors.mode(detector).is_on() {
            continue;
        }
        let now = in_force(policy, detector);
        let mut numbers: Vec<u32> = TRIED.into_iter().chain([now]).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut rows = Vec::new();
        for number in numbers {
            // A number that contradicts another one of the policy says nothing.
            let changed = with(overrides, detector, key, number);
            let Ok(policy) = load_with_overrides(policy_name, &changed) else { continue };
            rows.push((number, said(kept, Arc::new(policy), detector)));
        }
        if rows.iter().all(|(_, said)| *said == Said::default()) {
            continue;
        }
        let mut is_silent = false;
        for (number, said) in rows {
            // Beyond the first number that says nothing there is nothing to see, but for the one in force.
            if is_silent && number != now {
                continue;
            }
            is_silent = said == Said::default();
            let mark = if number == now { "in force" } else { "" };
            let row = [number.into(), mark.into(), said.nudges.into(), said.blocks.into(), said.first.into()];
            table.row([Value::from(detector.as_str())].into_iter().chain(row).collect());
        }
    }
    table
}

fn in_force(policy: &Policy, detector: Detector) -> u32 {
    let detectors = &policy.detectors;
    match detector {
        Detector::ExactRepeat => detectors.exact_repeat.threshold,
        Detector::NearRepeat => detectors.near_repeat.threshold,
        Detector::OutcomeRepeat => detectors.outcome_repeat.threshold,
        Detector::StateRepeat => detectors.state_repeat.threshold,
        Detector::SemanticRepeat => detectors.semantic_repeat.threshold,
        Detector::Oscillation => detectors.oscillation.threshold,
        Detector::DeadEnd => detectors.dead_end.threshold,
        Detector::Stagnation => detectors.stagnation.threshold,
        Detector::Stuck => detectors.stuck.threshold,
        Detector::CallRate => detectors.call_rate.limit,
        Detector::TestFix => detectors.test_fix.threshold,
        Detector::ShellFailures => detectors.shell_failures.threshold,
        Detector::TextOnly => detectors.text_only.threshold,
        Detector::Exploration => detectors.exploration.threshold,
        Detector::FleetRate => detectors.fleet_rate.limit,
        Detector::SwarmRepeat => detectors.swarm_repeat.threshold,
    }
}

/// The overrides with one number more.
fn with(overrides: &Value, detector: Detector, key: &str, number: u32) -> Value {
    let mut changed = overrides.as_object().cloned().unwrap_or_default();
    let table = changed.entry("detectors").or_insert_with(|| json!({}));
    if let Some(detectors) = table.as_object_mut() {
        let own = detectors.entry(detector.as_str()).or_insert_with(|| json!({}));
        if let Some(own) = own.as_object_mut() {
            own.insert(key.to_owned(), number.into());
        }
    }
    Value::Object(changed)
}

fn said(kept: &Kept, policy: Arc<Policy>, detector: Detector) -> Said {
    let mut bench = Bench::new(policy);
    let (mut said, mut counted) = (Said::default(), 0);
    for one in &kept.records {
        let meta = RecordMeta {
            topic: &one.topic,
            partition: one.partition,
            offset: RecordOffset(one.offset),
            timestamp: one.timestamp,
            key: None,
            headers: one.headers.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect(),
            value_bytes_max: one.value.len(),
        };
        let Ok(event) = decode(Some(&one.value), &meta) else { continue };
        let place = (one.topic.as_str(), one.partition, one.offset);
        let answer = bench.apply(&event, place);
        let index = event.seq.unwrap_or(counted);
        counted += u64::from(!answer.is_duplicate);
        for command in answer.commands {
            if command.reason != ReasonCode::Detector(detector) {
                continue;
            }
            match command.action {
                Action::Nudge => said.nudges += 1,
                Action::Block => said.blocks += 1,
                Action::Unblock => continue,
            }
            said.first.get_or_insert(index);
        }
    }
    said
}
