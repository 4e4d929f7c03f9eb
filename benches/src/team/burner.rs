//! Processors that do not fall asleep.

use std::process::{Child, Command, Stdio};

use super::serve::BURN;
use crate::Failure;

/// A process that computes whenever nobody else on the machine has anything to do.
///
/// It stands for the other work of a server. It has the scheduler's idle class, so that it gives way
/// at once, and it ends with this value, or with this process.
#[derive(Debug)]
pub struct Burner(Child);

impl Burner {
    /// One for each processor.
    ///
    /// # Errors
    ///
    /// If there is no program `chrt`, of util-linux.
    pub fn on_all_processors() -> Result<Vec<Self>, Failure> {
        let processors = std::thread::available_parallelism()?.get();
        (0..processors).map(|_| Self::start()).collect()
    }

    fn start() -> Result<Self, Failure> {
        let mut command = Command::new("chrt");
        command.args(["-i", "0"]).arg(std::env::current_exe()?).arg(BURN).stdin(Stdio::piped());
        Ok(Self(command.spawn().map_err(|error| format!("chrt, of util-linux: {error}"))?))
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        // An error means that it is gone already.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// What the process does.
pub(super) fn burn() -> ! {
    loop {
        for _ in 0..1_000 {
            std::hint::spin_loop();
        }
    }
}
