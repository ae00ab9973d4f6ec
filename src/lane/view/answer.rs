//! What a lane tells about its tasks and sessions: committed state only, read from the store. Surface asks, lanes answer.

use std::ops::ControlFlow;

use loopwarden_core::engine::{SwarmReset, TimerKind};
use loopwarden_core::event::{EventTime, Stage as EventStage, TaskId};
use loopwarden_core::limits::{AGENTS_SHOWN, COUNTERS_SHOWN, HTTP_ROWS_MAX, IN_FORCE_TIMERS_MAX};
use loopwarden_core::wire::Row;
use loopwarden_state::report::{parse_report_key, reset_key};
use loopwarden_state::swarm::CounterKind;
use loopwarden_state::{KeyFamily, StoreError, TimerKey, session, swarm};

use crate::task::query::{AgentView, Ask, CounterView, Standing, TaskState, TaskView};
use crate::{stage::context::Work, task::census::Counts, task::state::Running, task::tasks::Slot, thread::lane::Lane};

impl Lane {
    pub(crate) fn answer(&mut self, ask: Ask) {
        match ask {
            Ask::Tasks(reply) => drop(reply.try_send(self.tasks())),
            Ask::Session { tenant, session_id, reply } => {
                let agents =
                    self.work.cache.write_back(&mut *self.work.store).and_then(|()| self.agents(tenant.as_deref(), &session_id));
                drop(reply.try_send(agents));
            }
            Ask::Swarm { tenant, swarm_id, reply } => drop(reply.try_send(self.counters_of(&tenant, &swarm_id))),
            Ask::Stops(reply) => drop(reply.try_send(self.stops().map(|found| vec![found]))),
            Ask::Budgets { agents, now, reply } => drop(reply.try_send(self.budgets(&agents, now))),
            Ask::Stopped { now, reply } => drop(reply.try_send(self.stopped(now))),
            Ask::Sessions { listing, from, reply } => {
                let found =
                    self.work.cache.write_back(&mut *self.work.store).and_then(|()| self.listed(&listing, from.as_deref()));
                drop(reply.try_send(found.map(|found| vec![found])));
            }
            Ask::Matching { whom, reply } => {
                let found = self.work.cache.write_back(&mut *self.work.store).and_then(|()| self.matching(&whom));
                drop(reply.try_send(found.map(|found| vec![found])));
            }
            Ask::Standing(reply) => {
                let found = self.work.cache.write_back(&mut *self.work.store).and_then(|()| self.in_force());
                drop(reply.try_send(found.map(|found| vec![found])));
            }
        }
    }

    /// Its tasks as of their last commit.
    pub fn tasks(&self) -> Vec<TaskView> {
        let view = |(id, slot): (TaskId, &Slot)| {
            let (state, position) = match slot {
                Slot::Waiting | Slot::Restoring { .. } => (TaskState::Restoring, None),
                Slot::Running(task) => (TaskState::Running, Some(task.state.committed.clone())),
                Slot::Poisoned(task) => (TaskState::Poisoned(task.state.why.clone()), None),
            };
            TaskView { id, state, position }
        };
        self.tasks.iter().map(view).collect()
    }

    /// Sessions of its tasks, and live blocks in force; one read of the store for a task that has not counted yet.
    pub fn census(&mut self) -> [u64; 2] {
        let Self { tasks, work: Work { store, .. }, .. } = self;
        let of = |(id, task): (TaskId, &mut Running)| {
            task.census.load(&**store, id).map_or_else(|_| Counts::default(), |counts| *counts)
        };
        let add = |[sessions, blocks]: Counts, [more, of_them]: Counts| [sessions + more, blocks + of_them];
        tasks.running_mut().filter(|(id, _)| id.stage == EventStage::Session).map(of).fold(Counts::default(), add)
    }

    /// Counters of its swarm tasks; one read of the store for a task that has not counted yet.
    pub fn swarm_counters(&mut self) -> u64 {
        let Self { tasks, work: Work { store, .. }, .. } = self;
        let of = |(id, task): (TaskId, &mut Running)| {
            let mut count = |kind| task.seen.count(kind, &**store, id).unwrap_or_default();
            count(CounterKind::Swarm) + count(CounterKind::Fleet)
        };
        tasks.running_mut().filter(|(id, _)| id.stage == EventStage::Swarm).map(of).sum()
    }

