//! Counters, panes and floors as bytes.

use loopwarden_core::engine::{Action, Advice, IdentityRecipe, PlacedBy, Placement, Scope, Spawned, Verdict};
use loopwarden_core::identity::{Hash64, Hash128};
use loopwarden_core::policy::{Detector, Used};
use loopwarden_core::{detect::Brief, event::Stage};
use proptest::prelude::*;

use super::*;
use crate::{Change, MemoryStore};

const TASK: TaskId = TaskId { stage: Stage::Swarm, partition: 3 };

prop_compose! {
    fn panes()(
        agents in proptest::collection::btree_map(any::<(String, String)>(), any::<(u32, i64)>(), 0..5),
        further in any::<Option<(u32, i64)>>(),
        used in any::<Option<(u64, u64, u64, i64, i64)>>(),
        (agents_started, depth) in (0_u64..2, 0_u32..2),
        briefs in any::<Option<(u32, Vec<u64>)>>(),
    ) -> Pane {
        let further = further.filter(|(calls, _)| *calls > 0);
        Pane {
            agents: agents.into_iter().map(|(who, (calls, last))| (who, Contribution { calls, last: EventTime(last) })).collect(),
            further_calls: further.map_or(0, |(calls, _)| calls),
            further_last: EventTime(further.map_or(0, |(_, last)| last)),
            used: used.map(|(calls, tokens, cost_micro_usd, first, last)| {
                let (first, last) = (EventTime(first), EventTime(last));
                Used { calls, tokens, cost_micro_usd, agents: agents_started, ended: 0, depth, first, last }
            }),
            spawned: briefs.map(|(vain, briefs)| {
                let mut spawned = Spawned { vain, depth, ..Spawned::default() };
                for words in briefs {
                    spawned.note(&Brief { words: Hash64(words), ..Brief::default() });
                }
                spawned
            }),
        }
    }
}

prop_compose! {
    fn verdicts()(id in any::<[u8; 16]>(), message in any::<String>(), only in any::<Vec<(String, String)>>(), at in any::<i64>())
        -> Verdict {
        Verdict {
            command_id: CommandId(id),
            action: Action::Nudge,
            scope: Scope {
                tool: Some(message.clone()),
                tools: Vec::new(),
                fingerprint: Some((Hash128(u128::from_be_bytes(id)), IdentityRecipe::Opaque)),
                only,
            },
            level: 1,
            episode: CommandId(id),
            by: PlacedBy::Detector(Detector::SwarmRepeat),
            message,
            placement: Placement::NextTurn,
            advice: Some(Advice::ChangeApproach),
            issued_at: EventTime(at),
            expires_at: EventTime(at),
        }
    }
}

prop_compose! {
    fn counters()(
        tool in any::<String>(),
        args in any::<Option<Vec<String>>>(),
        panes in proptest::collection::btree_map(any::<i64>().prop_map(EventTime), panes(), 0..4),
        (floor, time, dues) in any::<(Option<i64>, i64, [Option<i64>; 2])>(),
        life in any::<Option<(u64, u64, u32)>>(),
        periods in proptest::collection::btree_map(any::<i64>(), any::<(i64, u64, u32, [u8; 16])>(), 0..3),
        verdicts in proptest::collection::vec(verdicts(), 0..3),
    ) -> SwarmCounter {
        let period = |(epoch, seq, step, episode)| Period { epoch, seq, step, episode: CommandId(episode) };
        SwarmCounter {
            tool,
            recipe: args.map(|args| IdentityRecipe::Coarse(args.into())),
            panes,
            life: life.map(|(calls, ended, depth)| Used { calls, ended, depth, ..Used::default() }),
            floor: floor.map(EventTime),
            periods: periods.into_iter().map(|(start, of)| (start, period(of))).collect(),
            board: Board { epoch: time, verdicts: verdicts.into(), ..Board::default() },
            time: EventTime(time),
            timers: TimerTable::restored(TimerKind::OF_COUNTER.into_iter().zip(dues.map(|due| due.map(EventTime)))),
        }
    }
}

