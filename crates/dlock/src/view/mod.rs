//! The commands that look at locks, end their leases, examine a store and measure it.

mod audit;
mod bench;
mod confirm;
mod ending;
mod examining;
mod listing;
mod records;
mod shown;
mod signals;
mod top;

use std::fmt::Display;
use std::io::{self, ErrorKind as Io, Write};
use std::time::Duration;

use lock_any::doctor::doctor;
use lock_core::{Error, ErrorKind, Key, Label, List};
use lock_sync::{DestroyError, Locks};

use self::audit::Requester;
use self::bench::BenchArgs;
use self::ending::Ended;
use self::top::Top;

const OK: u8 = 0;
/// Nothing was found or done, or not all of it.
const NOTHING: u8 = 1;
pub(crate) const USAGE: u8 = 2;
const OUTPUT: u8 = 74;
const BACKEND: u8 = 69;

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
    prefix: String,
    /// The prefix is one of exact keys in the store, as other libraries choose them
    #[arg(long)]
    exact: bool,
    /// Print one JSON object for each lock, each on a line
    #[arg(long)]
    json: bool,
}

/// Which lock to show.
#[derive(Debug, clap::Args)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    name: Name,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// The name of a lock.
#[derive(Debug, clap::Args)]
struct Name {
    /// The name of the lock
    name: String,
    /// The name is the exact key in the store, as another library chose it
    #[arg(long)]
    exact: bool,
}

impl Name {
    fn key(&self) -> Result<Key, Error> {
        if self.exact { Key::raw(&self.name) } else { Key::new(&self.name) }
    }
}

/// Which leases to end.
#[derive(Debug, clap::Args)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    name: Name,
    /// End the leases although their holders may be at work; there is no other way to release
    #[arg(long)]
    force: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

/// What to remove.
#[derive(Debug, clap::Args)]
pub(crate) struct DestroyArgs {
    #[command(flatten)]
    name: Name,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

/// How to show the report.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Print a JSON object; the default where the output is no terminal
    #[arg(long)]
    json: bool,
    /// Print the report for people, wherever the output goes
    #[arg(long, conflicts_with = "json")]
    text: bool,
}

/// What to watch.
#[derive(Debug, clap::Args)]
pub(crate) struct TopArgs {
    /// How the names begin; all locks if absent
    #[arg(default_value = "")]
    prefix: String,
    /// The time between two screens, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = period)]
    interval: Duration,
    /// At how many keys of the store to look in that time; the locks on the screen come on top
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(100..=100_000))]
    keys: u32,
}

fn period(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "write seconds from 0.1 to 3600".to_owned())
}

/// What the options for all commands say.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) url: String,
    pub(crate) label: Label,
    /// Whether standard output takes colors.
    pub(crate) has_colors: bool,
    /// Whether standard output is a terminal.
    pub(crate) is_terminal: bool,
}

impl Site {
    async fn locks(&self) -> Result<Locks, Error> {
        let store = lock_any::open(&self.url).await?;
        Locks::builder(store).label(self.label.clone()).build()
    }

    /// The store, without the login and the options.
    fn shown(&self) -> String {
        let url = self.url.split('?').next().unwrap_or_default();
        match url.split_once("://") {
            Some((scheme, rest)) => {
                let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
                format!("{scheme}://{host}")
            }
            None => url.to_owned(),
        }
    }
}

/// Runs the command. Returns the exit code.
pub(crate) async fn run(view: View, site: &Site) -> u8 {
    match view {
        View::List(args) => list(args, site).await,
        View::Inspect(args) => inspect(args, site).await,
        View::Release(args) => release(args, site).await,
        View::Destroy(args) => destroy(args, site).await,
        View::Doctor(args) => examine(args, site).await,
        View::Top(args) => watch(args, site).await,
        View::Bench(args) => measure(args, site).await,
    }
    .unwrap_or_else(|failure| failure.code())
}

/// The end of a command that did not do its work, with its exit code. The message is on standard error.
struct Failed(u8);

impl Failed {
    fn code(self) -> u8 {
        self.0
    }
}

/// Prints an error on one line.
fn fail(code: u8, what: impl Display) -> Failed {
    eprintln!("dlock: {what}");
    Failed(code)
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        let is_usage = matches!(
            error.kind(),
            ErrorKind::InvalidConfig | ErrorKind::InvalidKey | ErrorKind::Unsupported
        );
        fail(if is_usage { USAGE } else { BACKEND }, error)
    }
}

