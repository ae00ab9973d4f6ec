//! The fields of an event that are objects themselves: `agent`, `error`, `usage`, `labels`.

use std::borrow::Cow;

use crate::event::{Reason, Rejected, Usage, field, json};
use crate::event::{field::Cuts, wire::Raw};
use crate::limits::{COST_USD_MAX, ERROR_CHARS_MAX, LABEL_KEY_CHARS_MAX, LABEL_VALUE_CHARS_MAX, LABELS_MAX, NAME_CHARS_MAX};

type Labels<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

#[derive(Default)]
pub(super) struct ErrorPart<'a> {
    /// Its class; a class is short, so it is cut like a name.
    pub(super) kind: Option<Cow<'a, str>>,
    pub(super) message: Option<Cow<'a, str>>,
    /// Exit code of the process.
    pub(super) exit_code: Option<i64>,
}

impl ErrorPart<'_> {
    /// Whether it says that something failed. Empty texts and exit code 0 do not: many producers always send the field.
    pub(super) fn is_error(&self) -> bool {
        let is_said = |text: &Option<Cow<'_, str>>| text.as_ref().is_some_and(|text| !text.is_empty());
        is_said(&self.kind) || is_said(&self.message) || self.exit_code.is_some_and(|code| code != 0)
    }
}

/// What is read of an `agent`.
#[derive(Default)]
pub(super) struct AgentPart<'a> {
    /// Its id, where the event names an agent.
    pub(super) id: Option<Cow<'a, str>>,
    /// Who started it, where the event names it.
    pub(super) parent_id: Option<Cow<'a, str>>,
    /// Name of the tree that it belongs to.
    pub(super) root_id: Option<Cow<'a, str>>,
    /// The model that it runs on.
    pub(super) model: Option<Cow<'a, str>>,
}

/// `agent`: every member is held to its type, and four of them are kept.
pub(super) fn agent(raw: Raw<'_>) -> Result<AgentPart<'_>, Rejected> {
    let Some(source) = object(raw, "agent")? else { return Ok(AgentPart::default()) };
    let [id, parent_id, root_id, name, kind, model, framework] =
        members(source, "agent", ["id", "parent_id", "root_id", "name", "type", "model", "framework"])?;
    let name_of = |source: Option<_>, pointer: &str| source.map(|source| field::name_of(source, pointer)).transpose();
    let (parent_id, root_id) = (name_of(parent_id, "agent/parent_id")?, name_of(root_id, "agent/root_id")?);
    for (source, pointer) in [(name, "agent/name"), (kind, "agent/type"), (framework, "agent/framework")] {
        source.map(|source| field::text_of(source, pointer)).transpose()?;
    }
    let model = model.map(|source| field::text_of(source, "agent/model")).transpose()?;
    Ok(AgentPart { id: name_of(id, "agent/id")?, parent_id, root_id, model })
}

/// `error`: an object, or text that is read as its message.
pub(super) fn error<'a>(raw: Raw<'a>, cuts: &mut Cuts) -> Result<ErrorPart<'a>, Rejected> {
    if let Some(source) = raw
        && json::is_string(source)
    {
        let message = field::cut(json::unquote(source), ERROR_CHARS_MAX, cuts);
        return Ok(ErrorPart { message: Some(message), ..ErrorPart::default() });
    }
    let Some(source) = object(raw, "error")? else { return Ok(ErrorPart::default()) };
    let [kind, message, exit_code] = members(source, "error", ["type", "message", "exit_code"])?;
    let mut text = |source: Option<&'a str>, pointer: &str, chars_max: usize| -> Result<Option<Cow<'a, str>>, Rejected> {
        source.map(|source| Ok(field::cut(field::text_of(source, pointer)?, chars_max, cuts))).transpose()
    };
    Ok(ErrorPart {
        kind: text(kind, "error/type", NAME_CHARS_MAX)?,
        message: text(message, "error/message", ERROR_CHARS_MAX)?,
        exit_code: exit_code.map(|source| field::integer_of(source, "error/exit_code")).transpose()?,
    })
}

/// `usage`: tokens, and cost in US dollars rounded to millionths.
pub(super) fn usage(raw: Raw<'_>) -> Result<Usage, Rejected> {
    let Some(source) = object(raw, "usage")? else { return Ok(Usage::default()) };
    let [input, cached, output, cost] = members(source, "usage", ["input_tokens", "cached_tokens", "output_tokens", "cost_usd"])?;
    let tokens = |source: Option<&str>, pointer| source.map_or(Ok(0), |source| field::count_of(source, pointer));
    let cost_usd = cost.map_or(Ok(0.0), |source| field::amount_of(source, "usage/cost_usd"))?;
    if cost_usd > COST_USD_MAX {
        return Err(Rejected::at(Reason::BadValue, "usage/cost_usd"));
    }
    Ok(Usage {
        input_tokens: tokens(input, "usage/input_tokens")?,
        cached_tokens: tokens(cached, "usage/cached_tokens")?,
        output_tokens: tokens(output, "usage/output_tokens")?,
        cost_micro_usd: (cost_usd * 1e6).round() as u64,
    })
}

/// `labels`: the first `LABELS_MAX`, cut; of equal keys the last value stays, as in any object that is content.
pub(super) fn labels<'a>(raw: Raw<'a>, cuts: &mut Cuts) -> Result<Labels<'a>, Rejected> {
    let Some(source) = object(raw, "labels")? else { return Ok(Labels::new()) };
    let mut labels = Labels::new();
    for (key, value) in json::fields(source) {
        let value = field::text_of(value, "labels")?;
        let key = field::cut(key, LABEL_KEY_CHARS_MAX, cuts);
        let value = field::cut(value, LABEL_VALUE_CHARS_MAX, cuts);
        if let Some((_, held)) = labels.iter_mut().find(|(held, _)| *held == key) {
            *held = value;
        } else if labels.len() < LABELS_MAX {
            labels.push((key, value));
        } else {
            cuts.0 = cuts.0.saturating_add(1);
        }
    }
    Ok(labels)
}

fn object<'a>(raw: Raw<'a>, name: &str) -> Result<Option<&'a str>, Rejected> {
    match raw {
        Some(source) if !source.starts_with('{') => Err(Rejected::at(Reason::BadType, name)),
        source => Ok(source),
    }
}

/// The named members of an object, null and absent alike; each may come once.
fn members<'a, const N: usize>(source: &'a str, object: &str, names: [&str; N]) -> Result<[Option<&'a str>; N], Rejected> {
    let mut values = [None; N];
    let mut seen = [false; N];
    for (key, value) in json::fields(source) {
        for ((name, held), seen) in names.iter().zip(&mut values).zip(&mut seen) {
            if *name == key {
                if std::mem::replace(seen, true) {
                    return Err(Rejected::at(Reason::DuplicateField, &format!("{object}/{name}")));
                }
                *held = (value != "null").then_some(value);
                break;
            }
        }
    }
    Ok(values)
}
