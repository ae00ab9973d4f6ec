//! Bytes of a foreign form become native events: OpenTelemetry traces and logs, CloudEvents, any JSON by a mapping.
//!
//! Each record of a body is one of three: an event, refused with a reason, or none of our business. [`Batch`] counts all of them, so that
//! nothing is lost without a word. No function here reads a clock, a file or a socket; everything is bounded by [`limits`].

mod batch;
pub mod cloudevents;
mod draft;
mod grant;
mod gzip;
pub mod limits;
pub mod mapping;
pub mod native;
pub mod otlp;
mod recent;
mod senders;
mod session;
pub mod shell_output;
mod sources;
pub mod suggest;
pub mod text;

pub use batch::{Batch, Made, Refused};
pub use grant::{Grant, Tenants, is_reset};
pub use gzip::{Fault, inflate};
pub use senders::{Became, Calls, Compared, Received, Sender, Senders};
pub use session::Sessions;
pub use sources::{Sources, Twofold};
