//! The terminal, while the program has it.

use std::cell::Cell;
use std::fs::File;
use std::io::{IsTerminal, stdout};

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::getpgrp;
use rustix::process::Pid;
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// The terminal of `dlock`. The program has a process group of its own, so it can read from the terminal only if
/// `dlock` gives the terminal to that group.
pub(super) struct Foreground {
    terminal: File,
    own: Pid,
    /// The group that has got the terminal.
    given: Cell<Option<Pid>>,
}

impl Foreground {
    /// The terminal, if `dlock` runs in its foreground and writes to it. If `dlock` writes into a pipe, the program at
    /// the other end may read the keys.
    pub(super) fn of_dlock() -> Option<Self> {
        if stdout().is_terminal() { Self::of_job() } else { None }
    }

    /// The terminal, if the job of `dlock` is in its foreground.
    pub(super) fn of_job() -> Option<Self> {
        let terminal = File::options().read(true).write(true).open("/dev/tty").ok()?;
        // In a container, a group that began outside has no number, and cannot take the terminal back.
        let own = Pid::from_raw(getpgrp().as_raw())?;
        let has_it = tcgetpgrp(&terminal).is_ok_and(|group| group == own);
        has_it.then(|| Self { terminal, own, given: Cell::new(None) })
    }

    /// Gives the terminal to a group, if `dlock` still has it.
    pub(super) fn give(&self, group: Pid) {
        let has_it = tcgetpgrp(&self.terminal).is_ok_and(|now| now == self.own);
        if has_it && tcsetpgrp(&self.terminal, group).is_ok() {
            self.given.set(Some(group));
        }
    }

    /// Whether a group has got the terminal from `dlock`.
    pub(super) fn has(&self, group: Pid) -> bool {
        self.given.get() == Some(group) && tcgetpgrp(&self.terminal).is_ok_and(|now| now == group)
    }

    /// Takes the terminal back, unless the shell has given it to another group meanwhile.
    pub(super) fn take_back(&self) {
        let Some(given) = self.given.take() else { return };
        if tcgetpgrp(&self.terminal).is_ok_and(|now| now != given) {
            return;
        }
        // Without this mask, the kernel stops a process in the background that takes the terminal.
        let output = SigSet::from_iter([Signal::SIGTTOU]);
        if output.thread_block().is_ok() {
            _ = tcsetpgrp(&self.terminal, self.own);
            _ = output.thread_unblock();
        }
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        self.take_back();
    }
}
