//! Counters of a lane, each with its metric: name, labels, help and values stand in one row. Nobody locks anything per event;
//! `telemetry` asks for them at scrape time.

use loopwarden_core::engine::{ArmSums, Effects, TrialSums};
use loopwarden_core::event::{Reason, Stage};
use loopwarden_core::policy::Detector;

use crate::metrics::histogram::Histogram;

/// A value of a metric.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A count, or a gauge.
    Number(f64),
    Durations(Histogram),
}

/// Values of a metric, each under label values in the order of the metric's labels.
pub type Samples = Vec<(Vec<String>, Value)>;

/// A metric of lanes. One that ends in `_total` is a counter, any other a histogram.
#[derive(Debug, Clone, Copy)]
pub struct LaneMetric {
    /// Name without the prefix.
    pub name: &'static str,
    /// Labels. A first one `topic` is for the caller to fill in: all of its values are of the topic of events.
    pub labels: &'static [&'static str],
    /// What it tells.
    pub help: &'static str,
    /// Its values.
    pub samples: fn(&Stats) -> Samples,
}

/// The values of a label, in the order in which they are counted.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($variant:ident = $word:literal),* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub(crate) enum $name { $($variant),* }

        impl $name {
            pub(crate) const WORDS: &[&str] = &[$($word),*];
        }
    )*};
}

words! {
    /// Kind of an event.
    Kind {
        ToolCall = "tool_call", ToolResult = "tool_result", Tool = "tool", Message = "message", SessionStart = "session_start",
        SessionEnd = "session_end", Progress = "progress", Reset = "reset", Ack = "ack", Stop = "stop",
        Release = "release", Answer = "answer"
    }
    /// How a transaction ended.
    Ended { Committed = "committed", Aborted = "aborted", Unknown = "unknown", Fenced = "fenced" }
    /// Why a producer was opened again.
    Reopened { Outcome = "outcome", Request = "request" }
    /// What happened to an assignment.
    Rebalance { Assigned = "assigned", Revoked = "revoked", Lost = "lost" }
    /// What an event lacks of what detectors compare.
    Without { Args = "args", Result = "result", Time = "time", Agent = "agent" }
    /// Where a record lies: where its key puts it, or elsewhere.
    Placement { Murmur2 = "murmur2", Other = "other" }
    /// How a commit of unknown outcome had ended.
    Resolved { Committed = "committed", Aborted = "aborted" }
    /// What a look-up in the cache came to.
    LookUp { Hit = "hit", Miss = "miss" }
    /// Step of a commit. The first three are those of a log with a broker; `commit` is the decision, `store` the state after it.
    CommitStep { Send = "send", Drain = "drain", Offsets = "offsets", Commit = "commit", Store = "store" }
    /// Mode of a command.
    Published { Live = "live", Shadow = "shadow", Replay = "replay" }
}

pub const COMMIT_STEPS: &[&str] = CommitStep::WORDS;
const ACTIONS: &[&str] = &["nudge", "block", "unblock"];
const STAGES: &[&str] = &["session", "swarm"];

fn one(count: u64) -> Samples {
    vec![(Vec::new(), Value::Number(count as f64))]
}

fn dollars(micro_usd: u64) -> Samples {
    vec![(Vec::new(), Value::Number(micro_usd as f64 / 1e6))]
}

/// A value of an arm, and its word.
type OfArm = (&'static str, fn(&ArmSums) -> f64);

/// Values of each arm of a trial. A value without a word has detector and arm alone.
fn of_trial(stats: &Stats, values: &[OfArm]) -> Samples {
    let arms = stats.trial.iter().flat_map(|(detector, arm, sums)| {
        values.iter().map(move |(word, value)| {
            let words = [detector.as_str(), arm.as_str(), word];
            let labels = words.into_iter().filter(|word| !word.is_empty()).map(str::to_owned).collect();
            (labels, Value::Number(value(sums)))
        })
    });
    arms.collect()
}

fn list(words: &[&str], counts: &[u64]) -> Samples {
    words.iter().zip(counts).map(|(word, count)| (vec![(*word).to_owned()], Value::Number(*count as f64))).collect()
}

fn durations(words: &[&str], histograms: &[Histogram]) -> Samples {
    words.iter().zip(histograms).map(|(word, histogram)| (vec![(*word).to_owned()], Value::Durations(*histogram))).collect()
}

fn lists<'a, const N: usize>(outer: impl Iterator<Item = &'a str>, inner: &[&str], counts: &[[u64; N]]) -> Samples {
    let under = |(word, row): (&str, &[u64; N])| {
        list(inner, row).into_iter().map(move |(labels, value)| ([vec![word.to_owned()], labels].concat(), value)).collect()
    };
    outer.zip(counts).flat_map(|row| -> Samples { under(row) }).collect()
}

