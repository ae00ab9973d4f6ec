//! The agents in one table: what each can do with an answer, and the functions that read and write its words.

use loopwarden_guard::{Answer, Can};
use serde_json::Value as Json;

use crate::BODY_BYTES_MAX;
use crate::agents::{
    antigravity, claude_code, claude_like, cline, codex, copilot, cursor, gemini, goose, opencode, openhands, qwen,
};
use crate::hook_event::HookEvent;
use crate::hook_message::{HookMessage, What};
use crate::native;
use crate::object::Object;
use crate::say::Say;

/// What every hook program ends with, whatever happens: some agents refuse the call on any other.
pub const EXIT_CODE: u8 = 0;

/// What one agent tells its hooks, and what it reads.
#[derive(Clone, Copy)]
pub struct Contract {
    /// Name in addresses and on the command line.
    pub agent: &'static str,
    /// What it can do with an answer.
    pub can: Can,
    /// What its hooks cannot do, for people. One sentence each.
    pub lacks: &'static [&'static str],
    /// Names of the field that tells what happened.
    hook: &'static [&'static str],
    told: for<'a> fn(&str, &Object<'a>) -> Option<HookMessage<'a>>,
    answer: fn(&HookEvent, &Say) -> Option<Json>,
    /// The answer without an opinion; absent where that is an empty body.
    nothing: Option<fn() -> Json>,
}

impl std::fmt::Debug for Contract {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Contract").field("agent", &self.agent).field("can", &self.can).finish_non_exhaustive()
    }
}

const AFTER: Can = Can { context_after: true, ..Can::DENY };

const fn contract_of(
    (agent, can): (&'static str, Can),
    hook: &'static [&'static str],
    told: for<'a> fn(&str, &Object<'a>) -> Option<HookMessage<'a>>,
    answer: fn(&HookEvent, &Say) -> Option<Json>,
    lacks: &'static [&'static str],
) -> Contract {
    Contract { agent, can, lacks, hook, told, answer, nothing: None }
}

const NAME: &[&str] = &["hook_event_name"];

/// All agents.
pub const AGENTS: [Contract; 12] = [
    contract_of(
        ("claude-code", Can { context_before: true, stop: true, ..AFTER }),
        NAME,
        claude_code::told,
        claude_code::answer,
        &["A call that the program refuses as malformed is not seen."],
    ),
    contract_of(
        ("codex", Can { context_before: true, ..AFTER }),
        NAME,
        codex::told,
        codex::answer,
        &[
            "Hooks run only after you have trusted them: open /hooks in Codex.",
            "Results come without an exit code, so a failure is known by its text alone.",
            "Text typed into a running command is not seen.",
        ],
    ),
    contract_of(
        ("gemini", Can { stop: true, ..AFTER }),
        NAME,
        gemini::told,
        gemini::answer,
        &["Calls have no id.", "A nudge reaches the model behind a result only.", "Sub-agents cannot be told apart."],
    ),
    contract_of(("qwen", AFTER), NAME, qwen::told, qwen::answer, &["A nudge reaches the model behind a result only."]),
    contract_of(
        ("opencode", AFTER),
        &["hook"],
        opencode::told,
        opencode::answer,
        &["The plugin does not run with --pure.", "A nudge behind a call that failed reaches the model with the next result."],
    ),
    contract_of(
        ("copilot", AFTER),
        &["hook_event_name", "hookEventName", "hook"],
        copilot::told,
        copilot::answer,
        &[
            "Calls have no id.",
            "It reads Claude Code's project settings too: install one of the two per project.",
            "A nudge reaches the model behind a result only.",
        ],
    ),
    contract_of(
        ("cursor", AFTER),
        NAME,
        cursor::told,
        cursor::answer,
        &["A nudge reaches the model behind a result only.", "It may read Claude Code's hooks too: install one of the two."],
    ),
    contract_of(
        ("goose", Can::DENY),
        &["event", "hook_event_name"],
        goose::told,
        goose::answer,
        &["Results are not told, only failures.", "A nudge is a refusal, once."],
    ),
    contract_of(
        ("openhands", Can::DENY),
        &["event_type", "hook_event_name"],
        openhands::told,
        openhands::answer,
        &["Calls have no id.", "A nudge is a refusal, once.", "A project's hooks file hides that of the user."],
    ),
    Contract {
        nothing: Some(cline::nothing),
        ..contract_of(
            ("cline", Can { context_before: true, context_after: true, stop: true, ..Can::NOTHING }),
            &["hookName"],
            cline::told,
            cline::answer,
            &["Calls have no id.", "A call cannot be refused without ending the task.", "macOS and Linux only."],
        )
    },
    Contract {
        nothing: Some(antigravity::nothing),
        ..contract_of(
            ("antigravity", Can::DENY),
            &[],
            antigravity::told,
            antigravity::answer,
            &["Results are not told.", "A nudge is a refusal, once.", "Without an answer it asks the person."],
        )
    },
    contract_of(
        ("claude-like", AFTER),
        &["hook_event_name", "hookEventName", "event_type", "event", "agent_action_name", "hookName"],
        claude_like::told,
        claude_like::answer,
        &["Depends on the program: only what Claude Code's hooks have too is used."],
    ),
];

/// The contract of an agent, by its name.
#[must_use]
pub fn contract(agent: &str) -> Option<&'static Contract> {
    AGENTS.iter().find(|contract| contract.agent == agent)
}

/// Reads what an agent told its hook. `hook` names the event for agents whose bodies do not (Copilot's first dialect): their hook is
/// installed per event. `fresh` is a number that was never given before: it tells two equal calls apart where the agent gives neither
/// id nor time.
///
/// Whatever cannot be understood is heard as nothing, and is answered with no opinion.
#[must_use]
pub fn read(contract: &'static Contract, body: &[u8], hook: Option<&str>, fresh: u64) -> HookEvent {
    heard(contract, body, hook, fresh).unwrap_or_else(|| HookEvent::nothing(contract.agent))
}

fn heard(contract: &'static Contract, body: &[u8], hook: Option<&str>, fresh: u64) -> Option<HookEvent> {
    let body = body.get(..body.len().min(BODY_BYTES_MAX + 1)).filter(|body| body.len() <= BODY_BYTES_MAX)?;
    let object = Object::read(loopwarden_core::event::json::text(body)?)?;
    let named = object.text_of(contract.hook);
    let is_named = named.is_some();
    let hook = named.as_deref().or(hook).unwrap_or_default();
    let told = (contract.told)(hook, &object)?;
    // Whoever was refused already reads nothing more about it.
    let asks = match &told.what {
        What::Before(_) => true,
        What::After(_, outcome) => outcome.word != "denied",
        _ => false,
    };
    Some(HookEvent {
        agent: contract.agent,
        event: Some(native::event(&told, contract.agent, fresh)?),
        asks,
        can: contract.can,
        hook: hook.to_owned(),
        is_before: matches!(told.what, What::Before(_)),
        is_nested: is_named,
    })
}

/// The answer as the agent reads it. Empty: no opinion.
#[must_use]
pub fn write(contract: &Contract, heard: &HookEvent, answer: Option<&Answer>) -> Vec<u8> {
    let say = answer.filter(|_| heard.asks).and_then(|answer| Say::of(answer, heard.is_before));
    let said = say.and_then(|say| (contract.answer)(heard, &say)).or_else(|| contract.nothing.map(|nothing| nothing()));
    said.map(|said| said.to_string().into_bytes()).unwrap_or_default()
}
