//! Text from outside as a terminal may see it, and how wide it is there.

use unicode_width::UnicodeWidthStr as _;

/// Marks of what was taken out.
const TAKEN_OUT: char = '\u{fffd}';

/// Whether a character moves the cursor, changes colours, or turns what stands behind it: controls of ASCII and Latin-1, and the marks of
/// direction that make a name look like another one.
fn is_unsafe(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// A text as a terminal may see it: names of sessions, labels and files come from outside.
#[must_use]
pub fn plain(text: &str) -> String {
    text.chars().map(|letter| if is_unsafe(letter) { TAKEN_OUT } else { letter }).collect()
}

/// Columns of a terminal that a text takes. Ideographs take two, marks that join a letter none.
#[must_use]
pub(super) fn columns(text: &str) -> usize {
    text.width()
}

/// As much of a text as fits into so many columns.
#[must_use]
pub(super) fn cut(text: &str, columns_max: usize) -> &str {
    let mut end = 0;
    for (at, letter) in text.char_indices() {
        let next = at + letter.len_utf8();
        if text.get(..next).is_none_or(|head| columns(head) > columns_max) {
            break;
        }
        end = next;
    }
    text.get(..end).unwrap_or_default()
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
    fn a_text_is_cut_where_its_columns_end() {
        assert_eq!((columns("会話"), columns("e\u{301}"), columns("ab")), (4, 1, 2));
        assert_eq!((cut("会話ab", 3), cut("会話ab", 5), cut("ab", 9), cut("e\u{301}x", 1)), ("会", "会話a", "ab", "e\u{301}"));
    }
}
