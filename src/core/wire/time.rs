//! A time as RFC 3339. None where what was read is a text and no time: such a document is read on, and nothing is known of that moment.

use serde::{Deserialize as _, Deserializer, Serializer};

use crate::event::EventTime;
use crate::wire::Text;

#[expect(clippy::ref_option, reason = "serde calls it so")]
pub(super) fn serialize<S: Serializer>(time: &Option<EventTime>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => serializer.collect_str(time),
        None => serializer.serialize_none(),
    }
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<EventTime>, D::Error> {
    Ok(EventTime::parse_rfc3339(&Text::deserialize(deserializer)?))
}
