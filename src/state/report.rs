//! The records of `swarm-counts`: what one commit of one lane adds to a key of the swarm stage. Internal, versioned like state.
//!
//! Sums merge in any order (rule W2), so how calls are cut into reports does not matter.

use std::borrow::Cow;

use loopwarden_core::engine::{
    Group, GroupKind, SEPARATOR, SwarmCallKey, SwarmEntry, SwarmReport, SwarmReset, UsedWindow, joined,
};
use loopwarden_core::event::EventTime;
use loopwarden_core::identity::Hash128;
use loopwarden_core::policy::{Per, Used};
use serde::{Deserialize, Serialize};

use crate::verdict::StoredRecipe;
use crate::{StoreError, codec};

/// Format of a record of calls, and of a reset.
const VERSION: u8 = 1;
/// Format of a record with what was used of a budget: a program that knows no budgets stops at it instead of losing the sum.
const WITH_USES: u8 = 2;

/// Header of a record with how far partitions of events have been read. Its value is a report without an entry, so that a program
/// that does not know the header takes it for one.
pub const SOURCES_HEADER: &str = "lw_sources";

/// Version of the header's format.
const SOURCES_VERSION: u8 = 1;

/// What a record of the topic `swarm-counts` holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SwarmRecord {
    Report(SwarmReport),
    /// The counters of a swarm are forgotten: calls up to this time no longer count.
    Reset(EventTime),
}

#[derive(Serialize, Deserialize)]
struct StoredEntry<'a> {
    pane: i64,
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    agent_id: Cow<'a, str>,
    calls: u32,
    last: i64,
}

/// The numbers of the variants are stored and never reused.
#[derive(Serialize, Deserialize)]
enum StoredReport<'a> {
    Report {
        #[serde(borrow)]
        tool: Cow<'a, str>,
        recipe: StoredRecipe,
        record_time: i64,
        entries: Vec<StoredEntry<'a>>,
    },
    Reset {
        time: i64,
    },
    /// What was used of a budget in a window of it.
    Used {
        record_time: i64,
        start: i64,
        calls: u64,
        tokens: u64,
        cost_micro_usd: u64,
        first: i64,
        last: i64,
    },
}

/// Key of a record of source watermarks: that of a counter which nobody has.
pub fn sources_key() -> Vec<u8> {
    report_key(&SwarmCallKey::Fleet { tenant: String::new(), fingerprint: Hash128::NONE })
}

/// Bytes of the header: partitions of events, each with its source watermark.
///
/// # Errors
/// As [`codec::encode`].
pub fn encode_sources(watermarks: &[(u32, i64)]) -> Result<Vec<u8>, StoreError> {
    codec::encode(SOURCES_VERSION, watermarks)
}

/// Reads the header.
///
/// # Errors
/// As [`codec::decode`].
pub fn decode_sources(bytes: &[u8]) -> Result<Vec<(u32, i64)>, StoreError> {
    codec::decode("source watermarks", SOURCES_VERSION, bytes)
}

/// Key of a report: tenant, swarm, fingerprint joined by U+001F. A fleet's has no swarm. A budget's has five parts: tenant, name, word of
/// its windows, kind and name of the group.
pub fn report_key(key: &SwarmCallKey) -> Vec<u8> {
    let (tenant, swarm_id, fingerprint) = match key {
        SwarmCallKey::Budget { tenant, budget, per, group } => {
            return joined(&[tenant, budget, per.as_str(), group.kind.as_str(), &group.name]).into_bytes();
        }
        SwarmCallKey::Swarm { tenant, swarm_id, fingerprint } => (tenant, swarm_id.as_str(), fingerprint),
        SwarmCallKey::Fleet { tenant, fingerprint } => (tenant, "", fingerprint),
    };
    joined(&[tenant, swarm_id, &fingerprint.to_string()]).into_bytes()
}

/// Key of a reset: a report's without a fingerprint.
pub fn reset_key(reset: &SwarmReset) -> Vec<u8> {
    joined(&[&reset.tenant, &reset.swarm_id, ""]).into_bytes()
}

