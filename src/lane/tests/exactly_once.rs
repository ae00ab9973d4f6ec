//! Two lanes that read a foreign topic of a broker in memory, from a seed: faults at every step, deaths, stalls, rebalances; then calm. Each record leads to its
//! events once, in the order of its partition.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "all of this binary is test code")]

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};

use loopwarden_core::event::{Stage, TaskId};
use loopwarden_core::{engine::SessionEngine, policy::Policy};
use loopwarden_lane::{
    Clock, CommitTrigger, DeadLetterContent, Foreign, ForeignSettings, Form, GroupRestorer, IntakeReport, Lane, LaneSettings,
    Leases, OnTrouble, Turn,
};
use loopwarden_log::{Log as _, Partitions};
use loopwarden_sim::{Faults, MemoryBroker, MemoryConfig, MemoryLog, MemoryRecord, MemoryTopic};
use loopwarden_sources::{Grant, Sources, Tenants};
use loopwarden_state::MemoryStore;

type Intake = Lane<MemoryLog>;

/// What nobody is judged by.
static POLICY: LazyLock<Arc<Policy>> = LazyLock::new(|| Arc::new(loopwarden_settings::policy::load("default").unwrap()));

const PARTITIONS: u32 = 3;
const RECORDS: u64 = 200;
const SEEDS: u64 = 2_000;
/// One record in so many is no event.
const BAD: u64 = 25;

struct Dice(u64);

impl Dice {
    /// `SplitMix64`.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

struct BrokerClock(MemoryBroker);

impl Clock for BrokerClock {
    fn mono_us(&self) -> u64 {
        self.0.now_ms().unsigned_abs() * 1_000
    }

    fn wall_ms(&self) -> i64 {
        self.0.now_ms()
    }
}

const fn task(partition: u32) -> TaskId {
    TaskId { stage: Stage::Session, partition }
}

fn broker() -> MemoryBroker {
    let partitions = Partitions { session: PARTITIONS, swarm: 0 };
    MemoryBroker::new(MemoryConfig { partitions, poll_records_max: 20, ..MemoryConfig::default() }, Faults::none())
}

fn open(broker: &MemoryBroker, instance: &str) -> Intake {
    open_as(broker, instance, source(Tenants::ALL), DeadLetterContent::Full, Arc::default())
}

fn open_as(
    broker: &MemoryBroker,
    instance: &str,
    grant: Grant,
    dead_letters: DeadLetterContent,
    sources: Arc<Mutex<Sources>>,
) -> Intake {
    let log = broker.open(instance, 0);
    let settings = LaneSettings {
        dead_letters,
        trigger: CommitTrigger::Timed { max_ms: 50, min_ms: 2 },
        overlay_bytes_max: 1 << 20,
        overlay_records_max: 30,
        on_input_loss: OnTrouble::Stop,
        on_bad_records: OnTrouble::Stop,
        ..LaneSettings::default()
    };
    let (app, topic) = ("app".to_owned(), "foreign".to_owned());
    let restorer = GroupRestorer::new(log.changelog().unwrap().expect("a reader"), topic.clone(), settings.on_input_loss);
    let foreign = ForeignSettings { app, topic, grant, form: "native", event_bytes_max: 1 << 18 };
    let engine = SessionEngine::new("app", Arc::clone(&POLICY));
    Lane::new(log, MemoryStore::new(), engine, Box::new(restorer), Leases::new(), Arc::new(settings)).with_foreign(Foreign::new(
        Form::Native,
        foreign,
        sources,
    ))
}

fn source(tenants: Tenants) -> Grant {
    Grant { tenants, may_report: true, may_act: false, actor: None }
}

fn feed(broker: &MemoryBroker, number: u64, dice: &mut Dice) {
    let value = if number.is_multiple_of(BAD) {
        "no event".to_owned()
    } else {
        format!(r#"{{"id":"e{number}","kind":"tool","session_id":"s{}","tool":"t","outcome":"ok"}}"#, number % 7)
    };
    broker.append(task(dice.below(u64::from(PARTITIONS)) as u32), None, Some(value.as_bytes()), number as i64);
}

fn header<'a>(record: &'a MemoryRecord, name: &str) -> &'a str {
    let found = record.headers.iter().find(|(key, _)| key == name).and_then(|(_, value)| value.as_deref());
    std::str::from_utf8(found.unwrap_or_default()).unwrap()
}

