//! Runs the program in the background, with scripts that tell what they do.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lock_any::lock_sync::Locks;
use lock_core::Inspection;
use lock_tests::process::is_alive;
use lock_tests::{RedisServer, SOON, eventually};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Longer than any run of these tests, on a loaded machine too.
const END: Duration = Duration::from_secs(30);

/// A server, and a folder for what scripts write.
pub(crate) struct Scene {
    pub(crate) server: RedisServer,
    folder: TempDir,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self { server: RedisServer::start(), folder: TempDir::new().unwrap() }
    }

    /// A file of the folder. Scripts run there.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dlock"));
        command.env("LOCK_URL", self.server.url()).env("DLOCK", env!("CARGO_BIN_EXE_dlock"));
        command.current_dir(self.folder.path()).args(args).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn start(&self, args: &[&str]) -> Dlock {
        Dlock(Some(self.command(args).spawn().unwrap()))
    }

    /// Runs a script under the lock `it`.
    pub(crate) fn script(&self, options: &[&str], script: &str) -> Dlock {
        self.start(&[&["run", "--name", "it"], options, &["--", "sh", "-c", script]].concat())
    }

    /// Waits until a script has written this file, and returns its text.
    pub(crate) fn written(&self, name: &str) -> String {
        let path = self.path(name);
        let read = || fs::read_to_string(&path).unwrap_or_default();
        eventually(&format!("{name} is written"), SOON, || read().ends_with('\n'));
        read()
    }

    /// Another client of the server.
    pub(crate) async fn locks(&self) -> Locks {
        lock_any::connect(&self.server.url()).await.unwrap()
    }

    pub(crate) async fn inspect(&self, name: &str) -> Inspection {
        self.locks().await.inspect(name).await.unwrap()
    }
}

/// A run of the program. Killed if the test ends before it.
pub(crate) struct Dlock(Option<Child>);

impl Dlock {
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(self.0.as_ref().unwrap())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Waits for the end of the program, and checks its exit code.
    ///
    /// # Panics
    ///
    /// If the program does not end soon, or a process that it left behind keeps its output open.
    #[track_caller]
    pub(crate) fn ends_with(mut self, code: i32) -> Text {
        let child = self.0.as_mut().unwrap();
        let (out, err) = (reading(child.stdout.take()), reading(child.stderr.take()));
        let mut status = None;
        eventually("dlock has ended, and its output", END, || {
            status = child.try_wait().unwrap();
            status.is_some() && out.is_finished() && err.is_finished()
        });
        let text = Text { out: out.join().unwrap(), err: err.join().unwrap() };
        assert_eq!(status.unwrap().code(), Some(code), "{text:?}");
        text
    }

    pub(crate) fn kill(mut self) {
        let mut child = self.0.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

impl Drop for Dlock {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

/// What the program has printed.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Reads everything that a program prints.
fn reading(output: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    let mut output = output.unwrap();
    thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        text
    })
}

/// The process whose number a script has written.
pub(crate) fn pid_of(text: &str) -> u32 {
    text.trim().parse().unwrap()
}

/// Waits until the process has gone.
pub(crate) fn is_gone(pid: u32) {
    eventually("the process has gone", SOON, || !is_alive(pid));
}
