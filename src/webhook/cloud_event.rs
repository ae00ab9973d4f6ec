//! A command as a CloudEvent 1.0 over HTTP. Its attributes are the `ce_` headers that it has on the topic.

use std::fmt::Write as _;

use loopwarden_core::event::EventTime;
use loopwarden_log::Output;
use serde_json::{Value, value::RawValue};

use crate::{chat, link::Button, otlp, settings::Format};

/// What attributes begin with among the headers of a record.
const KAFKA_PREFIX: &str = "ce_";
/// Attributes that every event has.
const REQUIRED: [&str; 4] = ["specversion", "id", "source", "type"];
/// Most attributes. Commands have thirteen.
const ATTRIBUTES_MAX: usize = 64;
/// Longest value of an attribute. Bytes. Longer ones no receiver takes as a header.
const VALUE_BYTES_MAX: usize = 4_096;
/// Largest command. Bytes. Ours have some kilobytes.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// What the type of a command begins and ends with; the action stands between.
const TYPE: (&str, &str) = ("dev.loopwarden.command.", ".v1");

/// A command, borrowed from its record.
#[derive(Debug)]
pub(crate) struct CloudEvent<'a> {
    /// Attributes in the order of the record; a name comes once.
    attributes: Vec<(&'a str, &'a str)>,
    data: &'a RawValue,
    body: &'a [u8],
}

/// A request without what proves where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    /// The same at each try.
    pub(crate) id: String,
    /// After which nobody may act on it.
    pub(crate) expires: Option<EventTime>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Links in the body, by which whoever has them may answer.
    pub(crate) links: Vec<String>,
}

impl<'a> CloudEvent<'a> {
    /// The event of a record; `None` where it is none. Anybody with the permission may have written to the topic.
    pub(crate) fn of(output: &'a Output) -> Option<Self> {
        let body = output.value.as_deref().filter(|body| body.len() <= BODY_BYTES_MAX)?;
        let data: &RawValue = serde_json::from_slice(body).ok()?;
        let mut attributes: Vec<(&str, &str)> = Vec::new();
        for (name, value) in output.headers.iter() {
            let Some(name) = name.strip_prefix(KAFKA_PREFIX) else { continue };
            let value = std::str::from_utf8(value).ok().filter(|value| value.len() <= VALUE_BYTES_MAX)?;
            let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
            let is_new = attributes.iter().all(|(known, _)| *known != name);
            if !is_name || !is_new || attributes.len() == ATTRIBUTES_MAX {
                return None;
            }
            attributes.push((name, value));
        }
        let event = Self { attributes, data, body };
        let has = |name: &&str| event.attribute(name).is_some_and(|value| !value.is_empty());
        REQUIRED.iter().all(has).then_some(event)
    }

    fn attribute(&self, name: &str) -> Option<&'a str> {
        self.attributes.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// The word of its action, if it is a command.
    pub(crate) fn action(&self) -> Option<&'a str> {
        self.attribute("type")?.strip_prefix(TYPE.0)?.strip_suffix(TYPE.1)
    }

    /// Whose it is; empty: nobody's.
    pub(crate) fn tenant(&self) -> String {
        self.command().get("tenant").and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// Whether it asks for a person.
    pub(crate) fn asks_human(&self) -> bool {
        chat::asks_human(&self.command())
    }

    /// Null where it is no JSON.
    pub(crate) fn command(&self) -> Value {
        serde_json::from_str(self.data.get()).unwrap_or_default()
    }

    /// As it goes over HTTP, with these links where it is for people.
    pub(crate) fn message(&self, format: Format, buttons: &[Button]) -> Message {
        let (media, headers, body) = match format {
            Format::Binary => {
                let header = |(name, value): &(&str, &str)| (format!("ce-{name}"), encoded(value));
                ("application/json", self.attributes.iter().map(header).collect(), self.body.to_vec())
            }
            Format::Chat(chat) => ("application/json", Vec::new(), chat::body(chat, &self.command(), buttons)),
            Format::Otlp => ("application/json", Vec::new(), otlp::body(&self.command(), self.attribute("traceparent"))),
            Format::Structured => ("application/cloudevents+json; charset=utf-8", Vec::new(), self.document().into_bytes()),
        };
        let mut headers: Vec<(String, String)> = headers;
        headers.push(("content-type".to_owned(), media.to_owned()));
        Message {
            id: self.attribute("id").unwrap_or_default().to_owned(),
            expires: self.attribute("expirytime").and_then(EventTime::parse_rfc3339),
            headers,
            body,
            links: buttons.iter().map(|button| button.url.clone()).collect(),
        }
    }

    /// The JSON format of CloudEvents.
    fn document(&self) -> String {
        let mut json = "{".to_owned();
        for (name, value) in &self.attributes {
            // Writing to a String cannot fail. Names are letters and digits.
            let _ = write!(json, "\"{name}\":{},", Value::from(*value));
        }
        let _ = write!(json, "\"datacontenttype\":\"application/json\",\"data\":{}}}", self.data.get());
        json
    }
}

