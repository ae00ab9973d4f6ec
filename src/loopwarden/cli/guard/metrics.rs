//! What a guard counts, as OpenMetrics text.

use std::fmt::Write as _;

use crate::http::check::Desk;

/// Name, type, help, value.
type Row = (&'static str, &'static str, &'static str, u64);

/// The text. `deliveries`: events that were taken, and those lost on their way.
pub(super) fn render(desk: &Desk, (delivered, lost): (u64, u64)) -> String {
    let counts = desk.counts();
    let (subjects, agents) = desk.held();
    let rows: [Row; 14] = [
        ("connected", "gauge", "Whether the verdicts that are known are of now.", u64::from(desk.is_fresh())),
        ("checks", "counter", "Checks.", counts.checks),
        ("stale_answers", "counter", "Answers given without fresh verdicts.", counts.stale),
        ("blocks_obeyed", "counter", "Calls refused under a block.", counts.refused),
        ("calls_in_spite", "counter", "Calls made in spite of a block.", counts.in_spite),
        ("nudges", "counter", "Nudges handed out.", counts.nudges),
        ("nudges_dropped", "counter", "Nudges that nobody confirmed.", counts.nudges_dropped),
        ("echoes", "counter", "Failures reported of calls that were refused.", counts.echoes),
        ("events_sent", "counter", "Events that were taken.", delivered),
        ("events_dropped", "counter", "Events that found no room, or were not taken in time.", desk.dropped() + lost),
        ("not_understood", "counter", "State rows and commands that were not understood.", counts.not_understood),
        ("subjects_evicted", "counter", "Subjects forgotten because there were too many.", counts.evicted),
        ("subjects", "gauge", "Subjects with verdicts.", subjects as u64),
        ("agents", "gauge", "Agents that were told something.", agents as u64),
    ];
    let mut text = String::new();
    for (name, kind, help, value) in rows {
        let suffix = if kind == "counter" { "_total" } else { "" };
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "# HELP loopwarden_guard_{name} {help}\n# TYPE loopwarden_guard_{name} {kind}\nloopwarden_guard_{name}{suffix} {value}\n"
        );
    }
    text.push_str("# EOF\n");
    text
}
