//! A command as one line for people.

use loopwarden_core::engine::ReasonCode;
use loopwarden_core::wire::whom;
use loopwarden_lab::report::plain;
use serde_json::Value;

/// Columns of a subject; a longer one pushes the rest to the right.
const SUBJECT_COLUMNS: usize = 16;

/// A command, and how it is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShownCommand<'a>(pub(super) &'a Value);

impl<'a> ShownCommand<'a> {
    /// A text in it; empty where there is none.
    pub(super) fn text(self, pointer: &str) -> &'a str {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// Whom it is about: a session, with its agent where that is not the main one, or whom it binds beyond sessions.
    pub(super) fn subject(self) -> String {
        let agent = self.text("/scope/agent_id");
        match self.text("/session_id") {
            "" => whom(|pointer| self.text(pointer).to_owned()),
            session if agent.is_empty() || agent == "main" => session.to_owned(),
            session => format!("{session}/{agent}"),
        }
    }

    /// The tool that it is about: the one that it narrows to, else the one that its summary begins with.
    pub(super) fn tool(self) -> &'a str {
        match self.text("/scope/tool") {
            "" => self.text("/reason/summary").split_once(": ").map_or("", |(tool, _)| tool),
            tool => tool,
        }
    }

    /// Whether a person brought it about.
    pub(super) fn is_act(self) -> bool {
        let code = self.text("/reason/code");
        ReasonCode::ACTS.iter().any(|act| act.as_str() == code)
    }

    /// Who acted, where the summary names nobody, and why.
    fn act(self) -> String {
        let (actor, reason) = (self.text("/labels/actor"), self.text("/reason/evidence/reason"));
        let is_named = actor.is_empty() || self.text("/reason/summary").contains(actor);
        let by = if is_named { String::new() } else { format!(" by {}", plain(actor)) };
        if reason.is_empty() { by } else { format!("{by}: {}", plain(reason)) }
    }

    /// The line; bold and colours where it may have them.
    pub(super) fn line(self, is_styled: bool) -> String {
        let action = self.text("/action");
        let mode = match self.text("/mode") {
            "live" | "" => String::new(),
            mode => format!(" ({mode})"),
        };
        // To the second, as `--since` takes it.
        let time = self.text("/issued_at");
        let time = time.split_once('.').map_or_else(|| time.to_owned(), |(seconds, _)| format!("{seconds}Z"));
        let colour = match action {
            "block" => "31",
            "nudge" => "33",
            _ => "32",
        };
        let shown = plain(&format!("{:<16}", format!("{action}{mode}")));
        let shown = if is_styled { format!("\x1b[{colour}m{shown}\x1b[0m") } else { shown };
        let (summary, code) = (plain(self.text("/reason/summary")), plain(self.text("/reason/code")));
        let act = if self.is_act() { self.act() } else { String::new() };
        format!("{}  {shown}  {:<SUBJECT_COLUMNS$}  {summary}  [{code}]{act}", plain(&time), plain(&self.subject()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn command() -> Value {
        json!({ "action": "nudge", "mode": "shadow", "session_id": "s-1", "scope": { "kind": "session", "agent_id": "main" },
            "issued_at": "2026-01-05T09:01:58.031Z", "reason": { "code": "similar_failures", "summary": "Edit: 3 failures alike in 32 s" } })
    }

    #[test]
    fn a_line_has_what_a_person_looks_for_and_nothing_that_moves_a_cursor() {
        let mut command = command();
        assert_eq!(
            ShownCommand(&command).line(false),
            "2026-01-05T09:01:58Z  nudge (shadow)    s-1               Edit: 3 failures alike in 32 s  [similar_failures]"
        );
        assert!(ShownCommand(&command).line(true).contains("\u{1b}[33mnudge (shadow)"));
        command["session_id"] = "a\u{1b}[2Jb\n".into();
        assert!(!ShownCommand(&command).line(false).contains(['\u{1b}', '\n']));
    }

    #[test]
    fn what_a_person_did_has_his_name_and_what_a_detector_found_has_none() {
        let mut command = command();
        command["labels"] = json!({ "actor": "alice\u{1b}[2J" });
        assert!(!ShownCommand(&command).is_act() && !ShownCommand(&command).line(false).contains("alice"));
        for code in ["stop", "release", "reset", "answer"] {
            command["reason"]["code"] = code.into();
            let line = ShownCommand(&command).line(false);
            assert!(ShownCommand(&command).is_act() && line.contains(&format!("[{code}] by alice")), "{line}");
            assert!(!line.contains('\u{1b}'));
            let mut command = command.clone();
            command["reason"]["summary"] = "stopped by alice\u{1b}[2J".into();
            command["reason"]["evidence"] = json!({ "reason": "deletes files" });
            let line = ShownCommand(&command).line(false);
            assert!(line.matches("alice").count() == 1 && line.ends_with("]: deletes files"), "{line}");
        }
    }

    #[test]
    fn a_subject_is_a_session_its_agent_a_swarm_or_the_fleet() {
        for (scope, session, swarm, subject) in [
            (json!({ "kind": "session", "agent_id": "main" }), Some("s"), None, "s"),
            (json!({ "kind": "session", "agent_id": "fixer" }), Some("s"), None, "s/fixer"),
            (json!({ "kind": "agent", "name": "fixer" }), None, None, "agent fixer"),
            (json!({ "kind": "swarm" }), None, Some("w"), "swarm w"),
            (json!({ "kind": "tenant" }), None, None, "the fleet"),
            (json!({ "kind": "all" }), None, None, "everybody"),
            (json!({ "kind": "label", "name": "team=a" }), None, None, "label team=a"),
        ] {
            let command = json!({ "scope": scope, "session_id": session, "swarm_id": swarm });
            assert_eq!(ShownCommand(&command).subject(), subject);
        }
    }

    #[test]
    fn the_tool_is_the_one_that_is_narrowed_to_or_that_the_summary_names() {
        let mut command = command();
        assert_eq!(ShownCommand(&command).tool(), "Edit");
        command["scope"]["tool"] = "Bash".into();
        assert_eq!(ShownCommand(&command).tool(), "Bash");
        assert_eq!(ShownCommand(&json!({ "reason": { "summary": "4 text turns without a call" } })).tool(), "");
    }
}
