//! Calls and their answers: a step is recorded, then judged. First the call phase, then, once the outcome is known, its own.

use crate::detect::{
    Flags, Step, call_rate, dead_end, exact_repeat, exploration, failing_run, got_nowhere, near_repeat, oscillation,
    outcome_repeat, progress_matrix, semantic_repeat, shell_failures, state_repeat, test_fix,
};
use crate::engine::apply::{SessionEngine, arm, remember};
use crate::engine::command::Verdict;
use crate::engine::context::Context;
use crate::engine::effects::{Answer, DeniedBy, Effects, RecipeForm, SwarmCallKey};
use crate::engine::identify;
use crate::engine::marks::Mark;
use crate::engine::session::Session;
use crate::engine::timer::TimerKind;
use crate::event::{Call, CallResult, EventTime, Outcome};
use crate::identity::{Arguments, Hash64, args_identity, call_identity, hash_text};
use crate::policy::{Counted, Detector, FleetKey, Policy, ToolPolicy};

/// How many calls after a wait look whether it was worth it: builds, deployments and what they wrote are seldom seen in one.
const LOOKS_AFTER_A_WAIT: usize = 3;

impl SessionEngine {
    /// A requested call; with `result` it has returned already, and both phases give one answer.
    pub(super) fn call(
        &mut self,
        context: &Context<'_>,
        session: &mut Session,
        call: &Call<'_>,
        result: Option<&CallResult<'_>>,
        out: &mut Effects,
    ) {
        let args = Arguments::of(&call.args);
        let call_id = call.call_id.as_deref().map_or(Hash64::NONE, |id| hash_text(id).hash64());
        if let Some(result) = result
            && let Some(open) = open_with_call_id(session, call_id)
            && self.is_same_call(session, open, call, &args)
        {
            self.answer(context, session, open, result, context.id, out);
            return;
        }
        let policy = context.policy;
        let tool = policy.tools.get(&call.tool);
        let mut step = identify::requested(policy, tool, context, call, &args);
        step.call_id = call_id;
        step.time = context.time;
        // Who waits looks afterwards whether it was worth it.
        if was_waited_for(session, &step) {
            step.flags.set(Flags::POLL, true);
        }
        let was_refused = result.is_some_and(|result| result.outcome == Outcome::Denied);
        let has_run = result.is_some_and(|result| identify::is_observed(result) && !was_refused);
        let is_blocked = active_block(session, &step, &call.tool, context.time).is_some();
        // The blocks of a swarm are not known here; who was refused under one says so by the command's id.
        let names_block = was_refused && context.event.command_id.is_some();
        step.flags.set(Flags::REFUSED, (is_blocked && !has_run) || names_block);
        let same_turn = policy.identity.same_turn_once && step.turn != 0 && is_in_turn(session, &step);
        step.flags.set(Flags::SAME_TURN, same_turn);
        step.flags.set(Flags::OPEN, result.is_none());
        note_obedience(session, &step, out);
        if step.flags.has(Flags::REFUSED) {
            out.marks.push(Mark::Refused);
        }
        if same_turn {
            out.marks.push(Mark::SameTurn);
        }
        if !step.is_transparent() {
            session.head.streaks.texts.turns = 0;
        }
        if session.history.push(step, &call.tool) {
            out.marks.push(Mark::RingWrapped);
        }
        let sequence = session.history.next_sequence() - 1;
        session.touch(sequence);
        if result.is_none() && session.head.open_due.is_none() {
            // Timers follow the task's clock: by its own, a session whose clock lags would be overdue at once.
            let due = context.time.plus_ms(session.head.lag_ms).plus_ms(policy.open_call_ms);
            arm(&mut session.head.open_due, TimerKind::OpenCalls, Some(due), out);
        }
        self.count_fleet(context, tool, (call, &args), sequence, session, out);
        if policy.detectors.swarm_repeat.count == Counted::All {
            self.count_swarm(context, session, sequence, out);
        }
        self.judge_rate(tool, session, sequence, has_run, context.time);
        if let Some(result) = result {
            self.finish(context, session, sequence, result, Hash64::NONE, out);
        } else {
            self.advance_runs(session, sequence);
            self.judge_call(policy, session, sequence);
        }
        self.decide(context, session, out);
    }

