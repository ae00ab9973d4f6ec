//! One replay of a source under one policy.

use std::sync::{Arc, atomic::AtomicBool};

use loopwarden_core::{limits::LANES_MAX, policy::Policy};
use loopwarden_lab::replay::{Found, Listener, Plan};
use loopwarden_lab::{file::REPLAY_PARTITIONS, report::stats::Retain};

use super::input::{self, Source};
use super::progress::ProgressLine;
use crate::{cli::args::ReplayArgs, failure::Failure, output::say};

/// Replays the source once, under one policy. `listener` hears each command as soon as no other can come before it.
pub(crate) fn replay(
    args: &ReplayArgs,
    source: &Source,
    policy: &Arc<Policy>,
    retain: &Arc<Retain>,
    stop: &Arc<AtomicBool>,
    listener: Option<Listener<'_>>,
) -> Result<Found, Failure> {
    let recorded = source.open(REPLAY_PARTITIONS, args.strict)?;
    let plan = Plan {
        app: source.app(),
        policy,
        lateness_ms: source.lateness_ms(),
        threads: threads(args.lanes),
        retain,
        stop,
        is_topic: args.range.topic.is_some(),
    };
    let mut progress = ProgressLine::start(recorded.total);
    let found = loopwarden_lab::replay::replay(&recorded, &plan, &mut progress, listener)?;
    for line in input::told(&recorded) {
        say(line);
    }
    Ok(found)
}

fn threads(asked: u32) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if asked == 0 { cores } else { asked.min(LANES_MAX) as usize }
}
