//! The report of a run, and whether the run kept the promises of the lock.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use lock_core::{FencingToken, Instant};

use crate::args::Args;

/// One attempt to buy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Visit {
    pub(crate) buyer: String,
    /// Absent without the lock.
    pub(crate) hold: Option<Hold>,
    pub(crate) outcome: Outcome,
}

/// How the lock was held during the attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) since: Instant,
    pub(crate) time: Duration,
    pub(crate) token: FencingToken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Bought,
    SoldOut,
    /// The database refused a stale token.
    Refused,
    /// The lease was lost before the purchase was done.
    Lost,
}

/// A run that is over.
pub(crate) struct Report {
    locked: bool,
    stock: u32,
    left: u32,
    /// What is left, as the database has it.
    shown: u32,
    visits: Vec<Visit>,
    /// Whether the database refused a late write with the first token; `None` if it has seen fewer than two tokens.
    stale_write_refused: Option<bool>,
}

impl Report {
    pub(crate) fn new(args: &Args, left: u32, shown: u32, mut visits: Vec<Visit>) -> Self {
        visits.sort_by_key(|visit| visit.hold.map(|hold| hold.since));
        let (locked, stock) = (args.lock, args.stock);
        Self { locked, stock, left, shown, visits, stale_write_refused: None }
    }

    pub(crate) fn with_stale_write(mut self, refused: Option<bool>) -> Self {
        self.stale_write_refused = refused;
        self
    }

    /// Whether the run kept the promises of the lock; always true without the lock.
    pub(crate) fn is_good(&self) -> bool {
        !self.locked
            || (self.oversold() == 0
                && self.adds_up()
                && self.tokens_increase()
                && self.stale_write_refused != Some(false))
    }

    /// The lowest and the highest fencing token.
    fn tokens(&self) -> Option<(FencingToken, FencingToken)> {
        let tokens = || self.holds().map(|hold| hold.token);
        Some((tokens().min()?, tokens().max()?))
    }

    /// The lowest and the highest fencing token that a purchase has shown to the database.
    pub(crate) fn tokens_of_writes(&self) -> Option<(FencingToken, FencingToken)> {
        let purchases = || self.visits.iter().filter(|visit| visit.outcome == Outcome::Bought);
        let tokens = || purchases().filter_map(|visit| Some(visit.hold?.token));
        Some((tokens().min()?, tokens().max()?))
    }

    fn sold(&self) -> u32 {
        self.count(Outcome::Bought)
    }

    fn count(&self, outcome: Outcome) -> u32 {
        self.visits.iter().filter(|visit| visit.outcome == outcome).count() as u32
    }

    fn oversold(&self) -> u32 {
        self.sold().saturating_sub(self.stock)
    }

    fn holds(&self) -> impl Iterator<Item = &Hold> {
        self.visits.iter().filter_map(|visit| visit.hold.as_ref())
    }

    /// Whether the stock adds up, and the database shows what is left. A purchase that lost its lease after its write
    /// may have left the database behind the stock.
    fn adds_up(&self) -> bool {
        let is_shown = self.shown == self.left || self.count(Outcome::Lost) > 0;
        self.sold() + self.left == self.stock && is_shown
    }

    /// Whether tokens increase in the order of the holds, by one clock for all processes of the machine.
    fn tokens_increase(&self) -> bool {
        self.holds().zip(self.holds().skip(1)).all(|(one, next)| one.token < next.token)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Sorted by length first, so that task 10 comes after task 9.
        let mut buyers = BTreeMap::<(usize, &str), Vec<&Visit>>::new();
        for visit in &self.visits {
            buyers.entry((visit.buyer.len(), &visit.buyer)).or_default().push(visit);
        }
        let base = self.tokens().map_or(0, |(first, _)| first.get());
        if self.locked {
            writeln!(
                f,
                "\n   {:<12} {:>6} {:>7} {:>11} {:>11}   fencing tokens, from the first on",
                "buyer", "holds", "bought", "mean hold", "max hold"
            )?;
        } else {
            writeln!(f, "\n   {:<12} {:>6} {:>7}", "buyer", "tries", "bought")?;
        }
        for ((_, buyer), visits) in buyers {
            row(f, buyer, &visits, base)?;
        }
        self.summary(f)
    }
}

