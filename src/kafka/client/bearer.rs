//! How clients come to the token that they prove their identity with.

use std::error::Error;

use loopwarden_core::limits;
use loopwarden_log::clock;
use loopwarden_token::{E_NO_TOKEN, TokenError, Tokens};
use rdkafka::ClientContext;
use rdkafka::client::{Client, OAuthToken};

use crate::client::native::set_token;

/// What a client is answered that asks for a token. Before the token it has ends, there is another one.
pub(crate) fn answer(tokens: Option<&Tokens>) -> Result<OAuthToken, Box<dyn Error>> {
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
pub(crate) fn hand_to<C: ClientContext>(client: &Client<C>, tokens: Option<&Tokens>) -> Result<(), TokenError> {
    let Some(tokens) = tokens else { return Ok(()) };
    let token = tokens.token()?;
    set_token(client, &token.value, &token.principal, token.expires_ms)
        .map_err(|message| TokenError { message, is_refused: false })
}
