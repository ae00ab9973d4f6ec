//! A range of a topic, as commands that read one are told it: where it lies, and how far it goes.

use loopwarden_core::event::EventTime;
use loopwarden_kafka::KafkaOptions;
use loopwarden_kafka::readers::range::{Bound, Extent, KafkaRange};
use loopwarden_log::clock;
use loopwarden_settings::{Config, Diagnostic};

use crate::cli::args::{ConfigArgs, LogArgs, RangeArgs};
use crate::{cli::shared::setup, exit_code, failure::Failure, server::kafka_options};

/// Units of a duration. Milliseconds.
const UNITS: [(&str, i64); 6] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("w", 604_800_000)];

/// A range that is fixed, and what its live run was told.
pub(crate) struct TopicRange {
    /// The range.
    pub extent: Extent,
    /// How to reach it.
    pub options: KafkaOptions,
    /// The settings of the live run.
    pub config: Config,
}

/// Fixes the range that the arguments name, if they name one. `sets` are settings, as `kafka.group=mine`.
///
/// # Errors
/// Settings, brokers, topic, or a bound that cannot be read.
pub(crate) fn open(args: &RangeArgs, sets: Vec<String>, log: &LogArgs) -> Result<Option<TopicRange>, Failure> {
    let Some(topic) = &args.topic else {
        // Clap lets them pass beside files, and whoever gave one would think that it was obeyed.
        let flags = [("--from", args.from.is_some()), ("--to", args.to.is_some()), ("--set kafka.…", !sets.is_empty())];
        return match flags.into_iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) => {
                Err(Failure::new(exit_code::USAGE, format!("error: {flag} is about a topic: give --topic with it")))
            }
            None => Ok(None),
        };
    };
    let now_ms = clock::now_ms();
    let from = bound("--from", args.from.as_deref().unwrap_or("earliest"), now_ms)?;
    let to = bound("--to", args.to.as_deref().unwrap_or("now"), now_ms)?;
    let config = setup::load(&ConfigArgs { config: args.config.clone(), set: sets, ..ConfigArgs::default() }, log)?.config;
    let mut options = kafka_options(&config, setup::kafka_of(&config)?, 0)?;
    options.topics.input.clone_from(topic);
    let extent = KafkaRange::fix(&options, from, to)?;
    Ok(Some(TopicRange { extent, options, config }))
}

/// Settings among the keys of a policy: those of Kafka, and limits. A policy has no such tables.
pub(crate) fn split_sets(sets: &[String]) -> (Vec<String>, Vec<String>) {
    sets.iter().cloned().partition(|set| set.trim_start().starts_with("kafka.") || is_limit(set))
}

/// Whether a setting is one of those that files have too.
pub(crate) fn is_limit(set: &str) -> bool {
    set.trim_start().starts_with("limits.")
}

/// A place in what is read, as a person writes it.
///
/// # Errors
/// It is none.
pub(crate) fn bound(flag: &str, text: &str, now_ms: i64) -> Result<Bound, Failure> {
    parse_bound(text.trim(), now_ms).ok_or_else(|| {
        Diagnostic::new("E0202", format!("{flag} {text:?} is no place in a topic"))
            .help("as in: 7d, 90m (ago); 2026-11-21T20:00:00Z; 2026-11-21; an offset; earliest; now")
            .into()
    })
}

fn parse_bound(text: &str, now_ms: i64) -> Option<Bound> {
    match text {
        "earliest" | "beginning" => return Some(Bound::Beginning),
        "latest" | "end" | "now" => return Some(Bound::End),
        _ => {}
    }
    if let Ok(offset) = text.parse() {
        return Some(Bound::Offset(offset));
    }
    let at = |text: &str| EventTime::parse_rfc3339(text).map(|time| Bound::Time(time.0));
    at(text).or_else(|| at(&format!("{text}T00:00:00Z"))).or_else(|| ago(text, now_ms))
}

fn ago(text: &str, now_ms: i64) -> Option<Bound> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (count, unit) = text.split_at_checked(digits)?;
    let (_, unit_ms) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let ms = count.parse::<i64>().ok()?.checked_mul(*unit_ms)?;
    Some(Bound::Time(now_ms.saturating_sub(ms).max(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_a_word_an_offset_a_time_or_how_long_ago() {
        const NOW: i64 = 1_795_291_203_120;
        for (text, bound) in [
            ("earliest", Bound::Beginning),
            ("now", Bound::End),
            ("0", Bound::Offset(0)),
            ("88120", Bound::Offset(88_120)),
            ("7d", Bound::Time(NOW - 604_800_000)),
            ("90m", Bound::Time(NOW - 5_400_000)),
            ("250ms", Bound::Time(NOW - 250)),
            ("9999w", Bound::Time(0)),
            ("2026-11-21T20:00:03.120Z", Bound::Time(NOW)),
            ("2026-11-21", Bound::Time(1_795_219_200_000)),
        ] {
            assert_eq!(parse_bound(text, NOW), Some(bound), "{text}");
        }
        for text in ["", "-1", "7", "7 d", "d", "yesterday", "7days", "1.5h", "99999999999999999999w", "2026-13-01", "é"] {
            let is_offset = text.parse::<u64>().is_ok();
            assert_eq!(parse_bound(text, NOW).is_some(), is_offset, "{text}");
        }
    }

    #[test]
    fn settings_of_kafka_are_told_from_keys_of_the_policy() {
        let (kafka, limit, key) = ("kafka.group=mine", "limits.record_bytes_max=9", "detectors.exact_repeat.threshold=5");
        let (settings, keys) = split_sets(&[key, kafka, limit].map(str::to_owned));
        assert_eq!((settings, keys), (vec![kafka.to_owned(), limit.to_owned()], vec![key.to_owned()]));
    }
}
