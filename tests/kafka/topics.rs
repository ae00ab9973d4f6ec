//! Topics: created as planned, checked against it, and the errors people see when something is missing.

use loopwarden::log::kafka::admin::topics::{Admin, Created};
use loopwarden::log::kafka::readers::range::{Bound, KafkaRange};
use loopwarden::log::kafka::{KafkaLog, KafkaOptions};
use loopwarden::log::{Flow, LogError, LogEvent};
use loopwarden::{event::Stage, identity::hash_text, log::kafka::admin::topics as admin};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use crate::broker;
use crate::world::{PATIENCE, World};

fn fatal(result: Result<KafkaLog, LogError>) -> (&'static str, String) {
    match result.map(|_| ()) {
        Err(LogError::Fatal { code, message }) => (code, message),
        other => panic!("not fatal: {other:?}"),
    }
}

#[test]
fn topics_are_made_as_planned_and_making_them_again_changes_nothing() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let mut options = World::new(bootstrap, 1).options;
    options.app.push_str("-planned");
    options.topics.input.push_str("-planned");
    options.topics.commands.push_str("-planned");
    options.topics.state.push_str("-planned");
    options.topics.dead_letters.push_str("-planned");
    let admin = Admin::new(&options).expect("an admin client");
    let plans = admin::plan(&options, 3, 1);
    let missing = admin.check(&plans, false).expect("checked");
    assert_eq!(missing.iter().map(|problem| problem.code).collect::<Vec<_>>(), vec!["E0102"; 7]);
    let created = admin.create(&plans).expect("created");
    assert!(created.iter().all(|(_, created)| *created == Created::New), "{created:?}");
    assert_eq!(admin.check(&plans, true), Ok(vec![]));
    let again = admin.create(&plans).expect("created again");
    assert!(again.iter().all(|(_, created)| *created == Created::Existed), "{again:?}");
    assert_eq!(admin.cluster_id(&|_| ()), admin.cluster_id(&|_| ()));
    assert!(!admin.cluster_id(&|_| ()).expect("an id").is_empty());
}

#[test]
fn a_missing_topic_is_named_with_those_that_look_similar() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    let mut options = world.options.clone();
    options.topics.input = options.topics.input.replace(".events", "_event");
    let (code, message) = fatal(KafkaLog::open(options));
    assert_eq!(code, "E0102");
    assert!(message.contains(&world.options.topics.input), "{message}");
    assert!(message.contains("loopwarden topics create"), "{message}");
}

#[test]
fn a_changelog_that_does_not_fit_its_input_is_refused() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 2);
    let other = World::new(bootstrap, 3);
    let mut options = world.options.clone();
    options.topics.input = other.options.topics.input;
    let (code, message) = fatal(KafkaLog::open(options.clone()));
    assert_eq!(code, "E0104", "{message}");
    let admin = Admin::new(&options).expect("an admin client");
    let plans = admin::plan(&options, 2, 1);
    let problems = admin.check(&plans, true).expect("checked");
    assert!(
        problems.iter().any(|problem| problem.code == "E0104" && problem.message.contains("both must be equal")),
        "{problems:?}"
    );
}

#[test]
fn a_broker_that_is_not_there_is_said_to_be_so() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let mut options = World::new(bootstrap, 1).options;
    options.bootstrap_servers = "127.0.0.1:1".into();
    let (code, message) = fatal(KafkaLog::open(options));
    assert_eq!(code, "E0101", "{message}");
}

fn read_all(options: &KafkaOptions, from: Bound, to: Bound) -> Vec<(u32, u64)> {
    let mut range = KafkaRange::open(options, from, to).expect("a range");
    let mut seen = Vec::new();
    while range
        .poll(PATIENCE, &mut |partition, record| {
            seen.push((partition, record.meta.offset.0));
            Flow::Continue
        })
        .expect("a poll")
        != LogEvent::End
    {}
    assert_eq!(range.records(), seen.len() as u64);
    seen.sort_unstable();
    seen
}

