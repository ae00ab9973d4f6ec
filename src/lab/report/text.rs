//! Text and numbers for people. Names come from outside: nothing in them may steer a terminal.

use loopwarden_core::event::is_unseen;

/// Stands for what was taken out.
pub(super) const REPLACEMENT: char = '\u{fffd}';

/// Whether a letter changes the direction of the text behind it, so that a name could look like another one.
pub(super) const fn is_direction_mark(letter: char) -> bool {
    matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text as a terminal may show it: on one line, without control characters.
pub fn plain(text: &str) -> String {
    text.chars().map(|letter| if is_unseen(letter) { REPLACEMENT } else { letter }).collect()
}

/// A number and its noun: `1 session`, `1,200 sessions`.
pub fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(number))
}

/// A number with a comma between thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap_or_default()).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_moves_a_cursor_or_turns_a_line_reaches_a_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb\u{9b}31m\u{202e}c\u{200b}\n"), "a\u{fffd}[2Jb\u{fffd}31m\u{fffd}c\u{fffd}\u{fffd}");
        assert_eq!(plain("größe 会話 😀"), "größe 会話 😀");
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
