//! `reset task`: the way out where a task's changelog and its group no longer fit together. The task begins anew at the group's offset,
//! without the state it had.
//!
//! The Position goes first and comes last: whatever interrupts it, no lane takes what is half deleted for state, and it can be done
//! again.

use std::time::Duration;

use loopwarden_core::event::{EventTime, NextOffset, TaskId};
use loopwarden_core::limits;
use loopwarden_kafka::admin::operator::Operator;
use loopwarden_lab::report::grouped;
use loopwarden_log::Flow;
use loopwarden_settings::Config;
use loopwarden_state::{Position, StateKey};

use crate::failure::{Failure, Outcome};
use crate::{
    cli::args::ResetTaskArgs, cli::shared::quiet::expect_quiet, cli::shared::setup::task_of, exit_code, output, output::say,
    server::kafka_options,
};

/// Who wrote the Position of a task that was begun anew.
const OWNER: &str = "reset";

/// Looks, and with `--yes` does it.
pub(super) fn run(args: &ResetTaskArgs, config: &Config) -> Outcome {
    let (stage, partition) = task_of(&args.id)?;
    let Some(kafka) = &config.kafka else {
        let why = "error: without Kafka a task's state and its log lie in one directory: begin with an empty data_dir, or put a copy back";
        return Err(Failure::new(exit_code::USAGE, why));
    };
    let id = TaskId { stage, partition };
    let mut operator = Operator::connect(&kafka_options(config, kafka, 0)?)?;
    let all = operator.partitions().of(stage);
    if partition >= all {
        return Err(Failure::new(exit_code::USAGE, format!("error: there is no task {id}: its input has {all} partitions")));
    }
    if args.yes {
        expect_quiet(&mut operator, &[id], Duration::from_millis(args.timeout_ms))?;
    }
    let plan = Plan::of(&mut operator, id)?;
    let stood_at = plan.position.as_ref().map_or_else(|| "nowhere".to_owned(), |position| position.next_offset.to_string());
    output::line(&format!(
        "{id}: by its changelog ({} records) it stands at {stood_at}, by the group at {}; it would go on at {}.\n\
         Lost is what it knows: counts, episodes and blocks of its sessions. What it said that is in force ends when it expires. Calls that are\n\
         read a second time are added up a second time for their swarms.",
        grouped(plan.records),
        plan.group_at,
        plan.next
    ))?;
    if !args.yes {
        say("nothing was changed; with --yes it is");
        return Err(Failure::answer_is_no());
    }
    let next = plan.next;
    plan.carry_out(&mut operator)?;
    output::line(&format!("{id} begins anew at {next}"))
}

/// A task as it stands, and where it would go on.
struct Plan {
    id: TaskId,
    /// Records of the changelog, deleted ones included.
    records: u64,
    /// The last Position of the changelog that can be read, if there is one: a reset that was interrupted has deleted it already.
    position: Option<Position>,
    group_at: NextOffset,
    /// There, as far as the input reaches.
    next: NextOffset,
}

impl Plan {
    fn of(operator: &mut Operator, id: TaskId) -> Result<Self, Failure> {
        let changelog = operator.changelog();
        let Some(group_at) = changelog.committed(id, limits::ASK_WAIT)? else {
            let why = format!("error: the group has no offset of {id}: it begins by itself, as kafka.start says");
            return Err(Failure::new(exit_code::FAILED, why));
        };
        let input = changelog.input_range(id)?;
        let from = changelog.range(id)?.start;
        let (position_key, mut records, mut position) = (StateKey::position().to_changelog(), 0, None);
        changelog.read(id, from, &mut |_, key, value| {
            records += 1;
            if let Some(Ok(found)) = value.filter(|_| key == position_key).map(Position::decode) {
                position = Some(found);
            }
            Flow::Continue
        })?;
        Ok(Self { id, records, position, group_at, next: NextOffset(group_at.0.clamp(input.start, input.end)) })
    }

    fn carry_out(self, operator: &mut Operator) -> Outcome {
        let Self { id, position, group_at, next, .. } = self;
        let key = StateKey::position().to_changelog();
        operator.put(id, &key, None)?;
        let upto = operator.changelog().range(id)?.end;
        operator.delete(id, upto, |other| other != key)?;
        if next != group_at {
            operator.move_group(id, next)?;
        }
        // The numbers of its commands go on.
        let position = Position {
            next_offset: next,
            watermark: EventTime(i64::MIN),
            owner: OWNER.to_owned(),
            ..position.unwrap_or_default()
        };
        operator.put(id, &key, Some(&position.encode_for_changelog()?))?;
        Ok(())
    }
}
