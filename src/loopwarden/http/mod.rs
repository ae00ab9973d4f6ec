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
mod admin;
mod answer;
mod backlog;
mod body;
pub mod check;
mod commands;
mod connection;
mod diag;
mod door;
mod durable;
mod events;
mod export;
mod exports;
mod hooks;
mod host;
mod metrics;
mod otlp;
mod page;
mod peer;
mod phase;
mod principal;
mod process_status;
mod purse;
mod query;
mod rate;
mod router;
pub mod routes;
mod seats;
mod server;
mod shared;
pub mod sidecar;
mod state;
mod token;
mod view;

pub use backlog::{Backlog, BacklogLimits, tenant_of};
pub use door::Door;
pub use metrics::Answered;
pub use principal::{Principals, Role, Roles};
pub use process_status::{Probe, ProcessStatus, Unanswered};
pub use server::{Options, Server, StartError};
pub use token::Token;
