//! How clients come to the token that they prove their identity with.

use std::error::Error;

use loopwarden_core::limits;
use loopwarden_log::{LogError, clock};
use loopwarden_native::set_token;
use loopwarden_token::{E_NO_TOKEN, TokenError, Tokens};
use rdkafka::ClientContext;
use rdkafka::client::{Client, OAuthToken};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::fate;

/// What a client is answered that asks for a token. Before the token it has ends, there is another one.
pub(super) fn answer(tokens: Option<&Tokens>) -> Result<OAuthToken, Box<dyn Error>> {
    let tokens = tokens.ok_or("OAUTHBEARER is set among librdkafka's settings: use kafka.sasl_mechanism")?;
    let token = tokens.token().map_err(|error| format!("{E_NO_TOKEN}: {error}"))?;
    // A client asks again after four fifths of what it is told, and connections prove themselves anew after nine tenths of the token's life: by
    // then it must have the next one. A file may be replaced at any time besides.
    let now_ms = clock::now_ms();
    let told_ms = token.expires_ms.saturating_sub(now_ms) / 4 * 3;
    let lifetime_ms = now_ms + told_ms.clamp(1, limits::TOKEN_ASK.as_millis() as i64);
    Ok(OAuthToken { token: token.value, principal_name: token.principal, lifetime_ms })
}

/// Gives a client the token of now, before a question on a client that nobody polls.
pub(super) fn hand_to<C: ClientContext>(client: &Client<C>, tokens: Option<&Tokens>) -> Result<(), TokenError> {
    let Some(tokens) = tokens else { return Ok(()) };
    let token = tokens.token()?;
    set_token(client, &token.value, &token.principal, token.expires_ms)
        .map_err(|message| TokenError { message, is_refused: false })
}

/// Without a token a command stops: who started it is told why.
pub(super) fn fatal(error: &TokenError) -> LogError {
    fate::fatal(E_NO_TOKEN, format!("no token for the brokers: {error}"))
}

/// Without a token a lane tries again: the one it had may last until there is another.
pub(super) fn transient(error: &TokenError) -> LogError {
    LogError::Transient(format!("{E_NO_TOKEN}: no token for the brokers: {error}"))
}

/// What it means that brokers refuse a running client. A password that was right is wrong for good. A token may have ended before the next one
/// came, or be signed with a key that the broker does not know yet: then trying again helps.
pub(super) fn of_refused(tokens: Option<&Tokens>, error: &KafkaError, doing: &str) -> Option<LogError> {
    tokens?;
    let is_refusal =
        matches!(error.rdkafka_error_code(), Some(RDKafkaErrorCode::Authentication | RDKafkaErrorCode::SaslAuthenticationFailed));
    is_refusal.then(|| LogError::Transient(format!("{}: {doing}: the brokers refuse the token: {error}", fate::E_NOT_AUTHORISED)))
}
