//! Calls and their answers become steps of the history, and advance the runs of equal calls.

use crate::detect::weights::measure;
use crate::detect::{Flags, History, Step, Waiting, brought_nothing, tree};
use crate::engine::effects::{DeniedBy, Effects, NudgeResponse};
use crate::engine::observe::{MatrixBlock, Recorded};
use crate::engine::recording::identify::{self, Asked};
use crate::engine::recording::swarm_calls::{count_fleet, count_in_vain, count_made};
use crate::engine::recording::uses::{count_spawn, count_spawn_in_vain};
use crate::engine::session::{Head, Session};
use crate::engine::{context::Context, due::arm_open_calls, marks::Mark, tree::Tree};
use crate::event::{Call, CallResult, EventTime, Outcome};
use crate::identity::{Arguments, Hash64, call_identity, hash_text};
use crate::policy::{Detector, Policy, ToolClass, ToolPolicy};

/// How many calls after a wait look whether it was worth it: builds, deployments and what they wrote are seldom seen in one.
const LOOKS_AFTER_A_WAIT: usize = 3;

/// A requested call; with `result` it has returned already.
pub(crate) fn record_call<'a>(
    context: &Context<'a>,
    session: &mut Session,
    call: &Call<'_>,
    result: Option<&CallResult<'_>>,
    out: &mut Effects,
) -> Recorded<'a> {
    let args = Arguments::of(&call.args);
    let call_id = call.call_id.as_deref().map_or(Hash64::NONE, |id| hash_text(id).hash64());
    let policy = context.policy;
    if let Some(result) = result
        && let Some(open) = open_with_call_id(session, call_id)
        && is_same_call(policy, session, open, call, &args)
    {
        return finish(context, session, ReturnedStep { sequence: open, event: context.id, asked: None }, result, out);
    }
    let tool = policy.tools.get(&call.tool);
    let mut step = identify::requested(policy, tool, context, call, &args);
    let may_fail = result.is_none_or(|result| !identify::worked(result));
    let asked = policy.needs.evidence.then(|| Asked::of(policy, call, &args, may_fail));
    step.call_id = call_id;
    step.time = context.time;
    step.flags.set(Flags::OPEN, result.is_none());
    let was_refused = result.is_some_and(|result| result.outcome == Outcome::Denied);
    let has_run = result.is_some_and(|result| identify::is_observed(result) && !was_refused);
    if !has_run {
        step.evidence = asked.as_ref().map(Asked::evidence);
    }
    // The blocks of a swarm are not known here; a call that was refused under one names the command's id.
    let names_block = was_refused && context.event.command_id.is_some();
    let is_refused = names_block || (!has_run && is_blocked(context, session, &step, &call.tool));
    note_requested(policy, session, &mut step, is_refused, out);
    let is_requested = step.was_made();
    if is_requested && tool.class == ToolClass::Spawn {
        note_spawn(context, session, &args, out);
    }
    if session.history.push(step, &call.tool) {
        out.marks.push(Mark::RingWrapped);
    }
    let sequence = session.history.next_sequence() - 1;
    session.touch(sequence);
    if result.is_none() {
        arm_open_calls(policy, session, context.time, out);
    }
    count_fleet(context, tool, call, &args, sequence, session, out);
    count_made(context, session, sequence, out);
    let recorded = if let Some(result) = result {
        let asked = asked.as_ref().filter(|_| has_run);
        finish(context, session, ReturnedStep { sequence, event: Hash64::NONE, asked }, result, out)
    } else {
        Recorded { compares_calls: advance_runs(context, session, sequence), ..Recorded::default() }
    };
    Recorded { step: Some((sequence, tool)), is_requested, ..recorded }
}

/// Whether a block of the session refuses a call.
fn is_blocked(context: &Context<'_>, session: &Session, step: &Step, tool: &str) -> bool {
    session.head.board.verdicts.refuses(step, tool, context.time).is_some()
}

