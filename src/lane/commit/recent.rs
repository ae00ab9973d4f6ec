//! The last commands of a process, for whoever looks at it where they are in a topic: bounded, and only what is committed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loopwarden_core::limits::{RECENT_BYTES_MAX, RECENT_COMMANDS_MAX};

/// A command as it was published, with its number in this process, from 1.
pub type Numbered = (u64, Arc<[u8]>);

/// The commands of a commit as the ring takes them.
#[derive(Debug, Default)]
pub(crate) struct CommittedCommands {
    /// So many came before, and would have been pushed out by those that follow.
    left_out: usize,
    commands: VecDeque<Arc<[u8]>>,
}

impl CommittedCommands {
    /// Copies one, and lets the oldest go that will not be kept.
    pub(crate) fn push(&mut self, command: &[u8]) {
        if self.commands.len() >= RECENT_COMMANDS_MAX {
            self.left_out += usize::from(self.commands.pop_front().is_some());
        }
        self.commands.push_back(Arc::from(command));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }
}

#[derive(Debug, Default)]
struct Ring {
    /// Number of the last one.
    last: u64,
    bytes: usize,
    commands: VecDeque<Arc<[u8]>>,
}

/// The ring; clones are the same one. Lanes take its lock once a commit that holds a command.
#[derive(Debug, Clone, Default)]
pub struct Recent(Arc<Mutex<Ring>>);

impl Recent {
    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These became visible, in this order.
    pub(crate) fn extend(&self, told: CommittedCommands) {
        let mut ring = self.lock();
        if told.left_out > 0 {
            ring.last += told.left_out as u64;
            ring.bytes = 0;
            ring.commands.clear();
        }
        for command in told.commands {
            ring.last += 1;
            ring.bytes += command.len();
            ring.commands.push_back(command);
        }
        while ring.commands.len() > RECENT_COMMANDS_MAX || (ring.bytes > RECENT_BYTES_MAX && ring.commands.len() > 1) {
            let gone = ring.commands.pop_front().map_or(0, |command| command.len());
            ring.bytes = ring.bytes.saturating_sub(gone);
        }
    }

    /// Those after a number that are still kept, oldest first, and the number of the last one ever.
    pub fn after(&self, number: u64) -> (Vec<Numbered>, u64) {
        let ring = self.lock();
        let first = ring.last - ring.commands.len() as u64 + 1;
        let numbered = (first..).zip(ring.commands.iter().cloned());
        (numbered.filter(|(own, _)| *own > number).collect(), ring.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told<'a>(commands: impl Iterator<Item = &'a [u8]>) -> CommittedCommands {
        let mut told = CommittedCommands::default();
        commands.for_each(|command| told.push(command));
        told
    }

    fn extend(recent: &Recent, commands: &[&[u8]]) {
        recent.extend(told(commands.iter().copied()));
    }

    fn numbers(recent: &Recent, after: u64) -> Vec<u64> {
        recent.after(after).0.into_iter().map(|(number, _)| number).collect()
    }

    #[test]
    fn the_last_ones_are_kept_under_numbers_that_stay() {
        let recent = Recent::default();
        assert_eq!(recent.after(0), (vec![], 0));
        extend(&recent, &[b"a", b"b"]);
        assert_eq!((numbers(&recent, 0), numbers(&recent, 1), numbers(&recent, 2)), (vec![1, 2], vec![2], vec![]));
        extend(&recent, &[&b"c"[..]; RECENT_COMMANDS_MAX]);
        assert_eq!(numbers(&recent, 0).len(), RECENT_COMMANDS_MAX);
        assert_eq!((numbers(&recent, 0)[0], recent.after(0).1), (3, RECENT_COMMANDS_MAX as u64 + 2));
    }

    #[test]
    fn of_more_than_are_kept_only_the_last_stay_and_the_others_are_counted() {
        let recent = Recent::default();
        extend(&recent, &[b"a"]);
        let commands: Vec<Vec<u8>> = (0..RECENT_COMMANDS_MAX + 3).map(|number| number.to_be_bytes().to_vec()).collect();
        let told = told(commands.iter().map(Vec::as_slice));
        assert_eq!((told.left_out, told.commands.len()), (3, RECENT_COMMANDS_MAX));
        recent.extend(told);
        let (kept, last) = recent.after(0);
        assert_eq!((kept.len(), last), (RECENT_COMMANDS_MAX, RECENT_COMMANDS_MAX as u64 + 4));
        assert_eq!((kept[0].0, &*kept[0].1), (5, commands[3].as_slice()));
        extend(&recent, &[b"z"]);
        assert_eq!(numbers(&recent, last), vec![last + 1]);
    }

    #[test]
    fn huge_commands_are_bounded_by_bytes_and_the_last_is_always_kept() {
        let recent = Recent::default();
        let huge = vec![b'x'; RECENT_BYTES_MAX];
        extend(&recent, &[huge.as_slice(); 3]);
        assert_eq!(numbers(&recent, 0), vec![3]);
    }
}
