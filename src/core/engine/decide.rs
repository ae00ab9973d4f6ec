//! From findings to at most one command per event: fusion, episodes, the ladder, block and unblock. Page `detection`.

use crate::detect::{Finding, History, Step};
use crate::engine::apply::{SessionEngine, active_blocks, arm_verdicts};
use crate::engine::command::{Action, ReasonCode};
use crate::engine::context::Context;
use crate::engine::effects::Effects;
use crate::engine::episode::Episode;
use crate::engine::fusion::{Fused, Recommended, fuse, rank};
use crate::engine::marks::Mark;
use crate::engine::moving::{
    answers_move, brings_receipts, comes_again, is_mostly_waiting, is_patient, is_unproven, was_changed_since,
};
use crate::engine::session::Session;
use crate::limits::ACTIVE_VERDICTS_MAX;
use crate::policy::{Detector, Mode, Policy};

/// Which ladder a finding climbs: shadow findings have episodes of their own and never displace a live one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ladder {
    Live,
    Shadow,
}

impl Ladder {
    const fn of(finding: &Finding) -> Self {
        match finding.mode {
            Mode::Shadow => Self::Shadow,
            _ => Self::Live,
        }
    }

    pub(super) fn episodes(self, session: &mut Session) -> &mut Vec<Episode> {
        match self {
            Self::Live => &mut session.head.episodes,
            Self::Shadow => &mut session.head.shadow_episodes,
        }
    }
}

/// A finding that is to be published, and how.
pub(super) struct Choice {
    pub finding: Finding,
    pub action: Action,
    pub tier: u8,
    pub fused: Option<Fused>,
    pub recommended: Option<Recommended>,
    pub ladder: Ladder,
}

impl SessionEngine {
    /// Turns the findings collected for this event into at most one command, and records them all.
    pub(super) fn decide(&mut self, context: &Context<'_>, session: &mut Session, out: &mut Effects) {
        if self.findings.is_empty() {
            return;
        }
        let mut findings = std::mem::take(&mut self.findings);
        let now = session.history.next_sequence().saturating_sub(1);
        if self.policy.outcomes.spare_moving {
            spare_moving(&session.history, &self.policy, &mut findings);
        }
        // What only a shadow detector or a signal says is no loop that anybody would be told of.
        if findings.iter().any(|finding| finding.is_fresh && !finding.is_signal && Ladder::of(finding) == Ladder::Live) {
            let usage = context.event.usage;
            out.tally.loop_tokens = usage.input_tokens.saturating_add(usage.output_tokens);
            out.tally.loop_cost_micro_usd = usage.cost_micro_usd;
        }
        for finding in findings.iter().filter(|finding| finding.is_fresh) {
            if finding.detector != Detector::TextOnly {
                session.history.fire(finding.last, finding.detector);
                session.touch(finding.last);
            }
        }
        // Both ladders take note; of what they would say, a live word goes before a shadow's, and an event gets one.
        let live = self.choose(&findings, session, Ladder::Live, context, now, out);
        let shadow = self.choose(&findings, session, Ladder::Shadow, context, now, out);
        if let Some(choice) = live.or(shadow).filter(|_| !self.spoke) {
            self.spoke = true;
            self.publish(context, session, &choice, &findings, out);
        }
        out.findings.append(&mut findings);
        self.findings = findings;
    }

    fn choose(
        &self,
        findings: &[Finding],
        session: &mut Session,
        ladder: Ladder,
        context: &Context<'_>,
        now: u64,
        out: &mut Effects,
    ) -> Option<Choice> {
        let policy = &self.policy;
        // What is only a signal supports a decision of others; where all of them decide together, it must not tip it.
        let takes_part = |finding: &&Finding| {
            finding.is_fresh && Ladder::of(finding) == ladder && !(policy.fusion.decides && finding.is_signal)
        };
        let mine: Vec<Finding> = findings.iter().filter(takes_part).cloned().collect();
        if mine.is_empty() {
            return None;
        }
        let fused = fuse(policy, &mine);
        self.forget_unseen(session, ladder, now);
        note_hits(&mine, ladder.episodes(session));
        let has_room = ladder == Ladder::Shadow || active_blocks(session) < ACTIVE_VERDICTS_MAX;
        if policy.fusion.decides {
            let fused = fused?;
            let primary = mine.iter().find(|finding| finding.detector == fused.primary)?;
            let (action, tier) = self.fused_action((primary, fused), (ladder.episodes(session), has_room), context, out)?;
            return Some(Choice {
                finding: primary.clone(),
                action,
                tier,
                fused: Some(fused),
                recommended: Some(fused.recommended),
                ladder,
            });
        }
        let mut best: Option<(bool, u8, Choice)> = None;
        for finding in mine.iter().filter(|finding| !finding.is_signal) {
            let Some((action, tier)) = self.step_of(finding, (ladder.episodes(session), has_room), context, out) else {
                continue;
            };
            let key = (action != Action::Block, rank(policy, finding.detector));
            if best.as_ref().is_none_or(|(later, other, _)| key < (*later, *other)) {
                let choice = Choice { finding: finding.clone(), action, tier, fused, recommended: None, ladder };
                best = Some((key.0, key.1, choice));
            }
        }
        best.map(|(.., choice)| choice)
    }

