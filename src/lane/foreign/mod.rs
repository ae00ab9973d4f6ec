//! A foreign topic, whose records are no events, or have another key than their session: a lane makes events of them and writes these to the
//! input topic.
//!
//! A commit is that of any lane: the events, the dead letters and the offsets of what was read, in one transaction (page `commit`). There
//! is no state: what becomes of a record follows from the record alone, so that a restart forgets nothing, and a repetition writes the
//! same. What other lanes restore from a changelog, this one asks of the group, whose offsets moved with the events (rule C6).

pub(crate) mod form;
pub(crate) mod group;
pub(crate) mod processor;
pub(crate) mod report;
