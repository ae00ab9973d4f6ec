//! Lost answers (T6): the log never guesses, and after a reopen there is one truth, whichever it was.

use std::sync::OnceLock;

use loopwarden::log::{CommitOutcome, Destination, Log};
use loopwarden::{event::NextOffset, log::kafka::KafkaLog};

use crate::proxy::{Action, END_TXN, Proxy, Side, TXN_OFFSET_COMMIT};
use crate::world::{World, commit, committed, next, output, session};
use crate::{broker, broker::Broker};

/// The broker behind the proxy, shared by this file's tests: rules name the client they are about.
pub(crate) fn proxied() -> Option<(&'static Proxy, String)> {
    static SHARED: OnceLock<Option<(Proxy, Broker)>> = OnceLock::new();
    let (proxy, _) = SHARED
        .get_or_init(|| {
            let proxy = Proxy::new();
            let broker = broker::behind("proxied", &proxy)?;
            Some((proxy, broker))
        })
        .as_ref()?;
    Some((proxy, format!("127.0.0.1:{}", proxy.port)))
}

struct Case {
    proxy: &'static Proxy,
    world: World,
    log: KafkaLog,
    client: String,
}

/// A lane whose task 0 stands at 1, behind the proxy.
fn case() -> Option<Case> {
    let (proxy, bootstrap) = proxied()?;
    let world = World::new(&bootstrap, 1);
    let mut log = world.running(1);
    log.stage(output(Destination::Commands, "a", "before"));
    commit(&mut log, &[(session(0), 1)]);
    let client = format!("{}-producer", log.owner());
    Some(Case { proxy, world, log, client })
}

impl Case {
    /// Commits "during" at 2 while a rule is armed.
    fn commit_under(&mut self, api: i16, side: Side, action: Action, times: usize) -> CommitOutcome {
        self.proxy.arm(&self.client, api, side, action, times);
        self.log.stage(output(Destination::Commands, "a", "during"));
        self.log.stage(output(Destination::Changelog(session(0)), "position", "2"));
        self.log.commit(&next(&[(session(0), 2)]))
    }

    /// What the changelog, the group and the readers say: each must tell the same.
    fn truth(&self) -> bool {
        let offset = committed(&self.log, session(0)).expect("an offset").0;
        let commands = self.world.values(&self.world.options.topics.commands);
        let changelog = self.world.read(&format!("{}.session-changelog", self.world.options.app)).len();
        assert!(
            (offset, commands.len(), changelog) == (1, 1, 0) || (offset, commands.len(), changelog) == (2, 2, 1),
            "torn: offset {offset}, commands {commands:?}, {changelog} changelog records"
        );
        offset == 2
    }

    /// The next commit works, and is alone.
    fn go_on(&mut self) {
        let before = self.world.values(&self.world.options.topics.commands);
        self.log.stage(output(Destination::Commands, "a", "after"));
        commit(&mut self.log, &[(session(0), 3)]);
        let after = self.world.values(&self.world.options.topics.commands);
        assert_eq!(after, [before, vec!["after".to_owned()]].concat());
        assert_eq!(committed(&self.log, session(0)), Some(NextOffset(3)));
    }
}

#[test]
fn a_commit_whose_answers_are_lost_is_unknown_and_was_committed() {
    let Some(mut case) = case() else { return };
    let outcome = case.commit_under(END_TXN, Side::Answer, Action::Drop, usize::MAX);
    assert!(matches!(outcome, CommitOutcome::Unknown { .. }), "{outcome:?}");
    assert!(case.proxy.release(&case.client) > 0, "the proxy saw no such answer");
    let refused = case.log.commit(&next(&[(session(0), 2)]));
    assert!(matches!(refused, CommitOutcome::Aborted { reopen: true, .. }), "no guess: {refused:?}");
    case.log.reopen().expect("reopened");
    assert!(case.truth(), "the broker had decided");
    case.go_on();
}

#[test]
fn a_commit_whose_requests_are_lost_is_unknown_and_was_aborted() {
    let Some(mut case) = case() else { return };
    let outcome = case.commit_under(END_TXN, Side::Request, Action::Drop, usize::MAX);
    assert!(matches!(outcome, CommitOutcome::Unknown { .. }), "{outcome:?}");
    // Not before: the client goes on asking by itself until it is dropped.
    case.log.reopen().expect("reopened");
    assert!(case.proxy.release(&case.client) > 0, "the proxy saw no such request");
    assert!(!case.truth(), "nobody had told the broker");
    case.go_on();
}

#[test]
fn a_delayed_end_of_an_old_transaction_cannot_end_the_next() {
    let Some(mut case) = case() else { return };
    let outcome = case.commit_under(END_TXN, Side::Request, Action::Hold, usize::MAX);
    assert!(matches!(outcome, CommitOutcome::Unknown { .. }), "{outcome:?}");
    case.log.reopen().expect("reopened");
    assert!(!case.truth());
    // It arrives now, under the old epoch, right before the next transaction.
    assert!(case.proxy.release(&case.client) > 0, "the proxy held no such request");
    case.go_on();
    assert_eq!(case.world.values(&case.world.options.topics.commands), vec!["before", "after"]);
}

#[test]
fn a_connection_cut_before_the_decision_is_bridged_and_the_producer_replaced() {
    let Some(mut case) = case() else { return };
    let outcome = case.commit_under(END_TXN, Side::Request, Action::Cut, 1);
    assert_eq!(case.proxy.release(&case.client), 1);
    settle(&mut case, &outcome);
}

#[test]
fn a_connection_cut_after_the_decision_is_bridged_and_the_producer_replaced() {
    let Some(mut case) = case() else { return };
    let outcome = case.commit_under(END_TXN, Side::Answer, Action::Cut, 1);
    assert_eq!(case.proxy.release(&case.client), 1);
    settle(&mut case, &outcome);
}

/// The client asks again by itself: either it learns the truth, or nobody guesses.
fn settle(case: &mut Case, outcome: &CommitOutcome) {
    match outcome {
        CommitOutcome::Committed { .. } => {
            assert!(case.truth());
            case.go_on();
            assert_eq!(case.log.producers_replaced(), 1, "a request may still be under way: rule C17");
        }
        CommitOutcome::Unknown { .. } => {
            case.log.reopen().expect("reopened");
            case.truth();
            case.go_on();
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn offsets_whose_answers_are_lost_abort_and_reopen() {
    let Some(mut case) = case() else { return };
    let outcome = case.commit_under(TXN_OFFSET_COMMIT, Side::Answer, Action::Drop, usize::MAX);
    // The client waits for its socket's timeout whatever it was told; by then the broker may have ended the transaction.
    assert!(matches!(outcome, CommitOutcome::Aborted { reopen: true, .. } | CommitOutcome::Fenced { .. }), "{outcome:?}");
    assert!(case.proxy.release(&case.client) > 0, "the proxy saw no such answer");
    case.log.reopen().expect("reopened");
    assert!(!case.truth());
    case.go_on();
}