    /// Whether a `tool` event repeats the open call with its id: two calls under one id are two calls.
    fn is_same_call(&self, session: &Session, open: u64, call: &Call<'_>, args: &Arguments<'_>) -> bool {
        let Some(step) = session.history.get(open) else { return false };
        let rules = &self.policy.tools.get(&call.tool).call;
        session.history.tool(step) == &*call.tool
            && (call.args.is_absent() || call_identity(&call.tool, args, rules).0.hash128() == step.call)
    }

    /// An answer on its own: joined by `call_id`, else to the oldest open call of that tool.
    pub(super) fn result(
        &mut self,
        context: &Context<'_>,
        session: &mut Session,
        result: &CallResult<'_>,
        event: Hash64,
        out: &mut Effects,
    ) {
        let call_id = result.call_id.as_deref().map_or(Hash64::NONE, |id| hash_text(id).hash64());
        let open = open_with_call_id(session, call_id).or_else(|| {
            let joined = oldest_open_of_tool(session, result);
            if joined.is_some() {
                out.marks.push(Mark::JoinedByTool);
            }
            joined
        });
        if let Some(sequence) = open {
            self.answer(context, session, sequence, result, event, out);
        } else {
            out.tally.orphan_result = true;
            remember(session, event);
        }
    }

    fn answer(
        &mut self,
        context: &Context<'_>,
        session: &mut Session,
        sequence: u64,
        result: &CallResult<'_>,
        event: Hash64,
        out: &mut Effects,
    ) {
        self.finish(context, session, sequence, result, event, out);
        self.decide(context, session, out);
    }

    /// The outcome phase of a recorded step.
    fn finish(
        &mut self,
        context: &Context<'_>,
        session: &mut Session,
        sequence: u64,
        result: &CallResult<'_>,
        event: Hash64,
        out: &mut Effects,
    ) {
        let policy = context.policy;
        let Some(step) = session.history.get(sequence) else { return };
        let tool_name = session.history.tool(step);
        let tool = policy.tools.get(tool_name);
        if result.outcome == Outcome::Denied {
            let by_us = context.event.command_id.is_some()
                || step.flags.has(Flags::REFUSED)
                || active_block(session, step, tool_name, context.time).is_some();
            out.tally.denied = Some(if by_us { DeniedBy::Us } else { DeniedBy::Other });
            if by_us {
                session.touch(sequence);
                refuse(session, sequence, event, policy);
                return;
            }
        }
        if !identify::is_observed(result) {
            session.history.update(sequence, |step| {
                step.flags.set(Flags::OPEN, false);
                step.result_event = event;
            });
            session.touch(sequence);
            // Both phases came in one event: the call phase has not been judged yet.
            if event == Hash64::NONE {
                self.advance_runs(session, sequence);
                self.judge_call(policy, session, sequence);
            }
            return;
        }
        let was_refused = step.flags.has(Flags::REFUSED);
        let mut done = identify::completed(policy, tool, result, step);
        done.look_back(&session.history, step);
        session.history.update(sequence, |step| {
            done.write(step);
            step.result_event = event;
        });
        session.touch(sequence);
        // What was called before a reset is not held against the agent when it comes back after it.
        let is_forgotten = sequence < context.floor;
        // It came with its outcome, or it ran although it was refused: it counts from now on.
        if !is_forgotten && (event == Hash64::NONE || was_refused) {
            let is_newest = session.history.newest().is_none_or(|newest| newest.sequence <= sequence);
            if was_refused && !is_newest {
                // Newer calls were counted meanwhile; it belongs before them.
                rebuild_runs(session, policy);
            } else {
                self.advance_runs(session, sequence);
            }
        }
        if was_refused && policy.detectors.swarm_repeat.count == Counted::All {
            self.count_swarm(context, session, sequence, out);
        }
        if is_forgotten {
            return;
        }
        self.count_unproductive(context, session, sequence, out);
        self.judge_outcome(context, session, sequence, tool, event == Hash64::NONE || was_refused);
    }

