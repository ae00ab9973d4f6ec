//! Events and commands over time: a row each, so that they differ by more than colours.

use maud::{Markup, html};

use super::sections::{length, section};
use crate::report::grouped;
use crate::report::timeline::{Slice, Timeline};

/// Slices drawn.
const SLICES_MAX: usize = 120;
/// Empty slices in a row that are drawn; a longer gap is a break.
const EMPTY_MAX: i64 = 8;
/// Width of a slice in the drawing.
const STEP: f64 = 10.0;
/// Height of a row in the drawing.
const HEIGHT: f64 = 40.0;

/// A row: its name, its class, what it counts.
type Row = (&'static str, &'static str, fn(&Slice) -> u64);

const ROWS: [Row; 4] = [
    ("events", "e", |slice| slice.events),
    ("nudges", "u", |slice| slice.commands.nudges),
    ("blocks", "b", |slice| slice.commands.blocks),
    ("shadow", "s", |slice| slice.commands.shadow),
];

/// Slices with their places from the left, and the places of the breaks.
#[derive(Default)]
struct Layout {
    slices: Vec<(usize, Slice)>,
    breaks: Vec<usize>,
    width: usize,
}

impl Layout {
    fn of(timeline: &Timeline) -> Self {
        let (mut layout, mut last) = (Self::default(), None);
        for (number, slice) in timeline.slices() {
            let empty: i64 = last.map_or(0, |last| number - last - 1);
            if empty > EMPTY_MAX {
                layout.breaks.push(layout.width);
                layout.width += 1;
            } else {
                layout.width += empty as usize;
            }
            layout.slices.push((layout.width, slice));
            layout.width += 1;
            last = Some(number);
        }
        layout
    }
}

/// The section, unless no event has a time.
pub(super) fn over_time(timeline: &Timeline) -> Markup {
    let timeline = timeline.in_slices(SLICES_MAX);
    let layout = Layout::of(&timeline);
    let mut numbers = timeline.slices().map(|(number, _)| number);
    let Some(first) = numbers.next() else { return Markup::default() };
    let last = numbers.next_back().unwrap_or(first);
    let moment = |number: i64| {
        let time = timeline.begin(number).to_rfc3339();
        time.get(..19).map_or_else(|| time.clone(), |time| time.replace('T', " "))
    };
    let body = html! {
        div.lanes {
            @for row in &ROWS { (drawn(&layout, row)) }
            span {}
            span.ends.quiet { span { (moment(first)) } span { (moment(last + 1)) } }
            span {}
        }
        p.quiet {
            "A bar is " (span(timeline.width_ms())) "; the number at the right is that of the highest."
            @if !layout.breaks.is_empty() { " A dashed line stands for a time without events." }
        }
    };
    section("Timeline", &body)
}

fn drawn(layout: &Layout, (name, class, count): &Row) -> Markup {
    let top = layout.slices.iter().map(|(_, slice)| count(slice)).max().unwrap_or_default();
    // A single command among thousands still has a visible bar.
    let height = |count: u64| (HEIGHT * count as f64 / top as f64).max(2.0);
    let bars = layout.slices.iter().map(|(at, slice)| (*at, count(slice))).filter(|(_, count)| *count > 0);
    let view = format!("0 0 {} {HEIGHT}", length(STEP * layout.width as f64));
    let label = format!("{name} over time, at most {} in a slice", grouped(top));
    html! {
        @if top > 0 {
            span.quiet { (name) }
            svg preserveAspectRatio="none" role="img" viewBox=(view) aria-label=(label) {
                @for at in &layout.breaks { path.gap d={ "M" (length(STEP * (*at as f64 + 0.5))) ",0V40" } {} }
                @for (at, count) in bars {
                    @let (x, y) = (STEP * at as f64 + 0.5, HEIGHT - height(count));
                    rect class=(class) x=(length(x)) y=(length(y)) width=(length(STEP - 1.0)) height=(length(height(count))) {}
                }
            }
            span.quiet.n { (grouped(top)) }
        }
    }
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
    fn a_span_has_a_unit_that_fits() {
        assert_eq!(
            [1_000, 64_000, 256_000, 16_384_000, 1_048_576_000].map(span),
            ["1 second", "64 seconds", "4.2 minutes", "4.5 hours", "12.1 days"]
        );
    }
}
