//! Heads read back, hostile bytes are refused, and a ring of another size keeps its newest steps.

use std::collections::VecDeque;

use loopwarden_core::detect::{Category, Explored, Matrix, OutcomeRun, OwnTexts, Run, Score, Spent, Streaks, Tally, Texts};
use loopwarden_core::engine::{
    Action, Advice, Board, CommandId, Cost, Episode, Exemption, IdentityRecipe, OpenCost, OpenCosts, PendingNudge, PlacedBy,
    Placement, Scope, TimerKind, TimerTable, Tree, Verdict, Watch, WatchedAgent,
};
use loopwarden_core::event::{EventTime, Stage};
use loopwarden_core::identity::{CallRules, Hash64, Hash128};
use loopwarden_core::policy::{Arm, Detector};
use proptest::prelude::*;

use super::*;
use crate::{MemoryStore, state_hash};
use loopwarden_core::{identity::Sketch, limits::USER_NAMING_TEXTS_MAX};

const TASK: TaskId = TaskId { stage: Stage::Session, partition: 0 };

fn hash() -> impl Strategy<Value = Hash64> {
    prop_oneof![Just(Hash64::NONE), any::<u64>().prop_map(Hash64)]
}

fn wide() -> impl Strategy<Value = Hash128> {
    prop_oneof![Just(Hash128::NONE), any::<u128>().prop_map(Hash128)]
}

fn texts() -> impl Strategy<Value = VecDeque<Sketch>> {
    proptest::collection::vec_deque(proptest::collection::vec(any::<u32>(), 0..40).prop_map(Sketch::of_hashes), 0..8)
}

fn due() -> impl Strategy<Value = Option<EventTime>> {
    proptest::option::of(any::<i64>().prop_map(EventTime))
}

fn detectors() -> impl Strategy<Value = Detector> {
    (0..Detector::COUNT).prop_map(|number| Detector::ALL[number])
}

prop_compose! {
    fn runs()(hash in wide(), steps in tallies()) -> Run {
        Run { hash, steps }
    }
}

fn named() -> impl Strategy<Value = VecDeque<Box<[u16]>>> {
    let words = proptest::collection::vec(any::<u16>(), 0..9).prop_map(Vec::into_boxed_slice);
    proptest::collection::vec_deque(words, 0..=USER_NAMING_TEXTS_MAX)
}

prop_compose! {
    fn tallies()((count, first) in any::<(u32, u64)>()) -> Tally {
        Tally { count, first }
    }
}

prop_compose! {
    fn streaks()(
        (exact, near, near_tier) in (runs(), runs(), any::<u8>()),
        (key, count, triggers, first) in (hash(), any::<u32>(), any::<u32>(), any::<u64>()),
        (stagnation, stuck) in (tallies(), tallies()),
        (stagnation_fingerprint, category) in (wide(), 0u8..5),
        (tests, shell, (turns_of_text, turn)) in (tallies(), tallies(), any::<(u32, u64)>()),
        (has_edited, files, turns, last_turn, slice, read_first, last_time) in any::<(bool, u32, u32, u64, [u8; 8], u64, i64)>(),
        (own_texts, next_step) in (texts(), any::<u64>()),
        (began, calls, replies, tokens, cost_micro_usd) in any::<(i64, u32, u32, u64, u64)>(),
        tools in proptest::collection::vec((hash(), any::<u32>()), 0..9),
        (last_text, next, sum, raised_by) in (hash(), any::<u64>(), any::<i32>(), any::<u64>()),
    ) -> Streaks {
        let category = Category::from_number(category).unwrap();
        Streaks {
            exact, near, near_tier,
            outcome: OutcomeRun { key, count, triggers, first },
            matrix: Matrix { stagnation, stuck, stagnation_fingerprint, category },
            tests, shell,
            texts: Texts { turns: turns_of_text, turn, last: (last_text, next) },
            exploration: Explored { has_edited, files, turns, last_turn, slice, first: read_first, last_time: EventTime(last_time) },
            own_texts: OwnTexts { texts: own_texts, next_step },
            spent: Spent { began: EventTime(began), calls, turns: replies, turn, tokens, cost_micro_usd, tools },
            score: Score { sum, raised_by },
        }
    }
}

