//! The commands that run a program under a lock or as the leader, and the command that waits for a leader.

mod args;
mod child;
mod foreground;
mod guarding;
mod lease_file;
mod limits;
mod signals;
mod stage;
mod wanted;

use std::error::Error as StdError;
use std::io::{self, Write};
use std::iter;
use std::time::Duration;

use lock_core::{Error, Key};
use lock_sync::{Lease, LockError, Locks};
use tokio::runtime::Handle;
use tokio::time::sleep;

use self::args::{Codes, Program};
pub(crate) use self::args::{ElectArgs, RunArgs, WaitLeaderArgs};
use self::child::code_of;
use self::guarding::{Ended, Guarding};
use self::limits::Limits;
use self::signals::Signals;
use self::stage::Stage;
pub(crate) use self::stage::{STAGE, stage};
use self::wanted::{Denied, Patience, Wanted};
use crate::tell::tell;
use crate::view::{OUTPUT, Site, USAGE, is_usage, signalled};

/// How long the store has at the end to answer a release. A lease that is not released ends by itself.
const FAREWELL: Duration = Duration::from_secs(2);

/// How long a candidate waits before it campaigns again.
const AGAIN: Duration = Duration::from_secs(1);

/// The system started no program, or gave no file: `EX_OSERR` of `sysexits.h`.
const SYSTEM: u8 = 71;

/// One of these commands.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Programs {
    /// Hold a lock while a program runs
    Run(RunArgs),
    /// Lead an election while a program runs
    Elect(ElectArgs),
    /// Wait until there is a leader, and print its value
    WaitLeader(WaitLeaderArgs),
}

/// Runs the command. Returns the exit code.
pub(crate) async fn run(command: Programs, site: &Site) -> u8 {
    match command {
        Programs::Run(args) => run_locked(&args, site).await,
        Programs::Elect(args) => elect(&args, site).await,
        Programs::WaitLeader(args) => wait_leader(&args, site).await,
    }
    .unwrap_or_else(|code| code)
}

/// Prints an error on one line, with its sources. Returns the exit code.
fn fail(code: u8, what: &dyn StdError) -> u8 {
    let mut line = what.to_string();
    let mut source = what.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !line.contains(&more) {
            line = format!("{line}: {more}");
        }
        source = error.source();
    }
    say(code, &line)
}

fn say(code: u8, what: &str) -> u8 {
    tell(what);
    code
}

/// The error of the store behind an error.
fn of_store<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Error> {
    iter::successors(Some(error), |&error| error.source()).find_map(|error| error.downcast_ref())
}

