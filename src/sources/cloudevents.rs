//! CloudEvents 1.0: structured, batched and binary, from HTTP or Kafka.
//!
//! The data is a native event, whose gaps the attributes fill, or foreign JSON that a [`Mapping`] reads. Extensions but `traceparent` are not
//! looked at.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use loopwarden_core::event::{EventTime, Reason, Rejected, is_name, json};
use loopwarden_core::native::{id_of, is_native};

use crate::batch::{Batch, Bounds, Made};
use crate::{body::Fault, body::RECORDS_MAX, mapping::Mapping};

/// The form of all senders here.
pub const FORM: &str = "CloudEvents";

/// How attributes stand in headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// `ce-NAME`, in any case; values are percent-encoded.
    Http,
    /// `ce_NAME`; values are UTF-8.
    Kafka,
}

/// The four attributes that each event has.
const REQUIRED: [&str; 4] = ["specversion", "id", "source", "type"];

/// Attributes of one event, as far as they are read.
#[derive(Debug, Default)]
struct Attributes<'a> {
    specversion: Option<Cow<'a, str>>,
    id: Option<Cow<'a, str>>,
    source: Option<Cow<'a, str>>,
    kind: Option<Cow<'a, str>>,
    subject: Option<Cow<'a, str>>,
    time: Option<Cow<'a, str>>,
    media: Option<Cow<'a, str>>,
    traceparent: Option<Cow<'a, str>>,
}

impl<'a> Attributes<'a> {
    fn place(&mut self, name: &str) -> Option<(&mut Option<Cow<'a, str>>, &'static str)> {
        Some(match name {
            "specversion" => (&mut self.specversion, "specversion"),
            "id" => (&mut self.id, "id"),
            "source" => (&mut self.source, "source"),
            "type" => (&mut self.kind, "type"),
            "subject" => (&mut self.subject, "subject"),
            "time" => (&mut self.time, "time"),
            "datacontenttype" => (&mut self.media, "datacontenttype"),
            "traceparent" => (&mut self.traceparent, "traceparent"),
            _ => return None,
        })
    }

    fn set(&mut self, name: &str, value: Cow<'a, str>) -> Result<(), Rejected> {
        let Some((place, name)) = self.place(name) else { return Ok(()) };
        if place.replace(value).is_some() { Err(Rejected::at(Reason::DuplicateField, name)) } else { Ok(()) }
    }

    fn sender(&self) -> String {
        self.source.as_deref().unwrap_or_default().to_owned()
    }

    /// The id of an event that has none: source and id together name it, in a retry too.
    fn event_id(&self) -> String {
        format!("ce-{}", id_of(&[self.source.as_deref().unwrap_or_default(), self.id.as_deref().unwrap_or_default()]))
    }

    fn check(&self) -> Result<(), Rejected> {
        for (name, value) in REQUIRED.iter().zip([&self.specversion, &self.id, &self.source, &self.kind]) {
            if value.as_ref().is_none_or(|value| value.is_empty()) {
                return Err(Rejected::at(Reason::MissingField, name));
            }
        }
        if self.specversion.as_deref() != Some("1.0") {
            return Err(Rejected::at(Reason::UnsupportedVersion, "specversion"));
        }
        let media = self.media.as_deref().unwrap_or("application/json");
        let media = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if matches!(media.as_str(), "application/json" | "text/json") || media.ends_with("+json") {
            Ok(())
        } else {
            Err(Rejected::at(Reason::UnsupportedFormat, "datacontenttype"))
        }
    }
}

