//! The board of a subject, be it a session's agent, a counter or whom an operator stops: what is in force, which command was the last, and which
//! events it has seen.
//!
//! A nudge is replaced by what follows in its episode. A block stands until it expires, is renewed, or gets an `unblock`.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

use crate::detect::{Advice, Step};
use crate::engine::command::{Action, Command, CommandId, IdentityRecipe, Origin, Placement, ReasonCode, Scope};
use crate::event::{EventTime, Reach};
use crate::identity::Hash64;
use crate::limits::{ACTIVE_VERDICTS_MAX, RECENT_IDS_MAX};
use crate::policy::Detector;

/// What is known of a subject beside what it is judged by.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Board {
    /// Beginning of the numbering: of a session the record timestamp at which it began, above every former one; of a counter the beginning
    /// of the period that has published last; of a stop the record timestamp of the first act. Unix ms.
    pub epoch: i64,
    /// Number of live commands of the epoch so far.
    pub seq: u64,
    /// Live verdicts that have not expired.
    pub verdicts: Verdicts,
    /// Ids of the last events that nothing else remembers, oldest first; at most [`RECENT_IDS_MAX`].
    pub seen: VecDeque<Hash64>,
}

impl Board {
    /// Number of the next live command.
    pub(crate) const fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// Notes a command that is numbered elsewhere. Of epochs that overlap in time, the last one gives the numbers.
    pub(crate) fn note_sent(&mut self, epoch: i64, seq: u64) {
        (self.epoch, self.seq) = (self.epoch, self.seq).max((epoch, seq));
    }

    /// Whether an event was among the last ones: a copy of it changes nothing.
    #[must_use]
    pub fn has_seen(&self, id: Hash64) -> bool {
        self.seen.contains(&id)
    }

    /// Remembers an event.
    pub(crate) fn note_seen(&mut self, id: Hash64) {
        if self.seen.len() >= RECENT_IDS_MAX {
            self.seen.pop_front();
        }
        self.seen.push_back(id);
    }

    /// Whether an event is new; it is seen from now on.
    pub(crate) fn takes(&mut self, id: Hash64) -> bool {
        let is_new = !self.has_seen(id);
        if is_new {
            self.note_seen(id);
        }
        is_new
    }
}

/// A live verdict that holds until it expires: one entry of the subject's state row.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The command that placed it.
    pub command_id: CommandId,
    /// Nudge or block.
    pub action: Action,
    pub scope: Scope,
    /// Rung of the ladder.
    pub level: u8,
    pub episode: CommandId,
    pub by: PlacedBy,
    pub message: String,
    pub placement: Placement,
    /// One word for orchestrators.
    pub advice: Option<Advice>,
    pub issued_at: EventTime,
    /// Until when it holds.
    pub expires_at: EventTime,
}

/// Who has placed a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlacedBy {
    /// It found a loop.
    Detector(Detector),
    /// A person stops agents for a while.
    Operator(Box<OperatorStop>),
}

/// A stop, in the words of whoever stops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorStop {
    /// Who stops; empty where the event names nobody.
    pub actor: String,
    pub reason: String,
    /// An agent that was stopped and can ask no guard any more goes on being stopped.
    pub fails_closed: bool,
    /// Only who reaches as far ends it or shortens it.
    pub reach: Reach,
}

impl PlacedBy {
    /// The word on the wire.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Detector(detector) => detector.as_str(),
            Self::Operator(_) => ReasonCode::Stop.as_str(),
        }
    }
}

impl Verdict {
    /// What a command leaves in force.
    #[must_use]
    pub fn of(command: &Command, by: PlacedBy) -> Self {
        Self {
            command_id: command.id,
            action: command.action,
            scope: command.scope.clone(),
            level: command.level,
            episode: command.episode,
            by,
            message: command.message.clone().unwrap_or_default(),
            placement: command.placement.clone(),
            advice: command.advice,
            issued_at: command.issued_at,
            expires_at: command.expires_at,
        }
    }

    /// The command that ends a block before it expires.
    pub(crate) fn unblock(&self, origin: Origin<'_>, reason: ReasonCode) -> Command {
        Command {
            episode: self.episode,
            summary: format!("block by {} lifted: {}", self.by.as_str(), reason.as_str()),
            ..Command::new(origin, Action::Unblock, reason, self.scope.clone(), self.level, self.expires_at)
        }
    }

    /// The detector that has placed it, if one has.
    #[must_use]
    pub const fn detector(&self) -> Option<Detector> {
        match self.by {
            PlacedBy::Detector(detector) => Some(detector),
            PlacedBy::Operator(_) => None,
        }
    }

    /// The stop that it is, if it is one.
    #[must_use]
    pub fn stop(&self) -> Option<&OperatorStop> {
        match &self.by {
            PlacedBy::Detector(_) => None,
            PlacedBy::Operator(stop) => Some(stop),
        }
    }

    /// Whether it refuses a call of `tool` at `time`.
    #[must_use]
    pub fn refuses(&self, step: &Step, tool: &str, time: EventTime) -> bool {
        self.action == Action::Block
            && self.expires_at > time
            && self.scope.has_tool(tool)
            && self.scope.fingerprint.as_ref().is_none_or(|(hash, recipe)| match recipe {
                IdentityRecipe::Coarse(_) => *hash == step.fingerprint,
                _ => *hash == step.call,
            })
    }
}

