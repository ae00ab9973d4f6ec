//! The contract of `Log`, clause by clause, for every world. `tests/it` runs it in memory and on the embedded log, `tests/kafka` on
//! a real broker. A world brings [`World`], one with transactions also [`Transactional`]; [`contract!`] and
//! [`transactional_contract!`] make a test of each clause.

use std::{collections::BTreeMap, time::Duration};

use loopwarden::event::{NextOffset, Stage, TaskId};
use loopwarden::log::{CommitOutcome, Destination, Flow, Headers, Log, LogEvent, Output, Partitions};

const WAIT: Duration = Duration::from_millis(100);
/// For a broker's answer to a question; a cold client connects first.
const ANSWER_WAIT: Duration = Duration::from_secs(30);
/// Polls before a clause gives up. A world in memory needs a handful, a broker some seconds' worth.
const POLLS_MAX: usize = 600;

/// What a reader outside sees of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Headers,
    pub(crate) timestamp_ms: i64,
}

/// Outputs a reader outside can follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Feed {
    Commands,
    DeadLetters,
}

/// A log with empty topics, and the outside view of it.
pub(crate) trait World: Sized {
    type Log: Log;

    /// Whether there is such a world here; where not, its clauses pass without deciding anything, and it has said so.
    fn is_available() -> bool {
        true
    }
    /// Empty, with at least two partitions per stage.
    fn new() -> Self;
    fn partitions(&self) -> Partitions;
    /// Opens lane 0 of the only instance. Again is a restart: the former handle was dropped, or is to be fenced.
    fn open(&mut self) -> Self::Log;
    /// Appends an event; returns its offset.
    fn append(&mut self, partition: u32, key: &str, value: &str, timestamp_ms: i64) -> u64;
    /// What a reader that sees only committed outputs finds, in the order of each partition.
    fn outputs(&mut self, feed: Feed) -> Vec<Seen>;
    /// The committed state of a task: last values by changelog key.
    fn state(&mut self, task: TaskId) -> BTreeMap<Vec<u8>, Vec<u8>>;
    /// The committed input offset of a task.
    fn committed(&mut self, task: TaskId) -> Option<NextOffset>;
}

/// A world whose commits can fail, and whose topics others write to.
pub(crate) trait Transactional: World {
    /// Makes the next commit of this log end in [`CommitOutcome::Aborted`].
    fn abort_next(&mut self, log: &mut Self::Log);
    /// Another producer writes an output in a transaction and leaves it open; call the answer to end it.
    fn open_transaction(&mut self, output: &Output) -> Box<dyn FnOnce(bool)>;
}

pub(crate) const fn session(partition: u32) -> TaskId {
    TaskId { stage: Stage::Session, partition }
}

pub(crate) fn command(key: &str, value: &str) -> Output {
    Output {
        destination: Destination::Commands,
        key: key.as_bytes().to_vec(),
        value: Some(value.as_bytes().to_vec()),
        headers: [("lw_task", "session/0"), ("empty", "")].into_iter().collect(),
        timestamp_ms: 1_700_000_000_123,
    }
}

pub(crate) fn change(task: TaskId, key: &[u8], value: Option<&[u8]>) -> Output {
    Output {
        destination: Destination::Changelog(task),
        key: key.to_vec(),
        value: value.map(<[u8]>::to_vec),
        headers: Headers::default(),
        timestamp_ms: 5,
    }
}

fn values(seen: &[Seen]) -> Vec<String> {
    seen.iter().map(|seen| String::from_utf8(seen.value.clone().unwrap_or_default()).unwrap()).collect()
}

/// A record as the handler got it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Got {
    pub(crate) task: TaskId,
    pub(crate) offset: u64,
    pub(crate) key: Option<String>,
    pub(crate) value: String,
    pub(crate) timestamp_ms: i64,
}

/// Polls until every task of the world is assigned, and starts each where the group stands.
pub(crate) fn take_all<W: World>(world: &mut W, log: &mut W::Log) -> Vec<TaskId> {
    let partitions = world.partitions();
    let expected = (partitions.session + partitions.swarm) as usize;
    let mut tasks = Vec::new();
    for _ in 0..POLLS_MAX {
        match log.poll(WAIT, &mut |_, record| panic!("nothing was started, and yet: {record:?}")).unwrap() {
            LogEvent::Assigned(more) => {
                log.assign(&more).unwrap();
                tasks.extend(more);
            }
            LogEvent::Records(0) => {}
            other => panic!("expected an assignment, got {other:?}"),
        }
        if tasks.len() == expected {
            break;
        }
    }
    assert_eq!(tasks.len(), expected, "the assignment never came");
    tasks.sort_unstable();
    for task in &tasks {
        let next = world.committed(*task).unwrap_or_default();
        log.start(*task, next).unwrap();
    }
    tasks
}

