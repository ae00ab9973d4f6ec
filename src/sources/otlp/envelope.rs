//! The three levels around spans and log records, walked without building them: a broken record costs itself alone, and a hostile body no more
//! memory than it has bytes.

use loopwarden_core::event::{Reason, Rejected, json};
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use serde::de::DeserializeOwned;

use crate::body::{Fault, RECORD_BYTES_MAX, RECORDS_MAX};
use crate::otlp::message::{Any, AnyValue, KeyValue, Resource, Scope};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    Traces,
    Logs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Protobuf,
    Json,
}

#[derive(Debug, Default)]
pub(crate) struct Origin {
    pub(crate) resource: Resource,
    pub(crate) scope: Scope,
    /// Its `service.name`, empty where it has none.
    pub(crate) service: String,
}

/// Takes a record: of its origin, or why that cannot be read.
pub(crate) type Take<'a> = dyn FnMut(&Result<Origin, Rejected>, &[u8]) + 'a;

/// Hands over each record of a body, in order, as it was sent.
pub(crate) fn each(form: Form, signal: Signal, body: &[u8], take: &mut Take<'_>) -> Result<(), Fault> {
    if form == Form::Json {
        let text = json::text(body).ok_or(Fault::NotJson)?;
        if !json::is_valid(text) {
            return Err(Fault::NotJson);
        }
        if !text.trim_ascii_start().starts_with('{') {
            return Err(Fault::OtherShape);
        }
    }
    let [resources, scopes, records] = match signal {
        Signal::Traces => ["resourceSpans", "scopeSpans", "spans"],
        Signal::Logs => ["resourceLogs", "scopeLogs", "logRecords"],
    };
    let mut left = RECORDS_MAX;
    for group in form.children(body, (1, resources), true, &mut left)? {
        let resource = one::<Resource>(form, group, "resource")?;
        for group in form.children(group, (2, scopes), true, &mut left)? {
            let origin = match (&resource, one::<Scope>(form, group, "scope")?) {
                (Ok(resource), Ok(scope)) => Ok(Origin { service: service(resource), resource: resource.clone(), scope }),
                (Err(rejected), _) => Err(rejected.clone()),
                (_, Err(rejected)) => Err(rejected),
            };
            for record in form.children(group, (2, records), true, &mut left)? {
                take(&origin, record);
            }
        }
    }
    Ok(())
}

/// The name of the program that sends.
fn service(resource: &Resource) -> String {
    let named = resource.attributes.iter().rev().find(|attribute| attribute.key == b"service.name");
    match named {
        Some(KeyValue { value: Some(AnyValue { value: Some(Any::Text(name)) }), .. }) => {
            String::from_utf8_lossy(name).into_owned()
        }
        _ => String::new(),
    }
}

/// The last child of that name, or what stands for an absent one.
fn one<T: Decode>(form: Form, group: &[u8], name: &'static str) -> Result<Result<T, Rejected>, Fault> {
    let mut left = RECORDS_MAX;
    let found = form.children(group, (1, name), false, &mut left)?;
    let Some(source) = found.last() else { return Ok(Ok(T::default())) };
    Ok(form.decode(source).map_err(|rejected| Rejected::at(rejected.reason, name)))
}

/// Whatever can be read in both forms.
pub(crate) trait Decode: prost::Message + Default + DeserializeOwned {}

impl<T: prost::Message + Default + DeserializeOwned> Decode for T {}

impl Form {
    pub(crate) fn decode<T: Decode>(self, source: &[u8]) -> Result<T, Rejected> {
        if source.len() > RECORD_BYTES_MAX {
            return Err(Rejected::whole(Reason::TooLarge));
        }
        match self {
            Self::Protobuf => T::decode(source).map_err(|_| Rejected::whole(Reason::BadValue)),
            Self::Json => serde_json::from_slice(source).map_err(|error| {
                // The text as a whole is JSON: what else is wrong with it is nesting, or half of a surrogate pair.
                let is_deep = error.to_string().starts_with("recursion limit");
                let reason = if error.is_data() { Reason::BadType } else { Reason::BadValue };
                Rejected::whole(if is_deep { Reason::TooDeep } else { reason })
            }),
        }
    }

    /// The children of one name: the elements of a list, or the values themselves. Each is taken off `left`.
    fn children<'a>(
        self,
        group: &'a [u8],
        (number, name): (u32, &str),
        is_list: bool,
        left: &mut usize,
    ) -> Result<Vec<&'a [u8]>, Fault> {
        let mut found = Vec::new();
        let mut add = |child: &'a [u8]| {
            *left = left.checked_sub(1).ok_or(Fault::TooManyRecords)?;
            found.push(child);
            Ok(())
        };
        match self {
            Self::Protobuf => {
                let mut rest = group;
                while !rest.is_empty() {
                    let (tag, wire_type) = decode_key(&mut rest).map_err(|_| Fault::NotProtobuf)?;
                    if wire_type == WireType::LengthDelimited {
                        let length = decode_varint(&mut rest).map_err(|_| Fault::NotProtobuf)?;
                        let length = usize::try_from(length).map_err(|_| Fault::NotProtobuf)?;
                        let (child, after) = rest.split_at_checked(length).ok_or(Fault::NotProtobuf)?;
                        rest = after;
                        if tag == number {
                            add(child)?;
                        }
                    } else if tag == number {
                        return Err(Fault::NotProtobuf);
                    } else {
                        skip_field(wire_type, tag, &mut rest, DecodeContext::default()).map_err(|_| Fault::NotProtobuf)?;
                    }
                }
            }
            Self::Json => {
                let text = json::text(group).ok_or(Fault::NotJson)?;
                if !text.trim_ascii_start().starts_with('{') {
                    return Err(Fault::OtherShape);
                }
                for (_, value) in json::fields(text).filter(|(key, value)| *key == name && *value != "null") {
                    match (is_list, value.starts_with('[')) {
                        (true, true) => {
                            for element in json::elements(value) {
                                add(element.as_bytes())?;
                            }
                        }
                        (true, false) => return Err(Fault::OtherShape),
                        (false, _) => add(value.as_bytes())?,
                    }
                }
            }
        }
        Ok(found)
    }
}