/// By detector and mode. What never happened is not shown.
fn by_detector<const N: usize>(words: &[&str], counts: &[[u64; N]; Detector::COUNT]) -> Samples {
    let mut samples = lists(Detector::ALL.iter().map(|detector| detector.as_str()), words, counts);
    samples.retain(|(_, value)| *value != Value::Number(0.0));
    samples
}

/// Place of a stage in lists by stage.
pub(crate) const fn stage_at(stage: Stage) -> usize {
    match stage {
        Stage::Session => 0,
        Stage::Swarm => 1,
    }
}

/// So many more in a counter of a closed list.
pub(crate) fn count<const N: usize>(counters: &mut [u64; N], at: usize, more: u64) {
    if let Some(counter) = counters.get_mut(at) {
        *counter += more;
    }
}

/// One more in a counter of a closed list.
pub(crate) fn bump<const N: usize>(counters: &mut [u64; N], at: usize) {
    count(counters, at, 1);
}

/// One more duration in a histogram of a closed list.
pub(crate) fn note_us<const N: usize>(histograms: &mut [Histogram; N], at: usize, us: u64) {
    if let Some(histogram) = histograms.get_mut(at) {
        histogram.note_us(us);
    }
}

fn add<const N: usize>(to: &mut [u64; N], from: &[u64; N]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += from;
    }
}

/// A row for each field: type, how it is added up, of which counter of an engine it is; where it is a metric of its own, name, labels,
/// help and values. Then a row for each metric of several fields.
macro_rules! stats {
    (fields { $($(#[$doc:meta])* $name:ident: $type:ty = $add:ident $(of $counter:ident)?
        $(, $metric:literal [$($label:literal),*] $help:literal $samples:expr)?;)* }
        sums { $($more:literal [$($more_label:literal),*] $more_help:literal $more_samples:expr;)* }) => {
        /// Counters of a lane, or of several added up.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[$doc])* $(#[doc = $help])? pub $name: $type,)*
        }

        impl Stats {
            /// Metrics of lanes.
            pub const METRICS: &[LaneMetric] = &[
                $($(LaneMetric { name: $metric, labels: &[$($label),*], help: $help, samples: $samples },)?)*
                $(LaneMetric { name: $more, labels: &[$($more_label),*], help: $more_help, samples: $more_samples },)*
            ];

            /// Adds another lane's, or what a commit made true.
            pub fn add(&mut self, other: &Self) {
                $(stats!(@$add self.$name, other.$name);)*
            }

            /// Adds what an input was in an engine.
            pub(crate) fn note(&mut self, effects: &Effects) {
                let counters = &effects.counters;
                $($(stats!(@note $add self.$name, counters.$counter);)?)*
                self.note_cost(effects);
            }
        }
    };
    (@note one $to:expr, $from:expr) => { $to = $to.saturating_add(u64::from($from)) };
    (@note list $to:expr, $from:expr) => { if let Some(at) = $from { bump(&mut $to, at as usize) } };
    (@note lists $to:expr, $from:expr) => {
        if let Some((detector, at)) = $from && let Some(of_detector) = $to.get_mut(usize::from(detector.number())) {
            bump(of_detector, at as usize)
        }
    };
    (@one $to:expr, $from:expr) => { $to = $to.saturating_add($from) };
    (@list $to:expr, $from:expr) => { add(&mut $to, &$from) };
    (@lists $to:expr, $from:expr) => { for (to, from) in $to.iter_mut().zip(&$from) { add(to, from) } };
    (@sums $to:expr, $from:expr) => { $to.add(&$from) };
    (@histograms $to:expr, $from:expr) => { for (to, from) in $to.iter_mut().zip(&$from) { to.add(from) } };
}

