//! `decide`: from the findings of one moment to at most one command, by fusion and episodes. Page `detection`.

use crate::detect::{Finding, History, Step};
use crate::engine::deciding::episode::{Episode, Track};
use crate::engine::deciding::fusion::{Fused, Recommended, fuse, rank};
use crate::engine::{command::Action, context::Context, effects::Effects, marks::Mark, session::Head};
use crate::limits::ACTIVE_VERDICTS_MAX;
use crate::policy::{Detector, Mode, Policy};

/// Distances between two commands about a loop double at most so often.
const DOUBLINGS_MAX: u32 = 16;

/// A finding that is to be published, and how.
pub(crate) struct Decision {
    pub finding: Finding,
    pub action: Action,
    pub tier: u8,
    pub fused: Option<Fused>,
    pub recommended: Option<Recommended>,
    pub track: Track,
}

/// Decides about the findings of one moment: nothing, or one command. Both tracks count their hits; a live decision goes before one
/// of a shadow detector. Of `head` only the episodes change.
pub(crate) fn decide(
    context: &Context<'_>,
    history: &History,
    head: &mut Head,
    findings: &[Finding],
    out: &mut Effects,
) -> Option<Decision> {
    let has_room = head.board.verdicts.blocks().count() < ACTIVE_VERDICTS_MAX;
    let live = choose(context, history, Track::Live, head.episodes_mut(Track::Live), has_room, findings, out);
    let shadow = choose(context, history, Track::Shadow, head.episodes_mut(Track::Shadow), true, findings, out);
    live.or(shadow)
}

/// What is known of a finding's loop when its next command is decided.
struct LoopState<'a> {
    /// Its episode; none of a new loop.
    episode: Option<&'a Episode>,
    /// A block of the episode is in force.
    has_block: bool,
    /// The episode had a nudge.
    was_nudged: bool,
    /// One more block finds room among the verdicts.
    has_room: bool,
    /// No finding of evidence shares a step with what its episode has seen.
    is_another: bool,
}

impl<'a> LoopState<'a> {
    fn of(finding: &Finding, episodes: &'a [Episode], has_room: bool, is_another: bool, context: &Context<'_>) -> Self {
        let episode = episodes.iter().find(|episode| episode.identity == finding.identity);
        let has_block = episode.and_then(|episode| episode.block_until).is_some_and(|until| until > context.time);
        Self { episode, has_block, was_nudged: episode.is_some_and(|episode| episode.nudges > 0), has_room, is_another }
    }

    /// Whether a block may be given, or given again: it must be there to be lifted as long as it stands.
    const fn takes_block(&self) -> bool {
        self.has_block || self.has_room
    }
}

fn choose(
    context: &Context<'_>,
    history: &History,
    track: Track,
    episodes: &mut Vec<Episode>,
    has_room: bool,
    findings: &[Finding],
    out: &mut Effects,
) -> Option<Decision> {
    let policy = context.policy;
    let takes_part = |finding: &&Finding| finding.is_current && Track::of(finding) == track;
    let mine: Vec<Finding> = findings.iter().filter(takes_part).cloned().collect();
    if mine.is_empty() {
        return None;
    }
    let fused = fuse(policy, &mine);
    forget_unseen(policy, history, episodes);
    let is_another = is_another(&mine, episodes);
    note_hits(&mine, episodes);
    if policy.fusion.decides {
        let fused = fused?;
        let primary = mine.iter().find(|finding| finding.detector == fused.primary)?;
        let known = LoopState::of(primary, episodes, has_room, is_another, context);
        let (action, tier) = fused_action(policy, primary, fused, &known, out)?;
        let (finding, recommended) = (primary.clone(), Some(fused.recommended));
        return Some(Decision { finding, action, tier, fused: Some(fused), recommended, track });
    }
    let mut best: Option<(bool, u8, Decision)> = None;
    for finding in &mine {
        let known = LoopState::of(finding, episodes, has_room, is_another, context);
        let Some((action, tier)) = action_of(policy, finding, &known, out) else { continue };
        let key = (action != Action::Block, rank(policy, finding.detector));
        if best.as_ref().is_none_or(|(later, other, _)| key < (*later, *other)) {
            let decision = Decision { finding: finding.clone(), action, tier, fused, recommended: None, track };
            best = Some((key.0, key.1, decision));
        }
    }
    best.map(|(.., decision)| decision)
}

/// A loop unseen for `relapse_steps` steps is forgotten. Only counted steps are steps here: an agent that hammers a refused call
/// has not left its loop.
fn forget_unseen(policy: &Policy, history: &History, episodes: &mut Vec<Episode>) {
    let relapse_steps = u64::from(policy.episodes.relapse_steps.max(1));
    let now = history.next_sequence().saturating_sub(1);
    episodes.retain(|episode| {
        let since = |step: &&Step| step.sequence > episode.last_seen;
        now.saturating_sub(episode.last_seen) <= relapse_steps
            || history.ring_back().take_while(since).filter(|step| !step.is_transparent()).count() as u64 <= relapse_steps
    });
}

