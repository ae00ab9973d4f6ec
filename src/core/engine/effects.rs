//! What comes out of the engine: values that `task` turns into bytes, in order.

use std::sync::Arc;

use crate::detect::{Brief, Finding, Flags, Measured, Step};
use crate::engine::command::{Command, IdentityRecipe};
use crate::engine::subject::SubjectKey;
use crate::engine::{cost::Spending, marks::Mark, timer::TimerChange, watched::WatchedAgent};
use crate::event::{Ack, EventTime};
use crate::identity::Hash128;
use crate::policy::{Detector, Per, Policy, Used};
use crate::whom::{Kind, Whom};

/// Effects of one input. Reused from input to input: [`Effects::clear`] keeps the allocations.
#[derive(Debug, Default)]
pub struct Effects {
    /// What the step shows that this event completed.
    pub measured: Option<Measured>,
    /// Commands, in the order of their publishing.
    pub commands: Vec<Command>,
    /// The subject's live verdicts changed: its state row is to be written, or its tombstone.
    pub verdicts_changed: bool,
    pub timers: Vec<TimerChange>,
    /// Calls for the swarm stage.
    pub counts: Vec<SwarmCall>,
    /// What the event used of budgets, for the swarm stage.
    pub uses: Vec<BudgetUse>,
    /// What it shows of trees of agents, for the swarm stage.
    pub trees: Vec<TreeUse>,
    /// The swarm whose counters are to be forgotten, with the reset's time.
    pub swarm_reset: Option<SwarmReset>,
    /// The event must reach the other agents of its session too, as [`crate::engine::Input::Reset`]; each of them once.
    pub reaches_others: bool,
    /// Findings, published or not: the audit.
    pub findings: Vec<Finding>,
    /// The session is forgotten: tombstones for its head and steps.
    pub forgotten: bool,
    /// What the event has cost.
    pub spending: Spending,
    /// The agent of a trial that was watched at this input.
    pub trial: Option<WatchedAgent>,
    /// What was noticed on the way, for counters.
    pub counters: EngineCounters,
    /// Rare paths taken; each belongs to a golden case.
    pub marks: Vec<Mark>,
}

impl Effects {
    /// Empties everything, keeps the memory.
    pub fn clear(&mut self) {
        self.measured = None;
        self.commands.clear();
        self.verdicts_changed = false;
        self.timers.clear();
        self.counts.clear();
        self.uses.clear();
        self.trees.clear();
        self.swarm_reset = None;
        self.reaches_others = false;
        self.findings.clear();
        self.forgotten = false;
        self.spending = Spending::default();
        self.trial = None;
        self.counters = EngineCounters::default();
        self.marks.clear();
    }
}

/// One call as the swarm stage counts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwarmCall {
    pub key: SwarmCallKey,
    /// Name of the tool, for the text.
    pub tool: String,
    /// How a worker recomputes the identity.
    pub form: RecipeForm,
    pub session_id: String,
    pub agent_id: String,
    /// Event time of the call.
    pub time: EventTime,
    /// Record timestamp of the call.
    pub record_time: EventTime,
}

/// What one event used of a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetUse {
    pub key: SwarmCallKey,
    /// Start of the window that it falls into.
    pub window: EventTime,
    pub used: Used,
    /// Record timestamp of the event.
    pub record_time: EventTime,
}

/// What one event shows of a tree of agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeUse {
    /// Name of the tenant; an empty one is none.
    pub tenant: String,
    /// Name of the tree within the tenant.
    pub tree: String,
    /// The agent whose event it is.
    pub session_id: String,
    pub agent_id: String,
    /// Event time of the event.
    pub time: EventTime,
    /// Record timestamp of the event.
    pub record_time: EventTime,
    pub what: TreeFact,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeFact {
    /// What the agent used with the event.
    Used(Used),
    /// An agent shows itself for the first time, so many levels below the root.
    Began { depth: u32 },
    /// It starts another agent, with this brief.
    Spawned(Brief),
    /// An agent that it started has failed, or brought what was known.
    InVain,
}

/// Which recipe a worker recomputes an identity with; its lists are added once per report, not per call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecipeForm {
    /// It is made of tool and canonical arguments.
    Call,
    /// Tool, target and what is kept beside it.
    Coarse,
    /// It is made of canonical arguments alone, chosen as the policy of the tool says.
    Args,
    /// No worker can recompute it.
    Opaque,
}

