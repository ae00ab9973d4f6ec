//! Bytes to `Event`.

use crate::event::Event;
use crate::event::Reason;
use crate::event::RecordMeta;
use crate::event::Rejected;

/// Decodes one record value.
///
/// # Errors
/// [`Rejected`] with a reason and the field concerned.
pub fn decode<'a>(_value: Option<&'a [u8]>, _record: &RecordMeta<'a>) -> Result<Event<'a>, Rejected> {
    Err(Rejected::whole(Reason::NullValue))
}
