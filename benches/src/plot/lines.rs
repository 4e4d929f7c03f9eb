//! A line chart: figures by size.

use super::canvas::{Canvas, Side, colour};
use super::scale::Scale;
use crate::short;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = WIDTH - 210.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = HEIGHT - 45.0;

/// The least distance between two names at the ends of their lines.
const NAME_STEP: f64 = 15.0;

/// A line for each name, on logarithmic axes.
#[derive(Clone, Debug)]
pub struct Lines {
    title: String,
    below: String,
    lines: Vec<(String, Vec<(f64, f64)>)>,
}

impl Lines {
    /// A chart without lines. The title says what the lines show, and the unit. `below` names the horizontal axis.
    pub fn new(title: impl Into<String>, below: impl Into<String>) -> Self {
        Self { title: title.into(), below: below.into(), lines: Vec::new() }
    }

    /// Adds a point to the line of this name.
    pub fn point(&mut self, name: &str, size: f64, value: f64) {
        let known = self.lines.iter_mut().find(|(known, _)| known == name);
        match known {
            Some((_, points)) => points.push((size, value)),
            None => self.lines.push((name.to_owned(), vec![(size, value)])),
        }
    }

    pub(super) fn svg(&self) -> Option<String> {
        let points = || self.lines.iter().flat_map(|(_, points)| points.iter().copied());
        let across = Scale::exact(points().map(|(size, _)| size), LEFT, RIGHT)?;
        let upward = Scale::decades(points().map(|(_, value)| value), BOTTOM, TOP)?;

        let mut canvas = Canvas::new(&self.title, WIDTH, HEIGHT);
        for tick in upward.ticks() {
            let y = upward.at(tick);
            canvas.rule([LEFT, y], [RIGHT, y]);
            canvas.text(LEFT - 6.0, y + 4.0, Side::Left, &short(tick));
        }
        let mut sizes: Vec<f64> = points().map(|(size, _)| size).collect();
        sizes.sort_by(f64::total_cmp);
        sizes.dedup();
        for size in sizes {
            let x = across.at(size);
            canvas.rule([x, TOP], [x, BOTTOM]);
            canvas.text(x, BOTTOM + 16.0, Side::Middle, &format!("{size}"));
        }
        canvas.text((LEFT + RIGHT) / 2.0, HEIGHT - 8.0, Side::Middle, &self.below);

        let mut ends = Vec::new();
        for (number, (name, points)) in self.lines.iter().enumerate() {
            let places = points.iter().filter(|(_, value)| value.is_finite() && *value > 0.0);
            let places: Vec<[f64; 2]> =
                places.map(|(size, value)| [across.at(*size), upward.at(*value)]).collect();
            let Some([_, y]) = places.last() else { continue };
            ends.push((*y, number, name));
            canvas.curve(&places, colour(number));
        }
        // The names stand at the ends of their lines. From the top, each name moves down if it would touch the one
        // above.
        ends.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut free = TOP;
        for (y, number, name) in ends {
            let y = y.max(free);
            free = y + NAME_STEP;
            canvas.bar([RIGHT + 12.0, y - 5.0], 10.0, 10.0, colour(number));
            canvas.text(RIGHT + 27.0, y + 4.0, Side::Right, name);
        }
        Some(canvas.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_line() {
        let mut lines = Lines::new("hand-overs/s", "tasks");
        assert!(lines.svg().is_none());
        for (size, value) in [(2.0, 900.0), (32.0, 700.0), (512.0, 1_200.0)] {
            lines.point("ours", size, value);
            lines.point("theirs", size, value / 100.0);
        }
        lines.point("broken", 2.0, f64::NAN);
        let svg = lines.svg().unwrap();
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert_eq!(svg.matches("<circle").count(), 6);
        assert!(svg.contains(">32<") && !svg.contains("NaN"), "{svg}");
    }
}
