//! What is left of a replay: the sums, the worst cases, the judgement. A plain value; renderers make pages and tables of it.

use loopwarden_core::event::EventTime;
use serde_json::Value;

use crate::report::{Column, Counts, Ended, Judgement, Loop, Spent, SpentInLoops, Swarms, Table, Timeline, Tools};

/// Tools in reports for programs.
const TOOLS_TOLD: usize = 200;
/// Swarms in reports for programs.
const SWARMS_TOLD: usize = 200;

/// A line that is no event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// Where it stands.
    pub file: String,
    /// Its line, from 1.
    pub line: u64,
    /// Why.
    pub reason: String,
}

/// The report.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// What was read, by name.
    pub sources: Vec<String>,
    /// Profile of the policy.
    pub profile: String,
    /// Hash of the policy.
    pub policy_sha256: String,
    /// Events.
    pub events: u64,
    /// Sessions.
    pub sessions: u64,
    /// The number of sessions is an estimate.
    pub is_estimate: bool,
    /// Lines that are no events.
    pub rejected: u64,
    /// Some of them.
    pub rejections: Vec<Rejection>,
    /// Files of directories that are no logs.
    pub skipped: u64,
    /// It was stopped before the end of the input.
    pub is_partial: bool,
    /// Commands by detector.
    pub counts: Counts,
    /// What calls in loops cost.
    pub spent: SpentInLoops,
    /// Calls by tool.
    pub tools: Tools,
    /// Events and commands over time.
    pub timeline: Timeline,
    /// The sessions that loop most, the worst first.
    pub loops: Vec<Loop>,
    /// The swarms that were spoken about.
    pub swarms: Swarms,
    /// Events that were there before, under the same id; left out.
    pub duplicates: u64,
    /// What the events do not tell, so that detectors saw nothing.
    pub blind_spots: Vec<String>,
    /// How it compares with what people know.
    pub judgement: Option<Judgement>,
}

impl Report {
    /// The policy in a word and twelve digits.
    #[must_use]
    pub fn policy(&self) -> String {
        let hash: String = self.policy_sha256.chars().take(12).collect();
        format!("{} ({hash})", self.profile)
    }

    /// One line: how much was read, under which policy.
    #[must_use]
    pub fn headline(&self) -> String {
        let partial = if self.is_partial { ", stopped before the end" } else { "" };
        let about = if self.is_estimate { "about " } else { "" };
        format!(
            "{} of {about}{}, {} rejected{partial}; policy {}",
            counted(self.events, "event"),
            counted(self.sessions, "session"),
            grouped(self.rejected),
            self.policy()
        )
    }

    /// The sessions that loop most, at most so many, as a table.
    #[must_use]
    pub fn loop_table(&self, rows_max: usize) -> Table {
        // Where no event names a tenant, a column of them says nothing.
        let has_tenants = self.loops.iter().any(|found| !found.tenant.is_empty());
        let mut columns = if has_tenants { vec![Column::text("tenant")] } else { Vec::new() };
        columns.extend([
            Column::text("session"),
            Column::text("agent"),
            Column::number("calls"),
            Column::number("in_loop"),
            Column::number("nudges"),
            Column::number("blocks"),
            Column::text("seen_by"),
        ]);
        let mut table = Table::new(&columns);
        for found in self.loops.iter().take(rows_max) {
            let mut cells: Vec<Value> = if has_tenants { vec![found.tenant.as_str().into()] } else { Vec::new() };
            cells.extend([
                found.session.as_str().into(),
                found.agent.as_str().into(),
                found.sums.calls().into(),
                found.sums.calls_in_loop().into(),
                found.sums.nudges.into(),
                found.sums.blocks.into(),
                found.sums.detectors().join(" ").into(),
            ]);
            table.row(cells);
        }
        table
    }

