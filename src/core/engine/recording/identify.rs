//! Event to step: what of a call and its answer is kept. Only what the running detectors need is computed.

use std::{borrow::Cow, cell::LazyCell};

use crate::detect::reference::test_fix;
use crate::detect::steps::evidence::{ANSWER_WORDS_MAX, ARGUMENT_WORDS_MAX, ARGUMENTS_MAX, LITTLE_WORDS};
use crate::detect::{Evidence, Family, Flags, Hashed, History, Marks, Step, loop_identity};
use crate::engine::context::Context;
use crate::event::{Call, CallResult, Content, Outcome, View};
use crate::identity::{
    AnswerSketch, ArgumentSketch, Arguments, Digest, Hash64, Signature, Sketch, after_cd, call_identity, canonical_json,
    error_key, fingerprint, hash_text, outcome_identity, read_arguments, read_failure, read_hash, read_json, read_text,
    readable_text, readable_text_of, state_identity,
};
use crate::limits::DESCRIPTION_CHARS_MAX;
use crate::policy::{Policy, ToolClass, ToolPolicy};

/// Arguments that name the file a tool of class `read` reads.
const PATH_ARGS: [&str; 4] = ["path", "file_path", "filename", "notebook_path"];

/// Arguments that name what a tool of many actions is to do: `computer` waits with `action = "wait"`.
const ACTION_ARGS: [&str; 2] = ["action", "type"];
/// Arguments that decide whether a tool of class `mutates` is to change a file or to show it: `str_replace_editor` has `command = "view"`.
const EDITOR_ARGS: [&str; 2] = ["command", "action"];
/// Arguments that hold a program to be run.
const CODE_ARGS: [&str; 1] = ["code"];

/// No id is shorter. Bytes.
const ID_BYTES_MIN: usize = 6;
/// A number of so many digits is an id; a shorter one counts something.
const LONG_NUMBER_DIGITS: usize = 8;
/// No handle is longer. Bytes.
const HANDLE_BYTES_MAX: usize = 96;

/// A call that takes so long has let time pass. Milliseconds.
const SLOW_MS: u64 = 5_000;

/// The step of a requested call. Sequence, tool, transparency and evidence are the session's to set.
pub(crate) fn requested(
    policy: &Policy,
    tool: &ToolPolicy,
    context: &Context<'_>,
    call: &Call<'_>,
    args: &Arguments<'_>,
) -> Step {
    let event = context.event;
    let mut step = Step {
        time: event.time,
        turn: event.turn.map_or(0, |turn| turn.saturating_add(1)),
        call: call_identity(&call.tool, args, &tool.call).0.hash128(),
        event: context.id,
        event_id: Box::from(&*event.id),
        ..Step::default()
    };
    step.flags.set(Flags::OPEN, true);
    step.flags.set(Flags::ARGS_ONLY, tool.args_only);
    let looks = looks(policy, tool, args);
    let reads = tool.class == ToolClass::Read || looks;
    step.flags.set(Flags::READ, reads);
    step.flags.set(Flags::EXEMPT, tool.class == ToolClass::Exempt);
    step.flags.set(Flags::MUTATES, tool.class == ToolClass::Mutates && !looks);
    step.flags.set(Flags::SHELL, tool.is_shell);
    let shell = &policy.identity.fingerprint.shell;
    let command = if tool.is_shell { shell.command(&call.tool, args) } else { None };
    let waits = waits(policy, tool, args, command.as_deref());
    step.flags.set(Flags::WAITS, waits);
    // Only sums of a swarm ask for it.
    let names_url = policy.needs.swarm && command.as_deref().is_some_and(|command| command.contains("://"));
    step.flags.set(Flags::REMOTE, names_url);
    step.flags.set(Flags::POLL, tool.class == ToolClass::Poll || waits);
    let asks_shell = asks_shell(policy);
    let read =
        command.as_deref().filter(|_| asks_shell || policy.needs.fingerprint).and_then(|command| shell.simple_read(command));
    if policy.needs.fingerprint {
        let coarse = fingerprint(&call.tool, args, read.as_deref(), &policy.identity.fingerprint);
        // A brief is what its agent is to do: what is left out of the call is left out here too.
        let coarse = coarse.filter(|_| tool.class != ToolClass::Spawn);
        step.fingerprint = coarse.map_or(step.call, Digest::hash128);
    }
    // A fingerprint folds simple reads: who publishes it must know that no worker can make it out.
    if let Some(path) = &read {
        step.read_target = hash_text(path).hash64();
        step.flags.set(Flags::READ, true);
    }
    if asks_shell && let Some(command) = &command {
        shell_facts(policy, command, read.is_some(), &mut step);
    }
    if policy.needs.read_target && reads {
        step.read_target = args.first_text(&PATH_ARGS).map_or(Hash64::NONE, |path| hash_text(&path).hash64());
    }
    if policy.needs.state || policy.needs.tokens {
        description_facts(policy, call, args, &mut step);
    }
    if policy.evidence.excerpts {
        step.excerpt = call.description.as_deref().unwrap_or_default().chars().take(policy.evidence.chars).collect();
    }
    step
}

