//! Loops found against false alarms: dots in a plane, as text for a terminal. The page draws the same value.

use std::fmt::Write as _;

/// A point of a plot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dot {
    /// To the right: false alarms.
    pub x: u64,
    /// Up: loops found.
    pub y: u64,
    /// Number of its row in the table, from 1.
    pub row: usize,
    /// No other dot has as many loops with as few false alarms.
    pub is_best: bool,
}

/// Dots, with the names of the axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    pub x_name: String,
    pub y_name: String,
    /// All loops that can be found: the vertical axis ends there at the latest.
    pub y_max: u64,
    pub dots: Vec<Dot>,
}

impl Plot {
    /// A plot of (row, x, y).
    pub fn new(x_name: &str, y_name: &str, y_max: u64, dots: impl IntoIterator<Item = (usize, u64, u64)>) -> Self {
        let mut dots: Vec<Dot> = dots.into_iter().map(|(row, x, y)| Dot { x, y, row, is_best: false }).collect();
        let all = dots.clone();
        for dot in &mut dots {
            dot.is_best = !all.iter().any(|other| (other.x <= dot.x && other.y > dot.y) || (other.x < dot.x && other.y >= dot.y));
        }
        Self { x_name: x_name.to_owned(), y_name: y_name.to_owned(), y_max, dots }
    }

    /// Ends of the horizontal axis.
    pub fn x_range(&self) -> (u64, u64) {
        range(self.dots.iter().map(|dot| dot.x), u64::MAX)
    }

    /// Ends of the vertical axis.
    pub fn y_range(&self) -> (u64, u64) {
        range(self.dots.iter().map(|dot| dot.y), self.y_max)
    }

    /// Rows of the best dots, from 1.
    pub fn best(&self) -> Vec<usize> {
        self.dots.iter().filter(|dot| dot.is_best).map(|dot| dot.row).collect()
    }

    /// As text: `o` is a dot, `*` a best one, a digit the number of dots in one place.
    pub fn to_text(&self, width: usize, height: usize) -> String {
        let (width, height) = (width.clamp(20, 100), height.clamp(4, 40));
        let (x_range, y_range) = (self.x_range(), self.y_range());
        let mut grid = vec![vec![(0_u32, false); width]; height];
        for dot in &self.dots {
            let column = place(dot.x, x_range, width);
            let row = height - 1 - place(dot.y, y_range, height);
            if let Some((count, is_best)) = grid.get_mut(row).and_then(|row| row.get_mut(column)) {
                *count += 1;
                *is_best |= dot.is_best;
            }
        }
        let mut out = format!("{}\n", self.y_name);
        let margin = y_range.1.to_string().len();
        for (at, row) in grid.iter().enumerate() {
            let label = match at {
                0 => y_range.1.to_string(),
                _ if at == height - 1 => y_range.0.to_string(),
                _ => String::new(),
            };
            let cells: String = row
                .iter()
                .map(|(count, is_best)| match (count, is_best) {
                    (0, _) => ' ',
                    (_, true) => '*',
                    (1, false) => 'o',
                    (more, false) => char::from_digit(*more.min(&9), 10).unwrap_or('9'),
                })
                .collect();
            out.push_str(format!("{label:>margin$} |{cells}").trim_end());
            out.push('\n');
        }
        let (x_min, x_max) = (x_range.0.to_string(), x_range.1.to_string());
        let _ = writeln!(out, "{:>margin$} +{}", "", "-".repeat(width));
        let _ = writeln!(out, "{:>margin$}  {x_min}{x_max:>rest$}  {}", "", self.x_name, rest = width - x_min.len());
        out
    }
}

/// Ends of an axis: near the values, so that small differences show, and never empty.
fn range(values: impl Iterator<Item = u64> + Clone, limit: u64) -> (u64, u64) {
    let (least, most) = (values.clone().min().unwrap_or_default(), values.max().unwrap_or_default());
    let spread = (most - least).max(1);
    let from = if least <= 2 * spread { 0 } else { least - spread };
    let to = most.saturating_add(spread).min(limit.max(most)).max(from + 1);
    (from, to)
}

/// How far from the beginning of an axis a value lies, 0 to 1.
pub(super) fn share(value: u64, (from, to): (u64, u64)) -> f64 {
    value.saturating_sub(from) as f64 / to.saturating_sub(from).max(1) as f64
}

/// Where a value lies among so many places.
fn place(value: u64, range: (u64, u64), places: usize) -> usize {
    let share = share(value, range);
    ((share * (places - 1) as f64).round() as usize).min(places - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dot_is_best_where_no_other_finds_more_with_as_few_alarms() {
        let plot = Plot::new("alarms", "loops", 10, [(1, 0, 4), (2, 3, 4), (3, 3, 8), (4, 9, 8), (5, 3, 8)]);
        assert_eq!(plot.best(), [1, 3, 5]);
    }

    #[test]
    fn an_axis_begins_where_small_differences_show() {
        let range = |values: &[u64], limit| super::range(values.iter().copied(), limit);
        assert_eq!(range(&[30, 31], 35), (29, 32));
        assert_eq!(range(&[0, 3], u64::MAX), (0, 6));
        assert_eq!(range(&[], 0), (0, 1));
        assert_eq!(range(&[35], 35), (34, 35));
    }

    #[test]
    fn the_text_has_every_dot_and_both_axes() {
        let text = Plot::new("alarms", "loops", 10, [(1, 0, 10), (2, 5, 5), (3, 10, 0), (4, 10, 0)]).to_text(21, 5);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "loops",
                "10 |*",
                "   |",
                "   |     o",
                "   |",
                " 0 |          2",
                "   +---------------------",
                "    0                  20  alarms"
            ]
        );
    }
}
