//! Events and commands over time: a row each, so that no colour has to tell them apart.

use super::markup::Markup;
use super::shared;
use crate::report::{Report, Slice};

/// Slices drawn.
const SLICES_MAX: usize = 120;
/// Empty slices in a row that are drawn as such; of more, only a break.
const EMPTY_MAX: i64 = 8;
/// Width of a slice in the drawing.
const STEP: f64 = 10.0;
/// Height of a row in the drawing.
const HEIGHT: f64 = 40.0;

/// A row: its name, its class, what it counts.
type Row = (&'static str, &'static str, fn(&Slice) -> u64);

/// A slice and its place from the left.
struct Placed {
    at: usize,
    slice: Slice,
}

pub(super) fn section(page: &mut Markup, report: &Report) {
    let line = report.timeline.in_slices(SLICES_MAX);
    let (mut placed, mut breaks, mut next, mut last) = (Vec::new(), Vec::new(), 0_usize, None);
    for (number, slice) in line.slices() {
        if let Some(last) = last {
            let empty: i64 = number - last - 1;
            if empty > EMPTY_MAX {
                breaks.push(next);
                next += 1;
            } else {
                next += empty as usize;
            }
        }
        placed.push(Placed { at: next, slice });
        next += 1;
        last = Some(number);
    }
    let (Some((first, _)), Some(last)) = (line.slices().next(), last) else { return };
    let width = STEP * next as f64;
    shared::section(page, "Timeline", |page| {
        page.raw("<div class=\"lanes\">\n");
        let rows: [Row; 4] = [
            ("events", "e", |slice| slice.events),
            ("nudges", "u", |slice| slice.nudges),
            ("blocks", "b", |slice| slice.blocks),
            ("shadow", "s", |slice| slice.shadow),
        ];
        for (name, class, count) in rows {
            let top = placed.iter().map(|placed| count(&placed.slice)).max().unwrap_or_default();
            if top == 0 {
                continue;
            }
            page.raw("<span class=\"quiet\">")
                .raw(name)
                .raw("</span><svg preserveAspectRatio=\"none\" role=\"img\" viewBox=\"0 0 ");
            page.length(width).raw(" 40\" aria-label=\"").raw(name).raw(" over time, at most ").number(top).raw(" in a slice\">");
            for at in &breaks {
                let x = STEP * (*at as f64 + 0.5);
                page.raw("<path class=\"gap\" d=\"M").length(x).raw(",0V40\"/>");
            }
            for placed in &placed {
                let count = count(&placed.slice);
                if count == 0 {
                    continue;
                }
                // Something is never nothing: a single command among thousands is still seen.
                let height = (HEIGHT * count as f64 / top as f64).max(2.0);
                page.raw("<rect class=\"").raw(class).raw("\" x=\"").length(STEP * placed.at as f64 + 0.5).raw("\" y=\"");
                page.length(HEIGHT - height).raw("\" width=\"").length(STEP - 1.0).raw("\" height=\"").length(height).raw("\"/>");
            }
            page.raw("</svg><span class=\"quiet n\">").number(top).raw("</span>\n");
        }
        let short = |time: String| time.get(..19).map_or_else(|| time.clone(), |time| time.replace('T', " "));
        page.raw("<span></span><span class=\"ends quiet\"><span>")
            .text(&short(line.begin(first).to_rfc3339()))
            .raw("</span><span>");
        page.text(&short(line.begin(last + 1).to_rfc3339())).raw("</span></span><span></span>\n</div>\n");
        page.raw("<p class=\"quiet\">A bar is ")
            .text(&span(line.width_ms()))
            .raw("; the number at the right is that of the highest.");
        if !breaks.is_empty() {
            page.raw(" A dashed line stands for a time without events.");
        }
        page.raw("</p>\n");
    });
}

/// A length of time in its largest whole unit, about.
fn span(ms: i64) -> String {
    let units = [(86_400_000, "days"), (3_600_000, "hours"), (60_000, "minutes"), (1_000, "seconds")];
    let (unit, name) = units.into_iter().find(|(unit, _)| ms >= 2 * unit).unwrap_or((1_000, "seconds"));
    let (whole, tenths) = (ms / unit, ms % unit * 10 / unit);
    match (whole, tenths) {
        (1, 0) => "1 second".to_owned(),
        (_, 0) => format!("{whole} {name}"),
        _ => format!("{whole}.{tenths} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::span;

    #[test]
    fn a_span_is_told_in_a_unit_that_fits() {
        assert_eq!(
            [1_000, 64_000, 256_000, 16_384_000, 1_048_576_000].map(span),
            ["1 second", "64 seconds", "4.2 minutes", "4.5 hours", "12.1 days"]
        );
    }
}
