//! Native events as sources build them. Names, bounds and the rule for long content are the same whoever reports a call, so that a call
//! that a hook, a log, telemetry and a proxy report has one identity.

mod content;
mod event;

pub use content::mark;
pub use event::{EventAgent, EventError, NativeEvent, id_of, is_native};
