//! Event to step: what of a call and its answer is kept. Only what the running detectors need is computed.

use crate::detect::Family;
use crate::detect::Flags;
use crate::detect::History;
use crate::detect::Step;
use crate::detect::loop_identity;
use crate::detect::test_fix;
use crate::event::Call;
use crate::event::CallResult;
use crate::event::Content;
use crate::event::Event;
use crate::event::Outcome;
use crate::event::View;
use crate::identity::Hash64;
use crate::identity::Signature;
use crate::identity::argument_text;
use crate::identity::call_identity;
use crate::identity::contains_word;
use crate::identity::error_key;
use crate::identity::fingerprint;
use crate::identity::hash_text;
use crate::identity::outcome_identity;
use crate::identity::readable_text;
use crate::identity::state_identity;
use crate::limits::DESCRIPTION_CHARS_MAX;
use crate::policy::Policy;
use crate::policy::ToolClass;
use crate::policy::ToolPolicy;

/// Arguments that name the file a tool of class `read` reads.
const PATH_ARGS: [&str; 4] = ["path", "file_path", "filename", "notebook_path"];

/// The step of a requested call. Sequence, tool and transparency are the session's to set.
pub(super) fn requested(policy: &Policy, tool: &ToolPolicy, event: &Event<'_>, call: &Call<'_>) -> Step {
    let mut step = Step {
        time: event.time,
        turn: event.turn.map_or(0, |turn| turn.saturating_add(1)),
        call: call_identity(&call.tool, &call.args, &tool.call).0.hash128(),
        call_id: call.call_id.as_deref().map_or(Hash64::NONE, |id| hash_text(id).hash64()),
        event: hash_text(&event.id).hash64(),
        event_id: Box::from(&*event.id),
        ..Step::default()
    };
    step.flags.set(Flags::OPEN, true);
    step.flags.set(Flags::ARGS_ONLY, tool.args_only);
    step.flags.set(Flags::READ, tool.class == ToolClass::Read);
    step.flags.set(Flags::POLL, tool.class == ToolClass::Poll);
    step.flags.set(Flags::EXEMPT, tool.class == ToolClass::Exempt);
    step.flags.set(Flags::MUTATES, tool.class == ToolClass::Mutates);
    if policy.needs.fingerprint {
        step.fingerprint = fingerprint(&call.tool, &call.args, &policy.identity.fingerprint).digest.hash128();
    }
    if tool.is_shell {
        shell_facts(policy, call, &mut step);
    }
    if policy.needs.read_target && tool.class == ToolClass::Read {
        step.read_target = argument_text(&call.args, &PATH_ARGS).map_or(Hash64::NONE, |path| hash_text(&path).hash64());
    }
    if policy.needs.state || policy.needs.tokens {
        description_facts(policy, call, &mut step);
    }
    if policy.evidence.excerpts {
        step.excerpt = call.description.as_deref().unwrap_or_default().chars().take(policy.evidence.chars).collect();
    }
    step
}

fn shell_facts(policy: &Policy, call: &Call<'_>, step: &mut Step) {
    let shell = &policy.identity.fingerprint.shell;
    step.flags.set(Flags::SHELL, true);
    let detectors = &policy.detectors;
    let asks_files = policy.progress.mutation || detectors.shell_failures.mode.is_on() || detectors.exploration.mode.is_on();
    let asks_tests = policy.progress.mutation || policy.needs.test;
    if !asks_files && !asks_tests {
        return;
    }
    let Some(command) = shell.command(&call.tool, &call.args) else { return };
    let writes = shell.writes_files(&command);
    let target = shell.simple_read(&command);
    let reads = target.is_some();
    if let Some(path) = target {
        step.read_target = hash_text(&path).hash64();
    }
    step.flags.set(Flags::SHELL_FILE, writes || reads);
    step.flags.set(Flags::MUTATES, step.flags.has(Flags::MUTATES) || writes);
    step.flags.set(Flags::READ, step.flags.has(Flags::READ) || reads);
    let settings = &policy.detectors.test_fix;
    let is_test = settings
        .commands
        .iter()
        .any(|entry| if settings.match_words { contains_word(&command, entry) } else { command.contains(entry.as_str()) });
    step.flags.set(Flags::TEST, is_test);
}

/// Until the answer comes, `state` holds the description's half, and `tokens` its tokens.
fn description_facts(policy: &Policy, call: &Call<'_>, step: &mut Step) {
    let described = if policy.identity.use_description { call.description.as_deref() } else { None };
    let stop_words = &policy.detectors.semantic_repeat.stop_words;
    if let Some(description) = described {
        step.state = state_identity(description, "").hash64();
        if policy.needs.tokens {
            step.tokens = Signature::of(description, stop_words);
        }
        return;
    }
    step.state = Hash64((step.call.0 >> 64) as u64);
    if policy.needs.tokens && !matches!(call.args, Content::Sha256(_)) {
        // Tokens are a set: the order of keys does not show, so the source will do.
        step.tokens = match call.args.view() {
            View::Json(text) | View::Text(text) => {
                Signature::of_both(&call.tool, first_chars(&text, DESCRIPTION_CHARS_MAX), stop_words)
            }
            View::Absent | View::Sha256(_) => Signature::of(&call.tool, stop_words),
        };
    }
}

/// Whether the answer is an observation at all: a result or its hash, an error, or an outcome that says something.
pub(super) fn is_observed(result: &CallResult<'_>) -> bool {
    !matches!(result.outcome, Outcome::Unknown | Outcome::Cancelled)
        || !result.result.is_absent()
        || !result.stable_result.is_absent()
        || result.error_message.is_some()
        || result.error_type.is_some()
}

