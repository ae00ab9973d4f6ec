//! OTLP's messages, as far as they are read: protobuf and JSON of the same structs.
//!
//! Text is kept as bytes: one name that is no UTF-8 must cost one span, not the whole body.
#![expect(clippy::struct_field_names, reason = "the names are OTLP's")]

use prost::{Message, Oneof};
use serde::{Deserialize, Deserializer};

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Span {
    #[prost(bytes = "vec", tag = "1")]
    #[serde(deserialize_with = "hex")]
    pub(crate) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    #[serde(deserialize_with = "hex")]
    pub(crate) span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    #[serde(deserialize_with = "hex")]
    pub(crate) parent_span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    #[serde(deserialize_with = "utf8")]
    pub(crate) name: Vec<u8>,
    #[prost(int32, tag = "6")]
    #[serde(deserialize_with = "or_default")]
    pub(crate) kind: i32,
    #[prost(fixed64, tag = "7")]
    #[serde(deserialize_with = "unsigned")]
    pub(crate) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    #[serde(deserialize_with = "unsigned")]
    pub(crate) end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    #[serde(deserialize_with = "or_default")]
    pub(crate) attributes: Vec<KeyValue>,
    #[prost(message, repeated, tag = "11")]
    #[serde(deserialize_with = "or_default")]
    pub(crate) events: Vec<SpanEvent>,
    #[prost(message, optional, tag = "15")]
    pub(crate) status: Option<Status>,
}

/// Something that happened within a span.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct SpanEvent {
    #[prost(bytes = "vec", tag = "2")]
    #[serde(deserialize_with = "utf8")]
    pub(crate) name: Vec<u8>,
    #[prost(message, repeated, tag = "3")]
    #[serde(deserialize_with = "or_default")]
    pub(crate) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Status {
    #[prost(bytes = "vec", tag = "2")]
    #[serde(deserialize_with = "utf8")]
    pub(crate) message: Vec<u8>,
    #[prost(int32, tag = "3")]
    #[serde(deserialize_with = "or_default")]
    pub(crate) code: i32,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct LogRecord {
    #[prost(fixed64, tag = "1")]
    #[serde(deserialize_with = "unsigned")]
    pub(crate) time_unix_nano: u64,
    #[prost(message, optional, tag = "5")]
    pub(crate) body: Option<AnyValue>,
    #[prost(message, repeated, tag = "6")]
    #[serde(deserialize_with = "or_default")]
    pub(crate) attributes: Vec<KeyValue>,
    #[prost(bytes = "vec", tag = "9")]
    #[serde(deserialize_with = "hex")]
    pub(crate) trace_id: Vec<u8>,
    #[prost(fixed64, tag = "11")]
    #[serde(deserialize_with = "unsigned")]
    pub(crate) observed_time_unix_nano: u64,
    #[prost(bytes = "vec", tag = "12")]
    #[serde(deserialize_with = "utf8")]
    pub(crate) event_name: Vec<u8>,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
pub(crate) struct Resource {
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "or_default")]
    pub(crate) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
pub(crate) struct Scope {
    #[prost(bytes = "vec", tag = "1")]
    #[serde(deserialize_with = "utf8")]
    pub(crate) name: Vec<u8>,
    #[prost(message, repeated, tag = "3")]
    #[serde(deserialize_with = "or_default")]
    pub(crate) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
pub(crate) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    #[serde(deserialize_with = "utf8")]
    pub(crate) key: Vec<u8>,
    #[prost(message, optional, tag = "2")]
    pub(crate) value: Option<AnyValue>,
}

/// A value; empty where it is unset.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(from = "JsonValue")]
pub(crate) struct AnyValue {
    #[prost(oneof = "Any", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub(crate) value: Option<Any>,
}

/// What a value may be.
#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Any {
    #[prost(bytes = "vec", tag = "1")]
    Text(Vec<u8>),
    #[prost(bool, tag = "2")]
    Flag(bool),
    #[prost(int64, tag = "3")]
    Int(i64),
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(message, tag = "5")]
    Array(ArrayValue),
    #[prost(message, tag = "6")]
    Object(KeyValueList),
    #[prost(bytes = "vec", tag = "7")]
    Bytes(Vec<u8>),
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
pub(crate) struct ArrayValue {
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "or_default")]
    pub(crate) values: Vec<AnyValue>,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
pub(crate) struct KeyValueList {
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "or_default")]
    pub(crate) values: Vec<KeyValue>,
}

/// A value in JSON: one of these fields.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct JsonValue {
    string_value: Option<String>,
    bool_value: Option<bool>,
    int_value: Option<Number>,
    double_value: Option<Number>,
    array_value: Option<ArrayValue>,
    kvlist_value: Option<KeyValueList>,
    bytes_value: Option<String>,
}

impl From<JsonValue> for AnyValue {
    fn from(json: JsonValue) -> Self {
        let value = if let Some(text) = json.string_value {
            Some(Any::Text(text.into_bytes()))
        } else if let Some(flag) = json.bool_value {
            Some(Any::Flag(flag))
        } else if let Some(number) = json.int_value {
            number.int().map(Any::Int)
        } else if let Some(number) = json.double_value {
            number.double().map(Any::Double)
        } else if let Some(array) = json.array_value {
            Some(Any::Array(array))
        } else if let Some(object) = json.kvlist_value {
            Some(Any::Object(object))
        } else {
            // Base64: no reader here looks inside.
            json.bytes_value.map(|text| Any::Text(text.into_bytes()))
        };
        Self { value }
    }
}

/// A number, or a text that holds one: 64 bits are sent as text, and infinities are.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Int(i64),
    Unsigned(u64),
    Double(f64),
    Text(String),
}

impl Number {
    fn int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            Self::Unsigned(number) => i64::try_from(*number).ok(),
            Self::Double(_) => None,
            Self::Text(text) => text.parse().ok(),
        }
    }

    fn unsigned(&self) -> Option<u64> {
        match self {
            Self::Int(number) => u64::try_from(*number).ok(),
            Self::Unsigned(number) => Some(*number),
            Self::Double(_) => None,
            Self::Text(text) => text.parse().ok(),
        }
    }

    fn double(&self) -> Option<f64> {
        match self {
            Self::Int(number) => Some(*number as f64),
            Self::Unsigned(number) => Some(*number as f64),
            Self::Double(number) => Some(*number),
            Self::Text(text) => text.parse().ok(),
        }
    }
}

/// A field that may be null.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn utf8<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.unwrap_or_default().into_bytes())
}

fn hex<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2));
    let digits = digits.ok_or_else(|| serde::de::Error::custom("an id that is no hex"))?;
    Ok(digits.as_chunks::<2>().0.iter().map(|[high, low]| high << 4 | low).collect())
}

/// Nanoseconds. What is no such number is as good as none.
fn unsigned<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(Option::<Number>::deserialize(deserializer)?.and_then(|number| number.unsigned()).unwrap_or_default())
}
