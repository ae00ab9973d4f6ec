//! Foreign JSON made into native events by a mapping: for each field of the event an expression in JMESPath.
//!
//! JMESPath (crate `jmespath`, of the JMESPath project itself) has paths, constants, defaults and filters in one expression, and no loops: each
//! ends, whatever the record. What a mapping cannot express is up to the producer.

use jmespath::{Expression, ToJmespath as _, Variable, compile};
use loopwarden_core::event::{EventTime, Reason, Rejected, json};
use loopwarden_core::native::{NativeEvent, id_of, is_native};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::batch::{Bounds, Made};
use crate::body::RECORD_BYTES_MAX;

/// An expression of a mapping. Bytes. Its parser goes as deep as there are brackets in it.
const EXPRESSION_BYTES_MAX: usize = 1_024;

/// The form of all senders here.
pub const FORM: &str = "mapping";

/// Fields of a native event that a mapping may give; a dot leads into an object. `labels.NAME` is one, too.
pub const FIELDS: [&str; 33] = [
    "id",
    "kind",
    "session_id",
    "tenant",
    "swarm_id",
    "agent.id",
    "agent.model",
    "time",
    "seq",
    "turn",
    "tool",
    "call_id",
    "description",
    "args",
    "args_sha256",
    "result",
    "result_sha256",
    "stable_result",
    "truncated",
    "outcome",
    "error.type",
    "error.message",
    "error.exit_code",
    "duration_ms",
    "role",
    "text",
    "final",
    "state",
    "usage.input_tokens",
    "usage.cached_tokens",
    "usage.output_tokens",
    "usage.cost_usd",
    "traceparent",
];
/// Fields that are texts: a number for one is written as one.
const TEXTS: [&str; 12] = [
    "id",
    "session_id",
    "tenant",
    "swarm_id",
    "agent.id",
    "agent.model",
    "tool",
    "call_id",
    "description",
    "error.type",
    "error.message",
    "state",
];
/// Fields that hold content of any size.
const CONTENTS: [&str; 3] = ["args", "result", "stable_result"];
/// What detectors need most; a record whose event lacks one of these is worth a look.
const WANTED: [&str; 6] = ["session_id", "tool", "args", "result", "outcome", "time"];

/// Bytes before the JSON of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Framing {
    /// None.
    #[default]
    None,
    /// Five, as Confluent's serializers write them: a zero, and the number of a schema.
    Confluent,
}

/// A mapping as it stands in a file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MappingFile {
    /// Records for which this is false, null or empty are none of our business.
    pub filter: Option<String>,
    pub framing: Framing,
    pub fields: std::collections::BTreeMap<String, String>,
    /// Value of a field whose expression gives null, or that has none.
    pub defaults: std::collections::BTreeMap<String, Value>,
}

/// What is wrong with a mapping.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MappingError {
    /// The event has no such field.
    #[error("an event has no field `{0}`; it has {fields}, labels.NAME", fields = FIELDS.join(", "))]
    UnknownField(String),
    /// The expression cannot be read.
    #[error("the expression of `{field}` cannot be read: {message}")]
    Expression {
        /// Its field, or `filter`.
        field: String,
        /// What the library says, with the place.
        message: String,
    },
    /// The expression is longer than the bound.
    #[error("the expression of `{0}` is longer than {EXPRESSION_BYTES_MAX} bytes")]
    TooLong(String),
    /// Nothing says whose a record is.
    #[error("a mapping needs an expression or a default for `{0}`")]
    Missing(&'static str),
}

/// A mapping that can be used.
#[derive(Debug)]
pub struct Mapping {
    filter: Option<Expression<'static>>,
    framing: Framing,
    fields: Vec<(String, Expression<'static>)>,
    defaults: Vec<(String, Value)>,
}

/// What a mapping makes of one record, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// The event; `None` where the filter leaves the record out.
    pub event: Result<Option<Made>, Rejected>,
    /// Fields whose expression found nothing.
    pub empty: Vec<String>,
    /// Fields that the event lacks and detectors need.
    pub missing: Vec<&'static str>,
}

impl Mapping {
    /// Compiles the expressions.
    ///
    /// # Errors
    /// What is wrong with it, with the field.
    pub fn new(file: &MappingFile) -> Result<Self, MappingError> {
        let read = |field: &str, source: &str| {
            if source.len() > EXPRESSION_BYTES_MAX {
                return Err(MappingError::TooLong(field.to_owned()));
            }
            let broken =
                |error: jmespath::JmespathError| MappingError::Expression { field: field.to_owned(), message: error.to_string() };
            compile(source).map_err(broken)
        };
        for name in file.fields.keys().chain(file.defaults.keys()) {
            if !FIELDS.contains(&name.as_str()) && name.strip_prefix("labels.").is_none_or(str::is_empty) {
                return Err(MappingError::UnknownField(name.clone()));
            }
        }
        for name in ["session_id", "tool"] {
            // A mapping of messages alone names no tool.
            let is_message = file.defaults.get("kind").is_some_and(|kind| kind == "message") || file.fields.contains_key("kind");
            let is_given = file.fields.contains_key(name) || file.defaults.contains_key(name);
            if !is_given && (name != "tool" || !is_message) {
                return Err(MappingError::Missing(name));
            }
        }
        let fields = file.fields.iter().map(|(name, source)| Ok((name.clone(), read(name, source)?)));
        Ok(Self {
            filter: file.filter.as_deref().map(|source| read("filter", source)).transpose()?,
            framing: file.framing,
            fields: fields.collect::<Result<_, _>>()?,
            defaults: file.defaults.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        })
    }