    /// `call_rate`: recorded first, judged then.
    fn judge_rate(&mut self, tool: &ToolPolicy, session: &mut Session, sequence: u64, has_run: bool, now: EventTime) {
        let settings = &self.policy.detectors.call_rate;
        let Some(step) = session.history.get(sequence) else { return };
        if !settings.mode.is_on() || step.flags.any(Flags(Flags::EXEMPT.0 | Flags::REFUSED.0)) {
            return;
        }
        let found = call_rate::observe(settings, tool, &session.history, step, now);
        if found.as_ref().is_some_and(|found| found.block_at > 0) && !has_run {
            session.history.update(sequence, |step| step.flags.set(Flags::OVER_RATE, true));
        }
        self.findings.extend(found);
    }

    fn advance_runs(&self, session: &mut Session, sequence: u64) {
        let Some(step) = session.history.get(sequence) else { return };
        if step.is_transparent() {
            return;
        }
        let streaks = &mut session.head.streaks;
        exact_repeat::advance(&mut streaks.exact, step.call, sequence);
        if self.policy.needs.fingerprint {
            if streaks.near.hash != step.fingerprint {
                streaks.near_tier = 0;
            }
            exact_repeat::advance(&mut streaks.near, step.fingerprint, sequence);
        }
        if self.judges_by_turn() && step.turn != 0 {
            session.head.pending_turn = step.turn;
        }
    }

    /// Call phase of a call that has not returned.
    fn judge_call(&mut self, policy: &Policy, session: &mut Session, sequence: u64) {
        let Some(step) = session.history.get(sequence) else { return };
        if step.is_transparent() {
            return;
        }
        if session.head.pending_turn == 0 {
            self.evaluate_repeats(policy, session);
        }
    }

    /// `exact_repeat`, and where it has no finding `near_repeat`, on the newest counted call.
    pub(super) fn evaluate_repeats(&mut self, policy: &Policy, session: &mut Session) {
        let Some(step) = session.history.counted_back().next() else { return };
        let tool = policy.tools.get(session.history.tool(step));
        let streaks = &session.head.streaks;
        let settings = &policy.detectors.exact_repeat;
        let exact = if settings.mode.is_on() {
            exact_repeat::observe(settings, tool, &streaks.exact, &session.history, step)
        } else {
            None
        };
        let near = &policy.detectors.near_repeat;
        let found = match exact {
            Some(found) => Some(found),
            None if near.mode.is_on() => near_repeat::observe(near, tool, &streaks.near, &streaks.exact, step),
            None => None,
        };
        if let Some(mut found) = found {
            if found.is_fresh && found.tier > 0 {
                let reached = session.head.streaks.near_tier.max(found.tier);
                session.head.streaks.near_tier = reached;
                found.tier = reached;
            }
            self.findings.push(found);
        }
    }

    /// `exact_repeat` on failures that are not equal, where equal ones have not spoken.
    fn evaluate_failures(&mut self, session: &Session, sequence: u64, tool: &ToolPolicy) {
        let settings = &self.policy.detectors.exact_repeat;
        let has_spoken = self.findings.iter().any(|finding| finding.detector == Detector::ExactRepeat);
        let Some(step) = session.history.get(sequence).filter(|_| settings.mode.is_on() && !has_spoken) else { return };
        self.findings.extend(failing_run::observe(settings, tool, &session.history, step));
    }

    /// `dead_end` on outages, which no count of answers sees. A row of equal calls is told as such.
    fn evaluate_outages(&mut self, session: &Session, sequence: u64, tool: &ToolPolicy) {
        let settings = &self.policy.detectors.dead_end;
        if settings.mode.is_on()
            && self.findings.is_empty()
            && let Some(step) = session.history.get(sequence)
        {
            self.findings.extend(dead_end::outages(settings, tool, &session.history, step));
        }
    }

