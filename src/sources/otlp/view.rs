//! A span or log record as conventions look at it.

use std::borrow::Cow;

use loopwarden_core::event::{EventTime, Reason, Rejected, is_name};
use serde_json::{Map, Number, Value};

use crate::otlp::envelope::Origin;
use crate::otlp::message::{Any, AnyValue, KeyValue, LogRecord, Span, SpanEvent};

/// Attributes of one record. The SDKs' own bound is 128.
const ATTRIBUTES_MAX: usize = 1_024;
/// Span events looked at, from the first on.
const SPAN_EVENTS_MAX: usize = 128;

/// Attributes that name a session, the best first.
const SESSION: [&str; 14] = [
    "gen_ai.conversation.id",
    "session.id",
    "langfuse.session.id",
    "traceloop.association.properties.session_id",
    "traceloop.association.properties.thread_id",
    "conversation.id",
    "gcp.vertex.agent.session_id",
    "ai.telemetry.metadata.sessionId",
    "ai.telemetry.metadata.session_id",
    "langfuse.trace.session_id",
    "traceloop.association.properties.conversation_id",
    "lmnr.association.properties.session_id",
    "sessionId",
    "session_id",
];

/// Attributes. A key that comes twice counts once, the last time.
#[derive(Clone, Copy)]
pub(crate) struct Attributes<'a>(pub(crate) &'a [KeyValue]);

