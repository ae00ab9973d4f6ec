//! How many events of each tenant a task has judged in the current minute, and how many dead letters of each sender held their records. Kept
//! with the state, so that a restart inside of a minute forgets nothing and a replay counts alike.

use std::collections::BTreeMap;

use loopwarden_core::{event::EventTime, limits::TENANTS_COUNTED_MAX};
use serde::{Deserialize, Serialize};

use crate::{KeyFamily, StoreError, Stored, codec};

const MINUTE_MS: i64 = 60_000;

/// What tenants, or senders, have had of their share within a minute of record time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TenantMinute {
    /// Record time divided by a minute.
    minute: i64,
    events: BTreeMap<String, u32>,
}

impl TenantMinute {
    /// Key of the events of tenants.
    pub const EVENTS: &[u8] = b"";
    /// Key of the dead letters of senders.
    pub const LETTERS: &[u8] = b"letters";

    /// Counts an event that was recorded at `recorded`; false where `limit` of this tenant are counted already.
    ///
    /// Of more than [`TENANTS_COUNTED_MAX`] tenants this keeps the frequent ones (Misra and Gries 1982): a count is never above the true
    /// one, so nobody is refused for what others send. A minute begins with the first record of a later one. Producers' clocks differ,
    /// so that a record of the minute before counts with this one; what lies further back begins a minute too, or one wrong clock
    /// could make a minute of years.
    pub fn admits(&mut self, recorded: EventTime, tenant: &str, limit: u32) -> bool {
        let minute = recorded.0.div_euclid(MINUTE_MS);
        if minute > self.minute || minute < self.minute.saturating_sub(1) {
            self.minute = minute;
            self.events.clear();
        }
        if let Some(events) = self.events.get_mut(tenant) {
            let is_admitted = *events < limit;
            *events += u32::from(is_admitted);
            return is_admitted;
        }
        if self.events.len() < TENANTS_COUNTED_MAX {
            self.events.insert(tenant.to_owned(), 1);
        } else {
            self.events.retain(|_, events| {
                *events -= 1;
                *events > 0
            });
        }
        true
    }
}

impl Stored for TenantMinute {
    const FAMILY: KeyFamily = KeyFamily::Tenants;

    fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        codec::decode(Self::FAMILY.as_str(), bytes)
    }

    fn encode(&self) -> Result<Vec<u8>, StoreError> {
        codec::encode(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(minute: &mut TenantMinute, at_s: i64, tenant: &str, events: u32, limit: u32) -> usize {
        (0..events).filter(|_| minute.admits(EventTime(at_s * 1_000), tenant, limit)).count()
    }

    #[test]
    fn a_tenant_has_its_limit_in_each_minute_whatever_others_send() {
        let mut minute = TenantMinute::default();
        assert_eq!([admitted(&mut minute, 60, "loud", 9, 5), admitted(&mut minute, 61, "quiet", 4, 5)], [5, 4]);
        // A clock that is behind by less than a minute gains nothing.
        assert_eq!([admitted(&mut minute, 59, "loud", 9, 5), admitted(&mut minute, 119, "loud", 9, 5)], [0, 0]);
        assert_eq!(admitted(&mut minute, 120, "loud", 9, 5), 5);
        // One that was years ahead, once, holds nobody up.
        assert_eq!(admitted(&mut minute, 1_000_000_000, "loud", 9, 5), 5);
        assert_eq!(admitted(&mut minute, 121, "loud", 9, 5), 5);
    }

    #[test]
    fn of_more_tenants_than_are_counted_only_a_flood_is_refused() {
        let mut minute = TenantMinute::default();
        let mut refused = BTreeMap::new();
        for number in 0..40_000 {
            let tenant = if number % 2 == 0 { "loud".to_owned() } else { format!("t{}", number % 1_000) };
            if !minute.admits(EventTime(0), &tenant, 100) {
                *refused.entry(tenant).or_insert(0) += 1;
            }
        }
        assert!(minute.events.len() <= TENANTS_COUNTED_MAX);
        // 19,900 with a table of any size.
        assert_eq!(refused.keys().collect::<Vec<_>>(), ["loud"]);
        assert!(refused["loud"] > 19_500, "{refused:?}");
    }

    #[test]
    fn its_bytes_stay_what_they_are() {
        let mut minute = TenantMinute::default();
        assert!(minute.admits(EventTime(120_000), "a", 1));
        assert_eq!(minute.encode().unwrap(), [b'1', 4, 1, 1, b'a', 1]);
        assert_eq!(TenantMinute::decode(&minute.encode().unwrap()).unwrap(), minute);
    }
}
