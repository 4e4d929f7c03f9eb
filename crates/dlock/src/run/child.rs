//! The program: a process group of its own, which dies with `dlock`.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use lock_core::Clock;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid,
};
use tokio::process::Child as Process;
use tokio::time::{Instant, sleep, timeout};

/// The exit codes of shells for a program that cannot be run, and for a program that does not
/// exist.
pub(super) const CANNOT_RUN: u8 = 126;
pub(super) const NOT_FOUND: u8 = 127;

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
    /// The program, from a process that leads a group of its own.
    pub(super) fn new(process: Process) -> Self {
        let group = process.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        Self { process, group }
    }

    pub(super) fn group(&self) -> Option<Pid> {
        self.group
    }

    /// The signal that has stopped the program since the last look.
    pub(super) fn stopped_by(&self) -> Option<Signal> {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let status = waitid(WaitId::Pid(self.group?), options).ok()??;
        status.stopping_signal().and_then(Signal::from_named_raw)
    }

    /// Sends a signal to the program and all processes of its group. Processes that have ended are no fault.
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            _ = kill_process_group(group, signal);
        }
    }

    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.process.wait().await
    }

    /// Sends a signal that a stopped process takes as well, as soon as it goes on.
    pub(super) fn signal_stopped(&self, signal: Signal) {
        self.signal(signal);
        self.signal(Signal::CONT);
    }

    /// Ends all processes of the group: with TERM, and with KILL when `grace` is over. If there is no grace, they get
    /// KILL alone, so that no process goes on for a moment.
    pub(super) async fn end(&mut self, grace: Duration) {
        self.end_on(|| Clock::boot().now(), grace).await;
    }

    /// As [`end`](Self::end), on a clock that goes on while the computer is suspended, as leases do. The timers of the
    /// runtime stop, so no wait for a timer is long.
    async fn end_on(&mut self, clock: impl Fn() -> lock_core::Instant, grace: Duration) {
        if !grace.is_zero() {
            let until = clock() + grace;
            self.signal_stopped(Signal::TERM);
            let mut has_exited = false;
            while clock() < until && self.has_group() {
                if has_exited {
                    sleep(LOOK).await;
                } else {
                    has_exited = timeout(LOOK, self.process.wait()).await.is_ok();
                }
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

/// Whether the code says that the program does not exist.
pub(super) fn is_no_program(code: i32) -> bool {
    [CANNOT_RUN, NOT_FOUND].iter().any(|&it| i32::from(it) == code)
}

/// The end of a program, as shells report it: its exit code, or 128 plus the number of the signal.
pub(super) fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::process::Stdio;

    use lock_tests::soon;
    use tokio::io::AsyncReadExt;
    use tokio::process::Command;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    /// A program that ignores TERM.
    async fn stubborn() -> Child {
        let script = "trap '' TERM; echo; while :; do sleep 0.01; done";
        let mut command = Command::new("sh");
        command.args(["-c", script]).process_group(0).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().unwrap();
        let mut output = process.stdout.take().unwrap();
        // The trap is set.
        assert_eq!(output.read_u8().await.unwrap(), b'\n');
        Child::new(process)
    }

    #[tokio::test]
    async fn a_suspension_counts_as_a_part_of_the_grace() {
        let mut child = stubborn().await;
        let (begin, looks) = (Clock::boot().now(), Cell::new(0_u32));
        // The computer is suspended for longer than the grace, after a few looks.
        let clock = || {
            looks.set(looks.get() + 1);
            if looks.get() < 4 { begin } else { begin + HOUR * 2 }
        };
        soon(child.end_on(clock, HOUR)).await;
        assert_eq!(child.wait().await.unwrap().signal(), Some(Signal::KILL.as_raw()));
        assert!(looks.get() >= 4, "the program had a grace");
    }
}
