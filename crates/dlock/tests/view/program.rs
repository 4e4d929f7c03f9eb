//! Runs the program, and a client that holds locks.

use std::process::{Command, Output, Stdio};

use lock_any::lock_sync::Locks;
use lock_core::Label;
use lock_tests::{SOON, eventually_async};
use serde_json::Value;

/// The program with these arguments, without a terminal.
pub(crate) fn dlock(url: &str, args: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dlock"));
    command.env("LOCK_URL", url).env_remove("NO_COLOR").args(args).stdin(Stdio::null());
    Ran(command.output().unwrap())
}

/// The program with these arguments, and without a URL in its environment.
pub(crate) fn without_store(args: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dlock"));
    command.env_remove("LOCK_URL").args(args).stdin(Stdio::null());
    Ran(command.output().unwrap())
}

/// What a run left behind.
pub(crate) struct Ran(Output);

impl Ran {
    pub(crate) fn code(&self) -> i32 {
        self.0.status.code().unwrap()
    }

    /// Checks the exit code, and shows the output if it is another one.
    #[track_caller]
    pub(crate) fn ends_with(self, code: i32) -> Self {
        assert_eq!(self.code(), code, "{}{}", self.out(), self.err());
        self
    }

    pub(crate) fn out(&self) -> String {
        String::from_utf8(self.0.stdout.clone()).unwrap()
    }

    pub(crate) fn err(&self) -> String {
        String::from_utf8(self.0.stderr.clone()).unwrap()
    }

    /// The lines of the output, each as JSON.
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.out().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// A client with a label.
pub(crate) async fn client(url: &str, label: &str) -> Locks {
    let store = lock_any::open(url).await.unwrap();
    Locks::builder(store).label(Label::new(label).unwrap()).build().unwrap()
}

/// Waits until the store knows the labels of all holders.
pub(crate) async fn labelled(locks: &Locks, name: &str) {
    eventually_async("the label is there", SOON, async || {
        let seen = locks.inspect(name).await.unwrap();
        seen.holding > 0 && seen.holders.iter().all(|it| it.label.is_some())
    })
    .await;
}
