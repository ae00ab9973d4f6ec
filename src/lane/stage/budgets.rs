//! Budgets under another policy: what was used is compared with the new limits, without waiting for the next use. Who is blocked makes none.

use std::ops::ControlFlow;

use loopwarden_core::engine::{SwarmCallKey, SwarmInput};
use loopwarden_state::{KeyFamily, report::parse_report_key, swarm::CounterKind};

use crate::stage::context::{Cause, Halt, RecordContext};
use crate::task::poison::Culprit;

/// Keys of counters that are read at a time.
const COUNTERS_READ: usize = 256;

impl RecordContext<'_> {
    /// Compares the budgets of a task of the swarm stage with the policy in force, from where it stopped on. When the overlay is full, the rest
    /// comes after the commit.
    pub(crate) fn compare_budgets(&mut self) -> Result<(), Halt> {
        if self.task.seen.count(CounterKind::Budget, &*self.work.store, self.id)? == 0 {
            self.task.end_comparison(self.work.engine.policy());
        }
        while let Some(from) = &*self.task.compares_budgets {
            let (mut keys, mut next, counters, task) = (Vec::new(), None, &self.work.counters, self.id);
            self.work.store.scan(task, KeyFamily::SwarmCounter, &[], from, &mut |key, _| {
                if keys.len() == COUNTERS_READ {
                    next = Some(key.to_vec());
                    return ControlFlow::Break(());
                }
                // One that changed since the last commit was compared when it did.
                if let Some(of @ SwarmCallKey::Budget { .. }) = parse_report_key(key)
                    && !counters.is_changed(task, key)
                {
                    keys.push((key.to_vec(), of));
                }
                ControlFlow::Continue(())
            })?;
            for (key, of) in keys {
                if self.work.is_full() {
                    *self.task.compares_budgets = Some(key);
                    return Err(Halt::Full);
                }
                let place = self.work.counters.find(self.id, &key, &*self.work.store)?;
                let at = self.work.counters.get(place)?.counter.time;
                let cause = Cause { offset: self.task.next().0, at, record_time: at };
                self.apply_counter((place, &key), &of, SwarmInput::Compare, cause, || Culprit::Record(cause.offset))?;
            }
            *self.task.compares_budgets = next;
            if self.task.compares_budgets.is_none() {
                self.task.end_comparison(self.work.engine.policy());
            }
        }
        Ok(())
    }
}
