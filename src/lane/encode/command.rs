//! A command as JSON (`command.v1`).

use loopwarden_core::engine::{Command, Fact, Placement, Trigger};

use super::part::{VERSION, id_text, scope, subject};
use crate::encode::json;
use crate::encode::json::Object;

/// The document of a command, decided in this mode by this policy.
pub(super) fn document(command: &Command, mode: &str, profile: &str, policy_sha256: &str) -> String {
    json::document(|json| {
        json.number("v", 1_u64);
        json.text("id", &id_text(&command.id));
        json.text("action", command.action.as_str());
        let agent_id = subject(json, &command.subject);
        json.object("scope", |json| scope(json, &command.scope, agent_id));
        json.number("level", command.level);
        json.number("epoch", command.epoch.max(0));
        json.number("seq", command.seq);
        json.text("episode", &id_text(&command.episode));
        json.time("issued_at", command.issued_at);
        json.time("expires_at", command.expires_at);
        json.text("mode", mode);
        json.object("reason", |json| reason(json, command));
        if let Some(message) = &command.message {
            json.text("message", message);
        }
        if matches!(command.placement, Placement::AppendToResult { .. }) {
            json.text("placement", "append_to_result");
        }
        if let Some(advice) = command.advice {
            json.text("advice", advice.as_str());
        }
        json.object("trigger", |json| trigger(json, &command.trigger, &command.placement));
        if !command.contributors.is_empty() {
            json.texts("contributors", &command.contributors);
        }
        if !command.labels.is_empty() {
            json.object("labels", |json| command.labels.iter().for_each(|(name, value)| json.text(name, value)));
        }
        json.object("engine", |json| {
            json.text("version", VERSION);
            json.text("profile", profile);
            json.text("policy_sha256", policy_sha256);
        });
    })
}

fn reason(json: &mut Object<'_>, command: &Command) {
    json.text("code", command.reason.as_str());
    if !command.also.is_empty() {
        json.texts("also", command.also.iter().map(|detector| detector.as_str()));
    }
    if let Some(confidence) = command.confidence {
        json.ratio("confidence", confidence);
    }
    json.text("summary", &command.summary);
    if !command.evidence.is_empty() {
        json.object("evidence", |json| {
            for (name, fact) in &command.evidence {
                match fact {
                    Fact::Count(count) => json.number(name, *count),
                    Fact::Ratio(value) => json.ratio(name, *value),
                    Fact::Text(text) => json.text(name, text),
                    Fact::Texts(texts) => json.texts(name, texts),
                }
            }
        });
    }
}

fn trigger(json: &mut Object<'_>, trigger: &Trigger, placement: &Placement) {
    match trigger {
        Trigger::Event { event_id, call_id, topic, partition, offset, time, .. } => {
            json.text("event_id", event_id);
            let append_to = match placement {
                Placement::AppendToResult { call_id } => call_id.as_ref(),
                Placement::NextTurn => None,
            };
            if let Some(call_id) = append_to.or(call_id.as_ref()) {
                json.text("call_id", call_id);
            }
            json.text("topic", topic);
            json.number("partition", *partition);
            json.number("offset", *offset);
            json.time("time", *time);
        }
        Trigger::Window { end } => json.time("window_end", *end),
    }
}
