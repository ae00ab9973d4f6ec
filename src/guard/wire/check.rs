//! The question that a caller asks before and after each call, as it comes over the wire.

use std::collections::BTreeMap;

use loopwarden_core::event::Rejected;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::wire::capabilities::Capabilities;

/// How long a caller waits that names no time. Milliseconds.
pub const DEADLINE_DEFAULT_MS: u64 = 100;
/// Longest wait of a caller; more is taken as this. Milliseconds.
pub const DEADLINE_MAX_MS: u64 = 10_000;
/// Longest name or version of a client; more is cut. Characters.
const CLIENT_CHARS_MAX: usize = 64;

/// One question. What is inside of `event` is not looked at here.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// Version of this form: 1.
    pub v: u32,
    /// A native event. Its `kind` is the phase: `tool_call` before a call, `tool_result` or `tool` after it.
    pub event: Box<RawValue>,
    /// Whether the event is recorded too; else this only asks.
    pub record: bool,
    /// The caller, and what it can do with the answer.
    pub client: Client,
    /// How long the caller waits. Milliseconds, 1 to [`DEADLINE_MAX_MS`].
    pub deadline_ms: u64,
}

/// The caller of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Client {
    /// Name of the agent or of its adapter; empty where not given.
    pub name: String,
    /// Its version; empty where not given.
    pub version: String,
    /// What it can do with an answer.
    pub can: Capabilities,
}

/// Why a check is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadCheck {
    /// Stable word for programs: `not_json`, `not_an_object`, `missing_field`, `bad_type`, `bad_value`, `duplicate_field`,
    /// `unsupported_version`, or the reason why the event is rejected.
    pub code: &'static str,
    /// JSON pointer of the field concerned; empty: the whole body.
    pub pointer: String,
}

impl BadCheck {
    /// A fault of one field.
    #[must_use]
    pub fn at(code: &'static str, pointer: impl Into<String>) -> Self {
        Self { code, pointer: pointer.into() }
    }
}

impl From<Rejected> for BadCheck {
    fn from(rejected: Rejected) -> Self {
        Self { code: rejected.reason.as_str(), pointer: format!("/event{}", rejected.field) }
    }
}

/// The members of the envelope as they were written; null is absent.
#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow)]
    v: Option<&'a RawValue>,
    #[serde(borrow)]
    event: Option<&'a RawValue>,
    #[serde(borrow)]
    record: Option<&'a RawValue>,
    #[serde(borrow)]
    client: Option<&'a RawValue>,
    #[serde(borrow)]
    deadline_ms: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireClient<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    version: Option<&'a RawValue>,
    #[serde(borrow)]
    can: Option<&'a RawValue>,
}

impl Check {
    /// A check of an event, to be recorded, from a client that waits as long as most do.
    #[must_use]
    pub const fn new(event: Box<RawValue>, client: Client) -> Self {
        Self { v: 1, event, record: true, client, deadline_ms: DEADLINE_DEFAULT_MS }
    }

    /// The event with some of its members changed; all others stay as they were written, digit for digit. As it is where it cannot be
    /// written anew.
    pub(crate) fn event_with(&self, members: &[(&str, Value)]) -> String {
        let event = self.event.get();
        let rewritten = || -> Option<String> {
            let own: BTreeMap<String, &RawValue> = serde_json::from_str(event).ok()?;
            let mut all: BTreeMap<&str, Box<RawValue>> = BTreeMap::new();
            all.extend(own.iter().map(|(name, value)| (name.as_str(), (*value).to_owned())));
            for (name, value) in members {
                all.insert(name, to_raw_value(value).ok()?);
            }
            serde_json::to_string(&all).ok()
        };
        rewritten().unwrap_or_else(|| event.to_owned())
    }

    /// Reads the body of a request.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn read(body: &[u8]) -> Result<Self, BadCheck> {
        let wire: Wire<'_> = object(body, "")?;
        // As JSON Schema counts, 1.0 is 1.
        if wire.v.is_some_and(|v| serde_json::from_str(v.get()).ok() != Some(1.0)) {
            return Err(BadCheck::at("unsupported_version", "/v"));
        }
        let event = wire.event.ok_or_else(|| BadCheck::at("missing_field", "/event"))?;
        let client = wire.client.map(read_client).transpose()?.unwrap_or_default();
        let deadline_ms = read_deadline(wire.deadline_ms)?;
        Ok(Self {
            v: 1,
            event: event.to_owned(),
            record: value::<bool>(wire.record, "/record")?.unwrap_or(true),
            client,
            deadline_ms,
        })
    }
}

/// A whole number, which JSON may write as `150.0` too.
fn read_deadline(source: Option<&RawValue>) -> Result<u64, BadCheck> {
    const POINTER: &str = "/deadline_ms";
    let Some(ms) = value::<f64>(source, POINTER)? else { return Ok(DEADLINE_DEFAULT_MS) };
    if ms < 0.0 || ms.fract() != 0.0 {
        return Err(BadCheck::at("bad_type", POINTER));
    }
    let ms = ms.min(DEADLINE_MAX_MS as f64) as u64;
    if ms == 0 { Err(BadCheck::at("bad_value", POINTER)) } else { Ok(ms) }
}

fn read_client(source: &RawValue) -> Result<Client, BadCheck> {
    let wire: WireClient<'_> = object(source.get().as_bytes(), "/client")?;
    let text = |source, pointer| -> Result<String, BadCheck> {
        Ok(value::<String>(source, pointer)?.unwrap_or_default().chars().take(CLIENT_CHARS_MAX).collect())
    };
    Ok(Client {
        name: text(wire.name, "/client/name")?,
        version: text(wire.version, "/client/version")?,
        can: value::<Capabilities>(wire.can, "/client/can")?.unwrap_or_default(),
    })
}