impl From<listing::Failure> for Failed {
    fn from(failure: listing::Failure) -> Self {
        match failure {
            listing::Failure::Store(error) => error.into(),
            listing::Failure::Output(error) => error.into(),
        }
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        // The reader of the output, for example `head`, has enough.
        if error.kind() == Io::BrokenPipe { Self(OK) } else { fail(OUTPUT, error) }
    }
}

fn found(found: bool) -> u8 {
    if found { OK } else { NOTHING }
}

async fn list(args: ListArgs, site: &Site) -> Result<u8, Failed> {
    let list = if args.exact { List::of_exact_keys(&args.prefix) } else { List::of(&args.prefix) };
    let locks = site.locks().await?;
    Ok(found(listing::list(&locks, list, args.json, &mut io::stdout().lock()).await?))
}

async fn inspect(args: InspectArgs, site: &Site) -> Result<u8, Failed> {
    let key = args.name.key()?;
    let locks = site.locks().await?;
    Ok(found(listing::inspect(&locks, key, args.json, &mut io::stdout().lock()).await?))
}

async fn release(args: ReleaseArgs, site: &Site) -> Result<u8, Failed> {
    if !args.force {
        let what = "release ends leases whose holders may be at work: add --force if you mean that";
        return Err(fail(USAGE, what));
    }
    let key = args.name.key()?;
    let locks = site.locks().await?;
    let requester = Requester::new(site.label.clone());
    ended(ending::release(&locks, &requester, &key, args.yes).await?)
}

async fn destroy(args: DestroyArgs, site: &Site) -> Result<u8, Failed> {
    let key = args.name.key()?;
    let locks = site.locks().await?;
    match ending::destroy(&locks, &key, args.yes).await {
        Ok(done) => {
            locks.shutdown().await;
            ended(done)
        }
        Err(DestroyError::Backend(error)) => Err(error.into()),
        // The message names the holder.
        Err(error) => Err(fail(NOTHING, format!("{}: {error}", records::name(&key)))),
    }
}

fn ended(ended: Ended) -> Result<u8, Failed> {
    match ended {
        Ended::Done(what) => {
            writeln!(io::stdout(), "{what}")?;
            Ok(OK)
        }
        Ended::Nothing(what) => Err(fail(NOTHING, what)),
        Ended::Refused => Err(fail(NOTHING, "nothing was done")),
        Ended::NoTerminal => {
            Err(fail(USAGE, "there is no terminal to ask at: add --yes if you are sure"))
        }
    }
}

async fn examine(args: DoctorArgs, site: &Site) -> Result<u8, Failed> {
    let report = doctor(&site.url).await?;
    let is_json = args.json || !(args.text || site.is_terminal);
    let text =
        if is_json { examining::json(&report) } else { examining::text(&report, site.has_colors) };
    io::stdout().write_all(text.as_bytes())?;
    Ok(examining::code(report.worst()))
}

async fn watch(args: TopArgs, site: &Site) -> Result<u8, Failed> {
    if !top::has_terminal() {
        return Err(fail(USAGE, "top needs a terminal: use `dlock list` or `dlock list --json`"));
    }
    let top = Top {
        locks: site.locks().await?,
        store: site.shown(),
        prefix: args.prefix,
        interval: args.interval,
        keys: args.keys,
        requester: Requester::new(site.label.clone()),
        has_colors: site.has_colors,
    };
    // As a shell reports a program that a signal ended.
    Ok(top::run(top).await?.map_or(OK, |signal| 128 + signal as u8))
}

async fn measure(args: BenchArgs, site: &Site) -> Result<u8, Failed> {
    match bench::run(args, &site.url).await {
        Ok((text, is_clean)) => {
            io::stdout().write_all(text.as_bytes())?;
            Ok(if is_clean { OK } else { NOTHING })
        }
        Err(bench::Failure::Store(error)) => Err(error.into()),
        Err(failure @ bench::Failure::Picture(..)) => Err(fail(OUTPUT, failure)),
        Err(failure) => Err(fail(BACKEND, failure)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_its_login_and_options() {
        let shown = |url: &str| {
            let label = Label::of_process();
            Site { url: url.to_owned(), label, has_colors: false, is_terminal: false }.shown()
        };
        assert_eq!(shown("redis://ann:p%40ss@a:1/2?protocol=resp3"), "redis://a:1/2");
        assert_eq!(shown("redlock+redis://:x@a,b,c/0"), "redlock+redis://a,b,c/0");
        assert_eq!(shown("memory:"), "memory:");
    }

    #[test]
    fn a_period_is_long_enough_for_the_store() {
        assert_eq!(period("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["0", "0.01", "x", "-1", "1e9", "NaN"] {
            assert!(period(bad).is_err(), "{bad}");
        }
    }
}