    /// Outcome phase; with the call phase before it where both came in one event.
    fn judge_outcome(&mut self, context: &Context<'_>, session: &mut Session, sequence: u64, tool: &ToolPolicy, with_call: bool) {
        let policy = context.policy;
        let Some(step) = session.history.get(sequence) else { return };
        if step.is_transparent() {
            self.evaluate_failures(session, sequence, tool);
            self.evaluate_outages(session, sequence, tool);
            // An outage shows only now; the runs took the call when it was requested.
            if !with_call && step.flags.has(Flags::RETRYABLE) {
                rebuild_runs(session, policy);
            }
            return;
        }
        exact_repeat::answered(&mut session.head.streaks.exact, &session.history, step);
        let result_aware = policy.detectors.near_repeat.result_aware;
        if near_repeat::answered(&mut session.head.streaks.near, &session.history, step, result_aware) {
            session.head.streaks.near_tier = 0;
        }
        if with_call && session.head.pending_turn == 0 {
            self.evaluate_repeats(policy, session);
        }
        self.evaluate_failures(session, sequence, tool);
        let Some(step) = session.history.get(sequence) else { return };
        let detectors = &policy.detectors;
        let history = &session.history;
        let under_block = matrix_block(&session.head, history, step, context.time);
        let streaks = &mut session.head.streaks;
        let found = &mut self.findings;
        if detectors.outcome_repeat.mode.is_on() {
            found.extend(outcome_repeat::observe(&detectors.outcome_repeat, tool, &mut streaks.outcome, step));
        }
        if detectors.stagnation.mode.is_on() || detectors.stuck.mode.is_on() {
            match under_block {
                // Steps under its block are not analysed; that one ran publishes the block again.
                Some(again) => found.push(again),
                None => found.extend(progress_matrix::observe(
                    &detectors.stagnation,
                    &detectors.stuck,
                    tool,
                    &mut streaks.matrix,
                    step,
                )),
            }
        }
        if detectors.state_repeat.mode.is_on() {
            found.extend(state_repeat::observe(&detectors.state_repeat, tool, history, step));
        }
        if detectors.semantic_repeat.mode.is_on() {
            found.extend(semantic_repeat::observe(&detectors.semantic_repeat, tool, history, step));
        }
        if detectors.oscillation.mode.is_on() {
            found.extend(oscillation::observe(&detectors.oscillation, history, step));
        }
        if detectors.dead_end.mode.is_on() {
            found.extend(dead_end::observe(&detectors.dead_end, tool, history, step));
        }
        if detectors.test_fix.mode.is_on() {
            found.extend(test_fix::observe(&detectors.test_fix, &mut streaks.tests, history, step));
        }
        if detectors.shell_failures.mode.is_on() {
            found.extend(shell_failures::observe(
                &detectors.shell_failures,
                policy.outcomes.spare_moving,
                &mut streaks.shell,
                history,
                step,
            ));
        }
        if detectors.exploration.mode.is_on() {
            found.extend(exploration::observe(&detectors.exploration, &mut streaks.exploration, history, step));
        }
    }

    fn count_fleet(
        &self,
        context: &Context<'_>,
        tool: &ToolPolicy,
        (call, args): (&Call<'_>, &Arguments<'_>),
        sequence: u64,
        session: &Session,
        out: &mut Effects,
    ) {
        let settings = &self.policy.detectors.fleet_rate;
        let is_off = !settings.mode.is_on() || settings.limit == 0 || settings.window_ms == 0 || !tool.in_fleet_rate;
        let Some(step) = session.history.get(sequence) else { return };
        if is_off || step.flags.has(Flags::EXEMPT) {
            return;
        }
        let (fingerprint, form) = match settings.key {
            FleetKey::Call => (step.call, RecipeForm::Call),
            FleetKey::Args => (args_identity(args, &tool.call).hash128(), RecipeForm::Args),
        };
        let key = SwarmCallKey::Fleet { tenant: context.tenant().to_owned(), fingerprint };
        out.counts.push(context.swarm_call(key, &call.tool, form));
    }

