//! loopwarden finds AI agents that go round in circles and says so exactly once.
//!
//! The program: command line, server, telemetry. The crates below it are shown here under the names of their modules.

pub mod docs;

pub use loopwarden_core::{detect, engine, event, identity, limits, policy, whom};
pub use loopwarden_lab::report;
pub use loopwarden_lane as task;
pub use loopwarden_log::clock;
pub use loopwarden_settings as config;
pub use loopwarden_sources::transcript;
pub use loopwarden_state as store;

pub mod log {
    pub use loopwarden_kafka as kafka;
    pub use loopwarden_lab::file;
    pub use loopwarden_log::*;
}

pub mod exit_code;

pub mod failure;

/// How much of the input can be judged: what the events lack, who sends them, and sessions that two sources report.
///
/// There is one of it in a process. The listener and the intakes tell it, the page and `loopwarden doctor` show it.
pub mod input_quality {
    mod known;
    mod senders;
    mod stream;

    pub use known::InputQuality;
    pub(crate) use senders::{Row, findings, shown};
    pub(crate) use stream::{of_input, of_stream};
}

mod descriptors;

mod mapping_file;

/// What operators ask and are answered, without a word of HTTP or of a command line.
pub mod operate {
    pub(crate) mod act;
    pub mod api;
    pub mod lanes;
    pub(crate) mod sessions;
    pub(crate) mod shown;
}

mod private;

pub mod output;

pub mod signals;

/// What the process tells about itself: log lines, metrics.
pub mod telemetry {
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
}

pub mod http;

pub mod server;

pub mod cli;
