//! The arguments of `dlock run`, `dlock elect` and `dlock wait-leader`.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, ValueEnum};
use lock_core::{Key, Ttl};

/// Which lock to hold, and how, while a program runs.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(super) what: What,
    /// Hold the lock beside other readers
    #[arg(long, conflicts_with = "semaphore")]
    pub(super) shared: bool,
    /// With --semaphore: how many permits there are, one for each program
    #[arg(long, value_name = "K", conflicts_with_all = ["lock", "name"], value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) permits: Option<u16>,
    /// Give up if the lock is not free
    #[arg(long = "try", conflicts_with = "timeout")]
    pub(super) is_try: bool,
    /// Give up after waiting for this time, for example 30s
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) timeout: Option<Duration>,
    #[command(flatten)]
    pub(super) codes: Codes,
    #[command(flatten)]
    pub(super) program: Program,
}

/// The name of what to hold.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct What {
    /// The name of the lock
    #[arg(value_name = "NAME", value_parser = key)]
    pub(super) lock: Option<Key>,
    /// The name of the lock, as an option
    #[arg(long, short, value_parser = key)]
    pub(super) name: Option<Key>,
    /// The name of the semaphore; it needs --permits
    #[arg(long, requires = "permits", value_parser = key)]
    pub(super) semaphore: Option<Key>,
}

/// In which election to campaign, and what to run as the leader.
#[derive(Debug, Args)]
pub(crate) struct ElectArgs {
    /// The name of the election
    #[arg(value_parser = key)]
    pub(super) name: Key,
    /// What other clients read about the leader; the label by default
    #[arg(long, value_name = "TEXT")]
    pub(super) value: Option<String>,
    /// Campaign again when the program has ended, or the leadership is lost
    #[arg(long)]
    pub(super) again: bool,
    #[command(flatten)]
    pub(super) codes: Codes,
    #[command(flatten)]
    pub(super) program: Program,
}

/// Which leader to wait for.
#[derive(Debug, Args)]
pub(crate) struct WaitLeaderArgs {
    /// The name of the election
    #[arg(value_parser = key)]
    pub(super) name: Key,
    /// Give up after this time, for example 30s
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) timeout: Option<Duration>,
    #[command(flatten)]
    pub(super) codes: Codes,
}

/// The program, and the lease under which it runs.
#[derive(Debug, Args)]
pub(super) struct Program {
    /// How long the lease lives unless dlock renews it
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = ttl)]
    pub(super) ttl: Ttl,
    /// What to do if the lease is lost
    #[arg(long, value_name = "WHAT", default_value = "kill")]
    pub(super) on_lost: OnLost,
    /// How long the program has between TERM and KILL; by default 5s, or a quarter of a shorter lease
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) grace: Option<Duration>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub(super) command: Vec<OsString>,
}

/// What happens to the program if the lease is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OnLost {
    /// End the program before another client can have the lock
    Kill,
    /// Say so, and let the program go on
    Warn,
}

/// The exit codes that stand for the lock and not for the program.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Codes {
    /// The exit code if the lock is not free
    #[arg(long, value_name = "CODE", default_value_t = 75)]
    pub(super) busy_code: u8,
    /// The exit code if the wait took too long
    #[arg(long, value_name = "CODE", default_value_t = 124)]
    pub(super) timeout_code: u8,
    /// The exit code if the lease was lost, and the program was ended
    #[arg(long, value_name = "CODE", default_value_t = 76)]
    pub(super) lost_code: u8,
    /// The exit code if the store cannot be reached, or failed
    #[arg(long, value_name = "CODE", default_value_t = 69)]
    pub(super) backend_code: u8,
}

/// A time such as `500ms`, `30s`, `5m` or `2h`. A number alone means seconds.
fn time(text: &str) -> Result<Duration, String> {
    let wrong = || "write a time such as 500ms, 30s, 5m or 2h".to_owned();
    let digits = text.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let seconds = number.parse::<f64>().map_err(|_| wrong())? * unit;
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

fn key(text: &str) -> Result<Key, String> {
    Key::new(text).map_err(|error| error.to_string())
}

fn ttl(text: &str) -> Result<Ttl, String> {
    Ttl::new(time(text)?).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let millis = |text| time(text).map(|it| it.as_millis());
        assert_eq!(millis("500ms"), Ok(500));
        assert_eq!(millis("1.5"), Ok(1500));
        assert_eq!(millis("30s"), Ok(30_000));
        assert_eq!(millis("5m"), Ok(300_000));
        assert_eq!(millis("2h"), Ok(7_200_000));
        for wrong in ["", "s", "1d", "-1s", "1 s", "1e3", "1..2s"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
