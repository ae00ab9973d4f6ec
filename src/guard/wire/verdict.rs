//! Verdicts in force, as commands and state rows write them.
//!
//! What a reader does not understand binds nobody: an unknown version, action or scope is no verdict (rule 8 of the page `workers`).

use std::sync::Arc;

use loopwarden_core::engine::SubjectKey;
use loopwarden_core::event::EventTime;
use loopwarden_core::identity::{CallRules, Hash128};
use serde::Deserialize;

use crate::wire::answer::Action;

/// A nudge or block that holds until it expires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) command_id: String,
    pub(crate) action: Action,
    pub(crate) scope: Scope,
    pub(crate) level: u8,
    pub(crate) episode: String,
    pub(crate) code: String,
    pub(crate) summary: Option<String>,
    pub(crate) message: String,
    pub(crate) advice: Option<String>,
    pub(crate) issued_at: EventTime,
    pub(crate) expires_at: EventTime,
}

/// Whom and which calls it binds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scope {
    pub(crate) kind: ScopeKind,
    pub(crate) agent_id: Option<String>,
    pub(crate) tool: Option<String>,
    pub(crate) fingerprint: Option<(Hash128, Recipe)>,
    /// These only, as (session, agent); empty: all.
    pub(crate) only: Vec<(String, String)>,
}

impl Scope {
    /// Whether it binds the same calls as another, whichever agents make them.
    pub(crate) fn binds_same_calls(&self, other: &Self) -> bool {
        self.kind == other.kind && self.tool == other.tool && self.fingerprint == other.fingerprint
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScopeKind {
    Agent,
    Session,
    Swarm,
    Fleet,
}

/// How a fingerprint is made of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Recipe {
    Call(CallRules),
    Coarse(Arc<[String]>),
    Args(CallRules),
    /// Not to be made.
    Opaque,
}

impl Verdict {
    pub(crate) fn is_block(&self) -> bool {
        self.action == Action::Block
    }

    /// Whether it ends the turn of an agent.
    pub(crate) fn stops(&self) -> bool {
        self.is_block() && self.level >= 4 && self.advice.as_deref() == Some("stop")
    }

    /// Memory that it takes, about. Bytes.
    pub(crate) fn bytes(&self) -> usize {
        let texts = [&self.command_id, &self.episode, &self.code, &self.message];
        let only: usize = self.scope.only.iter().map(|(session, agent)| session.len() + agent.len() + 48).sum();
        let summary = self.summary.as_ref().map_or(0, String::len);
        size_of::<Self>() + texts.iter().map(|text| text.len()).sum::<usize>() + only + summary
    }
}

/// What a row or a command says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowUpdate {
    pub(crate) epoch: u64,
    pub(crate) seq: u64,
    pub(crate) verdicts: Vec<Verdict>,
}

/// A live command of a version that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandUpdate {
    pub(crate) subject: SubjectKey,
    pub(crate) epoch: u64,
    pub(crate) seq: u64,
    pub(crate) episode: String,
    pub(crate) expires_at: EventTime,
    /// None: an unblock.
    pub(crate) verdict: Option<Verdict>,
}

#[derive(Deserialize)]
struct WireRow {
    v: u64,
    epoch: u64,
    seq: u64,
    active: Vec<WireVerdict>,
}

#[derive(Deserialize)]
struct WireVerdict {
    command_id: String,
    action: String,
    scope: WireScope,
    level: u8,
    episode: String,
    code: String,
    message: String,
    advice: Option<String>,
    issued_at: String,
    expires_at: String,
}

#[derive(Deserialize)]
struct WireScope {
    kind: String,
    agent_id: Option<String>,
    tool: Option<String>,
    fingerprint: Option<String>,
    identity: Option<WireIdentity>,
    #[serde(default)]
    only: Vec<WireOnly>,
}

#[derive(Deserialize)]
struct WireOnly {
    session_id: String,
    agent_id: String,
}

#[derive(Deserialize)]
struct WireIdentity {
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    args_ignored: Vec<String>,
}

#[derive(Deserialize)]
struct WireCommand {
    v: u64,
    id: String,
    action: String,
    tenant: Option<String>,
    session_id: Option<String>,
    swarm_id: Option<String>,
    scope: WireScope,
    level: u8,
    epoch: u64,
    seq: u64,
    episode: String,
    issued_at: String,
    expires_at: String,
    mode: String,
    reason: WireReason,
    message: Option<String>,
    advice: Option<String>,
}

#[derive(Deserialize)]
struct WireReason {
    code: String,
    summary: Option<String>,
}

/// A state row; none where it is unreadable or of another version.
pub(crate) fn read_row(value: &[u8]) -> Option<RowUpdate> {
    let row: WireRow = serde_json::from_slice(value).ok().filter(|row: &WireRow| row.v == 1)?;
    Some(RowUpdate { epoch: row.epoch, seq: row.seq, verdicts: row.active.into_iter().filter_map(verdict_of_row).collect() })
}

