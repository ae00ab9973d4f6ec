//! Plain counters of a lane. `telemetry` names and sums them; nobody locks anything per event.

use loopwarden_core::event::Stage;
use loopwarden_core::policy::Detector;

/// Upper bounds of a histogram's buckets, microseconds; the last bucket has none.
pub const BUCKETS_US: [u64; 15] = [
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    5_000_000,
    30_000_000,
    300_000_000,
];

/// Steps of a commit. The first three are those of a log with a broker; `commit` is the decision, `store` the state after it.
pub const COMMIT_STEPS: [&str; 5] = ["send", "drain", "offsets", "commit", "store"];

/// Counts of durations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Histogram {
    /// One per bound of [`BUCKETS_US`], and one above; not cumulative.
    pub buckets: [u64; 16],
    /// Sum of all. Microseconds.
    pub sum_us: u64,
}

impl Histogram {
    /// Counts a duration.
    pub fn note_us(&mut self, us: u64) {
        let at = BUCKETS_US.partition_point(|bound| *bound < us);
        if let Some(bucket) = self.buckets.get_mut(at) {
            *bucket += 1;
        }
        self.sum_us += us;
    }

    /// How many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Adds another's.
    pub fn add(&mut self, other: &Self) {
        add(&mut self.buckets, &other.buckets);
        self.sum_us += other.sum_us;
    }
}

fn add<const N: usize>(to: &mut [u64; N], from: &[u64; N]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += from;
    }
}

/// Place of a stage in lists by stage.
pub(super) const fn stage_at(stage: Stage) -> usize {
    match stage {
        Stage::Session => 0,
        Stage::Swarm => 1,
    }
}

/// One more in a counter of a closed list.
pub(super) fn bump<const N: usize>(counters: &mut [u64; N], at: usize) {
    if let Some(counter) = counters.get_mut(at) {
        *counter += 1;
    }
}

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $add:ident;)*) => {
        /// Counters of a lane, or of several added up.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[$doc])* pub $name: $type,)*
        }

        impl Stats {
            /// Adds another lane's, or what a commit made true.
            pub fn add(&mut self, other: &Self) {
                $(stats!(@$add self.$name, other.$name);)*
            }
        }
    };
    (@one $to:expr, $from:expr) => { $to = $to.saturating_add($from) };
    (@list $to:expr, $from:expr) => { add(&mut $to, &$from) };
    (@lists $to:expr, $from:expr) => { for (to, from) in $to.iter_mut().zip(&$from) { add(to, from) } };
    (@histograms $to:expr, $from:expr) => { for (to, from) in $to.iter_mut().zip(&$from) { to.add(from) } };
}

