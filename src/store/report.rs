//! The record of `swarm-counts`: what one commit of one lane adds to a fingerprint of a swarm. Internal, versioned like state.
//!
//! A report holds only what merges in any order (rule W2): counts add up, times and agents keep their maximum. How calls are cut
//! into reports depends on commit timing; what they add up to does not.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde::Serialize;

use crate::engine::IdentityRecipe;
use crate::engine::SEPARATOR;
use crate::event::EventTime;
use crate::store::StoreError;
use crate::store::codec;
use crate::store::session::StoredRecipe;

/// Newest format of a report.
const VERSION: u8 = 1;

/// One report.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Tool, for the text; empty in a report that only resets.
    pub tool: String,
    /// How a worker recomputes the identity.
    pub recipe: Option<IdentityRecipe>,
    /// Calls by start of their pane, event time in ms.
    pub panes: BTreeMap<i64, u64>,
    /// Time of the last call by (session, agent).
    pub agents: BTreeMap<(String, String), EventTime>,
    /// Greatest record timestamp in it.
    pub record_time: EventTime,
    /// Calls up to this time no longer count.
    pub reset: Option<EventTime>,
}

#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    #[serde(borrow)]
    tool: Cow<'a, str>,
    recipe: Option<StoredRecipe<'a>>,
    panes: Vec<(i64, u64)>,
    agents: Vec<(Cow<'a, str>, Cow<'a, str>, i64)>,
    record_time: i64,
    reset: Option<i64>,
}

impl Report {
    /// Key of the record: tenant, swarm, fingerprint joined by U+001F. A fleet's has no swarm, a reset no fingerprint.
    #[must_use]
    pub fn key(tenant: &str, swarm_id: &str, fingerprint: &str) -> String {
        format!("{tenant}{SEPARATOR}{swarm_id}{SEPARATOR}{fingerprint}")
    }

    /// Bytes of the record.
    ///
    /// # Errors
    /// As [`codec::encode`].
    pub fn encode(&self) -> Result<Vec<u8>, StoreError> {
        let agents = self.agents.iter().map(|((session, agent), time)| (session.into(), agent.into(), time.0));
        let stored = Stored {
            tool: (&self.tool).into(),
            recipe: self.recipe.as_ref().map(StoredRecipe::of),
            panes: self.panes.iter().map(|(pane, count)| (*pane, *count)).collect(),
            agents: agents.collect(),
            record_time: self.record_time.0,
            reset: self.reset.map(|time| time.0),
        };
        codec::encode(VERSION, &stored)
    }

    /// Reads a record.
    ///
    /// # Errors
    /// As [`codec::decode`].
    pub fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let stored: Stored<'_> = codec::decode("swarm report", VERSION, bytes)?;
        let agents = stored.agents.into_iter();
        Ok(Self {
            tool: stored.tool.into_owned(),
            recipe: stored.recipe.map(StoredRecipe::into_recipe),
            panes: stored.panes.into_iter().collect(),
            agents: agents.map(|(session, agent, time)| ((session.into_owned(), agent.into_owned()), EventTime(time))).collect(),
            record_time: EventTime(stored.record_time),
            reset: stored.reset.map(EventTime),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_report_reads_back(
            tool in any::<String>(),
            recipe in proptest::option::of((any::<Vec<String>>(), any::<Vec<String>>())),
            panes in any::<BTreeMap<i64, u64>>(),
            agents in any::<BTreeMap<(String, String), i64>>(),
            (record_time, reset) in any::<(i64, Option<i64>)>(),
        ) {
            let report = Report {
                tool,
                recipe: recipe.map(|(args, args_ignored)| IdentityRecipe::Call { args, args_ignored }),
                panes,
                agents: agents.into_iter().map(|(agent, time)| (agent, EventTime(time))).collect(),
                record_time: EventTime(record_time),
                reset: reset.map(EventTime),
            };
            prop_assert_eq!(Report::decode(&report.encode().unwrap()).unwrap(), report);
        }

        #[test]
        fn hostile_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Some(version) = bytes.first_mut() {
                *version = VERSION;
            }
            let _ = Report::decode(&bytes);
        }
    }
}