/// Turns one until it has nothing to do, opens it again where it ended.
fn turn(broker: &MemoryBroker, intake: &mut Intake, instance: &str) -> bool {
    match intake.turn(&BrokerClock(broker.clone())) {
        Turn::Ended(_) => {
            *intake = open(broker, instance);
            true
        }
        turn => turn == Turn::Worked,
    }
}

fn is_done(broker: &MemoryBroker) -> bool {
    broker.is_settled()
        && (0..PARTITIONS).all(|partition| {
            let end = broker.input_range(task(partition)).end;
            end == 0 || broker.group_offset(task(partition)).is_some_and(|next| next.0 == end)
        })
}

fn simulate(seed: u64) {
    let mut dice = Dice(seed);
    let broker = broker();
    broker.set_faults(Faults::seed(seed, 10 + dice.below(60) as u32));
    let names = ["a", "b"];
    let mut intakes = names.map(|name| open(&broker, name));
    let mut stalled_until_ms = [0; 2];
    let mut fed = 0;
    while fed < RECORDS {
        let at = dice.below(2) as usize;
        match dice.below(100) {
            0..20 => {
                feed(&broker, fed, &mut dice);
                fed += 1;
            }
            20..40 => broker.advance(dice.below(60) as i64),
            // Killed: what it had open stays open until it is there again.
            40 => intakes[at] = open(&broker, names[at]),
            // Stopped for longer than its session, then continued.
            41 if dice.below(8) == 0 => stalled_until_ms[at] = broker.now_ms() + dice.below(15_000) as i64,
            42 if dice.below(8) == 0 => broker.advance(dice.below(12_000) as i64),
            _ if broker.now_ms() >= stalled_until_ms[at] => _ = turn(&broker, &mut intakes[at], names[at]),
            _ => {}
        }
    }
    broker.set_faults(Faults::none());
    let mut rounds = 0;
    while !is_done(&broker) {
        for (intake, name) in intakes.iter_mut().zip(names) {
            (0..20).for_each(|_| _ = turn(&broker, intake, name));
        }
        broker.advance(20);
        rounds += 1;
        assert!(rounds < 20_000, "seed {seed} does not come to rest");
    }
    audit(&broker, seed);
}

fn audit(broker: &MemoryBroker, seed: u64) {
    let events = broker.committed(MemoryTopic::Events);
    let letters = broker.committed(MemoryTopic::DeadLetters);
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    let mut last: BTreeMap<(u32, String), u64> = BTreeMap::new();
    for event in &events {
        let source = header(event, "lw_source");
        *counts.entry(source.to_owned()).or_default() += 1;
        let (partition, offset) = source.rsplit_once('/').unwrap();
        let offset: u64 = offset.parse().unwrap();
        let before = last.insert((event.partition, partition.to_owned()), offset);
        assert!(before.is_none_or(|before| before < offset), "seed {seed}: {source} stands behind {before:?}");
    }
    for letter in &letters {
        let place = ["dlq.topic", "dlq.partition", "dlq.offset"].map(|name| header(letter, name)).join("/");
        *counts.entry(place).or_default() += 1;
    }
    let twice: Vec<_> = counts.iter().filter(|(_, count)| **count != 1).collect();
    assert!(twice.is_empty(), "seed {seed}: {twice:?}");
    assert_eq!(letters.len() as u64, RECORDS.div_ceil(BAD), "seed {seed}");
    assert_eq!(counts.len() as u64, RECORDS, "seed {seed}");
}

