//! Reports for people and programs: the findings of a replay, compared with labels and with another policy.
//!
//! [`stats`] is filled while events pass. A [`Report`](summary::Report), [`Comparison`](compare::Comparison) or
//! [`Sweep`](sweep::Sweep) remains at the end: a plain value. It has four forms: serde makes JSON of it, [`Table`] makes aligned text
//! and CSV of its rows, and [`html`] makes a page.

#![expect(missing_docs, reason = "names say what fields are; meanings, units and bounds are written")]

pub mod call_timeline;
mod command;
pub mod compare;
pub mod detectors;
mod distinct;
pub mod html;
pub mod index;
pub mod judge;
pub mod labels;
pub mod loops;
pub mod quality;
mod spent;
pub mod stats;
pub mod summary;
mod swarms;
pub mod sweep;
mod table;
mod text;
pub mod timeline;
mod tools;
pub mod trial;

pub use command::{CommandKind, PublishedCommand};
pub use table::{Section, Table};
pub use text::{counted, grouped, plain};