/// An editor that shows a file changes nothing.
fn looks(policy: &Policy, tool: &ToolPolicy, args: &Arguments<'_>) -> bool {
    let is_look = |action: &str| policy.identity.looks.iter().any(|look| look == action);
    tool.class == ToolClass::Mutates && args.first_text(&EDITOR_ARGS).is_some_and(|action| is_look(&action))
}

/// Whether a call waits, by the rule of its tool, its command line, its action or its code.
fn waits(policy: &Policy, tool: &ToolPolicy, args: &Arguments<'_>, command: Option<&str>) -> bool {
    let shell = &policy.identity.fingerprint.shell;
    let is_waiter = |action: &str| shell.waiters.list().iter().any(|waiter| waiter == action);
    tool.waits
        || command.is_some_and(|command| shell.waits(command))
        || args.first_text(&ACTION_ARGS).is_some_and(|action| is_waiter(&action))
        || args.first_text(&CODE_ARGS).is_some_and(|code| shell.waits(&code))
}

/// What a call shows before its answer has come.
pub(crate) struct Asked {
    /// With its words, unless it is known to have worked.
    arguments: ArgumentSketch,
    marks: Marks,
}

impl Asked {
    /// What a call shows. `may_fail`: its outcome is not known to be a success.
    pub(crate) fn of(policy: &Policy, call: &Call<'_>, args: &Arguments<'_>, may_fail: bool) -> Self {
        let mut marks = Marks::default();
        let only = args.only_value().and_then(only_word);
        marks.set(Marks::HANDLE, only.is_some());
        marks.set(Marks::ID, only.is_some_and(is_id));
        marks.set(Marks::NO_ARGUMENTS, call.args.is_absent());
        let (modifiers, tool) = (policy.identity.fingerprint.modifiers(), may_fail.then_some(&*call.tool));
        let mut arguments = read_arguments(args, modifiers, ARGUMENTS_MAX, ARGUMENT_WORDS_MAX, tool);
        // A hash names nothing.
        if matches!(call.args, Content::Sha256(_)) {
            arguments.named.clear();
        }
        Self { arguments, marks }
    }

    /// The same as evidence, until the answer comes.
    pub(crate) fn evidence(&self) -> Evidence {
        Evidence::new(Hashed { own: &self.arguments.own, ..self.hashed() }, 0, self.marks)
    }

    fn hashed(&self) -> Hashed<'_> {
        let ArgumentSketch { sketch, hashes, named, .. } = &self.arguments;
        Hashed { arguments: sketch.view(), values: hashes, asked: named, ..Hashed::default() }
    }
}

/// An argument, if it is one word with a digit.
fn only_word(value: &str) -> Option<&str> {
    let word = value.trim_matches('"');
    let is_of_id = |byte: u8| byte.is_ascii_alphanumeric() || b"_-#".contains(&byte);
    let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
    (word.len() <= HANDLE_BYTES_MAX && word.bytes().all(is_of_id) && has_digit).then_some(word)
}

/// Whether a word with a digit is an id by its form: letters and digits, or a long number.
fn is_id(word: &str) -> bool {
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
    word.len() >= if is_number { LONG_NUMBER_DIGITS } else { ID_BYTES_MIN }
}

/// What an answer adds to the evidence of its call, whose own words are known. What it means is seen against the steps before it.
fn answered(result: &CallResult<'_>, answer: &View<'_>, canonical: Option<&str>, is_ok: bool, own: &[u32]) -> Answered {
    let stable;
    let (compared, canonical) = if result.stable_result.is_absent() {
        (answer, canonical)
    } else {
        stable = result.stable_result.view();
        (&stable, None)
    };
    let answer_text = match compared {
        View::Absent => "",
        View::Text(text) | View::Json(text) => text.trim(),
        View::Sha256(_) => "-",
    };
    // A failure is the text of its result, then its message, then its type.
    let error = result.error_message.as_deref().or(result.error_type.as_deref()).unwrap_or_default();
    let text = if answer_text.is_empty() && !is_ok { error } else { answer_text };
    let (read, failure) = match compared {
        View::Sha256(hash) => (read_hash(hash), Sketch::default()),
        View::Json(source) => {
            let failure = if is_ok { Sketch::default() } else { read_failure(text, 0, own).1 };
            let canonical = canonical.map_or_else(|| canonical_json(source).into(), Cow::Borrowed);
            (read_json(&canonical, ANSWER_WORDS_MAX), failure)
        }
        _ if is_ok => (read_text(text, ANSWER_WORDS_MAX), Sketch::default()),
        _ => read_failure(text, ANSWER_WORDS_MAX, own),
    };
    Answered {
        // That a call failed is an answer, also without a text.
        is_absent: compared == &View::Absent && is_ok,
        failure,
        is_little: read.words < LITTLE_WORDS,
        read,
        is_slow: result.duration_ms.is_some_and(|duration_ms| duration_ms >= SLOW_MS),
    }
}

