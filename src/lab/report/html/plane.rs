//! Dots in a plane: loops found against false alarms.

use std::collections::BTreeMap;

use super::markup::Markup;
use crate::report::Plot;
use crate::report::plot::share;

/// Corners of the plane inside the drawing.
const LEFT: f64 = 60.0;
const RIGHT: f64 = 620.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 330.0;

pub(super) fn draw(page: &mut Markup, plot: &Plot) {
    let (x_range, y_range) = (plot.x_range(), plot.y_range());
    let x_of = |x: u64| LEFT + (RIGHT - LEFT) * share(x, x_range);
    let y_of = |y: u64| BOTTOM - (BOTTOM - TOP) * share(y, y_range);
    page.raw("<svg class=\"plane\" viewBox=\"0 0 640 400\" role=\"img\" aria-label=\"").text(&plot.y_name).raw(" against ");
    page.text(&plot.x_name).raw("; the table has the numbers\">\n<path class=\"axis\" d=\"M60,16V330H620\"/>\n");
    page.raw("<text x=\"52\" y=\"22\" text-anchor=\"end\">").number(y_range.1).raw("</text>");
    page.raw("<text x=\"52\" y=\"334\" text-anchor=\"end\">").number(y_range.0).raw("</text>");
    page.raw("<text x=\"60\" y=\"354\">").number(x_range.0).raw("</text>");
    page.raw("<text x=\"620\" y=\"354\" text-anchor=\"end\">").number(x_range.1).raw("</text>\n");
    page.raw("<text x=\"340\" y=\"384\" text-anchor=\"middle\">").text(&plot.x_name).raw("</text>\n");
    page.raw("<text transform=\"translate(20,173) rotate(-90)\" text-anchor=\"middle\">").text(&plot.y_name).raw("</text>\n");
    let mut best: Vec<(u64, u64)> = plot.dots.iter().filter(|dot| dot.is_best).map(|dot| (dot.x, dot.y)).collect();
    best.sort_unstable();
    best.dedup();
    page.raw("<path class=\"front\" d=\"");
    for (at, (x, y)) in best.iter().enumerate() {
        page.raw(if at == 0 { "M" } else { "L" }).length(x_of(*x)).raw(",").length(y_of(*y));
    }
    page.raw("\"/>\n");
    // Policies that came to the same stand in one place, named together.
    let mut places: BTreeMap<(u64, u64), (bool, Vec<usize>)> = BTreeMap::new();
    for dot in &plot.dots {
        let place = places.entry((dot.x, dot.y)).or_default();
        place.0 |= dot.is_best;
        place.1.push(dot.row);
    }
    for ((x, y), (is_best, rows)) in &places {
        page.raw(if *is_best { "<circle class=\"dot best\" r=\"7\" cx=\"" } else { "<circle class=\"dot\" r=\"5\" cx=\"" });
        page.length(x_of(*x)).raw("\" cy=\"").length(y_of(*y)).raw("\"><title>row");
        for row in rows {
            page.raw(" ").index(*row);
        }
        page.raw(": ").number(*y).raw(" against ").number(*x).raw("</title></circle>");
        if let (true, Some(row)) = (*is_best, rows.first()) {
            page.raw("<text x=\"").length(x_of(*x) + 11.0).raw("\" y=\"").length(y_of(*y) + 20.0).raw("\">row ").index(*row);
            if rows.len() > 1 {
                page.raw(" …");
            }
            page.raw("</text>\n");
        }
    }
    page.raw("</svg>\n<p class=\"quiet\">Large dots on the line: nothing else finds as much with as few false alarms.</p>\n");
}
