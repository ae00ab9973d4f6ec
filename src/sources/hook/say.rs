//! What the model is to read, taken from an answer of the guard.

use loopwarden_guard::{Answer, Decision, MESSAGE_CHARS_MAX};

/// Stands for the text of a refusal that has none.
const REFUSED: &str = "This call was refused: it has been made before with the same result";

/// A text for the model, and what goes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Say {
    /// Never empty.
    pub(crate) text: String,
    /// The call must not run.
    pub(crate) deny: bool,
    pub(crate) stop: bool,
}

impl Say {
    /// What is to be said; `None` where there is nothing. `is_before` tells a call that may still be refused.
    pub(crate) fn of(answer: &Answer, is_before: bool) -> Option<Self> {
        let deny = is_before && answer.decision == Decision::Deny;
        let text: String = answer.message.as_deref().unwrap_or_default().chars().take(MESSAGE_CHARS_MAX).collect();
        match text.trim() {
            "" if deny || answer.stop => Some(Self { text: REFUSED.to_owned(), deny, stop: answer.stop }),
            "" => None,
            _ => Some(Self { text, deny, stop: answer.stop }),
        }
    }
}
