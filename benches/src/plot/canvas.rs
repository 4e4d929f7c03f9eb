//! The elements of the pictures.

use std::fmt::Write as _;

/// Distinct colours, more than any picture has had lines so far.
const COLOURS: [&str; 15] = [
    "#1b6ac9", "#d9480f", "#2b8a3e", "#862e9c", "#c2255c", "#0b7285", "#5c940d", "#e67700",
    "#868e96", "#5f3dc4", "#f06595", "#15aabf", "#a0522d", "#82c91e", "#343a40",
];

/// The colours of highlighted bars and of other bars.
pub(super) const STRONG: &str = COLOURS[0];
pub(super) const PALE: &str = COLOURS[8];

/// The colour of the series with this number.
pub(super) fn colour(number: usize) -> &'static str {
    COLOURS[number % COLOURS.len()]
}

/// An `svg` element that grows.
pub(super) struct Canvas {
    text: String,
}

/// The side of its position on which a text stands.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Left,
    Middle,
    Right,
}

impl Canvas {
    pub(super) fn new(title: &str, width: f64, height: f64) -> Self {
        let title = escape(title);
        let text = format!(
            "<svg viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{title}\">\n"
        );
        let mut canvas = Self { text };
        canvas.label(0.0, 16.0, Side::Right, "title", &title);
        canvas
    }

    /// Adds a text that is already escaped.
    fn label(&mut self, x: f64, y: f64, side: Side, class: &str, text: &str) {
        let anchor = match side {
            Side::Left => "end",
            Side::Middle => "middle",
            Side::Right => "start",
        };
        _ = writeln!(
            self.text,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        );
    }

    pub(super) fn text(&mut self, x: f64, y: f64, side: Side, text: &str) {
        self.label(x, y, side, "label", &escape(text));
    }

    /// Adds a line of the grid.
    pub(super) fn rule(&mut self, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2]) {
        _ = writeln!(
            self.text,
            "<line class=\"rule\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        );
    }

    pub(super) fn bar(&mut self, [x, y]: [f64; 2], width: f64, height: f64, colour: &str) {
        _ = writeln!(
            self.text,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height:.1}\" \
             fill=\"{colour}\"/>",
            width.max(1.0)
        );
    }

    pub(super) fn curve(&mut self, points: &[[f64; 2]], colour: &str) {
        let path: Vec<String> = points.iter().map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
        _ = writeln!(
            self.text,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join(" ")
        );
        for [x, y] in points {
            _ = writeln!(
                self.text,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"
            );
        }
    }

    pub(super) fn end(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }
}

/// Escapes a text.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
