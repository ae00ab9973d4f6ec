//! What an answer means for a command (page `webhooks`).

use std::{fmt, time::Duration};

use loopwarden_log::clock;

/// The status of an answer, and the beginning of its text: a receiver says there what it did not like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpStatus {
    pub code: u16,
    /// One line; empty where there is none.
    pub text: String,
}

impl fmt::Display for HttpStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, text } = self;
        if text.is_empty() { write!(f, "status {code}") } else { write!(f, "status {code}: {text}") }
    }
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Done(HttpStatus),
    /// It does not want this command, whenever it comes.
    Refused(HttpStatus),
    /// It wants none any more.
    Gone(HttpStatus),
    /// Another try may help, at the earliest after what it asked for. The status, or what happened instead.
    Again(Result<HttpStatus, String>, Option<Duration>),
}

impl Answer {
    /// What a status says. Most of 4xx is about the command: another try gives the same. Those about the place, its credentials or its
    /// load are none of the command's fault, and so are all others.
    pub(crate) fn of(status: HttpStatus, retry_after: Option<&str>, now_ms: i64) -> Self {
        match status.code {
            200..=299 => Self::Done(status),
            410 => Self::Gone(status),
            401 | 403 | 404 | 405 | 407 | 408 | 421 | 425 | 429 => Self::Again(Ok(status), asked(retry_after, now_ms)),
            400..=499 => Self::Refused(status),
            _ => Self::Again(Ok(status), asked(retry_after, now_ms)),
        }
    }
}

/// `Retry-After`: seconds, or a time.
fn asked(retry_after: Option<&str>, now_ms: i64) -> Option<Duration> {
    let text = retry_after?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a number has are a long time too.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let until_ms = clock::unix_ms(httpdate::parse_http_date(text).ok()?);
    Some(Duration::from_millis(until_ms.saturating_sub(now_ms).max(0).unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_one_fate() {
        let status = |code| HttpStatus { code, text: "why".to_owned() };
        let fate = |code| Answer::of(status(code), None, 0);
        for code in [200, 202, 204, 299] {
            assert_eq!(fate(code), Answer::Done(status(code)));
        }
        for code in [400, 402, 409, 413, 415, 418, 422, 451, 499] {
            assert_eq!(fate(code), Answer::Refused(status(code)));
        }
        for code in [100, 199, 301, 302, 307, 308, 401, 403, 404, 405, 408, 425, 429, 500, 502, 503, 504, 599, 999] {
            assert_eq!(fate(code), Answer::Again(Ok(status(code)), None));
        }
        assert_eq!(fate(410), Answer::Gone(status(410)));
    }

    #[test]
    fn a_time_to_come_again_is_seconds_or_a_date_and_anything_else_is_none() {
        let asked = |text: &str| asked(Some(text), 1_445_412_480_000);
        assert_eq!(asked(" 120 "), Some(Duration::from_secs(120)));
        assert_eq!(asked("99999999999999999999999"), Some(Duration::from_secs(u64::MAX)));
        // The example of RFC 9110, half a minute later.
        assert_eq!(asked("Wed, 21 Oct 2015 07:28:30 GMT"), Some(Duration::from_secs(30)));
        assert_eq!(asked("Wed, 21 Oct 1998 07:28:30 GMT"), Some(Duration::ZERO));
        for bad in ["", "soon", "-1", "1.5", "Wed, 99 Oct 2015 07:28:30 GMT"] {
            assert_eq!(asked(bad), None, "{bad}");
        }
    }
}
