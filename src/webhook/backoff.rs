//! How long to wait before another try.

use std::time::Duration;

/// After the first failure.
const FIRST: Duration = Duration::from_millis(500);
/// Longest pause that is chosen here.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Longest pause that a receiver may ask for. A larger wish is cut, so that a mistake there is over soon after it is repaired.
const ASKED_MAX: Duration = Duration::from_secs(300);

/// The pause after so many tries, which began at one: doubled each time, and between half and all of that, so that many senders do not
/// come at once. `share` is between 0 and 1; `asked` is what the receiver wants at least.
pub(crate) fn pause(tries: u32, asked: Option<Duration>, share: f64) -> Duration {
    let doubled = FIRST.saturating_mul(1_u32.checked_shl(tries.saturating_sub(1)).unwrap_or(u32::MAX)).min(PAUSE_MAX);
    let chosen = doubled / 2 + (doubled / 2).mul_f64(share.clamp(0.0, 1.0));
    asked.map_or(chosen, |asked| asked.min(ASKED_MAX).max(chosen))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_minute_and_lie_between_half_and_all() {
        let ms = |tries, share| pause(tries, None, share).as_millis();
        assert_eq!([ms(1, 0.0), ms(1, 1.0), ms(2, 1.0), ms(3, 1.0)], [250, 500, 1_000, 2_000]);
        for tries in [8, 32, 33, 34, u32::MAX] {
            assert_eq!([ms(tries, 0.0), ms(tries, 1.0)], [30_000, 60_000], "{tries}");
        }
    }

    #[test]
    fn a_receiver_may_ask_for_a_longer_pause_within_a_bound_and_not_for_a_shorter_one() {
        let asked = |s: u64| pause(1, Some(Duration::from_secs(s)), 1.0);
        assert_eq!([asked(7), asked(300)].map(|wait| wait.as_secs()), [7, 300]);
        assert_eq!(asked(u64::MAX), Duration::from_secs(300));
        assert_eq!(asked(0), FIRST);
    }
}
