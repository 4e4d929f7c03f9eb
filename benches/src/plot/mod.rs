//! Pictures of figures, as SVG.
//!
//! The report needs bars to compare, and lines to show growth. Both have logarithmic axes, because the libraries differ
//! by powers of ten.

mod bars;
mod canvas;
mod lines;
mod scale;

pub use bars::Bars;
pub use lines::Lines;

pub(crate) use canvas::escape;

/// A picture.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Plot {
    /// One figure for each name.
    Bars(Bars),
    /// Figures by size, a line for each name.
    Lines(Lines),
}

impl Plot {
    /// The picture as an `svg` element, or `None` if there is nothing to show.
    pub(crate) fn svg(&self) -> Option<String> {
        match self {
            Self::Bars(bars) => bars.svg(),
            Self::Lines(lines) => lines.svg(),
        }
    }
}

impl From<Bars> for Plot {
    fn from(bars: Bars) -> Self {
        Self::Bars(bars)
    }
}

impl From<Lines> for Plot {
    fn from(lines: Lines) -> Self {
        Self::Lines(lines)
    }
}