    /// The event of one record; `None` where the filter leaves it out. An event without an id gets the hash of its record: what is sent twice
    /// counts once.
    ///
    /// # Errors
    /// Why the record is no event, with the field of the event.
    pub fn map(&self, record: &[u8], now: EventTime, event_bytes_max: usize) -> Result<Option<Made>, Rejected> {
        let text = self.unframed(record)?;
        self.event(FORM, text, || format!("rec-{}", id_of(&[text])), Bounds { event_bytes_max, now })
    }

    /// Whether a record that is no good native event is to be mapped: it is not meant as one.
    pub fn is_foreign(&self, record: &[u8]) -> bool {
        self.unframed(record).map_or(true, |text| json::is_valid(text) && !is_native(text))
    }

    /// As [`Mapping::map`], with what is missing.
    pub fn trial(&self, record: &[u8], now: EventTime, event_bytes_max: usize) -> Trial {
        let event = self.map(record, now, event_bytes_max);
        let (mut empty, mut missing) = (Vec::new(), Vec::new());
        let data = self.unframed(record).and_then(parse);
        if let (Ok(data), false) = (data, matches!(event, Ok(None))) {
            let found = |name: &str| self.fields.iter().any(|(field, expression)| field == name && !is_null(expression, &data));
            empty.extend(self.fields.iter().filter(|(name, _)| !found(name)).map(|(name, _)| name.clone()));
            let has_default = |name: &str| self.defaults.iter().any(|(field, _)| field == name);
            let is_there = |name: &str| found(name) || has_default(name);
            missing.extend(WANTED.iter().filter(|name| {
                // Either of the two says how a call ended.
                let stands_in = match **name {
                    "outcome" => is_there("error.message") || is_there("error.exit_code"),
                    "args" => is_there("args_sha256"),
                    "result" => is_there("result_sha256") || is_there("error.message"),
                    _ => false,
                };
                !is_there(name) && !stands_in
            }));
        }
        Trial { event, empty, missing }
    }

    /// The JSON of a record.
    fn unframed<'a>(&self, record: &'a [u8]) -> Result<&'a str, Rejected> {
        if record.len() > RECORD_BYTES_MAX {
            return Err(Rejected::whole(Reason::TooLarge));
        }
        let record = match self.framing {
            Framing::None => record,
            Framing::Confluent => match record.split_at_checked(5) {
                Some(([0, ..], rest)) => rest,
                _ => return Err(Rejected::whole(Reason::UnsupportedFormat)),
            },
        };
        json::text(record).ok_or_else(|| Rejected::whole(Reason::NotUtf8))
    }

    /// The event of JSON text.
    pub(crate) fn event(
        &self,
        source: &'static str,
        text: &str,
        id: impl FnOnce() -> String,
        bounds: Bounds,
    ) -> Result<Option<Made>, Rejected> {
        let data = parse(text)?;
        if let Some(filter) = &self.filter {
            let is_meant = filter.search(&data).map_err(|_| Rejected::at(Reason::BadValue, "filter"))?;
            if !is_meant.is_truthy() {
                return Ok(None);
            }
        }
        let mut event = Map::new();
        for (name, expression) in &self.fields {
            let value = expression.search(&data).map_err(|_| Rejected::at(Reason::BadValue, name))?;
            let value = serde_json::to_value(&value).map_err(|_| Rejected::at(Reason::BadType, name))?;
            set(&mut event, name, value)?;
        }
        for (name, value) in &self.defaults {
            if get(&event, name).is_none() {
                set(&mut event, name, value.clone())?;
            }
        }
        if !event.contains_key("kind") {
            event.insert("kind".to_owned(), "tool".into());
        }
        if !event.contains_key("id") {
            event.insert("id".to_owned(), id().into());
        }
        let mut native = NativeEvent::default();
        for (name, value) in &event {
            match value.as_str() {
                _ if CONTENTS.contains(&name.as_str()) => native.content(name, value),
                Some(text) if name == "text" => native.text(text),
                _ => native.put(name, value),
            }
        }
        bounds.check(source, native.finish()?.into_bytes()).map(Some)
    }
}

fn parse(text: &str) -> Result<jmespath::Rcvar, Rejected> {
    if json::faults(text).is_too_deep {
        return Err(Rejected::whole(Reason::TooDeep));
    }
    let data = Variable::from_json(text).map_err(|_| Rejected::whole(Reason::NotJson))?;
    data.to_jmespath().map_err(|_| Rejected::whole(Reason::NotJson))
}

fn is_null(expression: &Expression<'_>, data: &jmespath::Rcvar) -> bool {
    expression.search(data).is_ok_and(|value| value.is_null())
}

fn get<'a>(event: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    match name.split_once('.') {
        Some((object, inner)) => event.get(object)?.get(inner),
        None => event.get(name),
    }
}

/// Puts a value where it belongs; null is as good as none.
fn set(event: &mut Map<String, Value>, name: &str, value: Value) -> Result<(), Rejected> {
    let value = match value {
        Value::Null => return Ok(()),
        Value::Number(number) if TEXTS.contains(&name) || name.starts_with("labels.") => number.to_string().into(),
        Value::Bool(worked) if name == "outcome" => (if worked { "ok" } else { "error" }).into(),
        value => value,
    };
    let Some((object, inner)) = name.split_once('.') else {
        event.insert(name.to_owned(), value);
        return Ok(());
    };
    let place = event.entry(object).or_insert_with(|| Map::new().into());
    let place = place.as_object_mut().ok_or_else(|| Rejected::at(Reason::BadType, object))?;
    place.insert(inner.to_owned(), value);
    Ok(())
}