/// Whether anything asks what a shell command does, besides the file it reads.
fn asks_shell(policy: &Policy) -> bool {
    let detectors = &policy.detectors;
    let asks_files = detectors.shell_failures.mode.is_on() || detectors.exploration.mode.is_on();
    policy.needs.evidence || policy.needs.test || asks_files
}

fn shell_facts(policy: &Policy, command: &str, reads: bool, step: &mut Step) {
    let shell = &policy.identity.fingerprint.shell;
    let work = after_cd(command);
    let is_whole = work.len() == command.trim_start().len();
    let writes = shell.writes_files(work);
    // The words for the agent go by the whole line.
    step.flags.set(Flags::SHELL_FILE, reads || if is_whole { writes } else { shell.writes_files(command) });
    let changes = writes && shell.changes_files(work);
    step.flags.set(Flags::MUTATES, step.flags.contains(Flags::MUTATES) || changes);
    let tests = &policy.detectors.test_fix;
    let is_test = if tests.match_words { tests.commands.stand_alone_in(command) } else { tests.commands.stand_in(command) };
    step.flags.set(Flags::TEST, is_test);
}

/// Until the answer comes, `state` holds the description's half, and `tokens` its tokens.
fn description_facts(policy: &Policy, call: &Call<'_>, args: &Arguments<'_>, step: &mut Step) {
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
    if policy.needs.tokens {
        // A hash has no words, and the tool's name alone would make all its calls one idea.
        if !matches!(call.args, Content::Sha256(_)) {
            let text = first_chars(args.text(), DESCRIPTION_CHARS_MAX);
            step.tokens = Signature::of_both(&call.tool, text, stop_words);
        }
    }
}

/// Whether the answer is an observation at all: a result or its hash, an error, or an outcome that is known.
pub(crate) fn is_observed(result: &CallResult<'_>) -> bool {
    !matches!(result.outcome, Outcome::Unknown | Outcome::Cancelled)
        || !result.result.is_absent()
        || !result.stable_result.is_absent()
        || result.error_message.is_some()
        || result.error_type.is_some()
}

/// What an answer adds to its step.
pub(crate) struct Completion {
    flags: Flags,
    outcome: Hash64,
    error: Hash64,
    state: Hash64,
    tokens: Option<Signature>,
    answered: Option<Answered>,
}

/// What an answer adds to the evidence of its call.
#[derive(Debug)]
struct Answered {
    read: AnswerSketch,
    is_absent: bool,
    failure: Sketch,
    is_little: bool,
    is_slow: bool,
}

impl Completion {
    /// Whether approach and outcome had been seen before; to be asked before it is written into the step.
    pub(crate) fn look_back(&mut self, history: &History, step: &Step) {
        let was_called = history.seen_call(step.call) > 0;
        self.flags.set(Flags::SEEN_CALL, was_called);
        let was_answered = history.seen_outcome(self.outcome) > 0;
        self.flags.set(Flags::SEEN_OUTCOME, was_answered);
    }

    /// Writes it into the step. `asked`: what its call shows, where that is not in the step.
    pub(crate) fn write(&self, step: &mut Step, asked: Option<&Asked>) {
        step.flags = self.flags;
        step.outcome = self.outcome;
        step.error = self.error;
        step.state = self.state;
        if let Some(tokens) = &self.tokens {
            step.token_bits = tokens.bits();
            step.tokens = tokens.clone();
        }
        let Some(answered) = &self.answered else { return };
        let evidence = step.evidence();
        let (called, mut marks) = match asked {
            Some(asked) => (asked.hashed(), asked.marks),
            None => (
                Hashed {
                    arguments: evidence.arguments(),
                    values: evidence.values(),
                    asked: evidence.asked(),
                    ..Hashed::default()
                },
                evidence.marks,
            ),
        };
        marks.set(Marks::LITTLE, answered.is_little);
        marks.set(Marks::NO_ANSWER, answered.is_absent);
        marks.set(Marks::SLOW, answered.is_slow);
        let hashed = Hashed {
            answer: answered.read.sketch.view(),
            failure: answered.failure.view(),
            shown: &answered.read.named,
            around_numbers: answered.read.shape,
            ..called
        };
        step.evidence = Some(Evidence::new(hashed, 0, marks));
    }
}

