//! Dots in a plane: loops found against false alarms.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::sections::length;
use crate::report::grouped;
use crate::report::plot::{Plot, share};

/// Corners of the plane inside the drawing.
const LEFT: f64 = 60.0;
const RIGHT: f64 = 620.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 330.0;

pub(super) fn drawn(plot: &Plot) -> Markup {
    let (x_range, y_range) = (plot.x_range(), plot.y_range());
    let x_of = |x: u64| LEFT + (RIGHT - LEFT) * share(x, x_range);
    let y_of = |y: u64| BOTTOM - (BOTTOM - TOP) * share(y, y_range);
    // Policies with the same result share a place and a name.
    let mut places: BTreeMap<(u64, u64), (bool, Vec<String>)> = BTreeMap::new();
    for dot in &plot.dots {
        let place = places.entry((dot.x, dot.y)).or_default();
        place.0 |= dot.is_best;
        place.1.push(dot.row.to_string());
    }
    let best = places.iter().filter(|(_, (is_best, _))| *is_best);
    let line: Vec<String> = best.map(|((x, y), _)| format!("{:.2},{:.2}", x_of(*x), y_of(*y))).collect();
    let label = format!("{} against {}; the table has the numbers", plot.y_name, plot.x_name);
    html! {
        svg.plane viewBox="0 0 640 400" role="img" aria-label=(label) {
            path.axis d="M60,16V330H620" {}
            text x="52" y="22" text-anchor="end" { (grouped(y_range.1)) }
            text x="52" y="334" text-anchor="end" { (grouped(y_range.0)) }
            text x="60" y="354" { (grouped(x_range.0)) }
            text x="620" y="354" text-anchor="end" { (grouped(x_range.1)) }
            text x="340" y="384" text-anchor="middle" { (plot.x_name) }
            text transform="translate(20,173) rotate(-90)" text-anchor="middle" { (plot.y_name) }
            polyline.front points=(line.join(" ")) {}
            @for ((x, y), (is_best, rows)) in &places {
                @let (left, top) = (x_of(*x), y_of(*y));
                circle.dot.best[*is_best] r=(if *is_best { "7" } else { "5" }) cx=(length(left)) cy=(length(top)) {
                    title { "row " (rows.join(" ")) ": " (grouped(*y)) " against " (grouped(*x)) }
                }
                @if let (true, Some(row)) = (*is_best, rows.first()) {
                    text x=(length(left + 11.0)) y=(length(top + 20.0)) { "row " (row) @if rows.len() > 1 { " …" } }
                }
            }
        }
        p.quiet { "Large dots on the line: nothing else finds as much with as few false alarms." }
    }
}
