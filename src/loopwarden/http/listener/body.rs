//! Bodies on their way in: their size, their time, and the memory of all of them together are bounded.

use std::{sync::Arc, time::Duration};

use axum::body::{Body, BodyDataStream};
use axum::http::{HeaderMap, StatusCode, header};
use futures_util::StreamExt as _;
use loopwarden_core::limits;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::{http::answer, http::answer::Refusal};

/// Memory for bodies is handed out in these. Bytes.
const UNIT: usize = 64 * 1024;

/// Memory that a body holds, given back with this value.
pub(crate) type Memory = Vec<OwnedSemaphorePermit>;

/// How large a body may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimit {
    pub(crate) bytes_max: usize,
    /// What it is, for people.
    pub(crate) what: &'static str,
    /// What to do where it is larger, with the punctuation before it.
    pub(crate) advice: &'static str,
}

impl BodyLimit {
    /// Of events, which can be sent in several bodies.
    pub(crate) const OF_EVENTS: Self = Self { bytes_max: limits::HTTP_BODY_BYTES_MAX, what: "a body", advice: "; send several" };

    fn exceeded(&self) -> Refusal {
        let message = format!("{} may have {} bytes{}", self.what, self.bytes_max, self.advice);
        answer::error(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message).into()
    }
}

/// Bodies of some routes: they share memory, and have the same time.
#[derive(Debug)]
pub(crate) struct Bodies {
    memory: Arc<Semaphore>,
    wait: Duration,
}

impl Bodies {
    /// Bodies that may take so long each.
    pub(crate) fn new(wait: Duration) -> Self {
        Self { memory: Arc::new(Semaphore::new(limits::HTTP_BODIES_BYTES_MAX / UNIT)), wait }
    }

    /// The body, as far as its bound, its deadline and the memory for all bodies allow.
    pub(crate) async fn collect(&self, headers: &HeaderMap, body: Body, limit: BodyLimit) -> Result<(Vec<u8>, Memory), Refusal> {
        let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        let is_announced = announced.is_some_and(|length| length > limit.bytes_max);
        // It waits for a word before it sends any of it.
        if is_announced && headers.contains_key(header::EXPECT) {
            return Err(limit.exceeded());
        }
        let read = async {
            let (mut bytes, mut memory) = (Vec::new(), Vec::new());
            let mut chunks = body.into_data_stream();
            while let Some(chunk) = chunks.next().await {
                let chunk = chunk.map_err(|_| answer::bad_request("the body ended early"))?;
                if is_announced || bytes.len() + chunk.len() > limit.bytes_max {
                    drop((bytes, memory));
                    let _ = timeout(limits::HTTP_BODY_DROP_WAIT, drop_rest(&mut chunks)).await;
                    return Err(limit.exceeded());
                }
                while memory.len() * UNIT < bytes.len() + chunk.len() {
                    memory.push(Arc::clone(&self.memory).try_acquire_owned().map_err(|_| answer::busy())?);
                }
                bytes.extend_from_slice(&chunk);
            }
            Ok((bytes, memory))
        };
        let late = || Err(answer::error(StatusCode::REQUEST_TIMEOUT, "timeout", "the body did not come in time").into());
        timeout(self.wait, read).await.unwrap_or_else(|_| late())
    }
}

/// Reads on to the end of a body that nobody wants, or as far as its bounds allow.
async fn drop_rest(chunks: &mut BodyDataStream) {
    let mut left = limits::HTTP_BODY_BYTES_DROPPED;
    while let Some(Ok(chunk)) = chunks.next().await {
        let Some(less) = left.checked_sub(chunk.len()) else { return };
        left = less;
    }
}

#[cfg(test)]
mod tests {
    use axum::{http::HeaderValue, response::IntoResponse as _};
    use futures_util::stream;

    use super::*;

    const LIMIT: BodyLimit = BodyLimit { bytes_max: 10, what: "a check", advice: "" };

    /// What a body is answered with; 200 where it is taken.
    async fn status(bodies: &Bodies, headers: &HeaderMap, body: Body) -> u16 {
        let collected = bodies.collect(headers, body, LIMIT).await;
        collected.map_or_else(|refusal| refusal.into_response().status().as_u16(), |_| 200)
    }

    #[tokio::test]
    async fn a_body_has_its_size_its_time_and_its_part_of_the_memory() {
        let (bodies, none) = (Bodies::new(Duration::from_millis(50)), HeaderMap::new());
        let (bytes, memory) = bodies.collect(&none, Body::from("0123456789"), LIMIT).await.unwrap();
        assert_eq!((bytes.as_slice(), memory.len()), (&b"0123456789"[..], 1));
        assert_eq!(status(&bodies, &none, Body::from("0123456789x")).await, 413);
        let endless = || Body::from_stream(stream::pending::<Result<Vec<u8>, std::io::Error>>());
        assert_eq!(status(&bodies, &none, endless()).await, 408);
        // Whoever waits for a word before he sends is not waited for.
        let mut waiting = HeaderMap::from_iter([(header::CONTENT_LENGTH, HeaderValue::from_static("11"))]);
        waiting.insert(header::EXPECT, HeaderValue::from_static("100-continue"));
        assert_eq!(status(&bodies, &waiting, endless()).await, 413);
        let rest = bodies.memory.available_permits();
        let others = Arc::clone(&bodies.memory).acquire_many_owned(rest as u32).await.unwrap();
        assert_eq!(status(&bodies, &none, Body::from("x")).await, 503);
        assert_eq!(status(&bodies, &none, Body::empty()).await, 200, "nothing takes no memory");
        drop((others, memory));
        assert_eq!(bodies.memory.available_permits(), rest + 1);
    }
}