#[test]
fn a_range_ends_where_the_topic_ended_when_it_was_opened() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 3);
    world.produce(&[(0, "a", "e0"), (0, "a", "e1"), (2, "c", "e2")]);
    let mut range = KafkaRange::open(&world.options, Bound::Beginning, Bound::End).expect("a range");
    world.produce(&[(0, "a", "later"), (1, "b", "later")]);
    let mut seen = Vec::new();
    while range
        .poll(PATIENCE, &mut |partition, record| {
            seen.push((partition, record.meta.offset.0));
            Flow::Stop
        })
        .expect("a poll")
        != LogEvent::End
    {}
    seen.sort_unstable();
    assert_eq!(seen, vec![(0, 0), (0, 1), (2, 0)]);
    assert_eq!(read_all(&world.options, Bound::Offset(1), Bound::End), vec![(0, 1), (0, 2)]);
    assert_eq!(read_all(&world.options, Bound::Time(4_000_000_000_000), Bound::End), vec![]);
    assert_eq!(read_all(&world.options, Bound::Beginning, Bound::Offset(1)), vec![(0, 0), (1, 0), (2, 0)]);
}

#[test]
fn a_range_comes_in_the_order_of_its_timestamps_even_if_one_partition_is_far_ahead() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 3);
    // More than one partition may hold while it waits for another; and equal times, which go by partition.
    let value = "x".repeat(100_000);
    let mut expected = Vec::new();
    let mut producer = world.writer();
    for at in 0..300_i64 {
        for partition in 0..3_u32 {
            let time_ms = 1_700_000_000_000 + if partition == 1 { 1_000_000 + at } else { at / 7 };
            world.write(&mut producer, partition as i32, &value, time_ms);
            expected.push((time_ms, partition, at as u64));
        }
    }
    world.flush(&producer);
    expected.sort_unstable();
    let mut range = KafkaRange::open(&world.options, Bound::Beginning, Bound::End).expect("a range");
    let mut seen = Vec::new();
    while range
        .poll(PATIENCE, &mut |partition, record| {
            assert_eq!(record.value.map(<[u8]>::len), Some(value.len()));
            seen.push((record.meta.timestamp.0, partition, record.meta.offset.0));
            Flow::Continue
        })
        .expect("a poll")
        != LogEvent::End
    {}
    let differs = seen.iter().zip(&expected).position(|(seen, expected)| seen != expected);
    assert_eq!(differs.map(|at| (at, seen[at], expected[at])), None, "the first that is out of order");
    assert_eq!(seen.len(), expected.len());
}

/// What `check --connect` says, and its exit code.
fn checked(world: &World) -> (Option<i32>, String) {
    let output = crate::run::program(world, &["check", "--connect"]).output().expect("the program");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
}

