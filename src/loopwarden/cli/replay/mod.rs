//! `replay`: what would have been said to recorded events. The production lanes over files or a range of a topic, virtual time,
//! memory for a store.
//!
//! Each partition has a lane of its own whatever `--lanes` says, and a thread turns several of them: so the cuts of commits, and with
//! them every byte, do not depend on the number of threads.

mod follow;
pub(super) mod input;
pub(super) mod once;
pub(super) mod overrides;
mod progress;
pub(super) mod render;
mod sweep;

use std::sync::atomic::Ordering;
use std::{io, sync::Arc};

use input::Source;
use loopwarden_lab::{known_sessions::KnownSessions, replay::Listener, report::compare::Comparison, report::stats::Retain};
use once::replay;

use crate::cli::args::{LogArgs, ReplayArgs, ReplayFormat};
use crate::cli::shared::{range, setup};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, say};
use crate::{input_quality, signals};

/// Replays files, or a range of a topic.
///
/// # Errors
/// Policy, files, brokers, or [`Failure::answer_is_no`] as `--fail-on` and `--strict` have it.
pub fn run(args: &ReplayArgs, log: &LogArgs) -> Outcome {
    if args.follow {
        return follow::run(args, log);
    }
    setup::log_quietly(log)?;
    render::check(args)?;
    let (settings, keys) = range::split_sets(&args.set);
    let source = Source::of(&args.files, &args.range, settings, log)?;
    let name = args.policy.as_deref().unwrap_or_else(|| source.policy());
    let known = KnownSessions::read(args.labels.as_ref(), args.outcomes.as_ref()).map_err(Failure::failed)?;
    if !args.sweep.is_empty() {
        return sweep::run(args, &source, name, &keys, &known);
    }
    let policy = Arc::new(overrides::load(name, &overrides::overrides(&keys)?)?);
    let against = args.against.as_deref().map(loopwarden_settings::policy::load).transpose()?.map(Arc::new);
    let only_commands = args.output == ReplayFormat::Ndjson && args.report.is_none() && against.is_none();
    let retain = Arc::new(Retain { only_commands, ..known.retain(against.is_some()) });
    let stop = signals::stop_flag()?;
    let mut out = (args.output == ReplayFormat::Ndjson).then(Output::stdout);
    // Whoever asks for an answer or a page gets it, also when the commands have no reader any more.
    let reads_on = args.fail_on.is_some() || args.strict || args.report.is_some();
    let mut listener = out.as_mut().map(|out| {
        |json: &[u8]| match out.bytes_line(json) {
            Err(error) if reads_on && error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written,
        }
    });
    let listener = listener.as_mut().map(|listener| listener as Listener<'_>);
    let found = replay(args, &source, &policy, &retain, &stop, listener)?;
    if let Some(mut out) = out {
        render::ignore_closed_pipe(out.flush().map_err(Failure::from))?;
    }
    render::print_rejected(&found);
    say(render::summary(&found));
    for warning in input_quality::of_input(&found.stats) {
        say(warning);
    }
    let damaged = found.damaged.clone();
    let is_stopped = || stop.load(Ordering::Acquire);
    let mut second = None;
    if let Some(against) = against.filter(|_| !is_stopped()) {
        let other = replay(args, &source, &against, &retain, &stop, None)?;
        // Half of a replay says nothing of what the other policy would have done.
        second = (!is_stopped()).then_some((against, other));
    }
    let Some((against, other)) = second else {
        if args.against.is_some() {
            say("stopped before the second policy was replayed to its end: this is the report of the first alone");
        }
        let report = render::report(args, &policy, &known, found);
        render::ignore_closed_pipe(render::write_report(args, &report))?;
        return damaged.map_or_else(|| render::answer(args, &report), |error| Err(error.into()));
    };
    say(render::summary(&other));
    let comparison = Comparison::of(&other.replay.outcomes, &found.replay.outcomes);
    let now = render::report(args, &policy, &known, found);
    let before = render::report(args, &against, &known, other);
    render::ignore_closed_pipe(render::write_comparison(args, &now, &before, &comparison))?;
    damaged.map_or_else(|| render::answer_to_change(args, &now, &comparison), |error| Err(error.into()))
}
