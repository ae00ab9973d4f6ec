//! A `reset` with scope `session`: brought to the other agents of its session, as many at a time as a commit takes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use loopwarden_core::engine::{Input, SourcePosition, SubjectKey};
use loopwarden_core::event::{Event, RecordOffset};
use loopwarden_core::limits::RESET_AGENTS_MAX;
use loopwarden_state::{KeyFamily, StoreError, session as stored, try_scan};

use crate::stage::context::{Cause, Halt, RecordContext};
use crate::task::poison::Culprit;

impl RecordContext<'_> {
    /// Brings a reset to the other agents of the session, in the order of their keys: those in the store, and those begun since. When
    /// the overlay is full, the record is read again after the commit, and those that have it already are skipped.
    pub(crate) fn reset_others(&mut self, event: &Event<'_>, place: SourcePosition<'_>, cause: Cause) -> Result<(), Halt> {
        let agents = self.other_agents(event)?;
        let left_out = agents.len().saturating_sub(RESET_AGENTS_MAX);
        let mut applied = 0;
        for (key, _) in agents.into_iter().take(RESET_AGENTS_MAX).filter(|(_, has_it)| !has_it) {
            if applied > 0 && self.work.is_full() {
                self.task.halfway = Some(RecordOffset(cause.offset));
                return Err(Halt::Full);
            }
            let id = match self.work.cache.find_key(self.id, &key) {
                Some(id) => id,
                None => match stored::subject_of(&key) {
                    Some(subject) => self.load(subject, &key)?,
                    None => continue,
                },
            };
            self.apply(id, Input::Reset(event, place), cause, || Culprit::Record(cause.offset))?;
            applied += 1;
        }
        self.work.overlay.stats.limit_reset_agents += left_out as u64;
        Ok(())
    }

    /// Keys of the living agents of the event's session but its own, and whether each has the event already. At least one more than
    /// are reached, where there are more.
    fn other_agents(&mut self, event: &Event<'_>) -> Result<BTreeMap<Vec<u8>, bool>, StoreError> {
        let prefix = stored::agents_prefix(event.tenant.as_deref(), &event.session_id);
        let own = SubjectKey::session_key(event.tenant.as_deref(), &event.session_id, &event.agent_id);
        let (mut agents, mut forgotten) = (BTreeMap::new(), BTreeSet::new());
        for entry in self.work.cache.changed() {
            let key = entry.key();
            if entry.task() != self.id || !key.starts_with(prefix.as_bytes()) || key == own.as_bytes() {
                continue;
            }
            if entry.session.has_begun {
                agents.insert(key.to_vec(), entry.session.head.knows(&event.id));
            } else {
                forgotten.insert(key.to_vec());
            }
        }
        self.work.cache.write_back(&mut *self.work.store)?;
        let mut in_store = 0;
        try_scan(&*self.work.store, self.id, KeyFamily::Head, prefix.as_bytes(), prefix.as_bytes(), |key, value| {
            // What is forgotten but not written yet must not count: whether it still lies there depends on the last commit.
            if key == own.as_bytes() || forgotten.contains(key) {
                return Ok(ControlFlow::Continue(()));
            }
            in_store += 1;
            if !agents.contains_key(key) {
                let (head, _) = stored::decode_head(value)?;
                agents.insert(key.to_vec(), head.knows(&event.id));
            }
            Ok(if in_store <= RESET_AGENTS_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        Ok(agents)
    }
}
