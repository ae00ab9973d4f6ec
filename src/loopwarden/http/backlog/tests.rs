//! Shares, with clocks that are given; and a log that no lane reads.

use loopwarden_core::event::NextOffset;
use loopwarden_log::clock::Deadline;
use loopwarden_log::embedded::{Append, EmbeddedOptions};
use loopwarden_state::{RocksOptions, RocksStore, StoreOwner};

use super::*;

const LIMITS: BacklogLimits = BacklogLimits { lag_ms_max: 10_000, share_ms_max: 1_000 };
/// What may wait before anything was measured: one second.
const ROOM: usize = 4_000;

fn name(tenant: &str) -> Arc<str> {
    Sender { tenant, peer: "" }.name()
}

/// What a sender may do with so many events.
fn take(inner: &mut Inner, tenant: &str, events: usize, now_ms: u64) -> Result<(), Full> {
    inner.take(&[(name(tenant), events)], &LIMITS, 0, now_ms)
}

/// As many as get in, a hundred at a time.
fn fill(inner: &mut Inner, tenant: &str, now_ms: u64) -> usize {
    (0..1_000_000).take_while(|_| take(inner, tenant, 100, now_ms).is_ok()).count() * 100
}

/// Several that have all sent something.
fn known(tenants: &[&str]) -> Inner {
    let mut inner = Inner::default();
    for tenant in tenants {
        assert_eq!(take(&mut inner, tenant, 1, 0), Ok(()));
        inner.release(Some(&name(tenant)), 1);
    }
    inner
}

#[test]
fn who_floods_takes_half_of_the_room_and_others_still_get_in() {
    let mut inner = known(&["good", "evil"]);
    assert_eq!(fill(&mut inner, "evil", 0), ROOM / 2);
    assert_eq!(take(&mut inner, "evil", 1, 0), Err(Full::Share(ROOM / 2)));
    assert_eq!(fill(&mut inner, "good", 0), ROOM / 4, "half of what is left, at once");
    assert!(inner.senders.all() < ROOM);
}

#[test]
fn many_that_flood_never_have_more_waiting_than_there_is_room_for_twice() {
    let names: Vec<String> = (0..500).map(|number| format!("evil-{number}")).collect();
    let mut inner = known(&["good", "evil"]);
    for _ in 0..50 {
        for evil in &names {
            let _ = take(&mut inner, evil, 50, 0);
        }
    }
    assert!(inner.senders.all() <= 2 * ROOM + 100, "{}", inner.senders.all());
    let evil = name("evil-0");
    inner.release(Some(&evil), 50);
    assert_eq!(take(&mut inner, "good", 50, 0), Ok(()), "what is judged makes room for who has nothing waiting");
}

#[test]
fn who_is_alone_has_all_the_room_until_somebody_else_comes() {
    let mut inner = Inner::default();
    assert_eq!(take(&mut inner, "only", 16_384, 0), Ok(()), "of any size where nothing waits");
    assert!(take(&mut inner, "only", 1, 0).is_err());
    assert_eq!(take(&mut inner, "other", 64, 0), Ok(()), "whoever sends little waits for four seconds at most");
    assert!(take(&mut inner, "other", 8_000, 0).is_err());
    inner.release(Some(&name("only")), 16_384);
    assert!(take(&mut inner, "only", 16_384, 1).is_err(), "it is alone no more");
    assert_eq!(take(&mut inner, "only", 16_384, ALONE_AFTER_MS + 2), Ok(()), "it is again");
}

#[test]
fn who_has_events_waiting_for_half_of_the_time_sends_no_more_and_a_task_that_has_stopped_holds_up_nobody() {
    let mut inner = known(&["good", "evil"]);
    let mut at = |tenant: &str, oldest_ms| inner.take(&[(name(tenant), ALWAYS)], &LIMITS, oldest_ms, 0);
    assert_eq!(at("evil", 400), Ok(()));
    assert!(at("evil", 501).is_err(), "lanes are slower than they were");
    assert_eq!(at("good", 501), Ok(()), "who has little waiting is let in");
    assert_eq!(at("evil", COUNTS_MS + 1), Ok(()), "what waits for ever is no measure");
}

#[test]
fn lanes_that_become_slower_send_away_who_floods_and_nobody_else() {
    let mut inner = known(&["good", "evil"]);
    fill(&mut inner, "evil", 0);
    // As if lanes had been faster when the flood was let in.
    inner.senders.take(&name("evil"), 8 * ROOM);
    assert!(take(&mut inner, "evil", 1, 0).is_err());
    assert_eq!(take(&mut inner, "good", ALWAYS, 0), Ok(()));
}

fn with_log<T>(of: &str, test: impl FnOnce(EmbeddedBroker) -> T) {
    let dir = std::env::temp_dir().join(format!("lw-backlog-{of}-{}", std::process::id()));
    let owner = StoreOwner { app: "a".to_owned(), instance: "i".to_owned(), cluster: None };
    let store = RocksStore::open(&dir, &RocksOptions::default(), &owner).unwrap();
    test(EmbeddedBroker::open(store, EmbeddedOptions { partitions: 2, ..EmbeddedOptions::default() }).unwrap());
    std::fs::remove_dir_all(&dir).unwrap();
}

