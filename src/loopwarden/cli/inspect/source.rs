//! Every record of the input, one after the other: files or a range of a topic, as a replay reads them.

use std::{path::PathBuf, sync::Arc};

use loopwarden_core::event::{Event, Record, decode};
use loopwarden_core::policy::Policy;
use loopwarden_lab::report::counted;

use crate::cli::args::{InspectArgs, LogArgs, RangeArgs};
use crate::{
    cli::replay::input, cli::replay::input::Source, cli::replay::overrides, cli::shared::range, failure::Failure, output::say,
};

/// The input of an inspection, and the policy it is judged by.
pub(crate) struct Input {
    pub(crate) source: Source,
    pub(crate) app: String,
    pub(crate) policy: Arc<Policy>,
    /// Name or path of the policy, and what is changed of it.
    pub(crate) policy_name: String,
    pub(crate) overrides: serde_json::Value,
}

impl Input {
    pub(super) fn of(args: &InspectArgs, log: &LogArgs) -> Result<Self, Failure> {
        Self::open(&args.files, &args.range, args.policy.as_deref(), &args.set, log)
    }

    /// Files or a range of a topic, under a policy: without a name that of the live run.
    pub(crate) fn open(
        files: &[PathBuf],
        range: &RangeArgs,
        policy: Option<&str>,
        sets: &[String],
        log: &LogArgs,
    ) -> Result<Self, Failure> {
        let (settings, keys) = range::split_sets(sets);
        let source = Source::of(files, range, settings, log)?;
        let policy_name = policy.unwrap_or_else(|| source.policy()).to_owned();
        let set = overrides::overrides(&keys)?;
        let policy = Arc::new(overrides::load(&policy_name, &set)?);
        Ok(Self { app: source.app().to_owned(), source, policy, policy_name, overrides: set })
    }

    /// Hands over every event in order. Records that are none are counted and told: replay says where they stand.
    pub(crate) fn events(&self, mut visit: impl FnMut(&Event<'_>, &Record<'_>)) -> Result<(), Failure> {
        let (mut rejected, mut first) = (0_u64, None);
        self.read(|record| match decode(record.value, &record.meta) {
            Ok(event) => visit(&event, record),
            Err(why) => {
                rejected += 1;
                first.get_or_insert(why);
            }
        })?;
        if let Some(why) = first {
            say(format!(
                "no events: {} of this input, the first: {why}; replay says where they stand",
                counted(rejected, "record")
            ));
        }
        Ok(())
    }

    /// Hands over every record in order, and says what was read of logs of agents.
    pub(super) fn read(&self, mut visit: impl FnMut(&Record<'_>)) -> Result<(), Failure> {
        let recorded = self.source.open(1, false)?;
        recorded.visit(&mut visit)?;
        for line in input::told(&recorded) {
            say(line);
        }
        let (refused, total) = recorded.refused();
        for (file, line, reason) in refused.iter().take(3) {
            say(format!("{file}:{line}: no event: {reason}"));
        }
        if total > 3 {
            say(format!("… and {} more like these", counted(total - 3, "line")));
        }
        Ok(())
    }
}