/// Polls until `count` records have come; fails on any further one of the same poll.
pub(crate) fn read<L: Log>(log: &mut L, count: usize) -> Vec<Got> {
    let mut got = Vec::new();
    for _ in 0..POLLS_MAX {
        if got.len() >= count {
            break;
        }
        poll_into(log, &mut got, usize::MAX);
    }
    assert_eq!(got.len(), count, "{got:?}");
    got
}

/// One poll that takes at most `room` records.
pub(crate) fn poll_into<L: Log>(log: &mut L, got: &mut Vec<Got>, room: usize) -> LogEvent {
    let mut taken = 0;
    log.poll(WAIT, &mut |task, record| {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        got.push(Got {
            task,
            offset: record.meta.offset.0,
            key: record.meta.key.map(text),
            value: record.value.map(text).unwrap_or_default(),
            timestamp_ms: record.meta.timestamp.0,
        });
        taken += 1;
        if taken >= room { Flow::Stop } else { Flow::Continue }
    })
    .unwrap()
}

/// Nothing arrives in a few polls.
pub(crate) fn nothing_comes<L: Log>(log: &mut L) {
    let mut got = Vec::new();
    for _ in 0..3 {
        poll_into(log, &mut got, usize::MAX);
    }
    assert_eq!(got, []);
}

pub(crate) fn commit<L: Log>(log: &mut L, offsets: &[(TaskId, u64)]) -> Vec<(TaskId, u64)> {
    let offsets: Vec<(TaskId, NextOffset)> = offsets.iter().map(|(task, next)| (*task, NextOffset(*next))).collect();
    match log.commit(&offsets) {
        CommitOutcome::Committed { changelog_next } => changelog_next,
        other => panic!("not committed: {other:?}"),
    }
}

pub(crate) mod clauses {
    use super::*;

    pub(crate) fn records_come_in_the_order_of_their_partition_with_place_time_and_key<W: World>() {
        let mut world = W::new();
        let mut log = world.open();
        take_all(&mut world, &mut log);
        for n in 0..5i64 {
            assert_eq!(world.append(0, "s", &format!("a{n}"), 1_700_000_000_000 + n), n as u64);
            world.append(1, "t", &format!("b{n}"), 7);
        }
        let mut got = read(&mut log, 10);
        got.sort_by_key(|got| got.task);
        for (n, got) in (0..5u64).zip(&got) {
            let timestamp_ms = 1_700_000_000_000 + n as i64;
            assert_eq!(
                *got,
                Got { task: session(0), offset: n, key: Some("s".to_owned()), value: format!("a{n}"), timestamp_ms }
            );
        }
        assert_eq!(got[5..].iter().map(|got| got.value.as_str()).collect::<Vec<_>>(), ["b0", "b1", "b2", "b3", "b4"]);
        nothing_comes(&mut log);
    }

    pub(crate) fn a_handler_that_stops_gets_the_next_record_next_time<W: World>() {
        let mut world = W::new();
        let mut log = world.open();
        take_all(&mut world, &mut log);
        for n in 0..4 {
            world.append(0, "s", &n.to_string(), n);
        }
        let mut got = Vec::new();
        for _ in 0..POLLS_MAX {
            let before = got.len();
            let event = poll_into(&mut log, &mut got, 1);
            assert_eq!(event, LogEvent::Records(got.len() - before));
            if got.len() == 4 {
                break;
            }
        }
        assert_eq!(got.iter().map(|got| got.value.as_str()).collect::<Vec<_>>(), ["0", "1", "2", "3"]);
    }