    /// A call of a swarm that got it nowhere.
    fn count_unproductive(&self, context: &Context<'_>, session: &Session, sequence: u64, out: &mut Effects) {
        if self.policy.detectors.swarm_repeat.count != Counted::Unproductive {
            return;
        }
        let Some(step) = session.history.get(sequence) else { return };
        if got_nowhere(&session.history, step) {
            self.count_swarm(context, session, sequence, out);
        }
    }

    fn count_swarm(&self, context: &Context<'_>, session: &Session, sequence: u64, out: &mut Effects) {
        let Some(step) = session.history.get(sequence) else { return };
        if !self.policy.detectors.swarm_repeat.mode.is_on()
            || session.head.swarm_id.is_empty()
            || step.flags.any(Flags(Flags::EXEMPT.0 | Flags::REFUSED.0))
        {
            return;
        }
        let key = SwarmCallKey::Swarm {
            tenant: context.tenant().to_owned(),
            swarm_id: session.head.swarm_id.to_string(),
            fingerprint: step.fingerprint,
        };
        out.counts.push(context.swarm_call(key, session.history.tool(step), RecipeForm::of_fingerprint(step)));
    }
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
    let mut looks = before.take_while(|before| before.flags.has(Flags::POLL) && before.call != step.call);
    looks.any(|before| before.flags.has(Flags::WAITS))
}

fn is_in_turn(session: &Session, step: &Step) -> bool {
    session
        .history
        .ring_back()
        .take_while(|earlier| earlier.turn == step.turn && earlier.sequence >= session.history.floor())
        .any(|earlier| earlier.call == step.call)
}

/// The active block that covers a call.
pub(super) fn active_block<'a>(session: &'a Session, step: &Step, tool: &str, time: EventTime) -> Option<&'a Verdict> {
    session.head.verdicts.iter().find(|verdict| verdict.refuses(step, tool, time))
}

/// The finding that renews a block of the progress matrix: the step ran under it.
fn matrix_block(
    head: &crate::engine::session::Head,
    history: &crate::detect::History,
    step: &Step,
    time: EventTime,
) -> Option<crate::detect::Finding> {
    let tool = history.tool(step);
    let is_of_matrix = |verdict: &&Verdict| matches!(verdict.detector, Detector::Stagnation | Detector::Stuck);
    let verdict = head.verdicts.iter().filter(is_of_matrix).find(|verdict| verdict.refuses(step, tool, time))?;
    let episode = head.episodes.iter().find(|episode| episode.id == verdict.episode)?;
    let mut finding =
        crate::detect::Finding::new(verdict.detector, crate::policy::Mode::Block, episode.identity, episode.count, episode.count)
            .blocking_at(episode.count.max(1))
            .spanning(step.sequence, step.sequence);
    finding.category = head.streaks.matrix.category;
    Some(finding)
}

/// A refusal of ours: transparent; it neither freezes nor feeds a streak.
fn refuse(session: &mut Session, sequence: u64, event: Hash64, policy: &Policy) {
    let was_counted = session.history.get(sequence).is_some_and(|step| !step.is_transparent());
    session.history.update(sequence, |step| {
        step.flags.set(Flags::OPEN, false);
        step.flags.set(Flags::REFUSED, true);
        step.result_event = event;
    });
    // A `tool` event that came refused has not entered the runs yet.
    if was_counted && event.is_some() {
        rebuild_runs(session, policy);
    }
}

/// The runs as the ring has them, after a step of theirs turned out not to count.
fn rebuild_runs(session: &mut Session, policy: &Policy) {
    let streaks = &mut session.head.streaks;
    exact_repeat::rebuild(&mut streaks.exact, &session.history);
    if policy.needs.fingerprint {
        near_repeat::rebuild(&mut streaks.near, &session.history, policy.detectors.near_repeat.result_aware);
    }
}

/// The first step after a nudge: did it help?
fn note_obedience(session: &mut Session, step: &Step, out: &mut Effects) {
    if let Some(awaited) = session.head.awaiting.take() {
        let answer = if awaited.call == step.call { Answer::Repeated } else { Answer::Changed };
        out.tally.obeyed = Some((awaited.detector, answer));
    }
}
