//! A body that passes: what was read of it already, then the rest as it comes, its events looked at where it has some.

use std::task::{Context, Poll};
use std::{pin::Pin, sync::Arc};

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming};
use loopwarden_mcp::{Calls, LINE_BYTES_MAX};

use crate::events::Events;

/// Bytes, then an error, or the rest.
#[derive(Default)]
pub(crate) struct Passing {
    pub(crate) first: Option<Bytes>,
    pub(crate) failed: Option<hyper::Error>,
    pub(crate) rest: Option<Incoming>,
    pub(crate) events: Option<(Events, Arc<Calls>)>,
}

impl Passing {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self { first: Some(bytes.into()), ..Self::default() }
    }

    /// Reads a body as far as it is bounded. It is whole where neither an error nor a rest is left.
    pub(crate) async fn read(mut body: Incoming) -> Self {
        let mut bytes = BytesMut::new();
        let (mut failed, mut rest) = (None, None);
        loop {
            match body.frame().await {
                None => break,
                Some(Err(error)) => {
                    failed = Some(error);
                    break;
                }
                // Trailers of a body that is short enough to be read are none of JSON.
                Some(Ok(frame)) => bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data)),
            }
            if bytes.len() > LINE_BYTES_MAX {
                rest = Some(body);
                break;
            }
        }
        Self { first: Some(bytes.freeze()), failed, rest, events: None }
    }

    /// All bytes, if they are there.
    pub(crate) fn bytes(&self) -> Option<&Bytes> {
        self.first.as_ref().filter(|_| self.failed.is_none() && self.rest.is_none())
    }
}

impl Body for Passing {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        if let Some(first) = this.first.take().filter(|first| !first.is_empty()) {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        if let Some(error) = this.failed.take() {
            return Poll::Ready(Some(Err(error)));
        }
        while let Some(rest) = &mut this.rest {
            let frame = std::task::ready!(Pin::new(rest).poll_frame(context));
            let Some((events, calls)) = &mut this.events else { return Poll::Ready(frame) };
            let bytes = match frame {
                Some(Ok(frame)) => match frame.into_data() {
                    // The guard is asked meanwhile, with a deadline: this thread waits, others run.
                    Ok(data) => tokio::task::block_in_place(|| events.take(&data, calls)),
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                None => {
                    this.rest = None;
                    events.rest()
                }
                failed => return Poll::Ready(failed),
            };
            if !bytes.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(bytes.into()))));
            }
        }
        Poll::Ready(None)
    }
}
