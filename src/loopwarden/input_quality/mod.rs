//! How much of the input can be judged: what the events lack, who sends them, and sessions that two sources report.
//!
//! There is one of it in a process. The listener and the intakes tell it, the page and `loopwarden doctor` show it.

mod known;
mod senders;
mod stream;

pub use known::InputQuality;
pub(crate) use senders::{Row, findings, shown};
pub(crate) use stream::{of_input, of_stream};
