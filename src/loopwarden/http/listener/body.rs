//! Bodies on their way in: their size, their time, and the memory of all of them together are bounded.

use std::sync::Arc;

use axum::body::{Body, BodyDataStream};
use axum::http::{HeaderMap, StatusCode, header};
use futures_util::StreamExt as _;
use loopwarden_core::limits;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::http::answer;
use crate::http::answer::Refusal;
use crate::http::shared::Shared;

/// Memory for bodies is handed out in these. Bytes.
pub(crate) const BODY_UNIT: usize = 64 * 1024;

/// The body, as far as its bound, its deadline and the memory for all bodies allow.
pub(crate) async fn collect(
    shared: &Shared,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Vec<u8>, Vec<OwnedSemaphorePermit>), Refusal> {
    let too_large = || {
        let message = format!("a body may have {} bytes; send several", limits::HTTP_BODY_BYTES_MAX);
        Refusal::from(answer::error(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message))
    };
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let is_announced = announced.is_some_and(|length| length > limits::HTTP_BODY_BYTES_MAX);
    // It waits for a word before it sends any of it.
    if is_announced && headers.contains_key(header::EXPECT) {
        return Err(too_large());
    }
    let read = async {
        let (mut bytes, mut memory) = (Vec::new(), Vec::new());
        let mut chunks = body.into_data_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|_| answer::bad_request("the body ended early"))?;
            if is_announced || bytes.len() + chunk.len() > limits::HTTP_BODY_BYTES_MAX {
                drop((bytes, memory));
                let _ = timeout(limits::HTTP_BODY_DROP_WAIT, drop_rest(&mut chunks)).await;
                return Err(too_large());
            }
            while memory.len() * BODY_UNIT < bytes.len() + chunk.len() {
                memory.push(Arc::clone(&shared.bodies).try_acquire_owned().map_err(|_| answer::busy())?);
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok((bytes, memory))
    };
    let in_time = timeout(limits::HTTP_BODY_WAIT, read).await;
    in_time.unwrap_or_else(|_| Err(answer::error(StatusCode::REQUEST_TIMEOUT, "timeout", "the body did not come in time").into()))
}

/// Reads on to the end of a body that nobody wants, or as far as its bounds allow.
async fn drop_rest(chunks: &mut BodyDataStream) {
    let mut left = limits::HTTP_BODY_BYTES_DROPPED;
    while let Some(Ok(chunk)) = chunks.next().await {
        let Some(less) = left.checked_sub(chunk.len()) else { return };
        left = less;
    }
}
