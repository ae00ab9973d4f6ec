//! The report of a replay: sums, the worst cases, the judgement. A plain value, which serde, tables and pages show.

use serde::Serialize;

use crate::report::detectors::{DetectorRow, Total};
use crate::report::trial::{NotSaved, Saved, TrialRow};
use crate::report::{Section, Table, counted, grouped};
use crate::{
    report::judge::Judgement, report::loops::Loop, report::spent::Spent, report::swarms::Swarms, report::timeline::Timeline,
    report::tools::Tools,
};

/// Swarms, and sessions that loop most, in the tables of a text.
const SWARMS_SHOWN: usize = 10;
const LOOPS_SHOWN: usize = 10;

/// A line that is not an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rejection {
    pub file: String,
    /// From 1.
    pub line: u64,
    pub reason: String,
}

/// The policy of a replay.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PolicyName {
    pub profile: String,
    pub sha256: String,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    #[serde(skip)]
    pub sources: Vec<String>,
    pub policy: PolicyName,
    pub events: u64,
    pub sessions: u64,
    #[serde(rename = "sessions_are_estimated")]
    pub is_estimate: bool,
    /// Number of lines that are not events, and some of them.
    pub rejected: u64,
    pub rejections: Vec<Rejection>,
    /// Files of directories that are not logs.
    #[serde(skip)]
    pub skipped: u64,
    /// It was stopped before the end of the input.
    pub is_partial: bool,
    pub detectors: Vec<DetectorRow>,
    #[serde(skip)]
    pub total_row: DetectorRow,
    pub total: Total,
    /// Blocks that ended before they expired.
    pub unblocks: u64,
    /// Cost of all calls in loops.
    pub in_loops: Spent,
    /// Cost of all events, in loops and outside.
    pub spent: Spent,
    /// What commands have saved, by the control arm of a trial.
    pub saved: Option<Saved>,
    /// Why that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_saved: Option<NotSaved>,
    pub tools: Tools,
    pub timeline: Timeline,
    /// The sessions that loop most, the worst first.
    pub loops: Vec<Loop>,
    pub swarms: Swarms,
    /// What the trial of the policy has shown; empty without one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trial: Vec<TrialRow>,
    /// Events with an id that occurred before; left out.
    pub duplicates: u64,
    /// Fields that events do not have, so that detectors find nothing.
    pub blind_spots: Vec<String>,
    pub judgement: Option<Judgement>,
}

/// A session that loops, as a row.
#[derive(Debug, Clone, Default, Serialize)]
pub struct LoopRow {
    /// Only where a session has a tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    session: String,
    agent: String,
    calls: u64,
    in_loop: u64,
    nudges: u64,
    blocks: u64,
    seen_by: String,
}

impl Report {
    /// Profile of the policy, and twelve digits of its hash.
    pub fn policy(&self) -> String {
        let hash: String = self.policy.sha256.chars().take(12).collect();
        format!("{} ({hash})", self.policy.profile)
    }

    /// One line: what was read, under which policy.
    pub fn headline(&self) -> String {
        let partial = if self.is_partial { ", stopped before the end" } else { "" };
        let about = if self.is_estimate { "about " } else { "" };
        let (events, sessions) = (counted(self.events, "event"), counted(self.sessions, "session"));
        format!("{events} of {about}{sessions}, {} rejected{partial}; policy {}", grouped(self.rejected), self.policy())
    }

    /// What was spent in loops of all that was spent, and what was saved; none of it where no event has a cost.
    pub fn bill(&self) -> Vec<String> {
        let (spent, all) = (self.in_loops, self.spent);
        if !all.is_known() || spent.calls == 0 {
            return Vec::new();
        }
        let cost = |spent: Spent| {
            // Not every log knows what a token costs.
            let usd = if all.cost_micro_usd > 0 { format!(", {:.2} US dollars", spent.cost_usd()) } else { String::new() };
            format!("{}{usd}", counted(spent.tokens, "token"))
        };
        let saved = match (&self.saved, self.not_saved) {
            (Some(saved), _) => saved.to_text(),
            (None, why) => why.unwrap_or(NotSaved::NoTrial).as_str().to_owned(),
        };
        let calls = counted(spent.calls, "call");
        vec![format!("{calls} and texts in loops, {} of {}", cost(spent), cost(all)), format!("saved: {saved}")]
    }

    pub fn sections(&self) -> Vec<Section> {
        let mut notes = Vec::new();
        if self.total.commands.shadow > 0 {
            let seen = format!("{} {}", grouped(self.total.told), if self.total.told == 1 { "was" } else { "were" });
            notes.push(format!("of these {seen} nudged or blocked; the others were spoken about in shadow only"));
        }
        notes.extend((self.unblocks > 0).then(|| format!("{} lifted before they expired", counted(self.unblocks, "block"))));
        notes.extend(self.bill());
        let detectors = Table::of(self.detectors.iter().chain([&self.total_row]).cloned());
        let mut sections = vec![Section::text(self.headline()), Section { notes, ..Section::rows("", detectors) }];
        if !self.swarms.is_empty() {
            sections.push(Section::rows("", Table::of(self.swarms.rows(SWARMS_SHOWN))));
        }
        if !self.loops.is_empty() {
            let how = "each of them event by event: loopwarden inspect session ID, with --file or --topic".to_owned();
            sections.push(Section { notes: vec![how], ..Section::rows("", Table::of(self.loop_rows(LOOPS_SHOWN))) });
        }
        if !self.trial.is_empty() {
            let lead = "trial, from the first command on: means, and intervals of their differences that hold at every look";
            sections.push(Section::rows(lead, Table::of(self.trial.iter().map(TrialRow::line))));
        }
        sections.extend(self.judgement.iter().flat_map(Judgement::sections));
        sections
    }

    /// The sessions that loop most.
    fn loop_rows(&self, rows_max: usize) -> impl Iterator<Item = LoopRow> {
        let has_tenants = self.loops.iter().any(|found| !found.tenant.is_empty());
        self.loops.iter().take(rows_max).map(move |found| LoopRow {
            tenant: has_tenants.then(|| found.tenant.clone()),
            session: found.session.clone(),
            agent: found.agent.clone(),
            calls: found.sums.calls(),
            in_loop: found.sums.calls_in_loop(),
            nudges: found.sums.commands.nudges,
            blocks: found.sums.commands.blocks,
            seen_by: found.sums.detectors().join(" "),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_report_says_so() {
        let policy = PolicyName { profile: "default".to_owned(), sha256: String::new() };
        let report = Report { is_partial: true, is_estimate: true, policy, ..Report::default() };
        assert_eq!(report.headline(), "0 events of about 0 sessions, 0 rejected, stopped before the end; policy default ()");
        assert_eq!(serde_json::to_value(&report).unwrap()["is_partial"], true);
    }
}
