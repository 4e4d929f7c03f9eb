//! The commands that look at locks, end their leases, examine a store and measure it.

mod args;
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

use lock_any::doctor::doctor;
use lock_core::{AnyBackend, Error, ErrorKind, Label, List};
use lock_sync::{Builder, DestroyError, Locks};

pub(crate) use self::args::View;

use self::args::{DestroyArgs, DoctorArgs, InitArgs, InspectArgs, ListArgs, ReleaseArgs, TopArgs};
use self::audit::Requester;
use self::bench::BenchArgs;
use self::ending::Ended;
use self::listing::Sight;
use self::top::Top;
use crate::tell::tell;

const OK: u8 = 0;
/// A negative outcome, as the README lists it.
const NOTHING: u8 = 1;
/// A mistake on the command line, as every program with `clap` reports it.
pub(crate) const USAGE: u8 = 2;
/// The store failed: `EX_UNAVAILABLE` of `sysexits.h`.
const BACKEND: u8 = 69;
/// The output cannot be written: `EX_IOERR`.
pub(crate) const OUTPUT: u8 = 74;

/// The options for all commands.
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
    /// Locks over the store, before their other options are set.
    pub(crate) async fn builder(&self) -> Result<Builder, Error> {
        Ok(self.over(lock_any::open(&self.url).await?))
    }

    fn over(&self, store: AnyBackend) -> Builder {
        Locks::builder(store).label(self.label.clone())
    }

    /// Locks over the store, and what an inspection of them can show.
    async fn sight(&self) -> Result<(Locks, Sight), Error> {
        let store = lock_any::open(&self.url).await?;
        let sight = Sight::of(&store);
        Ok((self.over(store).build()?, sight))
    }

    pub(crate) async fn locks(&self) -> Result<Locks, Error> {
        self.builder().await?.build()
    }
}

/// Runs the command. Returns the exit code.
pub(crate) async fn run(view: View, site: &Site) -> u8 {
    match view {
        View::List(args) => list(args, site).await,
        View::Inspect(args) => inspect(args, site).await,
        View::Release(args) => release(args, site).await,
        View::Destroy(args) => destroy(args, site).await,
        View::Init(args) => init(args, site).await,
        View::Doctor(args) => examine(args, site).await,
        View::Top(args) => watch(args, site).await,
        View::Bench(args) => measure(args, site).await,
    }
    .unwrap_or_else(|failure| failure.code())
}

/// A command failed, with this exit code. The message is on standard error.
struct Failed(u8);

impl Failed {
    fn code(self) -> u8 {
        self.0
    }
}

/// Prints an error on one line.
fn fail(code: u8, what: impl Display) -> Failed {
    tell(what);
    Failed(code)
}

/// Whether the mistake is on the command line, and not in the store.
pub(crate) fn is_usage(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::InvalidConfig | ErrorKind::InvalidKey | ErrorKind::Unsupported
    )
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        fail(if is_usage(&error) { USAGE } else { BACKEND }, error)
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

/// The exit code by which a shell reports a program that a signal ended.
pub(crate) fn signalled(signal: i32) -> u8 {
    128 + signal as u8
}

fn found(found: bool) -> u8 {
    if found { OK } else { NOTHING }
}

async fn list(args: ListArgs, site: &Site) -> Result<u8, Failed> {
    let list = if args.exact { List::of_exact_keys(&args.prefix) } else { List::of(&args.prefix) };
    let (locks, sight) = site.sight().await?;
    Ok(found(listing::list(&locks, sight, list, args.json, &mut io::stdout().lock()).await?))
}

async fn inspect(args: InspectArgs, site: &Site) -> Result<u8, Failed> {
    let key = args.name.key()?;
    let (locks, sight) = site.sight().await?;
    Ok(found(listing::inspect(&locks, &sight, key, args.json, &mut io::stdout().lock()).await?))
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
        Ended::Signalled(signal) => Ok(signalled(signal)),
    }
}

async fn init(args: InitArgs, site: &Site) -> Result<u8, Failed> {
    ended(ending::init(&site.url, args.yes).await?)
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
    let (locks, sight) = site.sight().await?;
    let top = Top {
        locks,
        store: lock_any::shown(&site.url),
        prefix: args.prefix,
        interval: args.interval,
        keys: args.keys,
        requester: Requester::new(site.label.clone()),
        has_colors: site.has_colors,
        has_queue: sight.has_queue,
    };
    Ok(top::run(top).await?.map_or(OK, signalled))
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
