//! What a lane finds in its store when somebody asks: sessions, stops that bind them, budgets they count in.

use std::{collections::BTreeSet, ops::ControlFlow, sync::Arc};

use loopwarden_core::detect::Flags;
use loopwarden_core::engine::{SubjectKey, Surroundings, SwarmCallKey};
use loopwarden_core::event::{EventTime, Stage, TaskId};
use loopwarden_core::whom::Whom;
use loopwarden_state::report::report_key;
use loopwarden_state::{KeyFamily, StoreError, session, stop, swarm};

use crate::task::listing::{Listed, Listing, Places, SLICE_MAX, SessionRow};
use crate::task::query::{AgentView, BudgetView};
use crate::{settings::ProcessMode, task::tasks::Slot, thread::lane::Lane};

/// Stops that are looked at; operators alone add to them.
const STOPS_LOOKED_AT_MAX: usize = 65_536;
/// Counters that are looked up: a session of 256 agents may have one of each budget for each.
const COUNTERS_MAX: usize = 1_024;

impl Lane {
    /// Those that operators stop at a time, as far as its tasks hold them.
    pub(crate) fn stopped(&self, now: EventTime) -> Result<Vec<Whom>, StoreError> {
        let (mut found, mut failed) = (Vec::new(), None);
        for id in self.tasks.running_ids().into_iter().filter(|id| id.stage == Stage::Session) {
            self.work.store.scan(id, KeyFamily::Stop, &[], &[], &mut |key, value| {
                match stop::decode(value) {
                    Ok(state) if state.board.verdicts.iter().any(|stop| stop.expires_at > now) => {
                        if let Some(SubjectKey::Stop(whom)) = stop::subject_of(key) {
                            found.push(whom);
                        }
                    }
                    Ok(_) => {}
                    Err(error) => failed = Some(error),
                }
                if failed.is_none() && found.len() < STOPS_LOOKED_AT_MAX {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })?;
        }
        failed.map_or(Ok(found), Err)
    }

    /// Looks at a slice of its sessions: at the first ones, or from where an earlier look stopped on.
    pub(crate) fn listed(&self, listing: &Arc<Listing>, from: Option<&Places>) -> Result<Listed, StoreError> {
        let mut listed = Listed::default();
        let is_of_sessions = |id: TaskId| id.stage == Stage::Session;
        listed.is_partial = self.tasks.iter().any(|(id, slot)| is_of_sessions(id) && !matches!(slot, Slot::Running(_)));
        let running = self.tasks.running_ids().into_iter().filter(|id| is_of_sessions(*id));
        for id in running {
            let Some(start) = from.map_or(Some(&[][..]), |places| places.get(&id).map(Vec::as_slice)) else { continue };
            for prefix in listing.prefixes() {
                let prefix = prefix.as_bytes();
                // What lies before the place was looked at.
                if start > prefix && !start.starts_with(prefix) {
                    continue;
                }
                if let Some(next) = self.list_task(id, prefix, start.max(prefix), listing, &mut listed)? {
                    listed.next.insert(id, next);
                    break;
                }
            }
        }
        listed.keep_first(listing);
        Ok(listed)
    }

    /// The key to go on from, where the slice ended before the sessions did.
    fn list_task(
        &self,
        id: TaskId,
        prefix: &[u8],
        from: &[u8],
        listing: &Listing,
        listed: &mut Listed,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let (mut next, mut failed) = (None, None);
        let binds = self.settings.mode == ProcessMode::Live;
        self.work.store.scan(id, KeyFamily::Head, prefix, from, &mut |key, value| {
            if listed.looked_at >= SLICE_MAX as u64 {
                next = Some(key.to_vec());
                return ControlFlow::Break(());
            }
            listed.looked_at += 1;
            match (session::subject_of(key), session::decode_whole_head(value)) {
                (Some(subject), Ok((head, ring, open))) => {
                    // The newest step lies in the head.
                    let newest =
                        open.iter().find(|(slot, ..)| ring.sequence_in(*slot).is_some_and(|at| at + 1 == ring.next_sequence));
                    let polls = newest.is_some_and(|(_, step, _)| step.flags.contains(Flags::POLL));
                    let around = Surroundings { next_sequence: ring.next_sequence, polls, binds, ..Surroundings::default() };
                    listed.take(SessionRow::of(subject, &head, around, listing), listing);
                }
                (None, Ok(_)) => {}
                (_, Err(error)) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        failed.map_or(Ok(next), Err)
    }

    /// Budgets of these agents that its tasks hold, as far as anything of them is used.
    pub(crate) fn budgets(&self, agents: &[AgentView], now: EventTime) -> Result<Vec<BudgetView>, StoreError> {
        let policy = self.work.engine.policy();
        let tasks: Vec<_> = self.tasks.running_ids().into_iter().filter(|id| id.stage == Stage::Swarm).collect();
        let (mut found, mut left) = (Vec::new(), COUNTERS_MAX);
        for budget in policy.budgets.iter() {
            let whom = agents.iter().filter_map(|agent| budget.whom(&agent.who()?));
            for whom in whom.collect::<BTreeSet<_>>().into_iter().take(left) {
                left -= 1;
                let (tenant, name, per) = (whom.tenant.clone(), budget.name.clone(), budget.per);
                let key = report_key(&SwarmCallKey::Budget { tenant, budget: name.clone(), per, whom: whom.clone() });
                for id in &tasks {
                    let Some(loaded) = swarm::load(&*self.work.store, *id, &key)? else { continue };
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
}
