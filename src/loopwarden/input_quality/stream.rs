//! What the events themselves keep detectors from seeing: no arguments, no answers, two partitioners, clocks that differ, seconds for
//! milliseconds.

use loopwarden_core::limits::BREAKER_SENDERS;
use loopwarden_lab::report::{counted, grouped};
use loopwarden_lane::Stats;
use loopwarden_settings::Diagnostic;

/// Nothing is said before there are so many: the first events of a fleet may be of one kind.
const EVENTS_MIN: u64 = 100;
/// One in so many is more than a slip.
const SHARE: u64 = 100;

/// Agents that are started before a missing parent is worth a word.
const SPAWNS_MIN: u64 = 20;

/// What a running process says once, when it is so: W0301 to W0303, W0305, W0309, W0310. `partitions` of the events, where they are known.
pub(crate) fn of_stream(stats: &Stats, partitions: Option<u32>) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let [calls, _, both, ..] = stats.events;
    if calls + both >= EVENTS_MIN {
        found.extend(without_arguments(stats));
    }
    let [placed, astray] = stats.placement;
    let all = placed + astray;
    // Another partitioner puts one key in so many partitions where this one would, more or less.
    let by_chance = all / u64::from(partitions.unwrap_or(1).max(1));
    if all >= EVENTS_MIN && astray * SHARE >= all && placed > by_chance + all / 4 {
        found.push(
            Diagnostic::new(
                "W0302",
                format!(
                    "{} of {} records lie where Kafka's own partitioner would not put their key",
                    grouped(astray),
                    grouped(all)
                ),
            )
            .help("events of one session may be in two partitions, and count as two; let all producers use murmur2_random"),
        );
    }
    let events: u64 = stats.events.iter().sum();
    if events >= EVENTS_MIN && stats.clamped * SHARE >= events {
        found.push(
            Diagnostic::new(
                "W0303",
                format!("{} of {} events say they are of later than their records", grouped(stats.clamped), grouped(events)),
            )
            .help("their times are moved back; synchronise the clocks of the agents, or leave time out"),
        );
    }
    if events >= EVENTS_MIN {
        found.extend(in_seconds(stats));
    }
    found.extend(without_parents(stats));
    found.extend(waves(stats));
    found
}

/// What a report says of its input: which detectors had nothing to read.
pub(crate) fn of_input(stats: &Stats) -> Vec<String> {
    let [calls, results, both, ..] = stats.events;
    let [_, result, time, _] = stats.without;
    let all = calls + results + both;
    let mut warnings: Vec<String> = without_arguments(stats).iter().map(ToString::to_string).collect();
    if stats.events.iter().all(|count| *count == 0) {
        warnings.push("there is no event in this input".to_owned());
    }
    if results + both > 0 && result == results + both {
        warnings
            .push(format!("none of {} results says what came back: detectors that compare answers saw nothing", grouped(result)));
    }
    if all > 0 && results + both == 0 {
        warnings.push("there are calls, but no results: detectors that compare answers saw nothing".to_owned());
    }
    if all > 0 && time >= all {
        warnings.push("no event says when it happened: windows and rates mean nothing here".to_owned());
    }
    warnings.extend(in_seconds(stats).map(|told| told.to_string()));
    warnings.extend(without_parents(stats).map(|found| found.to_string()));
    warnings
}

fn in_seconds(stats: &Stats) -> Option<Diagnostic> {
    let events: u64 = stats.events.iter().sum();
    (stats.in_seconds > 0 && stats.in_seconds * SHARE >= events).then(|| {
        Diagnostic::new(
            "W0305",
            format!("{} of {} events say they are of January or February 1970", grouped(stats.in_seconds), grouped(events)),
        )
        .help("`time` is in milliseconds since 1970, or RFC 3339; of times in seconds, windows of a minute hold hours")
    })
}

fn waves(stats: &Stats) -> Option<Diagnostic> {
    (stats.wave_records > 0).then(|| {
        let records = counted(stats.wave_records, "record");
        Diagnostic::new(
            "W0310",
            format!("many senders send what is no event: {records} beyond those of {BREAKER_SENDERS} senders"),
        )
        .help("they are dead letters, and their header dlq.reason says why; kafka.on_bad_records = \"stop\" would stop the task")
    })
}

