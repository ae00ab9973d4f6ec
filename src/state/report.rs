//! The records of `swarm-counts`: what one commit of one lane adds to a key of the swarm stage. Internal, versioned like state.
//!
//! Sums merge in any order (rule W2), so how calls are cut into reports does not matter.

use std::borrow::Cow;

use loopwarden_core::engine::{SEPARATOR, SpawnedWindow, SwarmCallKey, SwarmEntry, SwarmReport, SwarmReset, UsedWindow, joined};
use loopwarden_core::whom::{Kind, Whom};
use loopwarden_core::{event::EventTime, identity::Hash128, policy::Per};
use serde::{Deserialize, Serialize};

use crate::board::StoredRecipe;
use crate::swarm::used::{StoredSpawned, StoredUsed};
use crate::{StoreError, codec};

/// Header of a record with how far partitions of events have been read. Its value is a report without an entry, so that a program
/// that does not know the header takes it for one.
pub const SOURCES_HEADER: &str = "lw_sources";

/// Hex digits of a fingerprint, with which the key of a report ends.
const FINGERPRINT_DIGITS: usize = 32;

/// What a record of the topic `swarm-counts` holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SwarmRecord {
    Report(SwarmReport),
    /// The counters of a swarm are forgotten: calls up to this time no longer count.
    Reset(EventTime),
}

/// What a session task sends to the swarm stage: a record of `swarm-counts`, its key read too.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "nearly all are reports, and each is handed on once")]
pub enum Sum {
    Report(SwarmCallKey, SwarmReport),
    /// Calls of the swarm up to this time no longer count.
    Reset(EventTime),
}

impl Sum {
    /// Bytes of its record.
    ///
    /// # Errors
    /// As [`codec::encode`].
    pub fn encode(&self) -> Result<Vec<u8>, StoreError> {
        match self {
            Self::Report(_, report) => encode_report(report),
            Self::Reset(time) => encode_reset(*time),
        }
    }
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

impl<'a> StoredEntry<'a> {
    fn of(entry: &'a SwarmEntry) -> Self {
        Self {
            pane: entry.pane.0,
            session_id: Cow::Borrowed(&entry.session_id),
            agent_id: Cow::Borrowed(&entry.agent_id),
            calls: entry.calls,
            last: entry.last.0,
        }
    }

