//! Keeping the processors awake.

use std::process::{Child, Command, Stdio};

use super::serve::BURN;
use crate::Failure;

/// A process that computes whenever no other process on the machine has work.
///
/// It stands for the other work of a server. It runs in the scheduler's idle class, so that it gives way at once. It
/// ends when this value is dropped or this process ends.
#[derive(Debug)]
pub struct Burner(Child);

impl Burner {
    /// Starts one burner for each processor.
    ///
    /// # Errors
    ///
    /// If there is no program `chrt`, which is part of util-linux.
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
        // An error means that the process is already gone.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// The program of the process.
pub(super) fn burn() -> ! {
    loop {
        for _ in 0..1_000 {
            std::hint::spin_loop();
        }
    }
}
