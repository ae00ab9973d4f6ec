//! JSON-RPC as far as the proxy reads it, and where in a line its parts stand. Whatever is unusual is nothing, and passes.

use std::{borrow::Cow, ops::Range};

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

/// Messages of one batch that are read; a longer batch passes unread.
const BATCH_MAX: usize = 1_000;

/// One line: a message, or a batch of them.
#[derive(Debug)]
pub(crate) enum Line<'a> {
    One(&'a RawValue),
    Batch(Vec<&'a RawValue>),
}

impl<'a> Line<'a> {
    pub(crate) fn read(line: &'a [u8]) -> Option<Self> {
        let first = line.iter().find(|byte| !byte.is_ascii_whitespace())?;
        match first {
            b'{' => Some(Self::One(serde_json::from_slice(line).ok()?)),
            b'[' => {
                let batch: Vec<&RawValue> = serde_json::from_slice(line).ok()?;
                (1..=BATCH_MAX).contains(&batch.len()).then_some(Self::Batch(batch))
            }
            _ => None,
        }
    }

    pub(crate) fn messages(&self) -> &[&'a RawValue] {
        match self {
            Self::One(message) => std::slice::from_ref(message),
            Self::Batch(messages) => messages,
        }
    }
}

/// A message, its members unread. Null is absent.
#[derive(Debug, Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct CallParams<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct CancelParams<'a> {
    #[serde(borrow, rename = "requestId")]
    request_id: &'a RawValue,
}

/// An object of this form. The parser would take a list for it as well.
pub(crate) fn object<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    serde_json::from_str(raw.get()).ok().filter(|_| raw.get().starts_with('{'))
}

/// Id of a request: a text or a number, however it is written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id(String);

impl Id {
    fn read(raw: &RawValue) -> Option<Self> {
        match serde_json::from_str(raw.get()).ok()? {
            // The quotes tell it from a number.
            Value::String(text) => Some(Self(format!("\"{text}"))),
            // JavaScript writes 1.0 as 1.
            Value::Number(number) => match number.as_f64() {
                Some(float) if float.fract() == 0.0 && float.abs() < 9e15 => Some(Self(format!("{float:.0}"))),
                _ => Some(Self(number.to_string())),
            },
            _ => None,
        }
    }
}

/// What the client asks for.
#[derive(Debug)]
pub(crate) enum Asked<'a> {
    /// A call of a tool.
    Call { id: Id, raw_id: &'a RawValue, tool: Cow<'a, str>, arguments: Option<&'a RawValue> },
    /// It needs a result no more.
    Cancelled(Id),
}

/// Reads a message of the client. A call without an id is a notification, and nobody answers it.
pub(crate) fn asked(message: &RawValue) -> Option<Asked<'_>> {
    let wire: Wire<'_> = object(message)?;
    match wire.method.as_deref()? {
        "tools/call" => {
            let raw_id = wire.id?;
            let CallParams { name, arguments } = object(wire.params?)?;
            Some(Asked::Call { id: Id::read(raw_id)?, raw_id, tool: name, arguments })
        }
        "notifications/cancelled" => {
            let params: CancelParams<'_> = object(wire.params?)?;
            Some(Asked::Cancelled(Id::read(params.request_id)?))
        }
        _ => None,
    }
}

