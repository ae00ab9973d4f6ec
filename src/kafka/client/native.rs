//! What rdkafka does not wrap: handing a token to a client whose events nobody polls. The only unsafe code of the workspace.
//!
//! An admin client of rdkafka 0.39 polls the answers to its own requests alone, so that librdkafka's question for a token, an event of the main
//! queue, never reaches it. A reader is polled only while it reads.

use std::ffi::{CStr, CString};
use std::ptr;

use rdkafka::{ClientContext, bindings::rd_kafka_oauthbearer_set_token, client::Client, types::RDKafkaRespErr};

/// Longest text of an error. Bytes.
const ERROR_BYTES: usize = 512;

/// Gives a client the token that it proves its identity with from now on. `expires_ms`: Unix ms.
///
/// # Errors
/// librdkafka's words: the client uses another mechanism, the token has expired or has characters that no token has.
pub(crate) fn set_token<C: ClientContext>(
    client: &Client<C>,
    token: &str,
    principal: &str,
    expires_ms: i64,
) -> Result<(), String> {
    let text = |text: &str| CString::new(text).map_err(|_| "the token holds a zero byte".to_owned());
    let (token, principal) = (text(token)?, text(principal)?);
    let mut error = [0_u8; ERROR_BYTES];
    // SAFETY: the client lives as long as the borrow; both texts and the buffer outlive the call, which copies what it keeps; no extensions are
    // given, so that a null list of length 0 is right; the length of the buffer is its own.
    #[expect(unsafe_code, reason = "one call into librdkafka, see the top of the file")]
    let code = unsafe {
        rd_kafka_oauthbearer_set_token(
            client.native_ptr(),
            token.as_ptr(),
            expires_ms,
            principal.as_ptr(),
            ptr::null_mut(),
            0,
            error.as_mut_ptr().cast(),
            error.len(),
        )
    };
    if code == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
        return Ok(());
    }
    Err(CStr::from_bytes_until_nul(&error).map_or_else(|_| format!("{code:?}"), |text| text.to_string_lossy().into_owned()))
}
