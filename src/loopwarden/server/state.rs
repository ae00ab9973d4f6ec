//! What the listener may know of the running process: lanes asked with a bound, settings, policy, health.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use loopwarden_core::event::{EventTime, Reason, partition_of};
use loopwarden_core::policy::{Detector, Policy};
use loopwarden_lane::{
    Ask, Clock as _, LaneHandle, Listing, Numbered, Recent, SessionOrder, SessionState, SystemClock, TaskState, TaskView,
};
use loopwarden_log::clock::{Deadline, Stopwatch};
use loopwarden_log::{clock, embedded::EmbeddedBroker};
use loopwarden_settings::Effective;
use loopwarden_state::RocksStore;
use serde_json::{Map, Value, json};

use crate::http::{Answered, Backlog, Probe, ProcessStatus};
use crate::input_quality::{InputQuality, Row};
use crate::operate::{api, lanes::Lanes, lanes::Unanswered, sessions::sessions};
use crate::server::status::{NOTHING_CONSUMED, SILENT_AFTER, Sum};
use crate::{
    input_quality, server::intakes, server::webhooks, telemetry::bill, telemetry::guard::GuardReport,
    telemetry::logging::LogControl, telemetry::metrics,
};

/// A lane that has not turned for so long does not live. The watchdog ends the process a little later.
const TURN_MS_MAX: u64 = 20_000;
/// Agents that loop of which the live page shows more than their number.
const AGENTS_SHOWN: usize = 100;

/// What does not change while the process runs.
pub(super) struct Facts {
    /// `shadow` or `live`.
    pub(super) mode: &'static str,
    /// Topics and brokers, for people.
    pub(super) place: String,
    /// Topic of events.
    pub(super) topic: String,
    /// Its partitions, where known.
    pub(super) partitions: Option<u32>,
    /// Tasks that the process has in any case.
    pub(super) tasks_min: usize,
    /// By how much watermarks stay behind the newest event. Milliseconds.
    pub(super) lateness_ms: i64,
    /// A process that is further behind is not ready; 0: it only says so. Milliseconds.
    pub(super) ready_lag_ms_max: u64,
    /// Settings in force.
    pub(super) config: Value,
}

/// A policy and its values with their origins.
pub(super) struct InForce {
    pub(super) policy: Arc<Policy>,
    pub(super) values: Value,
}

/// The running process.
pub(super) struct ServerState {
    pub(super) facts: Facts,
    pub(super) lanes: Vec<LaneHandle>,
    /// What reads other topics.
    pub(super) intakes: Vec<LaneHandle>,
    pub(super) webhook_reports: webhooks::Reports,
    /// Who sends, and how much of it can be compared.
    pub(super) quality: Arc<InputQuality>,
    pub(super) clock: SystemClock,
    pub(super) store: RocksStore,
    pub(super) broker: Option<EmbeddedBroker>,
    /// What waits in it to be judged.
    pub(super) backlog: Option<Arc<Backlog>>,
    /// With Kafka, the last commands.
    pub(super) recent: Recent,
    pub(super) control: LogControl,
    pub(super) in_force: Mutex<InForce>,
    pub(super) since: Stopwatch,
    /// What `/overview` has of agents, and until when.
    pub(super) agents: Mutex<Option<(Deadline, api::Sessions)>>,
    /// Every assigned task was restored once.
    pub(super) has_started: AtomicBool,
    pub(super) is_draining: AtomicBool,
}

/// Values with their origins, as JSON.
pub(super) fn values(effective: Vec<Effective>) -> Value {
    let of = |value: Effective| (value.key, json!({ "value": value.value, "origin": value.origin.to_string() }));
    Value::Object(effective.into_iter().map(of).collect::<Map<String, Value>>())
}

impl ServerState {
    /// Another policy is in force.
    pub(super) fn adopt(&self, in_force: InForce) {
        *self.in_force.lock().unwrap_or_else(PoisonError::into_inner) = in_force;
    }