/// What the server answers.
#[derive(Debug)]
pub(crate) enum Answered<'a> {
    Result(&'a RawValue),
    Error(&'a RawValue),
}

/// Reads a message of the server: its answer to a request.
pub(crate) fn answered(message: &RawValue) -> Option<(Id, Answered<'_>)> {
    let wire: Wire<'_> = object(message)?;
    let what = match (wire.method, wire.result, wire.error) {
        (None, Some(result), None) => Answered::Result(result),
        (None, None, Some(error)) => Answered::Error(error),
        _ => return None,
    };
    Some((Id::read(wire.id?)?, what))
}

/// Where a part of a line stands in it.
pub(crate) fn place(line: &[u8], part: &str) -> Option<Range<usize>> {
    let start = (part.as_ptr() as usize).checked_sub(line.as_ptr() as usize)?;
    let range = start..start.checked_add(part.len())?;
    (line.get(range.clone())? == part.as_bytes()).then_some(range)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn number(number: u32) -> Id {
        Id(number.to_string())
    }

    fn call(message: &str) -> Option<(Id, String, Option<String>)> {
        match asked(serde_json::from_str(message).unwrap())? {
            Asked::Call { id, tool, arguments, .. } => Some((id, tool.into_owned(), arguments.map(|raw| raw.get().to_owned()))),
            Asked::Cancelled(_) => None,
        }
    }

    #[test]
    fn a_call_is_read_and_everything_unusual_is_none() {
        let read = call(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a\u0062","arguments":{ "x":1.0 }}}"#);
        assert_eq!(read, Some((Id("1".to_owned()), "ab".to_owned(), Some(r#"{ "x":1.0 }"#.to_owned()))));
        assert!(call(r#"{"id":"x","method":"tools/call","params":{"name":"a"}}"#).is_some());
        for none in [
            r#"{"method":"tools/call","params":{"name":"a"}}"#,
            r#"{"id":null,"method":"tools/call","params":{"name":"a"}}"#,
            r#"{"id":[1],"method":"tools/call","params":{"name":"a"}}"#,
            r#"{"id":1,"method":"tools/call","params":{"name":7}}"#,
            r#"{"id":1,"method":"tools/call","params":["a"]}"#,
            r#"{"id":1,"method":"tools/call"}"#,
            r#"{"id":1,"id":2,"method":"tools/call","params":{"name":"a"}}"#,
            r#"{"id":1,"method":"tools/list"}"#,
            r#"{"id":1,"result":{}}"#,
        ] {
            assert_eq!(call(none), None, "{none}");
        }
    }

    #[test]
    fn an_id_is_the_same_however_it_is_written_and_a_text_is_no_number() {
        let id = |text: &str| Id::read(serde_json::from_str(text).unwrap());
        assert_eq!(id("1"), id("1.0"));
        assert_eq!(id("1e2"), id("100"));
        assert_eq!(id(r#""a""#), id(r#""\u0061""#));
        assert_ne!(id("1"), id(r#""1""#));
        assert_ne!(id("1.5"), id("1"));
        assert_ne!(id("18446744073709551615"), id("18446744073709551614"));
        assert!(id("-3").is_some() && id("true").is_none() && id("{}").is_none() && id("null").is_none());
    }

    #[test]
    fn only_an_answer_is_an_answer() {
        let read = |text: &str| answered(serde_json::from_str(text).unwrap()).is_some();
        assert!(read(r#"{"id":1,"result":{}}"#) && read(r#"{"id":"a","error":{}}"#));
        assert!(!read(r#"{"id":1,"method":"ping"}"#) && !read(r#"{"id":1,"result":{},"error":{}}"#) && !read(r#"{"result":{}}"#));
    }

    #[test]
    fn a_line_is_a_message_or_a_batch() {
        let count = |line: &[u8]| Line::read(line).map(|line| line.messages().len());
        assert_eq!(count(b" {\"id\":1}\r\n"), Some(1));
        assert_eq!(count(b"[{},{}]\n"), Some(2));
        for none in [&b""[..], b"\n", b"x", b"{", b"[]", b"{}{}", b"{\"a\":\"\xff\"}", b"1"] {
            assert_eq!(count(none), None, "{none:?}");
        }
        assert_eq!(count(format!("[{}1]", "1,".repeat(BATCH_MAX)).as_bytes()), None);
    }

    #[test]
    fn a_part_is_found_where_it_stands() {
        let line = br#" {"a":[1, 2]}"#;
        let Some(Line::One(raw)) = Line::read(line) else { panic!() };
        assert_eq!(place(line, raw.get()), Some(1..13));
        assert_eq!(place(line, "elsewhere"), None);
    }
}
