//! Event time: Unix milliseconds, to and from RFC 3339.

use std::fmt;

/// 9999-12-31T23:59:59.999Z, the last time RFC 3339 can write. Unix milliseconds.
const LAST_MS: i64 = 253_402_300_799_999;
/// 0001-01-01T00:00:00Z, the first year the wire knows. Unix milliseconds.
const FIRST_MS: i64 = -62_135_596_800_000;
const DAY_MS: i64 = 86_400_000;
/// The years 2001 to 2103 in seconds.
const IN_SECONDS: std::ops::Range<i64> = 1_000_000_000..4_200_000_000;

/// A point in time taken from a record, in Unix milliseconds. Never the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EventTime(pub i64);

impl EventTime {
    /// This time, `ms` milliseconds later; saturating.
    #[must_use]
    pub const fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// This time, `ms` milliseconds earlier; saturating.
    #[must_use]
    pub const fn minus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_sub(ms))
    }

    /// Whether it is more likely a time of this century in seconds than one of the first weeks of 1970 in milliseconds.
    #[must_use]
    pub fn looks_like_seconds(self) -> bool {
        IN_SECONDS.contains(&self.0)
    }

    /// Reads RFC 3339 with an offset, years 1 to 9999. Fractions of any length, cut to milliseconds. Second 60 is the moment
    /// after second 59, as in Unix time.
    #[must_use]
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let head = bytes.first_chunk::<19>()?;
        let &[c1, c2, y1, y2, b'-', m1, m2, b'-', d1, d2, b'T' | b't', h1, h2, b':', n1, n2, b':', s1, s2] = head else {
            return None;
        };
        let is_read = [c1, c2, y1, y2, m1, m2, d1, d2, h1, h2, n1, n2, s1, s2].iter().all(u8::is_ascii_digit);
        let of = |tens: u8, ones: u8| u32::from(tens.wrapping_sub(b'0')) * 10 + u32::from(ones.wrapping_sub(b'0'));
        let (year, month, day) = (of(c1, c2) * 100 + of(y1, y2), of(m1, m2), of(d1, d2));
        let (hour, minute, second) = (of(h1, h2), of(n1, n2), of(s1, s2));
        let is_valid = is_read
            && year >= 1
            && (1..=12).contains(&month)
            && (1..=days_in_month(year, month)).contains(&day)
            && hour <= 23
            && minute <= 59
            && second <= 60;
        if !is_valid {
            return None;
        }
        let (fraction_ms, zone_at) = fraction_ms(bytes, 19)?;
        let offset_min = offset_min(bytes.get(zone_at..)?)?;
        let seconds = i64::from(hour * 3600 + minute * 60 + second) - offset_min * 60;
        Some(Self(days_from_civil(year, month, day) * DAY_MS + seconds * 1000 + fraction_ms))
    }

    /// As `2026-11-21T20:00:03.120Z`. What RFC 3339 cannot write becomes its first or last moment.
    #[must_use]
    pub fn to_rfc3339(self) -> String {
        self.to_string()
    }
}

impl fmt::Display for EventTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0.clamp(FIRST_MS, LAST_MS);
        let (year, month, day) = civil_from_days(ms.div_euclid(DAY_MS));
        let ms = ms.rem_euclid(DAY_MS);
        let (hour, minute, second, milli) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000);
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let parts = [(0, 4, year), (5, 2, month), (8, 2, day), (11, 2, hour), (14, 2, minute), (17, 2, second), (20, 3, milli)];
        for (start, length, value) in parts {
            let places = text.get_mut(start..start + length).unwrap_or_default();
            places.iter_mut().rev().fold(value, |value, place| {
                *place = b'0' + (value % 10) as u8;
                value / 10
            });
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

fn digits(bytes: &[u8], at: usize, count: usize) -> Option<i64> {
    bytes
        .get(at..at + count)?
        .iter()
        .try_fold(0, |value, byte| byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0')))
}

/// Milliseconds of an optional fraction, and where the offset begins.
fn fraction_ms(bytes: &[u8], at: usize) -> Option<(i64, usize)> {
    if bytes.get(at) != Some(&b'.') {
        return Some((0, at));
    }
    let count = bytes.get(at + 1..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let ms = digits(bytes, at + 1, count.min(3))?;
    let scale = match count {
        0 => return None,
        1 => 100,
        2 => 10,
        _ => 1,
    };
    Some((ms * scale, at + 1 + count))
}

/// Minutes east of Greenwich.
fn offset_min(zone: &[u8]) -> Option<i64> {
    let sign = match zone.first()? {
        b'Z' | b'z' => return (zone.len() == 1).then_some(0),
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let hours = digits(zone, 1, 2)?;
    let minutes = digits(zone, 4, 2)?;
    (zone.len() == 6 && zone.get(3) == Some(&b':') && hours <= 23 && minutes <= 59).then_some(sign * (hours * 60 + minutes))
}

const fn days_in_month(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01, from the year 1 on. The year is counted from March, so that the leap day is its last.
fn days_from_civil(year: u32, month: u32, day: u32) -> i64 {
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    i64::from(year * 365 + year / 4 - year / 100 + year / 400 + day_of_year) - 719_468
}

/// The inverse: year, month, day.
const fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

#[cfg(test)]
mod tests {
    use super::{EventTime, FIRST_MS, LAST_MS};

    #[test]
    fn offsets_fractions_and_leap_seconds_are_read() {
        for (text, ms) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-11-21T20:00:03.120Z", 1_795_291_203_120),
            ("2026-11-21T21:30:03.120999999999+01:30", 1_795_291_203_120),
            ("2026-11-21t20:00:03.1z", 1_795_291_203_100),
            ("2016-12-31T23:59:60Z", 1_483_228_800_000),
            ("2000-02-29T00:00:00-00:00", 951_782_400_000),
            ("0001-01-01T00:00:00Z", FIRST_MS),
            ("9999-12-31T23:59:59.999Z", LAST_MS),
        ] {
            assert_eq!(EventTime::parse_rfc3339(text), Some(EventTime(ms)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_no_time() {
        for text in [
            "",
            "2026-11-21",
            "2026-11-21T20:00:03",
            "2026-11-21 20:00:03Z",
            "2026-11-21T20:00:03.Z",
            "2026-11-21T20:00:03+0100",
            "2026-11-21T20:00:03+24:00",
            "2026-11-21T20:00:03Zx",
            "2026-02-29T00:00:00Z",
            "1900-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:61Z",
            "0000-01-01T00:00:00Z",
            "+026-01-01T00:00:00Z",
            "2026-01-01T00:00:0٣Z",
        ] {
            assert_eq!(EventTime::parse_rfc3339(text), None, "{text}");
        }
    }

    #[test]
    fn times_outside_of_the_calendar_print_as_its_ends() {
        assert_eq!(EventTime(i64::MAX).to_rfc3339(), "9999-12-31T23:59:59.999Z");
        assert_eq!(EventTime(i64::MIN).to_rfc3339(), "0001-01-01T00:00:00.000Z");
    }
}
