//! What holds after every input of a session, by name. Property tests assert all of it after every event of every stream they make.
//! Here each invariant is broken on purpose: a check that cannot fail is none.

use std::sync::Arc;

use loopwarden::detect::{Finding, Flags, Step};
use loopwarden::engine::{Action, Effects, Input, ReasonCode, Session, SessionEngine, SourcePosition, SubjectKey, TimerKind};
use loopwarden::event::{EventTime, decode};
use loopwarden::identity::Hash64;
use loopwarden::limits::{ACTIVE_VERDICTS_MAX, RECENT_IDS_MAX, SENT_TEXTS_MAX};
use loopwarden::policy::{Detector, Mode, Policy};

use crate::{decode::record, golden::RULES};

/// What holds after every input of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Invariant {
    /// An event gives at most one command beside those that lift blocks.
    /// Broken by `two_commands_for_one_event_are_told`.
    OneCommand,
    /// Commands of a session are numbered 1, 2, 3 …, live and shadow apart.
    /// Broken by `a_gap_in_the_numbers_is_told`.
    NumbersWithoutGap,
    /// A command expires after the event that caused it.
    /// Broken by `a_command_that_has_expired_at_birth_is_told`.
    CommandsExpire,
    /// A block comes from a detector in mode `block`, or from fusion where it decides.
    /// Broken by `a_block_of_a_detector_that_may_not_block_is_told`.
    OnlyBlockersBlock,
    /// Where the policy says so, an episode with a block had a nudge, but for the rates.
    /// Broken by `a_block_without_a_nudge_is_told`.
    NudgeBeforeBlock,
    /// A fresh finding is about a counted step, or of evidence about an outage; `call_rate` counts all steps, and texts are none.
    /// Broken by `a_finding_about_a_transparent_step_is_told`.
    FindingsCount,
    /// The ring holds at most `history_steps` steps, and its floor lies within what was counted.
    /// Broken by `a_ring_of_another_size_is_told`.
    RingBounded,
    /// Each ladder holds at most `episodes.kept` episodes, one of an identity.
    /// Broken by `an_episode_too_many_is_told`.
    EpisodesBounded,
    /// At most sixteen verdicts stand, none of them past its time.
    /// Broken by `a_verdict_past_its_time_is_told`.
    VerdictsStand,
    /// At most 64 event ids and 8 texts are remembered.
    /// Broken by `an_id_too_many_is_told`.
    MemoryBounded,
    /// A timer stands where one is needed: idleness always, the earliest end of a verdict, open calls.
    /// Broken by `a_verdict_without_a_timer_is_told`.
    TimersStand,
}

impl Invariant {
    /// Every one.
    pub(crate) const ALL: [Self; 11] = [
        Self::OneCommand,
        Self::NumbersWithoutGap,
        Self::CommandsExpire,
        Self::OnlyBlockersBlock,
        Self::NudgeBeforeBlock,
        Self::FindingsCount,
        Self::RingBounded,
        Self::EpisodesBounded,
        Self::VerdictsStand,
        Self::MemoryBounded,
        Self::TimersStand,
    ];

    /// Those that do not hold after an event. `before` is the live and the shadow number the session had before it.
    pub(crate) fn broken(policy: &Policy, session: &Session, effects: &Effects, before: (u64, u64)) -> Vec<Self> {
        Self::ALL.into_iter().filter(|invariant| !invariant.holds(policy, session, effects, before)).collect()
    }