    /// The agents that loop, and how many there are in each state. Asked anew only once twenty times as long has passed as the answer took: a page
    /// that is left open takes a twentieth of the lanes' time at most.
    fn agents(&self) -> Option<api::Sessions> {
        let mut known = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((until, agents)) = &*known
            && !until.is_over()
        {
            return Some(agents.clone());
        }
        let since = Stopwatch::start();
        let now = EventTime(clock::now_ms());
        let (state, order, rows_max) = (SessionState::Looping, SessionOrder::Loop, AGENTS_SHOWN);
        let agents = sessions(self, Listing { state, order, rows_max, now, ..Listing::default() }).ok()?;
        *known = Some((Deadline::after(since.elapsed() * 20), agents.clone()));
        Some(agents)
    }

    fn sum(&self) -> Sum {
        let handles: Vec<LaneHandle> = self.lanes.iter().chain(&self.intakes).cloned().collect();
        let sum = Sum::of(&handles, self.facts.tasks_min);
        if sum.is_restored() {
            self.has_started.store(true, Ordering::Release);
        }
        sum
    }

    /// How far behind the events its judging is. Of a topic that is the newest event time that was judged. Milliseconds.
    fn late_ms(&self) -> u64 {
        if let Some(backlog) = &self.backlog {
            return backlog.longest_ms();
        }
        let (now_ms, lateness_ms) = (clock::now_ms(), self.facts.lateness_ms);
        let reports = self.lanes.iter().map(LaneHandle::report);
        let late_ms = reports.filter_map(|report| {
            report
                .tasks
                .iter()
                .filter_map(|task| {
                    let watermark = task.position.as_ref().filter(|position| position.watermark.0 > 0)?.watermark;
                    report.lag(task).filter(|lag| *lag > 0)?;
                    Some(now_ms.saturating_sub(watermark.plus_ms(lateness_ms).0).max(0).unsigned_abs())
                })
                .max()
        });
        late_ms.max().unwrap_or(0)
    }

    /// Who sends, and what is to be said of all input.
    fn input(&self, sum: &Sum) -> api::Input {
        let (http, intakes) = (self.quality.senders(), intakes::reports(&self.intakes));
        let of_topics = intakes.iter().flat_map(|intake| Row::all(Some(&intake.topic), &intake.senders));
        let rows: Vec<Row<'_>> = Row::all(None, &http).chain(of_topics).collect();
        let others = intakes.iter().map(|intake| intake.senders.others().records).sum::<u64>() + http.others().records;
        let (sessions, examples) = self.quality.twofold();
        let mut found = sum.findings(self.broker.is_some(), self.facts.partitions);
        // Of a fleet without work that is no fault: `is_idle` has it.
        let has_come = self.backlog.as_ref().is_some_and(|backlog| backlog.has_come());
        // On Kafka what waits is not known at once.
        let is_early = self.broker.is_none() && self.since.elapsed() < SILENT_AFTER;
        if self.is_idle(sum) || has_come || is_early {
            found.retain(|found| found.code != NOTHING_CONSUMED);
        }
        found.extend(input_quality::findings(&rows, (sessions, &examples)));
        input_quality::shown(&rows, others, (sessions, &examples), &found)
    }

    /// Nothing has come, and with Kafka it is known that nothing waits.
    fn is_idle(&self, sum: &Sum) -> bool {
        self.broker.is_none() && sum.is_idle()
    }

    fn has_trial(&self) -> bool {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner).policy.trial.is_on()
    }

    fn policy_name(&self) -> (String, String) {
        let in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        (in_force.policy.profile.clone(), in_force.policy.hash.to_string())
    }
}

/// Commit the program was built from, where the build says so.
fn revision() -> &'static str {
    option_env!("LOOPWARDEN_REVISION").unwrap_or("unknown")
}

