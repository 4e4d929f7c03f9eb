//! The terminal, while the program has it.

use std::cell::Cell;
use std::fs::File;
use std::io::{IsTerminal, stdout};

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::getpgrp;
use rustix::process::Pid;
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// The terminal of `dlock`. The program has a process group of its own, so without this it could not read from the terminal.
pub(super) struct Foreground {
    terminal: File,
    own: Pid,
    /// The group that has got the terminal.
    given: Cell<Option<Pid>>,
}

impl Foreground {
    /// The terminal, if `dlock` runs in its foreground. In a pipe to another program, that program may read the keys.
    pub(super) fn of_dlock() -> Option<Self> {
        if !stdout().is_terminal() {
            return None;
        }
        let terminal = File::options().read(true).write(true).open("/dev/tty").ok()?;
        // In a container, a group that began outside has no number, and could not take the terminal back.
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

    /// Whether a group has the terminal because it was given to it.
    pub(super) fn has(&self, group: Pid) -> bool {
        self.given.get() == Some(group) && tcgetpgrp(&self.terminal).is_ok_and(|now| now == group)
    }

    /// Takes the terminal back, unless the shell has given it to another group since.
    pub(super) fn take_back(&self) {
        let Some(given) = self.given.take() else { return };
        if tcgetpgrp(&self.terminal).is_ok_and(|now| now != given) {
            return;
        }
        // Otherwise the kernel stops a process that takes a terminal which is not its own.
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
