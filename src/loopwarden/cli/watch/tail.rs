//! `tail`: commands as they come, one line each.

use std::{thread, time::Duration};

use loopwarden_core::event::EventTime;
use loopwarden_kafka::readers::range::Bound;
use loopwarden_lab::report::counted;
use loopwarden_log::clock;
use loopwarden_settings::ProcessMode;
use serde_json::Value;

use crate::cli::args::{LogArgs, PlainFormat};
use crate::cli::shared::ask::{RunningProcess, Unanswered};
use crate::cli::shared::{range, setup};
use crate::cli::watch::feed::{Feed, Slice};
use crate::output::{self, Output, say};
use crate::{cli::watch::args::TailArgs, cli::watch::line::ShownCommand, failure::Failure, failure::Outcome};

/// How long one question waits for the next command.
pub(super) const WAIT: Duration = Duration::from_secs(30);
/// Between two tries, where the process does not answer.
const AGAIN: Duration = Duration::from_secs(2);

/// Reads until told to stop, or with `--once` to the end.
///
/// # Errors
/// The process does not answer at the start, or lets nobody in; a place that is none.
pub fn run(args: &TailArgs, log: &LogArgs) -> Outcome {
    let config = setup::load(&args.process.config, log)?.config;
    let since = args.since.as_deref().unwrap_or(if args.once { "earliest" } else { "now" });
    let since = range::bound("--since", since, clock::now_ms())?;
    let mut feed = Feed::at_end(RunningProcess::of(args.process.address.as_deref(), &config)?)?;
    let mut not_before = None;
    match since {
        Bound::End => {}
        Bound::Beginning => feed.after = 0,
        Bound::Offset(place) => feed.after = place,
        Bound::Time(ms) => {
            feed.after = 0;
            not_before = Some(EventTime(ms));
        }
    }
    let wait = if args.once { Duration::ZERO } else { WAIT };
    let (mut out, is_styled) = (Output::stdout(), output::is_styled());
    // What retention has removed before anybody asked is no loss of this reader.
    let (mut is_away, mut is_first) = (false, true);
    loop {
        let slice = match feed.read(wait) {
            Ok(slice) => slice,
            Err(Unanswered::Refused(why)) => return Err(Failure::failed(why)),
            Err(Unanswered::Away(why)) if args.once => return Err(Unanswered::Away(why).into()),
            Err(Unanswered::Away(why)) => {
                if !std::mem::replace(&mut is_away, true) {
                    say(format!("waiting for the process: {}", why.lines().next().unwrap_or_default()));
                }
                thread::park_timeout(AGAIN);
                continue;
            }
        };
        if std::mem::take(&mut is_away) {
            say("it answers again");
        }
        let Slice { commands, missed, is_anew, is_end } = slice;
        if is_anew {
            say("the process began its commands anew; reading from their beginning");
        }
        if missed > 0 && !is_first {
            say(format!("{} went by that the process keeps no more", counted(missed, "command")));
        }
        is_first = false;
        for command in commands.iter().filter(|command| wants(args, not_before, command)) {
            match args.output {
                PlainFormat::Text => out.line(ShownCommand(command).line(is_styled))?,
                PlainFormat::Json => out.line(command.to_string())?,
            }
        }
        out.flush()?;
        if args.once && is_end && !is_anew {
            return Ok(());
        }
    }
}

/// Whether a command is one of those that are asked for.
fn wants(args: &TailArgs, not_before: Option<EventTime>, command: &Value) -> bool {
    let told = ShownCommand(command);
    let is = |wanted: Option<&str>, found: &str| wanted.is_none_or(|wanted| wanted == found);
    let issued = || EventTime::parse_rfc3339(told.text("/issued_at"));
    (!args.acts || told.is_act())
        && is(args.session.as_deref(), told.text("/session_id"))
        && is(args.tool.as_deref(), told.tool())
        && is(args.action.as_deref(), told.text("/action"))
        && is(args.mode.map(ProcessMode::as_str), told.text("/mode"))
        && not_before.is_none_or(|from| issued().is_some_and(|issued| issued >= from))
}