impl<'a> Attributes<'a> {
    fn any(self, key: &str) -> Option<&'a Any> {
        let found = self.0.iter().rev().find(|attribute| attribute.key == key.as_bytes())?;
        found.value.as_ref()?.value.as_ref()
    }

    /// Whether it has a value.
    pub(crate) fn has(self, key: &str) -> bool {
        self.any(key).is_some()
    }

    /// Whether it is this text.
    pub(crate) fn is(self, key: &str, text: &str) -> bool {
        matches!(self.any(key), Some(Any::Text(bytes)) if bytes == text.as_bytes())
    }

    /// A text that is not empty, or a number as one.
    pub(crate) fn text(self, key: &'static str) -> Result<Option<Cow<'a, str>>, Rejected> {
        Ok(match self.any(key) {
            Some(Any::Text(bytes)) => Some(Cow::Borrowed(utf8(bytes, key)?)).filter(|text| !text.is_empty()),
            Some(Any::Int(number)) => Some(Cow::Owned(number.to_string())),
            Some(Any::Double(number)) => Some(Cow::Owned(number.to_string())),
            _ => None,
        })
    }

    /// As [`Attributes::text`], of the first key that has one.
    pub(crate) fn first_text(self, keys: &[&'static str]) -> Result<Option<Cow<'a, str>>, Rejected> {
        for key in keys {
            if let Some(text) = self.text(key)? {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }

    /// As [`Attributes::first_text`], copied.
    pub(crate) fn owned(self, keys: &[&'static str]) -> Result<Option<String>, Rejected> {
        Ok(self.first_text(keys)?.map(Cow::into_owned))
    }

    /// Any value of the first key that has one. An empty text is none.
    pub(crate) fn value(self, keys: &[&'static str]) -> Result<Option<Value>, Rejected> {
        for key in keys {
            match self.any(key) {
                None => {}
                Some(Any::Text(bytes)) if bytes.is_empty() => {}
                Some(any) => return Ok(Some(value_of(any, key)?)),
            }
        }
        Ok(None)
    }

    /// True or false, also as a text.
    pub(crate) fn flag(self, key: &str) -> Option<bool> {
        match self.any(key)? {
            Any::Flag(flag) => Some(*flag),
            Any::Text(text) if text == b"true" => Some(true),
            Any::Text(text) if text == b"false" => Some(false),
            _ => None,
        }
    }

    /// A whole number, also as a text.
    pub(crate) fn number(self, key: &str) -> Option<i64> {
        match self.any(key)? {
            Any::Int(number) => Some(*number),
            Any::Text(text) => std::str::from_utf8(text).ok()?.parse().ok(),
            _ => None,
        }
    }

    fn session(self) -> Option<&'a str> {
        let named = SESSION.iter().find_map(|key| match self.any(key)? {
            Any::Text(bytes) if !bytes.is_empty() => Some(bytes),
            _ => None,
        })?;
        // What is no name is refused where a call needs it.
        Some(std::str::from_utf8(named).unwrap_or("\u{0}"))
    }
}

/// Text of bytes that should be UTF-8.
pub(crate) fn utf8<'a>(bytes: &'a [u8], field: &str) -> Result<&'a str, Rejected> {
    std::str::from_utf8(bytes).map_err(|_| Rejected::at(Reason::NotUtf8, field))
}

/// A value as JSON. Of equal keys the last one counts; what JSON has no number for is null, and bytes are hex.
fn value_of(any: &Any, field: &str) -> Result<Value, Rejected> {
    let inner = |value: &Option<Any>| value.as_ref().map_or(Ok(Value::Null), |any| value_of(any, field));
    Ok(match any {
        Any::Text(bytes) => utf8(bytes, field)?.into(),
        Any::Flag(flag) => (*flag).into(),
        Any::Int(number) => (*number).into(),
        Any::Double(number) => Number::from_f64(*number).map_or(Value::Null, Value::Number),
        Any::Array(array) => Value::Array(array.values.iter().map(|value| inner(&value.value)).collect::<Result<_, _>>()?),
        Any::Object(list) => {
            let mut object = Map::new();
            for KeyValue { key, value } in &list.values {
                let value = value.as_ref().map_or(Ok(Value::Null), |value| inner(&value.value))?;
                object.insert(utf8(key, field)?.to_owned(), value);
            }
            Value::Object(object)
        }
        Any::Bytes(bytes) => crate::session::hex(bytes).into(),
    })
}

/// The session that a record, its scope or its resource names, the nearest first.
fn session_of<'a>(own: Attributes<'a>, origin: &'a Origin) -> Option<&'a str> {
    let scope = || Attributes(&origin.scope.attributes).session();
    own.session().or_else(scope).or_else(|| Attributes(&origin.resource.attributes).session())
}

/// A name that an event may have.
pub(crate) fn checked_session(named: &str) -> Result<&str, Rejected> {
    if is_name(named) { Ok(named) } else { Err(Rejected::at(Reason::BadValue, "session_id")) }
}

fn check_size(attributes: &[KeyValue]) -> Result<(), Rejected> {
    if attributes.len() > ATTRIBUTES_MAX { Err(Rejected::at(Reason::TooLarge, "attributes")) } else { Ok(()) }
}

/// Milliseconds of nanoseconds; 0 is none.
fn time_of(nanos: u64) -> Option<EventTime> {
    (nanos > 0).then(|| EventTime(i64::try_from(nanos / 1_000_000).unwrap_or(i64::MAX))).filter(|time| time.0 <= TIME_MS_MAX)
}

/// The last moment of the year 9999. Unix milliseconds.
const TIME_MS_MAX: i64 = 253_402_300_799_999;

/// A span with who sent it.
#[derive(Clone, Copy)]
pub(crate) struct SpanView<'a> {
    pub(crate) span: &'a Span,
    pub(crate) attributes: Attributes<'a>,
    pub(crate) origin: &'a Origin,
}

impl<'a> SpanView<'a> {
    pub(crate) fn new(span: &'a Span, origin: &'a Origin) -> Result<Self, Rejected> {
        check_size(&span.attributes)?;
        Ok(Self { span, attributes: Attributes(&span.attributes), origin })
    }

    pub(crate) fn session(self) -> Option<&'a str> {
        session_of(self.attributes, self.origin)
    }

    pub(crate) fn has_name(self, name: &str) -> bool {
        self.span.name == name.as_bytes()
    }

    pub(crate) fn name(self) -> Result<&'a str, Rejected> {
        utf8(&self.span.name, "name")
    }

    pub(crate) fn scope_is(self, name: &str) -> bool {
        self.origin.scope.name == name.as_bytes()
    }

    /// When it ended, else when it began.
    pub(crate) fn time(self) -> Option<EventTime> {
        time_of(self.span.end_time_unix_nano).or_else(|| time_of(self.span.start_time_unix_nano))
    }

    pub(crate) fn duration_ms(self) -> Option<u64> {
        let Span { start_time_unix_nano: start, end_time_unix_nano: end, .. } = self.span;
        (*start > 0).then(|| end.checked_sub(*start)).flatten().map(|nanos| nanos / 1_000_000)
    }

    /// The last event of that name.
    pub(crate) fn event(self, name: &str) -> Option<Attributes<'a>> {
        let looked_at = self.span.events.get(..SPAN_EVENTS_MAX).unwrap_or(&self.span.events);
        let found: Option<&SpanEvent> = looked_at.iter().rev().find(|event| event.name == name.as_bytes());
        found.map(|event| Attributes(&event.attributes)).filter(|event| event.0.len() <= ATTRIBUTES_MAX)
    }

    /// Whether its status says that it failed.
    pub(crate) fn is_error(self) -> bool {
        self.span.status.as_ref().is_some_and(|status| status.code == 2)
    }

    /// What failed: `error.type` or the type of an exception, and its message or that of the status.
    pub(crate) fn error(self) -> Result<(Option<String>, Option<String>), Rejected> {
        let exception = self.event("exception").unwrap_or(Attributes(&[]));
        let kind = match self.attributes.owned(&["error.type"])? {
            Some(kind) if kind != "_OTHER" => Some(kind),
            _ => exception.owned(&["exception.type"])?,
        };
        let status = self.span.status.as_ref().map_or(Ok(""), |status| utf8(&status.message, "status"))?;
        let message = match exception.owned(&["exception.message"])? {
            None => Some(status.to_owned()).filter(|text| !text.is_empty()),
            message => message,
        };
        let message = match message {
            None => self.attributes.owned(&["error.message"])?,
            message => message,
        };
        Ok((kind, message))
    }
}

