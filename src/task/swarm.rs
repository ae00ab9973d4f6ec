//! The seam to the swarm stage: what session tasks add up for it. Every commit sends all sums (rule W1): held back, a crash would lose
//! them, since the offsets have moved on.

use crate::engine::SwarmCall;
use crate::engine::SwarmReset;
use crate::engine::SwarmSums;
use crate::event::EventTime;
use crate::log::Destination;
use crate::log::Output;
use crate::policy::Policy;
use crate::store::StoreError;
use crate::store::report::SwarmRecord;
use crate::store::report::report_key;
use crate::store::report::reset_key;

/// Sums and resets of a lane since its last commit.
#[derive(Debug, Default)]
pub(super) struct Sums {
    sums: SwarmSums,
    resets: Vec<(SwarmReset, EventTime)>,
}

impl Sums {
    /// Counts a call in its pane.
    pub(super) fn add(&mut self, call: SwarmCall, policy: &Policy) {
        self.sums.add(policy, call);
    }

    /// Calls of a swarm up to a time no longer count: a floor, whatever order it arrives in.
    pub(super) fn reset(&mut self, reset: SwarmReset, record_time: EventTime) {
        self.resets.push((reset, record_time));
    }

    /// Takes out the records to be staged: resets, then sums in the order of their keys.
    pub(super) fn drain(&mut self) -> Result<Vec<Output>, StoreError> {
        let mut outputs = Vec::new();
        for (reset, record_time) in self.resets.drain(..) {
            outputs.push(output(reset_key(&reset), &SwarmRecord::Reset(reset.time), record_time)?);
        }
        for (key, report) in self.sums.drain_sorted() {
            let record_time = report.record_time;
            outputs.push(output(report_key(&key), &SwarmRecord::Report(report), record_time)?);
        }
        Ok(outputs)
    }
}

fn output(key: Vec<u8>, record: &SwarmRecord, record_time: EventTime) -> Result<Output, StoreError> {
    let value = Some(record.encode()?);
    Ok(Output { destination: Destination::SwarmCounts, key, value, headers: Vec::new(), timestamp_ms: record_time.0 })
}
