//! Operators who stop agents and let them go on, agents who ask before each call, and somebody who answers commands: threads of a kill loop.
//! What they send becomes part of its events, so the uninterrupted run sees it too.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::{sync::mpsc::SyncSender, thread, thread::JoinHandle, time::Duration};

use loopwarden::{clock, clock::Deadline, event::EventTime, log::kafka::KafkaOptions};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use serde_json::{Value, json};

use crate::acts::{AGENTS, Act, Became, Call, Judged, Ledger, Whom};
use crate::feeder::{About, Between};
use crate::{acts, fleet::Dice, guards::Place};

const LOOK: Duration = Duration::from_millis(2);
/// An act that is not committed after so long is lost.
const COMMIT_MAX: Duration = Duration::from_secs(180);
/// What an agent thinks between two calls. Milliseconds.
const THINKING_MS: u64 = 60;
/// Longest time that a stop holds before it is released. Milliseconds.
const HOLD_MS: u64 = 1_500;
/// Of a stop that is released.
const FAR_MS: i64 = 3 * 86_400_000;
/// What somebody allows, of event time.
const ALLOWED_MS: i64 = 600_000;
/// Events of people that wait for whoever writes them.
pub(crate) const SENT_MAX: usize = 10_000;
/// One command of so many is answered.
const ANSWERED: u64 = 10;
/// A client may stop reading for good when a broker comes back: another one takes its place.
const READER_AGE_MAX: Duration = Duration::from_secs(20);

/// What the threads share.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shared {
    ledger: Arc<Mutex<Ledger>>,
    /// Operators end with what they have begun.
    is_late: Arc<AtomicBool>,
    /// Agents end.
    is_over: Arc<AtomicBool>,
    /// Nobody answers commands any more, or looks at them.
    is_blind: Arc<AtomicBool>,
}

impl Shared {
    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("not poisoned")
    }

    pub(crate) fn is_blind(&self) -> bool {
        self.is_blind.load(Ordering::Acquire)
    }

    /// Nobody answers commands any more, or looks at them.
    pub(crate) fn blind(&self) {
        self.is_blind.store(true, Ordering::Release);
    }
}

/// How long stops last that end by themselves, where there are any. Milliseconds, the shortest and how much longer at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    pub(crate) min_ms: u64,
    pub(crate) more_ms: u64,
}

/// Operators and agents at work.
pub(crate) struct People {
    shared: Shared,
    operators: Vec<JoinHandle<()>>,
    agents: Vec<JoinHandle<Vec<Call>>>,
    watcher: Option<JoinHandle<()>>,
}

impl People {
    /// Begins. `watch` is to notice commands and rows, and to send answers, until nobody looks any more.
    pub(crate) fn start(
        seed: u64,
        ends: Option<Ends>,
        places: &[Place],
        submit: SyncSender<Between>,
        watch: impl FnOnce(Shared, Answering) + Send + 'static,
    ) -> Self {
        let shared = Shared::default();
        let agents = (0..AGENTS).map(|agent| {
            let (shared, places, dice) = (shared.clone(), places.to_vec(), Dice::new(seed ^ 0xa9e7 ^ agent as u64));
            thread::spawn(move || ask(agent, &shared, &places, dice))
        });
        let agents = agents.collect();
        let operators = Whom::lists().into_iter().enumerate().map(|(at, whoms)| {
            let (shared, submit, dice) = (shared.clone(), submit.clone(), Dice::new(seed ^ 0x0be4a ^ at as u64));
            thread::spawn(move || operate(&whoms, ends, &shared, &submit, dice))
        });
        let operators = operators.collect();
        let answering = Answering::new(submit, seed);
        let looked = shared.clone();
        let watcher = Some(thread::spawn(move || watch(looked, answering)));
        Self { shared, operators, agents, watcher }
    }

    /// No act is begun any more.
    pub(crate) fn end(&self) {
        self.shared.is_late.store(true, Ordering::Release);
    }

    /// Whether all acts that were begun have their commit.
    pub(crate) fn have_acted(&self) -> bool {
        self.operators.iter().all(JoinHandle::is_finished)
    }

