//! The arguments of each command.

use std::time::Duration;

use lock_core::{Error, Key};

use super::bench::BenchArgs;

/// One of these commands.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum View {
    /// List the locks that are held or waited for
    List(ListArgs),
    /// Show the holders and the waiters of a lock
    Inspect(InspectArgs),
    /// End every lease on a lock, of any owner
    Release(ReleaseArgs),
    /// Remove what a free lock keeps in the store
    Destroy(DestroyArgs),
    /// Examine the store, and say what is wrong with it for locks
    Doctor(DoctorArgs),
    /// Watch the locks of the store in the terminal
    Top(TopArgs),
    /// Measure the store, or load it
    Bench(BenchArgs),
}

/// Which locks to list.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// How the names begin; all locks if absent
    #[arg(default_value = "")]
    pub(super) prefix: String,
    /// The prefix is one of exact keys in the store, as other libraries choose them
    #[arg(long)]
    pub(super) exact: bool,
    /// Print one JSON object for each lock, each on a line
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
    /// The name is the exact key in the store, as another library chose it
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
    /// End the leases although their holders may be at work; there is no other way to release
    #[arg(long)]
    pub(super) force: bool,
    /// Do not ask
    #[arg(long, short)]
    pub(super) yes: bool,
}

/// What to remove.
#[derive(Debug, clap::Args)]
pub(crate) struct DestroyArgs {
    #[command(flatten)]
    pub(super) name: Name,
    /// Do not ask
    #[arg(long, short)]
    pub(super) yes: bool,
}

/// How to show the report.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Print a JSON object; the default where the output is no terminal
    #[arg(long)]
    pub(super) json: bool,
    /// Print the report for people, wherever the output goes
    #[arg(long, conflicts_with = "json")]
    pub(super) text: bool,
}

/// What to watch.
#[derive(Debug, clap::Args)]
pub(crate) struct TopArgs {
    /// How the names begin; all locks if absent
    #[arg(default_value = "")]
    pub(super) prefix: String,
    /// The time between two screens, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = period)]
    pub(super) interval: Duration,
    /// At how many keys of the store to look in that time; the locks on the screen come on top
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