impl Report {
    fn summary(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (stock, sold, left, oversold) = (self.stock, self.sold(), self.left, self.oversold());
        writeln!(f, "\n   {stock} in stock, {sold} sold, {left} left: {oversold} oversold")?;
        if self.shown != left {
            writeln!(f, "   the database shows {} pieces", self.shown)?;
        }
        for (outcome, what) in [
            (Outcome::Refused, "refused by the database because of a stale token"),
            (Outcome::Lost, "given up because the lease was lost"),
        ] {
            let count = self.count(outcome);
            if count > 0 {
                writeln!(f, "   {count} purchases {what}")?;
            }
        }
        if let Some((first, last)) = self.tokens() {
            let grew =
                if self.tokens_increase() { "each above the one before" } else { "OUT OF ORDER" };
            writeln!(f, "   fencing tokens from {first} to {last}, {grew}")?;
        }
        match self.stale_write_refused {
            Some(true) => writeln!(f, "   a late write with the first token was refused"),
            Some(false) => writeln!(f, "   a late write with the first token was NOT REFUSED"),
            None => Ok(()),
        }
    }
}

fn row(f: &mut fmt::Formatter<'_>, buyer: &str, visits: &[&Visit], base: u64) -> fmt::Result {
    let bought = visits.iter().filter(|visit| visit.outcome == Outcome::Bought).count();
    write!(f, "   {buyer:<12} {:>6} {bought:>7}", visits.len())?;
    let holds: Vec<Hold> = visits.iter().filter_map(|visit| visit.hold).collect();
    if let (Some(first), Some(last), Ok(count)) =
        (holds.first(), holds.last(), u32::try_from(holds.len()))
    {
        let total: Duration = holds.iter().map(|hold| hold.time).sum();
        let longest = holds.iter().map(|hold| hold.time).max().unwrap_or_default();
        let offset = |hold: &Hold| hold.token.get().saturating_sub(base);
        write!(f, " {:>11} {:>11}", millis(total / count), millis(longest))?;
        write!(f, "   +{} .. +{}", offset(first), offset(last))?;
    }
    writeln!(f)
}

fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(since: u64, token: u64, outcome: Outcome) -> Visit {
        let hold = Hold {
            since: Instant::from_nanos(since),
            time: Duration::from_millis(2),
            token: FencingToken::new(token),
        };
        Visit { buyer: format!("task {token}"), hold: Some(hold), outcome }
    }

    use Outcome::{Bought, SoldOut};

    /// A run of this stock after which so many pieces are left, and the database shows as many.
    fn run(lock: bool, stock: u32, left: u32, visits: Vec<Visit>) -> Report {
        Report::new(&Args { lock, stock, ..Args::default() }, left, left, visits)
    }

    #[test]
    fn a_run_without_loss_is_good() {
        // Visits arrive by buyer, not by time.
        let visits = vec![visit(30, 9, SoldOut), visit(10, 7, Bought), visit(20, 8, Bought)];
        let report = run(true, 2, 0, visits).with_stale_write(Some(true));
        assert!(report.is_good());
        let text = report.to_string();
        assert!(text.contains("2 in stock, 2 sold, 0 left: 0 oversold"), "{text}");
        assert!(text.contains("from 7 to 9, each above the one before"), "{text}");
        // A buyer that finds nothing left writes nothing.
        let tokens = [7, 8].map(FencingToken::new);
        assert_eq!(report.tokens_of_writes(), Some(tokens.into()));
    }

    #[test]
    fn every_fault_is_seen() {
        let oversold = || vec![visit(1, 1, Bought), visit(2, 2, Bought)];
        let out_of_order = || vec![visit(1, 2, Bought), visit(2, 1, Bought)];
        assert!(!run(true, 1, 0, oversold()).is_good());
        assert!(!run(true, 3, 0, oversold()).is_good());
        assert!(!run(true, 2, 0, out_of_order()).is_good());
        assert!(!run(true, 2, 0, oversold()).with_stale_write(Some(false)).is_good());
        let mut wrongly_shown = run(true, 2, 0, oversold());
        wrongly_shown.shown = 1;
        assert!(!wrongly_shown.is_good());
        // Without the lock there are no promises.
        let report = run(false, 1, 0, oversold());
        assert!(report.is_good() && report.to_string().contains("1 oversold"));
    }
}
