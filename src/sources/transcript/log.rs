//! How the log of an agent is known and read.

use loopwarden_core::event::Rejected;

use crate::transcript::fields::{Fields, Sign};
use crate::{transcript::object::Object, transcript::sink::Sink};

/// The log of an agent.
#[derive(Debug)]
pub(crate) struct Log {
    /// A reader for one log. The name stands for the session where the log names none: that of its file, or its directory.
    pub(crate) open: fn(&str) -> Box<dyn Reader>,
    /// Whether an object is a piece of such a log.
    pub(crate) knows: fn(&Fields<'_>) -> Sign,
    /// Whether a document of many lines begins as such a log does. Its white space is left out: its end may be far away.
    pub(crate) begins: fn(&str) -> bool,
}

/// Reads one log: it remembers the session, open calls, what usage was counted.
pub(crate) trait Reader: std::fmt::Debug + Send {
    /// Hands the events of a piece over.
    ///
    /// # Errors
    /// Why the piece is none of this format, with the field concerned.
    fn piece(&mut self, piece: Object<'_>, sink: &mut Sink<'_>) -> Result<(), Rejected>;

    /// Hands over what waited for a piece that does not come any more.
    ///
    /// # Errors
    /// As [`Reader::piece`].
    fn finish(&mut self, _sink: &mut Sink<'_>) -> Result<(), Rejected> {
        Ok(())
    }
}