fn verdict_of_row(wire: WireVerdict) -> Option<Verdict> {
    checked(Verdict {
        command_id: wire.command_id,
        action: action(&wire.action)?,
        scope: scope(wire.scope)?,
        level: wire.level,
        episode: wire.episode,
        code: wire.code,
        summary: None,
        message: wire.message,
        advice: wire.advice,
        issued_at: EventTime::parse_rfc3339(&wire.issued_at)?,
        expires_at: EventTime::parse_rfc3339(&wire.expires_at)?,
    })
}

/// A command that binds somebody; none where it is unreadable, not live, or of a kind that is not known.
pub(crate) fn read_command(value: &[u8]) -> Option<CommandUpdate> {
    let wire: WireCommand = serde_json::from_slice(value).ok()?;
    if wire.v != 1 || wire.mode != "live" {
        return None;
    }
    let scope = scope(wire.scope)?;
    let tenant = wire.tenant.unwrap_or_default();
    let subject = match scope.kind {
        ScopeKind::Agent | ScopeKind::Session => {
            SubjectKey::Agent { tenant, session_id: wire.session_id?, agent_id: scope.agent_id.clone()? }
        }
        ScopeKind::Swarm => SubjectKey::Swarm { tenant, swarm_id: wire.swarm_id?, fingerprint: scope.fingerprint.as_ref()?.0 },
        ScopeKind::Fleet => SubjectKey::Fleet { tenant, fingerprint: scope.fingerprint.as_ref()?.0 },
    };
    let expires_at = EventTime::parse_rfc3339(&wire.expires_at)?;
    let issued_at = EventTime::parse_rfc3339(&wire.issued_at)?;
    let update =
        |verdict| CommandUpdate { subject, epoch: wire.epoch, seq: wire.seq, episode: wire.episode.clone(), expires_at, verdict };
    if wire.action == "unblock" {
        return Some(update(None));
    }
    let verdict = checked(Verdict {
        command_id: wire.id,
        action: action(&wire.action)?,
        scope,
        level: wire.level,
        episode: wire.episode.clone(),
        code: wire.reason.code,
        summary: wire.reason.summary,
        message: wire.message?,
        advice: wire.advice,
        issued_at,
        expires_at,
    })?;
    Some(update(Some(verdict)))
}

/// A block of calls that nobody can tell from others would have to be widened to bind any: it binds none.
fn checked(verdict: Verdict) -> Option<Verdict> {
    let is_opaque = matches!(verdict.scope.fingerprint, Some((_, Recipe::Opaque)));
    (!(verdict.is_block() && is_opaque)).then_some(verdict)
}

fn action(word: &str) -> Option<Action> {
    match word {
        "nudge" => Some(Action::Nudge),
        "block" => Some(Action::Block),
        _ => None,
    }
}

fn scope(wire: WireScope) -> Option<Scope> {
    let kind = match wire.kind.as_str() {
        "agent" => ScopeKind::Agent,
        "session" => ScopeKind::Session,
        "swarm" => ScopeKind::Swarm,
        "fleet" => ScopeKind::Fleet,
        _ => return None,
    };
    let fingerprint = match wire.fingerprint {
        Some(text) => Some((hash(&text)?, recipe(wire.identity))),
        None => None,
    };
    let only = wire.only.into_iter().map(|only| (only.session_id, only.agent_id)).collect();
    Some(Scope { kind, agent_id: wire.agent_id, tool: wire.tool, fingerprint, only })
}

/// 32 hex digits.
fn hash(text: &str) -> Option<Hash128> {
    let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u128::from_str_radix(text, 16).ok().map(Hash128))?
}

fn recipe(identity: Option<WireIdentity>) -> Recipe {
    let Some(identity) = identity else { return Recipe::Call(CallRules::default()) };
    let sorted = |mut names: Vec<String>| -> Arc<[String]> {
        names.sort_unstable();
        names.into()
    };
    let rules = || CallRules { args: sorted(identity.args.clone()), args_ignored: sorted(identity.args_ignored.clone()) };
    match identity.kind.as_deref() {
        None | Some("call") => Recipe::Call(rules()),
        Some("coarse") => Recipe::Coarse(sorted(identity.args)),
        Some("args") => Recipe::Args(rules()),
        // One that is not known cannot be made either.
        Some(_) => Recipe::Opaque,
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
            "scope": { "kind": "agent", "agent_id": "main", "tool": "Bash", "fingerprint": "a4404e81f177a67db9d08a78ed566b35",
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
    fn a_row_and_a_command_say_the_same() {
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
        assert_eq!(read(&unknown).unwrap().verdict.unwrap().scope.fingerprint.unwrap().1, Recipe::Opaque);
        assert_eq!(read_row(b"{}"), None);
        assert_eq!(read_row(&[0xff]), None);
    }
}