    fn counters_of(&self, tenant: &str, swarm_id: &str) -> Result<Vec<CounterView>, StoreError> {
        // As a reset of the whole swarm has it: everything but the call.
        let (tenant, swarm_id) = (tenant.to_owned(), swarm_id.to_owned());
        let prefix = reset_key(&SwarmReset { tenant, swarm_id, time: EventTime::default() });
        let mut found = Vec::new();
        for id in self.tasks.running_ids().into_iter().filter(|id| id.stage == EventStage::Swarm) {
            let mut keys = Vec::new();
            self.work.store.scan(id, KeyFamily::SwarmCounter, &prefix, &prefix, &mut |key, _| {
                keys.push(key.to_vec());
                if keys.len() < COUNTERS_SHOWN { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            for key in keys {
                let fingerprint = key.get(prefix.len()..).map(String::from_utf8_lossy).unwrap_or_default().into_owned();
                if let Some(loaded) = swarm::load(&*self.work.store, id, &key)? {
                    let held = loaded.counter.newest_window(&self.work.engine.policy().detectors.swarm_repeat);
                    found.push(CounterView { task: id, fingerprint, counter: loaded.counter, held });
                }
            }
        }
        // Those that something is in force for, then those that were seen last.
        found.sort_by_key(|view| (view.counter.board.verdicts.is_empty(), std::cmp::Reverse(view.counter.time)));
        found.truncate(COUNTERS_SHOWN);
        Ok(found)
    }

    /// Whoever has verdicts in force has a timer for when they end: the timers lead to them, and the sessions need not be read.
    fn in_force(&self) -> Result<Standing, StoreError> {
        let mut found = Standing::default();
        let mut left = IN_FORCE_TIMERS_MAX;
        for id in self.tasks.running_ids() {
            let mut subjects = Vec::new();
            self.work.store.scan(id, KeyFamily::Timer, &[], &[], &mut |key, _| {
                if left == 0 || found.rows.len() + subjects.len() >= HTTP_ROWS_MAX {
                    found.more = true;
                    return ControlFlow::Break(());
                }
                left -= 1;
                let timer = TimerKey::decode(key);
                let kind = timer.and_then(|timer| TimerKind::from_number(timer.kind));
                if let (Some(timer), Some(kind @ (TimerKind::Verdicts | TimerKind::SwarmVerdicts | TimerKind::Stop))) =
                    (timer, kind)
                {
                    subjects.push((timer.subject.to_vec(), kind));
                }
                ControlFlow::Continue(())
            })?;
            for (key, kind) in subjects {
                let row = if kind == TimerKind::Stop { self.stop_row(id, &key)? } else { self.row_of(id, &key)? };
                found.rows.extend(row);
            }
        }
        Ok(found)
    }

    fn row_of(&self, id: TaskId, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        if id.stage == EventStage::Session {
            let loaded = session::load(&*self.work.store, id, key, self.work.engine.policy().history_steps)?;
            let of = session::subject_of(key).zip(loaded);
            return Ok(of.and_then(|(of, loaded)| {
                let head = &loaded.session.head;
                Row::json(&of, &head.board, head.time)
            }));
        }
        let of = parse_report_key(key).zip(swarm::load(&*self.work.store, id, key)?);
        Ok(of.and_then(|(of, loaded)| Row::json(&of.subject(), &loaded.counter.board, loaded.counter.time)))
    }

    fn agents(&self, tenant: Option<&str>, session_id: &str) -> Result<Vec<AgentView>, StoreError> {
        let prefix = session::agents_prefix(tenant, session_id);
        let history_steps = self.work.engine.policy().history_steps;
        let mut agents = Vec::new();
        for id in self.tasks.running_ids() {
            let mut keys = Vec::new();
            self.work.store.scan(id, KeyFamily::Head, prefix.as_bytes(), prefix.as_bytes(), &mut |key, _| {
                keys.push(key.to_vec());
                if keys.len() < AGENTS_SHOWN { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            for key in keys {
                if let (Some(subject), Some(loaded)) =
                    (session::subject_of(&key), session::load(&*self.work.store, id, &key, history_steps)?)
                {
                    agents.push(AgentView { task: id, subject, session: loaded.session });
                }
            }
        }
        agents.truncate(AGENTS_SHOWN);
        Ok(agents)
    }
}