/// Whether a call worked. Where its producer does not report it, there is no error and no exit code.
pub(crate) fn worked(result: &CallResult<'_>) -> bool {
    match result.outcome {
        Outcome::Ok => true,
        Outcome::Error | Outcome::Timeout | Outcome::Denied => false,
        Outcome::Unknown | Outcome::Cancelled => {
            result.error_message.is_none() && result.error_type.is_none() && result.exit_code.unwrap_or(0) == 0
        }
    }
}

/// What came back from the call of `step`. Only for observed answers that are no refusal of ours. `asked`: what the call shows, where that is
/// not in the step.
pub(crate) fn completed(
    policy: &Policy,
    tool: &ToolPolicy,
    result: &CallResult<'_>,
    step: &Step,
    asked: Option<&Asked>,
) -> Completion {
    let is_ok = worked(result);
    let mut done = Completion {
        flags: step.flags,
        outcome: Hash64::NONE,
        error: Hash64::NONE,
        state: step.state,
        tokens: None,
        answered: None,
    };
    done.flags.set(Flags::OPEN, false);
    done.flags.set(Flags::OBSERVED, true);
    done.flags.set(Flags::OK, is_ok);
    // It ran, whatever was decided about it before.
    done.flags.set(Flags::REFUSED, false);
    done.flags.set(Flags::OVER_RATE, false);
    let error_text = result.error_message.as_deref().or(result.error_type.as_deref());
    // Unescaping a result costs more than all else where nothing asks for it.
    let answer = LazyCell::new(|| result.result.view());
    let proves_nothing = result.truncated && result.stable_result.is_absent() && !matches!(result.result, Content::Sha256(_));
    done.flags.set(Flags::CUT, proves_nothing);
    let mut canonical = None;
    if policy.needs.outcome && !proves_nothing {
        let stable = result.stable_result.view();
        let compared = if result.stable_result.is_absent() { &*answer } else { &stable };
        let compared = outcome_identity(is_ok, compared, error_text.filter(|_| !is_ok), &policy.outcomes.rules, &tool.outcome);
        done.outcome = compared.identity.hash64();
        canonical = compared.canonical.filter(|_| result.stable_result.is_absent());
    }
    let own = asked.map(|asked| &*asked.arguments.own).or_else(|| step.evidence.as_ref().map(Evidence::own));
    let own = own.filter(|_| policy.needs.evidence);
    done.answered = own.map(|own| answered(result, &answer, canonical.as_deref(), is_ok, own));
    if !is_ok {
        failure_facts(policy, result, || &answer, error_text, &mut done);
    }
    if policy.needs.tokens || policy.needs.state || (policy.needs.test && step.flags.contains(Flags::TEST)) {
        output_facts(policy, &readable_text_of(&answer, canonical), step, &mut done);
    }
    if proves_nothing {
        // What was cut is no evidence of sameness, of states no more than of answers.
        done.state = Hash64::NONE;
    }
    done
}

fn failure_facts<'a>(
    policy: &Policy,
    result: &CallResult<'_>,
    answer: impl FnOnce() -> &'a View<'a>,
    error_text: Option<&str>,
    done: &mut Completion,
) {
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
    let of_result;
    let text = if is_refusal {
        "denied"
    } else if let Some(text) = error_text {
        text
    } else {
        of_result = readable_text(answer());
        &of_result
    };
    done.error = error_key(text, policy.detectors.dead_end.key_chars).map_or(Hash64::NONE, |key| hash_text(&key).hash64());
}

fn output_facts(policy: &Policy, text: &str, step: &Step, done: &mut Completion) {
    if policy.needs.test && step.flags.contains(Flags::TEST) {
        let (passed, failed) = test_fix::signals(&policy.detectors.test_fix, text);
        done.flags.set(Flags::TEST_PASSED, passed);
        done.flags.set(Flags::TEST_FAILED, failed);
    }
    if policy.needs.state {
        // With descriptions a state is what corteX compares; without, the call's identity and its outcome's are the same at no cost.
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
    // Of ASCII, a byte is a character.
    match text.as_bytes().get(..chars) {
        None => text,
        Some(head) if head.is_ascii() => text.get(..chars).unwrap_or_default(),
        Some(_) => text.char_indices().nth(chars).and_then(|(end, _)| text.get(..end)).unwrap_or(text),
    }
}
