//! What it means that there is no token, or that brokers refuse it.

use loopwarden_log::LogError;
use loopwarden_token::{E_NO_TOKEN, TokenError, Tokens};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::client::fate;

/// Without a token a command stops: who started it is told why.
pub(crate) fn fatal(error: &TokenError) -> LogError {
    fate::fatal(E_NO_TOKEN, format!("no token for the brokers: {error}"))
}

/// Without a token a lane tries again: the one it had may last until there is another.
pub(crate) fn transient(error: &TokenError) -> LogError {
    LogError::Transient(format!("{E_NO_TOKEN}: no token for the brokers: {error}"))
}

/// What an error of a single call of a running client means.
pub(crate) fn fate_of(tokens: Option<&Tokens>, error: &KafkaError, doing: &str) -> LogError {
    of_refused(tokens, error, doing).unwrap_or_else(|| fate::of(error, doing))
}

/// What it means that brokers refuse a running client. A password that was right is wrong for good. A token may have ended before the next one
/// came, or be signed with a key that the broker does not know yet: then trying again helps.
pub(crate) fn of_refused(tokens: Option<&Tokens>, error: &KafkaError, doing: &str) -> Option<LogError> {
    tokens?;
    let is_refusal =
        matches!(error.rdkafka_error_code(), Some(RDKafkaErrorCode::Authentication | RDKafkaErrorCode::SaslAuthenticationFailed));
    is_refusal.then(|| LogError::Transient(format!("{}: {doing}: the brokers refuse the token: {error}", fate::E_NOT_AUTHORISED)))
}
