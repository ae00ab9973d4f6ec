//! What agents report, as native events, whichever way it comes: messages to hooks, logs on disk, OpenTelemetry, CloudEvents, any JSON by
//! a mapping. And the way back: an answer of the guard as an agent reads it, and what makes an agent ask.
//!
//! `agents` has a folder for each agent and a row for each folder: all that is known of a program stands there. What comes in bodies of
//! many records is counted by [`Batch`]: each record is an event, refused with a reason, or none of our business. No function here reads a
//! clock, a file or a socket; everything is bounded by [`limits`].

mod agent;
mod agents;
mod batch;
pub mod cloudevents;
mod fault;
mod frameworks;
mod grant;
#[cfg(feature = "gzip")]
mod gzip;
pub mod hook;
pub mod install;
pub mod limits;
pub mod mapping;
pub mod otlp;
mod recent;
mod senders;
mod session;
mod text;
pub mod transcript;
mod twofold;

pub use agent::Agent;
pub use agents::{AGENTS, agent, installable};
pub use batch::{Batch, Made, Refused};
pub use fault::Fault;
pub use grant::{Grant, Tenants, is_act};
#[cfg(feature = "gzip")]
pub use gzip::inflate;
pub use senders::{Became, Calls, Compared, NATIVE_FORM, Received, Sender, Senders};
pub use session::Sessions;
pub use twofold::{Sources, Twofold};