/// Live verdicts, oldest first; at most [`ACTIVE_VERDICTS_MAX`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Verdicts(Vec<Verdict>);

impl Deref for Verdicts {
    type Target = [Verdict];

    fn deref(&self) -> &[Verdict] {
        &self.0
    }
}

impl DerefMut for Verdicts {
    fn deref_mut(&mut self) -> &mut [Verdict] {
        &mut self.0
    }
}

impl From<Vec<Verdict>> for Verdicts {
    fn from(verdicts: Vec<Verdict>) -> Self {
        Self(verdicts)
    }
}

impl FromIterator<Verdict> for Verdicts {
    fn from_iter<I: IntoIterator<Item = Verdict>>(verdicts: I) -> Self {
        Self(verdicts.into_iter().collect())
    }
}

impl Verdicts {
    pub fn blocks(&self) -> impl Iterator<Item = &Verdict> {
        self.iter().filter(|verdict| verdict.action == Action::Block)
    }

    /// The block that refuses a call of `tool` at `time`.
    pub fn refuses(&self, step: &Step, tool: &str, time: EventTime) -> Option<&Verdict> {
        self.iter().find(|verdict| verdict.refuses(step, tool, time))
    }

    /// When the first of them expires.
    pub fn next_expiry(&self) -> Option<EventTime> {
        self.iter().map(|verdict| verdict.expires_at).min()
    }

    /// Takes the verdict of a command; true if that changed anything. Expired verdicts leave, and those of its episode that it
    /// replaces: nudges, and a block of the same calls if it is a block.
    pub(crate) fn activate(&mut self, command: &Command, detector: Detector, now: EventTime) -> bool {
        if command.is_shadow || command.expires_at <= now {
            return false;
        }
        let is_block = command.action == Action::Block;
        self.0.retain(|verdict| {
            let is_replaced = verdict.action != Action::Block || (is_block && verdict.scope.binds_same_calls(&command.scope));
            verdict.expires_at > now && (verdict.episode != command.episode || !is_replaced)
        });
        if self.len() < ACTIVE_VERDICTS_MAX || self.make_room(command) {
            self.0.push(Verdict::of(command, PlacedBy::Detector(detector)));
        }
        true
    }

    /// Removes the oldest nudge. Among blocks alone a nudge finds no room: each of them must be there to be lifted. A block takes the
    /// place of another one of its episode, else of the oldest.
    fn make_room(&mut self, command: &Command) -> bool {
        let nudge = self.iter().position(|verdict| verdict.action == Action::Nudge);
        let block = || self.iter().position(|verdict| verdict.episode == command.episode).unwrap_or(0);
        let leaves = nudge.or_else(|| (command.action == Action::Block).then(block));
        leaves.map(|at| self.0.remove(at)).is_some()
    }

    /// Removes the verdicts that have expired, and returns them.
    pub(crate) fn expire(&mut self, now: EventTime) -> Vec<Verdict> {
        self.0.extract_if(.., |verdict| verdict.expires_at <= now).collect()
    }

    /// Removes the blocks in force that are meant, with all blocks of their episodes. Returns one of each episode, with the
    /// latest expiry.
    pub(crate) fn unblock(&mut self, now: EventTime, is_meant: impl Fn(&Verdict) -> bool) -> Vec<Verdict> {
        let mut lifted: Vec<Verdict> = Vec::new();
        for block in self.blocks().filter(|block| block.expires_at > now && is_meant(block)) {
            match lifted.iter_mut().find(|known| known.episode == block.episode) {
                Some(known) => known.expires_at = known.expires_at.max(block.expires_at),
                None => lifted.push(block.clone()),
            }
        }
        let is_lifted = |verdict: &Verdict| lifted.iter().any(|known| known.episode == verdict.episode);
        self.0.retain(|verdict| verdict.action != Action::Block || !is_lifted(verdict));
        lifted
    }

    /// Removes all that an episode left in force, and returns it.
    pub(crate) fn lift(&mut self, episode: CommandId) -> Vec<Verdict> {
        self.0.extract_if(.., |verdict| verdict.episode == episode).collect()
    }

    /// Removes the nudges; true if there were any.
    pub(crate) fn keep_blocks(&mut self) -> bool {
        let before = self.len();
        self.0.retain(|verdict| verdict.action == Action::Block);
        self.len() < before
    }

    /// Removes all of them; true if there were any.
    pub fn clear(&mut self) -> bool {
        let had_any = !self.is_empty();
        self.0.clear();
        had_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_new_once_for_as_long_as_it_is_remembered() {
        let mut board = Board::default();
        assert!(board.takes(Hash64(1)) && !board.takes(Hash64(1)));
        for id in 2..RECENT_IDS_MAX as u64 + 2 {
            assert!(board.takes(Hash64(id)));
        }
        assert!(!board.has_seen(Hash64(1)) && board.seen.len() == RECENT_IDS_MAX);
    }

    #[test]
    fn of_epochs_that_overlap_the_last_one_gives_the_numbers() {
        let mut board = Board::default();
        for (sent, expected) in [((5, 3), (5, 3)), ((4, 9), (5, 3)), ((5, 4), (5, 4))] {
            board.note_sent(sent.0, sent.1);
            assert_eq!((board.epoch, board.seq), expected);
        }
        assert_eq!(board.next_seq(), 5);
    }
}