stats! {
    /// Events by kind, in the order of the wire's list: `tool_call` `tool_result` `tool` `message` `session_start` `session_end`
    /// `progress` `reset` `ack`.
    events: [u64; 9] = list;
    /// Bytes of record values, of the session stage.
    event_bytes: u64 = one;
    /// Dead letters by [`loopwarden_core::event::Reason`], in the order of its list.
    rejected: [u64; 15] = list;
    /// Records below the next offset: read again after a rewind or a rebalance.
    skipped: u64 = one;
    /// Redelivered events.
    duplicates: u64 = one;
    /// Event time moved up to the session's last time.
    late: u64 = one;
    /// Event time moved down to the record timestamp's bound.
    clamped: u64 = one;
    /// Event time that looks like seconds where milliseconds are meant.
    in_seconds: u64 = one;
    /// Gaps in a producer's counter.
    seq_gaps: u64 = one;
    /// A producer's counter went back.
    seq_disorder: u64 = one;
    /// Results without a call.
    orphan_results: u64 = one;
    /// Events without arguments (calls), result (results), time, agent.
    without: [u64; 4] = list;
    /// Records whose key is not their session.
    key_mismatch: u64 = one;
    /// Records where murmur2 puts them, and elsewhere.
    placement: [u64; 2] = list;
    /// Findings by detector and mode (off, shadow, nudge, block).
    detections: [[u64; 4]; Detector::COUNT] = lists;
    /// Commands by action (nudge, block, unblock) and mode (live, shadow, replay).
    commands: [[u64; 3]; 3] = lists;
    /// Commands that had expired when they became visible, by action.
    born_expired: [u64; 3] = list;
    /// What workers did: received, applied, ignored (expired, stale, shadow), failed.
    acks: [u64; 6] = list;
    /// Refused calls: by us, by others.
    denied: [u64; 2] = list;
    /// First step after a nudge (changed, repeated, ended), by detector.
    obeyed: [[u64; 3]; Detector::COUNT] = lists;
    /// Record timestamp to commit, by action.
    command_delay: [Histogram; 3] = histograms;
    /// Steps of a commit, in the order of [`COMMIT_STEPS`].
    commit: [Histogram; COMMIT_STEPS.len()] = histograms;
    /// Commits by outcome: committed, aborted, unknown, fenced.
    transactions: [u64; 4] = list;
    /// Transactions of unknown outcome, once restoring has shown it: committed, aborted.
    unknown_resolved: [u64; 2] = list;
    /// Producers opened again: after an outcome that was not success, and because a request might still have been under way.
    reopened: [u64; 2] = list;
    /// Rebalance events: assigned, revoked, lost.
    rebalances: [u64; 3] = list;
    /// Tasks in them.
    tasks_moved: [u64; 3] = list;
    /// How long they took: until each assigned task ran, or each other was let go.
    rebalance_time: [Histogram; 3] = histograms;
    /// Restores finished.
    restores: u64 = one;
    /// Changelog bytes read by them, by stage: session, swarm.
    restore_bytes: [u64; 2] = list;
    /// How long they took, by stage.
    restore_time: [Histogram; 2] = histograms;
    /// Sessions begun.
    sessions_begun: u64 = one;
    /// Sessions forgotten.
    sessions_forgotten: u64 = one;
    /// Timers fired.
    timers_fired: u64 = one;
    /// Panics caught.
    panics: u64 = one;
    /// Agents a `reset` of a session did not reach ([`loopwarden_core::limits::RESET_AGENTS_MAX`]).
    limit_reset_agents: u64 = one;
    /// Texts cut while decoding.
    limit_texts: u64 = one;
    /// Dead letters whose value did not fit ([`loopwarden_core::limits::DEAD_LETTER_BYTES_MAX`]).
    limit_dead_letters: u64 = one;
    /// Input records that were gone before they were read.
    input_lost: u64 = one;
    /// Reports that the swarm stage took.
    swarm_reports: u64 = one;
    /// Calls that reached the swarm stage after their pane was gone.
    swarm_late: u64 = one;
    /// Counters dropped because there were too many, longest unseen first (`keys_max`).
    limit_swarm_keys: u64 = one;
    /// Calls of agents beyond `workers_max` of a pane: they count, their agent does not.
    limit_swarm_workers: u64 = one;
    /// Steps of a window that one report crossed beyond [`loopwarden_core::limits::SWARM_STEPS_MAX`].
    limit_swarm_steps: u64 = one;
    /// Blocks not placed because a session had [`loopwarden_core::limits::ACTIVE_VERDICTS_MAX`] of them; they went out as nudges.
    limit_blocks: u64 = one;
    /// Tokens of events at which a detector of mode `nudge` or `block` found a loop.
    loop_tokens: u64 = one;
    /// Their cost, millionths of a US dollar.
    loop_cost_micro_usd: u64 = one;
    /// Cache look-ups: hit, miss.
    cache: [u64; 2] = list;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_into_the_bucket_whose_bound_holds_the_value() {
        let mut histogram = Histogram::default();
        for us in [0, 250, 251, 300_000_001] {
            histogram.note_us(us);
        }
        assert_eq!((histogram.buckets[0], histogram.buckets[1], histogram.buckets[15]), (2, 1, 1));
        assert_eq!(histogram.count(), 4);
    }

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