    pub(crate) fn outputs_and_offsets_become_visible_together_and_whole<W: World>() {
        let mut world = W::new();
        let mut log = world.open();
        take_all(&mut world, &mut log);
        world.append(0, "s", "x", 1);
        read(&mut log, 1);
        let output = command("s", "c1");
        log.stage(output.clone());
        log.stage(Output { destination: Destination::DeadLetters { source_partition: 1 }, value: None, ..command("bad", "") });
        assert_eq!(world.outputs(Feed::Commands), []);
        assert_eq!(world.committed(session(0)), None);
        commit(&mut log, &[(session(0), 1)]);
        let seen = Seen { key: output.key, value: output.value, headers: output.headers, timestamp_ms: output.timestamp_ms };
        assert_eq!(world.outputs(Feed::Commands), std::slice::from_ref(&seen));
        assert_eq!(world.outputs(Feed::DeadLetters), [Seen { key: b"bad".to_vec(), value: None, ..seen }]);
        assert_eq!(world.committed(session(0)), Some(NextOffset(1)));
        assert_eq!(world.committed(session(1)), None);
    }

    pub(crate) fn outputs_keep_their_order_within_and_across_commits<W: World>() {
        let mut world = W::new();
        let mut log = world.open();
        take_all(&mut world, &mut log);
        let mut expected = Vec::new();
        for round in 0..3u64 {
            for n in 0..10 {
                let value = format!("{round}-{n}");
                log.stage(command("s", &value));
                expected.push(value);
            }
            commit(&mut log, &[(session(0), round + 1)]);
        }
        assert_eq!(values(&world.outputs(Feed::Commands)), expected);
    }

    pub(crate) fn what_was_discarded_is_never_seen<W: World>() {
        let mut world = W::new();
        let mut log = world.open();
        take_all(&mut world, &mut log);
        log.stage(command("s", "dropped"));
        log.stage(change(session(0), b"\x02k", Some(b"dropped")));
        log.discard();
        log.stage(command("s", "kept"));
        commit(&mut log, &[(session(0), 1)]);
        assert_eq!(values(&world.outputs(Feed::Commands)), ["kept"]);
        assert_eq!(world.state(session(0)), BTreeMap::new());
    }

    pub(crate) fn a_commit_without_offsets_is_refused_and_forgets_its_outputs<W: World>() {
        let mut world = W::new();
        let mut log = world.open();
        take_all(&mut world, &mut log);
        log.stage(command("s", "unfenced"));
        assert!(matches!(log.commit(&[]), CommitOutcome::Aborted { .. }));
        assert_eq!(world.outputs(Feed::Commands), []);
        log.stage(command("s", "kept"));
        commit(&mut log, &[(session(0), 1)]);
        assert_eq!(values(&world.outputs(Feed::Commands)), ["kept"]);
    }

    pub(crate) fn a_task_can_be_rewound_and_paused<W: World>() {
        let mut world = W::new();
        let mut log = world.open();
        take_all(&mut world, &mut log);
        for n in 0..4 {
            world.append(0, "s", &n.to_string(), n);
            world.append(1, "t", &n.to_string(), n);
        }
        read(&mut log, 8);
        log.start(session(0), NextOffset(2)).unwrap();
        assert_eq!(read(&mut log, 2).iter().map(|got| got.offset).collect::<Vec<_>>(), [2, 3]);
        log.pause(session(0)).unwrap();
        log.start(session(0), NextOffset(1)).unwrap();
        log.pause(session(0)).unwrap();
        log.start(session(1), NextOffset(3)).unwrap();
        assert_eq!(read(&mut log, 1)[0].task, session(1));
        nothing_comes(&mut log);
        log.start(session(0), NextOffset(1)).unwrap();
        assert_eq!(read(&mut log, 3).iter().map(|got| got.offset).collect::<Vec<_>>(), [1, 2, 3]);
    }