/// What the steps before it make of a requested one, and it of what they left open.
fn note_requested(policy: &Policy, session: &mut Session, step: &mut Step, is_refused: bool, out: &mut Effects) {
    // An agent that waited looks afterwards whether it was worth it.
    if was_waited_for(session, step) {
        step.flags.set(Flags::POLL, true);
    }
    let same_turn = policy.identity.same_turn_once && step.turn != 0 && is_in_turn(session, step);
    step.flags.set(Flags::REFUSED, is_refused);
    step.flags.set(Flags::SAME_TURN, same_turn);
    note_nudge_response(session, step, out);
    if is_refused {
        out.marks.push(Mark::Refused);
    }
    if same_turn {
        out.marks.push(Mark::SameTurn);
    }
    // Whatever becomes of it and however it counts: the agent does not only talk.
    session.head.streaks.texts.turns = 0;
}

/// The call starts an agent.
fn note_spawn(context: &Context<'_>, session: &mut Session, args: &Arguments<'_>, out: &mut Effects) {
    let place = session.head.tree.get_or_insert_with(|| Box::new(Tree::of(context.event)));
    place.spawns = place.spawns.saturating_add(1);
    out.counters.spawned = true;
    if context.policy.detectors.tree.mode.is_on() {
        count_spawn(context, session, tree::brief(args), out);
    }
}

/// Whether a `tool` event repeats the open call with its id: two calls under one id are two calls.
fn is_same_call(policy: &Policy, session: &Session, open: u64, call: &Call<'_>, args: &Arguments<'_>) -> bool {
    let Some(step) = session.history.get(open) else { return false };
    let rules = &policy.tools.get(&call.tool).call;
    session.history.tool(step) == &*call.tool
        && (call.args.is_absent() || call_identity(&call.tool, args, rules).0.hash128() == step.call)
}

/// An answer on its own: joined by `call_id`, else to the oldest open call of that tool.
pub(crate) fn record_result<'a>(
    context: &Context<'a>,
    session: &mut Session,
    result: &CallResult<'_>,
    out: &mut Effects,
) -> Recorded<'a> {
    let call_id = result.call_id.as_deref().map_or(Hash64::NONE, |id| hash_text(id).hash64());
    let open = open_with_call_id(session, call_id).or_else(|| {
        let joined = oldest_open_of_tool(session, result);
        if joined.is_some() {
            out.marks.push(Mark::JoinedByTool);
        }
        joined
    });
    if let Some(sequence) = open {
        finish(context, session, ReturnedStep { sequence, event: context.id, asked: None }, result, out)
    } else {
        out.counters.orphan_result = true;
        // Its call was made, whenever that was.
        session.head.streaks.texts.turns = 0;
        session.head.board.note_seen(context.id);
        Recorded::default()
    }
}

/// A recorded step that has returned.
#[derive(Clone, Copy)]
struct ReturnedStep<'a> {
    sequence: u64,
    /// Id of the event that brought the result; none where that is the event of the call.
    event: Hash64,
    /// What the call shows, where that is not in the step.
    asked: Option<&'a Asked>,
}

