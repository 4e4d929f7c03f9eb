//! The arguments of `dlock run`, `dlock elect` and `dlock wait-leader`.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use lock_core::{Key, Ttl};

/// Which lock to hold, and how, while a program runs.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(super) what: What,
    /// Hold the lock as a reader, beside other readers
    #[arg(long, conflicts_with = "semaphore")]
    pub(super) shared: bool,
    /// The number of permits of the semaphore; each program holds one
    #[arg(long, value_name = "K", conflicts_with_all = ["lock", "name"], value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) permits: Option<u16>,
    /// Give up at once if the lock is not free
    #[arg(long = "try", conflicts_with = "timeout")]
    pub(super) is_try: bool,
    /// Give up after a wait of this time, for example 30s
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) timeout: Option<Duration>,
    #[command(flatten)]
    pub(super) codes: Codes,
    #[command(flatten)]
    pub(super) program: Program,
}

/// The name of the lock or of the semaphore.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct What {
    /// The name of the lock
    #[arg(value_name = "NAME", value_parser = key)]
    pub(super) lock: Option<Key>,
    /// The name of the lock, as an option
    #[arg(long, short, value_parser = key)]
    pub(super) name: Option<Key>,
    /// The name of the semaphore; requires --permits
    #[arg(long, requires = "permits", value_parser = key)]
    pub(super) semaphore: Option<Key>,
}

/// The election, and the program that the leader runs.
#[derive(Debug, Args)]
pub(crate) struct ElectArgs {
    /// The name of the election
    #[arg(value_parser = key)]
    pub(super) name: Key,
    /// The text that other clients read about the leader; by default the label
    #[arg(long, value_name = "TEXT")]
    pub(super) value: Option<String>,
    /// Campaign again after the program has ended, or after the leadership is lost
    #[arg(long)]
    pub(super) again: bool,
    #[command(flatten)]
    pub(super) codes: Codes,
    #[command(flatten)]
    pub(super) program: Program,
}

/// The election whose leader to wait for.
#[derive(Debug, Args)]
pub(crate) struct WaitLeaderArgs {
    /// The name of the election
    #[arg(value_parser = key)]
    pub(super) name: Key,
    /// Give up after a wait of this time, for example 30s
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) timeout: Option<Duration>,
    #[command(flatten)]
    pub(super) codes: Codes,
}

/// The program, and the lease under which it runs.
#[derive(Debug, Args)]
pub(super) struct Program {
    /// The time that the lease lives unless dlock renews it
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = ttl)]
    pub(super) ttl: Ttl,
    /// The action when the lease is lost
    #[arg(long, value_name = "WHAT", default_value = "kill")]
    pub(super) on_lost: OnLost,
    /// The time between TERM and KILL; by default 5s, or a quarter of the lease if the lease is shorter than 20s
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) grace: Option<Duration>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM", value_hint = ValueHint::CommandWithArguments)]
    pub(super) command: Vec<OsString>,
}

/// What happens to the program if the lease is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OnLost {
    /// End the program before another client can get the lock
    Kill,
    /// Print a warning, and let the program go on
    Warn,
}

/// The exit codes that stand for the lock and not for the program.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Codes {
    /// The exit code if the lock is not free
    #[arg(long, value_name = "CODE", default_value_t = 75)]
    pub(super) busy_code: u8,
    /// The exit code if the wait took longer than --timeout
    #[arg(long, value_name = "CODE", default_value_t = 124)]
    pub(super) timeout_code: u8,
    /// The exit code if the lease was lost, and dlock ended the program or did not start it
    #[arg(long, value_name = "CODE", default_value_t = 76)]
    pub(super) lost_code: u8,
    /// The exit code if dlock cannot reach the store, or the store fails
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