    pub(crate) fn after_a_restart_reading_goes_on_where_the_last_commit_stood<W: World>() {
        let mut world = W::new();
        let mut log = world.open();
        take_all(&mut world, &mut log);
        for n in 0..4 {
            world.append(1, "t", &n.to_string(), n);
        }
        read(&mut log, 4);
        log.stage(command("t", "c"));
        commit(&mut log, &[(session(1), 2)]);
        log.stage(command("t", "lost"));
        log.close(false).unwrap();
        drop(log);
        let mut log = world.open();
        take_all(&mut world, &mut log);
        assert_eq!(read(&mut log, 2).iter().map(|got| got.offset).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(values(&world.outputs(Feed::Commands)), ["c"]);
    }

    pub(crate) fn swarm_counts_reach_the_swarm_stage_in_order<W: World>() {
        let mut world = W::new();
        let mut log = world.open();
        take_all(&mut world, &mut log);
        for n in 1..4 {
            log.stage(Output { destination: Destination::SwarmCounts, ..command("swarm", &n.to_string()) });
        }
        nothing_comes(&mut log);
        commit(&mut log, &[(session(0), 1)]);
        let got = read(&mut log, 3);
        let partition = loopwarden::event::partition_of(b"swarm", world.partitions().swarm);
        // Their time is not compared: with Kafka it is that of the writing, and nothing reads it.
        for (n, got) in (1..4).zip(&got) {
            assert_eq!(got.task, TaskId { stage: Stage::Swarm, partition });
            assert_eq!((got.key.as_deref(), got.value.as_str()), (Some("swarm"), n.to_string().as_str()));
        }
        assert!(got.windows(2).all(|pair| pair[0].offset < pair[1].offset));
        commit(&mut log, &[(got[0].task, got[2].offset + 1)]);
        assert_eq!(world.committed(got[0].task), Some(NextOffset(got[2].offset + 1)));
    }

    pub(crate) fn state_follows_the_commits_and_a_tombstone_deletes<W: World>() {
        let mut world = W::new();
        let mut log = world.open();
        take_all(&mut world, &mut log);
        log.stage(change(session(0), b"\x02a", Some(b"1")));
        log.stage(change(session(0), b"\x02b", Some(b"1")));
        log.stage(change(session(1), b"\x02a", Some(b"other")));
        let first = commit(&mut log, &[(session(0), 1), (session(1), 1)]);
        log.stage(change(session(0), b"\x02a", None));
        log.stage(change(session(0), b"\x02b", Some(b"2")));
        let second = commit(&mut log, &[(session(0), 2)]);
        assert_eq!(world.state(session(0)), BTreeMap::from([(b"\x02b".to_vec(), b"2".to_vec())]));
        assert_eq!(world.state(session(1)), BTreeMap::from([(b"\x02a".to_vec(), b"other".to_vec())]));
        if log.commits_state() {
            assert_eq!((first, second), (vec![], vec![]));
        } else {
            assert_eq!(first.len(), 2);
            assert!(second[0].1 > first.iter().find(|(task, _)| *task == session(0)).unwrap().1);
        }
    }

    pub(crate) fn an_aborted_commit_leaves_nothing_and_the_next_one_works<W: Transactional>() {
        let mut world = W::new();
        let mut log = world.open();
        take_all(&mut world, &mut log);
        world.abort_next(&mut log);
        log.stage(command("s", "aborted"));
        log.stage(change(session(0), b"\x02k", Some(b"aborted")));
        let CommitOutcome::Aborted { reopen, .. } = log.commit(&[(session(0), NextOffset(1))]) else {
            panic!("it did not abort")
        };
        if reopen {
            log.reopen().unwrap();
        }
        assert_eq!(world.outputs(Feed::Commands), []);
        assert_eq!(world.state(session(0)), BTreeMap::new());
        assert_eq!(world.committed(session(0)), None);
        // The group may have something to say first.
        let mut got = Vec::new();
        poll_into(&mut log, &mut got, usize::MAX);
        log.stage(command("s", "second"));
        commit(&mut log, &[(session(0), 1)]);
        assert_eq!(values(&world.outputs(Feed::Commands)), ["second"]);
    }

    pub(crate) fn an_open_transaction_hides_what_comes_after_it<W: Transactional>() {
        let mut world = W::new();
        let mut log = world.open();
        take_all(&mut world, &mut log);
        for (end, expected) in [(false, vec!["mine"]), (true, vec!["mine", "foreign", "mine"])] {
            let finish = world.open_transaction(&command("s", "foreign"));
            let before = values(&world.outputs(Feed::Commands));
            log.stage(command("s", "mine"));
            commit(&mut log, &[(session(0), 1)]);
            assert_eq!(
                values(&world.outputs(Feed::Commands)),
                before,
                "the last stable offset stands before the open transaction"
            );
            finish(end);
            assert_eq!(values(&world.outputs(Feed::Commands)), expected);
        }
    }

    pub(crate) fn a_new_owner_of_the_same_identity_fences_the_old_one<W: Transactional>() {
        let mut world = W::new();
        let mut old = world.open();
        take_all(&mut world, &mut old);
        old.stage(command("s", "old"));
        let mut new = world.open();
        let outcome = old.commit(&[(session(0), NextOffset(9))]);
        assert!(matches!(outcome, CommitOutcome::Fenced { .. } | CommitOutcome::Unknown { .. }), "{outcome:?}");
        take_all(&mut world, &mut new);
        new.stage(command("s", "new"));
        commit(&mut new, &[(session(0), 1)]);
        assert_eq!(values(&world.outputs(Feed::Commands)), ["new"]);
        assert_eq!(world.committed(session(0)), Some(NextOffset(1)));
    }

    pub(crate) fn a_changelog_reads_back_what_was_committed_and_says_where_to_go_on<W: Transactional>() {
        let mut world = W::new();
        let mut log = world.open();
        take_all(&mut world, &mut log);
        let mut reader = log.changelog().unwrap().expect("a transactional log has changelogs");
        assert_eq!(reader.committed(session(0), ANSWER_WAIT).unwrap(), None);
        log.stage(change(session(0), b"\x02a", Some(b"1")));
        log.stage(change(session(0), b"\x02b", None));
        let next = commit(&mut log, &[(session(0), 3)]);
        world.abort_next(&mut log);
        log.stage(change(session(0), b"\x02x", Some(b"aborted")));
        if let CommitOutcome::Aborted { reopen: true, .. } = log.commit(&[(session(0), NextOffset(4))]) {
            log.reopen().unwrap();
        }
        // Looked at from outside first: a broker may say that a transaction has ended a moment before readers can see it.
        let mut state = BTreeMap::from([(b"\x02a".to_vec(), b"1".to_vec())]);
        assert_eq!(world.state(session(0)), state);
        let read = |reader: &mut dyn loopwarden::log::Changelog, from| {
            let mut records = Vec::new();
            let next = reader.read(session(0), from, &mut |offset, key, value| {
                records.push((offset, key.to_vec(), value.map(<[u8]>::to_vec)));
                Flow::Continue
            });
            (records, next.unwrap())
        };
        let (records, end) = read(&mut *reader, 0);
        assert_eq!(
            records.iter().map(|(_, key, value)| (key.as_slice(), value.as_deref())).collect::<Vec<_>>(),
            [(&b"\x02a"[..], Some(&b"1"[..])), (&b"\x02b"[..], None)]
        );
        let mut got = Vec::new();
        poll_into(&mut log, &mut got, usize::MAX);
        log.stage(change(session(0), b"\x02c", Some(b"3")));
        commit(&mut log, &[(session(0), 4)]);
        state.insert(b"\x02c".to_vec(), b"3".to_vec());
        assert_eq!(world.state(session(0)), state);
        for from in [next[0].1, end] {
            let (records, _) = read(&mut *reader, from);
            assert_eq!(records.iter().map(|(_, key, _)| key.as_slice()).collect::<Vec<_>>(), [&b"\x02c"[..]]);
        }
        assert_eq!(reader.committed(session(0), ANSWER_WAIT).unwrap(), Some(NextOffset(4)));
        let range = reader.range(session(0)).unwrap();
        assert!(range.start == 0 && range.end > end, "{range:?}");
    }
}

/// A module of tests, one for each clause named.
#[macro_export]
macro_rules! log_clauses {
    ($module:ident, $world:ty, $($clause:ident),+ $(,)?) => {
        mod $module {
            $(#[test]
            fn $clause() {
                if <$world as super::log_contract::World>::is_available() {
                    super::log_contract::clauses::$clause::<$world>();
                }
            })+
        }
    };
}

/// Every clause that holds in all worlds.
#[macro_export]
macro_rules! contract {
    ($module:ident, $world:ty) => {
        $crate::log_clauses!(
            $module,
            $world,
            records_come_in_the_order_of_their_partition_with_place_time_and_key,
            a_handler_that_stops_gets_the_next_record_next_time,
            outputs_and_offsets_become_visible_together_and_whole,
            outputs_keep_their_order_within_and_across_commits,
            what_was_discarded_is_never_seen,
            a_commit_without_offsets_is_refused_and_forgets_its_outputs,
            a_task_can_be_rewound_and_paused,
            after_a_restart_reading_goes_on_where_the_last_commit_stood,
            swarm_counts_reach_the_swarm_stage_in_order,
            state_follows_the_commits_and_a_tombstone_deletes,
        );
    };
}

/// Every clause of worlds with transactions.
#[macro_export]
macro_rules! transactional_contract {
    ($module:ident, $world:ty) => {
        $crate::log_clauses!(
            $module,
            $world,
            an_aborted_commit_leaves_nothing_and_the_next_one_works,
            an_open_transaction_hides_what_comes_after_it,
            a_new_owner_of_the_same_identity_fences_the_old_one,
            a_changelog_reads_back_what_was_committed_and_says_where_to_go_on,
        );
    };
}