/// A log record with who sent it.
#[derive(Clone, Copy)]
pub(crate) struct LogView<'a> {
    pub(crate) record: &'a LogRecord,
    pub(crate) attributes: Attributes<'a>,
    pub(crate) origin: &'a Origin,
}

impl<'a> LogView<'a> {
    pub(crate) fn new(record: &'a LogRecord, origin: &'a Origin) -> Result<Self, Rejected> {
        check_size(&record.attributes)?;
        Ok(Self { record, attributes: Attributes(&record.attributes), origin })
    }

    pub(crate) fn session(self) -> Option<&'a str> {
        session_of(self.attributes, self.origin)
    }

    /// The name of the event without the prefix of its program: of the attribute, else of the body, else of the record. A record's own name may
    /// be a place in a source.
    pub(crate) fn event(self, prefix: &str, service: &str) -> Option<&'a str> {
        let text = |any: Option<&'a Any>| match any {
            Some(Any::Text(bytes)) => std::str::from_utf8(bytes).ok().filter(|text| !text.is_empty()),
            _ => None,
        };
        let body = || text(self.record.body.as_ref().and_then(|AnyValue { value }| value.as_ref()));
        let own = || std::str::from_utf8(&self.record.event_name).ok().filter(|name| !name.is_empty() && !name.contains(' '));
        let name = text(self.attributes.any("event.name")).or_else(body).or_else(own)?;
        let sent_by = || Attributes(&self.origin.resource.attributes).is("service.name", service);
        name.strip_prefix(prefix).or_else(|| sent_by().then_some(name))
    }

    /// When it happened, else when it was seen.
    pub(crate) fn time(self) -> Option<EventTime> {
        let stamped = || match self.attributes.any("event.timestamp") {
            Some(Any::Text(text)) => std::str::from_utf8(text).ok().and_then(EventTime::parse_rfc3339),
            _ => None,
        };
        time_of(self.record.time_unix_nano).or_else(stamped).or_else(|| time_of(self.record.observed_time_unix_nano))
    }
}