    /// A loop unseen for `relapse_steps` steps is forgotten. Only counted steps are steps here: an agent that hammers a refused call
    /// has not left its loop.
    fn forget_unseen(&self, session: &mut Session, ladder: Ladder, now: u64) {
        let patience = u64::from(self.policy.episodes.relapse_steps.max(1));
        let mut episodes = std::mem::take(ladder.episodes(session));
        episodes.retain(|episode| {
            let since = |step: &&Step| step.sequence > episode.last_seen;
            now.saturating_sub(episode.last_seen) <= patience
                || session.history.ring_back().take_while(since).filter(|step| !step.is_transparent()).count() as u64 <= patience
        });
        *ladder.episodes(session) = episodes;
    }

    /// What this finding may say now (page `detection`): none, or an action at a tier. Without room for a block it says a nudge: a
    /// block must be there to be lifted as long as it stands.
    fn step_of(
        &self,
        finding: &Finding,
        (episodes, has_room): (&[Episode], bool),
        context: &Context<'_>,
        out: &mut Effects,
    ) -> Option<(Action, u8)> {
        let rules = &self.policy.episodes;
        let episode = episodes.iter().find(|episode| episode.identity == finding.identity);
        let wants_block = finding.wants_block();
        let is_rate = finding.detector == Detector::CallRate;
        let has_block = episode.and_then(|episode| episode.block_until).is_some_and(|until| until > context.time);
        let was_nudged = episode.is_some_and(|episode| episode.nudges > 0);
        let is_ripe = was_nudged || !rules.nudge_before_block || is_rate;
        let may_block = wants_block && is_ripe && (has_block || has_room);
        out.tally.block_left_out |= wants_block && is_ripe && !may_block;
        let action = if may_block { Action::Block } else { Action::Nudge };
        let mut mark = |mark, is_so| {
            if is_so {
                out.marks.push(mark);
            }
        };
        let Some(episode) = episode else {
            mark(Mark::NudgedBeforeBlock, wants_block && !is_ripe);
            return Some((action, finding.tier.max(1)));
        };
        let has_tiers = matches!(finding.detector, Detector::ExactRepeat | Detector::NearRepeat | Detector::OutcomeRepeat)
            && finding.tier > 0;
        let own_tier = if has_tiers { finding.tier } else { (1 + episode.nudges).min(3) as u8 };
        let is_relapse = episode.detector == finding.detector && finding.count < episode.count;
        let speaks = if has_block {
            // It ran under a block: the block is published again now and then. A nudge would say less than the block does.
            may_block && episode.hits >= rules.renudge_hits
        } else {
            (has_tiers && finding.tier > episode.tier)
                || episode.hits >= rules.patience_hits(episode.nudges)
                || is_relapse
                || may_block
        };
        mark(Mark::NudgedBeforeBlock, speaks && wants_block && !is_ripe);
        mark(Mark::Relapsed, speaks && is_relapse);
        mark(Mark::BlockRenewed, speaks && may_block && episode.block_until.is_some());
        speaks.then_some((action, own_tier.max(episode.tier).max(1)))
    }

    /// corteX: the recommended action is the action.
    fn fused_action(
        &self,
        (primary, fused): (&Finding, Fused),
        (episodes, has_room): (&[Episode], bool),
        context: &Context<'_>,
        out: &mut Effects,
    ) -> Option<(Action, u8)> {
        let rules = &self.policy.episodes;
        let episode = episodes.iter().find(|episode| episode.identity == primary.identity);
        let has_block = episode.and_then(|episode| episode.block_until).is_some_and(|until| until > context.time);
        let was_nudged = episode.is_some_and(|episode| episode.nudges > 0);
        let wants_block = fused.recommended == Recommended::Escalate
            && primary.mode == Mode::Block
            && (was_nudged || !rules.nudge_before_block);
        let blocks = wants_block && (has_block || has_room);
        out.tally.block_left_out |= wants_block && !blocks;
        let action = if blocks { Action::Block } else { Action::Nudge };
        // Under a block only the block may speak again: a nudge would take its place in what a worker knows, and nothing would lift it.
        let is_due = episode.is_none_or(|episode| episode.hits >= rules.patience_hits(episode.nudges));
        let speaks = if has_block { blocks && is_due } else { blocks || is_due };
        let tier = episode.map_or(1, |episode| (1 + episode.nudges).min(3) as u8);
        speaks.then_some((action, tier))
    }

