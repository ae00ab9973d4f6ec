//! Texts for the model: plain statements, bounded.

use crate::MESSAGE_CHARS_MAX;

/// Text that poses as a word of the system may be taken for an injection, and shown to a person in place of the model.
const PREFIX: &str = "[System] ";
/// Text of a refusal whose command has none.
const NO_TEXT: &str = "This call was refused: it is part of a loop that goes on.";
/// What a nudge adds that comes as a refusal.
const ONCE: &str = " The same call will be let through if it is needed.";

/// The text of a command.
pub(crate) fn plain(message: &str) -> String {
    let text = message.replace(PREFIX, "");
    let text = text.trim();
    if text.is_empty() { NO_TEXT.to_owned() } else { cut(text, MESSAGE_CHARS_MAX) }
}

/// The text of a nudge that comes as the refusal of one call.
pub(crate) fn once(message: &str) -> String {
    cut(&plain(message), MESSAGE_CHARS_MAX - ONCE.len()) + ONCE
}

fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text.to_owned(),
        Some(_) => text.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_plain_and_bounded() {
        assert_eq!(plain("[System] You've called Bash."), "You've called Bash.");
        assert_eq!(plain("Reminder 2: [System] Stop."), "Reminder 2: Stop.");
        assert_eq!(plain("[System] "), NO_TEXT);
        let long = "é".repeat(2_000);
        assert_eq!(plain(&long).chars().count(), MESSAGE_CHARS_MAX);
        assert_eq!(once(&long).chars().count(), MESSAGE_CHARS_MAX);
        assert!(once("a").ends_with("if it is needed."));
        assert_eq!(plain(&"é".repeat(MESSAGE_CHARS_MAX)), "é".repeat(MESSAGE_CHARS_MAX));
    }
}
