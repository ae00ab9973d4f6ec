//! What a guard shows of itself: the same in a process with a log of its own and beside an agent.

use loopwarden_guard::Counts;
use loopwarden_lane::{Samples, Value};

/// A guard at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct GuardReport {
    /// What it counted.
    pub counts: Counts,
    /// Whether the verdicts that are known are of now.
    pub is_fresh: bool,
    /// Subjects with verdicts.
    pub subjects: u64,
    /// Events that were sent on; none where they go to the log of the process, which counts them itself.
    pub events_sent: Option<u64>,
    /// Those of them that are no events to who got them.
    pub events_rejected: Option<u64>,
    /// Events that found no room, or were not taken in time.
    pub events_dropped: u64,
}

/// Name without the prefix, labels, help, values. A name that ends in `_total` is a counter.
pub(super) type Row = (&'static str, &'static [&'static str], &'static str, fn(&GuardReport) -> Samples);

/// All of them.
pub(super) const ROWS: &[Row] = &[
    ("guard_connected", &[], "Whether the verdicts that are known are of now", |guard| one(u64::from(guard.is_fresh))),
    ("guard_agents", &[], "Agents that asked within five minutes", |guard| one(guard.counts.asking)),
    ("guard_subjects", &[], "Subjects with verdicts", |guard| one(guard.subjects)),
    ("guard_checks_total", &["verdict"], "Checks", |guard| {
        let counts = &guard.counts;
        [("allow", counts.allowed), ("message", counts.spoken), ("deny", counts.denied)]
            .map(|(verdict, count)| (vec![verdict.to_owned()], Value::Number(count as f64)))
            .to_vec()
    }),
    ("guard_stale_answers_total", &[], "Answers without fresh verdicts", |guard| one(guard.counts.stale)),
    ("guard_blocks_obeyed_total", &[], "Calls refused under a block", |guard| one(guard.counts.refused)),
    ("guard_calls_in_spite_total", &[], "Calls made in spite of a block", |guard| one(guard.counts.in_spite)),
    ("guard_nudges_total", &[], "Nudges handed out", |guard| one(guard.counts.nudges)),
    ("guard_nudges_delivered_total", &[], "Nudges that the next event of the agent confirmed", |guard| {
        one(guard.counts.nudges_delivered)
    }),
    ("guard_nudges_unheeded_total", &[], "Delivered nudges after which the same loop went on", |guard| {
        one(guard.counts.nudges_unheeded)
    }),
    ("guard_nudges_dropped_total", &[], "Nudges that nobody confirmed", |guard| one(guard.counts.nudges_dropped)),
    ("guard_echoes_total", &[], "Failures reported of calls that were refused", |guard| one(guard.counts.echoes)),
    ("guard_events_sent_total", &[], "Events sent on", |guard| guard.events_sent.map_or_else(Vec::new, one)),
    ("guard_events_rejected_total", &[], "Events sent on that were refused as none", |guard| {
        guard.events_rejected.map_or_else(Vec::new, one)
    }),
    (
        "guard_events_dropped_total",
        &[],
        "Events that found no room, or were not taken in time",
        |guard| one(guard.events_dropped),
    ),
    ("guard_not_understood_total", &[], "State rows and commands that were not understood", |guard| {
        one(guard.counts.not_understood)
    }),
    ("guard_verdicts_looked_up_total", &[], "Answers for which forgotten verdicts were read from the store", |guard| {
        one(guard.counts.looked_up)
    }),
    ("guard_subjects_evicted_total", &[], "Subjects forgotten because there were too many", |guard| one(guard.counts.evicted)),
];

fn one(value: u64) -> Samples {
    vec![(Vec::new(), Value::Number(value as f64))]
}
