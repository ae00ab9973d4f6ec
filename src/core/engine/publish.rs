//! A chosen finding becomes a command: id, scope, expiry, text, evidence; and a verdict that holds.

use crate::detect::{Category, Finding, Step, Words, safe};
use crate::engine::apply::{SessionEngine, arm_verdicts};
use crate::engine::command::{
    Action, Command, CommandId, Fact, IdentityRecipe, Placement, ReasonCode, Scope, ScopeKind, Verdict,
};
use crate::engine::context::Context;
use crate::engine::decide::{Choice, Ladder, step_of_finding};
use crate::engine::effects::{Effects, RecipeForm};
use crate::engine::message;
use crate::engine::session::{Awaited, Session};
use crate::engine::subject::{SEPARATOR, SubjectKey};
use crate::event::{EventKind, EventTime};
use crate::identity::{argument_names, hash_parts, hash_text};
use crate::limits::{ACTIVE_VERDICTS_MAX, SENT_TEXTS_MAX, TOOL_NAME_CHARS_SHOWN};
use crate::policy::{BlockScope, Detector};

/// What makes a command's id (rule K1): no wall clock, no offset, no policy.
pub(super) fn command_id(
    app: &str,
    subject: &SubjectKey,
    epoch: i64,
    seq: u64,
    action: Action,
    code: ReasonCode,
    cause: &str,
) -> CommandId {
    // Its parts are hashed one after the other: no text of them all is made.
    let mut separator = [0; 4];
    let separator = &*SEPARATOR.encode_utf8(&mut separator);
    let numbers = format!("{separator}{epoch}{separator}{seq}{separator}");
    let (action, code) = (action.as_str(), code.as_str());
    let digest = hash_parts(&[app, separator, &subject.row_key(), &numbers, action, separator, code, separator, cause]);
    CommandId(digest.hash128().0.to_be_bytes())
}

impl SessionEngine {
    /// Publishes a chosen finding.
    pub(super) fn publish(
        &self,
        context: &Context<'_>,
        session: &mut Session,
        choice: &Choice,
        findings: &[Finding],
        out: &mut Effects,
    ) {
        let finding = &choice.finding;
        let step = step_of_finding(session, finding).cloned().unwrap_or_default();
        let tool = session.history.tool(&step).to_owned();
        let nudges = choice
            .ladder
            .episodes(session)
            .iter()
            .find(|episode| episode.identity == finding.identity)
            .map_or(0, |episode| episode.nudges);
        let cycle = cycle_tools(session, finding);
        let changed = self.changed_arguments(context, finding);
        let scope = self.scope(finding, choice.action, &step, &tool);
        let blocks_all = choice.action == Action::Block && scope.tool.is_none();
        let is_shadow = choice.ladder == Ladder::Shadow;
        let seq = if is_shadow { &mut session.head.shadow_seq } else { &mut session.head.live_seq };
        *seq += 1;
        let seq = *seq;
        let code = ReasonCode::Detector(finding.detector);
        let issued_at = context.issued_at();
        let expires_at = self.expiry(choice, context);
        let id = command_id(&self.app, context.subject, session.head.epoch, seq, choice.action, code, &context.event.id);
        let known =
            choice.ladder.episodes(session).iter().find(|episode| episode.identity == finding.identity).map(|episode| episode.id);
        let episode = known.unwrap_or(id);
        let span = session.history.get(finding.first).map(|first| (context.time.0 - first.time.0) / 1000);
        let words = Words {
            finding,
            is_block: choice.action == Action::Block,
            blocks_all,
            tier: choice.tier,
            nudges,
            tool: &safe(&tool, TOOL_NAME_CHARS_SHOWN),
            cycle: &cycle,
            flags: step.flags,
            changed: &changed,
            workers: 0,
            // A text never announces a block that the mode cannot deliver; attocode threatens in any mode, and its profile says so.
            rejects: self.policy.detectors.exact_repeat.reject_notice_always || finding.can_block(),
            seconds: span,
        };
        let said = message::say(&self.policy, &words, choice.recommended);
        let command = Command {
            id,
            action: choice.action,
            subject: context.subject.clone(),
            level: level(choice, blocks_all),
            scope,
            epoch: session.head.epoch,
            seq,
            episode,
            issued_at,
            expires_at,
            is_shadow,
            reason: code,
            also: also(findings, finding),
            confidence: Some(choice.fused.map_or(finding.confidence, |fused| fused.combined)),
            summary: said.summary,
            evidence: self.evidence(context, session, choice),
            message: Some(said.text),
            placement: placement(context, finding, choice.action),
            advice: Some(said.advice),
            trigger: context.trigger(),
            contributors: Vec::new(),
            labels: context.event.labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
        };
        if known.is_none() && !is_shadow {
            session.head.loops_total += 1;
        }
        self.tell(session, choice, &command, out);
        if !is_shadow {
            remember_text(session, command.message.as_deref().unwrap_or_default());
            if choice.action == Action::Nudge {
                session.head.awaiting = Some(Awaited { detector: finding.detector, call: step.call });
            }
            hold(session, &command, finding.detector, context.time, out);
        }
        out.commands.push(command);
    }

