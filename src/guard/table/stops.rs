//! Whom operators stop. Apart from all that detectors place: nothing that tenants bring about pushes one out.

use std::{collections::BTreeMap, sync::Arc};

use loopwarden_core::{engine::SubjectKey, event::EventTime};

use crate::agents::agent::Agent;
use crate::wire::verdict::{CommandUpdate, RowUpdate, Verdict};

/// Subjects that are known. Operators alone add to them; of a further one nothing is taken, and that is counted.
const STOPS_MAX: usize = 65_536;

#[derive(Debug)]
struct Known {
    epoch: u64,
    seq: u64,
    /// None where it was released: a command that comes late must not place it again.
    verdict: Option<Arc<Verdict>>,
    /// After it nothing of this is in force.
    ends_at: EventTime,
}

/// Stops by the keys of their rows.
#[derive(Debug, Default)]
pub(crate) struct Stops {
    known: BTreeMap<String, Known>,
    /// Stops that were not taken because there were too many.
    pub(crate) left_out: u64,
}

impl Stops {
    /// Whether a row's key is that of a stop.
    pub(crate) fn is_key(key: &str) -> bool {
        SubjectKey::of_stop_key(key).is_some()
    }

    /// Takes a state row; none: nobody is stopped there.
    pub(crate) fn row(&mut self, key: &str, row: Option<RowUpdate>, now: EventTime) {
        let Some(RowUpdate { epoch, seq, verdicts }) = row else {
            self.known.remove(key);
            return;
        };
        if self.known.get(key).is_some_and(|known| (known.epoch, known.seq) > (epoch, seq)) {
            return;
        }
        match verdicts.into_iter().find(|verdict| verdict.expires_at > now) {
            Some(verdict) => {
                let ends_at = verdict.expires_at;
                self.put(key, Known { epoch, seq, verdict: Some(Arc::new(verdict)), ends_at });
            }
            None => drop(self.known.remove(key)),
        }
    }

    /// Takes a command that is newer than the last of its subject.
    pub(crate) fn command(&mut self, key: &str, command: CommandUpdate, now: EventTime) {
        let CommandUpdate { epoch, seq, verdict, expires_at, .. } = command;
        if expires_at <= now || self.known.get(key).is_some_and(|known| (known.epoch, known.seq) >= (epoch, seq)) {
            return;
        }
        let ends_at = self.known.get(key).map_or(expires_at, |known| known.ends_at.max(expires_at));
        self.put(key, Known { epoch, seq, verdict: verdict.map(Arc::new), ends_at });
    }

    /// The stops in force that bind an agent.
    pub(crate) fn binding(&self, agent: &Agent, now: EventTime) -> Vec<Arc<Verdict>> {
        if self.known.is_empty() {
            return Vec::new();
        }
        let keys = agent.who().all().map(|whom| SubjectKey::Stop(whom).row_key());
        let verdicts = keys.filter_map(|key| self.known.get(&key)?.verdict.clone());
        verdicts.filter(|verdict| verdict.expires_at > now).collect()
    }

    /// Until when a subject is stopped.
    pub(crate) fn until(&self, key: &str, now: EventTime) -> Option<EventTime> {
        self.known.get(key)?.verdict.as_ref().map(|verdict| verdict.expires_at).filter(|end| *end > now)
    }

    /// Forgets what is in force no more.
    pub(crate) fn sweep(&mut self, now: EventTime) {
        self.known.retain(|_, known| known.ends_at > now);
    }

    fn put(&mut self, key: &str, known: Known) {
        if self.known.len() < STOPS_MAX || self.known.contains_key(key) {
            self.known.insert(key.to_owned(), known);
        } else {
            self.left_out += 1;
        }
    }
}
