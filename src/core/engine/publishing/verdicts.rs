//! The board of verdicts in force for one subject: a session's agent, or a swarm counter.
//!
//! A nudge is replaced by what follows in its episode. A block stands until it expires, is renewed, or gets an `unblock`.

use std::ops::{Deref, DerefMut};

use crate::detect::Step;
use crate::engine::publishing::command::{Action, Command, CommandId, Verdict};
use crate::event::EventTime;
use crate::limits::ACTIVE_VERDICTS_MAX;
use crate::policy::Detector;

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
            self.0.push(Verdict::of(command, detector));
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
