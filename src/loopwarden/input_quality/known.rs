//! What a process knows of those who send to it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loopwarden_sources::{Batch, Became, Senders, Sources, Twofold};

/// What a process knows of those who send to it, since its start. Bounded as its parts are.
#[derive(Debug, Default)]
pub struct InputQuality {
    /// Intakes have it too.
    sources: Arc<Mutex<Sources>>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    senders: Senders,
    logged: BTreeSet<&'static str>,
    has_logged_twofold: bool,
}

impl InputQuality {
    /// Which source reports which session.
    pub(crate) fn sources(&self) -> Arc<Mutex<Sources>> {
        Arc::clone(&self.sources)
    }

    /// Takes what a body made, and names in it the sessions of two sources. What its senders could switch on is logged once.
    pub(crate) fn take(&self, batch: &mut Batch) {
        let mut sources = locked(&self.sources);
        sources.note_all(batch);
        let twofold = sources.twofold().0;
        drop(sources);
        self.count(&batch.senders);
        self.log_twofold(twofold);
        for hint in batch.senders.total().hints {
            if locked(&self.known).logged.insert(hint) {
                tracing::warn!(hint, "calls arrive without arguments or results");
            }
        }
    }

    /// Counts what came of senders.
    pub(crate) fn count(&self, senders: &Senders) {
        locked(&self.known).senders.add(senders);
    }

    /// Counts a body of which nothing could be read.
    pub(crate) fn refuse(&self, form: &'static str) {
        locked(&self.known).senders.count((form, ""), Became::Refused);
    }

    /// Notes who reports the ends of calls, as session and source. Equal neighbours count once.
    pub(crate) fn note<'a>(&self, ended: impl Iterator<Item = (&'a str, &'static str)>) {
        let mut last = None;
        let mut sources = locked(&self.sources);
        for (session_id, source) in ended {
            if last.replace((session_id, source)) != Some((session_id, source)) {
                sources.note(session_id, source);
            }
        }
        let twofold = sources.twofold().0;
        drop(sources);
        self.log_twofold(twofold);
    }

    fn log_twofold(&self, sessions: u64) {
        if sessions > 0 && !std::mem::replace(&mut locked(&self.known).has_logged_twofold, true) {
            tracing::warn!(code = "W0306", "two sources report the same session, so that its calls may count twice");
        }
    }

    /// What came of each sender over HTTP.
    pub(crate) fn senders(&self) -> Senders {
        locked(&self.known).senders.clone()
    }

    /// How many sessions of two sources there were, and the first of them.
    pub(crate) fn twofold(&self) -> (u64, Vec<Twofold>) {
        let sources = locked(&self.sources);
        let (sessions, examples) = sources.twofold();
        (sessions, examples.to_vec())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