fn store_failed(codes: Codes, error: &(dyn StdError + 'static)) -> u8 {
    let is_mistake = of_store(error).is_some_and(is_usage);
    fail(if is_mistake { USAGE } else { codes.backend_code }, error)
}

/// What a command needs before it asks for a lock: the store, the signals, and the time limits.
struct Ready {
    locks: Locks,
    limits: Limits,
    signals: Signals,
}

impl Ready {
    async fn new(
        program: &Program,
        codes: Codes,
        outage_limit: Option<Duration>,
        site: &Site,
    ) -> Result<Self, u8> {
        let (ttl, limits) = (program.ttl.duration(), limits(program)?);
        let mut signals = Signals::new().map_err(|error| fail(SYSTEM, &error))?;
        let failed = |error: Error| store_failed(codes, &error);
        // To open a quorum, `dlock` asks its nodes.
        let builder = tokio::select! {
            builder = site.builder() => builder.map_err(failed)?,
            signal = signals.next_end() => return Err(signalled(signal.as_raw())),
        };
        // With one runtime, there is one connection and no second thread.
        let mut locks = builder.ttl(ttl).on_runtime(Handle::current());
        if let Some(limit) = outage_limit {
            locks = locks.outage_limit(limit);
        }
        let locks = locks.build().map_err(failed)?;
        Ok(Self { locks, limits, signals })
    }

    /// Runs the program under this lease.
    async fn guard(
        &mut self,
        stage: Stage,
        key: &Key,
        lease: &Lease,
        program: &Program,
    ) -> Result<Ended, u8> {
        let (ttl, limits, on_lost) = (program.ttl, self.limits, program.on_lost);
        let guarding = Guarding {
            key,
            lease,
            ttl,
            limits,
            on_lost,
            signals: &mut self.signals,
            is_asked: false,
        };
        guarding.run(stage).await.map_err(|error| fail(SYSTEM, &error))
    }
}

fn limits(program: &Program) -> Result<Limits, u8> {
    Limits::new(program.ttl.duration(), program.grace).map_err(|what| say(USAGE, &what))
}

fn start(program: &Program) -> Result<Stage, u8> {
    Stage::start(&program.command).map_err(|error| fail(SYSTEM, &error))
}

impl Ended {
    fn code(&self, codes: Codes) -> u8 {
        match self {
            Self::Exited(status, _) => code_of(*status),
            Self::Lost(_) => codes.lost_code,
        }
    }

    /// Whether to campaign again: neither a signal nor a missing program has ended the run.
    fn may_run_again(&self) -> bool {
        match self {
            Self::Exited(status, is_asked) => {
                !is_asked && status.code().is_some_and(|code| !child::is_no_program(code))
            }
            Self::Lost(is_asked) => !is_asked,
        }
    }
}

async fn run_locked(args: &RunArgs, site: &Site) -> Result<u8, u8> {
    let codes = args.codes;
    let Some(wanted) = Wanted::of(args) else {
        return Err(say(USAGE, "name what to hold: NAME, or --semaphore NAME --permits K"));
    };
    limits(&args.program)?;
    // The stage starts before all work that takes time, so it is ready when `dlock` has the lock.
    let stage = start(&args.program)?;
    // With `--try`, `dlock` does not wait for the store, either.
    let outage_limit = args.is_try.then_some(Duration::ZERO);
    let mut ready = Ready::new(&args.program, codes, outage_limit, site).await?;
    let patience = match args.timeout {
        _ if args.is_try => Patience::Try,
        Some(limit) => Patience::AtMost(limit),
        None => Patience::Endless,
    };
    let locks = ready.locks.clone();
    let held = tokio::select! {
        held = wanted.acquire(&locks, patience) => Ok(held),
        signal = ready.signals.next_end() => Err(signalled(signal.as_raw())),
    };
    let ended = match held {
        Ok(Ok(held)) => {
            let ended = ready.guard(stage, wanted.key(), &held.lease(), &args.program).await;
            drop(held);
            ended.map(|ended| ended.code(codes))
        }
        Ok(Err(denied)) => Err(refused(&denied, wanted.key(), codes)),
        Err(code) => Err(code),
    };
    // The drop of the guard has enqueued the release.
    locks.shutdown_timeout(FAREWELL).await;
    ended
}

fn refused(denied: &Denied, key: &Key, codes: Codes) -> u8 {
    match denied {
        Denied::Busy => say(codes.busy_code, &format!("{key} is not free")),
        Denied::Timeout => say(codes.timeout_code, &format!("{key} was not free in time")),
        Denied::Failed(error) => store_failed(codes, &**error),
    }
}

async fn elect(args: &ElectArgs, site: &Site) -> Result<u8, u8> {
    let codes = args.codes;
    let mut ready = Ready::new(&args.program, codes, None, site).await?;
    let locks = ready.locks.clone();
    let election =
        locks.election(args.name.clone()).map_err(|error| store_failed(codes, &error))?;
    let value = args.value.clone().unwrap_or_else(|| site.label.to_string());
    let ended = loop {
        let leadership = tokio::select! {
            leadership = election.campaign(&value) => match leadership {
                Ok(leadership) => leadership,
                Err(LockError::Backend(error)) if args.again && error.is_retryable() => {
                    fail(codes.backend_code, &error);
                    sleep(AGAIN).await;
                    continue;
                }
                Err(LockError::Backend(error)) => break Err(store_failed(codes, &error)),
                Err(error) => break Err(fail(codes.backend_code, &error)),
            },
            signal = ready.signals.next_end() => break Err(signalled(signal.as_raw())),
        };
        let ended = match start(&args.program) {
            Ok(stage) => ready.guard(stage, &args.name, &leadership.lease(), &args.program).await,
            Err(code) => Err(code),
        };
        drop(leadership);
        match ended {
            Ok(ended) if args.again && ended.may_run_again() => sleep(AGAIN).await,
            ended => break ended.map(|ended| ended.code(codes)),
        }
    };
    locks.shutdown_timeout(FAREWELL).await;
    ended
}

async fn wait_leader(args: &WaitLeaderArgs, site: &Site) -> Result<u8, u8> {
    let codes = args.codes;
    let failed = |error: Error| store_failed(codes, &error);
    let locks = site.locks().await.map_err(failed)?;
    let mut leaders = locks.election(args.name.clone()).map_err(failed)?.observe();
    let leader = async {
        loop {
            if let Some(leader) = leaders.next().await? {
                return Ok::<_, Error>(leader);
            }
        }
    };
    let leader = match args.timeout {
        None => leader.await,
        Some(limit) => match tokio::time::timeout(limit, leader).await {
            Ok(leader) => leader,
            Err(_) => return Err(say(codes.timeout_code, &format!("{} has no leader", args.name))),
        },
    };
    let value = leader.map_err(failed)?.value;
    let mut output = io::stdout().lock();
    let written = output.write_all(&value).and_then(|()| output.write_all(b"\n"));
    written.map_err(|error| fail(OUTPUT, &error))?;
    Ok(0)
}
