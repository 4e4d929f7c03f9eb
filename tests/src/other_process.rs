//! The test program as another process.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};

/// Names the part of the other process.
const VARIABLE: &str = "LOCK_TESTS_PART";

/// This test program as another process, which runs one test. The process dies with this value.
///
/// The test asks [`part`](Self::part) for its part, and does nothing if it has none: then it runs among the other
/// tests.
#[derive(Debug)]
pub struct OtherProcess(Child);

impl OtherProcess {
    /// Starts the process, which runs the test of this name, with this part.
    ///
    /// # Panics
    ///
    /// If the process does not start.
    #[must_use]
    pub fn start(test: &str, part: &str) -> Self {
        let program = env::current_exe().expect("the test program has a path");
        let child = Command::new(program)
            .args(["--exact", test, "--nocapture"])
            .env(VARIABLE, part)
            .stdout(Stdio::piped())
            .spawn();
        Self(child.unwrap_or_else(|error| panic!("the test program does not start: {error}")))
    }

    /// The part of this process, if it is the other one.
    #[must_use]
    pub fn part() -> Option<String> {
        env::var(VARIABLE).ok()
    }

    /// Waits until the process prints a line with this word. Later lines may be lost.
    ///
    /// # Panics
    ///
    /// If the process ends before.
    pub fn until_it_says(&mut self, word: &str) {
        let stdout = self.0.stdout.as_mut().expect("the output is a pipe");
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains(word)), "the other process did not say: {word}");
    }

    /// Waits until the process has ended by itself.
    ///
    /// # Panics
    ///
    /// If the system does not say how the process ended.
    pub fn end(mut self) -> ExitStatus {
        self.0.wait().unwrap_or_else(|error| panic!("no status of the other process: {error}"))
    }
}

impl Drop for OtherProcess {
    fn drop(&mut self) {
        // The process may have ended.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}