/// One object, its members unread.
fn object<'a, T: Deserialize<'a>>(body: &'a [u8], pointer: &str) -> Result<T, BadCheck> {
    serde_json::from_slice(body).map_err(|_| {
        let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok();
        let is_object = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
        let code = match (is_json, is_object) {
            (false, _) => "not_json",
            (true, false) => "not_an_object",
            // Members are taken as they are: nothing else can be wrong.
            (true, true) => "duplicate_field",
        };
        BadCheck::at(code, pointer)
    })
}

/// One member of its type; null is absent.
fn value<'a, T: Deserialize<'a>>(source: Option<&'a RawValue>, pointer: &str) -> Result<Option<T>, BadCheck> {
    let Some(source) = source else { return Ok(None) };
    serde_json::from_str(source.get()).map_err(|_| BadCheck::at("bad_type", pointer))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_that_are_not_changed_stay_as_they_were_written() {
        let check = |event: &str| Check::new(RawValue::from_string(event.to_owned()).unwrap(), Client::default());
        let event = r#"{"kind":"tool_call","args":{"id":9007199254740993,"x":1.50,"é":"\u00e9"},"call_id":null}"#;
        let changed = check(event).event_with(&[("kind", json!("tool")), ("call_id", json!("c"))]);
        assert_eq!(changed, r#"{"args":{"id":9007199254740993,"x":1.50,"é":"\u00e9"},"call_id":"c","kind":"tool"}"#);
        assert_eq!(check("[1]").event_with(&[("kind", json!("tool"))]), "[1]");
    }

    fn bad(body: &str) -> (&'static str, String) {
        let bad = Check::read(body.as_bytes()).unwrap_err();
        (bad.code, bad.pointer)
    }

    #[test]
    fn only_the_event_is_needed() {
        let check = Check::read(br#"{"event":{"id":"a"},"client":null,"new":1}"#).unwrap();
        assert_eq!((check.event.get(), check.record, check.deadline_ms), (r#"{"id":"a"}"#, true, DEADLINE_DEFAULT_MS));
        assert_eq!(check.client, Client { name: String::new(), version: String::new(), can: Capabilities::DENY });
    }

    #[test]
    fn a_check_comes_back_as_it_was_sent() {
        let sent = Check {
            record: false,
            deadline_ms: 250,
            ..Check::new(
                RawValue::from_string(r#"{ "id" : 1.0 }"#.to_owned()).unwrap(),
                Client { name: "x".to_owned(), version: "1".to_owned(), can: Capabilities::ALL },
            )
        };
        let read = Check::read(serde_json::to_string(&sent).unwrap().as_bytes()).unwrap();
        assert_eq!((read.event.get(), read.record, read.deadline_ms), (r#"{ "id" : 1.0 }"#, false, 250));
        assert_eq!(read.client, sent.client);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (body, code, pointer) in [
            ("", "not_json", ""),
            ("{", "not_json", ""),
            ("\u{0}", "not_json", ""),
            ("[]", "not_an_object", ""),
            ("null", "not_an_object", ""),
            ("{}", "missing_field", "/event"),
            (r#"{"event":null}"#, "missing_field", "/event"),
            (r#"{"event":1,"event":2}"#, "duplicate_field", ""),
            (r#"{"v":2,"event":{}}"#, "unsupported_version", "/v"),
            (r#"{"event":{},"record":"yes"}"#, "bad_type", "/record"),
            (r#"{"event":{},"deadline_ms":-1}"#, "bad_type", "/deadline_ms"),
            (r#"{"event":{},"deadline_ms":0}"#, "bad_value", "/deadline_ms"),
            (r#"{"event":{},"deadline_ms":1.5}"#, "bad_type", "/deadline_ms"),
            (r#"{"event":{},"deadline_ms":"1"}"#, "bad_type", "/deadline_ms"),
            (r#"{"event":{},"v":"1"}"#, "unsupported_version", "/v"),
            (r#"{"event":{},"client":[]}"#, "not_an_object", "/client"),
            (r#"{"event":{},"client":{"name":1}}"#, "bad_type", "/client/name"),
            (r#"{"event":{},"client":{"can":"deny"}}"#, "bad_type", "/client/can"),
        ] {
            assert_eq!(bad(body), (code, pointer.to_owned()), "{body}");
        }
        // How deep an event may be is the business of its decoder.
        let deep = format!(r#"{{"event":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert!(Check::read(deep.as_bytes()).is_ok());
    }

    #[test]
    fn a_whole_number_may_have_a_point() {
        let check = Check::read(br#"{"v":1.0,"event":{},"deadline_ms":150.0}"#).unwrap();
        assert_eq!((check.v, check.deadline_ms), (1, 150));
        assert_eq!(Check::read(br#"{"event":{},"deadline_ms":1e300}"#).unwrap().deadline_ms, DEADLINE_MAX_MS);
    }

    #[test]
    fn a_long_wait_and_a_long_name_are_cut() {
        let body = format!(r#"{{"event":{{}},"deadline_ms":{},"client":{{"name":"{}"}}}}"#, u64::MAX, "é".repeat(1000));
        let check = Check::read(body.as_bytes()).unwrap();
        assert_eq!((check.deadline_ms, check.client.name.chars().count()), (DEADLINE_MAX_MS, CLIENT_CHARS_MAX));
    }
}