/// What a finding leads to now (page `detection`): nothing, or an action at a tier. Without room for a block it is a nudge.
fn action_of(policy: &Policy, finding: &Finding, known: &LoopState<'_>, out: &mut Effects) -> Option<(Action, u8)> {
    let rules = &policy.episodes;
    let wants_block = finding.wants_block();
    let is_rate = finding.detector == Detector::CallRate;
    let is_ripe = known.was_nudged || !rules.nudge_before_block || is_rate;
    let may_block = wants_block && is_ripe && known.takes_block();
    out.counters.block_left_out |= wants_block && is_ripe && !may_block;
    let action = if may_block { Action::Block } else { Action::Nudge };
    let mut mark = |mark, is_so| {
        if is_so {
            out.marks.push(mark);
        }
    };
    let Some(episode) = known.episode else {
        mark(Mark::NudgedBeforeBlock, wants_block && !is_ripe);
        return Some((action, finding.tier.max(1)));
    };
    let has_tiers =
        matches!(finding.detector, Detector::ExactRepeat | Detector::NearRepeat | Detector::OutcomeRepeat) && finding.tier > 0;
    if finding.detector.is_of_evidence() {
        return escalated(policy, finding, episode, known, may_block);
    }
    let own_tier = if has_tiers { finding.tier } else { (1 + episode.nudges).min(3) as u8 };
    let is_relapse = episode.detector == finding.detector && finding.count < episode.count;
    let is_due = if known.has_block {
        // It ran under a block: the block is published again now and then. A nudge would be less than the block.
        may_block && episode.hits_since_nudge >= rules.renudge_hits
    } else {
        (has_tiers && finding.tier > episode.tier)
            || episode.hits_since_nudge >= rules.hits_until_nudge(episode.nudges)
            || is_relapse
            || may_block
    };
    mark(Mark::NudgedBeforeBlock, is_due && wants_block && !is_ripe);
    mark(Mark::Relapsed, is_due && is_relapse);
    mark(Mark::BlockRenewed, is_due && may_block && episode.block_until.is_some());
    is_due.then_some((action, own_tier.max(episode.tier).max(1)))
}

/// The escalation of evidence: a nudge, then a block when it goes on unheeded and the evidence is conclusive, else nudges at doubled distances.
fn escalated(
    policy: &Policy,
    finding: &Finding,
    episode: &Episode,
    known: &LoopState<'_>,
    may_block: bool,
) -> Option<(Action, u8)> {
    let rules = &policy.episodes;
    let published = (episode.nudges + u32::from(episode.block_until.is_some())).saturating_sub(1).min(DOUBLINGS_MAX);
    let waited = |hits: u32| episode.hits_since_nudge >= hits.saturating_mul(finding.poll_factor);
    // What shares no step with what was seen before is published like a new loop; of the same detector, it is the old one taken up again.
    let is_relapse = known.is_another && episode.detector == finding.detector;
    let blocks = may_block && (is_relapse || waited(rules.block_hits));
    let is_due = blocks || known.is_another || waited(rules.renudge_hits.saturating_mul(1 << published));
    let action = if blocks { Action::Block } else { Action::Nudge };
    // Under a block a nudge would be less than the block.
    (is_due && (blocks || !known.has_block)).then_some((action, (1 + episode.nudges).min(3) as u8))
}

/// corteX: the recommended action is the action.
fn fused_action(
    policy: &Policy,
    primary: &Finding,
    fused: Fused,
    known: &LoopState<'_>,
    out: &mut Effects,
) -> Option<(Action, u8)> {
    let rules = &policy.episodes;
    let wants_block = fused.recommended == Recommended::Escalate
        && primary.mode == Mode::Block
        && (known.was_nudged || !rules.nudge_before_block);
    let blocks = wants_block && known.takes_block();
    out.counters.block_left_out |= wants_block && !blocks;
    let action = if blocks { Action::Block } else { Action::Nudge };
    // Under a block only the block is published again: a nudge would take its place in what a worker knows, and nothing would lift it.
    let has_waited = known.episode.is_none_or(|episode| episode.hits_since_nudge >= rules.hits_until_nudge(episode.nudges));
    let is_due = if known.has_block { blocks && has_waited } else { blocks || has_waited };
    let tier = known.episode.map_or(1, |episode| (1 + episode.nudges).min(3) as u8);
    is_due.then_some((action, tier))
}

/// Whether no finding of evidence shares a step with what its episode has seen.
fn is_another(findings: &[Finding], episodes: &[Episode]) -> bool {
    // Who waits is nudged once, however long he waits.
    let mut of_evidence = findings.iter().filter(|finding| finding.detector.is_of_evidence());
    if of_evidence.clone().any(|finding| finding.poll_factor > 1) {
        return false;
    }
    of_evidence
        .all(|finding| episodes.iter().all(|episode| episode.identity != finding.identity || finding.first > episode.last_seen))
}

/// One step with a current finding is one hit of its loop, however many detectors saw it, and in however many events it came.
fn note_hits(findings: &[Finding], episodes: &mut [Episode]) {
    for (at, finding) in findings.iter().enumerate() {
        let is_first = findings.iter().take(at).all(|earlier| earlier.identity != finding.identity);
        if !is_first {
            continue;
        }
        if let Some(episode) = episodes.iter_mut().find(|episode| episode.identity == finding.identity) {
            let is_of_evidence = finding.detector.is_of_evidence();
            let is_new = if is_of_evidence { finding.last > episode.last_seen } else { finding.last != episode.last_seen };
            // Texts are no steps.
            if is_new || finding.detector.is_of_texts() {
                episode.hits_since_nudge = episode.hits_since_nudge.saturating_add(1);
            }
            episode.last_seen = episode.last_seen.max(finding.last);
        }
    }
}