#[test]
fn every_record_leads_to_its_event_once_and_in_order_whatever_goes_wrong() {
    // LOOPWARDEN_SIM_SEED runs one seed.
    let one = std::env::var("LOOPWARDEN_SIM_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = one.map_or(0..SEEDS, |seed: u64| seed..seed + 1);
    seeds.for_each(simulate);
}

fn shown(intake: &mut Intake) -> IntakeReport {
    intake.report().intake.expect("a foreign topic")
}

fn settled(broker: &MemoryBroker, intake: &mut Intake) {
    for _ in 0..200 {
        turn(broker, intake, "a");
        broker.advance(10);
    }
}

#[test]
fn a_wave_of_dead_letters_stops_its_partition_and_no_other() {
    let broker = broker();
    for _ in 0..200 {
        broker.append(task(0), None, Some(b"no event"), 1);
    }
    let event = br#"{"id":"e","kind":"tool","session_id":"s","tool":"t","outcome":"ok"}"#;
    broker.append(task(1), None, Some(event), 1);
    let mut intake = open(&broker, "a");
    settled(&broker, &mut intake);
    let report = intake.report();
    assert_eq!((shown(&mut intake).stopped.len(), report.is_held_up), (1, false), "the others go on");
    // The one that was too many is among them, and none came after it.
    assert_eq!(broker.committed(MemoryTopic::DeadLetters).len(), 51);
    assert_eq!(broker.group_offset(task(0)).map(|next| next.0), Some(51));
    assert_eq!(broker.committed(MemoryTopic::Events).len(), 1);
}

#[test]
fn where_a_first_start_begins_is_committed_before_anything_is_read() {
    let broker = {
        let partitions = Partitions { session: PARTITIONS, swarm: 0 };
        MemoryBroker::new(MemoryConfig { partitions, start_at_end: true, ..MemoryConfig::default() }, Faults::none())
    };
    let event = |id: &str| format!(r#"{{"id":"{id}","kind":"tool","session_id":"s","tool":"t","outcome":"ok"}}"#);
    broker.append(task(0), None, Some(event("old").as_bytes()), 1);
    let mut intake = open(&broker, "a");
    settled(&broker, &mut intake);
    drop(intake);
    broker.append(task(0), None, Some(event("new").as_bytes()), 1);
    let mut intake = open(&broker, "a");
    settled(&broker, &mut intake);
    let events = broker.committed(MemoryTopic::Events);
    assert_eq!(events.len(), 1);
    assert!(String::from_utf8_lossy(events[0].value.as_deref().unwrap()).contains("new"));
}

#[test]
fn the_report_counts_what_is_committed() {
    let broker = broker();
    let mut dice = Dice(1);
    (0..BAD).for_each(|number| feed(&broker, number, &mut dice));
    let sources = Arc::default();
    let mut intake = open_as(&broker, "a", source(Tenants::ALL), DeadLetterContent::None, Arc::clone(&sources));
    settled(&broker, &mut intake);
    let IntakeReport { stats, senders, .. } = shown(&mut intake);
    assert_eq!((stats.records, stats.events, stats.dead_letters, stats.refused), (BAD, BAD - 1, 1, 1));
    let total = senders.total();
    assert_eq!((total.records, total.refused), (BAD, 1));
    assert_eq!((total.calls.made, total.calls.without_args, total.calls.without_results), (BAD - 1, BAD - 1, BAD - 1));
    // Another way in reports two of the sessions, too.
    let mut sources = sources.lock().unwrap();
    assert_eq!(["s1", "s2", "s9"].map(|session| sources.note(session, "hooks")), [Some("events"), Some("events"), None]);
    assert!(broker.committed(MemoryTopic::DeadLetters)[0].value.is_none(), "as the setting says");
}

#[test]
fn a_source_that_resets_or_speaks_for_another_tenant_makes_dead_letters_and_stops_no_partition() {
    // More of them than a partition takes of records that nobody can read.
    const RESETS: i64 = 200;
    let broker = broker();
    let append = |text: &str, at| broker.append(task(0), None, Some(text.as_bytes()), at);
    for number in 0..RESETS {
        append(&format!(r#"{{"id":"r{number}","kind":"reset","session_id":"s"}}"#), number);
    }
    let call = |id: &str, tenant: &str| format!(r#"{{"id":"{id}","kind":"tool","session_id":"s","tool":"t"{tenant}}}"#);
    append(&call("foreign", r#","tenant":"globex""#), RESETS);
    append(&call("own", r#","tenant":"acme""#), RESETS + 1);
    append(&call("filled", ""), RESETS + 2);
    let grant = source(Tenants::only(&["acme".to_owned()]));
    let mut intake = open_as(&broker, "a", grant, DeadLetterContent::Full, Arc::default());
    settled(&broker, &mut intake);
    let events = broker.committed(MemoryTopic::Events);
    let texts: Vec<String> = events.iter().map(|event| String::from_utf8(event.value.clone().unwrap()).unwrap()).collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts.iter().all(|text| text.contains(r#""tenant":"acme""#)), "{texts:?}");
    assert_eq!(broker.committed(MemoryTopic::DeadLetters).len() as i64, RESETS + 1);
}
