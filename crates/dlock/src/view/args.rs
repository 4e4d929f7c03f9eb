//! The arguments of each command.

use std::time::Duration;

use lock_core::{Error, Key};

use super::bench::BenchArgs;

/// One of these commands.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum View {
    /// List the locks that have holders or waiters
    List(ListArgs),
    /// Show the holders and the waiters of a lock
    Inspect(InspectArgs),
    /// End all leases on a lock, of any owner
    Release(ReleaseArgs),
    /// Remove the value and the number of permits of a free lock
    Destroy(DestroyArgs),
    /// Set up a new store: the schema in a database, the votes of a quorum
    ///
    /// To repeat the command for a database is harmless. Do not use the command for a quorum of which a client holds a
    /// lock: two clients may then hold one lock.
    Init(InitArgs),
    /// Examine the store, and report its problems for locks
    Doctor(DoctorArgs),
    /// Show the locks of the store live in the terminal
    Top(TopArgs),
    /// Measure the store, or load it
    Bench(BenchArgs),
}

/// Which locks to list.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// The beginning of the names; by default all names
    #[arg(default_value = "")]
    pub(super) prefix: String,
    /// Take the prefix as the beginning of exact keys in the store, which other libraries choose
    #[arg(long)]
    pub(super) exact: bool,
    /// Print one JSON object for each lock, each on one line
    #[arg(long)]
    pub(super) json: bool,
}

/// Which lock to show.
#[derive(Debug, clap::Args)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    pub(super) name: Name,
    /// Print a JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// The name of a lock.
#[derive(Debug, clap::Args)]
pub(super) struct Name {
    /// The name of the lock
    pub(super) name: String,
    /// Take the name as the exact key in the store, which another library chose
    #[arg(long)]
    pub(super) exact: bool,
}

impl Name {
    pub(super) fn key(&self) -> Result<Key, Error> {
        if self.exact { Key::raw(&self.name) } else { Key::new(&self.name) }
    }
}

/// Which leases to end.
#[derive(Debug, clap::Args)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    pub(super) name: Name,
    /// End the leases although their holders may be at work; required, because no gentler way exists
    #[arg(long)]
    pub(super) force: bool,
    /// Ask no question
    #[arg(long, short)]
    pub(super) yes: bool,
}

/// What to remove.
#[derive(Debug, clap::Args)]
pub(crate) struct DestroyArgs {
    #[command(flatten)]
    pub(super) name: Name,
    /// Ask no question
    #[arg(long, short)]
    pub(super) yes: bool,
}

/// Whether to ask.
#[derive(Debug, clap::Args)]
pub(crate) struct InitArgs {
    /// Ask no question
    #[arg(long, short)]
    pub(super) yes: bool,
}

/// How to show the report.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Print a JSON object; the default unless the output is a terminal
    #[arg(long)]
    pub(super) json: bool,
    /// Print text for people; the default if the output is a terminal
    #[arg(long, conflicts_with = "json")]
    pub(super) text: bool,
}

/// What to watch.
#[derive(Debug, clap::Args)]
pub(crate) struct TopArgs {
    /// The beginning of the names; by default all names
    #[arg(default_value = "")]
    pub(super) prefix: String,
    /// The time between two screens, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = period)]
    pub(super) interval: Duration,
    /// The number of keys that dlock reads in that time, besides the locks on the screen
    #[arg(long, value_name = "N", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(100..=100_000))]
    pub(super) keys: u32,
}

fn period(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "write seconds from 0.1 to 3600".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_long_enough_for_the_store() {
        assert_eq!(period("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["0", "0.01", "x", "-1", "1e9", "NaN"] {
            assert!(period(bad).is_err(), "{bad}");
        }
    }
}
