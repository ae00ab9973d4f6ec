//! Verdicts in force, as commands and state rows write them ([`wire`]).
//!
//! What a reader does not understand binds nobody: an unknown version, action or scope is no verdict (rule 8 of the page `workers`).

use std::borrow::Cow;

use loopwarden_core::engine::{self, IdentityRecipe, Scope, SubjectKey};
use loopwarden_core::{event::EventTime, wire};

use crate::wire::answer::Action;

/// A nudge or block that holds until it expires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) command_id: String,
    pub(crate) action: Action,
    /// The agent in whose history its loop was found; none where others are meant than that one.
    pub(crate) agent_id: Option<String>,
    pub(crate) scope: Scope,
    pub(crate) level: u8,
    pub(crate) episode: String,
    pub(crate) code: String,
    /// None where the verdict comes from a row, which has none.
    pub(crate) summary: Option<String>,
    pub(crate) message: String,
    pub(crate) advice: Option<String>,
    pub(crate) issued_at: EventTime,
    pub(crate) expires_at: EventTime,
    /// An operator placed it, and whoever can ask no guard any more is to go on obeying it.
    pub(crate) fails_closed: bool,
}

impl Verdict {
    pub(crate) fn is_block(&self) -> bool {
        self.action == Action::Block
    }

    /// Whether it ends the turn of an agent.
    pub(crate) fn stops(&self) -> bool {
        self.is_block() && self.level >= 4 && self.advice.as_deref() == Some(engine::Advice::Stop.as_str())
    }

    /// As a row has it, without its text.
    pub(crate) fn without_text<'a>(&'a self, subject: &wire::Subject<'a>) -> wire::Verdict<'a> {
        let action = if self.is_block() { engine::Action::Block } else { engine::Action::Nudge };
        wire::Verdict {
            command_id: Cow::Borrowed(&self.command_id),
            action: action.as_str().into(),
            scope: wire::Scope::of(&self.scope, subject),
            level: self.level,
            episode: Cow::Borrowed(&self.episode),
            code: Cow::Borrowed(&self.code),
            message: Cow::default(),
            placement: None,
            call_id: None,
            advice: self.advice.as_deref().map(Cow::Borrowed),
            actor: None,
            reason: None,
            fail: self.fails_closed.then_some(CLOSED.into()),
            issued_at: Some(self.issued_at),
            expires_at: Some(self.expires_at),
        }
    }

    /// Memory that it takes, about. Bytes.
    pub(crate) fn bytes(&self) -> usize {
        let texts = [&self.command_id, &self.episode, &self.code, &self.message];
        let only: usize = self.scope.only.iter().map(|(session, agent)| session.len() + agent.len() + 48).sum();
        let summary = self.summary.as_ref().map_or(0, String::len);
        size_of::<Self>() + texts.iter().map(|text| text.len()).sum::<usize>() + only + summary
    }
}

/// Word of a stop that holds where no guard can be asked.
const CLOSED: &str = "closed";

/// A state row that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowUpdate {
    pub(crate) epoch: u64,
    pub(crate) seq: u64,
    pub(crate) verdicts: Vec<Verdict>,
}

/// A live command that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandUpdate {
    pub(crate) subject: SubjectKey,
    pub(crate) epoch: u64,
    pub(crate) seq: u64,
    pub(crate) episode: String,
    pub(crate) expires_at: EventTime,
    /// None of an `unblock`, which lifts what its episode placed.
    pub(crate) verdict: Option<Verdict>,
}

/// A state row; none where it is unreadable or of another version.
pub(crate) fn read_row(value: &[u8]) -> Option<RowUpdate> {
    let row: wire::Row<'_> = serde_json::from_slice(value).ok().filter(|row: &wire::Row<'_>| row.v == wire::VERSION)?;
    Some(RowUpdate { epoch: row.epoch, seq: row.seq, verdicts: row.active.into_iter().filter_map(verdict_of_row).collect() })
}

fn verdict_of_row(mut verdict: wire::Verdict<'_>) -> Option<Verdict> {
    obeyable(Verdict {
        command_id: verdict.command_id.into_owned(),
        action: action(&verdict.action)?,
        agent_id: verdict.scope.agent_id.take().map(Cow::into_owned),
        scope: verdict.scope.read()?,
        level: verdict.level,
        episode: verdict.episode.into_owned(),
        code: verdict.code.into_owned(),
        summary: None,
        message: verdict.message.into_owned(),
        advice: verdict.advice.map(Cow::into_owned),
        issued_at: verdict.issued_at?,
        expires_at: verdict.expires_at?,
        fails_closed: verdict.fail.is_some_and(|fail| fail == CLOSED),
    })
}

