//! The calls of one session: asked about before, told after. Where their bytes come from and go to is not known here.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::content::{ToolResult, addition, refusal};
use crate::desk::{CallAnswer, Desk};
use crate::message::{Answered, Asked, Id, Line, answered, asked, place};
use crate::{events::Call, open_calls::OpenCalls};

/// A guard's desk and the calls that are open at it.
pub struct Calls {
    desk: Desk,
    pub(crate) open: Mutex<OpenCalls>,
}

impl Calls {
    pub(crate) fn new(desk: Desk) -> Self {
        Self { desk, open: Mutex::new(OpenCalls::default()) }
    }

    /// Looks at what the client sends; something only where a call is refused.
    pub fn asked(&self, line: &[u8]) -> Option<Answers> {
        let read = Line::read(line)?;
        let mut replies = Vec::new();
        let mut kept = Vec::new();
        for message in read.messages() {
            match asked(message) {
                Some(Asked::Call { id, raw_id, tool, arguments }) => {
                    let (call, said) = self.desk.before(&tool, arguments);
                    if let CallAnswer::Refused(text) = said {
                        replies.push(refusal(raw_id, &text));
                        continue;
                    }
                    lock(&self.open).put(id, call);
                }
                Some(Asked::Cancelled(id)) => self.cancelled(&id),
                None => {}
            }
            kept.push(message.get());
        }
        if replies.is_empty() {
            return None;
        }
        Some(match read {
            Line::One(_) => Answers { reply: format!("{}\n", replies.concat()), rest: None },
            // What was refused of a batch is answered at once, the rest by the server.
            Line::Batch(_) => Answers {
                reply: format!("[{}]\n", replies.join(",")),
                rest: (!kept.is_empty()).then(|| format!("[{}]\n", kept.join(","))),
            },
        })
    }

    fn cancelled(&self, id: &Id) {
        let call = lock(&self.open).take(id);
        if let Some(call) = call {
            self.desk.after(&call, call.cancelled(), false);
        }
    }

    /// Looks at what the server sends; texts to be put in, with their places in order.
    pub fn answered(&self, line: &[u8]) -> Vec<(usize, String)> {
        // Most of what a server says is no answer to a call that is open.
        let Some(read) = Line::read(line) else { return Vec::new() };
        let mut additions = Vec::new();
        for message in read.messages() {
            let Some((id, answer)) = answered(message) else { continue };
            let Some(call) = lock(&self.open).take(&id) else { continue };
            additions.extend(self.told(line, &call, &answer));
        }
        additions
    }

    fn told(&self, line: &[u8], call: &Call, answer: &Answered<'_>) -> Option<(usize, String)> {
        let list = match answer {
            Answered::Result(result) => ToolResult::read(result).and_then(|result| result.list()),
            Answered::Error(_) => None,
        };
        let text = self.desk.after(call, call.after(answer), list.is_some())?;
        let list = list?;
        let end = place(line, list)?.end.checked_sub(1)?;
        Some((end, addition(list, &text)))
    }
}

/// A line in which a call is refused.
pub struct Answers {
    /// For the client.
    pub reply: String,
    /// For the server.
    pub rest: Option<String>,
}

/// Bytes with texts put in at their places, which come in order.
pub fn with(bytes: &[u8], additions: impl IntoIterator<Item = (usize, String)>) -> Vec<u8> {
    let (mut out, mut written) = (Vec::with_capacity(bytes.len()), 0);
    for (at, text) in additions {
        out.extend_from_slice(bytes.get(written..at).unwrap_or_default());
        out.extend_from_slice(text.as_bytes());
        written = at;
    }
    out.extend_from_slice(bytes.get(written..).unwrap_or_default());
    out
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