prop_compose! {
    fn episodes()(
        (identity, detector, block_until) in (hash(), detectors(), due()),
        (count, tier, nudges, hits_since_nudge, last_seen, level, id) in any::<(u32, u8, u32, u32, u64, u8, [u8; 16])>(),
        (is_control, begun, until) in any::<(bool, i64, i64)>(),
    ) -> Episode {
        let (begun, until) = (EventTime(begun), EventTime(until));
        Episode {
            identity, detector, count, tier, nudges, hits_since_nudge, last_seen, block_until, level, id: CommandId(id), is_control, begun, until,
        }
    }
}

prop_compose! {
    fn watched()(
        (detector, arm, watch) in (detectors(), 0..Arm::ALL.len(), 0_usize..3),
        (was_getting_on, calls, micro_usd, calls_outside) in any::<(bool, u64, u64, u32)>(),
    ) -> WatchedAgent {
        let watch = [Watch::Open, Watch::Over, Watch::LetBe][watch];
        WatchedAgent { detector, arm: Arm::ALL[arm], was_getting_on, calls, micro_usd, calls_outside, watch }
    }
}

fn recipes() -> impl Strategy<Value = IdentityRecipe> {
    prop_oneof![
        any::<(Vec<String>, Vec<String>)>()
            .prop_map(|(args, ignored)| IdentityRecipe::Call(CallRules { args: args.into(), args_ignored: ignored.into() })),
        any::<Vec<String>>().prop_map(|args| IdentityRecipe::Coarse(args.into())),
        Just(IdentityRecipe::Args(CallRules::default())),
        Just(IdentityRecipe::Opaque),
    ]
}

prop_compose! {
    fn verdicts()(
        (command_id, episode, level, message) in any::<([u8; 16], [u8; 16], u8, String)>(),
        (action, detector, advice) in (0usize..3, detectors(), proptest::option::of(0u8..6)),
        (tool, only) in any::<(Option<String>, Vec<(String, String)>)>(),
        fingerprint in proptest::option::of((any::<u128>().prop_map(Hash128), recipes())),
        (appends, call_id) in any::<(bool, Option<String>)>(),
        (issued_at, expires_at) in any::<(i64, i64)>(),
    ) -> Verdict {
        Verdict {
            command_id: CommandId(command_id), episode: CommandId(episode), level, message, by: PlacedBy::Detector(detector),
            action: [Action::Nudge, Action::Block, Action::Unblock][action],
            scope: Scope { tool, tools: Vec::new(), fingerprint, only },
            placement: if appends { Placement::AppendToResult { call_id } } else { Placement::NextTurn },
            advice: advice.and_then(Advice::from_number),
            issued_at: EventTime(issued_at), expires_at: EventTime(expires_at),
        }
    }
}

