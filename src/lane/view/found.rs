//! What questions find of agents, swarms, budgets and stops, as of the last commit.

use std::{collections::BTreeSet, iter::Sum, ops::ControlFlow};

use loopwarden_core::engine::{
    AgentStanding, SEPARATOR, Session, StopState, SubjectKey, Surroundings, SwarmCallKey, SwarmCounter, SwarmReset, TimerKind,
    Verdict,
};
use loopwarden_core::event::{EventTime, Stage, TaskId};
use loopwarden_core::limits::{AGENTS_SHOWN, COUNTERS_SHOWN, IN_FORCE_TIMERS_MAX};
use loopwarden_core::policy::{Per, Reached};
use loopwarden_core::whom::{Kind, Who, Whom};
use loopwarden_core::{detect::Flags, setting::Mode, wire::Row};
use loopwarden_state::report::{parse_report_key, report_key, reset_key};
use loopwarden_state::{KeyFamily, StoreError, Stored, TimerKey, read, session, stop, swarm};

use crate::{settings::ProcessMode, view::ask::View};

/// Sessions that one look for whom a stop would bind goes over.
const LOOKED_AT_MAX: u64 = 100_000;
/// Counters that are looked up: a session of 256 agents may have one of each budget for each.
const COUNTERS_MAX: usize = 1_024;

/// The rows that a question has found first.
#[derive(Debug, PartialEq, Eq)]
pub struct FirstRows<T> {
    pub rows: Vec<T>,
    /// Whether there may be others than these.
    pub more: bool,
}

impl<T> Sum for FirstRows<T> {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self { rows: Vec::new(), more: false }, |mut sum, found| {
            sum.rows.extend(found.rows);
            Self { more: sum.more || found.more, ..sum }
        })
    }
}

/// An agent's session as of the last commit.
#[derive(Debug)]
pub struct AgentView {
    /// The task that holds it.
    pub task: TaskId,
    pub subject: SubjectKey,
    pub session: Session,
    /// What is published is to be obeyed: false in shadow mode.
    pub binds: bool,
}

impl AgentView {
    /// Its state, where a stop binds it or none does.
    #[must_use]
    pub fn standing(&self, is_stopped: bool, now: EventTime) -> AgentStanding {
        let history = &self.session.history;
        let polls = history.ring_back().next().is_some_and(|newest| newest.flags.contains(Flags::POLL));
        let around = Surroundings { next_sequence: history.next_sequence(), polls, is_stopped, binds: self.binds, now };
        AgentStanding::of(&self.session.head, &around)
    }

    /// The agent, as far as its session knows it.
    #[must_use]
    pub fn who(&self) -> Option<Who<'_>> {
        self.session.head.who(&self.subject)
    }
}

/// A budget that agents count in.
#[derive(Debug, Clone)]
pub struct BudgetView {
    pub name: String,
    pub per: Per,
    pub mode: Mode,
    /// Those whose use it adds up.
    pub whom: Whom,
    /// Each limit, with what is used of it.
    pub parts: Vec<Reached>,
    /// What it has in force.
    pub verdicts: Vec<Verdict>,
}

/// A counter of a swarm: one call, made by its agents.
#[derive(Debug)]
pub struct CounterView {
    /// The task that holds it.
    pub task: TaskId,
    /// The call, in 32 hex digits.
    pub fingerprint: String,
    pub counter: SwarmCounter,
    /// Calls and agents of its newest window.
    pub held: (u32, u32),
}

/// A stop that is in force.
#[derive(Debug, Clone)]
pub struct StopView {
    pub whom: Whom,
    pub verdict: Verdict,
}