    fn holds(self, policy: &Policy, session: &Session, effects: &Effects, before: (u64, u64)) -> bool {
        let head = &session.head;
        let history = &session.history;
        let ladders = [&head.episodes, &head.shadow_episodes];
        match self {
            Self::OneCommand => effects.commands.iter().filter(|command| command.action != Action::Unblock).count() <= 1,
            Self::NumbersWithoutGap => {
                let numbers = |shadow| {
                    effects.commands.iter().filter(move |command| command.is_shadow == shadow).map(|command| command.seq)
                };
                numbers(false).eq(before.0 + 1..=head.board.seq) && numbers(true).eq(before.1 + 1..=head.shadow_seq)
            }
            Self::CommandsExpire => effects.commands.iter().all(|command| command.expires_at > head.time),
            Self::OnlyBlockersBlock => effects.commands.iter().filter(|command| command.action == Action::Block).all(|command| {
                matches!(command.reason, ReasonCode::Detector(detector) if policy.detectors.mode(detector) == Mode::Block)
            }),
            Self::NudgeBeforeBlock => {
                !policy.episodes.nudge_before_block
                    || ladders.into_iter().flatten().all(|episode| {
                        episode.block_until.is_none() || episode.nudges > 0 || episode.detector == Detector::CallRate
                    })
            }
            Self::FindingsCount => effects
                .findings
                .iter()
                .filter(|finding| finding.is_current && !matches!(finding.detector, Detector::CallRate | Detector::Budget) && !finding.detector.is_of_texts())
                .all(|finding| {
                    let counts = |step: &Step| !step.is_transparent() || (finding.detector.is_of_evidence() && step.is_evidence());
                    history.get(finding.last).is_some_and(counts)
                }),
            Self::RingBounded => {
                history.len() <= policy.history_steps
                    && history.capacity() == policy.history_steps
                    && history.floor() <= history.next_sequence()
            }
            Self::EpisodesBounded => ladders.into_iter().all(|episodes| {
                let mut identities: Vec<u64> = episodes.iter().map(|episode| episode.identity.0).collect();
                identities.sort_unstable();
                identities.dedup();
                episodes.len() <= policy.episodes.kept && identities.len() == episodes.len()
            }),
            Self::VerdictsStand => {
                head.board.verdicts.len() <= ACTIVE_VERDICTS_MAX
                    && head.board.verdicts.iter().all(|verdict| verdict.expires_at > head.time)
            }
            Self::MemoryBounded => head.board.seen.len() <= RECENT_IDS_MAX && head.sent_texts.len() <= SENT_TEXTS_MAX,
            Self::TimersStand => {
                let has_open = history.ring().any(|step| step.flags.contains(Flags::OPEN));
                head.timers.due(TimerKind::Idle).is_some()
                    && head.timers.due(TimerKind::Verdicts) == head.board.verdicts.next_expiry()
                    && (!has_open || head.timers.due(TimerKind::OpenCalls).is_some())
            }
        }
    }
}

/// The default policy, a session that was just blocked, and the effects of that event.
struct World {
    policy: Arc<Policy>,
    session: Session,
    effects: Effects,
    before: (u64, u64),
}

fn blocked() -> World {
    let overrides = serde_json::json!({"only": ["exact_repeat"], "detectors": {"exact_repeat": {"block_at": 4}}});
    let policy = Arc::new(loopwarden::config::policy::load_with_overrides(RULES, &overrides).unwrap());
    let engine = SessionEngine::new("loopwarden", Arc::clone(&policy));
    let mut session = Session::new(policy.history_steps);
    let mut effects = Effects::default();
    let mut before = (0, 0);
    for at in 0..4 {
        let payload = format!(
            r#"{{"id":"e{at}","kind":"tool","session_id":"s","tool":"t","args":{{"q":1}},"result":"nothing was found here"}}"#
        );
        let mut meta = record(&[]);
        meta.timestamp = EventTime(1_767_225_600_000 + at);
        let event = decode(Some(payload.as_bytes()), &meta).unwrap();
        effects.clear();
        before = (session.head.board.seq, session.head.shadow_seq);
        let place = SourcePosition { topic: "t", partition: 0, offset: 0, watermark: event.time };
        engine.apply(&SubjectKey::of_event(&event), &mut session, Input::Event(&event, place), &mut effects);
    }
    let world = World { policy, session, effects, before };
    assert_eq!(world.effects.commands[0].action, Action::Block);
    assert_eq!(world.broken(), []);
    world
}