#[test]
fn check_tells_every_problem_of_the_topics_with_its_code_and_the_way_out() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    // Names of tests are times, three digits from those of others: topics that look similar would be errors of their own.
    let world = World::attach(bootstrap, hash_text(&loopwarden::clock::now_ms().to_string()).hash128().to_string());
    let (code, told) = checked(&world);
    assert_eq!(code, Some(69), "{told}");
    assert_eq!(told.matches("error[E0102]: ").count(), 1, "{told}");
    let (_, topics) =
        told.split_once("each of these topics does not exist; create it with: loopwarden topics create\n").expect("a list");
    assert_eq!(topics.lines().filter(|line| line.starts_with("  ")).count(), 7, "{told}");

    // A state topic that forgets, a changelog that deletes and does not fit its input, and one that is not there.
    let admin = Admin::new(&world.options).expect("an admin client");
    let mut plans = admin::plan(&world.options, 2, 1);
    plans.retain(|plan| plan.purpose != admin::Purpose::DeadLetters);
    for plan in &mut plans {
        match plan.purpose {
            admin::Purpose::State => plan.config.retain(|(key, _)| *key != "cleanup.policy"),
            admin::Purpose::Changelog(Stage::Session) => {
                plan.partitions = 3;
                plan.config.retain(|(key, _)| *key != "cleanup.policy");
            }
            admin::Purpose::Input => plan.config.retain(|(key, _)| *key != "message.timestamp.type"),
            _ => {}
        }
    }
    admin.create(&plans).expect("topics");
    let (code, told) = checked(&world);
    assert_eq!(code, Some(69), "{told}");
    let topics = &world.options.topics;
    let changelog = world.options.changelog_topic(Stage::Session);
    for line in [
        format!("error[E0104]: topic \"{}\": cleanup.policy is delete, should be compact", topics.state),
        format!("error[E0104]: topic \"{changelog}\": cleanup.policy is delete, should be compact"),
        format!(
            "error[E0104]: topic \"{changelog}\": has 3 partitions, its input \"{}\" has 2: both must be equal",
            topics.input
        ),
        format!("error[E0102]: topic \"{}\": does not exist", topics.dead_letters),
        format!("warning[E0104]: topic \"{}\": message.timestamp.type is CreateTime, should be LogAppendTime", topics.input),
    ] {
        assert!(told.contains(&line), "{line} in\n{told}");
    }
    // The same by `topics check`, which says nothing else.
    let output = crate::run::program(&world, &["topics", "check"]).output().expect("the program");
    assert_eq!(output.status.code(), Some(69));
    assert!(
        String::from_utf8_lossy(&output.stdout).ends_with("4 errors, 1 warning\n"),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn a_process_does_not_start_on_a_changelog_that_deletes_or_forgets_deletions_early() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::named(bootstrap);
    let mut plans = admin::plan(&world.options, 1, 1);
    for plan in &mut plans {
        match plan.purpose {
            admin::Purpose::Changelog(Stage::Session) => plan.config.retain(|(key, _)| *key != "cleanup.policy"),
            admin::Purpose::Changelog(Stage::Swarm) => {
                plan.config.retain(|(key, _)| *key != "delete.retention.ms");
                plan.config.push(("delete.retention.ms", "86400000".into()));
            }
            // Told, and no reason to stop.
            admin::Purpose::SwarmCounts => plan.config.retain(|(key, _)| *key != "message.timestamp.type"),
            _ => {}
        }
    }
    Admin::new(&world.options).expect("an admin client").create(&plans).expect("topics");
    let scratch = crate::run::Scratch::new("deletes");
    let arguments = ["run", "--data-dir", &scratch.0.to_string_lossy()];
    let run = crate::run::program(&world, &arguments).output().expect("the program");
    let told = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(69), "{told}");
    for line in [
        format!(
            "error[E0104]: topic \"{}\": cleanup.policy is delete, should be compact",
            world.options.changelog_topic(Stage::Session)
        ),
        format!(
            "error[E0104]: topic \"{}\": delete.retention.ms is 86400000, should be 259200000",
            world.options.changelog_topic(Stage::Swarm)
        ),
        format!(
            "warning[E0104]: topic \"{}\": message.timestamp.type is CreateTime, should be LogAppendTime",
            world.options.input_topic(Stage::Swarm)
        ),
    ] {
        assert!(told.contains(&line), "{line} in\n{told}");
    }
}

#[test]
fn internal_topics_of_a_group_that_has_worked_have_vanished_and_are_not_made_anew() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::named(bootstrap);
    let mut plans = admin::plan(&world.options, 1, 1);
    plans.retain(|plan| !plan.purpose.is_internal());
    Admin::new(&world.options).expect("an admin client").create(&plans).expect("topics");
    let member: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", bootstrap).set("group.id", &world.options.app).create().expect("a consumer");
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&world.options.topics.input, 0, Offset::Offset(0)).expect("an offset");
    member.commit(&list, CommitMode::Sync).expect("committed");

    let (code, told) = checked(&world);
    assert_eq!(code, Some(69), "{told}");
    assert_eq!(told.matches("error[E0105]").count(), 3, "{told}");
    assert!(told.contains("loopwarden explain E0105"), "{told}");
    let scratch = crate::run::Scratch::new("vanished");
    let arguments = ["run", "--data-dir", &scratch.0.to_string_lossy()];
    let run = crate::run::program(&world, &arguments).output().expect("the program");
    assert_eq!(run.status.code(), Some(69));
    assert!(String::from_utf8_lossy(&run.stderr).contains("error[E0105]"), "{}", String::from_utf8_lossy(&run.stderr));
}