fn without_parents(stats: &Stats) -> Option<Diagnostic> {
    (stats.spawns >= SPAWNS_MIN && stats.joined == 0).then(|| {
        Diagnostic::new("W0309", format!("{} calls start agents, and no event names a root or a parent", grouped(stats.spawns)))
            .help("give agent.root_id or agent.parent_id: without them a tree is only the session that starts agents")
    })
}

fn without_arguments(stats: &Stats) -> Option<Diagnostic> {
    let [calls, _, both, ..] = stats.events;
    let ([args, ..], all) = (stats.without, calls + both);
    (args * 2 > all).then(|| {
        Diagnostic::new("W0301", format!("{} % of {} calls have no arguments", args * 100 / all, grouped(all)))
            .help("detectors that compare calls cannot work; turn on argument capture in the agent")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(stats: &Stats, partitions: u32) -> Vec<&'static str> {
        of_stream(stats, Some(partitions)).iter().map(|found| found.code).collect()
    }

    #[test]
    fn bad_records_of_many_senders_are_told() {
        assert_eq!(codes(&Stats { wave_records: 1, ..Stats::default() }, 1), ["W0310"]);
    }

    #[test]
    fn an_empty_input_is_told_so() {
        assert_eq!(of_input(&Stats::default()), ["there is no event in this input"]);
    }

    #[test]
    fn a_fleet_without_arguments_is_told_so() {
        let mut stats = Stats::default();
        (stats.events[2], stats.without[0]) = (10, 10);
        let told = of_input(&stats);
        assert_eq!(told.len(), 1);
        assert!(told[0].starts_with("warning[W0301]: 100 % of 10 calls"), "{told:?}");
        assert_eq!(codes(&stats, 4), [""; 0], "too few to say so of a stream");
        (stats.events[2], stats.without[0]) = (300, 200);
        assert_eq!(codes(&stats, 4), ["W0301"]);
        stats.without[0] = 150;
        assert_eq!(codes(&stats, 4), [""; 0]);
    }

    #[test]
    fn two_partitioners_are_told_from_one_and_from_another_one() {
        let placed = |placed, astray| Stats { placement: [placed, astray], ..Stats::default() };
        assert_eq!(codes(&placed(1_000, 0), 8), [""; 0]);
        assert_eq!(codes(&placed(125, 875), 8), [""; 0], "every eighth key is placed so by any partitioner");
        assert_eq!(codes(&placed(500, 500), 8), ["W0302"]);
        assert_eq!(codes(&placed(980, 20), 8), ["W0302"]);
        assert_eq!((codes(&placed(800, 200), 2), codes(&placed(500, 500), 2)), (vec!["W0302"], vec![]));
        assert_eq!(codes(&placed(999, 1), 8), [""; 0]);
    }

    #[test]
    fn seconds_for_milliseconds_are_told() {
        let mut stats = Stats { in_seconds: 1, ..Stats::default() };
        stats.events[2] = 100;
        assert_eq!(codes(&stats, 1), ["W0305"]);
        assert!(
            of_input(&stats).iter().any(|told| told.starts_with("warning[W0305]: 1 of 100 events")),
            "{:?}",
            of_input(&stats)
        );
        stats.events[2] = 101;
        assert_eq!(codes(&stats, 1), [""; 0]);
    }

    #[test]
    fn agents_that_start_agents_without_a_parent_are_found() {
        let of = |spawns, joined| codes(&Stats { spawns, joined, ..Stats::default() }, 1);
        assert_eq!((of(20, 0), of(19, 0), of(20, 1)), (vec!["W0309"], vec![], vec![]));
    }

    #[test]
    fn clocks_that_differ_are_told() {
        let mut stats = Stats { clamped: 5, ..Stats::default() };
        stats.events[2] = 1_000;
        assert_eq!(codes(&stats, 1), [""; 0]);
        stats.clamped = 10;
        assert_eq!(codes(&stats, 1), ["W0303"]);
    }
}
