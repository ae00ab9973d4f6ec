//! What an operator asks for, as the event that goes into the log: `stop`, `release` and `answer`, from the command line, over HTTP and by
//! links alike.

use loopwarden_core::event::{EventTime, Judged};
use loopwarden_core::identity::{base32, hash_parts};
use loopwarden_core::limits::STOP_MS_MAX;
use loopwarden_core::whom::{Kind, Whom};
use serde_json::{Value, json};

/// The event that stops them until a time.
pub(crate) fn stop(whom: &Whom, act: &Act<'_>, until: EventTime, fails_closed: bool) -> Value {
    let fail = fails_closed.then(|| json!("closed"));
    event("stop", whom, act, [("until", Some(json!(until.to_rfc3339()))), ("fail", fail)])
}

/// The event that lets them go on.
pub(crate) fn release(whom: &Whom, act: &Act<'_>) -> Value {
    event("release", whom, act, [])
}

fn event<const N: usize>(what: &str, whom: &Whom, act: &Act<'_>, more: [(&str, Option<Value>); N]) -> Value {
    let named = |kind| (whom.kind == kind).then_some(&whom.name);
    let fields = [
        ("id", Some(json!(act.id))),
        ("kind", Some(json!(what))),
        ("scope", Some(json!(whom.kind.as_str()))),
        // Every event has one; of a stop it is what its records are keyed by.
        ("session_id", Some(json!(whom.record_key()))),
        ("time", Some(json!(act.at.to_rfc3339()))),
        ("tenant", Some(&whom.tenant).filter(|tenant| !tenant.is_empty()).map(|tenant| json!(tenant))),
        ("swarm_id", named(Kind::Swarm).map(|name| json!(name))),
        ("agent", named(Kind::Agent).map(|name| json!({ "id": name }))),
        ("agent", named(Kind::Tree).map(|name| json!({ "root_id": name }))),
        ("reason", act.reason.map(|reason| json!(reason))),
        ("labels", act.actor.map(|actor| json!({ "actor": actor }))),
    ];
    let fields = fields.into_iter().chain(more);
    Value::Object(fields.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
}

/// A loop of an agent, as its commands name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoopAddress {
    /// None: the session belongs to no tenant.
    pub(crate) tenant: Option<String>,
    pub(crate) session_id: String,
    /// None: the only agent of its session.
    pub(crate) agent_id: Option<String>,
    /// Id of the first command about it.
    pub(crate) episode: String,
}

impl LoopAddress {
    /// The event of what a person makes of it.
    pub(crate) fn answer(&self, act: &Act<'_>, judged: Judged) -> Value {
        let (word, until) = match judged {
            Judged::Right => ("right", None),
            Judged::FalseAlarm => ("false_alarm", None),
            Judged::Allowed(until) => ("allow", Some(until)),
        };
        let fields = [
            ("id", Some(json!(act.id))),
            ("kind", Some(json!("answer"))),
            ("time", Some(json!(act.at.to_rfc3339()))),
            ("tenant", self.tenant.as_ref().map(|tenant| json!(tenant))),
            ("session_id", Some(json!(self.session_id))),
            ("agent", self.agent_id.as_ref().map(|agent| json!({ "id": agent }))),
            ("episode", Some(json!(self.episode))),
            ("answer", Some(json!(word))),
            ("until", until.map(|until| json!(until.to_rfc3339()))),
            ("reason", act.reason.map(|reason| json!(reason))),
            ("labels", act.actor.map(|actor| json!({ "actor": actor }))),
        ];
        Value::Object(fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
    }
}

/// An id of an act that brings none: equal parts make an equal one.
pub(crate) fn act_id(kind: &str, parts: &[&str]) -> String {
    let parts: Vec<&str> = parts.iter().flat_map(|part| [*part, "\n"]).collect();
    format!("{kind}-{}", base32(&hash_parts(&parts).hash128().0.to_be_bytes()))
}

/// Who acts, when, and why.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Act<'a> {
    /// One that comes again with the same id changes nothing.
    pub(crate) id: &'a str,
    pub(crate) at: EventTime,
    /// None where whoever takes the event knows better.
    pub(crate) actor: Option<&'a str>,
    pub(crate) reason: Option<&'a str>,
}

/// A span as people write it: `90s`, `30m`, `2h`, `7d`. Milliseconds; none where it is no such span, none at all, or longer than a stop may be.
pub(crate) fn span_ms(text: &str) -> Option<i64> {
    let at = text.len().checked_sub(1)?;
    let (number, unit) = text.split_at_checked(at)?;
    let unit_ms = match unit {
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    let span_ms = number.parse::<i64>().ok().filter(|_| is_number)?.checked_mul(unit_ms)?;
    (1..=STOP_MS_MAX).contains(&span_ms).then_some(span_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_a_unit_and_a_bound() {
        let spans = ["90s", "30m", "2h", "7d"].map(span_ms);
        assert_eq!(spans, [Some(90_000), Some(1_800_000), Some(7_200_000), Some(604_800_000)]);
        for bad in ["", "m", "30", "-1m", "+1m", "0m", "8d", "1w", "1 m", "9999999999999999999h", "1é"] {
            assert_eq!(span_ms(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_event_of_each_scope_is_one_and_goes_to_its_own_key() {
        use loopwarden_core::event::{RecordMeta, decode};
        let act = Act { id: "a", at: EventTime(5), actor: Some("alice"), reason: Some("runaway") };
        for (kind, key) in Kind::stopped().zip(["n", "n", "n", "n", "t", "*"]) {
            let whom = Whom::new(if kind.is_in_tenant() { "t" } else { "" }, kind, "n");
            for event in [stop(&whom, &act, EventTime(9), true), release(&whom, &act)] {
                let bytes = event.to_string().into_bytes();
                let read = decode(Some(&bytes), &RecordMeta::without_place(EventTime(5), 4_096)).unwrap();
                assert_eq!((read.stopped(), &*read.session_id), (Some(whom.clone()), key));
            }
        }
    }
}
