//! PagerDuty, Events API v2, <https://developer.pagerduty.com/docs/send-alert-event>.

use serde_json::{Map, Value, json};

use crate::chat::notice::{Notice, cut};
use crate::link::Button;

/// Summary of an alert; a longer one is refused. Characters.
const SUMMARY_CHARS_MAX: usize = 1_024;

/// An event without its routing key, which is a secret. The key of the incident is the loop: what its block has opened, its unblock resolves,
/// and a second loop of the session is another incident.
pub(super) fn body(notice: &Notice, buttons: &[Button]) -> Value {
    let is_over = notice.action == "unblock";
    let severity = match (notice.is_live, notice.action.as_str()) {
        (false, _) => "info",
        (true, "block") => "error",
        (true, _) => "warning",
    };
    let mut details: Map<String, Value> =
        notice.facts.iter().map(|fact| (fact.name.to_owned(), Value::from(fact.value.as_str()))).collect();
    details.insert("Text".to_owned(), Value::from(notice.message.as_str()));
    let mut payload = json!({
        "summary": cut(format!("{}: {}", notice.title(), notice.summary).chars(), SUMMARY_CHARS_MAX),
        "source": notice.subject,
        "severity": severity,
        "component": "loopwarden",
        "class": notice.code,
        "custom_details": details,
    });
    if let Some(payload) = payload.as_object_mut().filter(|_| !notice.issued_at.is_empty()) {
        payload.insert("timestamp".to_owned(), Value::from(notice.issued_at.as_str()));
    }
    let link = |button: &Button| json!({ "href": button.url, "text": button.answer.label() });
    json!({
        "event_action": if is_over { "resolve" } else { "trigger" },
        "dedup_key": format!("loopwarden-{}", notice.episode),
        "payload": payload,
        "client": "loopwarden",
        "links": buttons.iter().map(link).collect::<Vec<_>>(),
    })
}

/// The same event with the key of the service that it is for. Nothing where the body is none of ours.
pub(crate) fn with_routing_key(body: &[u8], key: &str) -> Vec<u8> {
    let mut event: Map<String, Value> = serde_json::from_slice(body).unwrap_or_default();
    event.insert("routing_key".to_owned(), Value::from(key));
    Value::Object(event).to_string().into_bytes()
}
