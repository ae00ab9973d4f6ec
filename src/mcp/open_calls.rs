//! Calls on their way to the server and back.

use std::collections::{BTreeMap, VecDeque};

use crate::{events::Call, message::Id};

/// Calls that are remembered; of more, the oldest are forgotten: their results pass unread.
const OPEN_MAX: usize = 1_000;

/// Calls without a result so far.
#[derive(Debug, Default)]
pub(crate) struct OpenCalls {
    calls: BTreeMap<Id, Call>,
    order: VecDeque<Id>,
}

impl OpenCalls {
    pub(crate) fn put(&mut self, id: Id, call: Call) {
        if self.calls.insert(id.clone(), call).is_none() {
            self.order.push_back(id);
        }
        if self.order.len() > OPEN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.calls.remove(&oldest);
        }
    }

    pub(crate) fn take(&mut self, id: &Id) -> Option<Call> {
        let call = self.calls.remove(id)?;
        // Answers mostly come in order: the one sought stands in front.
        if let Some(at) = self.order.iter().position(|known| known == id) {
            self.order.remove(at);
        }
        Some(call)
    }
}
