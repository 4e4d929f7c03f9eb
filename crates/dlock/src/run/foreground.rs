//! The terminal, while the program has it.

use std::io::{IsTerminal, stdin};

use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Pid, getpgrp};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// The terminal of `dlock`, as long as the processes of `dlock` are those to which keys go. The program has a process
/// group of its own, so without this it could not read from the terminal.
pub(super) struct Foreground {
    own: Pid,
}

impl Foreground {
    /// The terminal at standard input, if `dlock` runs in its foreground.
    pub(super) fn of_stdin() -> Option<Self> {
        let own = getpgrp();
        let has_it = stdin().is_terminal() && tcgetpgrp(stdin()).is_ok_and(|group| group == own);
        has_it.then_some(Self { own })
    }

    /// Gives the terminal to a group, if `dlock` still has it.
    pub(super) fn give(&self, group: Pid) {
        if tcgetpgrp(stdin()).is_ok_and(|now| now == self.own) {
            _ = tcsetpgrp(stdin(), group);
        }
    }

    /// Takes the terminal back.
    pub(super) fn take_back(&self) {
        // Otherwise the kernel stops a process that takes a terminal which is not its own.
        let output = SigSet::from_iter([Signal::SIGTTOU]);
        if output.thread_block().is_ok() {
            _ = tcsetpgrp(stdin(), self.own);
            _ = output.thread_unblock();
        }
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        self.take_back();
    }
}