impl World {
    fn broken(&self) -> Vec<Invariant> {
        Invariant::broken(&self.policy, &self.session, &self.effects, self.before)
    }
}

#[test]
fn two_commands_for_one_event_are_told() {
    let mut world = blocked();
    let mut second = world.effects.commands[0].clone();
    second.seq += 1;
    world.session.head.board.seq += 1;
    world.effects.commands.push(second);
    assert_eq!(world.broken(), [Invariant::OneCommand]);
}

#[test]
fn a_gap_in_the_numbers_is_told() {
    let mut world = blocked();
    world.effects.commands[0].seq += 1;
    assert_eq!(world.broken(), [Invariant::NumbersWithoutGap]);
}

#[test]
fn a_command_that_has_expired_at_birth_is_told() {
    let mut world = blocked();
    world.effects.commands[0].expires_at = world.session.head.time;
    assert_eq!(world.broken(), [Invariant::CommandsExpire]);
}

#[test]
fn a_block_of_a_detector_that_may_not_block_is_told() {
    let mut world = blocked();
    let mut policy = (*world.policy).clone();
    policy.detectors.exact_repeat.mode = Mode::Nudge;
    world.policy = Arc::new(policy);
    assert_eq!(world.broken(), [Invariant::OnlyBlockersBlock]);
}

#[test]
fn a_block_without_a_nudge_is_told() {
    let mut world = blocked();
    world.session.head.episodes[0].nudges = 0;
    assert_eq!(world.broken(), [Invariant::NudgeBeforeBlock]);
}

#[test]
fn a_finding_about_a_transparent_step_is_told() {
    let mut world = blocked();
    world.session.history.update(3, |step| step.flags.set(Flags::SAME_TURN, true));
    assert_eq!(world.broken(), [Invariant::FindingsCount]);
    world.effects.findings = vec![Finding::new(Detector::CallRate, Mode::Block, Hash64(1), 1, 1).spanning(3, 3)];
    assert_eq!(world.broken(), []);
}

#[test]
fn a_ring_of_another_size_is_told() {
    let mut world = blocked();
    let mut policy = (*world.policy).clone();
    policy.history_steps = 3;
    world.policy = Arc::new(policy);
    assert_eq!(world.broken(), [Invariant::RingBounded]);
}

#[test]
fn an_episode_too_many_is_told() {
    let mut world = blocked();
    let twin = world.session.head.episodes[0];
    world.session.head.episodes.push(twin);
    assert_eq!(world.broken(), [Invariant::EpisodesBounded]);
}

#[test]
fn a_verdict_past_its_time_is_told() {
    let mut world = blocked();
    let now = world.session.head.time;
    world.session.head.board.verdicts[0].expires_at = now;
    world.session.head.timers.set(TimerKind::Verdicts, Some(now));
    assert_eq!(world.broken(), [Invariant::VerdictsStand]);
}

#[test]
fn an_id_too_many_is_told() {
    let mut world = blocked();
    world.session.head.board.seen.extend((0..65).map(Hash64));
    assert_eq!(world.broken(), [Invariant::MemoryBounded]);
}

#[test]
fn a_verdict_without_a_timer_is_told() {
    let mut world = blocked();
    world.session.head.timers.set(TimerKind::Verdicts, None);
    assert_eq!(world.broken(), [Invariant::TimersStand]);
}

#[test]
fn each_invariant_names_a_test_of_this_file() {
    let root = env!("CARGO_MANIFEST_DIR");
    let tests = std::fs::read_to_string(format!("{root}/tests/it/invariants.rs")).unwrap();
    let named: Vec<&str> =
        tests.split(concat!("/// Broken", " by `")).skip(1).map(|rest| rest.split('`').next().unwrap()).collect();
    assert_eq!(named.len(), Invariant::ALL.len());
    for name in named {
        assert!(tests.contains(&format!("fn {name}()")), "no test {name}");
    }
}
