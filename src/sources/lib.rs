//! What agents report, as native events, whichever way it comes: messages to hooks, logs on disk, OpenTelemetry, CloudEvents, any JSON by
//! a mapping. And the way back: an answer of the guard as an agent reads it, and what makes an agent ask.
//!
//! `agents` has a folder for each agent and a row for each folder: all that is known of a program stands there. What comes in bodies of
//! many records is counted by [`Batch`]: each record is an event, refused with a reason, or none of our business. No function here reads a
//! clock, a file or a socket; everything is bounded.

mod agents;
mod batch;
mod body;
pub mod cloudevents;
mod grant;
pub mod hook;
pub mod install;
pub mod mapping;
pub mod otlp;
mod recent;
mod senders;
mod session;
mod text;
pub mod transcript;
mod twofold;

pub use agents::{AGENTS, agent, installable};
pub use batch::{Batch, Made, Refused};
#[cfg(feature = "gzip")]
pub use body::inflate;
pub use body::{Fault, INFLATED_BYTES_MAX, RECORD_BYTES_MAX};
pub use grant::{Grant, Tenants, is_act};
pub use senders::{Became, Calls, Compared, NATIVE_FORM, Received, Sender, Senders};
pub use session::Sessions;
pub use twofold::{Sources, Twofold};

use crate::{hook::Hook, install::Install, otlp::convention::Convention, transcript::log::Log};

/// All that is known of one agent. What it does not have is absent.
#[derive(Debug)]
pub struct Agent {
    /// Its name in addresses and on the command line.
    pub name: &'static str,
    pub title: &'static str,
    /// What it reports to hooks, and what it reads of them.
    pub hook: Option<Hook>,
    /// What makes it start or call a hook.
    pub install: Option<Install>,
    /// The log that it leaves on disk.
    pub(crate) log: Option<Log>,
    /// What it exports by OpenTelemetry.
    pub(crate) telemetry: Option<Convention>,
}
