//! The figures as a picture: a bar for each, in units.

use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::figures::Figure;
use crate::view::shown::number;

const WIDTH: i32 = 760;
const NAMES: i32 = 300;
const FIGURES: i32 = 90;
const TOP: i32 = 40;
const STEP: i32 = 30;
const BLUE_BAR: RGBColor = RGBColor(0x1b, 0x6a, 0xc9);

/// Writes an SVG with one bar for each figure.
pub(super) fn write(
    path: &Path,
    unit: &str,
    figures: &[(&Figure, f64)],
) -> Result<(), Box<dyn std::error::Error>> {
    let height = TOP + STEP * figures.len() as i32 + 10;
    let area = SVGBackend::new(path, (WIDTH as u32, height as u32)).into_drawing_area();
    area.fill(&WHITE)?;
    let font = |size: i32| ("sans-serif", size).into_font().color(&BLACK);
    let title = format!("time between two, in times of one {unit}: less is better");
    area.draw(&Text::new(title, (10, 12), font(15)))?;
    let most = figures.iter().map(|(_, units)| *units).fold(1.0, f64::max);
    let room = f64::from(WIDTH - NAMES - FIGURES);
    for (line, (figure, units)) in (0..).zip(figures) {
        let top = TOP + STEP * line;
        let end = NAMES + (units / most * room).max(1.0) as i32;
        let right = font(13).pos(Pos::new(HPos::Right, VPos::Center));
        let left = font(13).pos(Pos::new(HPos::Left, VPos::Center));
        let middle = top + STEP / 2;
        area.draw(&Text::new(figure.name.clone(), (NAMES - 8, middle), right))?;
        let bar = [(NAMES, top + 6), (end, top + STEP - 6)];
        area.draw(&Rectangle::new(bar, BLUE_BAR.filled()))?;
        area.draw(&Text::new(number(*units), (end + 6, middle), left))?;
    }
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::view::bench::times::Times;

    #[test]
    fn every_figure_has_a_bar_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bench.svg");
        let figures = ["PING", "lock & release"];
        let figures = figures.map(|name| Figure::new(name, Times::new(), Duration::from_secs(1)));
        write(&path, "PING", &[(&figures[0], 1.0), (&figures[1], 2.1)]).unwrap();
        let svg = std::fs::read_to_string(&path).unwrap();
        assert_eq!(svg.matches("<rect").count(), 3, "{svg}");
        for text in ["lock &amp; release", "2.10", "in times of one PING"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert!(write(&folder.path().join("none/x.svg"), "PING", &[]).is_err());
    }
}
