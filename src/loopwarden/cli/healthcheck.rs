//! `healthcheck`: one plain request to `/readyz`. In a distroless image there is no shell and no curl to do it.

use std::time::Duration;

use crate::cli::args::{HealthcheckArgs, LogArgs};
use crate::cli::shared::ask::{Answer, RunningProcess};
use crate::cli::shared::{ask, setup};
use crate::exit_code;
use crate::failure::{Failure, Outcome};

/// Bytes of the answer that are read: the status line is all that counts, the rest is for people.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// Asks.
///
/// # Errors
/// The process is not ready, or does not answer in time.
pub fn run(args: &HealthcheckArgs, log: &LogArgs) -> Outcome {
    let address = match &args.address {
        Some(address) => ask::resolve(address)?,
        None => ask::reachable(setup::load(&args.config, log)?.config.http.listen),
    };
    let fail = |cause: String| Failure::new(exit_code::FAILED, format!("not ready: http://{address}/readyz: {cause}"));
    let wait = Duration::from_millis(args.timeout_ms);
    let process = RunningProcess { address, token: None };
    let answer = process.get("/readyz?verbose", wait, ANSWER_BYTES_MAX).map_err(|error| fail(process.nobody(&error)))?;
    let Answer { status, code, body } = answer;
    if code == "200" {
        return Ok(());
    }
    let why: String = body.trim().chars().filter(|letter| !letter.is_control() || *letter == '\n').collect();
    Err(fail(if why.is_empty() { format!("answered {status:?}") } else { format!("answered {status:?}\n{why}") }))
}
