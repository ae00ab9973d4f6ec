//! Answers of a running process, as JSON. The listener writes these, command lines read them, and the page has the same fields.
//!
//! Times are RFC 3339. A field that may be unknown is null. A reader takes what an older process leaves out as unknown, or as nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Structs that are written and read alike. What an older process leaves out is nothing.
macro_rules! answers {
    ($($(#[$doc:meta])* pub struct $name:ident { $($(#[$about:meta])* pub $field:ident: $type:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
            #[serde(default)]
            pub struct $name {
                $($(#[$about])* pub $field: $type,)*
            }
        )*
    };
}

answers! {
    /// `GET /v1/commands` with a wait: commands behind a place.
    pub struct Commands {
        pub commands: Vec<Value>,
        /// Place to go on from.
        pub next: String,
        /// By how much the judging is behind.
        pub lag_ms: u64,
        /// Commands that are not kept any more.
        pub missed: u64,
    }

    /// `GET /sessions`: the first of the agents' sessions that are asked for.
    pub struct Sessions {
        pub sessions: Vec<SessionRow>,
        /// All that are asked for among those that were looked at.
        pub found: u64,
        pub looked_at: u64,
        /// How many of those are in each state that any of them is in.
        pub states: BTreeMap<String, u64>,
        /// Whether there may be others than these rows.
        pub more: bool,
    }

    /// An agent of a session as of the last commit.
    pub struct SessionRow {
        pub session_id: String,
        #[serde(flatten)]
        pub names: AgentNames,
        #[serde(flatten)]
        pub spent: Spent,
        #[serde(flatten)]
        pub standing: Standing,
        /// Time of its last event.
        pub seen: String,
        /// The narrowest stop that binds it.
        pub stop: Option<StopName>,
    }

    /// What an agent does just now.
    pub struct Standing {
        /// Word of an [`AgentState`](loopwarden_core::engine::AgentState).
        pub state: String,
        /// Detector that found its loop.
        pub code: Option<String>,
        /// When its loop was first spoken about.
        pub loops_since: Option<String>,
    }

    /// A stop by what its release is to name.
    pub struct StopName {
        pub scope: String,
        /// The field of the scope, and `tenant` where there is one.
        #[serde(flatten)]
        pub names: BTreeMap<String, String>,
    }

    /// `GET /v1/stops`: stops in force, the newest first.
    pub struct StopList {
        pub stops: Vec<Stop>,
        pub more: bool,
    }

    /// A stop in force, by whom and why.
    pub struct Stop {
        #[serde(flatten)]
        pub whom: StopName,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub actor: Option<String>,
        pub reason: String,
        /// `closed`: whoever can ask no guard any more refuses on.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub fail: Option<String>,
        pub since: String,
        pub until: String,
        pub command_id: String,
    }

    /// `POST /v1/stops` that only asks.
    pub struct DryRun {
        pub would_stop: WouldStop,
    }

    /// Agents that a stop would bind.
    pub struct WouldStop {
        pub agents: u64,
        pub more: bool,
    }

    /// `POST /v1/stops`: what became of it.
    pub struct Stopped {
        pub id: String,
        pub until: String,
        /// A guard of this process knows; else it is in force once it is judged.
        pub in_force: bool,
    }

    /// `DELETE /v1/stops`: what became of it.
    pub struct Released {
        pub id: String,
        /// A guard of this process refuses no more.
        pub released: bool,
    }

    /// `POST /v1/answers`: what became of it.
    pub struct TakenAnswer {
        pub id: String,
        pub answer: String,
        pub session_id: String,
        pub episode: String,
        /// When it ends; none: it has no end.
        pub until: Option<String>,
        /// It is judged, and holds.
        pub judged: bool,
    }

    /// `GET /sessions/{id}`: the agents of a session, and what binds them.
    pub struct Session {
        pub session_id: String,
        pub agents: Vec<Agent>,
        /// Stops that bind any of them.
        pub stops: Vec<Stop>,
        pub budgets: Vec<Budget>,
    }

    /// An agent of a session as of the last commit: hashes, flags and numbers, and what it was sent; nothing of what it wrote or read.
    pub struct Agent {
        #[serde(flatten)]
        pub names: AgentNames,
        #[serde(flatten)]
        pub standing: Standing,
        pub tree: Option<Tree>,
        /// Stage and partition.
        pub task: String,
        pub epoch: i64,
        pub seq: u64,
        pub shadow_seq: u64,
        /// Time of its last event.
        pub time: String,
        pub loops_total: u64,
        pub verdicts: Vec<Verdict>,
        pub episodes: Vec<Episode>,
        pub shadow_episodes: Vec<Episode>,
        /// Lengths of what runs, by detector.
        pub streaks: BTreeMap<String, u32>,
        pub spent: Spent,
        pub steps_kept: usize,
        /// The newest ones, oldest first.
        pub steps: Vec<Step>,
    }

    /// An agent of a session.
    pub struct AgentNames {
        pub agent_id: String,
        pub tenant: Option<String>,
        pub swarm_id: Option<String>,
    }

    /// The place of an agent among those that start each other.
    pub struct Tree {
        pub root_id: String,
        pub parent_id: Option<String>,
        pub depth: u32,
        pub spawns: u32,
    }

    /// What all events of an agent have used. What none has reported is not known.
    pub struct Spent {
        pub calls: u64,
        pub tokens: Option<u64>,
        /// Millionths of a US dollar.
        pub cost_micro_usd: Option<u64>,
    }

    /// A nudge or a block in force.
    pub struct Verdict {
        pub action: String,
        pub code: String,
        pub command_id: String,
        pub expires_at: String,
        pub fingerprint: Option<String>,
        pub issued_at: String,
        pub level: u8,
        pub message: String,
        pub tool: Option<String>,
    }

    /// A loop that was spoken about.
    pub struct Episode {
        pub block_until: Option<String>,
        pub code: String,
        pub count: u32,
        /// Steps of it since its last command.
        pub hits: u32,
        pub id: String,
        /// Number of its last step.
        pub last_seen: u64,
        pub level: u8,
        pub nudges: u32,
    }

    /// A call.
    pub struct Step {
        pub sequence: u64,
        pub event_id: String,
        pub time: String,
        pub turn: Option<u64>,
        pub tool: String,
        pub call: String,
        pub fingerprint: Option<String>,
        pub outcome: Option<String>,
        pub error: Option<String>,
        pub flags: Vec<String>,
        /// Detectors that found something at it.
        pub fired: Vec<String>,
    }

    /// A budget that agents count in: what is used of each limit in the window of now.
    pub struct Budget {
        pub budget: String,
        pub per: String,
        pub group: Group,
        pub mode: String,
        /// It refuses calls now.
        pub blocks: bool,
        pub parts: Vec<BudgetPart>,
    }

    /// Those whose use a budget adds up.
    pub struct Group {
        pub kind: String,
        pub name: String,
    }

    /// A limit of a budget.
    pub struct BudgetPart {
        pub quantity: String,
        pub used: u64,
        pub limit: u64,
        /// Of the limit, to three decimals.
        pub share: f64,
    }

    /// `GET /swarms/{id}`: what is counted for a swarm, and its state rows in force.
    pub struct Swarm {
        pub swarm_id: String,
        pub counters: Vec<Counter>,
        pub active: Vec<Value>,
        pub more: bool,
    }

    /// A call that the agents of a swarm make.
    pub struct Counter {
        pub fingerprint: String,
        pub tool: String,
        pub task: String,
        /// In its newest window.
        pub calls: u32,
        pub agents: u32,
        pub time: String,
        pub verdicts: Vec<Verdict>,
    }

    /// `GET /tasks`: every task of a process.
    pub struct Tasks {
        pub tasks: Vec<Task>,
    }

    /// `GET /tasks/{stage}/{partition}`: a task as of its last commit.
    pub struct Task {
        pub stage: String,
        pub partition: u32,
        /// `restoring`, `running` or `poisoned`.
        pub state: String,
        pub lane: usize,
        pub lag_records: Option<u64>,
        /// Why it has stopped itself.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub why: Option<String>,
        /// Where it stands; absent while it is restored.
        #[serde(flatten)]
        pub place: Option<Place>,
    }

    /// Where a task stands.
    pub struct Place {
        pub next_offset: u64,
        pub watermark: Option<String>,
        pub outputs: u64,
        pub owner: String,
    }

    /// `GET /overview`: what the live page shows of a process, in numbers, and what is in force.
    pub struct Overview {
        pub version: String,
        /// `shadow` or `live`.
        pub mode: String,
        /// Topics and brokers, or the log, for people.
        pub place: String,
        pub policy: String,
        pub uptime_ms: u64,
        pub is_embedded: bool,
        pub events: u64,
        pub rejected: u64,
        pub rejected_by_reason: BTreeMap<String, u64>,
        /// Nothing has come, and no record of an input waits.
        pub is_idle: bool,
        pub duplicates: u64,
        pub late: u64,
        pub sessions: u64,
        pub commands: CommandCounts,
        pub detections: BTreeMap<String, u64>,
        pub acks: Acks,
        /// Those that loop, the longest first; none where the lanes do not answer.
        pub agents: Option<Sessions>,
        pub bill: Value,
        /// None of a process that is too old to say.
        pub input: Option<Input>,
        pub tasks: TaskCounts,
        /// Records that wait to be read, where that is known.
        pub lag_records: Option<u64>,
        /// What whoever asks may do.
        pub may_act: bool,
        pub may_read: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub guard: Option<Guarded>,
        /// State rows in force; none where the lanes do not answer.
        pub active: Option<Vec<Value>>,
        pub active_more: bool,
        /// Commands so far, of a process with a log of its own.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub commands_end: Option<u64>,
        /// The last commands, of a process on Kafka.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub recent: Option<Vec<Value>>,
        /// Number of the last one since its start.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub recent_last: Option<u64>,
    }

    /// Commands by what they do.
    pub struct CommandCounts {
        pub nudge: u64,
        pub block: u64,
        pub unblock: u64,
    }

    /// What workers say that became of commands.
    pub struct Acks {
        pub received: u64,
        pub applied: u64,
        pub ignored: u64,
        pub failed: u64,
    }

    /// Tasks by their state.
    pub struct TaskCounts {
        pub all: usize,
        pub running: usize,
        pub poisoned: usize,
    }

    /// What the guard of a process has answered.
    pub struct Guarded {
        pub agents: u64,
        pub checks: u64,
        pub blocks_obeyed: u64,
        pub calls_in_spite: u64,
        pub nudges_delivered: u64,
        pub nudges_unheeded: u64,
    }

    /// Who sends, and how much of it can be compared.
    pub struct Input {
        pub senders: Vec<Sender>,
        /// Records of senders beyond those that are told apart.
        pub others_records: u64,
        pub two_sources: TwoSources,
        /// What is to be done.
        pub findings: Vec<InputFinding>,
    }

    /// A sender.
    pub struct Sender {
        /// For people.
        pub who: String,
        /// Of an intake.
        pub topic: Option<String>,
        pub form: String,
        pub name: String,
        pub conventions: Vec<String>,
        pub records: u64,
        pub calls: u64,
        pub calls_with_arguments: u64,
        pub results: u64,
        pub results_with_content: u64,
        pub refused: u64,
        pub ignored: u64,
        pub left_to_logs: u64,
        /// What of its calls can be compared; none without calls.
        pub compared: Option<String>,
        pub switch_on: Vec<String>,
    }

    /// Sessions that two sources report.
    pub struct TwoSources {
        pub sessions: u64,
        pub examples: Vec<TwoSourcesOf>,
    }

    /// One of them.
    pub struct TwoSourcesOf {
        pub session_id: String,
        pub sources: Vec<String>,
    }

    /// What is to be done about the input.
    pub struct InputFinding {
        pub code: String,
        pub message: String,
        pub help: Vec<String>,
    }
}

impl Commands {
    /// The place to go on from; 0 where none is said.
    pub fn place(&self) -> u64 {
        self.next.parse().unwrap_or_default()
    }
}

impl Standing {
    /// Its state, for people.
    pub fn words(&self) -> &str {
        match &*self.state {
            "would_nudge" => "would be nudged",
            "would_block" => "would be blocked",
            "asks_human" => "asks for a person",
            state => state,
        }
    }
}

impl StopName {
    /// In words: its scope, and the name of whom it binds.
    pub fn words(&self) -> String {
        let own = self.names.iter().find(|(field, _)| *field != "tenant");
        let name = own.map(|(_, name)| name).or_else(|| self.names.get("tenant"));
        name.map_or_else(|| self.scope.clone(), |name| format!("{} {name}", self.scope))
    }
}