/// The value of a header, as the HTTP binding of CloudEvents has it (section 3.1.3.2): what is not printable ASCII, blanks, quotes and
/// the percent sign become the percent-encoded bytes of their UTF-8.
fn encoded(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        if matches!(byte, 0x21..=0x7e) && !matches!(byte, b'"' | b'%') {
            text.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use loopwarden_log::{Destination, Headers};

    use super::*;

    fn output(headers: &[(&str, &str)], value: Option<&str>) -> Output {
        let required =
            [("ce_specversion", "1.0"), ("ce_id", "i1"), ("ce_source", "/s"), ("ce_type", "dev.loopwarden.command.nudge.v1")];
        Output {
            destination: Destination::Commands,
            key: b"k".to_vec(),
            value: value.map(|value| value.as_bytes().to_vec()),
            headers: required.iter().chain(headers).map(|(name, value)| ((*name).to_owned(), *value)).collect::<Headers>(),
            timestamp_ms: 0,
        }
    }

    /// The examples of the HTTP binding, section 3.1.3.2, and the characters it names.
    #[test]
    fn values_of_headers_are_encoded_as_the_binding_has_it() {
        assert_eq!(encoded("Euro € 😀"), "Euro%20%E2%82%AC%20%F0%9F%98%80");
        assert_eq!(encoded("\"100%\"\r\nx-injected: 1\u{7f}"), "%22100%25%22%0D%0Ax-injected:%201%7F");
        assert_eq!(encoded("2026-11-21T20:00:03.120Z/~!'()*"), "2026-11-21T20:00:03.120Z/~!'()*");
    }

    #[test]
    fn binary_has_attributes_as_headers_and_the_command_as_body() {
        let output = output(&[("ce_subject", "sess 42"), ("lw_ordinal", "17"), ("content-type", "x")], Some(r#"{"v": 1}"#));
        let event = CloudEvent::of(&output).expect("an event");
        assert_eq!(event.action(), Some("nudge"));
        let message = event.message(Format::Binary, &[]);
        let headers: Vec<(&str, &str)> = message.headers.iter().map(|(name, value)| (&**name, &**value)).collect();
        let expected = [
            ("ce-specversion", "1.0"),
            ("ce-id", "i1"),
            ("ce-source", "/s"),
            ("ce-type", "dev.loopwarden.command.nudge.v1"),
            ("ce-subject", "sess%2042"),
            ("content-type", "application/json"),
        ];
        assert_eq!(headers, expected);
        assert_eq!((message.id.as_str(), message.body.as_slice()), ("i1", br#"{"v": 1}"#.as_slice()));
    }

    #[test]
    fn structured_is_one_document_with_the_command_as_data() {
        let output = output(&[("ce_subject", "a\"b"), ("ce_expirytime", "1970-01-01T00:00:01Z")], Some(r#"{"tenant":"t"}"#));
        let event = CloudEvent::of(&output).expect("an event");
        assert_eq!(event.tenant(), "t");
        let message = event.message(Format::Structured, &[]);
        assert_eq!(message.expires, Some(EventTime(1_000)));
        assert_eq!(message.headers, [("content-type".to_owned(), "application/cloudevents+json; charset=utf-8".to_owned())]);
        assert_eq!(
            String::from_utf8(message.body).expect("text"),
            concat!(
                r#"{"specversion":"1.0","id":"i1","source":"/s","type":"dev.loopwarden.command.nudge.v1","subject":"a\"b","#,
                r#""expirytime":"1970-01-01T00:00:01Z","datacontenttype":"application/json","data":{"tenant":"t"}}"#
            )
        );
    }

    #[test]
    fn what_is_no_event_is_none() {
        assert!(CloudEvent::of(&output(&[], Some("{}"))).is_some());
        let long = "a".repeat(VALUE_BYTES_MAX + 1);
        for (headers, value) in [
            (vec![], None),
            (vec![], Some("{")),
            (vec![("ce_subject", long.as_str())], Some("{}")),
            (vec![("ce_bad-name", "x")], Some("{}")),
            (vec![("ce_", "x")], Some("{}")),
            (vec![("ce_id", "i2")], Some("{}")),
        ] {
            assert!(CloudEvent::of(&output(&headers, value)).is_none(), "{headers:?}");
        }
        let mut nameless = output(&[], Some("{}"));
        nameless.headers = [("ce_specversion", "1.0"), ("ce_id", ""), ("ce_source", "s"), ("ce_type", "t")].into_iter().collect();
        assert!(CloudEvent::of(&nameless).is_none());
        let mut bytes = output(&[], Some("{}"));
        bytes.headers.push("ce_subject", [0xff]);
        assert!(CloudEvent::of(&bytes).is_none());
    }
}
