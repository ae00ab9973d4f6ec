//! A question over all sessions: those that matter first. A lane judges nothing while it looks, so it looks at a slice of them at a time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use loopwarden_core::engine::{AgentStanding, AgentState, Cost, Head, SEPARATOR, SubjectKey, Surroundings};
use loopwarden_core::event::{EventTime, Stage, TaskId};
use loopwarden_core::{detect::Flags, setting::words, whom::Whom};
use loopwarden_state::{KeyFamily, StoreError, session};

use crate::settings::ProcessMode;
use crate::view::ask::{TaskState, TaskView, View};

/// Sessions that one look goes over: some ten milliseconds.
const SLICE_MAX: usize = 5_000;

words! {
    /// Which sessions a question is about, by the states of their agents.
    pub enum SessionState {
        All = "all",
        /// Any in which an agent loops.
        Looping = "looping",
        /// Blocked, or what would be.
        Blocked = "blocked",
        Stopped = "stopped",
    }
}

words! {
    /// What sessions are ordered by; the greatest comes first.
    pub enum SessionOrder {
        Cost = "cost",
        Tokens = "tokens",
        Calls = "calls",
        /// How long it loops by now.
        Loop = "loop",
        Seen = "seen",
    }
}

/// A question over all sessions of a process.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// Of these tenants, the empty name for none; absent: of all.
    pub tenants: Option<BTreeSet<String>>,
    pub state: SessionState,
    pub order: SessionOrder,
    pub rows_max: usize,
    /// Those that operators stop, wherever that is kept.
    pub stops: BTreeSet<Whom>,
    pub now: EventTime,
}

/// An agent of a session as of the last commit, in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    pub subject: SubjectKey,
    pub swarm_id: String,
    /// Of all its events; 0: none has reported any.
    pub used: Cost,
    pub standing: AgentStanding,
    /// The narrowest stop that binds it.
    pub stop: Option<Whom>,
    pub seen: EventTime,
}

impl SessionRow {
    /// `around`: of its agent, but for what the question knows.
    fn of(subject: SubjectKey, head: &Head, around: Surroundings, listing: &Listing) -> Self {
        let stop = listing.stop_of(&subject, head);
        Self {
            swarm_id: head.swarm_id.to_string(),
            used: Cost { calls: around.next_sequence, ..head.used },
            standing: AgentStanding::of(head, &Surroundings { is_stopped: stop.is_some(), now: listing.now, ..around }),
            stop,
            seen: head.time,
            subject,
        }
    }

    /// The greatest comes first; of equal ones the first by its name.
    fn rank(&self, order: SessionOrder) -> (Reverse<[i128; 3]>, &SubjectKey) {
        let [cost, tokens, calls] = [self.used.micro_usd, self.used.tokens, self.used.calls].map(i128::from);
        let first = match order {
            SessionOrder::Cost => [cost, tokens, calls],
            SessionOrder::Tokens => [tokens, cost, calls],
            SessionOrder::Calls => [calls, cost, tokens],
            SessionOrder::Loop => [self.standing.since.map_or(i128::MIN, |since| -i128::from(since.0)), cost, calls],
            SessionOrder::Seen => [i128::from(self.seen.0), cost, calls],
        };
        (Reverse(first), &self.subject)
    }
}

impl Listing {
    fn wants(&self, row: &SessionRow) -> bool {
        match self.state {
            SessionState::All => true,
            SessionState::Looping => row.standing.state.loops(),
            SessionState::Blocked => matches!(row.standing.state, AgentState::Blocked | AgentState::WouldBlock),
            SessionState::Stopped => row.standing.state == AgentState::Stopped,
        }
    }

    fn stop_of(&self, subject: &SubjectKey, head: &Head) -> Option<Whom> {
        if self.stops.is_empty() {
            return None;
        }
        head.who(subject)?.all().find(|whom| self.stops.contains(whom))
    }

    /// Beginnings of the keys that are looked at, in order.
    fn prefixes(&self) -> Vec<String> {
        let of = |tenant: &String| format!("{tenant}{SEPARATOR}");
        let mut prefixes = self.tenants.as_ref().map_or_else(|| vec![String::new()], |names| names.iter().map(of).collect());
        prefixes.sort_unstable();
        prefixes
    }
}

/// Where a look at sessions goes on: tasks that are not through, each with the key of its next session.
pub type Places = BTreeMap<TaskId, Vec<u8>>;

/// What one look, or several one after the other, have found.
#[derive(Debug, Clone, Default)]
pub struct Listed {
    /// The first ones, in order.
    pub rows: Vec<SessionRow>,
    /// All that were wanted among those that were looked at.
    pub found: u64,
    pub looked_at: u64,
    /// How many of them are in each state, in the order of [`AgentState::ALL`].
    pub states: [u64; AgentState::ALL.len()],
    /// Where to go on; empty: all were looked at.
    pub next: Places,
    /// A task that is not running holds sessions that nobody can look at yet.
    pub is_partial: bool,
}

impl Listed {
    /// Puts another look beside it.
    pub fn add(&mut self, other: Self, listing: &Listing) {
        self.rows.extend(other.rows);
        self.keep_first(listing);
        self.found += other.found;
        self.looked_at += other.looked_at;
        for (sum, more) in self.states.iter_mut().zip(other.states) {
            *sum += more;
        }
        self.next.extend(other.next);
        self.is_partial |= other.is_partial;
    }

