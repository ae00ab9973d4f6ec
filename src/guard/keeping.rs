//! What binds while its source is away, is read anew, or while the guard restarts: it is kept beside what comes, until the source was read
//! from its beginning to its end. So neither a restart nor a source that begins anew lifts a stop.

use loopwarden_core::event::EventTime;

use crate::guard::Guard;
use crate::table::kept::Kept;

/// What binds, by how often it has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Revision {
    all: [u64; 3],
    /// Stops alone.
    pub stops: [u64; 2],
}

impl Revision {
    /// That of no guard.
    pub const NONE: Self = Self { all: [u64::MAX; 3], stops: [u64::MAX; 2] };
}

impl Guard {
    /// The source is read from its beginning, which may be that of another one: what binds is kept until all of it is read.
    pub fn reads_anew(&mut self, now: EventTime) {
        let rows = std::mem::take(&mut self.rows);
        self.rows.evicted = rows.evicted;
        self.kept.keep(rows.blocked(now), |known, new| known.ends_at >= new.ends_at);
        self.is_partial = true;
        self.readings += 1;
    }

    /// All that the source has is known. `has_all`: it still had its beginning. Else what is kept, and not heard of in this reading, is in
    /// force for all one knows.
    pub fn is_whole(&mut self, has_all: bool, now: EventTime) {
        if !self.is_partial && self.kept.is_empty() {
            return;
        }
        let kept = std::mem::take(&mut self.kept);
        if !has_all {
            self.rows.keep(kept.blocked(now), |_, _| true);
        }
        (self.is_partial, self.kept_at) = (false, None);
        self.readings += 1;
    }

    /// What binds now, for a file that outlives the guard.
    #[must_use]
    pub fn kept(&self, now: EventTime) -> Kept {
        Kept(self.kept.blocked(now).chain(self.rows.blocked(now)).collect())
    }

    /// Another one once what binds may have changed.
    #[must_use]
    pub const fn revision(&self) -> Revision {
        Revision {
            all: [self.readings, self.kept.changes, self.rows.changes],
            stops: [self.kept.stop_changes, self.rows.stop_changes],
        }
    }

    /// Takes over what bound before a restart; whether anything still does. It binds and releases nobody: an answer that comes of it is stale.
    pub fn restore(&mut self, kept: Kept, now: EventTime) -> bool {
        self.kept.keep(kept.0, |known, new| known.ends_at >= new.ends_at);
        self.kept.sweep(now);
        self.kept_at = Some(now);
        !self.kept.is_empty()
    }
}