    fn into_entry(self) -> SwarmEntry {
        SwarmEntry {
            pane: EventTime(self.pane),
            session_id: self.session_id.into_owned(),
            agent_id: self.agent_id.into_owned(),
            calls: self.calls,
            last: EventTime(self.last),
        }
    }
}

/// The numbers of the variants are stored and never reused.
#[derive(Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "nearly all are reports, and each is written or read once")]
enum StoredRecord<'a> {
    Report {
        #[serde(borrow)]
        tool: Cow<'a, str>,
        recipe: StoredRecipe,
        record_time: i64,
        entries: Vec<StoredEntry<'a>>,
        used: Option<(Option<i64>, StoredUsed)>,
        spawned: Option<(i64, StoredSpawned)>,
    },
    Reset {
        time: i64,
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
    codec::encode(watermarks)
}

/// Reads the header.
///
/// # Errors
/// As [`codec::decode`].
pub fn decode_sources(bytes: &[u8]) -> Result<Vec<(u32, i64)>, StoreError> {
    codec::decode("source watermarks", bytes)
}

/// Third part of the key of a tree.
const TREE: &str = "tree";

/// Key of a report: tenant, swarm, fingerprint joined by U+001F. A fleet's has no swarm. A budget's has five parts: tenant, name, word of
/// its windows, kind and name of the group. A tree's has four: tenant, nothing, `tree`, name.
pub fn report_key(key: &SwarmCallKey) -> Vec<u8> {
    let (tenant, swarm_id, fingerprint) = match key {
        SwarmCallKey::Budget { budget, per, whom } => {
            return joined(&[&whom.tenant, budget, per.as_str(), whom.kind.as_str(), &whom.name]).into_bytes();
        }
        SwarmCallKey::Tree { tenant, tree } => return joined(&[tenant, "", TREE, tree]).into_bytes(),
        SwarmCallKey::Swarm { tenant, swarm_id, fingerprint } => (tenant, swarm_id.as_str(), fingerprint),
        SwarmCallKey::Fleet { tenant, fingerprint } => (tenant, "", fingerprint),
    };
    joined(&[tenant, swarm_id, &fingerprint.to_string()]).into_bytes()
}

/// Key of a reset: a report's without a fingerprint.
pub fn reset_key(reset: &SwarmReset) -> Vec<u8> {
    joined(&[&reset.tenant, &reset.swarm_id, ""]).into_bytes()
}

/// The key of a reset of the swarm that a report's key is of: all but the fingerprint.
pub fn reset_key_of(report_key: &[u8]) -> Option<&[u8]> {
    report_key.get(..report_key.len().checked_sub(FINGERPRINT_DIGITS)?)
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
    let (tenant, rest) = part(std::str::from_utf8(key).ok()?)?;
    let (name, rest) = part(rest)?;
    let tenant = tenant.to_owned();
    if let Some((third, rest)) = part(rest) {
        let Some((kind, group)) = part(rest) else {
            let is_tree = name.is_empty() && third == TREE;
            return is_tree.then(|| SwarmCallKey::Tree { tenant, tree: rest.to_owned() });
        };
        if part(group).is_some() {
            return None;
        }
        let whom = Whom::new(&tenant, Kind::from_name(kind).filter(|kind| kind.is_in_tenant())?, group);
        return Some(SwarmCallKey::Budget { budget: name.to_owned(), per: Per::from_name(third)?, whom });
    }
    let fingerprint = Hash128::from_hex(rest)?;
    Some(if name.is_empty() {
        SwarmCallKey::Fleet { tenant, fingerprint }
    } else {
        SwarmCallKey::Swarm { tenant, swarm_id: name.to_owned(), fingerprint }
    })
}

/// What stands before the first separator, and behind it.
fn part(text: &str) -> Option<(&str, &str)> {
    let at = text.bytes().position(|byte| byte == SEPARATOR as u8)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

impl SwarmRecord {
    /// A report without an entry: the value of a record whose header alone counts. It takes no time anywhere.
    pub fn of_nothing() -> Self {
        Self::Report(SwarmReport::empty(EventTime(0)))
    }

    /// Bytes of the record.
    ///
    /// # Errors
    /// As [`codec::encode`].
    pub fn encode(&self) -> Result<Vec<u8>, StoreError> {
        match self {
            Self::Report(report) => encode_report(report),
            Self::Reset(time) => encode_reset(*time),
        }
    }

    /// Reads a record.
    ///
    /// # Errors
    /// As [`codec::decode`].
    pub fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        Ok(match codec::decode("swarm record", bytes)? {
            StoredRecord::Report { tool, recipe, record_time, entries, used, spawned } => Self::Report(SwarmReport {
                tool: tool.into_owned(),
                recipe: recipe.into_recipe(),
                record_time: EventTime(record_time),
                entries: entries.into_iter().map(StoredEntry::into_entry).collect(),
                used: used.map(|(start, used)| UsedWindow { start: start.map(EventTime), used: used.into_used() }),
                spawned: spawned
                    .map(|(start, spawned)| Box::new(SpawnedWindow { start: EventTime(start), spawned: spawned.into_spawned() })),
            }),
            StoredRecord::Reset { time } => Self::Reset(EventTime(time)),
        })
    }
}

fn encode_report(report: &SwarmReport) -> Result<Vec<u8>, StoreError> {
    codec::encode(&StoredRecord::Report {
        tool: Cow::Borrowed(&report.tool),
        recipe: StoredRecipe::of(&report.recipe),
        record_time: report.record_time.0,
        entries: report.entries.iter().map(StoredEntry::of).collect(),
        used: report.used.map(|window| (window.start.map(|start| start.0), StoredUsed::of(&window.used))),
        spawned: report.spawned.as_ref().map(|window| (window.start.0, StoredSpawned::of(&window.spawned))),
    })
}

fn encode_reset(time: EventTime) -> Result<Vec<u8>, StoreError> {
    codec::encode(&StoredRecord::Reset { time: time.0 })
}

#[cfg(test)]
mod tests {
    use loopwarden_core::detect::Brief;
    use loopwarden_core::engine::{IdentityRecipe, Spawned};
    use loopwarden_core::identity::{CallRules, Hash64, Sketch};
    use loopwarden_core::policy::Used;
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
                spawned: None,
            });
            prop_assert_eq!(SwarmRecord::decode(&record.encode().unwrap()).unwrap(), record);
        }

        #[test]
        fn what_was_used_of_a_budget_reads_back(
            (record_time, start, first, last) in any::<(i64, i64, i64, i64)>(),
            (calls, tokens, cost_micro_usd) in any::<(u64, u64, u64)>(),
        ) {
            let used = Used { calls, tokens, cost_micro_usd, first: EventTime(first), last: EventTime(last), ..Used::default() };
            let record =
                SwarmRecord::Report(SwarmReport::of_use(EventTime(record_time), UsedWindow { start: Some(EventTime(start)), used }));
            prop_assert_eq!(SwarmRecord::decode(&record.encode().unwrap()).unwrap(), record);
        }

        #[test]
        fn what_was_seen_of_a_tree_reads_back(
            (record_time, start, last, agents) in any::<(i64, i64, i64, u64)>(),
            (began, vain, depth) in any::<(u32, u32, u32)>(),
            briefs in proptest::collection::vec((any::<u64>(), proptest::collection::vec(any::<u32>(), 0..40)), 0..40),
        ) {
            let mut spawned = Spawned { began, vain, depth, last: EventTime(last), ..Spawned::default() };
            for (words, hashes) in briefs {
                spawned.note(&Brief { words: Hash64(words), sketch: Sketch::of_hashes(hashes) });
            }
            let used = UsedWindow { start: None, used: Used { agents, depth, ..Used::default() } };
            let report = SwarmReport { spawned: Some(Box::new(SpawnedWindow { start: EventTime(start), spawned })), ..SwarmReport::of_use(EventTime(record_time), used) };
            let record = SwarmRecord::Report(report);
            prop_assert_eq!(SwarmRecord::decode(&record.encode().unwrap()).unwrap(), record);
        }

        #[test]
        fn hostile_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Some(version) = bytes.first_mut() {
                *version = codec::FORMAT;
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
        assert!(matches!(decode_sources(&[2]), Err(StoreError::OtherFormat(_))));
        assert!(parse_report_key(&sources_key()).is_some());
    }

    #[test]
    fn keys_read_back_and_a_reset_is_none() {
        let (tenant, fingerprint) = ("t".to_owned(), Hash128(7));
        let swarm = SwarmCallKey::Swarm { tenant: tenant.clone(), swarm_id: "w".to_owned(), fingerprint };
        assert_eq!(report_key(&swarm), b"t\x1fw\x1f00000000000000000000000000000007");
        let fleet = SwarmCallKey::Fleet { tenant: tenant.clone(), fingerprint };
        let whom = Whom::label(&tenant, "team", "a").unwrap();
        let budget = SwarmCallKey::Budget { budget: "b".to_owned(), per: Per::Day, whom };
        assert_eq!(report_key(&budget), b"t\x1fb\x1fday\x1flabel\x1fteam=a");
        for hostile in [&b"t\x1fb\x1fyear\x1flabel\x1fx"[..], b"t\x1fb\x1fday\x1fgalaxy\x1fx", b"t\x1fb\x1fday\x1flabel\x1fx\x1f"]
        {
            assert_eq!(parse_report_key(hostile), None);
        }
        let tree = SwarmCallKey::Tree { tenant: tenant.clone(), tree: "r".to_owned() };
        assert!(!is_reset_key(&report_key(&tree)));
        for key in [swarm, fleet, budget, tree] {
            assert_eq!(parse_report_key(&report_key(&key)), Some(key));
        }
        let reset = SwarmReset { tenant, swarm_id: "w".to_owned(), time: EventTime(1) };
        assert_eq!(reset_key_of(b"t\x1fw\x1f00000000000000000000000000000007"), Some(&*reset_key(&reset)));
        assert_eq!(parse_report_key(&reset_key(&reset)), None);
        assert!(is_reset_key(&reset_key(&reset)));
        for other in [&b"t\x1f\x1f"[..], b"t\x1fw", b"t\x1fw\x1f0", b"\x1f\x1f\x1f", b"\xff\x1fw\x1f"] {
            assert!(!is_reset_key(other), "{other:?}");
        }
    }
}
