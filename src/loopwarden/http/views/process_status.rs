//! What the listener asks of the process it belongs to. Answers are committed state; none waits for a broker.

use std::sync::Arc;

use loopwarden_core::{event::EventTime, whom::Whom};
use loopwarden_lane::{AgentView, BudgetView, CounterView, Listed, Listing, Matching, Numbered, Standing, TaskView};
use serde_json::Value;

use crate::operate::api::Overview;
use crate::{http::backlog::Backlog, http::listener::metrics::Answered, telemetry::guard::GuardReport};

/// The process, as the listener sees it. Methods may block for a second or two: they are called on threads of their own.
pub trait ProcessStatus: Send + Sync + 'static {
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
    /// The agents of a session, as far as tasks of this process hold them.
    ///
    /// # Errors
    /// No lane answered in time, or the store failed.
    fn session(&self, tenant: Option<&str>, session_id: &str) -> Result<Vec<AgentView>, Unanswered>;
    /// The calls that are counted for a swarm, as far as tasks of this process hold them.
    ///
    /// # Errors
    /// No lane answered in time, or the store failed.
    fn swarm(&self, tenant: &str, swarm_id: &str) -> Result<Vec<CounterView>, Unanswered>;
    /// What is in force for whom tasks of this process hold.
    ///
    /// # Errors
    /// No lane answered in time, or the store failed.
    fn in_force(&self) -> Result<Standing, Unanswered>;
    /// Whom operators stop, as far as tasks of this process hold them.
    ///
    /// # Errors
    /// No lane answered in time, or the store failed.
    fn stops(&self) -> Result<Standing, Unanswered>;
    /// Budgets that agents count in, as far as tasks of this process add them up.
    ///
    /// # Errors
    /// No lane answered in time, or the store failed.
    fn budgets(&self, agents: &Arc<Vec<AgentView>>, now: EventTime) -> Result<Vec<BudgetView>, Unanswered>;
    /// The first of the sessions that tasks of this process hold. The stops of the question are filled in; of more sessions than one request may
    /// look at, the answer says where it ended.
    ///
    /// # Errors
    /// No lane answered in time, or the store failed.
    fn sessions(&self, listing: Listing) -> Result<Listed, Unanswered>;
    /// How many agents that tasks of this process hold a stop would bind.
    ///
    /// # Errors
    /// No lane answered in time, or the store failed.
    fn matching(&self, whom: &Whom) -> Result<Matching, Unanswered>;
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

/// A question without an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unanswered(pub String);
