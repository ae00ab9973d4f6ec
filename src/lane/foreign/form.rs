//! What the records of a topic are, and what becomes of one. No memory: equal records become equal events, whatever came before.

use loopwarden_core::event::{Reason, Record, RecordMeta, Rejected, decode};
use loopwarden_log::Headers;
use loopwarden_sources::{Batch, Became, Calls, Fault, Grant, Made, NATIVE_FORM, Senders, Sessions, cloudevents, mapping, otlp};
use loopwarden_sources::{INFLATED_BYTES_MAX, cloudevents::Transport, mapping::Mapping};

/// What the records of a topic are.
#[derive(Debug)]
pub enum Form {
    /// Events that have another key than their session.
    Native,
    /// JSON that a mapping reads.
    Json(Mapping),
    /// CloudEvents, structured or binary by their headers; a mapping reads data that is no event.
    CloudEvents(Option<Mapping>),
    /// OpenTelemetry. The session of a trace is what the spans of the same record say, and else the id of the trace.
    Otlp(otlp::Signal, otlp::Form),
}

/// An event as it goes to the input topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// The key.
    pub(crate) session_id: String,
    pub(crate) json: Vec<u8>,
    /// Those of a native record: an event's id may stand in one.
    pub(crate) headers: Headers,
    /// Who reports the end of a call with it; none where it is no such event.
    pub(crate) ends_call_of: Option<&'static str>,
}

/// What became of a record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Read {
    /// Its events, in order.
    pub(crate) events: Vec<Event>,
    /// Parts that say nothing about calls, prompts or sessions.
    pub(crate) ignored: usize,
    /// Parts that should have been events and cannot be.
    pub(crate) refused: usize,
    /// Why the first of these is none, or the whole record.
    pub(crate) cause: Option<Rejected>,
    /// The same by sender, and what was missing in calls.
    pub(crate) senders: Senders,
}

impl Read {
    /// Takes out what the senders of the topic may not say, and completes the rest.
    pub(crate) fn admit(&mut self, grant: &Grant, record: &Record<'_>, event_bytes_max: usize) {
        let meta = RecordMeta { headers: record.meta.headers.clone(), value_bytes_max: event_bytes_max, ..record.meta };
        for event in std::mem::take(&mut self.events) {
            match grant.admitted(event.json, &meta) {
                Ok(json) => self.events.push(Event { json, ..event }),
                Err(cause) => {
                    self.refused += 1;
                    self.cause.get_or_insert(cause);
                }
            }
        }
    }

    /// A record of which nothing can be read.
    fn refused(form: &Form, cause: Rejected) -> Self {
        let mut senders = Senders::default();
        senders.count((form.word(), ""), Became::Refused);
        Self { refused: 1, cause: Some(cause), senders, ..Self::default() }
    }

    fn of(form: &Form, batch: Result<Batch, Fault>) -> Self {
        match batch {
            Ok(batch) => Self {
                refused: batch.refused.len(),
                cause: batch.refused.into_iter().next().map(|refused| refused.rejected),
                events: batch.events.into_iter().map(event).collect(),
                ignored: batch.ignored,
                senders: batch.senders,
            },
            Err(fault) => Self::refused(form, Rejected::whole(reason(fault))),
        }
    }
}

fn event(made: Made) -> Event {
    let ends_call_of = made.ends_call_of();
    Event { session_id: made.session_id, json: made.json, headers: Headers::default(), ends_call_of }
}

const fn reason(fault: Fault) -> Reason {
    match fault {
        Fault::TooLarge(_) | Fault::TooManyRecords => Reason::TooLarge,
        Fault::NotJson => Reason::NotJson,
        Fault::NotGzip | Fault::NotProtobuf | Fault::OtherShape => Reason::UnsupportedFormat,
    }
}

impl Form {
    /// What becomes of a record. Its own time stands for that of events without one; no event is larger than `event_bytes_max`.
    pub(crate) fn read(&self, record: &Record<'_>, event_bytes_max: usize) -> Read {
        let now = record.meta.timestamp;
        let whole = |reason| Read::refused(self, Rejected::whole(reason));
        if record.value.is_some_and(|value| value.len() > INFLATED_BYTES_MAX) {
            return whole(Reason::TooLarge);
        }
        match (self, record.value) {
            (Self::CloudEvents(mapping), value) => {
                let headers = record.meta.headers.iter().filter_map(|(name, value)| Some((*name, (*value)?)));
                let headers: Vec<(&str, &[u8])> = headers.collect();
                let value = value.unwrap_or_default();
                let read = cloudevents::read(Transport::Kafka, &headers, value, mapping.as_ref(), now, event_bytes_max);
                read.transpose().map_or_else(|| whole(Reason::UnsupportedFormat), |read| Read::of(self, read))
            }
            (_, None) => whole(Reason::NullValue),
            (Self::Native, Some(value)) => self.native(record, value, event_bytes_max),
            (Self::Json(mapping), Some(value)) => {
                let mut batch = Batch::default();
                batch.take((mapping::FORM, ""), mapping.map(value, now, event_bytes_max));
                Read::of(self, Ok(batch))
            }
            (Self::Otlp(signal, form), Some(value)) => {
                Read::of(self, otlp::read((*signal, *form), value, &mut Sessions::default(), now, event_bytes_max))
            }
        }
    }

