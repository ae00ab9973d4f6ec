//! The intake: reads a topic whose records are no events, or have another key than their session, and writes events to the input topic.
//!
//! A batch is one transaction of the log: the events, the dead letters and the offsets of what was read (page `commit`). It keeps no state:
//! what becomes of a record follows from the record alone, so that a restart forgets nothing, and a repetition writes the same.

mod batch;
mod commit;
mod form;
mod intake;
mod settings;
mod source_partition;
mod stats;

pub use form::{Event, Form, Read};
pub use intake::Intake;
pub use settings::IntakeSettings;
pub use stats::{IntakeReport, IntakeStats};
