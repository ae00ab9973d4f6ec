//! A page being written. Markup is only what stands in this program's source; everything else goes in as text.

use std::fmt::Write as _;

use crate::report::grouped;

/// What every page begins with: by it a page is known.
pub const BEGINNING: &str = "<!doctype html>";

/// The page.
#[derive(Debug, Default)]
pub(super) struct Markup(String);

impl Markup {
    /// A page with a title, up to its main part.
    pub(super) fn page(title: &'static str) -> Self {
        let mut page = Self::default();
        page.raw(BEGINNING);
        page.raw("\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        page.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
        page.raw("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n");
        page.raw("<link rel=\"icon\" href=\"data:,\">\n<title>").raw(title).raw("</title>\n<style>\n");
        page.raw(include_str!("report.css")).raw("</style>\n</head>\n<body>\n");
        page
    }

    /// Ends the page.
    pub(super) fn finish(mut self) -> String {
        self.raw("</main>\n</body>\n</html>\n");
        self.0
    }

    /// Markup of our own: it cannot come from outside.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Text of any origin, also inside an attribute's double quotes.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        for letter in text.chars() {
            match letter {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                '\n' => self.0.push('\n'),
                _ if letter.is_control() || turns_text_round(letter) => self.0.push('\u{fffd}'),
                _ => self.0.push(letter),
            }
        }
        self
    }

    /// A number for people.
    pub(super) fn number(&mut self, number: u64) -> &mut Self {
        self.0.push_str(&grouped(number));
        self
    }

    /// A length or place in a drawing.
    pub(super) fn length(&mut self, length: f64) -> &mut Self {
        let _ = write!(self.0, "{length:.2}");
        self
    }

    /// Number of a class or an id.
    pub(super) fn index(&mut self, index: usize) -> &mut Self {
        let _ = write!(self.0, "{index}");
        self
    }
}

/// Letters that change the direction of what follows: a name could make the page say something else than it says.
const fn turns_text_round(letter: char) -> bool {
    matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
