//! What the process tells about itself: log lines, metrics.

pub mod bill;
pub mod guard;
mod json;
mod lag;
mod lines;
pub mod logging;
pub mod metrics;
pub mod process;
mod repeats;
mod snapshot;
mod webhooks;
#[cfg(test)]
mod written;
