//! Each invariant of the engine, broken on purpose: a check that cannot fail is none.

use std::sync::Arc;

use loopwarden::detect::{Finding, Flags};
use loopwarden::engine::{Action, Effects, Input, Invariant, Place, Session, SessionEngine, SubjectKey};
use loopwarden::event::{EventTime, decode};
use loopwarden::identity::Hash64;
use loopwarden::policy::{Detector, Mode, Policy};

use crate::decode::record;

/// The default policy, a session that was just blocked, and the effects of that event.
struct World {
    policy: Arc<Policy>,
    session: Session,
    effects: Effects,
    before: (u64, u64),
}

fn blocked() -> World {
    let overrides = serde_json::json!({"only": ["exact_repeat"], "detectors": {"exact_repeat": {"block_at": 4}}});
    let policy = Arc::new(loopwarden::config::policy::load_with_overrides("default", &overrides).unwrap());
    let mut engine = SessionEngine::new("loopwarden", Arc::clone(&policy));
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
        before = (session.head.live_seq, session.head.shadow_seq);
        let place = Place { topic: "t", partition: 0, offset: 0, watermark: event.time };
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
    world.session.head.live_seq += 1;
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
    world.session.head.verdicts[0].expires_at = now;
    world.session.head.verdict_due = Some(now);
    assert_eq!(world.broken(), [Invariant::VerdictsStand]);
}

#[test]
fn an_id_too_many_is_told() {
    let mut world = blocked();
    world.session.head.recent_events.extend((0..65).map(Hash64));
    assert_eq!(world.broken(), [Invariant::MemoryBounded]);
}

#[test]
fn a_verdict_without_a_timer_is_told() {
    let mut world = blocked();
    world.session.head.verdict_due = None;
    assert_eq!(world.broken(), [Invariant::TimersStand]);
}

#[test]
fn each_invariant_names_a_test_of_this_file() {
    let root = env!("CARGO_MANIFEST_DIR");
    let page = std::fs::read_to_string(format!("{root}/src/core/engine/invariants.rs")).unwrap();
    let tests = std::fs::read_to_string(format!("{root}/tests/it/invariants.rs")).unwrap();
    let named: Vec<&str> = page.split("Broken by `").skip(1).map(|rest| rest.split('`').next().unwrap()).collect();
    assert_eq!(named.len(), Invariant::ALL.len());
    for name in named {
        assert!(tests.contains(&format!("fn {name}()")), "no test {name}");
    }
}