impl Lanes for ServerState {
    fn ask(&self, question: &dyn Fn() -> Ask) -> Result<usize, Unanswered> {
        for (number, lane) in self.lanes.iter().enumerate() {
            if !lane.ask(question()) {
                return Err(Unanswered(format!("lane {number} is too busy to answer")));
            }
        }
        if let Some(broker) = &self.broker {
            broker.call_lanes();
        }
        Ok(self.lanes.len())
    }
}

impl ProcessStatus for ServerState {
    fn live(&self) -> Probe {
        let now_ms = self.clock.mono_ms();
        let mut probe = Probe::default();
        let lanes = self.lanes.iter().enumerate().map(|(number, lane)| (format!("lane {number} turns"), lane));
        let intakes = self.intakes.iter().enumerate().map(|(number, intake)| (format!("intake {number} turns"), intake));
        for (what, thread) in lanes.chain(intakes) {
            let silent_ms = now_ms.saturating_sub(thread.beat_ms());
            let is_turning = silent_ms <= TURN_MS_MAX;
            probe.check(what, if is_turning { Ok(()) } else { Err(format!("silent for {} s", silent_ms / 1_000)) });
        }
        probe
    }

    fn ready(&self) -> Probe {
        let sum = self.sum();
        let mut probe = Probe::default();
        let draining = self.is_draining.load(Ordering::Acquire);
        probe.check("not stopping", if draining { Err("stopping".to_owned()) } else { Ok(()) });
        // Nothing assigned yet is not joined; later its tasks count.
        let has_joined = sum.has_joined() || self.has_started.load(Ordering::Acquire);
        probe.check(
            "joined",
            if has_joined { Ok(()) } else { Err("a lane has no identity yet, or no task is assigned".to_owned()) },
        );
        probe.check(format!("{} of {} tasks run", sum.running, sum.tasks), sum.tasks_run());
        let held_up = sum.held_up;
        probe.check(
            "lanes go on",
            if held_up == 0 { Ok(()) } else { Err(format!("{held_up} cannot commit or read; see the log")) },
        );
        if self.broker.is_none() {
            probe.check("brokers answer", sum.brokers());
        }
        for task in &sum.poisoned {
            // Why is in the log and behind an admin route: it may name records.
            let name = task.split(':').next().unwrap_or_default();
            probe.check(format!("task {name}"), Err("stopped itself; see the log".to_owned()));
        }
        if sum.stopped > 0 {
            probe.check("inputs go on", Err(format!("{} partitions have stopped themselves; see the log", sum.stopped)));
        }
        let late_ms = self.late_ms();
        let (limit_ms, seconds) = (self.facts.ready_lag_ms_max, late_ms as f64 / 1e3);
        let is_late = limit_ms > 0 && late_ms > limit_ms;
        probe.check(
            format!("events are judged {seconds:.1} s late"),
            if is_late { Err(format!("more than {} s (http.ready_lag_ms_max)", limit_ms as f64 / 1e3)) } else { Ok(()) },
        );
        if let Ok(stats) = self.store.stats() {
            probe.check(
                "store takes writes",
                if stats.write_stopped { Err("RocksDB holds writes back".to_owned()) } else { Ok(()) },
            );
        } else {
            probe.check("store takes writes", Err("it does not answer".to_owned()));
        }
        probe
    }

    fn started(&self) -> Probe {
        let sum = self.sum();
        let mut probe = Probe::default();
        let has_started = self.has_started.load(Ordering::Acquire);
        probe.check(
            "every task was restored",
            if has_started { Ok(()) } else { Err(format!("{} of {} tasks run", sum.running, sum.tasks)) },
        );
        probe
    }