    /// A native record keeps its bytes and its headers.
    fn native(&self, record: &Record<'_>, value: &[u8], event_bytes_max: usize) -> Read {
        let meta = RecordMeta { headers: record.meta.headers.clone(), value_bytes_max: event_bytes_max, ..record.meta };
        let event = match decode(Some(value), &meta) {
            Ok(event) => event,
            Err(cause) => return Read::refused(self, cause),
        };
        let (mut senders, calls) = (Senders::default(), Calls::of(&event));
        senders.count((NATIVE_FORM, ""), Became::Event(calls));
        let session_id = event.session_id.as_ref().to_owned();
        let mut headers = Headers::default();
        for (name, value) in &record.meta.headers {
            headers.push((*name).to_owned(), value.unwrap_or_default());
        }
        let ends_call_of = (calls.ended > 0).then_some(NATIVE_FORM);
        let event = Event { session_id, json: value.to_vec(), headers, ends_call_of };
        Read { events: vec![event], senders, ..Read::default() }
    }

    /// What its senders are said to send.
    const fn word(&self) -> &'static str {
        match self {
            Self::Native => NATIVE_FORM,
            Self::Json(_) => mapping::FORM,
            Self::CloudEvents(_) => cloudevents::FORM,
            Self::Otlp(..) => otlp::FORM,
        }
    }
}

#[cfg(test)]
mod tests {
    use loopwarden_core::event::{EventTime, RecordOffset};

    use super::*;

    fn read(form: &Form, headers: Vec<(&str, Option<&[u8]>)>, value: Option<&[u8]>) -> Read {
        let meta = RecordMeta {
            topic: "foreign",
            partition: 0,
            offset: RecordOffset(7),
            timestamp: EventTime(1_800_000_000_000),
            key: None,
            headers,
            value_bytes_max: 1 << 20,
        };
        form.read(&Record::new(meta, value), 1 << 18)
    }

    const EVENT: &[u8] = br#"{"id":"e","kind":"tool","session_id":"s","tool":"t","outcome":"ok"}"#;

    #[test]
    fn a_native_record_keeps_its_bytes_and_headers_and_is_keyed_by_its_session() {
        let found = read(&Form::Native, vec![("ce_id", Some(b"h"))], Some(EVENT));
        let [event] = &found.events[..] else { panic!("{found:?}") };
        assert_eq!((event.session_id.as_str(), &event.json[..], event.headers.get("ce_id")), ("s", EVENT, Some(&b"h"[..])));
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let reasons = |form: &Form, value| read(form, Vec::new(), value).cause.map(|cause| cause.reason);
        let otlp = |form| Form::Otlp(otlp::Signal::Traces, form);
        assert_eq!(reasons(&Form::Native, Some(b"{")), Some(Reason::NotJson));
        assert_eq!(reasons(&Form::Native, None), Some(Reason::NullValue));
        assert_eq!(reasons(&otlp(otlp::Form::Protobuf), Some(b"\xff\xff\xff")), Some(Reason::UnsupportedFormat));
        assert_eq!(reasons(&otlp(otlp::Form::Json), Some(b"no json")), Some(Reason::NotJson));
        assert_eq!(reasons(&Form::CloudEvents(None), Some(EVENT)), Some(Reason::UnsupportedFormat));
        let large = vec![b'x'; INFLATED_BYTES_MAX + 1];
        assert_eq!(reasons(&Form::Native, Some(&large)), Some(Reason::TooLarge));
    }

    #[test]
    fn a_cloud_event_is_structured_or_binary_by_its_headers() {
        let form = Form::CloudEvents(None);
        let binary: Vec<(&str, Option<&[u8]>)> = vec![
            ("ce_specversion", Some(b"1.0")),
            ("ce_id", Some(b"1")),
            ("ce_source", Some(b"/a")),
            ("ce_type", Some(b"t")),
            ("content-type", Some(b"application/json")),
        ];
        assert_eq!(read(&form, binary, Some(EVENT)).events.len(), 1);
        let whole = [br#"{"specversion":"1.0","id":"1","source":"/a","type":"t","data":"#, EVENT, b"}"].concat();
        let structured: Vec<(&str, Option<&[u8]>)> = vec![("content-type", Some(b"application/cloudevents+json"))];
        assert_eq!(read(&form, structured, Some(&whole)).events.len(), 1);
    }
}
