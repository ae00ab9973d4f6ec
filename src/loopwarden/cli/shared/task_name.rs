//! The name of a task, as people write it: `session:3`.

use loopwarden_core::event::Stage;

use crate::{exit_code, failure::Failure};

/// The stage and partition that an argument names.
pub(crate) fn task_of(id: &str) -> Result<(Stage, u32), Failure> {
    // As people write it, and as log lines do.
    let parsed = id.split_once([':', '/']).and_then(|(stage, partition)| {
        let stage = [Stage::Session, Stage::Swarm].into_iter().find(|known| known.as_str() == stage)?;
        Some((stage, partition.parse().ok()?))
    });
    parsed.ok_or_else(|| Failure::new(exit_code::USAGE, format!("error: {id:?} is no task; one is session:3, or swarm:0")))
}
