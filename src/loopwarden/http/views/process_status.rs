//! What the listener asks of the process it belongs to. None of it waits for a broker.

use std::sync::Arc;

use loopwarden_lane::{Numbered, TaskView};
use serde_json::Value;

use crate::operate::{api::Overview, lanes::Lanes};
use crate::{http::backlog::Backlog, http::listener::metrics::Answered, telemetry::guard::GuardReport};

/// The process, as the listener sees it: what is not asked of its [`Lanes`]. Methods may block for a second or two: they are called on threads of their own.
pub trait ProcessStatus: Lanes + Send + Sync + 'static {
    /// Whether each lane turns. Never depends on brokers.
    fn live(&self) -> Probe;
    /// Whether it takes its share: joined, store open, nothing poisoned, not draining. Says how far behind it is, which alone makes it not
    /// ready only where the settings say so.
    fn ready(&self) -> Probe;
    /// Whether every assigned task was restored once.
    fn started(&self) -> Probe;
    /// Every metric, as OpenMetrics text; `http` is what the listener has answered, `readers` how many follow, `guard` its guard.
    fn metrics(&self, http: Vec<Answered>, readers: u64, guard: Option<GuardReport>) -> String;
    /// Version, revision, policy.
    fn version(&self) -> Value;
    /// Settings in force, redacted, with the origin of each.
    fn config(&self) -> Value;
    /// The policy in force, with the origin of each value.
    fn policy(&self) -> Value;
    /// What the live page shows in numbers.
    fn overview(&self) -> Overview;
    /// The log filter in force.
    fn log_filter(&self) -> String;
    /// Puts another log filter in force, until the process ends.
    ///
    /// # Errors
    /// Why the filter cannot be understood.
    fn set_log_filter(&self, filter: &str) -> Result<(), String>;
    /// Every task of this process, with the lane that runs it and the records it is behind, where known.
    fn tasks(&self) -> Vec<(TaskView, usize, Option<u64>)>;
    /// Commands after a number that are still kept, and the number of the last one; without Kafka there are none, since there is a feed.
    fn recent(&self, after: u64) -> (Vec<Numbered>, u64);
    /// What waits to be judged, where the log is its own.
    fn backlog(&self) -> Option<Arc<Backlog>> {
        None
    }
    /// Where a session of this name lives, for people: its partition.
    fn place_of(&self, session_id: &str) -> String;
}

/// An answer of yes or no with its reasons.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Probe {
    /// Each thing that was looked at, and what is wrong with it.
    pub checks: Vec<(String, Result<(), String>)>,
}

impl Probe {
    /// Notes one thing.
    pub fn check(&mut self, what: impl Into<String>, found: Result<(), String>) {
        self.checks.push((what.into(), found));
    }

    /// Whether nothing is wrong.
    pub fn is_ok(&self) -> bool {
        self.checks.iter().all(|(_, found)| found.is_ok())
    }
}