/// What an answer says of its step.
pub(super) struct Completion {
    flags: Flags,
    outcome: Hash64,
    error: Hash64,
    state: Hash64,
    tokens: Option<Signature>,
}

impl Completion {
    /// Whether approach and outcome had been seen before; to be asked before it is written into the step.
    pub(super) fn look_back(&mut self, history: &History, step: &Step) {
        self.flags.set(Flags::SEEN_CALL, history.seen_call(step.call) > 0);
        self.flags.set(Flags::SEEN_OUTCOME, history.seen_outcome(self.outcome) > 0);
    }

    /// Writes it into the step.
    pub(super) fn write(self, step: &mut Step) {
        step.flags = self.flags;
        step.outcome = self.outcome;
        step.error = self.error;
        step.state = self.state;
        if let Some(tokens) = self.tokens {
            step.token_bits = tokens.bits();
            step.tokens = tokens;
        }
    }
}

/// What came back from the call of `step`. Only for observed answers that are no refusal of ours.
pub(super) fn completed(policy: &Policy, tool: &ToolPolicy, result: &CallResult<'_>, step: &Step) -> Completion {
    let is_ok = match result.outcome {
        Outcome::Ok => true,
        Outcome::Error | Outcome::Timeout | Outcome::Denied => false,
        Outcome::Unknown | Outcome::Cancelled => result.error_message.is_none() && result.exit_code.unwrap_or(0) == 0,
    };
    let mut done = Completion { flags: step.flags, outcome: Hash64::NONE, error: Hash64::NONE, state: step.state, tokens: None };
    done.flags.set(Flags::OPEN, false);
    done.flags.set(Flags::OBSERVED, true);
    done.flags.set(Flags::OK, is_ok);
    done.flags.set(Flags::MUTATED, policy.progress.mutation && is_ok && step.flags.has(Flags::MUTATES));
    // It ran, whatever was decided about it before.
    done.flags.set(Flags::REFUSED, false);
    done.flags.set(Flags::OVER_RATE, false);
    let error_text = result.error_message.as_deref().or(result.error_type.as_deref());
    let compared = if result.stable_result.is_absent() { &result.result } else { &result.stable_result };
    let proves_nothing = result.truncated && result.stable_result.is_absent() && !matches!(result.result, Content::Sha256(_));
    if policy.needs.outcome && !proves_nothing {
        let identity = outcome_identity(is_ok, compared, error_text.filter(|_| !is_ok), &policy.outcomes.rules, &tool.outcome);
        done.outcome = identity.hash64();
    }
    if !is_ok {
        failure_facts(policy, result, error_text, &mut done);
    }
    let needs_text = policy.needs.tokens || policy.needs.outcome || (policy.needs.test && step.flags.has(Flags::TEST));
    if needs_text || policy.needs.state {
        let text = readable_text(&result.result);
        output_facts(policy, &text, step, &mut done);
    }
    if proves_nothing {
        // What was cut is no evidence of sameness, of states no more than of answers.
        done.state = Hash64::NONE;
    }
    done
}

fn failure_facts(policy: &Policy, result: &CallResult<'_>, error_text: Option<&str>, done: &mut Completion) {
    let is_refusal = result.outcome == Outcome::Denied;
    let is_outage = !is_refusal
        && [result.error_type.as_deref(), result.error_message.as_deref()]
            .into_iter()
            .flatten()
            .any(|text| policy.outcomes.retryable.is_match(text));
    done.flags.set(Flags::RETRYABLE, is_outage);
    if !policy.needs.error || is_outage {
        return;
    }
    let settings = &policy.detectors.dead_end;
    let of_result;
    let text = if is_refusal {
        "denied"
    } else if let Some(text) = error_text {
        text
    } else {
        of_result = readable_text(&result.result);
        &of_result
    };
    done.error = error_key(text, settings.key_chars, &settings.mask)
        .filter(|key| is_refusal || !settings.generic.is_match(key))
        .map_or(Hash64::NONE, |key| hash_text(&key).hash64());
}

fn output_facts(policy: &Policy, text: &str, step: &Step, done: &mut Completion) {
    let trimmed = text.trim();
    let says_little = done.flags.has(Flags::OK) && trimmed.chars().nth(policy.outcomes.generic_chars).is_none();
    // No entry of the list is long; a long answer is not generic.
    let is_generic = (says_little && policy.outcomes.generic_chars > 0)
        || trimmed.len() <= 64 && {
            let lower = trimmed.to_lowercase();
            policy.outcomes.generic.contains(&lower)
        };
    done.flags.set(Flags::GENERIC, is_generic);
    if policy.needs.test && step.flags.has(Flags::TEST) {
        let (passed, failed) = test_fix::signals(text, policy.detectors.test_fix.zero_failed_fails);
        done.flags.set(Flags::TEST_PASSED, passed);
        done.flags.set(Flags::TEST_FAILED, failed);
    }
    if policy.needs.state {
        // With descriptions a state is what corteX compares; without, the call's identity and its outcome's say the same at no cost.
        let output = if policy.identity.use_description || !done.outcome.is_some() {
            let masked = policy.outcomes.rules.mask.apply(text);
            state_identity("", &masked).hash64()
        } else {
            done.outcome
        };
        done.state = loop_identity(Family::Outcome, &[step.state.0, output.0]);
    }
    if policy.needs.tokens {
        let settings = &policy.detectors.semantic_repeat;
        done.tokens = Some(step.tokens.with(first_chars(text, settings.output_chars), &settings.stop_words));
    }
}

fn first_chars(text: &str, chars: usize) -> &str {
    let end = text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    text.get(..end).unwrap_or_default()
}