    /// For programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut rejections = Table::new(&[Column::text("file"), Column::number("line"), Column::text("reason")]);
        for rejection in &self.rejections {
            rejections.row(vec![rejection.file.clone().into(), rejection.line.into(), rejection.reason.clone().into()]);
        }
        let slices = self.timeline.slices().map(|(at, slice)| {
            serde_json::json!({
                "from": self.timeline.begin(at).to_rfc3339(),
                "events": slice.events,
                "nudges": slice.nudges,
                "blocks": slice.blocks,
                "shadow": slice.shadow,
            })
        });
        serde_json::json!({
            "events": self.events,
            "sessions": self.sessions,
            "sessions_are_estimated": self.is_estimate,
            "rejected": self.rejected,
            "duplicates": self.duplicates,
            "is_partial": self.is_partial,
            "policy": { "profile": self.profile, "sha256": self.policy_sha256 },
            "detectors": self.counts.table(&self.spent).to_objects(),
            "total": {
                "sessions": self.counts.sessions(),
                "told": self.counts.told(),
                "nudges": self.counts.nudges(),
                "blocks": self.counts.blocks(),
                "shadow": self.counts.shadow(),
            },
            "swarms": self.swarms.table(SWARMS_TOLD).to_objects(),
            "unblocks": self.counts.unblocks(),
            "in_loops": spent(self.spent.total()),
            "tools": self.tools.table(TOOLS_TOLD).to_objects(),
            "timeline": { "slice_ms": self.timeline.width_ms(), "slices": slices.collect::<Vec<_>>() },
            "loops": self.loops.iter().map(one_loop).collect::<Vec<_>>(),
            "blind_spots": self.blind_spots,
            "rejections": rejections.to_objects(),
            "judgement": self.judgement.as_ref().map(Judgement::to_json),
        })
    }
}

/// Nothing for events that say no time and whose records have none.
fn time(time: EventTime) -> Value {
    if time.0 == 0 { Value::Null } else { time.to_rfc3339().into() }
}

fn spent(spent: Spent) -> Value {
    serde_json::json!({ "calls": spent.calls, "tokens": spent.known_tokens(), "cost_usd": spent.known_cost_usd() })
}

fn one_loop(found: &Loop) -> Value {
    let repeated: Vec<Value> = found
        .strip
        .repeated()
        .iter()
        .map(|repeated| {
            serde_json::json!({
                "call": format!("{:016x}", repeated.call),
                "tool": repeated.tool,
                "times": repeated.times,
                "failed": repeated.failed,
            })
        })
        .collect();
    let cell = |cell: &crate::report::Cell| {
        serde_json::json!({
            "sequence": cell.sequence,
            "call": format!("{:016x}", cell.call),
            "tool": if cell.is_text { Value::Null } else { found.strip.tool_name(cell).into() },
            "ended": match cell.ended {
                Ended::Unknown => Value::Null,
                Ended::Ok => "ok".into(),
                Ended::Failed => "failed".into(),
                Ended::Refused => "refused".into(),
            },
            "in_loop": cell.in_loop,
            "said": cell.deed.map(crate::report::Deed::as_str),
            "shadow": cell.deed.is_some() && cell.is_shadow,
        })
    };
    let (head, left_out, tail) = found.strip.parts();
    serde_json::json!({
        "tenant": found.tenant,
        "session": found.session,
        "agent": found.agent,
        "detectors": found.sums.detectors(),
        "first": time(found.sums.first),
        "last": time(found.sums.last),
        "calls": found.sums.calls(),
        "in_loop": spent(Spent { calls: found.sums.calls_in_loop(), ..found.sums.in_loop }),
        "texts_in_loop": found.sums.texts_in_loop,
        "nudges": found.sums.nudges,
        "blocks": found.sums.blocks,
        "shadow": found.sums.shadow,
        "repeated": repeated,
        "strip": head.iter().map(cell).collect::<Vec<_>>(),
        "strip_left_out": left_out,
        "strip_end": tail.iter().map(cell).collect::<Vec<_>>(),
    })
}

/// So many of something: `1 session`, `1,200 sessions`.
#[must_use]
pub fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(number))
}

/// A number with a comma between thousands.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn a_partial_report_says_so() {
        let report = Report { is_partial: true, is_estimate: true, profile: "default".to_owned(), ..Report::default() };
        assert_eq!(report.headline(), "0 events of about 0 sessions, 0 rejected, stopped before the end; policy default ()");
        assert_eq!(report.to_json()["is_partial"], true);
    }
}