/// Reads a body, or the value of a record. `None` where it is no CloudEvent at all.
///
/// # Errors
/// Why nothing of it can be read.
pub fn read(
    transport: Transport,
    headers: &[(&str, &[u8])],
    body: &[u8],
    mapping: Option<&Mapping>,
    now: EventTime,
    event_bytes_max: usize,
) -> Result<Option<Batch>, Fault> {
    let media = headers.iter().rev().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let media = media.and_then(|(_, value)| std::str::from_utf8(value).ok()).unwrap_or_default().trim().to_ascii_lowercase();
    let bounds = Bounds { event_bytes_max, now };
    let mut batch = Batch::default();
    let mut take = |(source, made): (String, Result<Option<Made>, Rejected>)| batch.take((FORM, &source), made);
    if media.starts_with("application/cloudevents-batch") {
        let text = valid(body).map_err(|_| Fault::NotJson)?;
        if !text.trim_ascii_start().starts_with('[') {
            return Err(Fault::OtherShape);
        }
        if json::elements(text).nth(RECORDS_MAX).is_some() {
            return Err(Fault::TooManyRecords);
        }
        json::elements(text).for_each(|element| take(structured(element, mapping, bounds)));
        batch.sort();
    } else if media.starts_with("application/cloudevents") {
        take(valid(body).map_or_else(|rejected| (String::new(), Err(rejected)), |text| structured(text, mapping, bounds)));
    } else {
        let Some(attributes) = binary(transport, headers, &media) else { return Ok(None) };
        let source = attributes.as_ref().map_or_else(|_| String::new(), Attributes::sender);
        take((
            source,
            attributes.and_then(|attributes| {
                let data = if body.is_empty() { Err(Rejected::at(Reason::NullValue, "data")) } else { valid(body) };
                event(&attributes, data?, mapping, bounds)
            }),
        ));
    }
    Ok(Some(batch))
}

/// Text that is one JSON value.
fn valid(bytes: &[u8]) -> Result<&str, Rejected> {
    let text = json::text(bytes).ok_or_else(|| Rejected::whole(Reason::NotUtf8))?;
    if json::is_valid(text) { Ok(text) } else { Err(Rejected::whole(Reason::NotJson)) }
}

/// Attributes of headers. `None` unless all four required ones are there.
fn binary<'a>(transport: Transport, headers: &[(&str, &'a [u8])], media: &str) -> Option<Result<Attributes<'a>, Rejected>> {
    let (mut attributes, mut fault) = (Attributes::default(), None);
    for (name, value) in headers {
        let name = match transport {
            Transport::Http => name.get(..3).filter(|prefix| prefix.eq_ignore_ascii_case("ce-")).and_then(|_| name.get(3..)),
            Transport::Kafka => name.strip_prefix("ce_"),
        };
        let Some(name) = name.map(str::to_ascii_lowercase) else { continue };
        let value = match transport {
            Transport::Http => percent_decoded(value),
            Transport::Kafka => std::str::from_utf8(value).ok().map(Cow::Borrowed),
        };
        let set = match value {
            Some(value) => attributes.set(&name, value),
            None => attributes.place(&name).map_or(Ok(()), |(place, name)| {
                // It is there, so this is a CloudEvent, and a bad one.
                *place = Some(Cow::Borrowed(""));
                Err(Rejected::at(Reason::NotUtf8, name))
            }),
        };
        fault = fault.or(set.err());
    }
    let traceparent = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("traceparent"));
    if let (None, Some((_, value))) = (&attributes.traceparent, traceparent) {
        attributes.traceparent = std::str::from_utf8(value).ok().map(Cow::Borrowed);
    }
    // The type of the data is that of the body; an attribute of that name must not be.
    attributes.media = (!media.is_empty()).then(|| Cow::Owned(media.to_owned()));
    let is_one = [&attributes.specversion, &attributes.id, &attributes.source, &attributes.kind].iter().all(|it| it.is_some());
    is_one.then(|| fault.map_or(Ok(attributes), Err))
}

/// The value of an HTTP header: quotes with backslashes of older senders are undone, then percent signs, once.
fn percent_decoded(value: &[u8]) -> Option<Cow<'_, str>> {
    let text = std::str::from_utf8(value).ok()?.trim();
    let text = match text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) => {
            let mut unquoted = String::with_capacity(inner.len());
            let mut letters = inner.chars();
            while let Some(letter) = letters.next() {
                unquoted.extend(if letter == '\\' { letters.next() } else { Some(letter) });
            }
            Cow::Owned(unquoted)
        }
        None => Cow::Borrowed(text),
    };
    if !text.contains('%') {
        return Some(text);
    }
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let digits = after.first_chunk::<2>().filter(|_| *first == b'%');
        let decoded = digits.and_then(|digits| {
            let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
            u8::try_from(high? * 16 + low?).ok()
        });
        bytes.push(decoded.unwrap_or(*first));
        rest = if decoded.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// An event that is one JSON object, with the name of its sender.
fn structured(text: &str, mapping: Option<&Mapping>, bounds: Bounds) -> (String, Result<Option<Made>, Rejected>) {
    let mut attributes = Attributes::default();
    let made = complete(text, &mut attributes, mapping, bounds);
    (attributes.sender(), made)
}

