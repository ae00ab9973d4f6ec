//! What a command that changes a group from outside waits for first.

use std::{thread, time::Duration};

use loopwarden_core::event::TaskId;
use loopwarden_kafka::admin::operator::Operator;
use loopwarden_lab::report::counted;
use loopwarden_log::{LogError, clock::Deadline};

use crate::failure::{Failure, Outcome};
use crate::{exit_code, output::say};

/// Between two looks at the group.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// That no process of the group runs and none of its transactions is open; waits for those that have just ended. Only then does anything
/// that was looked at stay as it is.
pub(crate) fn expect_quiet(operator: &mut Operator, tasks: &[TaskId], wait: Duration) -> Outcome {
    let deadline = Deadline::after(wait);
    let mut is_told = false;
    loop {
        let members = operator.members()?;
        let why = match members {
            0 if !is_open(operator, tasks)? => return Ok(()),
            0 => "a transaction of the group is open".to_owned(),
            _ => format!("the group has {}; stop all its processes first", counted(members as u64, "member")),
        };
        if deadline.is_over() {
            return Err(Failure::new(exit_code::FAILED, format!("error: {why}")));
        }
        if !std::mem::replace(&mut is_told, true) {
            say(format!("{why}; waiting"));
        }
        thread::park_timeout(LOOK_AGAIN);
    }
}

/// Whether a transaction is open in the changelog of one of these tasks.
fn is_open(operator: &mut Operator, tasks: &[TaskId]) -> Result<bool, LogError> {
    for task in tasks {
        if operator.changelog().has_open_transaction(*task)? {
            return Ok(true);
        }
    }
    Ok(false)
}
