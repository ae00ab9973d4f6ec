//! The frame of a page.

use maud::{Markup, PreEscaped, html};

use crate::report::text::{REPLACEMENT, is_direction_mark};

/// The beginning of every page: by it a page is recognised.
pub const BEGINNING: &str = "<!doctype html>";
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// A whole page. Control characters and marks of direction, which only foreign names can hold, are replaced.
pub(super) fn page(title: &str, header: &Markup, main: &Markup) -> String {
    let page = html! {
        (PreEscaped(BEGINNING))
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                link rel="icon" href="data:,";
                title { (title) }
                style { (PreEscaped(include_str!("report.css"))) }
            }
            body {
                header { (header) }
                main { (main) }
            }
        }
    };
    let is_unsafe = |letter: char| (letter.is_control() && letter != '\n') || is_direction_mark(letter);
    let letters = page.0.chars().map(|letter| if is_unsafe(letter) { REPLACEMENT } else { letter });
    letters.chain(['\n']).collect()
}