fn append(broker: &EmbeddedBroker, session: &str, timestamp_ms: i64) -> Vec<(u32, u64)> {
    let event = Append { key: session.as_bytes(), value: b"{}", headers: Vec::new(), timestamp_ms };
    broker.append_unsynced(&[event]).unwrap().0
}

/// Sessions of partition 0 and 1.
fn sessions() -> [String; 2] {
    [0, 1].map(|partition| {
        (0..1_000).map(|number| format!("s{number}")).find(|session| partition_of(session.as_bytes(), 2) == partition).unwrap()
    })
}

#[test]
fn what_an_earlier_process_has_left_is_as_late_as_it_is() {
    with_log("left", |broker| {
        let [first, second] = sessions();
        append(&broker, &first, clock::now_ms() - 60_000);
        let backlog = Backlog::open(&broker, LIMITS).unwrap();
        assert!((60_000..120_000).contains(&backlog.late_ms(&first)) && backlog.late_ms(&second) == 0);
        let sender = Sender { tenant: "t", peer: "" };
        assert!(backlog.admit([(first.as_str(), sender)].into_iter()).is_ok(), "nobody could judge it before");
        let offsets = [(TaskId { stage: Stage::Session, partition: 0 }, NextOffset(1))];
        backlog.committed(&Committed { rows: &[], offsets: &offsets, ends: &[] });
        assert_eq!(backlog.longest_ms(), 0);
    });
}

#[test]
fn lanes_that_are_too_far_behind_get_nothing_more_and_others_do() {
    with_log("behind", |broker| {
        let [first, second] = sessions();
        let backlog = Backlog::open(&broker, BacklogLimits { lag_ms_max: 1, ..LIMITS }).unwrap();
        let admit = |session: &str| backlog.admit([(session, Sender { tenant: "t", peer: "" })].into_iter());
        drop(admit(&first).unwrap().appended(&append(&broker, &first, 0)));
        // No lane reads it: each look finds it later.
        let deadline = Deadline::after(Duration::from_secs(60));
        while !matches!(admit(&first), Err(Full::Behind(2..))) {
            assert!(!deadline.is_over(), "never too far behind");
        }
        assert!(admit(&second).is_ok(), "the other partition is not behind");
        assert!(backlog.refused()[0] >= 1);
    });
}

#[test]
fn events_whose_sums_wait_count_against_their_sender_until_the_swarm_stage_has_judged_them() {
    with_log("sums", |broker| {
        let backlog = Backlog::open(&broker, BacklogLimits { lag_ms_max: 1, ..LIMITS }).unwrap();
        let [first, second] = sessions();
        let admit = |session: &str| backlog.admit([(session, Sender { tenant: "t", peer: "" })].into_iter());
        drop(admit(&first).unwrap().appended(&append(&broker, &first, 0)));
        let task = |stage| TaskId { stage, partition: 0 };
        let judged = |offsets: &[(TaskId, NextOffset)], ends: &[(TaskId, u64)]| {
            backlog.committed(&Committed { rows: &[], offsets, ends });
        };
        judged(&[(task(Stage::Session), NextOffset(1))], &[(task(Stage::Swarm), 3)]);
        assert_eq!(backlog.inner().senders.all(), 1, "its sums wait");
        // Whoever is too far behind takes nothing more, of no partition: all sums go through the swarm stage.
        let deadline = Deadline::after(Duration::from_secs(60));
        while !matches!(admit(&second), Err(Full::Behind(2..))) {
            assert!(!deadline.is_over(), "never too far behind");
        }
        judged(&[(task(Stage::Swarm), NextOffset(2))], &[]);
        assert_eq!(backlog.inner().senders.all(), 1, "not all of them are judged");
        judged(&[(task(Stage::Swarm), NextOffset(3))], &[]);
        assert_eq!((backlog.inner().senders.all(), backlog.longest_ms()), (0, 0));
        assert!(admit(&second).is_ok());
    });
}

#[test]
fn room_is_given_back_when_events_are_judged_or_were_not_appended() {
    with_log("back", |broker| {
        let backlog = Backlog::open(&broker, LIMITS).unwrap();
        let [first, _] = sessions();
        let admit = || backlog.admit([(first.as_str(), Sender { tenant: "t", peer: "" })].into_iter()).unwrap();
        drop(admit());
        assert_eq!(backlog.inner().senders.all(), 0, "the log did not take it");
        let admitted = admit();
        let places = append(&broker, &first, 0);
        let judged = |next: u64| {
            let offsets = [(TaskId { stage: Stage::Session, partition: 0 }, NextOffset(next))];
            backlog.committed(&Committed { rows: &[], offsets: &offsets, ends: &[] });
        };
        judged(1);
        drop(admitted.appended(&places));
        assert_eq!(backlog.inner().senders.all(), 0, "lanes were faster than its sender");
        drop(admit().appended(&append(&broker, &first, 0)));
        let held = || {
            let inner = backlog.inner();
            (inner.senders.all(), inner.senders.by_most().count())
        };
        assert_eq!(held(), (1, 1));
        judged(2);
        assert_eq!(held(), (0, 0));
    });
}