impl RecipeForm {
    /// Of a step's fingerprint. It folds simple reads of a shell, which no worker can make out of the arguments; of a call without a
    /// target it is the call identity.
    #[must_use]
    pub const fn of_fingerprint(step: &Step) -> Self {
        if step.fingerprint.0 == step.call.0 {
            Self::Call
        } else if step.flags.contains(Flags::SHELL_READ) {
            Self::Opaque
        } else {
            Self::Coarse
        }
    }

    /// The whole recipe for calls of a tool under a policy.
    #[must_use]
    pub fn recipe(self, policy: &Policy, tool: &str) -> IdentityRecipe {
        match self {
            Self::Call => IdentityRecipe::Call(policy.tools.get(tool).call.clone()),
            Self::Coarse => IdentityRecipe::Coarse(Arc::clone(&policy.identity.fingerprint.args)),
            // Tools of different rules may share a hash; the rules are those of the tool that was counted first.
            Self::Args => IdentityRecipe::Args(policy.tools.get(tool).call.clone()),
            Self::Opaque => IdentityRecipe::Opaque,
        }
    }
}

/// What the swarm stage counts by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SwarmCallKey {
    /// `swarm_repeat`: a fingerprint in a swarm.
    Swarm {
        /// Name of the tenant; an empty one is none.
        tenant: String,
        swarm_id: String,
        fingerprint: Hash128,
    },
    /// `fleet_rate`: a call or definition in the whole fleet.
    Fleet {
        /// Name of the tenant; an empty one is none.
        tenant: String,
        /// Hash of what the rate counts.
        fingerprint: Hash128,
    },
    /// `[[budget]]`: what a group uses together.
    Budget { budget: String, per: Per, whom: Whom },
    /// `tree`: a root and all that it started.
    Tree {
        /// Name of the tenant; an empty one is none.
        tenant: String,
        tree: String,
    },
}

impl SwarmCallKey {
    /// Whose state a counter is.
    #[must_use]
    pub fn subject(&self) -> SubjectKey {
        match self.clone() {
            Self::Swarm { tenant, swarm_id, fingerprint } => SubjectKey::Swarm { tenant, swarm_id, fingerprint },
            Self::Fleet { tenant, fingerprint } => SubjectKey::Fleet { tenant, fingerprint },
            Self::Budget { budget, per, whom } => SubjectKey::Group { whom, by: format!("budget/{budget}/{}", per.as_str()) },
            Self::Tree { tenant, tree } => {
                SubjectKey::Group { whom: Whom::new(&tenant, Kind::Tree, &tree), by: "tree".to_owned() }
            }
        }
    }
}

/// Counters of a swarm to be forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwarmReset {
    /// Name of the tenant; an empty one is none.
    pub tenant: String,
    pub swarm_id: String,
    /// Calls up to this time no longer count.
    pub time: EventTime,
}

/// What was noticed while applying one input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineCounters {
    /// The event was delivered before.
    pub duplicate: bool,
    /// Event time moved up to the session's last time.
    pub late: bool,
    /// Event time moved down to the record timestamp's bound.
    pub clamped: bool,
    /// A gap in the producer's counter.
    pub seq_gap: bool,
    /// The producer's counter went back.
    pub seq_disorder: bool,
    /// A result without a call.
    pub orphan_result: bool,
    pub session_began: bool,
    /// A refused call: by a command of ours, or by another policy.
    pub denied: Option<DeniedBy>,
    /// What a worker did with a command.
    pub ack: Option<Ack>,
    /// First step after a nudge, and who had nudged.
    pub nudge_response: Option<(Detector, NudgeResponse)>,
    /// 1 where the first live block was placed, -1 where the last one is gone.
    pub blocked_delta: i32,
    /// Calls of panes that no longer live.
    pub swarm_late: u32,
    /// Calls of panes that were dropped because a counter had too many, for the sake of a source that lags.
    pub swarm_lag: u32,
    /// Calls of agents beyond `workers_max`: they count, their number does not.
    pub swarm_further: u32,
    /// Steps that one report crossed beyond [`crate::limits::SWARM_STEPS_MAX`]: not published.
    pub swarm_steps: u32,
    /// A call that starts an agent was made.
    pub spawned: bool,
    /// An agent named its tree for the first time.
    pub joined: bool,
    /// A block that was not placed because as many as may be are in force.
    pub block_left_out: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeniedBy {
    /// A block of this program.
    Us,
    /// A permission rule, a person.
    Other,
}

/// What an agent did after a nudge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NudgeResponse {
    /// It did something else than before.
    Changed,
    /// It made the same call again.
    Repeated,
    Ended,
}
