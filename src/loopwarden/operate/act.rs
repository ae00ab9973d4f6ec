//! What an operator does, as the event that goes into the log: from the command line, over HTTP and by links alike.

use std::collections::BTreeMap;

use loopwarden_core::event::{EventTime, Judged};
use loopwarden_core::identity::{base32, hash_parts};
use loopwarden_core::limits::STOP_MS_MAX;
use loopwarden_core::whom::{Kind, Whom};
use serde_json::{Value, json};

/// Label with a name that was typed into a form, and is not checked.
pub(crate) const TYPED_NAME: &str = "typed_name";

/// An act: who does what to whom, when, and why.
#[derive(Debug, Clone)]
pub(crate) struct Act {
    /// One that comes again with the same id changes nothing.
    pub(crate) id: String,
    pub(crate) at: EventTime,
    pub(crate) reason: Option<String>,
    /// Who acts among them, unless what takes the event knows better.
    pub(crate) labels: BTreeMap<&'static str, String>,
    /// Of an answer, and of a reset of one agent: its session.
    pub(crate) whom: Whom,
    /// The agent of that session; none: all of them, and of an answer the only one.
    pub(crate) agent_id: Option<String>,
    pub(crate) does: Does,
}

/// What an act does to whom it is about.
#[derive(Debug, Clone)]
pub(crate) enum Does {
    Stop {
        until: EventTime,
        fails_closed: bool,
    },
    Release,
    /// Says what a loop is, by the id of the first command about it.
    Answer {
        episode: String,
        judged: Judged,
    },
    /// Forgets what was counted of them.
    Reset,
}

/// A loop of an agent, as its commands name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoopAddress {
    pub(crate) session: Whom,
    /// None: the only agent of its session.
    pub(crate) agent_id: Option<String>,
    /// Id of the first command about it.
    pub(crate) episode: String,
}

impl Act {
    /// The kind of its event.
    pub(crate) const fn kind(&self) -> &'static str {
        match self.does {
            Does::Stop { .. } => "stop",
            Does::Release => "release",
            Does::Answer { .. } => "answer",
            Does::Reset => "reset",
        }
    }

    /// The event that goes into the log.
    pub(crate) fn event(&self) -> Value {
        let Self { whom, agent_id, .. } = self;
        let scope = if agent_id.is_some() { Kind::Agent } else { whom.kind };
        let mut event = match &self.does {
            Does::Stop { until, fails_closed } => {
                json!({ "scope": scope.as_str(), "until": until.to_rfc3339(), "fail": fails_closed.then_some("closed") })
            }
            Does::Release | Does::Reset => json!({ "scope": scope.as_str() }),
            Does::Answer { episode, judged } => {
                let until = if let Judged::Allowed(until) = judged { Some(until.to_rfc3339()) } else { None };
                json!({ "episode": episode, "answer": judged.as_str(), "until": until })
            }
        };
        let common = json!({
            "id": self.id,
            "kind": self.kind(),
            "time": self.at.to_rfc3339(),
            "reason": self.reason,
            "labels": Some(&self.labels).filter(|labels| !labels.is_empty()),
            "tenant": Some(&whom.tenant).filter(|tenant| !tenant.is_empty()),
            // Every event has one; of a stop it is what its records are keyed by.
            "session_id": whom.record_key(),
            "swarm_id": (whom.kind == Kind::Swarm).then_some(&whom.name),
            "agent": match whom.kind {
                Kind::Agent => json!({ "id": whom.name }),
                Kind::Tree => json!({ "root_id": whom.name }),
                _ => agent_id.as_ref().map_or(Value::Null, |id| json!({ "id": id })),
            },
        });
        if let (Value::Object(event), Value::Object(common)) = (&mut event, common) {
            event.extend(common);
            event.retain(|_, value| !value.is_null());
        }
        event
    }
}

/// An id of an act that brings none: equal parts make an equal one.
pub(crate) fn act_id(kind: &str, parts: &[&str]) -> String {
    let parts: Vec<&str> = parts.iter().flat_map(|part| [*part, "\n"]).collect();
    format!("{kind}-{}", base32(&hash_parts(&parts).hash128().0.to_be_bytes()))
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
    use loopwarden_core::event::{RecordMeta, decode};

    use super::*;

    #[test]
    fn a_span_has_a_unit_and_a_bound() {
        let spans = ["90s", "30m", "2h", "7d"].map(span_ms);
        assert_eq!(spans, [Some(90_000), Some(1_800_000), Some(7_200_000), Some(604_800_000)]);
        for bad in ["", "m", "30", "-1m", "+1m", "0m", "8d", "1w", "1 m", "9999999999999999999h", "1é"] {
            assert_eq!(span_ms(bad), None, "{bad}");
        }
    }

    fn act(whom: &Whom, does: Does) -> Act {
        let (labels, reason) = ([("actor", "alice".to_owned())].into(), Some("runaway".to_owned()));
        Act { id: "a".to_owned(), at: EventTime(5), reason, labels, whom: whom.clone(), agent_id: None, does }
    }

    #[test]
    fn an_event_of_each_scope_is_one_and_goes_to_its_own_key() {
        for (kind, key) in Kind::stopped().zip(["n", "n", "n", "n", "t", "*"]) {
            let whom = Whom::new(if kind.is_in_tenant() { "t" } else { "" }, kind, "n");
            for does in [Does::Stop { until: EventTime(9), fails_closed: true }, Does::Release] {
                let act = act(&whom, does);
                let bytes = act.event().to_string().into_bytes();
                let read = decode(Some(&bytes), &RecordMeta::without_place(EventTime(5), 4_096)).unwrap();
                assert_eq!((read.stopped(), &*read.session_id), (Some(whom.clone()), key));
                assert_eq!(act.event()["labels"], json!({ "actor": "alice" }));
            }
        }
    }
}
