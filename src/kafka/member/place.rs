//! A fenced lane asks its group whether somebody else has its place.
//!
//! A coordinator that dies amid a rebalance leaves one behind that knows members by former ids, and says to those with newer ones that
//! somebody else has their place. Nobody speaks for it then, and the group lets go of it a session later.

use std::time::Duration;

use loopwarden_core::limits;
use loopwarden_log::{LogError, clock::Deadline};

use crate::{client::settings, client::settings::KafkaOptions, readers::reader::Reader};

/// Watches a place that the lane has given up. The lane asks again and again between its turns: brokers may be away for longer than it
/// may be silent.
pub(crate) struct PlaceWatch {
    options: KafkaOptions,
    member: String,
    /// What the lane was told when it lost the place.
    cause: String,
    /// How long a member is listed that nobody speaks for.
    patience: Duration,
    /// When `patience` is over, if the group lists the member. Counted anew once the group could not be seen: another coordinator gives
    /// every member another session.
    listed_until: Option<Deadline>,
}

impl PlaceWatch {
    pub(crate) fn new(options: KafkaOptions, cause: &str) -> Self {
        Self {
            member: settings::member_client_id(&options),
            cause: cause.to_owned(),
            patience: (settings::session_timeout(&options) + limits::PLACE_GRACE).min(limits::PLACE_WAIT_MAX),
            listed_until: None,
            options,
        }
    }

    pub(crate) fn lost(&self) -> LogError {
        LogError::Lost(self.cause.clone())
    }

    /// Asks for a while: whether the place is free; false where somebody speaks for it.
    ///
    /// # Errors
    /// [`LogError::Transient`] while that is not known.
    pub(crate) fn is_free(&mut self) -> Result<bool, LogError> {
        // Each time a new one: it asks every broker it knows of, and a broker that has died would be known to an older one for a while.
        let reader = Reader::open(&self.options, "place")?;
        let group = &self.options.app;
        let slice = Deadline::after(limits::PLACE_SLICE);
        loop {
            let unclear = match reader.members(group, limits::PLACE_ASK_WAIT) {
                Ok(Some(known)) if !known.contains(&self.member) => return Ok(true),
                Ok(Some(_)) => {
                    if self.listed_until.get_or_insert_with(|| Deadline::after(self.patience)).is_over() {
                        return Ok(false);
                    }
                    "it lists a member of this name".to_owned()
                }
                Ok(None) => {
                    self.listed_until = None;
                    "its coordinator does not know it yet".to_owned()
                }
                Err(error) => {
                    self.listed_until = None;
                    error.to_string()
                }
            };
            if slice.is_over() {
                return Err(LogError::Transient(format!("asking whose place it is in group \"{group}\": {unclear}")));
            }
            std::thread::park_timeout(limits::PLACE_ASK_PAUSE);
        }
    }
}