    /// Remembers what was told.
    pub(super) fn tell(
        &self,
        session: &mut Session,
        choice: &Choice,
        command: &crate::engine::command::Command,
        out: &mut Effects,
    ) {
        let kept = self.policy.episodes.kept;
        let episodes = choice.ladder.episodes(session);
        let finding = &choice.finding;
        let block_until = (choice.action == Action::Block).then_some(command.expires_at);
        let nudged = u32::from(choice.action == Action::Nudge);
        if let Some(episode) = episodes.iter_mut().find(|episode| episode.identity == finding.identity) {
            episode.detector = finding.detector;
            episode.count = finding.count;
            episode.tier = choice.tier;
            episode.nudges = episode.nudges.saturating_add(nudged);
            episode.hits = 0;
            episode.last_seen = episode.last_seen.max(finding.last);
            episode.block_until = block_until.or(episode.block_until);
            episode.level = command.level;
        } else {
            if episodes.len() >= kept.max(1) {
                episodes.remove(0);
                out.marks.push(Mark::EpisodeDropped);
            }
            episodes.push(Episode {
                identity: finding.identity,
                detector: finding.detector,
                count: finding.count,
                tier: choice.tier,
                nudges: nudged,
                hits: 0,
                last_seen: finding.last,
                block_until,
                level: command.level,
                id: command.episode,
            });
        }
    }

    /// Sends `unblock` for every active block whose detector is meant, one per episode.
    pub(super) fn lift(
        &self,
        context: &Context<'_>,
        session: &mut Session,
        reason: ReasonCode,
        is_meant: impl Fn(Detector) -> bool,
        out: &mut Effects,
    ) {
        let blocks: Vec<_> = session
            .head
            .verdicts
            .iter()
            .filter(|verdict| verdict.action == Action::Block && verdict.expires_at > context.time && is_meant(verdict.detector))
            .cloned()
            .collect();
        let mut lifted = Vec::new();
        for verdict in &blocks {
            if lifted.contains(&verdict.episode) {
                continue;
            }
            lifted.push(verdict.episode);
            let until = blocks.iter().filter(|other| other.episode == verdict.episode).map(|other| other.expires_at).max();
            let command = self.unblock(context, session, verdict, until.unwrap_or(verdict.expires_at), reason);
            out.commands.push(command);
        }
        if !lifted.is_empty() {
            session.head.verdicts.retain(|verdict| verdict.action != Action::Block || !lifted.contains(&verdict.episode));
            for episode in &mut session.head.episodes {
                if lifted.contains(&episode.id) {
                    episode.block_until = None;
                }
            }
            out.verdicts_changed = true;
            arm_verdicts(session, out);
        }
    }
}

/// What may have moved, who may be waiting, what says nothing, and what is only a second round is told, not blocked; a second round after a change
/// is no loop at all.
fn spare_moving(history: &History, policy: &Policy, findings: &mut [Finding]) {
    for finding in findings.iter_mut() {
        // A call under a block of the matrix is no streak: it is told of by itself.
        let is_streak = finding.first < finding.last;
        let is_second_round = finding.detector == Detector::Stagnation && is_streak && !comes_again(history, finding);
        if is_second_round && was_changed_since(history, finding) {
            finding.is_signal = true;
        }
        let counts_answers = finding.mode == Mode::Block && finding.detector != Detector::CallRate && finding.block_at > 0;
        let waits = || is_streak && (is_patient(history, finding, policy) || is_mostly_waiting(history, finding, policy));
        // These are told as ever, until a block would be due.
        let says_nothing = || {
            finding.wants_block()
                && is_streak
                && (brings_receipts(history, finding, policy) || is_unproven(history, finding, policy))
        };
        let is_spared = || is_second_round || answers_move(history, finding) || waits() || says_nothing();
        if counts_answers && is_spared() {
            finding.mode = Mode::Nudge;
        }
    }
}

/// One step with a fresh finding is one hit of its loop, however many detectors saw it, and in however many events it came.
fn note_hits(findings: &[Finding], episodes: &mut [Episode]) {
    for (at, finding) in findings.iter().enumerate() {
        let is_first = findings.iter().take(at).all(|earlier| earlier.identity != finding.identity);
        if !is_first || finding.is_signal {
            continue;
        }
        if let Some(episode) = episodes.iter_mut().find(|episode| episode.identity == finding.identity) {
            // Texts are no steps.
            if episode.last_seen != finding.last || finding.detector == Detector::TextOnly {
                episode.hits = episode.hits.saturating_add(1);
            }
            episode.last_seen = episode.last_seen.max(finding.last);
        }
    }
}

/// The step a finding speaks about.
pub(super) fn step_of_finding<'a>(session: &'a Session, finding: &Finding) -> Option<&'a Step> {
    session.history.get(finding.last).or_else(|| session.history.newest())
}