proptest! {
    #[test]
    fn a_counter_reads_back_from_the_store(counter in counters(), seen in any::<i64>()) {
        let key = b"t\x1fw\x1f00000000000000000000000000000007";
        let mut changes = vec![Change { task: TASK, key: head_key(key), value: Some(encode_head(&counter, EventTime(seen)).unwrap()) }];
        for (start, pane) in &counter.panes {
            changes.push(Change { task: TASK, key: pane_key(key, *start), value: Some(encode_pane(*start, pane).unwrap()) });
        }
        let mut store = MemoryStore::new();
        store.commit(changes).unwrap();
        let loaded = load(&store, TASK, key).unwrap().unwrap();
        prop_assert_eq!(loaded.counter, counter);
        prop_assert_eq!(loaded.seen, EventTime(seen));
    }

    #[test]
    fn floors_and_counts_read_back(time in any::<i64>(), due in any::<Option<i64>>(), counts in any::<[u64; 3]>()) {
        let floor = Floor { time: EventTime(time), due: due.map(EventTime), seen: EventTime(time / 2) };
        prop_assert_eq!(Floor::decode(&floor.encode().unwrap()).unwrap(), floor);
        let bytes = counts.encode().unwrap();
        prop_assert_eq!(<[u64; 3]>::decode(&bytes).unwrap(), counts);
        prop_assert!(matches!(<[u64; 2]>::decode(&bytes), Err(StoreError::Corrupt(_))));
    }

    #[test]
    fn hostile_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        if let Some(version) = bytes.first_mut() {
            *version = codec::FORMAT;
        }
        let _ = (decode_head(&bytes), decode_pane(EventTime(0), &bytes), Floor::decode(&bytes), <[u64; 3]>::decode(&bytes));
    }

    #[test]
    fn the_longest_unseen_sorts_first(a in any::<i64>(), b in any::<i64>(), subject in proptest::collection::vec(any::<u8>(), 0..5)) {
        let [first, second] = [a, b].map(|seen| seen_key(CounterKind::Swarm, EventTime(seen), &subject));
        prop_assert_eq!(first.cmp(&second), a.cmp(&b));
        prop_assert!(first < seen_key(CounterKind::Fleet, EventTime(i64::MIN), &[]));
        prop_assert_eq!(seen_subject(&first), &subject[..]);
    }
}

#[test]
fn a_counter_whose_name_begins_like_another_has_panes_of_its_own() {
    let mut store = MemoryStore::new();
    let pane = Pane { further_calls: 1, ..Pane::default() };
    let (short, long) = (b"\x1fw\x1f07", b"\x1fw\x1f079");
    let mut changes = Vec::new();
    for (key, panes) in [(&short[..], 0), (&long[..], 1)] {
        let panes = (0..panes).map(|_| (EventTime(5), pane.clone())).collect();
        let counter = SwarmCounter { panes, ..SwarmCounter::default() };
        changes.push(Change { task: TASK, key: head_key(key), value: Some(encode_head(&counter, EventTime(0)).unwrap()) });
    }
    changes.push(Change {
        task: TASK,
        key: pane_key(long, EventTime(5)),
        value: Some(encode_pane(EventTime(5), &pane).unwrap()),
    });
    store.commit(changes).unwrap();
    assert!(load(&store, TASK, short).unwrap().unwrap().counter.panes.is_empty());
    assert_eq!(load(&store, TASK, long).unwrap().unwrap().counter.panes.len(), 1);
}

#[test]
fn a_head_that_lists_no_panes_has_those_that_lie_behind_it() {
    let pane = Pane { further_calls: 1, ..Pane::default() };
    for panes in [PANES_LISTED_MAX as i64, PANES_LISTED_MAX as i64 + 1] {
        let mut store = MemoryStore::new();
        let key = b"\x1fw\x1f07";
        let all = (0..panes).map(|start| (EventTime(start), pane.clone())).collect();
        let counter = SwarmCounter { panes: all, ..SwarmCounter::default() };
        let head = encode_head(&counter, EventTime(0)).unwrap();
        assert_eq!(take_head(&head).unwrap().1.is_some(), panes == PANES_LISTED_MAX as i64);
        let mut changes = vec![Change { task: TASK, key: head_key(key), value: Some(head) }];
        changes.extend(counter.panes.iter().map(|(start, pane)| Change {
            task: TASK,
            key: pane_key(key, *start),
            value: Some(encode_pane(*start, pane).unwrap()),
        }));
        store.commit(changes).unwrap();
        assert_eq!(load(&store, TASK, key).unwrap().unwrap().counter, counter);
        let (_, starts) = load_head(&store, TASK, key).unwrap().unwrap();
        assert_eq!(starts.len() as i64, panes);
    }
}

#[test]
fn a_small_report_writes_few_bytes() {
    // One agent's call in a pane of a counter that has published nothing: what most commits write.
    let who = ("sess-0123456789abcdef".to_owned(), "main".to_owned());
    let start = EventTime(1_795_291_200_000);
    let made = Contribution { calls: 3, last: start.plus_ms(1_000) };
    let pane = Pane { agents: [(who, made)].into(), ..Pane::default() };
    let counter = SwarmCounter {
        tool: "read_file".to_owned(),
        recipe: Some(IdentityRecipe::Opaque),
        timers: TimerTable::restored([(TimerKind::Panes, Some(start))]),
        time: start,
        ..SwarmCounter::default()
    };
    let (head, pane) = (encode_head(&counter, start).unwrap().len(), encode_pane(start, &pane).unwrap().len());
    assert!(head <= 40 && pane <= 34, "{head} {pane}");
}
