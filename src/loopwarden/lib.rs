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

pub mod input_quality;

mod acts;

mod descriptors;

mod mapping_file;

/// What operators ask and are answered, without a word of HTTP or of a command line.
pub mod operate {
    pub mod api;
    pub mod lanes;
    pub(crate) mod sessions;
    pub(crate) mod shown;
}

mod private;

pub mod output;

pub mod signals;

pub mod telemetry;

pub mod http;

pub mod server;

pub mod cli;