impl View<'_> {
    /// The agents of a session, at most [`AGENTS_SHOWN`].
    ///
    /// # Errors
    /// The store failed.
    pub fn agents(&self, tenant: &str, session_id: &str) -> Result<Vec<AgentView>, StoreError> {
        let prefix = session::agents_prefix(Some(tenant), session_id);
        let mut agents = Vec::new();
        for task in self.running(Stage::Session) {
            for key in self.keys((task, KeyFamily::Head), prefix.as_bytes(), AGENTS_SHOWN)? {
                let loaded = session::load(self.store, task, &key, self.policy.history_steps)?;
                if let (Some(subject), Some(loaded)) = (session::subject_of(&key), loaded) {
                    let binds = self.mode == ProcessMode::Live;
                    agents.push(AgentView { task, subject, session: loaded.session, binds });
                }
            }
        }
        agents.truncate(AGENTS_SHOWN);
        Ok(agents)
    }

    /// The counters of a swarm, at most [`COUNTERS_SHOWN`]: those that something is in force for, then those that were seen last.
    ///
    /// # Errors
    /// The store failed.
    pub fn swarm(&self, tenant: &str, swarm_id: &str) -> Result<Vec<CounterView>, StoreError> {
        // As a reset of the whole swarm has it: everything but the call.
        let (tenant, swarm_id) = (tenant.to_owned(), swarm_id.to_owned());
        let prefix = reset_key(&SwarmReset { tenant, swarm_id, time: EventTime::default() });
        let mut found = Vec::new();
        for task in self.running(Stage::Swarm) {
            for key in self.keys((task, KeyFamily::SwarmCounter), &prefix, COUNTERS_SHOWN)? {
                let fingerprint = key.get(prefix.len()..).map(String::from_utf8_lossy).unwrap_or_default().into_owned();
                if let Some(loaded) = swarm::load(self.store, task, &key)? {
                    let held = loaded.counter.newest_window(&self.policy.detectors.swarm_repeat);
                    found.push(CounterView { task, fingerprint, counter: loaded.counter, held });
                }
            }
        }
        found.sort_by_key(|view| (view.counter.board.verdicts.is_empty(), std::cmp::Reverse(view.counter.time)));
        found.truncate(COUNTERS_SHOWN);
        Ok(found)
    }

    /// Budgets of these agents of which anything is used.
    ///
    /// # Errors
    /// The store failed.
    pub fn budgets(&self, agents: &[AgentView], now: EventTime) -> Result<Vec<BudgetView>, StoreError> {
        let (mut found, mut left) = (Vec::new(), COUNTERS_MAX);
        for budget in self.policy.budgets.iter() {
            let whom = agents.iter().filter_map(|agent| budget.whom(&agent.who()?));
            for whom in whom.collect::<BTreeSet<_>>().into_iter().take(left) {
                left -= 1;
                let (name, per) = (budget.name.clone(), budget.per);
                let key = report_key(&SwarmCallKey::Budget { budget: name.clone(), per, whom: whom.clone() });
                for task in self.running(Stage::Swarm) {
                    let Some(loaded) = swarm::load(self.store, task, &key)? else { continue };
                    let used = loaded.counter.panes.get(&per.window_of(now)).and_then(|pane| pane.used);
                    let Some(used) = used else { continue };
                    let verdicts = loaded.counter.board.verdicts.iter().filter(|verdict| verdict.expires_at > now);
                    found.push(BudgetView {
                        name: name.clone(),
                        per,
                        mode: budget.mode,
                        whom: whom.clone(),
                        parts: budget.parts(&used).collect(),
                        verdicts: verdicts.cloned().collect(),
                    });
                }
            }
        }
        Ok(found)
    }

    /// Stops in force at a time, at most so many.
    ///
    /// # Errors
    /// The store failed.
    pub fn stops(&self, now: EventTime, rows_max: usize) -> Result<FirstRows<StopView>, StoreError> {
        let mut found = FirstRows { rows: Vec::new(), more: false };
        for task in self.running(Stage::Session) {
            self.scan((task, KeyFamily::Stop), &[], &[], |key, value| {
                let verdict = StopState::decode(value)?.board.verdicts.first().filter(|stop| stop.expires_at > now).cloned();
                if let (Some(verdict), Some(SubjectKey::Stop(whom))) = (verdict, stop::subject_of(key)) {
                    if found.rows.len() >= rows_max {
                        found.more = true;
                        return Ok(ControlFlow::Break(()));
                    }
                    found.rows.push(StopView { whom, verdict });
                }
                Ok(ControlFlow::Continue(()))
            })?;
        }
        Ok(found)
    }

    /// What is known of whom an operator stops; none where no act about them was taken.
    ///
    /// # Errors
    /// The store failed.
    pub fn stop(&self, whom: &Whom) -> Result<Option<StopState>, StoreError> {
        let key = SubjectKey::Stop(whom.clone()).row_key();
        let mut found = self.running(Stage::Session).map(|task| read(self.store, task, key.as_bytes()));
        found.find_map(Result::transpose).transpose()
    }

    /// How many agents a stop would bind, and whether there may be more.
    ///
    /// # Errors
    /// The store failed.
    pub fn matching(&self, whom: &Whom) -> Result<(u64, bool), StoreError> {
        let prefix = match whom.kind {
            Kind::Session => session::agents_prefix(Some(&whom.tenant), &whom.name),
            Kind::All => String::new(),
            _ => format!("{}{SEPARATOR}", whom.tenant),
        };
        let (mut agents, mut more, mut looked_at) = (0, false, 0);
        for task in self.running(Stage::Session) {
            self.scan((task, KeyFamily::Head), prefix.as_bytes(), prefix.as_bytes(), |key, value| {
                if looked_at == LOOKED_AT_MAX {
                    more = true;
                    return Ok(ControlFlow::Break(()));
                }
                looked_at += 1;
                let (head, _) = session::decode_head(value)?;
                let is_meant = session::subject_of(key).is_some_and(|of| head.who(&of).is_some_and(|who| who.is(whom)));
                agents += u64::from(is_meant);
                Ok(ControlFlow::Continue(()))
            })?;
        }
        Ok((agents, more))
    }

    /// State rows in force as they are published, at most so many. Each subject with verdicts has a timer for when they end: the
    /// timers lead to them, and the sessions need not be read.
    ///
    /// # Errors
    /// The store failed.
    pub fn in_force(&self, rows_max: usize) -> Result<FirstRows<Vec<u8>>, StoreError> {
        let mut found = FirstRows { rows: Vec::new(), more: false };
        let mut left = IN_FORCE_TIMERS_MAX;
        for task in self.running(Stage::Session).chain(self.running(Stage::Swarm)) {
            let mut subjects = Vec::new();
            self.scan((task, KeyFamily::Timer), &[], &[], |key, _| {
                if left == 0 || found.rows.len() + subjects.len() >= rows_max {
                    found.more = true;
                    return Ok(ControlFlow::Break(()));
                }
                left -= 1;
                let timer = TimerKey::decode(key);
                let kind = timer.and_then(|timer| TimerKind::from_number(timer.kind));
                if let (Some(timer), Some(kind @ (TimerKind::Verdicts | TimerKind::SwarmVerdicts | TimerKind::Stop))) =
                    (timer, kind)
                {
                    subjects.push((timer.subject.to_vec(), kind));
                }
                Ok(ControlFlow::Continue(()))
            })?;
            for (key, kind) in subjects {
                found.rows.extend(self.row(task, kind, &key)?);
            }
        }
        Ok(found)
    }

    /// The state row of a timer's subject.
    fn row(&self, task: TaskId, kind: TimerKind, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(if kind == TimerKind::Stop {
            let of = stop::subject_of(key).zip(read::<StopState>(self.store, task, key)?);
            of.and_then(|(of, state)| Row::json(&of, &state.board, state.time))
        } else if task.stage == Stage::Session {
            let of = session::subject_of(key).zip(session::load(self.store, task, key, self.policy.history_steps)?);
            of.and_then(|(of, loaded)| Row::json(&of, &loaded.session.head.board, loaded.session.head.time))
        } else {
            let of = parse_report_key(key).zip(swarm::load(self.store, task, key)?);
            of.and_then(|(of, loaded)| Row::json(&of.subject(), &loaded.counter.board, loaded.counter.time))
        })
    }
}