    /// Ends agents and answers; what all of it comes to.
    pub(crate) fn finish(mut self) -> Judged {
        for operator in std::mem::take(&mut self.operators) {
            operator.join().expect("an operator");
        }
        self.shared.is_over.store(true, Ordering::Release);
        for agent in std::mem::take(&mut self.agents) {
            let calls = agent.join().expect("an agent");
            self.shared.ledger().calls.extend(calls);
        }
        self.shared.blind();
        self.watcher.take().expect("a watcher").join().expect("the watcher");
        self.shared.ledger().judge()
    }
}

impl Drop for People {
    fn drop(&mut self) {
        for flag in [&self.shared.is_late, &self.shared.is_over, &self.shared.is_blind] {
            flag.store(true, Ordering::Release);
        }
    }
}

/// Stops and releases, one after the other.
fn operate(whoms: &[Whom], ends: Option<Ends>, shared: &Shared, submit: &SyncSender<Between>, mut dice: Dice) {
    let sleep = |ms: u64| {
        let until = Deadline::after(Duration::from_millis(ms));
        while !until.is_over() && !shared.is_late.load(Ordering::Acquire) {
            thread::park_timeout(until.left().min(Duration::from_millis(20)));
        }
    };
    while !shared.is_late.load(Ordering::Acquire) {
        let whom = whoms[dice.below(whoms.len() as u64) as usize];
        let ends = ends.filter(|_| dice.below(4) == 0);
        let lasts_ms = ends.map_or(FAR_MS, |ends| (ends.min_ms + dice.below(ends.more_ms)) as i64);
        let until_ms = clock::now_ms() + lasts_ms;
        let fails_closed = dice.below(2) == 0;
        act(whom, Some((until_ms, fails_closed)), shared, submit);
        if ends.is_some() {
            // Its time comes, whoever waits for it: an act about the same one would mean something else before.
            let left_ms = (until_ms - clock::now_ms()).max(0) as u64 + 2 * acts::BOUND_MS as u64;
            let until = Deadline::after(Duration::from_millis(left_ms));
            while !until.is_over() {
                thread::park_timeout(until.left());
            }
        } else {
            sleep(2 * acts::BOUND_MS as u64 + dice.below(HOLD_MS));
            act(whom, None, shared, submit);
        }
        sleep(2 * acts::BOUND_MS as u64 + dice.below(500));
    }
}

/// Sends an act, and waits for its commit. `stop`: until when, and whether it fails closed; none is a release.
fn act(whom: Whom, stop: Option<(i64, bool)>, shared: &Shared, submit: &SyncSender<Between>) {
    let number = {
        let mut ledger = shared.ledger();
        ledger.acts.push(Act::new(whom, stop.map(|(until_ms, _)| until_ms), clock::now_ms()));
        ledger.acts.len() - 1
    };
    let make = move |now_ms: i64| {
        let mut event = whom.event(&acts::id_of(number), if stop.is_some() { "stop" } else { "release" }, now_ms);
        if let Some((until_ms, fails_closed)) = stop {
            event["until"] = until_ms.into();
            event["fail"] = if fails_closed { "closed" } else { "open" }.into();
        }
        event.to_string()
    };
    // Nobody takes it where the run has failed.
    let _ = submit.send(Between { key: whom.key(), make: Box::new(make), about: None });
    let deadline = Deadline::after(COMMIT_MAX);
    while shared.ledger().acts[number].told_ms.is_none() {
        if deadline.is_over() {
            println!("act {number} about {whom:?} has no command after {COMMIT_MAX:?}");
            return;
        }
        thread::park_timeout(LOOK);
    }
}

/// Asks before each call, as the clients do: a stop that fails closed holds where no guard answers.
fn ask(agent: usize, shared: &Shared, places: &[Place], mut dice: Dice) -> Vec<Call> {
    let mut calls = Vec::new();
    let mut held: Option<i64> = None;
    for number in 0.. {
        if shared.is_over.load(Ordering::Acquire) {
            break;
        }
        let guard = dice.below(places.len() as u64) as usize;
        let event = acts::call(agent, number);
        let begun_ms = clock::now_ms();
        let mut knew_ms = None;
        let became = match places[guard].ask(&event) {
            Ok(answer) => {
                let end = answer["expires_at"].as_str().and_then(EventTime::parse_rfc3339).map(|end| end.0);
                held = end.filter(|_| answer["fail"] == "closed");
                let as_of = answer["state"]["as_of"].as_str().and_then(EventTime::parse_rfc3339);
                knew_ms = as_of.filter(|_| answer["state"]["stale"] == false).map(|as_of| as_of.0);
                let is_stopped = answer["decision"] == "deny" && answer["reason"]["code"] == "stop";
                let command = || answer["command_id"].as_str().map(str::to_owned);
                if is_stopped { Became::Refused(command()) } else { Became::Passed }
            }
            Err(_) if held.is_some_and(|end_ms| end_ms > begun_ms) => Became::RefusedAlone,
            Err(_) => Became::Unanswered,
        };
        calls.push(Call { agent, begun_ms, became, guard, knew_ms });
        thread::park_timeout(Duration::from_millis(THINKING_MS / 2 + dice.below(THINKING_MS)));
    }
    calls
}

