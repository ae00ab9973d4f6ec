//! The transaction coordinator: epochs, open transactions, decisions, markers.

use std::collections::{BTreeMap, BTreeSet};

use loopwarden_core::event::{NextOffset, TaskId};

use crate::broker::State;
use crate::{MemoryRecord, MemoryTopic};

/// Why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// The epoch is not the current one.
    Fenced,
    /// The group refuses the offsets.
    Group(&'static str),
}

#[derive(Debug)]
struct Transaction {
    number: u64,
    began_ms: i64,
    touched: BTreeSet<(MemoryTopic, u32)>,
    offsets: BTreeMap<TaskId, NextOffset>,
    /// Decided, but some markers are not written yet.
    decided: Option<bool>,
}

/// One transactional id.
#[derive(Debug, Default)]
pub(super) struct Producer {
    epoch: u64,
    transaction: Option<Transaction>,
    /// Requests to commit that are on their way: the epoch they carry.
    late: Vec<u64>,
}

/// How soon the markers of a decision are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Markers {
    AtOnce,
    OffsetsLater,
    RecordsLater,
}

impl State {
    /// `init_transactions`: finishes what is open, returns the new epoch.
    pub(super) fn init_producer(&mut self, id: &str) -> u64 {
        self.finish(id, false);
        let producer = self.producers.entry(id.to_owned()).or_default();
        producer.epoch += 1;
        producer.epoch
    }

    /// Whether this epoch is the current one.
    pub(super) fn check_epoch(&self, id: &str, epoch: u64) -> Result<(), Refused> {
        let current = self.producers.get(id).map_or(0, |producer| producer.epoch);
        if current == epoch { Ok(()) } else { Err(Refused::Fenced) }
    }

    fn transaction(&mut self, id: &str, epoch: u64) -> Result<&mut Transaction, Refused> {
        self.check_epoch(id, epoch)?;
        // The former one may still be completing; a client waits for that.
        if self.producers.get(id).is_some_and(|producer| producer.transaction.as_ref().is_some_and(|open| open.decided.is_some()))
        {
            self.finish(id, false);
        }
        self.transactions += 1;
        let (number, began_ms) = (self.transactions, self.now_ms);
        let producer = self.producers.entry(id.to_owned()).or_default();
        Ok(producer.transaction.get_or_insert_with(|| Transaction {
            number,
            began_ms,
            touched: BTreeSet::new(),
            offsets: BTreeMap::new(),
            decided: None,
        }))
    }

    /// Appends a record inside the transaction of this producer; opens it where there is none.
    pub(super) fn produce(&mut self, id: &str, epoch: u64, topic: MemoryTopic, record: MemoryRecord) -> Result<u64, Refused> {
        let place = (topic, record.partition);
        let transaction = self.transaction(id, epoch)?;
        transaction.touched.insert(place);
        let number = transaction.number;
        Ok(self.partition(place).append(Some(number), record))
    }

    /// Adds offsets to the transaction. They are pending until its end: nobody may take them for the group's position.
    pub(super) fn add_offsets(
        &mut self,
        id: &str,
        epoch: u64,
        offsets: &[(TaskId, NextOffset)],
        group: Result<(), &'static str>,
    ) -> Result<(), Refused> {
        let transaction = self.transaction(id, epoch)?;
        group.map_err(Refused::Group)?;
        transaction.offsets.extend(offsets.iter().copied());
        Ok(())
    }

    /// Decides. Without an open transaction nothing happens, as for a repeated request.
    pub(super) fn end(&mut self, id: &str, epoch: u64, commit: bool, markers: Markers) -> Result<(), Refused> {
        self.check_epoch(id, epoch)?;
        let Some(open) = self.producers.get_mut(id).and_then(|producer| producer.transaction.as_mut()) else { return Ok(()) };
        let decided = *open.decided.get_or_insert(commit);
        match markers {
            Markers::AtOnce => self.finish(id, decided),
            Markers::OffsetsLater => {
                let (number, touched) = (open.number, std::mem::take(&mut open.touched));
                for place in touched {
                    self.partition(place).end(number, decided);
                }
            }
            Markers::RecordsLater => {
                let offsets = std::mem::take(&mut open.offsets);
                if decided {
                    self.offsets.extend(offsets);
                }
            }
        }
        Ok(())
    }

    /// Writes the markers that are missing; an undecided transaction ends as `commit` says.
    pub(super) fn finish(&mut self, id: &str, commit: bool) {
        let Some(open) = self.producers.get_mut(id).and_then(|producer| producer.transaction.take()) else { return };
        let commit = open.decided.unwrap_or(commit);
        for place in open.touched {
            self.partition(place).end(open.number, commit);
        }
        if commit {
            self.offsets.extend(open.offsets);
        }
    }

    /// A request to commit will arrive later.
    pub(super) fn delay_commit(&mut self, id: &str, epoch: u64) {
        self.producers.entry(id.to_owned()).or_default().late.push(epoch);
    }

    /// Late requests arrive now and hit whatever is open; those of a former epoch are refused.
    pub(super) fn deliver_late(&mut self, id: &str) {
        let late = self.producers.get_mut(id).map(|producer| std::mem::take(&mut producer.late)).unwrap_or_default();
        for epoch in late {
            // Refused is what rule C15 is for: there is nobody left to tell.
            let _ = self.end(id, epoch, true, Markers::AtOnce);
        }
    }

    /// Time moved: markers and late requests arrive, transactions that are open for too long are aborted and their producers fenced.
    pub(super) fn expire_transactions(&mut self) {
        let ids: Vec<String> = self.producers.keys().cloned().collect();
        for id in ids {
            self.deliver_late(&id);
            let Some(producer) = self.producers.get_mut(&id) else { continue };
            let Some(open) = &producer.transaction else { continue };
            if open.decided.is_some() {
                self.finish(&id, false);
            } else if self.now_ms - open.began_ms > self.config.transaction_timeout_ms {
                producer.epoch += 1;
                self.finish(&id, false);
            }
        }
    }

    /// Whether an undecided or unfinished transaction holds an offset of the task.
    pub(super) fn offset_is_pending(&self, task: TaskId) -> bool {
        self.producers.values().filter_map(|producer| producer.transaction.as_ref()).any(|open| open.offsets.contains_key(&task))
    }

    pub(super) fn any_transaction(&self) -> bool {
        self.producers.values().any(|producer| producer.transaction.is_some())
    }
}
