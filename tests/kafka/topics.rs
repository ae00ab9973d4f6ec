//! Topics: created as planned, checked against it, and the errors people see when something is missing.

use loopwarden::log::Flow;
use loopwarden::log::LogError;
use loopwarden::log::LogEvent;
use loopwarden::log::kafka::KafkaLog;
use loopwarden::log::kafka::KafkaOptions;
use loopwarden::log::kafka::admin;
use loopwarden::log::kafka::admin::Admin;
use loopwarden::log::kafka::admin::Created;
use loopwarden::log::kafka::range::Bound;
use loopwarden::log::kafka::range::KafkaRange;

use crate::broker;
use crate::world::PATIENCE;
use crate::world::World;

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
    assert_eq!(admin.cluster_id(), admin.cluster_id());
    assert!(!admin.cluster_id().expect("an id").is_empty());
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
