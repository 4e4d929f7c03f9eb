//! A bar chart: one figure for each name.

use super::canvas::{Canvas, PALE, STRONG, Side};
use super::scale::Scale;
use crate::short;

/// The prefix of the names whose bars are highlighted.
const OURS: &str = "ours";

const WIDTH: f64 = 760.0;
const NAMES: f64 = 230.0;
const FIGURES: f64 = 60.0;
const TOP: f64 = 30.0;
const STEP: f64 = 22.0;
const THICKNESS: f64 = 14.0;

/// Bars that lie below one another, on a logarithmic axis.
#[derive(Clone, Debug)]
pub struct Bars {
    title: String,
    bars: Vec<(String, f64)>,
}

impl Bars {
    /// A chart without bars. The title says what the bars show, and the unit.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), bars: Vec::new() }
    }

    /// Adds a bar below the others.
    pub fn bar(&mut self, name: impl Into<String>, value: f64) {
        self.bars.push((name.into(), value));
    }

    pub(super) fn svg(&self) -> Option<String> {
        let values = self.bars.iter().map(|(_, value)| *value);
        let scale = Scale::decades(values, NAMES, WIDTH - FIGURES)?;
        let bottom = TOP + STEP * self.bars.len() as f64;
        let mut canvas = Canvas::new(&self.title, WIDTH, bottom + 22.0);
        for tick in scale.ticks() {
            let x = scale.at(tick);
            canvas.rule([x, TOP], [x, bottom]);
            canvas.text(x, bottom + 16.0, Side::Middle, &short(tick));
        }
        for (number, (name, value)) in self.bars.iter().enumerate() {
            let y = TOP + STEP * number as f64 + (STEP - THICKNESS) / 2.0;
            let end = scale.at(*value);
            canvas.text(NAMES - 8.0, y + 11.0, Side::Left, name);
            let colour = if name.starts_with(OURS) { STRONG } else { PALE };
            canvas.bar([NAMES, y], end - NAMES, THICKNESS, colour);
            canvas.text(end + 5.0, y + 11.0, Side::Right, &short(*value));
        }
        Some(canvas.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_bar() {
        let mut bars = Bars::new("hand-overs/s");
        assert!(bars.svg().is_none());
        bars.bar("ours", 120_000.0);
        bars.bar("theirs & others", 12.0);
        let svg = bars.svg().unwrap();
        assert_eq!(svg.matches("<rect").count(), 2);
        assert!(svg.contains(">theirs &amp; others<") && svg.contains(">120k<"), "{svg}");
    }
}
