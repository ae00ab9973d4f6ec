//! The hook of a coding agent: standard input goes to loopwarden, its answer to standard output. Whom it asks is known first, and what of an
//! answer may reach an agent is a closed list.
//!
//! `loopwarden-hook AGENT [EVENT]`. It ends with 0 whatever happens, and within 150 ms by default: an agent must not wait for a guard that is away,
//! and some agents refuse the call where a hook fails. It starts at every call, in about a millisecond.
//!
//! `loopwarden-hook mcp-proxy … -- COMMAND` is the other thing it does, once for a session: see the crate `loopwarden_mcp`.

mod answer;
mod circuit;
mod stopped;

use std::io::{Read as _, Write as _};
use std::sync::{Arc, OnceLock};
use std::{io, process::ExitCode, sync::mpsc::sync_channel};

use loopwarden_ask::{GuardEndpoint, Reply};

use crate::circuit::Circuit;
use crate::stopped::{Call, Stopped};

/// No agent, but the proxy.
const PROXY: &str = "mcp-proxy";
/// Exit code for arguments that are wrong.
const BAD_USAGE: u8 = 2;
/// Longest input that is sent on. Bytes. What is longer is read and dropped.
const INPUT_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// What an agent must read where there is no answer.
fn no_opinion(agent: &str) -> &'static str {
    match agent {
        "antigravity" => r#"{"decision":"allow"}"#,
        "cline" => r#"{"cancel":false}"#,
        _ => "",
    }
}

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|word| word == PROXY) {
        return proxy();
    }
    // A panic would write to standard error, which some agents show their model.
    std::panic::set_hook(Box::new(|_| {}));
    let mut arguments = std::env::args().skip(1);
    let (agent, event) = (arguments.next().unwrap_or_default(), arguments.next());
    let answer = answer(&agent, event.as_deref());
    let answer = answer.as_deref().unwrap_or(no_opinion(&agent).as_bytes());
    // Whoever does not read it has decided already.
    let _ = io::stdout().write_all(answer);
    let _ = io::stdout().flush();
    ExitCode::SUCCESS
}

/// Runs an MCP server behind the proxy.
fn proxy() -> ExitCode {
    match loopwarden_mcp::Options::read(std::env::args_os().skip(2)) {
        Ok(options) => loopwarden_mcp::run(&options).into(),
        Err(why) => {
            let _ = writeln!(io::stderr(), "loopwarden-hook: {why}");
            ExitCode::from(BAD_USAGE)
        }
    }
}

fn answer(agent: &str, event: Option<&str>) -> Option<Vec<u8>> {
    let place = GuardEndpoint::find();
    let circuit = Circuit::new(place.marker.clone());
    let stopped = Stopped::beside(place.marker.as_deref());
    if !is_word(agent) || event.is_some_and(|event| !is_word(event)) {
        return None;
    }
    if circuit.is_open() {
        let call = |input: Vec<u8>| Call::of(agent, event, &input);
        // What was kept may be of an older program.
        return stopped.is_any().then(input_in_time).flatten().and_then(call).and_then(|call| refusal(&stopped, &call));
    }
    let path = match event {
        Some(event) => format!("/v1/hooks/{agent}?hook={event}"),
        None => format!("/v1/hooks/{agent}"),
    };
    let heard = Arc::new(OnceLock::new());
    let keep = Arc::clone(&heard);
    let body = move || input().inspect(|bytes| drop(keep.set(bytes.clone())));
    let answer = loopwarden_ask::post(place, path, body, loopwarden_ask::wait());
    // Nothing is said about it, on standard error neither: some agents take that for an answer, and a text for leave. `hook status` tells.
    circuit.note(answer.as_ref().err());
    let call = || Call::of(agent, event, heard.get()?);
    match answer {
        Ok(Reply { body, refuse_for: Some(span), .. }) => {
            let kept = answer::kept(&body)?;
            if let Some(call) = call() {
                stopped.keep(&call, &kept, span);
            }
            Some(kept)
        }
        Ok(Reply { body, refuse_for: None, is_fresh }) => {
            if stopped.is_any()
                && let Some(call) = call()
            {
                // Only a guard that knows releases: one that has just started knows of no stop yet, one that does not take the event of none.
                if is_fresh {
                    stopped.release(&call);
                } else if let Some(refused) = refusal(&stopped, &call) {
                    return Some(refused);
                }
            }
            answer::kept(&body)
        }
        Err(_) => stopped.is_any().then(call).flatten().and_then(|call| refusal(&stopped, &call)),
    }
}

/// What is still to be answered to a stopped agent while no guard answers. It goes through the same list: others may write where it is kept.
fn refusal(stopped: &Stopped, call: &Call) -> Option<Vec<u8>> {
    stopped.refusal(call).and_then(|answer| answer::kept(&answer))
}

/// Standard input where nobody is asked; none where it does not end in time.
fn input_in_time() -> Option<Vec<u8>> {
    let (send, read) = sync_channel(1);
    let reading = std::thread::Builder::new().name("input".to_owned()).spawn(move || drop(send.send(input())));
    reading.ok()?;
    read.recv_timeout(loopwarden_ask::wait()).ok()?.ok()
}

/// A word that may stand in an address as it is.
fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'))
}

/// All of standard input. What is too long is taken and not sent: an agent that cannot write may fail.
fn input() -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::stdin().lock().take(INPUT_BYTES_MAX).read_to_end(&mut bytes)?;
    let more = io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    if more > 0 { Err(io::Error::new(io::ErrorKind::FileTooLarge, "the input is too long")) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use loopwarden_sources::AGENTS;
    use loopwarden_sources::hook::{read, write};

    use super::*;

    #[test]
    fn each_agent_gets_the_same_answer_with_and_without_a_guard_that_has_no_opinion() {
        for agent in &AGENTS {
            let answer = write(agent, &read(agent, b"", None, 0), None);
            assert_eq!(String::from_utf8(answer).unwrap(), no_opinion(agent.name), "{}", agent.name);
        }
    }

    #[test]
    fn only_words_go_into_an_address() {
        assert!(is_word("claude-code") && is_word("tool.execute.before"));
        assert!(!is_word("") && !is_word("a b") && !is_word("a/b") && !is_word("a\r\nb") && !is_word(&"a".repeat(65)));
    }
}
