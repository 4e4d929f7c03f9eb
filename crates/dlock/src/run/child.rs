//! The program: a process group of its own, which dies with `dlock`.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command as StdCommand, ExitStatus};
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, getppid, kill_process_group,
    test_kill_process_group, waitid,
};
use tokio::process::{Child as Process, Command};
use tokio::time::{Instant, sleep, timeout_at};

use super::tell;

/// The first argument by which `dlock` starts itself as the [`stage`] between itself and the program.
pub(crate) const STAGE: &str = "__stage";

/// The exit codes of shells for a program that cannot be run, and for one that does not exist.
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;

/// How often to look whether a process group has gone.
const LOOK: Duration = Duration::from_millis(10);

/// How long a killed process may take to go.
const DEATH: Duration = Duration::from_secs(2);

/// A running program.
pub(super) struct Child {
    process: Process,
    group: Option<Pid>,
}

impl Child {
    /// Starts the program without a shell. If `dlock` is killed, the kernel kills the program.
    pub(super) fn spawn(command: &[OsString], env: &[(&str, OsString)]) -> io::Result<Self> {
        let mut stage = Command::new(own_path()?);
        stage.arg(STAGE).arg(getpid().as_raw_nonzero().to_string()).args(command);
        stage.envs(env.iter().map(|(name, value)| (name, value)));
        // The group is that of the program, and of all processes that the program starts.
        stage.process_group(0);
        let process = stage.spawn()?;
        let group = process.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        Ok(Self { process, group })
    }

    pub(super) fn group(&self) -> Option<Pid> {
        self.group
    }

    /// By which signal the program has been stopped since the last look.
    pub(super) fn stopped_by(&self) -> Option<Signal> {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let status = waitid(WaitId::Pid(self.group?), options).ok()??;
        status.stopping_signal().and_then(Signal::from_named_raw)
    }

    /// Sends a signal to the program and all processes of its group. Processes that have ended need none.
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            _ = kill_process_group(group, signal);
        }
    }

    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.process.wait().await
    }

    /// Sends a signal that a stopped process takes as well: when it goes on.
    pub(super) fn signal_stopped(&self, signal: Signal) {
        self.signal(signal);
        self.signal(Signal::CONT);
    }

    /// Ends all processes of the group: with TERM, and after this time with KILL. Without time, they get KILL alone, so
    /// that no process goes on for a moment.
    pub(super) async fn end(&mut self, grace: Duration) {
        let until = Instant::now() + grace;
        if !grace.is_zero() {
            self.signal_stopped(Signal::TERM);
            _ = timeout_at(until, self.process.wait()).await;
            while Instant::now() < until && self.has_group() {
                sleep(LOOK).await;
            }
        }
        self.signal(Signal::KILL);
        _ = self.process.wait().await;
        let until = Instant::now() + DEATH;
        while Instant::now() < until && self.has_group() {
            sleep(LOOK).await;
        }
    }

    fn has_group(&self) -> bool {
        self.group.is_some_and(|group| test_kill_process_group(group).is_ok())
    }
}

/// Whether the code says that there was no program to run.
pub(super) fn is_no_program(code: i32) -> bool {
    [CANNOT_RUN, NOT_FOUND].iter().any(|&it| i32::from(it) == code)
}

/// As shells report the end of a program: its exit code, or 128 and the number of the signal.
pub(super) fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

/// Runs in the child process, and becomes the program. Asks the kernel for KILL when the parent ends: no code of ours may
/// run between fork and exec without unsafe code, so this is a program of its own.
pub(crate) fn stage(mut args: impl Iterator<Item = OsString>) -> u8 {
    let parent = args.next();
    let Some(program) = args.next() else { return CANNOT_RUN };
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
        tell(&format!("the program would outlive dlock: {error}"));
        return CANNOT_RUN;
    }
    // If the parent ended before the kernel knew, there is no signal.
    if !is_parent(parent.as_deref()) {
        return CANNOT_RUN;
    }
    let error = match exec(&program, args) {
        Ok(never) => match never {},
        Err(error) => error,
    };
    tell(&format!("cannot run {}: {error}", program.display()));
    if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_RUN }
}

fn is_parent(parent: Option<&OsStr>) -> bool {
    let parent = parent.and_then(OsStr::to_str).and_then(|text| text.parse().ok());
    parent.is_some() && parent == getppid().map(|pid| pid.as_raw_nonzero().get())
}

fn exec(program: &OsStr, args: impl Iterator<Item = OsString>) -> io::Result<Infallible> {
    Err(StdCommand::new(program).args(args).exec())
}

/// This program. On Linux, also if its file was replaced since.
fn own_path() -> io::Result<std::path::PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}
