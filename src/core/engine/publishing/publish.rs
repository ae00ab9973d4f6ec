//! `publish`: a decision becomes a command, with scope, expiry, text and evidence, and a verdict in force.

use crate::detect::{Category, CommandText, Finding, History, Step, TextContext, safe};
use crate::engine::command::{Action, Command, Fact, IdentityRecipe, Placement, ReasonCode, Scope};
use crate::engine::deciding::episode::{Episode, Track};
use crate::engine::effects::{Effects, RecipeForm};
use crate::engine::session::{Head, PendingNudge, Session};
use crate::engine::{context::Context, deciding::decide::Decision, marks::Mark, publishing::message};
use crate::event::{EventKind, EventTime};
use crate::identity::{argument_names, hash_text};
use crate::limits::{SENT_TEXTS_MAX, TOOL_NAME_CHARS_SHOWN};
use crate::policy::{Arm, BlockScope, Detector, Policy};

/// Publishes a decision: as a command, in the episode of its loop, and where it is live on the board of verdicts.
pub(crate) fn publish(
    context: &Context<'_>,
    session: &mut Session,
    decision: &Decision,
    findings: &[Finding],
    out: &mut Effects,
) {
    let Session { head, history, .. } = session;
    let (finding, action, track) = (&decision.finding, decision.action, decision.track);
    let step = history.get(finding.last).or_else(|| history.newest()).cloned().unwrap_or_default();
    let tool = history.tool(&step);
    let episode = head.episode(track, finding.identity).copied();
    let scope = scope(context.policy, finding, action, &step, tool);
    let blocks_all = action == Action::Block && scope.tool.is_none();
    let expires_at = expiry(context, decision);
    // Whoever is refused may read it long after.
    let bound = if action == Action::Block { format!(" Until {expires_at}, {}.", scope.words()) } else { String::new() };
    let about = TextContext {
        bound: &bound,
        blocks_all,
        nudges: episode.map_or(0, |episode| episode.nudges),
        ..TextContext::of(finding)
    };
    let text = words(context, history, decision, &step, about);
    // What is shadow in both arms compares nothing.
    let trial = Some(&context.policy.trial).filter(|_| track == Track::Live);
    let arm = trial.and_then(|trial| trial.arm(context.tenant(), &context.event.session_id));
    // Episodes are the same in both arms: only what is sent differs.
    let sent_as = if arm == Some(Arm::Control) { Track::Shadow } else { track };
    let origin = context.origin(head.board.epoch, head.next_seq(sent_as));
    let reason = ReasonCode::Detector(finding.detector);
    let begun = Command::new(origin, action, reason, scope, level(decision, blocks_all), expires_at);
    let command = Command {
        episode: episode.map_or(begun.id, |episode| episode.id),
        is_shadow: sent_as == Track::Shadow,
        arm,
        also: also(findings, finding),
        confidence: Some(decision.fused.map_or(finding.confidence, |fused| fused.combined)),
        summary: text.summary,
        evidence: evidence(context, history, decision),
        message: Some(text.text),
        placement: placement(context, finding, action),
        advice: Some(text.advice),
        labels: context.event.owned_labels(),
        ..begun
    };
    note_published(context.policy, history, head, decision, &command, out);
    if sent_as == Track::Live {
        head.loops_total += u64::from(episode.is_none());
        remember_text(head, command.message.as_deref().unwrap_or_default());
        if action == Action::Nudge {
            head.pending_nudge = Some(PendingNudge { detector: finding.detector, call: step.call });
        }
        out.verdicts_changed |= head.board.verdicts.activate(&command, finding.detector, context.time);
    }
    out.commands.push(command);
}

/// The text of a command about a loop, of which is known how many nudges it had, and what is bound.
fn words(context: &Context<'_>, history: &History, decision: &Decision, step: &Step, known: TextContext<'_>) -> CommandText {
    let finding = &decision.finding;
    let about = TextContext {
        is_block: decision.action == Action::Block,
        tier: decision.tier,
        tool: &safe(history.tool(step), TOOL_NAME_CHARS_SHOWN),
        cycle: &cycle_tools(history, finding),
        flags: step.flags,
        changed: &changed_arguments(context, finding),
        // A text never announces a block that the mode cannot deliver; attocode threatens in any mode, and its profile allows that.
        rejects: context.policy.detectors.exact_repeat.reject_notice_always || finding.can_block(),
        seconds: history.get(finding.first).map(|first| (context.time.0 - first.time.0) / 1000),
        ..known
    };
    message::text(context.policy, &about, decision.recommended)
}

