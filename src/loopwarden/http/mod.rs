//! One listener: health, metrics, administration, the live page; in embedded mode events in and commands out.
//!
//! A small runtime of its own answers; lanes are asked through [`ProcessStatus`] and never wait for a client. What a client can hold is
//! bounded: connections, heads, bodies, streams, requests per second, and the time for each (`limits.rs`).
//!
//! ```text
//!   connection ──► gate: size, who, rate, access ──► handler ──► lanes (ProcessStatus) or embedded log
//!   (seats, deadlines)   (door, routes, access)                  on blocking threads, few of them
//! ```

mod access;
mod answer;
mod backlog;
pub mod check;
mod intake;
pub mod listener;
mod router;
pub mod routes;
mod shared;
mod views;

pub use access::door::Door;
pub use access::principal::{Principals, Role, Roles};
pub use access::token::Token;
pub use backlog::{Backlog, BacklogLimits, tenant_of};
pub use listener::metrics::Answered;
pub use listener::server::{Options, Server, StartError};
pub use views::process_status::{Probe, ProcessStatus, Unanswered};