    /// `unblock`: lifts what an episode placed.
    pub(super) fn unblock(
        &self,
        context: &Context<'_>,
        session: &mut Session,
        verdict: &Verdict,
        expires_at: EventTime,
        reason: ReasonCode,
    ) -> Command {
        session.head.live_seq += 1;
        let seq = session.head.live_seq;
        Command {
            id: command_id(&self.app, context.subject, session.head.epoch, seq, Action::Unblock, reason, &context.event.id),
            action: Action::Unblock,
            subject: context.subject.clone(),
            scope: verdict.scope.clone(),
            level: verdict.level,
            epoch: session.head.epoch,
            seq,
            episode: verdict.episode,
            issued_at: context.issued_at(),
            expires_at,
            is_shadow: false,
            reason,
            also: Vec::new(),
            confidence: None,
            summary: format!("block by {} lifted: {}", verdict.detector.as_str(), reason.as_str()),
            evidence: Vec::new(),
            message: None,
            placement: Placement::NextTurn,
            advice: None,
            trigger: context.trigger(),
            contributors: Vec::new(),
            labels: Vec::new(),
        }
    }

    fn expiry(&self, choice: &Choice, context: &Context<'_>) -> EventTime {
        let rules = &self.policy.episodes;
        let lifetime_ms = match choice.action {
            // Counted from when it is issued: a session whose clock lags would else be told a time that is past.
            Action::Block => choice.finding.free_at.map_or(rules.block_ms, |free_at| free_at.0 - context.time.0),
            Action::Nudge | Action::Unblock => rules.nudge_ms,
        };
        context.issued_at().plus_ms(lifetime_ms)
    }

    /// The narrowest scope that breaks the loop, as the policy says.
    fn scope(&self, finding: &Finding, action: Action, step: &Step, tool: &str) -> Scope {
        let asked = self.policy.detectors.block_scope(finding.detector);
        let asked = if self.policy.fusion.decides { BlockScope::Session } else { asked };
        let all = Scope { kind: ScopeKind::Agent, tool: None, fingerprint: None, only: Vec::new() };
        let narrow = match action {
            Action::Nudge if finding.detector.about().repeats_call => BlockScope::Fingerprint,
            Action::Nudge => BlockScope::Session,
            Action::Block | Action::Unblock => asked,
        };
        match narrow {
            BlockScope::Session => all,
            BlockScope::Tool => Scope { tool: Some(tool.to_owned()), ..all },
            BlockScope::Fingerprint => {
                let (hash, recipe) = if finding.detector == Detector::NearRepeat {
                    (step.fingerprint, RecipeForm::of_fingerprint(step).recipe(&self.policy, tool))
                } else {
                    (step.call, RecipeForm::Call.recipe(&self.policy, tool))
                };
                // What a worker cannot recompute must not be refused by it: the block then names the tool.
                let bound = (action == Action::Nudge || recipe != IdentityRecipe::Opaque).then_some((hash, recipe));
                Scope { tool: Some(tool.to_owned()), fingerprint: bound, ..all }
            }
        }
    }

    /// Names of the arguments that a near repeat varies: those that its fingerprint leaves out.
    fn changed_arguments(&self, context: &Context<'_>, finding: &Finding) -> Vec<String> {
        let (EventKind::ToolCall(call) | EventKind::Tool(call, _)) = &context.event.kind else { return Vec::new() };
        if finding.detector != Detector::NearRepeat {
            return Vec::new();
        }
        let kept = &self.policy.identity.fingerprint.args;
        argument_names(&call.args, 32).into_iter().filter(|name| !kept.contains(name)).collect()
    }

