//! Records and timers that cannot be used: dead letters, waves of them, panics, inputs that kill their process.

use loopwarden::event::NextOffset;
use loopwarden::task::{LaneSettings, OnTrouble, TaskState};
use loopwarden_sim::MemoryTopic;

use crate::lane::TIMED;
use crate::world::{Fed, PARTITIONS, TestWorld, config, feed, fleet, header, reference, session_task, settings};

#[test]
fn a_bad_record_becomes_a_dead_letter_with_its_place_and_its_own_headers() {
    let mut world = TestWorld::new(config(20), settings(TIMED));
    let record = loopwarden_sim::MemoryRecord {
        key: Some(b"s1".to_vec()),
        value: Some(b"{\"id\":1}".to_vec()),
        headers: vec![("trace".to_owned(), Some(b"t".to_vec())), ("dlq.reason".to_owned(), Some(b"old".to_vec()))],
        timestamp_ms: 1_795_291_200_000,
        ..loopwarden_sim::MemoryRecord::default()
    };
    world.broker.append_record(session_task(2), record);
    world.start("lw", 1);
    assert!(world.settle());
    let letters = world.broker.committed(MemoryTopic::DeadLetters);
    let [letter] = &letters[..] else { panic!("{letters:?}") };
    assert_eq!((letter.key.as_deref(), letter.value.as_deref()), (Some(&b"s1"[..]), Some(&b"{\"id\":1}"[..])));
    // 2 modulo the two partitions of the topic.
    assert_eq!((letter.partition, letter.timestamp_ms), (0, 1_795_291_200_000));
    for (name, value) in [
        ("trace", "t"),
        ("dlq.reason", "bad_type"),
        ("dlq.field", "/id"),
        ("dlq.topic", "agents.tool-events.v1"),
        ("dlq.partition", "2"),
        ("dlq.offset", "0"),
        ("dlq.timestamp", "1795291200000"),
        ("dlq.app", "loopwarden"),
        ("dlq.policy", &world.policy.hash.to_string()),
        ("dlq.version", env!("CARGO_PKG_VERSION")),
        ("lw_task", "session/2"),
        ("lw_ordinal", "1"),
    ] {
        assert_eq!(header(letter, name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(letter.headers.iter().filter(|(name, _)| name == "dlq.reason").count(), 1);
    assert_eq!(header(letter, "dlq.bytes"), None);
}

/// What a bad deploy sends: many senders, and none of them an event.
fn wave(world: &TestWorld) {
    for number in 0..60 {
        let sender = format!("k{number}");
        world.broker.append(session_task(0), Some(sender.as_bytes()), Some(b"rubbish"), 1_795_291_200_000);
    }
}

#[test]
fn a_wave_of_bad_records_stops_its_task_where_that_is_asked_for_in_front_of_the_51st_sender_and_no_other() {
    let mut world = TestWorld::new(config(20), LaneSettings { on_bad_records: OnTrouble::Stop, ..settings(TIMED) });
    wave(&world);
    world.broker.append(session_task(1), Some(b"k"), Some(b"rubbish"), 1_795_291_200_000);
    world.start("lw", 1);
    for _ in 0..200 {
        world.turn(0, 0);
        world.broker.advance(10);
    }
    assert_eq!(world.broker.group_offset(session_task(0)), Some(NextOffset(50)));
    assert_eq!(world.broker.group_offset(session_task(1)), Some(NextOffset(1)));
    let lane = world.processes[0].lanes[0].as_ref().unwrap();
    assert!(!lane.is_ready());
    let states: Vec<TaskState> = lane.tasks().into_iter().map(|view| view.state).collect();
    assert!(matches!(&states[..], [TaskState::Poisoned(_), TaskState::Running, TaskState::Running]), "{states:?}");
    assert_eq!(world.broker.committed(MemoryTopic::DeadLetters).len(), 51);
}

#[test]
fn one_producer_with_many_keys_stops_no_task_and_is_warned_of() {
    let mut world = TestWorld::new(config(20), settings(TIMED));
    wave(&world);
    for number in 0..20 {
        let sender = format!("s{number}");
        let event = format!(r#"{{"id":"e","session_id":"{sender}","kind":"tool","tool":"boom","args":{{}},"result":"x"}}"#);
        world.broker.append(session_task(0), Some(sender.as_bytes()), Some(event.as_bytes()), 1_795_291_200_000);
    }
    world.start("lw", 1);
    assert!(world.settle(), "{:?}", world.exits);
    let lane = world.processes[0].lanes[0].as_ref().unwrap();
    assert!(lane.is_ready());
    assert_eq!(world.broker.group_offset(session_task(0)), Some(NextOffset(80)));
    assert_eq!(world.broker.committed(MemoryTopic::DeadLetters).len(), 80);
    // Ten senders of each kind beyond those that may, and one that makes the tenth panic too many.
    assert_eq!(lane.stats().wave_records, 10 + 11);
}

#[test]
fn a_record_that_panics_is_as_if_it_had_been_a_dead_letter_all_along() {
    let event = |number: usize, tool: &str| {
        let json = format!(
            r#"{{"id":"e{number}","session_id":"s","kind":"tool","tool":"{tool}","args":{{}},"outcome":"error","error":"x"}}"#
        );
        ("s".to_owned(), Some(json.into_bytes()), 1_795_291_200_000 + number as i64)
    };
    let tools = ["Bash", "Bash", "boom", "Bash", "Bash", "boom", "Bash"];
    let exploding: Vec<Fed> = tools.iter().enumerate().map(|(number, tool)| event(number, tool)).collect();
    // In its place something that was never an event.
    let rubbish = |number: usize| ("s".to_owned(), Some(b"rubbish".to_vec()), 1_795_291_200_000 + number as i64);
    let rejected: Vec<Fed> = tools
        .iter()
        .enumerate()
        .map(|(number, tool)| if *tool == "boom" { rubbish(number) } else { event(number, tool) })
        .collect();
    let (with, without) = (reference(&exploding), reference(&rejected));
    assert_eq!(with.states, without.states);
    let bodies = |outcome: &crate::world::Outcome| -> Vec<(String, bool)> {
        outcome.outputs.values().flatten().map(|seen| (seen.id.clone(), seen.value.is_some())).collect()
    };
    assert_eq!(bodies(&with), bodies(&without));
    let letters: Vec<_> = with
        .outputs
        .values()
        .flatten()
        .filter(|seen| seen.headers.iter().any(|(name, value)| name == "dlq.reason" && value.as_deref() == Some(b"panic")))
        .collect();
    assert_eq!(letters.len(), 2);
    assert!(with.outputs.values().flatten().count() > 2);
}

#[test]
fn the_time_of_a_record_that_panics_counts_wherever_a_commit_fell() {
    let partition = |session: &str| loopwarden::event::partition_of(session.as_bytes(), PARTITIONS);
    let mut sessions = (0..100).map(|number| format!("s{number}")).filter(|name| partition(name) == partition("s"));
    let mut records: Vec<Fed> = (0..3)
        .map(|number| {
            let (session, time) = (sessions.next().unwrap(), 1_795_291_200_000 + number);
            let json = format!(
                r#"{{"id":"e{number}","session_id":"{session}","kind":"tool_call","tool":"t","args":{{}},"time":{time}}}"#
            );
            (session, Some(json.into_bytes()), time)
        })
        .collect();
    // Their timers fall due with it; where memory holds one session, a commit comes between two of them.
    let time = 1_795_291_200_000 + 3_600_000;
    let json = format!(r#"{{"id":"boom","session_id":"s","kind":"tool","tool":"boom","args":{{}},"result":"x","time":{time}}}"#);
    records.push(("s".to_owned(), Some(json.into_bytes()), time));
    let mut world = TestWorld::new(config(50), LaneSettings { cache_bytes_max: 1, ..settings(TIMED) });
    feed(&world.broker, &records);
    world.start("lw", 1);
    assert!(world.settle(), "{:?}", world.exits);
    world.outcome().assert_is(&reference(&records), "cut between timers");
}

#[test]
fn a_timer_that_panics_is_removed_and_reported() {
    let event = |id: &str, session: &str, time: i64| {
        let json = format!(r#"{{"id":"{id}","session_id":"{session}","kind":"tool_call","tool":"t","args":{{}},"time":{time}}}"#);
        (session.to_owned(), Some(json.into_bytes()), time)
    };
    let start = 1_795_291_200_000;
    // `s6` lies in the partition of `timer-boom`, so its events move that task's watermark.
    let partition = |session: &str| loopwarden::event::partition_of(session.as_bytes(), PARTITIONS);
    let other = (0..100).map(|number| format!("s{number}")).find(|name| partition(name) == partition("timer-boom")).unwrap();
    let records = [event("a", "timer-boom", start), event("b", &other, start + 6_000), event("c", &other, start + 7_000)];
    let outcome = reference(&records);
    let letters: Vec<_> = outcome.outputs.values().flatten().collect();
    assert_eq!(letters.len(), 1, "{letters:?}");
    let of = |name: &str| letters[0].headers.iter().find(|(found, _)| found == name).and_then(|(_, value)| value.clone());
    assert_eq!(of("dlq.reason").as_deref(), Some(&b"panic"[..]));
    assert_eq!(of("dlq.field").as_deref(), Some(&b"timer:open_calls"[..]));
    assert_eq!(of("dlq.offset").as_deref(), Some(&b"1"[..]));
    assert_eq!(letters[0].value, None);
}

#[test]
fn a_late_record_that_panics_right_after_a_commit_is_read_again() {
    let event = |id: &str, tool: &str, time: i64| {
        let json =
            format!(r#"{{"id":"{id}","session_id":"s","kind":"tool","tool":"{tool}","args":{{}},"result":"x","time":{time}}}"#);
        ("s".to_owned(), Some(json.into_bytes()), 1_795_291_200_000)
    };
    let records =
        [event("a", "Bash", 1_795_291_200_000), event("b", "boom", 1_795_291_190_000), event("c", "Bash", 1_795_291_200_000)];
    let outcome = reference(&records);
    let outputs: Vec<_> = outcome.outputs.values().flatten().collect();
    assert_eq!(outputs.len(), 1, "{outputs:?}");
}

#[test]
fn a_process_that_died_at_a_record_three_times_puts_it_aside() {
    use loopwarden::task::KillerFile;
    let dir = crate::store::temp_dir::TempDir::new();
    let path = KillerFile::path(dir.path(), 0);
    let records = fleet(5, 60);
    // A process dies in the middle of a batch, whatever it is applying: the file it leaves is what counts.
    let die_at = |world: &mut TestWorld| {
        let suspects = KillerFile::leftovers(dir.path()).unwrap();
        let file = KillerFile::open(&path, &suspects).unwrap();
        world.restart(0);
        let lane = world.processes[0].lanes[0].take().unwrap().with_killer_file(file, &suspects);
        world.processes[0].lanes[0] = Some(lane);
        suspects
    };
    let mut world = TestWorld::new(config(20), settings(TIMED));
    feed(&world.broker, &records);
    world.start("lw", 1);
    assert_eq!(die_at(&mut world), []);
    // Deaths are simulated by writing what a process that dies at offset 3 of task 0 would have left.
    let note = |deaths: u8, is_exact: bool| {
        let mut bytes = vec![1, 0, 0, 0, 0];
        bytes.extend(3_u64.to_be_bytes());
        bytes.extend([deaths, u8::from(is_exact)]);
        std::fs::write(&path, bytes).unwrap();
    };
    note(0, false);
    let first = die_at(&mut world);
    assert_eq!((first[0].deaths, first[0].is_condemned()), (1, false));
    note(1, true);
    assert!(!die_at(&mut world)[0].is_condemned());
    note(2, true);
    assert!(die_at(&mut world)[0].is_condemned());
    // At once: the next record may kill too, and what is known of this one would be forgotten.
    while world.broker.committed(MemoryTopic::DeadLetters).is_empty() {
        world.turn(0, 0);
        world.broker.advance(1);
    }
    assert_eq!(world.broker.group_offset(session_task(0)), Some(NextOffset(4)));
    assert!(world.settle());
    world.audit();
    let letters = world.broker.committed(MemoryTopic::DeadLetters);
    let crash: Vec<_> = letters.iter().filter(|letter| header(letter, "dlq.reason").as_deref() == Some("crash")).collect();
    assert_eq!(crash.len(), 1);
    assert_eq!(header(crash[0], "dlq.offset").as_deref(), Some("3"));
    // Everything went well: nothing is left for the next start.
    assert_eq!(KillerFile::leftovers(dir.path()).unwrap(), []);
}

#[test]
fn a_record_that_kills_its_process_kills_three_and_no_more() {
    use loopwarden::task::KillerFile;
    const DIR: &str = "LOOPWARDEN_TEST_DEATHS";
    if let Some(dir) = std::env::var_os(DIR) {
        // A process of its own: what it notes is all that outlives it.
        let dir = std::path::PathBuf::from(dir);
        let suspects = KillerFile::leftovers(&dir).unwrap();
        let file = KillerFile::open(&KillerFile::path(&dir, 0), &suspects).unwrap();
        let mut records = fleet(5, 60);
        let fatal = br#"{"id":"fatal","session_id":"s-fatal","kind":"tool","tool":"die","args":{},"result":"x"}"#;
        records.insert(30, ("s-fatal".to_owned(), Some(fatal.to_vec()), records[30].2));
        let mut world = TestWorld::new(config(20), settings(TIMED));
        feed(&world.broker, &records);
        world.start("lw", 1);
        let lane = world.processes[0].lanes[0].take().unwrap().with_killer_file(file, &suspects);
        world.processes[0].lanes[0] = Some(lane);
        assert!(world.settle());
        let letters = world.broker.committed(MemoryTopic::DeadLetters);
        let reasons: Vec<_> = letters.iter().filter_map(|letter| header(letter, "dlq.reason")).collect();
        assert_eq!(reasons.iter().filter(|reason| *reason == "crash").count(), 1, "{reasons:?}");
        return;
    }
    let dir = crate::store::temp_dir::TempDir::new();
    let run = || {
        let mut process = std::process::Command::new(std::env::current_exe().unwrap());
        let name = "poison::a_record_that_kills_its_process_kills_three_and_no_more";
        process.args(["--exact", name, "--nocapture"]).env(DIR, dir.path()).output().unwrap()
    };
    for death in 1..=3 {
        let output = run();
        assert_eq!(output.status.code(), None, "process {death} lived: {}", String::from_utf8_lossy(&output.stderr));
    }
    let output = run();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
    assert_eq!(KillerFile::leftovers(dir.path()).unwrap(), []);
}