/// Whether bytes are the key of a reset.
pub fn is_reset_key(key: &[u8]) -> bool {
    let separators = key.iter().fold(0, |count, byte| count + usize::from(*byte == SEPARATOR as u8));
    separators == 2
        && key.ends_with(&[SEPARATOR as u8])
        && !key.ends_with(&[SEPARATOR as u8; 2])
        && std::str::from_utf8(key).is_ok()
}

/// Reads the key of a report; `None` for a reset's, and for bytes that are none.
pub fn parse_report_key(key: &[u8]) -> Option<SwarmCallKey> {
    let text = std::str::from_utf8(key).ok()?;
    if let [tenant, budget, per, kind, name] = *text.split(SEPARATOR).collect::<Vec<_>>().as_slice() {
        let group = Group::new(GroupKind::from_name(kind)?, name);
        let per = Per::from_name(per)?;
        return Some(SwarmCallKey::Budget { tenant: tenant.to_owned(), budget: budget.to_owned(), per, group });
    }
    let mut parts = text.split(SEPARATOR);
    let (tenant, swarm_id, hex) = (parts.next()?.to_owned(), parts.next()?.to_owned(), parts.next()?);
    if parts.next().is_some() || hex.len() != 32 {
        return None;
    }
    let fingerprint = Hash128(u128::from_str_radix(hex, 16).ok()?);
    Some(if swarm_id.is_empty() {
        SwarmCallKey::Fleet { tenant, fingerprint }
    } else {
        SwarmCallKey::Swarm { tenant, swarm_id, fingerprint }
    })
}

impl SwarmRecord {
    /// A report without an entry: the value of a record whose header alone counts. It takes no time anywhere.
    pub fn of_nothing() -> Self {
        let recipe = loopwarden_core::engine::IdentityRecipe::Opaque;
        Self::Report(SwarmReport { tool: String::new(), recipe, record_time: EventTime(0), entries: Vec::new(), used: None })
    }

    /// Bytes of the record.
    ///
    /// # Errors
    /// As [`codec::encode`].
    pub fn encode(&self) -> Result<Vec<u8>, StoreError> {
        let stored = match self {
            Self::Report(SwarmReport { record_time, used: Some(UsedWindow { start, used }), .. }) => StoredReport::Used {
                record_time: record_time.0,
                start: start.0,
                calls: used.calls,
                tokens: used.tokens,
                cost_micro_usd: used.cost_micro_usd,
                first: used.first.0,
                last: used.last.0,
            },
            Self::Report(report) => {
                let entries = report.entries.iter().map(|entry| StoredEntry {
                    pane: entry.pane.0,
                    session_id: Cow::Borrowed(&entry.session_id),
                    agent_id: Cow::Borrowed(&entry.agent_id),
                    calls: entry.calls,
                    last: entry.last.0,
                });
                StoredReport::Report {
                    tool: Cow::Borrowed(&report.tool),
                    recipe: StoredRecipe::of(&report.recipe),
                    record_time: report.record_time.0,
                    entries: entries.collect(),
                }
            }
            Self::Reset(time) => StoredReport::Reset { time: time.0 },
        };
        codec::encode(if matches!(stored, StoredReport::Used { .. }) { WITH_USES } else { VERSION }, &stored)
    }

