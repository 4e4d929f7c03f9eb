//! A process that answers lines.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::Failure;

/// A process that is asked by lines, and answers each with a line. It ends with this.
#[derive(Debug)]
pub(crate) struct Dialogue {
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Dialogue {
    /// Starts it.
    pub(crate) fn start(command: &mut Command) -> Result<Self, Failure> {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(questions), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("a process without pipes".into());
        };
        Ok(Self { process, questions, answers: BufReader::new(answers) })
    }

    /// Tells it something.
    pub(crate) fn tell(&mut self, line: &Value) -> Result<(), Failure> {
        writeln!(self.questions, "{line}")?;
        Ok(self.questions.flush()?)
    }

    /// The next thing that it says; nothing if it has ended.
    pub(crate) fn hear(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(line)
    }
}

impl Drop for Dialogue {
    fn drop(&mut self) {
        // It may have gone by itself.
        let _killed = self.process.kill();
        let _reaped = self.process.wait();
    }
}
