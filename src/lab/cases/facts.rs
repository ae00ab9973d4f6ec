//! Identity facts of a case: what the rules on calls, fingerprints and outcomes must say.

use loopwarden_core::event::{Content, Event, EventKind, EventTime, Outcome, RecordMeta, decode};
use loopwarden_core::identity::{Arguments, call_identity, canonical_text, fingerprint_text, outcome_identity};
use loopwarden_core::limits::RECORD_BYTES_MAX_DEFAULT;
use loopwarden_core::policy::{Policy, ToolClass};
use serde_json::Value;

use crate::cases::format::{Case, Mismatch};

/// Compares every fact of a case.
pub(super) fn check(policy: &Policy, case: &Case) -> Vec<Mismatch> {
    let mut wrong = Vec::new();
    let mut expect = |what: &str, expected: String, got: String| {
        if expected != got {
            wrong.push(Mismatch { event: None, expected: format!("{what} {expected}"), got });
        }
    };
    let facts = &case.facts;
    let call_hash = |tool: &str, args: &Arguments<'_>| call_identity(tool, args, &policy.tools.get(tool).call).0.to_string();
    let print = |at: usize| {
        with_call(case, at, |tool, args| {
            let args = Arguments::of(args);
            let text = fingerprint_text(tool, &args, &policy.identity.fingerprint);
            text.unwrap_or_else(|| call_hash(tool, &args))
        })
    };
    for (one, two, same) in &facts.fingerprint_equal {
        expect("fingerprint_equal", same.to_string(), (print(*one) == print(*two)).to_string());
    }
    for (at, text) in &facts.fingerprint_is {
        expect("fingerprint_is", text.clone(), print(*at));
    }
    for (at, text) in &facts.fingerprint_contains {
        expect("fingerprint_contains", "true".to_owned(), print(*at).contains(text.as_str()).to_string());
    }
    for (at, path) in &facts.shell_read_path {
        let shell = &policy.identity.fingerprint.shell;
        let got = with_call(case, *at, |tool, args| {
            shell
                .command(tool, &Arguments::of(args))
                .and_then(|command| shell.simple_read(&command).map(std::borrow::Cow::into_owned))
                .unwrap_or_default()
        });
        expect("shell_read_path", path.clone().unwrap_or_default(), got);
    }
    for (one, two, same) in &facts.outcome_equal {
        expect("outcome_equal", same.to_string(), (outcome(policy, case, *one) == outcome(policy, case, *two)).to_string());
    }
    for (at, text) in &facts.canonical_args {
        expect("canonical_args", text.clone(), with_call(case, *at, |_, args| canonical_text(args)));
    }
    for (at, hash) in &facts.call_sha256 {
        let got = with_call(case, *at, |tool, args| call_hash(tool, &Arguments::of(args)));
        expect("call_sha256", hash.clone(), got);
    }
    for (at, is_poll) in &facts.is_poll {
        let got = with_call(case, *at, |tool, _| (policy.tools.get(tool).class == ToolClass::Poll).to_string());
        expect("is_poll", is_poll.to_string(), got);
    }
    wrong
}

fn with_event<R>(case: &Case, at: usize, read: impl FnOnce(&Event<'_>) -> R) -> Option<R> {
    let payload = case.events.get(at).map(Value::to_string)?;
    let meta = RecordMeta::without_place(EventTime(0), RECORD_BYTES_MAX_DEFAULT);
    decode(Some(payload.as_bytes()), &meta).ok().map(|event| read(&event))
}

fn with_call(case: &Case, at: usize, read: impl FnOnce(&str, &Content<'_>) -> String) -> String {
    with_event(case, at, |event| match &event.kind {
        EventKind::ToolCall(call) | EventKind::Tool(call, _) => read(&call.tool, &call.args),
        _ => "no call".to_owned(),
    })
    .unwrap_or_else(|| "no event".to_owned())
}

fn outcome(policy: &Policy, case: &Case, at: usize) -> String {
    with_event(case, at, |event| match &event.kind {
        EventKind::ToolResult(result) | EventKind::Tool(_, result) => {
            let tool = match &event.kind {
                EventKind::Tool(call, _) => Some(&*call.tool),
                _ => result.tool.as_deref(),
            };
            let is_ok = matches!(result.outcome, Outcome::Ok);
            let compared = if result.stable_result.is_absent() { &result.result } else { &result.stable_result };
            let error = result.error_message.as_deref().filter(|_| !is_ok);
            let tool = policy.tools.get(tool.unwrap_or_default());
            outcome_identity(is_ok, &compared.view(), error, &policy.outcomes.rules, &tool.outcome).identity.to_string()
        }
        _ => "no result".to_owned(),
    })
    .unwrap_or_else(|| "no event".to_owned())
}
