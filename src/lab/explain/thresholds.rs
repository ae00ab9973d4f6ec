//! What other thresholds would have said: the events of a session under its policy with one number changed at a time.

use std::{collections::BTreeSet, sync::Arc};

use crate::report::Table;
use loopwarden_core::engine::{Action, Effects, Input, ReasonCode, Session, SubjectKey};
use loopwarden_core::event::{EventTime, Record, RecordMeta, RecordOffset};
use loopwarden_core::policy::{Detector, Policy};
use loopwarden_settings::policy::load_with_overrides;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{replay::observed::Observer, replay::stepper::Stepper};

/// Events of a session that are run again; the first, since loops are told at their beginning.
const EVENTS_MAX: usize = 2_000;
const BYTES_MAX: usize = 32 << 20;
/// Numbers that are tried beside the one in force.
const TRIED: [u32; 10] = [2, 3, 4, 5, 6, 8, 10, 15, 20, 30];

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

    pub(super) fn extent(&self) -> String {
        if self.is_cut { format!("its first {} events", self.records.len()) } else { "all of its events".to_owned() }
    }
}

/// A detector under one number.
#[derive(Serialize, Default)]
struct ThresholdRow {
    detector: &'static str,
    threshold: u32,
    in_force: &'static str,
    nudges: u64,
    blocks: u64,
    /// Index of the event of the first command, among the events of the session.
    first_at: Option<u64>,
}

/// Tries other numbers, one detector at a time. Detectors without a command under any of them have no row.
pub(super) fn sweep(kept: &Kept, policy_name: &str, overrides: &Value, policy: &Policy) -> Table {
    let mut rows: Vec<ThresholdRow> = Vec::new();
    for detector in Detector::ALL {
        let Some(key) = detector.about().swept.filter(|_| policy.detectors.mode(detector).is_on()) else { continue };
        let now = policy.detectors.counts(detector).threshold;
        let numbers: BTreeSet<u32> = TRIED.into_iter().chain([now]).collect();
        // A number that contradicts another one of the policy has no row.
        let tried = numbers.into_iter().filter_map(|threshold| {
            let policy = load_with_overrides(policy_name, &with(overrides, detector, key, threshold)).ok()?;
            let in_force = if threshold == now { "in force" } else { "" };
            Some(ThresholdRow { threshold, in_force, ..tried(kept, Arc::new(policy), detector) })
        });
        let mut tried: Vec<ThresholdRow> = tried.collect();
        if tried.iter().all(|row| row.first_at.is_none()) {
            continue;
        }
        // Beyond the first number without a command there is nothing to see, but for the one in force.
        let mut is_silent = false;
        tried.retain(|row| {
            let is_shown = !is_silent || row.threshold == now;
            is_silent = if is_shown { row.first_at.is_none() } else { is_silent };
            is_shown
        });
        rows.extend(tried);
    }
    Table::of(rows)
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

/// The events that an engine has not seen before, counted as labels count them.
#[derive(Default)]
struct Counted {
    events: u64,
    /// Index of the event that was applied last.
    last: u64,
}

impl Observer for Counted {
    fn applied(&mut self, input: Input<'_>, _subject: &SubjectKey, _session: &Session, _before: u64, effects: &Effects) {
        if let Input::Event(event, _) = input {
            self.last = event.seq.unwrap_or(self.events);
            self.events += u64::from(!effects.counters.duplicate);
        }
    }
}

/// The commands of a detector under a policy.
fn tried(kept: &Kept, policy: Arc<Policy>, detector: Detector) -> ThresholdRow {
    let mut stepper = Stepper::new("loopwarden", policy, Counted::default(), false);
    let mut row = ThresholdRow { detector: detector.as_str(), ..ThresholdRow::default() };
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
        // A lane whose store is in memory does not end.
        let commands = stepper.step(&Record::new(meta, Some(&one.value))).unwrap_or_default();
        for (_, command) in commands.iter().filter(|(_, command)| command.reason == ReasonCode::Detector(detector)) {
            match command.action {
                Action::Nudge => row.nudges += 1,
                Action::Block => row.blocks += 1,
                Action::Unblock => continue,
            }
            row.first_at.get_or_insert(stepper.observer().last);
        }
    }
    row
}