/// Notes a command in the episode of its loop, which it may begin.
fn note_published(
    policy: &Policy,
    history: &History,
    head: &mut Head,
    decision: &Decision,
    command: &Command,
    out: &mut Effects,
) {
    let kept = policy.episodes.kept;
    let episodes = head.episodes_mut(decision.track);
    let finding = &decision.finding;
    let block_until = (decision.action == Action::Block).then_some(command.expires_at);
    let nudged = u32::from(decision.action == Action::Nudge);
    // Calls that began before the agent could read this go on without having heeded it.
    let newest = history.next_sequence().saturating_sub(1);
    let seen = if finding.detector.is_of_evidence() { newest.max(finding.last) } else { finding.last };
    if let Some(episode) = episodes.iter_mut().find(|episode| episode.identity == finding.identity) {
        episode.detector = finding.detector;
        episode.count = finding.count;
        episode.tier = decision.tier;
        episode.nudges = episode.nudges.saturating_add(nudged);
        episode.hits_since_nudge = 0;
        episode.last_seen = episode.last_seen.max(seen);
        episode.block_until = block_until.or(episode.block_until);
        episode.level = command.level;
        episode.until = command.expires_at;
    } else {
        if episodes.len() >= kept.max(1) {
            episodes.remove(0);
            out.marks.push(Mark::EpisodeDropped);
        }
        episodes.push(Episode {
            identity: finding.identity,
            detector: finding.detector,
            count: finding.count,
            tier: decision.tier,
            nudges: nudged,
            hits_since_nudge: 0,
            last_seen: seen,
            block_until,
            level: command.level,
            id: command.episode,
            is_control: command.arm == Some(Arm::Control),
            begun: command.issued_at,
            until: command.expires_at,
        });
    }
}

fn expiry(context: &Context<'_>, decision: &Decision) -> EventTime {
    let rules = &context.policy.episodes;
    let lifetime_ms = match decision.action {
        // Counted from when it is issued: for a session whose clock lags it would else be past.
        Action::Block => decision.finding.free_at.map_or(rules.block_ms, |free_at| free_at.0 - context.time.0),
        Action::Nudge | Action::Unblock => rules.nudge_ms,
    };
    context.issued_at().plus_ms(lifetime_ms)
}

/// The narrowest scope that breaks the loop, by the policy.
fn scope(policy: &Policy, finding: &Finding, action: Action, step: &Step, tool: &str) -> Scope {
    let asked = finding.scope.unwrap_or_else(|| policy.detectors.counts(finding.detector).block_scope);
    let asked = if policy.fusion.decides { BlockScope::Session } else { asked };
    let narrow = match action {
        Action::Nudge if finding.detector.about().repeats_call => BlockScope::Fingerprint,
        Action::Nudge => BlockScope::Session,
        Action::Block | Action::Unblock => asked,
    };
    match narrow {
        BlockScope::Session => Scope::default(),
        BlockScope::Tool => Scope { tool: Some(tool.to_owned()), ..Scope::default() },
        BlockScope::Fingerprint => {
            let (hash, form) =
                if finding.varies { (step.fingerprint, RecipeForm::of_fingerprint(step)) } else { (step.call, RecipeForm::Call) };
            let recipe = form.recipe(policy, tool);
            // What a worker cannot recompute must not be refused by it: the block then names the tool.
            let bound = (action == Action::Nudge || recipe != IdentityRecipe::Opaque).then_some((hash, recipe));
            Scope { tool: Some(tool.to_owned()), fingerprint: bound, ..Scope::default() }
        }
    }
}

/// Names of the arguments that a near repeat varies: those that its fingerprint leaves out.
fn changed_arguments(context: &Context<'_>, finding: &Finding) -> Vec<String> {
    let (EventKind::ToolCall(call) | EventKind::Tool(call, _)) = &context.event.kind else { return Vec::new() };
    if finding.detector != Detector::NearRepeat {
        return Vec::new();
    }
    let kept = &context.policy.identity.fingerprint.args;
    argument_names(&call.args, 32).into_iter().filter(|name| !kept.contains(name)).collect()
}

