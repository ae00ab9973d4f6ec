//! What the process tells about itself: log lines, metrics.

mod lines;
pub mod logging;
pub mod metrics;
pub mod process;
mod repeats;