/// A command that binds somebody; none where it is unreadable, not live, or of a kind that is not known.
pub(crate) fn read_command(value: &[u8]) -> Option<CommandUpdate> {
    let mut command: wire::Command<'_> = serde_json::from_slice(value).ok()?;
    if command.v != wire::VERSION || command.mode != wire::LIVE {
        return None;
    }
    let subject = command.subject()?;
    let agent_id = command.scope.agent_id.take().map(Cow::into_owned);
    let scope = command.scope.read()?;
    let (issued_at, expires_at) = (command.issued_at?, command.expires_at?);
    let episode = command.episode.into_owned();
    let fails_closed = matches!(command.reason.evidence.get("fail"), Some(wire::Fact::Text(fail)) if fail == CLOSED);
    let verdict = if command.action == engine::Action::Unblock.as_str() {
        None
    } else {
        let verdict = obeyable(Verdict {
            command_id: command.id.into_owned(),
            action: action(&command.action)?,
            agent_id,
            scope,
            level: command.level,
            episode: episode.clone(),
            code: command.reason.code.into_owned(),
            summary: command.reason.summary.map(Cow::into_owned),
            message: command.message?.into_owned(),
            advice: command.advice.map(Cow::into_owned),
            issued_at,
            expires_at,
            fails_closed,
        });
        Some(verdict?)
    };
    Some(CommandUpdate { subject, epoch: command.epoch, seq: command.seq, episode, expires_at, verdict })
}

/// A block of calls that cannot be known from others would have to be widened to bind any: it binds none.
fn obeyable(verdict: Verdict) -> Option<Verdict> {
    let is_opaque = matches!(verdict.scope.fingerprint, Some((_, IdentityRecipe::Opaque)));
    (!(verdict.is_block() && is_opaque)).then_some(verdict)
}

/// What a verdict of this word does; none where it is no verdict.
fn action(word: &str) -> Option<Action> {
    match engine::Action::from_name(word)? {
        engine::Action::Nudge => Some(Action::Nudge),
        engine::Action::Block => Some(Action::Block),
        engine::Action::Unblock => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A command that nudges an agent about one call of `Bash`.
    pub(crate) fn command(id: &str, action: &str, seq: u64) -> Value {
        json!({
            "v": 1, "id": id, "action": action, "session_id": "s", "level": 1, "epoch": 10, "seq": seq, "episode": "e",
            "scope": { "kind": "session", "agent_id": "main", "tool": "Bash", "fingerprint": "a4404e81f177a67db9d08a78ed566b35",
                "identity": { "kind": "call" } },
            "issued_at": "2026-01-01T00:00:00Z", "expires_at": "2026-01-01T00:10:00Z", "mode": "live",
            "reason": { "code": "exact_repeat", "summary": "sum", "evidence": { "count": 3 } },
            "message": "[System] You've called Bash 3 times.", "trigger": {}, "engine": {}
        })
    }

    /// A row of an agent with these verdicts, each a command as above.
    pub(crate) fn row(seq: u64, commands: &[Value]) -> String {
        let active: Vec<Value> = commands
            .iter()
            .map(|command| {
                let mut verdict = command.clone();
                verdict["command_id"] = command["id"].clone();
                verdict["code"] = command["reason"]["code"].clone();
                verdict
            })
            .collect();
        json!({ "v": 1, "status": "nudged", "epoch": 10, "seq": seq, "active": active }).to_string()
    }

    fn read(command: &Value) -> Option<CommandUpdate> {
        read_command(command.to_string().as_bytes())
    }

    #[test]
    fn a_row_and_a_command_give_the_same_verdict() {
        let command = command("c", "nudge", 1);
        let of_row = read_row(row(1, std::slice::from_ref(&command)).as_bytes()).unwrap();
        let of_command = read(&command).unwrap().verdict.unwrap();
        assert_eq!(of_row.verdicts, [Verdict { summary: None, ..of_command.clone() }]);
        assert_eq!(of_command.summary.as_deref(), Some("sum"));
        assert_eq!(of_command.scope.fingerprint.unwrap().0.to_string(), "a4404e81f177a67db9d08a78ed566b35");
    }

    #[test]
    fn what_is_not_understood_binds_nobody() {
        for (pointer, value) in [
            ("/v", json!(2)),
            ("/action", json!("forbid")),
            ("/scope/kind", json!("galaxy")),
            ("/mode", json!("shadow")),
            ("/mode", json!("replay")),
            ("/scope/fingerprint", json!("A4")),
            ("/scope/fingerprint", json!("+4404e81f177a67db9d08a78ed566b3")),
            ("/expires_at", json!("soon")),
            ("/message", Value::Null),
            ("/session_id", Value::Null),
        ] {
            let mut command = command("c", "block", 1);
            *command.pointer_mut(pointer).unwrap() = value;
            assert_eq!(read(&command), None, "{pointer}");
        }
        let mut unknown = command("c", "block", 1);
        unknown["scope"]["identity"]["kind"] = "smell".into();
        assert_eq!(read(&unknown), None, "a block that nobody can match");
        unknown["action"] = "nudge".into();
        assert_eq!(read(&unknown).unwrap().verdict.unwrap().scope.fingerprint.unwrap().1, IdentityRecipe::Opaque);
        assert_eq!(read_row(b"{}"), None);
        assert_eq!(read_row(&[0xff]), None);
    }
}
