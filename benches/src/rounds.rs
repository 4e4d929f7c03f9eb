//! Taking turns.

use std::fmt;

use crate::{Failure, median, quantile};

type Turn<'a, S> = Box<dyn FnMut() -> Result<S, Failure> + 'a>;

/// The entrants that take turns.
///
/// Each entrant has one turn in every round, and every round begins with another entrant, so that a slow spell of the
/// machine hits all alike. An entrant that fails is out.
pub struct Rounds<'a, S> {
    series: Vec<Series<S>>,
    turns: Vec<Turn<'a, S>>,
}

/// The samples of one entrant.
#[derive(Debug)]
#[non_exhaustive]
pub struct Series<S> {
    /// The name of the entrant.
    pub name: String,
    /// A sample for each round.
    pub samples: Vec<S>,
    /// The reason why the entrant is out, if it is.
    pub failure: Option<Failure>,
}

/// Whether the row of this name takes part. The variable `LOCK_BENCHES_ONLY` may have names with `|` between them, and
/// then leaves out all others.
pub fn is_wanted(name: &str) -> bool {
    std::env::var("LOCK_BENCHES_ONLY").map_or(true, |only| only.split('|').any(|it| it == name))
}

impl<'a, S> Rounds<'a, S> {
    /// Rounds without entrants.
    pub fn new() -> Self {
        Self { series: Vec::new(), turns: Vec::new() }
    }

    /// Adds an entrant, with the measurement of its turn, if it is [wanted](is_wanted).
    pub fn add(&mut self, name: impl Into<String>, turn: impl FnMut() -> Result<S, Failure> + 'a) {
        let name = name.into();
        if !is_wanted(&name) {
            return;
        }
        self.series.push(Series { name, samples: Vec::new(), failure: None });
        self.turns.push(Box::new(turn));
    }

    /// Takes the turns.
    pub fn run(mut self, rounds: usize) -> Vec<Series<S>> {
        let count = self.turns.len();
        for round in 0..rounds {
            for place in 0..count {
                let index = (round + place) % count;
                let series = &mut self.series[index];
                if series.failure.is_some() {
                    continue;
                }
                match (self.turns[index])() {
                    Ok(sample) => series.samples.push(sample),
                    Err(failure) => series.failure = Some(failure),
                }
            }
        }
        self.series
    }
}

impl<S> Default for Rounds<'_, S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> fmt::Debug for Rounds<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.series.iter().map(|series| &series.name);
        f.debug_list().entries(names).finish()
    }
}

impl<S> Series<S> {
    /// This figure of each sample.
    pub fn figures(&self, figure: impl Fn(&S) -> f64) -> Vec<f64> {
        self.samples.iter().map(figure).collect()
    }

    /// This figure as a multiple of that figure of another series, round by round.
    ///
    /// The median of these ratios is steadier than the ratio of two medians, because both samples of a round were
    /// taken at nearly the same time.
    pub fn ratios(&self, base: &Self, figure: impl Fn(&S) -> f64) -> Vec<f64> {
        let pairs = self.samples.iter().zip(&base.samples);
        pairs.map(|(ours, base)| figure(ours) / figure(base)).collect()
    }

    /// The median of these [ratios](Self::ratios), and their middle half, in words.
    pub fn compared(&self, base: &Self, figure: impl Fn(&S) -> f64) -> String {
        let ratios = self.ratios(base, figure);
        let [low, high] = [0.25, 0.75].map(|share| quantile(&ratios, share));
        format!("{:.2} × ({low:.2}–{high:.2})", median(&ratios))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_begins_with_another_one() {
        let order = std::cell::RefCell::new(Vec::new());
        let mut rounds = Rounds::new();
        for name in ["a", "b", "c"] {
            let order = &order;
            rounds.add(name, move || {
                order.borrow_mut().push(name);
                Ok(1.0)
            });
        }
        let series = rounds.run(2);
        assert_eq!(*order.borrow(), ["a", "b", "c", "b", "c", "a"]);
        assert!(series.iter().all(|series| series.samples.len() == 2));
    }

    #[test]
    fn a_contestant_that_fails_is_out() {
        let mut turns = 0;
        let mut rounds = Rounds::<f64>::new();
        rounds.add("a", || {
            turns += 1;
            Err("broken".into())
        });
        rounds.add("b", || Ok(2.0));
        let series = rounds.run(3);
        assert!(series[0].failure.is_some() && series[0].samples.is_empty());
        assert_eq!(series[1].samples.len(), 3);
        assert_eq!(turns, 1);
    }
}