stats! {
    fields {
        events: [u64; Kind::WORDS.len()] = list,
            "events_total" ["topic", "kind"] "Events applied" |stats| list(Kind::WORDS, &stats.events);
        event_bytes: u64 = one,
            "event_bytes_total" ["topic"] "Bytes of record values" |stats| one(stats.event_bytes);
        rejected: [u64; Reason::ALL.len()] = list,
            "rejected_total" ["topic", "reason"] "Dead letters" |stats| list(&Reason::ALL.map(Reason::as_str), &stats.rejected);
        /// Records below the next offset: read again after a rewind or a rebalance.
        skipped: u64 = one;
        duplicates: u64 = one of duplicate,
            "duplicates_total" ["topic"] "Redelivered events, dropped" |stats| one(stats.duplicates);
        late: u64 = one of late,
            "late_total" ["topic"] "Events whose time was moved up to the session's last" |stats| one(stats.late);
        clamped: u64 = one of clamped,
            "clamped_total" ["topic"] "Events whose time was moved down to what their record allows" |stats| one(stats.clamped);
        /// Event time that looks like seconds where milliseconds are meant.
        in_seconds: u64 = one;
        seq_gaps: u64 = one of seq_gap,
            "seq_gaps_total" ["topic"] "Gaps in a producer's counter" |stats| one(stats.seq_gaps);
        seq_disorder: u64 = one of seq_disorder,
            "seq_disorder_total" ["topic"] "A producer's counter went back" |stats| one(stats.seq_disorder);
        orphan_results: u64 = one of orphan_result,
            "orphan_results_total" ["topic"] "Results without a call" |stats| one(stats.orphan_results);
        without: [u64; Without::WORDS.len()] = list,
            "events_without_total" ["topic", "what"] "Events without what detectors compare"
            |stats| list(Without::WORDS, &stats.without);
        wave_records: u64 = one,
            "wave_records_total" ["topic"] "Bad records beyond those of the senders that may send some" |stats| one(stats.wave_records);
        key_mismatch: u64 = one,
            "key_mismatch_total" ["topic"] "Records whose key is not their session" |stats| one(stats.key_mismatch);
        placement: [u64; Placement::WORDS.len()] = list,
            "placement_total" ["by"] "Records where murmur2 puts them, and elsewhere"
            |stats| list(Placement::WORDS, &stats.placement);
        detections: [[u64; 4]; Detector::COUNT] = lists,
            "detections_total" ["detector", "mode"] "Findings, published or not"
            |stats| by_detector(&["off", "shadow", "nudge", "block"], &stats.detections);
        commands: [[u64; Published::WORDS.len()]; 3] = lists,
            "commands_total" ["action", "mode"] "Commands, counted after the commit"
            |stats| lists(ACTIONS.iter().copied(), Published::WORDS, &stats.commands);
        born_expired: [u64; 3] = list,
            "born_expired_total" ["action"] "Commands that had expired when they were committed"
            |stats| list(ACTIONS, &stats.born_expired);
        acks: [u64; 6] = list of ack,
            "acks_total" ["ack"] "What workers did with commands"
            |stats| list(&["received", "applied", "ignored_expired", "ignored_stale", "ignored_shadow", "failed"], &stats.acks);
        denied: [u64; 2] = list of denied,
            "denied_total" ["by"] "Refused calls" |stats| list(&["us", "other"], &stats.denied);
        spawns: u64 = one of spawned,
            "spawns_total" [] "Calls of class spawn that were made" |stats| one(stats.spawns);
        joined: u64 = one of joined,
            "tree_agents_total" [] "Agents that name a root or a parent" |stats| one(stats.joined);
        obeyed: [[u64; 3]; Detector::COUNT] = lists of nudge_response,
            "obeyed_total" ["detector", "answer"] "First step after a nudge"
            |stats| by_detector(&["changed", "repeated", "ended"], &stats.obeyed);
        command_delay: [Histogram; 3] = histograms,
            "command_delay_seconds" ["action"] "Record timestamp to commit" |stats| durations(ACTIONS, &stats.command_delay);
        commit: [Histogram; CommitStep::WORDS.len()] = histograms,
            "commit_seconds" ["step"] "Where a commit spends its time" |stats| durations(CommitStep::WORDS, &stats.commit);
        transactions: [u64; Ended::WORDS.len()] = list,
            "transactions_total" ["outcome"] "Commits by how they ended" |stats| list(Ended::WORDS, &stats.transactions);
        unknown_resolved: [u64; Resolved::WORDS.len()] = list,
            "unknown_resolved_total" ["as"] "Commits of unknown outcome, once a restore has shown how they ended"
            |stats| list(Resolved::WORDS, &stats.unknown_resolved);
        reopened: [u64; Reopened::WORDS.len()] = list,
            "producers_replaced_total" ["cause"] "Producers opened again" |stats| list(Reopened::WORDS, &stats.reopened);
        rebalances: [u64; Rebalance::WORDS.len()] = list,
            "rebalances_total" ["kind"] "Rebalance events" |stats| list(Rebalance::WORDS, &stats.rebalances);
        tasks_moved: [u64; Rebalance::WORDS.len()] = list,
            "tasks_moved_total" ["kind"] "Tasks in them" |stats| list(Rebalance::WORDS, &stats.tasks_moved);
        rebalance_time: [Histogram; Rebalance::WORDS.len()] = histograms,
            "rebalance_seconds" ["kind"] "How long they took, until tasks ran or were let go"
            |stats| durations(Rebalance::WORDS, &stats.rebalance_time);
        /// Restores finished.
        restores: u64 = one;
        restore_bytes: [u64; 2] = list,
            "restore_bytes_total" ["stage"] "Changelog bytes read" |stats| list(STAGES, &stats.restore_bytes);
        restore_time: [Histogram; 2] = histograms,
            "restore_seconds" ["stage"] "How long restores took" |stats| durations(STAGES, &stats.restore_time);
        sessions_begun: u64 = one of session_began;
        sessions_forgotten: u64 = one;
        timers_fired: u64 = one;
        /// Panics caught.
        panics: u64 = one;
        /// Agents a `reset` of a session did not reach ([`loopwarden_core::limits::RESET_AGENTS_MAX`]).
        limit_reset_agents: u64 = one;
        /// Stops not taken because a task had [`loopwarden_core::limits::STOPS_MAX`] of them.
        limit_stops: u64 = one;
        /// Texts cut while decoding.
        limit_texts: u64 = one;
        /// Dead letters whose value did not fit ([`loopwarden_core::limits::DEAD_LETTER_BYTES_MAX`]).
        limit_dead_letters: u64 = one;
        /// Input records that were gone before they were read.
        input_lost: u64 = one;
        /// Reports that the swarm stage took.
        swarm_reports: u64 = one;
        /// Calls that reached the swarm stage after their pane was gone.
        swarm_late: u64 = one of swarm_late;
        /// Calls that reached the swarm stage after its time had moved on without their partition, which lagged for too long.
        limit_swarm_lag: u64 = one of swarm_lag;
        /// Counters dropped because there were too many, longest unseen first (`keys_max`).
        limit_swarm_keys: u64 = one;
        /// Calls of agents beyond `workers_max` of a pane: they count, their agent does not.
        limit_swarm_workers: u64 = one of swarm_further;
        /// Steps of a window that one report crossed beyond [`loopwarden_core::limits::SWARM_STEPS_MAX`].
        limit_swarm_steps: u64 = one of swarm_steps;
        /// Blocks not placed because a session had [`loopwarden_core::limits::ACTIVE_VERDICTS_MAX`] of them; they went out as nudges.
        limit_blocks: u64 = one of block_left_out;
        loop_calls: u64 = one,
            "loop_calls_total" [] "Calls and texts that a detector of mode nudge or block finds in a loop" |stats| one(stats.loop_calls);
        loop_tokens: u64 = one,
            "loop_tokens_total" [] "Tokens in the usage of these calls" |stats| one(stats.loop_tokens);
        /// Millionths of a US dollar.
        loop_cost_micro_usd: u64 = one,
            "loop_cost_usd_total" [] "Cost in the usage of these calls" |stats| dollars(stats.loop_cost_micro_usd);
        usage_tokens: u64 = one,
            "usage_tokens_total" [] "Tokens in the usage of all events" |stats| one(stats.usage_tokens);
        /// Millionths of a US dollar.
        usage_cost_micro_usd: u64 = one,
            "usage_cost_usd_total" [] "Cost in the usage of all events" |stats| dollars(stats.usage_cost_micro_usd);
        trial: TrialSums = sums,
            "trial_agents_total" ["detector", "arm", "outcome"] "Agents of a trial whose first loop is over: who left it and went on, and others"
            |stats| of_trial(stats, &[("went_on", |arm| arm.all().went_on as f64), ("others", |arm| (arm.all().agents - arm.all().went_on) as f64)]);
        unpriced_tokens: u64 = one,
            "unpriced_tokens_total" [] "Tokens in the usage of events without a cost whose model has no price, where the policy has prices"
            |stats| one(stats.unpriced_tokens);
        cache: [u64; LookUp::WORDS.len()] = list,
            "session_cache_total" ["result"] "Look-ups in the cache" |stats| list(LookUp::WORDS, &stats.cache);
    }
    sums {
        "trial_calls_total" ["detector", "arm"] "Calls of these agents in the loop, after its first command"
            |stats| of_trial(stats, &[("", |arm| arm.calls.sum as f64)]);
        "trial_cost_usd_total" ["detector", "arm"] "Cost of these calls"
            |stats| of_trial(stats, &[("", |arm| arm.micro_usd.sum as f64 / 1e6)]);
        "session_turnover_total" ["how"] "Sessions begun, and forgotten, since the start"
            |stats| list(&["begun", "forgotten"], &[stats.sessions_begun, stats.sessions_forgotten]);
        "limit_hits_total" ["limit"] "What a bound dropped" |stats| list(
            &[
                "reset_agents", "texts", "dead_letters", "blocks", "swarm_keys", "swarm_workers", "swarm_steps", "swarm_late",
                "swarm_lag", "stops",
            ],
            &[
                stats.limit_reset_agents,
                stats.limit_texts,
                stats.limit_dead_letters,
                stats.limit_blocks,
                stats.limit_swarm_keys,
                stats.limit_swarm_workers,
                stats.limit_swarm_steps,
                stats.swarm_late,
                stats.limit_swarm_lag,
                stats.limit_stops,
            ],
        );
    }
}

impl Stats {
    /// Adds what an event has cost, and the agent of a trial whose loop is over with it.
    fn note_cost(&mut self, effects: &Effects) {
        let spending = &effects.spending;
        if spending.event.is_known() {
            self.usage_tokens = self.usage_tokens.saturating_add(spending.event.tokens);
            self.usage_cost_micro_usd = self.usage_cost_micro_usd.saturating_add(spending.event.micro_usd);
        }
        if spending.known | spending.found != 0 {
            let cost = spending.in_loops();
            self.loop_calls = self.loop_calls.saturating_add(cost.calls);
            self.loop_tokens = self.loop_tokens.saturating_add(cost.tokens);
            self.loop_cost_micro_usd = self.loop_cost_micro_usd.saturating_add(cost.micro_usd);
        }
        if let Some(agent) = &effects.trial {
            self.trial.note(agent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_adds_every_kind_of_counter() {
        let mut one = Stats { skipped: 1, ..Stats::default() };
        one.commands[1][2] = 3;
        one.commit[0].note_us(7);
        let mut sum = one.clone();
        sum.add(&one);
        assert_eq!((sum.skipped, sum.commands[1][2], sum.commit[0].sum_us), (2, 6, 14));
    }
}