    /// What was measured: numbers, ids, hashes; content only where the policy allows it.
    fn evidence(&self, context: &Context<'_>, session: &Session, choice: &Choice) -> Vec<(&'static str, Fact)> {
        let finding = &choice.finding;
        let mut facts =
            vec![("count", Fact::Count(u64::from(finding.count))), ("threshold", Fact::Count(u64::from(finding.threshold)))];
        match finding.detector {
            Detector::CallRate => facts.push(("window_ms", Fact::Count(finding.window))),
            _ if finding.window > 0 => facts.push(("window_steps", Fact::Count(finding.window))),
            _ => {}
        }
        if finding.detector != Detector::TextOnly
            && let Some(first) = session.history.get(finding.first)
        {
            facts.push(("first_event_id", Fact::Text(first.event_id.to_string())));
        }
        facts.push(("last_event_id", Fact::Text(context.event.id.clone().into_owned())));
        facts.push(("step", Fact::Count(session.history.next_sequence())));
        if finding.category != Category::None {
            facts.push(("category", Fact::Text(finding.category.as_str().to_owned())));
        }
        if finding.tier > 0 {
            facts.push(("tier", Fact::Count(u64::from(finding.tier))));
        }
        if let Some(fused) = choice.fused.filter(|_| self.policy.fusion.decides) {
            facts.push(("combined_confidence", Fact::Ratio(fused.combined)));
            facts.push(("primary", Fact::Text(fused.primary.as_str().to_owned())));
            facts.push(("recommended", Fact::Text(fused.recommended.as_str().to_owned())));
        }
        if finding.detector == Detector::SemanticRepeat {
            facts.push(("tried", Fact::Texts(tried(session, finding))));
        }
        if self.policy.evidence.excerpts {
            let texts = session.history.ring().filter(|step| step.sequence >= finding.first && !step.excerpt.is_empty());
            facts.push(("excerpts", Fact::Texts(texts.map(|step| step.excerpt.to_string()).take(30).collect())));
        }
        facts
    }
}

const fn level(choice: &Choice, blocks_all: bool) -> u8 {
    match choice.action {
        Action::Block if blocks_all => 4,
        Action::Block => 3,
        _ if choice.tier <= 1 => 1,
        _ => 2,
    }
}

fn also(findings: &[Finding], speaking: &Finding) -> Vec<Detector> {
    let mut others: Vec<Detector> = findings
        .iter()
        .filter(|finding| finding.is_fresh && finding.detector != speaking.detector)
        .map(|finding| finding.detector)
        .collect();
    others.sort_unstable();
    others.dedup();
    others
}

/// A nudge may ride on the result; all else waits for the agent's next turn.
fn placement(context: &Context<'_>, finding: &Finding, action: Action) -> Placement {
    if finding.detector.about().on_result && action == Action::Nudge {
        Placement::AppendToResult { call_id: context.call_id().map(str::to_owned) }
    } else {
        Placement::NextTurn
    }
}

/// Tools of the last round, in order; one may occur twice.
fn cycle_tools(session: &Session, finding: &Finding) -> Vec<String> {
    if finding.detector != Detector::Oscillation {
        return Vec::new();
    }
    let round = session.history.complete_back().take(finding.period as usize);
    let mut tools: Vec<String> = round.map(|step| safe(session.history.tool(step), TOOL_NAME_CHARS_SHOWN)).collect();
    tools.reverse();
    tools
}

/// What was tried, oldest first, at most 30: tool and the head of its fingerprint.
fn tried(session: &Session, finding: &Finding) -> Vec<String> {
    let mut tried: Vec<String> = Vec::new();
    let mut calls: Vec<(&str, u32)> = Vec::new();
    for step in session.history.ring().filter(|step| step.sequence >= finding.first && step.is_complete()) {
        let call = (session.history.tool(step), (step.call.0 >> 96) as u32);
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

fn remember_text(session: &mut Session, text: &str) {
    let sent = &mut session.head.sent_texts;
    if sent.len() >= SENT_TEXTS_MAX {
        sent.pop_front();
    }
    sent.push_back(hash_text(text).hash64());
}

/// The verdict joins those in force; expired ones leave, and of its episode the earlier nudges and the block it renews. A block of other
/// calls stands until it expires or is lifted.
fn hold(session: &mut Session, command: &Command, detector: Detector, now: EventTime, out: &mut Effects) {
    out.verdicts_changed = true;
    let verdicts = &mut session.head.verdicts;
    verdicts.retain(|verdict| {
        let is_followed = verdict.action != Action::Block || (command.action == Action::Block && verdict.scope == command.scope);
        verdict.expires_at > now && (verdict.episode != command.episode || !is_followed)
    });
    if verdicts.len() >= ACTIVE_VERDICTS_MAX {
        // The oldest nudge goes. A block stands until it is lifted or expires: where there are only blocks a nudge is said and not kept, and
        // the one block that may join them renews another of its episode, and is lifted with it.
        let nudge = verdicts.iter().position(|verdict| verdict.action == Action::Nudge);
        let renewed = || verdicts.iter().position(|verdict| verdict.episode == command.episode);
        let Some(at) = nudge.or_else(|| renewed().filter(|_| command.action == Action::Block)) else {
            arm_verdicts(session, out);
            return;
        };
        verdicts.remove(at);
    }
    verdicts.push(Verdict::of(command, detector));
    arm_verdicts(session, out);
}
