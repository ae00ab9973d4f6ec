//! What operators ask of a lane: whom stops bind, and whom one would bind.

use std::ops::ControlFlow;

use loopwarden_core::engine::SEPARATOR;
use loopwarden_core::event::{Stage, TaskId};
use loopwarden_core::whom::{Kind, Whom};
use loopwarden_core::{limits::HTTP_ROWS_MAX, wire::Row};
use loopwarden_state::{KeyFamily, StateKey, StoreError, session, stop};

use crate::task::query::{Matching, Standing};
use crate::thread::lane::Lane;

/// Sessions that one look goes over: the lane judges nothing meanwhile.
const LOOKED_AT_MAX: u64 = 100_000;

impl Lane {
    /// Rows of stops in force, as of the last commit.
    pub(crate) fn stops(&self) -> Result<Standing, StoreError> {
        let mut found = Standing::default();
        for id in self.tasks.running_ids().into_iter().filter(|id| id.stage == Stage::Session) {
            let mut keys = Vec::new();
            self.work.store.scan(id, KeyFamily::Stop, &[], &[], &mut |key, _| {
                keys.push(key.to_vec());
                ControlFlow::Continue(())
            })?;
            for key in keys {
                if found.rows.len() >= HTTP_ROWS_MAX {
                    found.more = true;
                    return Ok(found);
                }
                found.rows.extend(self.stop_row(id, &key)?);
            }
        }
        Ok(found)
    }

    /// The row of whom an operator stops.
    pub(crate) fn stop_row(&self, id: TaskId, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(bytes) = self.work.store.get(id, &StateKey::new(KeyFamily::Stop, key.to_vec()))? else { return Ok(None) };
        let state = stop::decode(&bytes)?;
        Ok(stop::subject_of(key).and_then(|of| Row::json(&of, &state.board, state.time)))
    }

    /// Agents that a stop would bind.
    pub(crate) fn matching(&self, whom: &Whom) -> Result<Matching, StoreError> {
        let prefix = match whom.kind {
            Kind::Session => session::agents_prefix(Some(&whom.tenant), &whom.name),
            Kind::All => String::new(),
            _ => format!("{}{SEPARATOR}", whom.tenant),
        };
        let (mut found, mut looked_at, mut failed) = (Matching::default(), 0, None);
        for id in self.tasks.running_ids().into_iter().filter(|id| id.stage == Stage::Session) {
            self.work.store.scan(id, KeyFamily::Head, prefix.as_bytes(), prefix.as_bytes(), &mut |key, value| {
                if looked_at == LOOKED_AT_MAX {
                    found.more = true;
                    return ControlFlow::Break(());
                }
                looked_at += 1;
                match session::decode_head(value) {
                    Ok((head, _)) => {
                        let is_meant = session::subject_of(key).is_some_and(|of| head.who(&of).is_some_and(|who| who.is(whom)));
                        found.agents += u64::from(is_meant);
                        ControlFlow::Continue(())
                    }
                    Err(error) => {
                        failed = Some(error);
                        ControlFlow::Break(())
                    }
                }
            })?;
        }
        failed.map_or(Ok(found), Err)
    }
}
