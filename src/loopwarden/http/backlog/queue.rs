//! What waits in one input of the embedded log to be judged, oldest first.

use std::{collections::VecDeque, sync::Arc};

/// Appends of one sender within so many milliseconds are one entry: more where the queue is long, whose entries so stay few.
const TOGETHER_MS: u64 = 10;
/// What part of a queue's whole time they may lie apart.
const TOGETHER_PART: u64 = 1_024;

/// Events of one sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// The offset behind the last of them.
    pub(super) end: u64,
    /// When the first of them came, by the clock of the backlog.
    pub(super) since_ms: u64,
    /// None: nobody who is held to a share.
    pub(super) sender: Option<Arc<str>>,
    pub(super) events: usize,
}

/// Entries in the order of their offsets.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Next offset to be judged.
    judged: u64,
    entries: VecDeque<Entry>,
    /// Entries at the front that count for nobody any more.
    forgotten: usize,
}

impl Queue {
    /// Everything before this offset was judged before there was a queue.
    pub(super) fn new(judged: u64) -> Self {
        Self { judged, ..Self::default() }
    }

    /// Adds events. False where they have been judged already: lanes may be faster than whoever tells of them.
    pub(super) fn push(&mut self, entry: Entry) -> bool {
        if entry.end <= self.judged {
            return false;
        }
        let together_ms =
            TOGETHER_MS.max(self.since_ms().map_or(0, |first_ms| entry.since_ms.saturating_sub(first_ms) / TOGETHER_PART));
        // Appends of two requests are told of in any order.
        let at = self.entries.partition_point(|known| known.end <= entry.end);
        let is_last = at == self.entries.len();
        match self.entries.back_mut() {
            Some(last)
                if is_last && last.sender == entry.sender && entry.since_ms.saturating_sub(last.since_ms) < together_ms =>
            {
                last.end = entry.end;
                last.events += entry.events;
            }
            _ => self.entries.insert(at, entry),
        }
        true
    }

    /// Everything before this offset is judged: how many records that are, and of them the entries.
    pub(super) fn judge(&mut self, next: u64, mut judged: impl FnMut(Entry)) -> u64 {
        let count = next.saturating_sub(self.judged);
        self.judged += count;
        while self.entries.front().is_some_and(|entry| entry.end <= next) {
            if let Some(entry) = self.entries.pop_front() {
                self.forgotten = self.forgotten.saturating_sub(1);
                judged(entry);
            }
        }
        count
    }

    /// What has waited since before a time counts for nobody any more: whose it was, and how much.
    pub(super) fn forget(&mut self, before_ms: u64, mut forgotten: impl FnMut(Option<Arc<str>>, usize)) {
        while let Some(entry) = self.entries.get_mut(self.forgotten).filter(|entry| entry.since_ms < before_ms) {
            forgotten(entry.sender.take(), std::mem::take(&mut entry.events));
            self.forgotten += 1;
        }
    }

    /// Since when the oldest waits.
    pub(super) fn since_ms(&self) -> Option<u64> {
        self.entries.front().map(|entry| entry.since_ms)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(end: u64, since_ms: u64, sender: &str) -> Entry {
        Entry { end, since_ms, sender: Some(sender.into()), events: 1 }
    }

    #[test]
    fn what_waits_is_told_by_its_oldest_and_leaves_when_it_is_judged() {
        let mut queue = Queue::new(5);
        assert!(!queue.push(entry(5, 0, "a")), "it was judged before it was told of");
        assert!(queue.push(entry(6, 10, "a")) && queue.push(entry(7, 12, "a")), "one entry");
        assert!(queue.push(entry(9, 13, "b")) && queue.push(entry(8, 14, "c")), "in the order of their offsets");
        assert_eq!((queue.len(), queue.since_ms()), (3, Some(10)));
        let mut judged = Vec::new();
        assert_eq!(queue.judge(8, |entry| judged.push((entry.end, entry.events))), 3);
        assert_eq!((judged, queue.since_ms()), (vec![(7, 2), (8, 1)], Some(13)));
        queue.judge(9, drop);
        assert_eq!(queue.since_ms(), None);
    }

    #[test]
    fn what_waits_for_ever_is_forgotten_once_and_still_waits() {
        let mut queue = Queue::new(0);
        for (end, since_ms) in [(1, 10), (2, 20), (3, 30)] {
            queue.push(entry(end, since_ms, if end == 2 { "b" } else { "a" }));
        }
        let mut forgotten = 0;
        queue.forget(25, |_, events| forgotten += events);
        queue.forget(25, |_, events| forgotten += events);
        assert_eq!((forgotten, queue.since_ms()), (2, Some(10)));
        let mut left = 0;
        queue.judge(3, |entry| left += entry.events);
        assert_eq!((left, queue.forgotten), (1, 0));
    }

    #[test]
    fn a_queue_that_nobody_reads_stays_small() {
        let mut queue = Queue::new(0);
        for end in 1..=1_000_000 {
            queue.push(Entry { end, since_ms: end * 10, sender: None, events: 0 });
        }
        assert!(queue.len() < 20_000, "{}", queue.len());
    }
}