/// A recorded step has returned.
fn finish<'a>(
    context: &Context<'a>,
    session: &mut Session,
    returned: ReturnedStep<'_>,
    result: &CallResult<'_>,
    out: &mut Effects,
) -> Recorded<'a> {
    let ReturnedStep { sequence, event, asked } = returned;
    let policy = context.policy;
    let Some(step) = session.history.get(sequence) else { return Recorded::default() };
    let tool_name = session.history.tool(step);
    let tool = policy.tools.get(tool_name);
    if result.outcome == Outcome::Denied {
        let is_refused = step.flags.contains(Flags::REFUSED);
        let by_us = context.event.command_id.is_some() || is_refused || is_blocked(context, session, step, tool_name);
        out.counters.denied = Some(if by_us { DeniedBy::Us } else { DeniedBy::Other });
        if by_us {
            refuse(policy, session, sequence, event);
            return Recorded::default();
        }
    }
    if !identify::is_observed(result) {
        session.history.update(sequence, |step| {
            step.flags.set(Flags::OPEN, false);
            step.result_event = event;
        });
        session.touch(sequence);
        // Call and result came in one event: the call has not entered the runs yet.
        let compares_calls = event == Hash64::NONE && advance_runs(context, session, sequence);
        return Recorded { compares_calls, ..Recorded::default() };
    }
    let was_refused = step.flags.contains(Flags::REFUSED);
    let mut done = identify::completed(policy, tool, result, step, asked);
    done.look_back(&session.history, step);
    session.history.update(sequence, |step| {
        done.write(step, asked);
        step.result_event = event;
    });
    let waiting = if policy.needs.evidence { measure(context, tool, session, sequence, out) } else { Waiting::No };
    session.history.remember(sequence);
    session.touch(sequence);
    // It came with its outcome, or it ran although it was refused: it counts from now on.
    let counts_from_now = event == Hash64::NONE || was_refused;
    if !enter_returned(context, tool, session, sequence, counts_from_now, was_refused, out) {
        return Recorded::default();
    }
    let is_counted = answer_runs(policy, session, sequence, counts_from_now);
    Recorded {
        step: Some((sequence, tool)),
        // It was not when it was requested, since a block stood: it is now that it ran.
        is_requested: was_refused && session.history.get(sequence).is_some_and(Step::was_made),
        compares_calls: is_counted && counts_from_now && session.head.pending_turn == 0,
        is_completed: true,
        waiting,
        matrix_block: matrix_block(&session.head, &session.history, sequence, context.time),
        ..Recorded::default()
    }
}

/// A step that has run enters the runs, and the sums of its swarm and its tree. Whether it is to be judged: a call from before a reset is not
/// held against the agent when it returns after it.
fn enter_returned(
    context: &Context<'_>,
    tool: &ToolPolicy,
    session: &mut Session,
    sequence: u64,
    counts_from_now: bool,
    was_refused: bool,
    out: &mut Effects,
) -> bool {
    let is_forgotten = sequence < context.floor;
    if !is_forgotten && counts_from_now {
        let is_newest = session.history.newest().is_none_or(|newest| newest.sequence <= sequence);
        if was_refused && !is_newest {
            // Newer calls were counted meanwhile; it belongs before them.
            rebuild_runs(context.policy, session);
        } else {
            advance_runs(context, session, sequence);
        }
    }
    if was_refused {
        count_made(context, session, sequence, out);
    }
    if is_forgotten {
        return false;
    }
    count_in_vain(context, session, sequence, out);
    if tool.class == ToolClass::Spawn
        && session.history.get(sequence).is_some_and(|step| step.failed() || brought_nothing(&session.history, step))
    {
        count_spawn_in_vain(context, session, out);
    }
    true
}

/// What a completed step shows is seen against the steps before it, once, and enters the score. How the agent waits with it.
fn measure(context: &Context<'_>, tool: &ToolPolicy, session: &mut Session, sequence: u64, out: &mut Effects) -> Waiting {
    let Some(step) = session.history.get(sequence) else { return Waiting::No };
    let user_words = session.head.user_words.iter().map(|words| &**words);
    let measured = measure::measure(&session.history, step, &user_words);
    // A call from before a reset is not held against the agent when it returns after it.
    if step.is_evidence() && sequence >= context.floor {
        let score = &mut session.head.streaks.score;
        score.take(&context.policy.score, &measured, &session.history, step, tool.scaled(1, true));
    }
    session.history.update(sequence, |step| {
        if let Some(evidence) = &mut step.evidence {
            (evidence.news, evidence.marks, evidence.facts) = (measured.news, measured.marks, measured.facts);
        }
    });
    out.measured = Some(measured);
    measured.waiting
}

/// A counted call enters the runs. Whether it is to be compared now with those before it: not where the calls of its turn are judged together.
fn advance_runs(context: &Context<'_>, session: &mut Session, sequence: u64) -> bool {
    let Some(step) = session.history.get(sequence).filter(|step| !step.is_transparent()) else { return false };
    let streaks = &mut session.head.streaks;
    streaks.exact.advance(step.call, sequence);
    if context.policy.needs.fingerprint {
        if streaks.near.hash != step.fingerprint {
            streaks.near_tier = 0;
        }
        streaks.near.advance(step.fingerprint, sequence);
    }
    if step.turn != 0 && context.judges_by_turn() {
        session.head.pending_turn = step.turn;
    }
    session.head.pending_turn == 0
}

