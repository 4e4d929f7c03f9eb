//! The process between `dlock` and the program. It starts while `dlock` waits for the lock, and becomes the program as
//! soon as `dlock` has the lock.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, PipeWriter, Read, Write, pipe};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::process::Command as StdCommand;

use nix::unistd::close;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{getpid, getppid};
use tokio::process::{Child as Process, Command};

use super::child::{CANNOT_RUN, Child, NOT_FOUND};
use crate::tell::tell;

/// The first argument by which `dlock` starts itself as the [`stage`].
pub(crate) const STAGE: &str = "__stage";

/// A variable for the program.
pub(super) type Variable = (&'static str, OsString);

/// A process that waits to become the program. It ends if it is dropped.
pub(super) struct Stage {
    process: Process,
    orders: PipeWriter,
}

impl Stage {
    /// Starts the process that becomes the program, without a shell. If `dlock` is killed, the kernel kills the
    /// process.
    pub(super) fn start(command: &[OsString]) -> io::Result<Self> {
        let (reader, orders) = pipe()?;
        // The stage inherits this end. The other end closes when `dlock` ends.
        fcntl_setfd(&reader, FdFlags::empty())?;
        let mut stage = Command::new(own_path()?);
        stage.arg(STAGE).arg(getpid().as_raw_nonzero().to_string());
        stage.arg(reader.as_raw_fd().to_string()).args(command);
        // The group is that of the program, and of all processes that the program starts.
        stage.process_group(0);
        Ok(Self { process: stage.spawn()?, orders })
    }

    /// Lets the process become the program, with these variables. If the process has ended meanwhile, its exit status
    /// says why.
    pub(super) fn go(mut self, variables: &[Variable]) -> Child {
        // What arrives in part is no order.
        _ = self.orders.write_all(&order(variables));
        Child::new(self.process)
    }
}

/// Runs in the child process, and becomes the program. Asks the kernel for KILL when the parent ends: no code of ours
/// may run between fork and exec without unsafe code, so this is a program of its own.
pub(crate) fn stage(mut args: impl Iterator<Item = OsString>) -> u8 {
    let (parent, orders) = (args.next(), args.next());
    let Some(program) = args.next() else { return CANNOT_RUN };
    #[cfg(target_os = "linux")]
    if let Err(error) =
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
    {
        tell(format_args!("the program would outlive dlock: {error}"));
        return CANNOT_RUN;
    }
    // If the parent ended before the kernel knew, there is no signal.
    if number(parent.as_deref()) != getppid().map(|pid| pid.as_raw_nonzero().get()) {
        return CANNOT_RUN;
    }
    let variables = match received(orders.as_deref()) {
        Ok(Some(variables)) => variables,
        // There is nothing to run.
        Ok(None) => return CANNOT_RUN,
        Err(error) => {
            tell(format_args!("the program does not hear of its lock: {error}"));
            return CANNOT_RUN;
        }
    };
    let error = match exec(&program, args, variables) {
        Ok(never) => match never {},
        Err(error) => error,
    };
    tell(format_args!("cannot run {}: {error}", program.display()));
    if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_RUN }
}

fn number(argument: Option<&OsStr>) -> Option<i32> {
    argument?.to_str()?.parse().ok()
}

/// Waits for the order, on the end of a pipe that the stage has inherited. `None` if `dlock` gives none.
fn received(end: Option<&OsStr>) -> io::Result<Option<Vec<(OsString, OsString)>>> {
    let end = number(end).ok_or(io::ErrorKind::InvalidInput)?;
    // As for `own_path`: a small container may have nothing in `/dev`.
    let ends = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
    let mut orders = File::open(format!("{ends}/{end}"))?;
    // That is another one, which the program does not inherit.
    close(end)?;
    let mut order = Vec::new();
    orders.read_to_end(&mut order)?;
    Ok(variables(&order))
}

/// The variables as bytes. An empty one marks the end.
fn order(variables: &[Variable]) -> Vec<u8> {
    let mut order = Vec::new();
    for (name, value) in variables {
        order.extend_from_slice(name.as_bytes());
        order.push(b'=');
        order.extend_from_slice(value.as_bytes());
        order.push(0);
    }
    order.push(0);
    order
}

/// The variables of an [`order`], if it is whole.
fn variables(order: &[u8]) -> Option<Vec<(OsString, OsString)>> {
    let text = |bytes: &[u8]| OsString::from_vec(bytes.to_owned());
    let each = order.strip_suffix(b"\0\0")?.split(|byte| *byte == 0);
    let pair = |variable: &[u8]| {
        let at = variable.iter().position(|byte| *byte == b'=')?;
        Some((text(&variable[..at]), text(&variable[at + 1..])))
    };
    each.map(pair).collect()
}

fn exec(
    program: &OsStr,
    args: impl Iterator<Item = OsString>,
    variables: Vec<(OsString, OsString)>,
) -> io::Result<Infallible> {
    Err(StdCommand::new(program).args(args).envs(variables).exec())
}

/// This program. On Linux, also if its file was replaced since.
fn own_path() -> io::Result<std::path::PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_counts_only_if_it_is_whole() {
        let told =
            [("A", "b=c".into()), ("B", OsString::new()), ("C", OsString::from_vec(vec![255]))];
        let whole = order(&told);
        let expected = told.map(|(name, value)| (name.into(), value)).to_vec();
        assert_eq!(variables(&whole), Some(expected));
        for length in 0..whole.len() {
            assert_eq!(variables(&whole[..length]), None, "{length}");
        }
    }
}
