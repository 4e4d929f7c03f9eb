//! The command line, and the environment variable that belongs to it.

use std::fmt;

pub(crate) const HELP: &str = "\
Several tasks, and then several processes, buy from a limited stock.

Usage: stock [OPTIONS]

Options:
  --no-lock        buy without the lock, to see it go wrong
  --redis URL      use this server instead of those in LOCK_URL and REDIS_URL; other users of
                   the machine can read it in the list of processes, so not with a password
  --over WHAT      start servers for the locks of the processes, instead of the store in
                   LOCK_URL: `server`, `cluster` for three primaries with a replica each, or
                   `sentinels` for a primary with two replicas and three sentinels
  --stock N        how much there is to buy (default 20)
  --tasks N        how many tasks buy (default 8)
  --processes N    how many processes buy (default 4); 0 leaves them out
  --help           print this

Environment:
  LOCK_URL         the store for the locks of the processes, for example postgres://… or
                   etcd://…. --redis and --over override it. The database of the shop is
                   always on a Redis server. `dlock init` prepares a PostgreSQL database
  REDIS_URL        the Redis or Valkey server for the processes; without one, one is
                   started if it is found
  REDIS_SERVER     the program to start; without it, redis-server on the PATH

Exit code: 0 if all went well, or without the lock; 1 if the locked run has oversold;
2 for a bad command line; 3 if something else failed.";

/// The variable that names the server. Unlike an argument, only its owner (and root) can read it.
pub(crate) const REDIS_URL: &str = "REDIS_URL";

/// The first argument of the processes that the example starts.
pub(crate) const CHILD: &str = "buy-as-a-child";

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Run(Args),
    /// Buy as a process that the example has started. Not for people.
    Child,
    Help,
}

/// The servers of the locks of the processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Over {
    #[default]
    Server,
    Cluster,
    Sentinels,
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Server => "a Redis server",
            Self::Cluster => "a cluster",
            Self::Sentinels => "servers that sentinels watch",
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Args {
    pub(crate) lock: bool,
    pub(crate) over: Over,
    /// The URL of the store of the locks, if that is not the server of the database.
    pub(crate) locks: Option<String>,
    pub(crate) redis: Option<String>,
    pub(crate) stock: u32,
    pub(crate) tasks: u32,
    pub(crate) processes: u32,
}

impl Default for Args {
    fn default() -> Self {
        let over = Over::Server;
        Self { lock: true, over, locks: None, redis: None, stock: 20, tasks: 8, processes: 4 }
    }
}

impl Args {
    /// How many pieces each buyer wants. Together the buyers want twice the stock.
    pub(crate) fn wanted_by_each(&self, buyers: u32) -> u32 {
        (self.stock * 2).div_ceil(buyers)
    }
}

/// The command, or the error in the command line. `locks` is the store of the locks, and `redis` the server to use,
/// unless the command line names another.
pub(crate) fn parse(
    args: impl IntoIterator<Item = String>,
    locks: Option<String>,
    redis: Option<String>,
) -> Result<Command, String> {
    let mut args = args.into_iter();
    let [locks, redis] = [locks, redis].map(|url| url.filter(|url| !url.is_empty()));
    let mut parsed = Args { locks, redis, ..Args::default() };
    while let Some(name) = args.next() {
        match name.as_str() {
            CHILD => return Ok(Command::Child),
            "--help" | "-h" => return Ok(Command::Help),
            "--no-lock" => parsed.lock = false,
            "--redis" => {
                parsed.redis = Some(args.next().ok_or("--redis needs a URL")?);
                parsed.locks = None;
            }
            "--over" => {
                parsed.over = over(args.next())?;
                parsed.locks = None;
            }
            "--stock" => parsed.stock = number(&name, args.next(), 1)?,
            "--tasks" => parsed.tasks = number(&name, args.next(), 1)?,
            "--processes" => parsed.processes = number(&name, args.next(), 0)?,
            _ => return Err(format!("unknown option {name}")),
        }
    }
    Ok(Command::Run(parsed))
}

fn over(value: Option<String>) -> Result<Over, String> {
    match value.as_deref() {
        Some("server") => Ok(Over::Server),
        Some("cluster") => Ok(Over::Cluster),
        Some("sentinels") => Ok(Over::Sentinels),
        _ => Err("--over needs one of server, cluster and sentinels".to_owned()),
    }
}

fn number(name: &str, value: Option<String>, least: u32) -> Result<u32, String> {
    const MOST: u32 = 10_000;
    let value = value.ok_or_else(|| format!("{name} needs a number"))?;
    match value.parse() {
        Ok(number) if (least..=MOST).contains(&number) => Ok(number),
        _ => Err(format!("{name} needs a number from {least} to {MOST}, not {value:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Command, String> {
        parse_with(line, None, None)
    }

    fn parse_with(line: &str, locks: Option<&str>, redis: Option<&str>) -> Result<Command, String> {
        let [locks, redis] = [locks, redis].map(|url| url.map(str::to_owned));
        parse(line.split_whitespace().map(str::to_owned), locks, redis)
    }

    #[test]
    fn options_are_understood() {
        assert_eq!(parse_line(""), Ok(Command::Run(Args::default())));
        let expected = Args {
            lock: false,
            over: Over::Cluster,
            locks: None,
            redis: Some("redis://[::1]".to_owned()),
            stock: 5,
            tasks: 2,
            processes: 0,
        };
        let line =
            "--no-lock --over cluster --redis redis://[::1] --stock 5 --tasks 2 --processes 0";
        assert_eq!(parse_line(line), Ok(Command::Run(expected)));
        assert_eq!(parse_line("--stock 5 --help"), Ok(Command::Help));
    }

    #[test]
    fn the_server_comes_from_the_environment_unless_the_command_line_names_one() {
        let servers = |line, locks, redis| match parse_with(line, locks, redis) {
            Ok(Command::Run(args)) => (args.locks, args.redis),
            other => panic!("{other:?}"),
        };
        let server = |line, redis| servers(line, None, redis).1;
        assert_eq!(server("", Some("redis://one")).as_deref(), Some("redis://one"));
        assert_eq!(
            server("--redis redis://two", Some("redis://one")).as_deref(),
            Some("redis://two")
        );
        assert_eq!(server("", Some("")), None);
        let url = |text: &str| Some(text.to_owned());
        let both = (url("etcd://one"), url("redis://one"));
        assert_eq!(servers("", both.0.as_deref(), both.1.as_deref()), both);
        assert_eq!(servers("", Some(""), None), (None, None));
        assert_eq!(servers("--over cluster", Some("etcd://one"), None), (None, None));
        let named = servers("--redis redis://two", Some("etcd://one"), Some("redis://one"));
        assert_eq!(named, (None, url("redis://two")));
    }

    #[test]
    fn nonsense_is_refused() {
        for line in [
            "--stock",
            "--stock 0",
            "--tasks -1",
            "--processes x",
            "--redis",
            "--over",
            "stock",
            "-x",
        ] {
            assert!(parse_line(line).is_err(), "{line}");
        }
    }

    #[test]
    fn more_is_wanted_than_there_is() {
        for buyers in 1..50 {
            let args = Args::default();
            assert!(args.wanted_by_each(buyers) * buyers >= args.stock * 2);
        }
    }
}
