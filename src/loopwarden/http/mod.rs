//! The listener of a process: health, metrics, administration, the live page; in embedded mode events in and commands out. And that of a
//! guard beside an agent: checks, hooks and exports. Both have the same gate and the same limits, and one table says what each serves.
//!
//! A small runtime of its own answers; lanes are asked through [`ProcessStatus`] and never wait for a client. What a client can hold is
//! bounded: connections, heads, bodies, streams, requests per second, and the time for each (`limits.rs`).
//!
//! ```text
//!   connection ──► gate: size, who, rate, access ──► handler ──► lanes (ProcessStatus) or embedded log
//!   (seats, deadlines)   (door, rates, rules)                    on blocking threads, few of them
//! ```

mod access;
mod answer;
mod backlog;
pub mod check;
mod intake;
mod listener;
pub mod routes;
mod shared;
mod views;

pub use access::door::Door;
pub use access::link_rights::{AnswerLinks, LinkRights};
pub use access::principal::{Principals, Role, Roles};
pub use access::token::Token;
pub use backlog::{Backlog, BacklogLimits, tenant_of};
pub use listener::endpoint::Endpoint;
pub use listener::metrics::Answered;
pub use listener::server::{Options, Server, StartError};
pub use shared::TopicWriter;
pub use views::pages::PAGES;
pub use views::process_status::{Probe, ProcessStatus};
