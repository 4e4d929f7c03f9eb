//! A process that answers orders line by line.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::Failure;

/// A process that answers each line with a line. It ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Dialogue {
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Dialogue {
    /// Starts the process.
    pub(crate) fn start(command: &mut Command) -> Result<Self, Failure> {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(questions), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("a process without pipes".into());
        };
        Ok(Self { process, questions, answers: BufReader::new(answers) })
    }

    /// Sends a line to the process.
    pub(crate) fn tell(&mut self, line: &Value) -> Result<(), Failure> {
        writeln!(self.questions, "{line}")?;
        Ok(self.questions.flush()?)
    }

    /// The next line from the process; `None` if it has ended.
    pub(crate) fn hear(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(line)
    }
}

impl Drop for Dialogue {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _killed = self.process.kill();
        let _reaped = self.process.wait();
    }
}