/// Whether a step with a known outcome counts; an outage leaves the runs.
fn answer_runs(policy: &Policy, session: &mut Session, sequence: u64, counts_from_now: bool) -> bool {
    let Some(step) = session.history.get(sequence) else { return false };
    if step.is_transparent() {
        // An outage shows only now; the runs took the call when it was requested.
        if !counts_from_now && step.flags.contains(Flags::RETRYABLE) {
            rebuild_runs(policy, session);
        }
        return false;
    }
    true
}

/// The open call with that id.
fn open_with_call_id(session: &Session, call_id: Hash64) -> Option<u64> {
    let mut open = session.history.open_back().filter(|_| call_id.is_some());
    open.find(|step| step.call_id == call_id).map(|step| step.sequence)
}

/// The oldest open call of the result's tool; a result that names a call only joins calls that have no id of their own.
fn oldest_open_of_tool(session: &Session, result: &CallResult<'_>) -> Option<u64> {
    let tool = session.history.names().find(result.tool.as_deref()?)?;
    let has_id = result.call_id.is_some();
    let may_join = |step: &&Step| step.tool == tool && !(has_id && step.call_id.is_some());
    session.history.open_back().filter(may_join).last().map(|step| step.sequence)
}

/// Whether a call is among the first looks after a wait: each of those that follow it without being made twice.
fn was_waited_for(session: &Session, step: &Step) -> bool {
    let before = session.history.ring_back().take(LOOKS_AFTER_A_WAIT);
    let mut looks = before.take_while(|before| before.flags.contains(Flags::POLL) && before.call != step.call);
    looks.any(|before| before.flags.contains(Flags::WAITS))
}

fn is_in_turn(session: &Session, step: &Step) -> bool {
    session
        .history
        .ring_back()
        .take_while(|earlier| earlier.turn == step.turn && earlier.sequence >= session.history.floor())
        .any(|earlier| earlier.call == step.call)
}

/// The block of the progress matrix under which a step ran.
fn matrix_block(head: &Head, history: &History, sequence: u64, time: EventTime) -> Option<MatrixBlock> {
    let is_of_matrix = |detector: &Detector| matches!(detector, Detector::Stagnation | Detector::Stuck);
    let step = history.get(sequence)?;
    let mut blocks = head.board.verdicts.iter().filter_map(|verdict| Some((verdict, verdict.detector().filter(is_of_matrix)?)));
    let (verdict, detector) = blocks.find(|(verdict, _)| verdict.refuses(step, history.tool(step), time))?;
    let episode = head.episodes.iter().find(|episode| episode.id == verdict.episode)?;
    Some(MatrixBlock { detector, identity: episode.identity, count: episode.count })
}

/// A refusal of ours: transparent; it neither freezes nor feeds a streak.
fn refuse(policy: &Policy, session: &mut Session, sequence: u64, event: Hash64) {
    let was_counted = session.history.get(sequence).is_some_and(|step| !step.is_transparent());
    session.history.update(sequence, |step| {
        step.flags.set(Flags::OPEN, false);
        step.flags.set(Flags::REFUSED, true);
        step.result_event = event;
    });
    session.touch(sequence);
    // A `tool` event that came refused has not entered the runs yet.
    if was_counted && event.is_some() {
        rebuild_runs(policy, session);
    }
}

/// The runs as the ring has them, after a step of theirs turned out not to count.
fn rebuild_runs(policy: &Policy, session: &mut Session) {
    let streaks = &mut session.head.streaks;
    streaks.exact.rebuild(&session.history, |step| step.call);
    if policy.needs.fingerprint {
        streaks.near.rebuild(&session.history, |step| step.fingerprint);
    }
}

/// The first step after a nudge: did it help?
fn note_nudge_response(session: &mut Session, step: &Step, out: &mut Effects) {
    if let Some(nudge) = session.head.pending_nudge.take() {
        let answer = if nudge.call == step.call { NudgeResponse::Repeated } else { NudgeResponse::Changed };
        out.counters.nudge_response = Some((nudge.detector, answer));
    }
}
