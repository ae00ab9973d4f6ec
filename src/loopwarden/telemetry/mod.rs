//! What the process tells about itself: log lines, metrics.

mod json;
mod lines;
pub mod logging;
pub mod metrics;
pub mod process;
mod repeats;