    /// Reads a record.
    ///
    /// # Errors
    /// As [`codec::decode`].
    pub fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let version = bytes.first().copied().filter(|found| *found == VERSION).unwrap_or(WITH_USES);
        Ok(match codec::decode("swarm record", version, bytes)? {
            StoredReport::Report { tool, recipe, record_time, entries } => {
                let entry = |entry: StoredEntry<'_>| SwarmEntry {
                    pane: EventTime(entry.pane),
                    session_id: entry.session_id.into_owned(),
                    agent_id: entry.agent_id.into_owned(),
                    calls: entry.calls,
                    last: EventTime(entry.last),
                };
                Self::Report(SwarmReport {
                    tool: tool.into_owned(),
                    recipe: recipe.into_recipe(),
                    record_time: EventTime(record_time),
                    entries: entries.into_iter().map(entry).collect(),
                    used: None,
                })
            }
            StoredReport::Reset { time } => Self::Reset(EventTime(time)),
            StoredReport::Used { record_time, start, calls, tokens, cost_micro_usd, first, last } => {
                let used = Used { calls, tokens, cost_micro_usd, first: EventTime(first), last: EventTime(last) };
                Self::Report(SwarmReport::of_use(EventTime(record_time), UsedWindow { start: EventTime(start), used }))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use loopwarden_core::engine::IdentityRecipe;
    use loopwarden_core::identity::CallRules;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_report_reads_back(
            tool in any::<String>(),
            (args, args_ignored) in any::<(Vec<String>, Vec<String>)>(),
            entries in any::<Vec<(i64, String, String, u32, i64)>>(),
            record_time in any::<i64>(),
        ) {
            let entry = |(pane, session_id, agent_id, calls, last)| SwarmEntry {
                pane: EventTime(pane), session_id, agent_id, calls, last: EventTime(last),
            };
            let record = SwarmRecord::Report(SwarmReport {
                tool,
                recipe: IdentityRecipe::Call(CallRules { args: args.into(), args_ignored: args_ignored.into() }),
                record_time: EventTime(record_time),
                entries: entries.into_iter().map(entry).collect(),
                used: None,
            });
            prop_assert_eq!(SwarmRecord::decode(&record.encode().unwrap()).unwrap(), record);
        }

        #[test]
        fn what_was_used_of_a_budget_reads_back(
            (record_time, start, first, last) in any::<(i64, i64, i64, i64)>(),
            (calls, tokens, cost_micro_usd) in any::<(u64, u64, u64)>(),
        ) {
            let used = Used { calls, tokens, cost_micro_usd, first: EventTime(first), last: EventTime(last) };
            let record =
                SwarmRecord::Report(SwarmReport::of_use(EventTime(record_time), UsedWindow { start: EventTime(start), used }));
            prop_assert_eq!(SwarmRecord::decode(&record.encode().unwrap()).unwrap(), record);
        }

        #[test]
        fn hostile_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Some(version) = bytes.first_mut() {
                *version = VERSION;
            }
            let _ = SwarmRecord::decode(&bytes);
            let _ = decode_sources(&bytes);
            let _ = parse_report_key(&bytes);
        }
    }

    #[test]
    fn source_watermarks_read_back_and_their_record_is_a_report_of_nothing() {
        let watermarks = vec![(0, i64::MIN), (7, 1_800_000_000_000)];
        assert_eq!(decode_sources(&encode_sources(&watermarks).unwrap()).unwrap(), watermarks);
        assert!(matches!(decode_sources(&[2]), Err(StoreError::NewerFormat(_))));
        assert!(parse_report_key(&sources_key()).is_some());
    }

    #[test]
    fn keys_read_back_and_a_reset_is_none() {
        let (tenant, fingerprint) = ("t".to_owned(), Hash128(7));
        let swarm = SwarmCallKey::Swarm { tenant: tenant.clone(), swarm_id: "w".to_owned(), fingerprint };
        assert_eq!(report_key(&swarm), b"t\x1fw\x1f00000000000000000000000000000007");
        let fleet = SwarmCallKey::Fleet { tenant: tenant.clone(), fingerprint };
        let budget = SwarmCallKey::Budget {
            tenant: tenant.clone(),
            budget: "b".to_owned(),
            per: Per::Day,
            group: Group::label("team", "a").unwrap(),
        };
        assert_eq!(report_key(&budget), b"t\x1fb\x1fday\x1flabel\x1fteam=a");
        for hostile in [&b"t\x1fb\x1fyear\x1flabel\x1fx"[..], b"t\x1fb\x1fday\x1fgalaxy\x1fx", b"t\x1fb\x1fday\x1flabel\x1fx\x1f"]
        {
            assert_eq!(parse_report_key(hostile), None);
        }
        for key in [swarm, fleet, budget] {
            assert_eq!(parse_report_key(&report_key(&key)), Some(key));
        }
        let reset = SwarmReset { tenant, swarm_id: "w".to_owned(), time: EventTime(1) };
        assert_eq!(parse_report_key(&reset_key(&reset)), None);
        assert!(is_reset_key(&reset_key(&reset)));
        for other in [&b"t\x1f\x1f"[..], b"t\x1fw", b"t\x1fw\x1f0", b"\x1f\x1f\x1f", b"\xff\x1fw\x1f"] {
            assert!(!is_reset_key(other), "{other:?}");
        }
    }
}
