//! Reports for people and programs: what a replay found, how it compares with what people know and with another policy.
//!
//! A [`Ledger`] is filled while events pass; [`Report`], [`Comparison`] and [`Sweep`] are what is left at the end: plain values. How
//! they look is decided by [`Table`], [`to_json`](Report::to_json) and [`html`] alone.

mod compare;
mod counts;
mod distinct;
pub mod html;
mod index;
mod judge;
mod ledger;
mod loops;
mod plain;
mod plot;
mod said;
mod spent;
mod strip;
mod summary;
mod swarms;
mod sweep;
mod table;
mod tally;
mod timeline;
mod tools;

pub use compare::{Change, Changes, Comparison, Example, Fates};
pub use counts::{Counts, DetectorRow, SpentInLoops};
pub use distinct::Distinct;
pub use index::EventIndex;
pub use judge::{BadRow, DetectorJudgement, Ending, Judgement, Label, judge};
pub use ledger::{Keep, Ledger};
pub use loops::{Loop, LoopSums, Loops};
pub use plain::plain;
pub use plot::{Dot, Plot};
pub use said::{Deed, Said};
pub use spent::Spent;
pub use strip::{Cell, Ended, Repeated, Strip, letter};
pub use summary::{Rejection, Report, counted, grouped};
pub use swarms::Swarms;
pub use sweep::{Axis, Point, Scores, Sweep};
pub use table::{Column, Table};
pub use timeline::{Slice, Timeline};
pub use tools::{ToolRow, Tools};
