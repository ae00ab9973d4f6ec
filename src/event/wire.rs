//! Serde shapes of the event topic.

use serde::Deserialize;
use serde_json::value::RawValue;

/// Major version of the event schema.
pub const SCHEMA_VERSION: u32 = 1;

type Raw<'a> = Option<&'a RawValue>;

/// An event as it was written: of every known field its source text, null and absent alike. A field given twice is an error
/// of `serde`; unknown ones are skipped.
#[derive(Deserialize)]
pub(super) struct Wire<'a> {
    #[serde(borrow)]
    pub(super) v: Raw<'a>,
    pub(super) id: Raw<'a>,
    pub(super) kind: Raw<'a>,
    pub(super) session_id: Raw<'a>,
    pub(super) swarm_id: Raw<'a>,
    pub(super) tenant: Raw<'a>,
    pub(super) agent: Raw<'a>,
    pub(super) time: Raw<'a>,
    pub(super) seq: Raw<'a>,
    pub(super) turn: Raw<'a>,
    pub(super) tool: Raw<'a>,
    pub(super) call_id: Raw<'a>,
    pub(super) description: Raw<'a>,
    pub(super) args: Raw<'a>,
    pub(super) args_sha256: Raw<'a>,
    pub(super) args_bytes: Raw<'a>,
    pub(super) result: Raw<'a>,
    pub(super) result_sha256: Raw<'a>,
    pub(super) result_bytes: Raw<'a>,
    pub(super) stable_result: Raw<'a>,
    pub(super) truncated: Raw<'a>,
    pub(super) outcome: Raw<'a>,
    pub(super) error: Raw<'a>,
    pub(super) duration_ms: Raw<'a>,
    pub(super) role: Raw<'a>,
    pub(super) text: Raw<'a>,
    pub(super) text_sha256: Raw<'a>,
    #[serde(rename = "final")]
    pub(super) is_final: Raw<'a>,
    pub(super) state: Raw<'a>,
    pub(super) scope: Raw<'a>,
    pub(super) command_id: Raw<'a>,
    pub(super) ack: Raw<'a>,
    pub(super) usage: Raw<'a>,
    pub(super) traceparent: Raw<'a>,
    pub(super) labels: Raw<'a>,
    /// Only a structured CloudEvent has this one …
    pub(super) specversion: Raw<'a>,
    /// … together with this one.
    pub(super) data: Raw<'a>,
}

/// The names of the fields of [`Wire`]: what a rejection may point at. Other names are content.
pub(super) const KNOWN_FIELDS: [&str; 37] = [
    "v",
    "id",
    "kind",
    "session_id",
    "swarm_id",
    "tenant",
    "agent",
    "time",
    "seq",
    "turn",
    "tool",
    "call_id",
    "description",
    "args",
    "args_sha256",
    "args_bytes",
    "result",
    "result_sha256",
    "result_bytes",
    "stable_result",
    "truncated",
    "outcome",
    "error",
    "duration_ms",
    "role",
    "text",
    "text_sha256",
    "final",
    "state",
    "scope",
    "command_id",
    "ack",
    "usage",
    "traceparent",
    "labels",
    "specversion",
    "data",
];