    fn metrics(&self, http: Vec<Answered>, readers: u64, guard: Option<GuardReport>) -> String {
        let (profile, hash) = self.policy_name();
        metrics::render(metrics::Snapshot {
            build: (env!("CARGO_PKG_VERSION").to_owned(), revision().to_owned()),
            policy: (profile, hash, self.facts.mode.to_owned()),
            topic: self.facts.topic.clone(),
            lanes: self.lanes.iter().map(LaneHandle::report).collect(),
            intakes: intakes::reports(&self.intakes),
            webhooks: webhooks::shown(&self.webhook_reports),
            now_ms: clock::now_ms(),
            lateness_ms: self.facts.lateness_ms,
            store: self.store.stats().ok(),
            backlog: self.backlog.as_ref().map(|backlog| (backlog.each_ms(), backlog.refused())),
            log: self.broker.as_ref().map(|broker| (broker.input_bytes(), readers)),
            http,
            guard,
        })
    }

    fn version(&self) -> Value {
        let (profile, hash) = self.policy_name();
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "revision": revision(),
            "mode": self.facts.mode,
            "policy": { "profile": profile, "sha256": hash },
        })
    }

    fn config(&self) -> Value {
        self.facts.config.clone()
    }

    fn policy(&self) -> Value {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner).values.clone()
    }

    fn overview(&self) -> api::Overview {
        let sum = self.sum();
        let stats = &sum.stats;
        let by_detector = Detector::ALL.iter().zip(&stats.detections);
        let reasons = Reason::ALL.iter().zip(stats.rejected).filter(|(_, records)| *records > 0);
        let [received, applied, expired, stale, shadow, failed] = stats.acks;
        let [nudge, block, unblock] = stats.commands.map(|modes| modes.iter().sum::<u64>());
        api::Overview {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mode: self.facts.mode.to_owned(),
            place: self.facts.place.clone(),
            policy: self.policy_name().0,
            uptime_ms: self.since.elapsed().as_millis() as u64,
            is_embedded: self.broker.is_some(),
            events: stats.events.iter().sum(),
            rejected: stats.rejected.iter().sum(),
            rejected_by_reason: reasons.map(|(reason, records)| (reason.as_str().to_owned(), records)).collect(),
            is_idle: self.is_idle(&sum),
            duplicates: stats.duplicates,
            late: stats.late,
            sessions: sum.sessions,
            commands: api::CommandCounts { nudge, block, unblock },
            detections: by_detector.map(|(detector, row)| (detector.as_str().to_owned(), row.iter().sum())).collect(),
            acks: api::Acks { received, applied, ignored: expired + stale + shadow, failed },
            agents: self.agents(),
            bill: bill::shown(stats, self.has_trial()),
            input: Some(self.input(&sum)),
            tasks: api::TaskCounts { all: sum.tasks, running: sum.running, poisoned: sum.poisoned.len() },
            lag_records: sum.lag_records,
            ..api::Overview::default()
        }
    }

    fn log_filter(&self) -> String {
        self.control.filter()
    }

    fn set_log_filter(&self, filter: &str) -> Result<(), String> {
        self.control.set(filter).map_err(|bad| bad.to_string())
    }

    fn tasks(&self) -> Vec<(TaskView, usize, Option<u64>)> {
        let mut tasks = Vec::new();
        for (number, lane) in self.lanes.iter().enumerate() {
            let report = lane.report();
            tasks.extend(report.tasks.iter().map(|task| (task.clone(), number, report.lag(task))));
        }
        tasks.sort_by_key(|(task, ..)| task.id);
        tasks
    }

    fn recent(&self, after: u64) -> (Vec<Numbered>, u64) {
        self.recent.after(after)
    }

    fn backlog(&self) -> Option<Arc<Backlog>> {
        self.backlog.clone()
    }

    fn place_of(&self, session_id: &str) -> String {
        let Some(partitions) = self.facts.partitions else {
            return "no such session here; with several processes, another one may have it".to_owned();
        };
        let partition = partition_of(session_id.as_bytes(), partitions);
        let is_here = self.tasks().iter().any(|(task, ..)| {
            task.id.stage == loopwarden_core::event::Stage::Session
                && task.id.partition == partition
                && task.state == TaskState::Running
        });
        let here = if is_here { "which this process reads" } else { "which another process reads" };
        format!("no such session here; its events would be in partition {partition} of {}, {here}", self.facts.topic)
    }
}