fn complete<'a>(
    text: &'a str,
    attributes: &mut Attributes<'a>,
    mapping: Option<&Mapping>,
    bounds: Bounds,
) -> Result<Option<Made>, Rejected> {
    let text = text.trim_ascii();
    if !text.starts_with('{') {
        return Err(Rejected::whole(Reason::NotAnObject));
    }
    let (mut data, mut encoded) = (None, None);
    for (name, value) in json::fields(text).filter(|(_, value)| *value != "null") {
        match &*name {
            "data" if data.replace(value).is_some() => return Err(Rejected::at(Reason::DuplicateField, "data")),
            "data_base64" if encoded.replace(value).is_some() => return Err(Rejected::at(Reason::DuplicateField, "data_base64")),
            "data" | "data_base64" => {}
            _ if json::is_string(value) => attributes.set(&name, json::unquote(value))?,
            _ => {
                if let Some((_, name)) = attributes.place(&name) {
                    return Err(Rejected::at(Reason::BadType, name));
                }
            }
        }
    }
    match (data, encoded) {
        (Some(data), None) => event(attributes, data, mapping, bounds),
        (None, Some(encoded)) => {
            let is_text = json::is_string(encoded);
            let bytes = is_text.then(|| STANDARD.decode(json::unquote(encoded).as_bytes()).ok()).flatten();
            let bytes = bytes.ok_or_else(|| Rejected::at(Reason::BadValue, "data_base64"))?;
            let data = valid(&bytes).map_err(|rejected| Rejected::at(rejected.reason, "data_base64"))?;
            event(attributes, data, mapping, bounds)
        }
        (Some(_), Some(_)) => Err(Rejected::at(Reason::DuplicateField, "data_base64")),
        (None, None) => attributes.check().and_then(|()| Err(Rejected::at(Reason::NullValue, "data"))),
    }
}

/// The native event of attributes and data.
fn event(attributes: &Attributes<'_>, data: &str, mapping: Option<&Mapping>, bounds: Bounds) -> Result<Option<Made>, Rejected> {
    attributes.check()?;
    let data = data.trim_ascii();
    if is_native(data) {
        return bounds.check(FORM, completed(attributes, data).into_bytes()).map(Some);
    }
    match mapping {
        Some(mapping) => mapping.event(FORM, data, || attributes.event_id(), bounds),
        None if data.starts_with('{') => Err(Rejected::at(Reason::MissingField, "data/kind")),
        None => Err(Rejected::at(Reason::NotAnObject, "data")),
    }
}

/// A native event whose gaps are filled. Everything else stays as it was written: numbers keep their digits.
fn completed(attributes: &Attributes<'_>, data: &str) -> String {
    let has = |name: &str| json::fields(data).any(|(key, value)| key == name && value != "null");
    let mut gaps: Vec<(&str, String)> = Vec::new();
    let subject = attributes.subject.as_deref().filter(|subject| is_name(subject));
    let id = attributes.event_id();
    let fillers = [
        ("id", Some(id.as_str())),
        ("session_id", subject),
        ("time", attributes.time.as_deref().filter(|time| EventTime::parse_rfc3339(time).is_some())),
        ("traceparent", attributes.traceparent.as_deref()),
    ];
    for (name, value) in fillers {
        if let (false, Some(value)) = (has(name), value) {
            gaps.push((name, serde_json::Value::from(value).to_string()));
        }
    }
    let kept = json::fields(data).filter(|(key, _)| !gaps.iter().any(|(name, _)| key == name));
    let kept: Vec<String> = kept.map(|(key, value)| format!("{}:{value}", serde_json::Value::from(&*key))).collect();
    let filled = gaps.iter().map(|(name, value)| format!("\"{name}\":{value}"));
    format!("{{{}}}", filled.chain(kept).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::percent_decoded;

    #[test]
    fn header_values_are_decoded_once() {
        for (value, decoded) in [
            ("Euro%20%E2%82%AC%20%F0%9F%98%80", Some("Euro € 😀")),
            ("100%25", Some("100%")),
            ("%2525", Some("%25")),
            ("a%zz%", Some("a%zz%")),
            (r#""a \"b\" \\ %41""#, Some(r#"a "b" \ A"#)),
            ("%C3", None),
        ] {
            assert_eq!(percent_decoded(value.as_bytes()).as_deref(), decoded, "{value}");
        }
    }
}
