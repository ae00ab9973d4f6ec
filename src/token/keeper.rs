//! The token of a process: renewed by a thread of its own before it ends, so that no lane ever waits for an issuer.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::{fmt, io};
use std::{thread, time::Duration};

use loopwarden_log::{clock, clock::Deadline};

use crate::source::Source;
use crate::{Token, TokenError};

pub const E_NO_TOKEN: &str = "E0106";

/// Wait for the first answer: that of one request, and some for the thread.
const FIRST_WAIT: Duration = Duration::from_secs(8);
/// Between two tries after a failure: doubled from the first to the last.
const AGAIN_FIRST: Duration = Duration::from_millis(500);
const AGAIN_MAX: Duration = Duration::from_secs(15);
/// Longest sleep of the thread: by then it sees that nobody needs it any more.
const SLEEP_MAX: Duration = Duration::from_secs(5);

/// The tokens of a process. Its copies share one.
#[derive(Clone)]
pub struct Tokens(Arc<Keeper>);

struct Keeper {
    source: Source,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_started: bool,
    token: Option<Token>,
    /// Of the last try, if it failed.
    failure: Option<TokenError>,
    failures: u32,
    /// The next try. None: at once.
    next: Option<Deadline>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tokens").field(&self.0.source).finish()
    }
}

impl PartialEq for Tokens {
    fn eq(&self, other: &Self) -> bool {
        self.0.source == other.0.source
    }
}

impl Eq for Tokens {}

impl Tokens {
    /// Asks nobody yet.
    pub fn new(source: Source) -> Self {
        Self(Arc::new(Keeper { source, state: Mutex::default(), changed: Condvar::new() }))
    }

    /// A token that has not ended. Waits only while the very first answer is under way, some seconds at most.
    ///
    /// # Errors
    /// Why there is none.
    pub fn token(&self) -> Result<Token, TokenError> {
        let deadline = Deadline::after(FIRST_WAIT);
        let mut state = self.0.lock();
        if !state.is_started {
            self.start().map_err(|error| TokenError::passing(format!("cannot start a thread: {error}")))?;
            state.is_started = true;
        }
        loop {
            if let Some(token) = state.token.as_ref().filter(|token| token.expires_ms > clock::now_ms()) {
                return Ok(token.clone());
            }
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            if deadline.is_over() {
                return Err(TokenError::passing("no token came in time"));
            }
            (state, _) = self.0.changed.wait_timeout(state, deadline.left()).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn start(&self) -> io::Result<()> {
        let keeper = Arc::downgrade(&self.0);
        thread::Builder::new().name("tokens".to_owned()).spawn(move || keep(&keeper)).map(drop)
    }
}

/// Until nobody needs tokens any more.
fn keep(keeper: &Weak<Keeper>) {
    while let Some(sleep) = keeper.upgrade().map(|keeper| keeper.turn()) {
        thread::park_timeout(sleep.min(SLEEP_MAX));
    }
}

impl Keeper {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks, if it is time. How long to sleep then.
    fn turn(&self) -> Duration {
        let next = self.lock().next;
        if let Some(next) = next
            && !next.is_over()
        {
            return next.left();
        }
        let fetched = self.source.fetch(clock::now_ms());
        let mut state = self.lock();
        let wait = match fetched {
            Ok(token) => {
                if state.failure.take().is_some() {
                    tracing::info!("brokers get a new token again");
                }
                state.failures = 0;
                let wait = self.source.refresh_after(&token, clock::now_ms());
                state.token = Some(token);
                wait
            }
            Err(failure) => {
                let wait = AGAIN_MAX.min(AGAIN_FIRST * 2_u32.saturating_pow(state.failures));
                state.failures += 1;
                tracing::warn!(
                    code = E_NO_TOKEN,
                    again_in_ms = wait.as_millis() as u64,
                    "no new token for the brokers: {failure}"
                );
                state.failure = Some(failure);
                wait
            }
        };
        state.next = Some(Deadline::after(wait));
        self.changed.notify_all();
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_at_once_and_shows_no_secret() {
        let tokens = Tokens::new(Source::File("/nonexistent/token".into()));
        assert!(tokens.token().expect_err("there is none").message.contains("/nonexistent/token"));
        assert_eq!(format!("{tokens:?}"), r#"Tokens(File("/nonexistent/token"))"#);
    }
}