/// What was measured: numbers, ids, hashes; content only where the policy allows it.
fn evidence(context: &Context<'_>, history: &History, decision: &Decision) -> Vec<(&'static str, Fact)> {
    let finding = &decision.finding;
    let mut facts =
        vec![("count", Fact::Count(u64::from(finding.count))), ("threshold", Fact::Count(u64::from(finding.threshold)))];
    match finding.detector {
        Detector::CallRate => facts.push(("window_ms", Fact::Count(finding.window))),
        _ if finding.window > 0 => facts.push(("window_steps", Fact::Count(finding.window))),
        _ => {}
    }
    if !finding.detector.is_of_texts()
        && let Some(first) = history.get(finding.first)
    {
        facts.push(("first_event_id", Fact::Text(first.event_id.to_string())));
    }
    facts.push(("last_event_id", Fact::Text(context.event.id.clone().into_owned())));
    facts.push(("step", Fact::Count(history.next_sequence())));
    if finding.category != Category::None {
        facts.push(("category", Fact::Text(finding.category.as_str().to_owned())));
    }
    if finding.tier > 0 {
        facts.push(("tier", Fact::Count(u64::from(finding.tier))));
    }
    if let Some(fused) = decision.fused.filter(|_| context.policy.fusion.decides) {
        facts.push(("combined_confidence", Fact::Ratio(fused.combined)));
        facts.push(("primary", Fact::Text(fused.primary.as_str().to_owned())));
        facts.push(("recommended", Fact::Text(fused.recommended.as_str().to_owned())));
    }
    if finding.detector == Detector::SemanticRepeat {
        facts.push(("tried", Fact::Texts(tried(history, finding))));
    }
    if context.policy.evidence.excerpts {
        let texts = history.ring().filter(|step| step.sequence >= finding.first && !step.excerpt.is_empty());
        facts.push(("excerpts", Fact::Texts(texts.map(|step| step.excerpt.to_string()).take(30).collect())));
    }
    facts
}

const fn level(decision: &Decision, blocks_all: bool) -> u8 {
    match decision.action {
        Action::Block if blocks_all => 4,
        Action::Block => 3,
        _ if decision.tier <= 1 => 1,
        _ => 2,
    }
}

fn also(findings: &[Finding], speaking: &Finding) -> Vec<Detector> {
    let mut others: Vec<Detector> = findings
        .iter()
        .filter(|finding| finding.is_current && finding.detector != speaking.detector)
        .map(|finding| finding.detector)
        .collect();
    others.sort_unstable();
    others.dedup();
    others
}

/// A nudge may ride on the result; all else waits for the agent's next turn.
fn placement(context: &Context<'_>, finding: &Finding, action: Action) -> Placement {
    if finding.detector.about().on_result && action == Action::Nudge {
        Placement::AppendToResult { call_id: context.event.call_id().map(str::to_owned) }
    } else {
        Placement::NextTurn
    }
}

/// Tools of the last round, in order; one may occur twice.
fn cycle_tools(history: &History, finding: &Finding) -> Vec<String> {
    if finding.detector != Detector::Oscillation {
        return Vec::new();
    }
    let round = history.complete_back().take(finding.period as usize);
    let mut tools: Vec<String> = round.map(|step| safe(history.tool(step), TOOL_NAME_CHARS_SHOWN)).collect();
    tools.reverse();
    tools
}

/// What was tried, oldest first, at most 30: tool and the head of its fingerprint.
fn tried(history: &History, finding: &Finding) -> Vec<String> {
    let mut tried: Vec<String> = Vec::new();
    let mut calls: Vec<(&str, u32)> = Vec::new();
    for step in history.ring().filter(|step| step.sequence >= finding.first && step.is_complete()) {
        let call = (history.tool(step), (step.call.0 >> 96) as u32);
        if tried.len() >= 30 || (step.excerpt.is_empty() && calls.contains(&call)) {
            continue;
        }
        let entry = if step.excerpt.is_empty() {
            calls.push(call);
            format!("{} #{:08x}", safe(call.0, 64), call.1)
        } else {
            step.excerpt.to_string()
        };
        if !tried.contains(&entry) {
            tried.push(entry);
        }
    }
    tried
}

fn remember_text(head: &mut Head, text: &str) {
    let sent = &mut head.sent_texts;
    if sent.len() >= SENT_TEXTS_MAX {
        sent.pop_front();
    }
    sent.push_back(hash_text(text).hash64());
}