prop_compose! {
    fn heads()(
        (epoch, seq, shadow_seq, time, lag_ms, swarm_id) in any::<(i64, u64, u64, i64, i64, String)>(),
        (world, policy, producer_seq, pending_turn) in (hash(), hash(), any::<u64>(), any::<u64>()),
        seen in proptest::collection::vec_deque(any::<u64>().prop_map(Hash64), 0..64),
        sent_texts in proptest::collection::vec_deque(any::<u64>().prop_map(Hash64), 0..8),
        (user_texts, user_words) in (texts(), named()),
        streaks in prop_oneof![Just(Streaks::default()), streaks()],
        episodes in proptest::collection::vec(episodes(), 0..4),
        // Those of shadow detectors are in no trial.
        shadow_episodes in proptest::collection::vec(episodes().prop_map(|episode| Episode { is_control: false, ..episode }), 0..4),
        verdicts in proptest::collection::vec(verdicts(), 0..3),
        dues in [due(), due(), due()],
        (has_ended, loops_total) in any::<(bool, u64)>(),
        exempt in proptest::collection::vec(any::<(u64, i64, u64)>(), 0..16),
        tree in any::<Option<(String, String, u32, u32)>>(),
        pending_nudge in proptest::option::of((detectors(), wide()).prop_map(|(detector, call)| PendingNudge { detector, call })),
        (open_costs, watched) in (proptest::collection::vec(any::<(u64, u64, u64, u32)>(), 0..4), proptest::option::of(watched())),
        (tokens, micro_usd) in any::<(u64, u64)>(),
    ) -> Head {
        Head {
            used: Cost { calls: 0, tokens, micro_usd },
            board: Board { epoch, seq, verdicts: verdicts.into(), seen }, shadow_seq, time: EventTime(time), lag_ms, swarm_id: swarm_id.into(), world, producer_seq, pending_turn,
            tree: tree.map(|(name, parent, depth, spawns)| Box::new(Tree { name: name.into(), parent: parent.into(), depth, spawns })),
            sent_texts, user_texts, user_words, streaks, episodes, shadow_episodes,
            timers: TimerTable::restored(TimerKind::OF_SESSION.into_iter().zip(dues)), has_ended, policy, loops_total, pending_nudge,
            open_costs: OpenCosts { forgotten: seq, calls: open_costs.into_iter().map(|(sequence, tokens, micro_usd, counted)| OpenCost { sequence, tokens, micro_usd, counted }).collect() },
            watched,
            exempt: exempt.into_iter().map(|(identity, until, seen)| Exemption { identity: Hash64(identity), until: EventTime(until), seen }).collect(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn a_head_reads_back(head in heads(), len in 0usize..9, more in 0u64..1_000, floor in any::<u64>()) {
        let ring = StoredRing { capacity: 8, next_sequence: len as u64 + more, floor, len: len.min(8) };
        let bytes = encode_head(&head, &ring, std::iter::empty()).unwrap();
        prop_assert_eq!(decode_head(&bytes).unwrap(), (head, ring));
    }

    #[test]
    fn hostile_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Some(version) = bytes.first_mut() {
            *version = codec::FORMAT;
        }
        let _ = decode_whole_head(&bytes);
    }

    #[test]
    fn a_session_reads_back_and_another_ring_keeps_its_newest_steps(steps in 0u64..40, before in 1usize..12, after in 1usize..12) {
        let mut store = MemoryStore::new();
        let mut history = History::new(before);
        for number in 0..steps {
            history.push(Step { time: EventTime(number as i64), ..Step::default() }, ["a", "b", "c"][(number % 3) as usize]);
        }
        let head = Head { lag_ms: 7, ..Head::default() };
        let ring = StoredRing::of(&history);
        let mut written = Vec::new();
        let all: Vec<u64> = history.ring().map(|found| found.sequence).collect();
        changes(TASK, b"t\x1fs\x1fa", &head, &history, None, &all, &mut written).unwrap();
        let pages = written.iter().filter(|change| change.key.family == KeyFamily::Page).count();
        prop_assert_eq!(pages, ring.pages().len());
        // A neighbour whose key has this one's as a prefix.
        written.push(Change { task: TASK, key: step::key(b"t\x1fs\x1fab", 0), value: Some(vec![codec::FORMAT]) });
        store.commit(written).unwrap();
        let loaded = load(&store, TASK, b"t\x1fs\x1fa", after).unwrap().unwrap();
        prop_assert_eq!(&loaded.session.head, &head);
        prop_assert_eq!(loaded.stored, ring);
        let kept = history.len().min(after);
        let found: Vec<(u64, i64, String)> = loaded.session.history.ring()
            .map(|found| (found.sequence, found.time.0, loaded.session.history.tool(found).to_owned())).collect();
        let expected: Vec<(u64, i64, String)> = history.ring().skip(history.len() - kept)
            .map(|found| (found.sequence, found.time.0, history.tool(found).to_owned())).collect();
        prop_assert_eq!(found, expected);
        let changed = if before == after { 0 } else { kept };
        prop_assert_eq!(loaded.session.changed_steps.len(), changed);
        prop_assert_eq!(loaded.session.history.next_sequence(), steps);
    }
}

/// Steps that differ, so that one in another's place shows.
fn push(history: &mut History) {
    let number = history.next_sequence();
    history.push(Step { time: EventTime(number as i64), ..Step::default() }, ["a", "b", "c"][(number % 3) as usize]);
}

fn commit(store: &mut MemoryStore, history: &History, stored: Option<&StoredRing>, changed: &[u64]) {
    let mut written = Vec::new();
    changes(TASK, b"t\x1fs\x1fa", &Head::default(), history, stored, changed, &mut written).unwrap();
    store.commit(written).unwrap();
}

fn records(store: &MemoryStore) -> u64 {
    state_hash(store, TASK, &[KeyFamily::Head, KeyFamily::Page]).unwrap()
}

proptest! {
    /// Whatever commits cut a life into, and whichever steps an answer changes late, the store holds the same of it and nothing else.
    #[test]
    fn commits_anywhere_leave_the_same_records(
        cuts in proptest::collection::vec((0usize..20, proptest::collection::vec(any::<u16>(), 0..4)), 1..12),
        capacity in 1usize..40,
    ) {
        let mut history = History::new(capacity);
        let (mut store, mut stored) = (MemoryStore::new(), None);
        for (pushes, answers) in cuts {
            let first = history.next_sequence();
            (0..pushes).for_each(|_| push(&mut history));
            let mut changed: Vec<u64> = (first..history.next_sequence()).collect();
            for answer in answers {
                let Some(step) = history.ring().nth(usize::from(answer) % capacity) else { continue };
                let sequence = step.sequence;
                history.update(sequence, |step| step.turn += 1 + u64::from(answer));
                changed.push(sequence);
            }
            commit(&mut store, &history, stored.as_ref(), &changed);
            stored = Some(StoredRing::of(&history));
            let all: Vec<u64> = history.ring().map(|found| found.sequence).collect();
            let mut at_once = MemoryStore::new();
            commit(&mut at_once, &history, None, &all);
            prop_assert_eq!(records(&store), records(&at_once));
            let loaded = load(&store, TASK, b"t\x1fs\x1fa", capacity).unwrap().unwrap();
            let found: Vec<_> = loaded.session.history.ring().map(|step| (step.sequence, step.time, step.turn)).collect();
            prop_assert_eq!(found, history.ring().map(|step| (step.sequence, step.time, step.turn)).collect::<Vec<_>>());
        }
    }
}

#[test]
fn the_largest_ring_wraps_without_losing_a_step() {
    let capacity = loopwarden_core::limits::HISTORY_STEPS_MAX;
    let mut history = History::new(capacity);
    (0..capacity - 10).for_each(|_| push(&mut history));
    let all: Vec<u64> = history.ring().map(|found| found.sequence).collect();
    let mut store = MemoryStore::new();
    commit(&mut store, &history, None, &all);
    let mut stored = StoredRing::of(&history);
    for _ in 0..20 {
        push(&mut history);
        commit(&mut store, &history, Some(&stored), &[history.next_sequence() - 1]);
        stored = StoredRing::of(&history);
    }
    let loaded = load(&store, TASK, b"t\x1fs\x1fa", capacity).unwrap().unwrap();
    assert!(loaded.session.history.ring().map(|step| step.time).eq(history.ring().map(|step| step.time)));
}

#[test]
fn a_missing_step_is_corrupt_and_a_missing_head_is_no_session() {
    let mut store = MemoryStore::new();
    assert!(load(&store, TASK, b"t\x1fs\x1fa", 4).unwrap().is_none());
    let ring = StoredRing { capacity: 4, next_sequence: 1, floor: 0, len: 1 };
    let value = Some(encode_head(&Head::default(), &ring, std::iter::empty()).unwrap());
    store.commit(vec![Change { task: TASK, key: head_key(b"t\x1fs\x1fa"), value }]).unwrap();
    assert!(matches!(load(&store, TASK, b"t\x1fs\x1fa", 4), Err(StoreError::Corrupt(_))));
}

#[test]
fn the_subject_of_a_key_reads_back() {
    let key = SubjectKey::session_key(Some("t"), "s", "a");
    let subject = SubjectKey::Agent { tenant: "t".to_owned(), session_id: "s".to_owned(), agent_id: "a".to_owned() };
    assert_eq!(subject_of(key.as_bytes()), Some(subject));
    assert_eq!(subject_of(b"t\x1fs"), None);
    assert_eq!(subject_of(b"t\x1fs\x1fa\x1f\x00\x01"), None);
}