    fn keep_first(&mut self, listing: &Listing) {
        self.rows.sort_unstable_by(|one, other| one.rank(listing.order).cmp(&other.rank(listing.order)));
        self.rows.truncate(listing.rows_max);
    }

    fn take(&mut self, row: SessionRow, listing: &Listing) {
        if let Some(agents) = self.states.get_mut(row.standing.state as usize) {
            *agents += 1;
        }
        if !listing.wants(&row) {
            return;
        }
        self.found += 1;
        self.rows.push(row);
        if self.rows.len() >= 2 * listing.rows_max.max(SLICE_MAX / 8) {
            self.keep_first(listing);
        }
    }
}

impl View<'_> {
    /// Looks at a slice of the sessions: at the first ones, or from where an earlier look stopped on.
    ///
    /// # Errors
    /// The store failed.
    pub fn listed(&self, listing: &Listing, from: Option<&Places>) -> Result<Listed, StoreError> {
        let is_partial = |task: &TaskView| task.id.stage == Stage::Session && task.state != TaskState::Running;
        let mut listed = Listed { is_partial: self.tasks.iter().any(is_partial), ..Listed::default() };
        for id in self.running(Stage::Session) {
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
        let mut next = None;
        let binds = self.mode == ProcessMode::Live;
        self.scan((id, KeyFamily::Head), prefix, from, |key, value| {
            if listed.looked_at >= SLICE_MAX as u64 {
                next = Some(key.to_vec());
                return Ok(ControlFlow::Break(()));
            }
            listed.looked_at += 1;
            let (head, ring, open) = session::decode_whole_head(value)?;
            if let Some(subject) = session::subject_of(key) {
                // The newest step lies in the head.
                let newest =
                    open.iter().find(|(slot, ..)| ring.sequence_in(*slot).is_some_and(|at| at + 1 == ring.next_sequence));
                let polls = newest.is_some_and(|(_, step, _)| step.flags.contains(Flags::POLL));
                let around = Surroundings { next_sequence: ring.next_sequence, polls, binds, ..Surroundings::default() };
                listed.take(SessionRow::of(subject, &head, around, listing), listing);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use loopwarden_core::whom::Kind;

    use super::*;

    fn row(session_id: &str, micro_usd: u64, calls: u64, since: Option<i64>) -> SessionRow {
        SessionRow {
            subject: SubjectKey::Agent { tenant: "t".to_owned(), session_id: session_id.to_owned(), agent_id: "main".to_owned() },
            swarm_id: String::new(),
            used: Cost { calls, tokens: 0, micro_usd },
            standing: AgentStanding {
                state: if since.is_some() { AgentState::Nudged } else { AgentState::Running },
                detector: None,
                since: since.map(EventTime),
            },
            stop: None,
            seen: EventTime(calls as i64),
        }
    }

    fn names(listed: &Listed) -> Vec<String> {
        listed.rows.iter().map(|row| row.subject.record_key().into_owned()).collect()
    }

    #[test]
    fn looks_that_are_put_together_keep_the_first_ones_whatever_their_order() {
        for (order, expected) in [
            (SessionOrder::Cost, ["b", "a"]),
            (SessionOrder::Calls, ["c", "d"]),
            (SessionOrder::Loop, ["d", "b"]),
            (SessionOrder::Seen, ["c", "d"]),
        ] {
            let listing = Listing { order, rows_max: 2, ..Listing::default() };
            let rows = [row("a", 5, 1, None), row("b", 9, 2, Some(7)), row("c", 0, 90, Some(8)), row("d", 0, 30, Some(3))];
            for turn in 0..rows.len() {
                let mut all = Listed::default();
                for at in 0..rows.len() {
                    let mut one = Listed::default();
                    one.take(rows[(at + turn) % rows.len()].clone(), &listing);
                    all.add(one, &listing);
                }
                assert_eq!((names(&all), all.found), (expected.map(str::to_owned).to_vec(), 4), "{order:?}");
            }
        }
    }

    #[test]
    fn a_state_narrows_and_the_narrowest_stop_is_the_one_that_is_shown() {
        let (all, tenant, session) =
            (Whom::new("", Kind::All, ""), Whom::new("t", Kind::Tenant, ""), Whom::new("t", Kind::Session, "a"));
        let mut listing = Listing { state: SessionState::Stopped, ..Listing::default() };
        let found = |listing: &Listing| listing.stop_of(&row("a", 0, 0, None).subject, &Head::default());
        assert_eq!(found(&listing), None);
        for stop in [all, tenant, session] {
            listing.stops.insert(stop.clone());
            assert_eq!(found(&listing), Some(stop.clone()));
            let standing = AgentStanding { state: AgentState::Stopped, ..AgentStanding::default() };
            let stopped = SessionRow { stop: Some(stop), standing, ..row("a", 0, 0, None) };
            assert!(listing.wants(&stopped) && !listing.wants(&row("a", 0, 0, Some(1))));
        }
        listing.stops = [Whom::new("u", Kind::Session, "a"), Whom::new("t", Kind::Swarm, "")].into();
        assert_eq!(found(&listing), None, "of another tenant, and of no swarm");
        listing.state = SessionState::Looping;
        assert!(listing.wants(&row("a", 0, 0, Some(1))) && !listing.wants(&row("a", 0, 0, None)));
        listing.state = SessionState::Blocked;
        assert!(!listing.wants(&row("a", 0, 0, Some(1))));
    }
}