/// Answers some of the commands.
pub(crate) struct Answering {
    submit: SyncSender<Between>,
    dice: Dice,
    number: u64,
}

impl Answering {
    pub(crate) const fn new(submit: SyncSender<Between>, seed: u64) -> Self {
        Self { submit, dice: Dice::new(seed ^ 0xa5), number: 0 }
    }

    /// A command was seen. One in ten about a session is answered.
    pub(crate) fn look(&mut self, command: &Value, shared: &Shared) {
        if let Some(between) = self.answer(command) {
            shared.ledger().answers += 1;
            let _ = self.submit.send(between);
        }
    }

    fn answer(&mut self, command: &Value) -> Option<Between> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let (session, episode) = (text(&command["session_id"])?, text(&command["episode"])?);
        let agent = text(&command["scope"]["agent_id"]);
        let trigger = text(&command["trigger"]["event_id"])?;
        if command["action"] == "unblock" || command["reason"]["code"] == "stop" || self.dice.below(ANSWERED) != 0 {
            return None;
        }
        self.number += 1;
        let id = format!("answer-{}", self.number);
        let word = ["right", "false_alarm", "allow"][self.dice.below(3) as usize];
        let (key, named) = (session.clone(), episode.clone());
        let make = move |now_ms: i64| {
            let mut event = json!({
                "id": id, "kind": "answer", "session_id": session, "time": now_ms, "episode": named,
                "answer": word, "labels": { "actor": "operator" },
            });
            if let Some(agent) = &agent {
                event["agent"] = json!({ "id": agent });
            }
            if word == "allow" {
                event["until"] = (now_ms + ALLOWED_MS).into();
            }
            event.to_string()
        };
        Some(Between { key, make: Box::new(make), about: Some(About { episode, trigger }) })
    }
}

/// Reads commands and rows as everybody may see them, from the first on.
pub(crate) fn watch_topics(options: &KafkaOptions, partitions: u32, shared: &Shared, mut answering: Answering) {
    let topics = [options.topics.commands.clone(), options.topics.state.clone()];
    let mut next: Vec<(String, i32, i64)> =
        topics.iter().flat_map(|topic| (0..partitions as i32).map(move |partition| (topic.clone(), partition, 0))).collect();
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", &options.bootstrap_servers)
        .set("group.id", format!("{}-watcher", options.app))
        .set("isolation.level", "read_committed")
        .set("enable.auto.commit", "false")
        .set("fetch.wait.max.ms", "20")
        .set("reconnect.backoff.max.ms", "200");
    while !shared.is_blind() {
        let reader: BaseConsumer = config.create().expect("a reader");
        let mut list = TopicPartitionList::new();
        for (topic, partition, offset) in &next {
            list.add_partition_offset(topic, *partition, Offset::Offset(*offset)).expect("an offset");
        }
        reader.assign(&list).expect("assigned");
        let age = Deadline::after(READER_AGE_MAX);
        while !shared.is_blind() && !age.is_over() {
            // A broker that died comes again, and the client with it.
            let Some(Ok(message)) = reader.poll(Duration::from_millis(20)) else { continue };
            let place = next.iter_mut().find(|(topic, at, _)| topic == message.topic() && *at == message.partition());
            place.into_iter().for_each(|(.., offset)| *offset = message.offset() + 1);
            let value = || serde_json::from_slice::<Value>(message.payload()?).ok();
            if message.topic() == topics[0] {
                let Some(command) = value() else { continue };
                let is_act = shared.ledger().told(&command);
                if !is_act {
                    answering.look(&command, shared);
                }
            } else if let Some(key) =
                message.key().and_then(|key| std::str::from_utf8(key).ok()).filter(|key| key.starts_with("stop\u{1f}"))
            {
                let row = value();
                shared.ledger().row(key, row.as_ref());
            }
        }
    }
}
