//! The program in a terminal of its own.

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lock_tests::{SOON, eventually};
use pty_process::Size;
use pty_process::blocking::{Command, Pty, open};
use rustix::termios::{LocalModes, tcgetattr};

const LINES: NonZeroU16 = NonZeroU16::new(24).unwrap();
const LOOK: Duration = Duration::from_millis(2);
const COLUMNS: NonZeroU16 = NonZeroU16::new(110).unwrap();

/// A terminal in which the program runs.
pub(crate) struct Terminal {
    pty: Arc<Pty>,
    child: Child,
    shown: Arc<Mutex<Shown>>,
    reader: Option<JoinHandle<()>>,
}

struct Shown {
    screen: vt100::Parser,
    raw: Vec<u8>,
}

impl Terminal {
    /// Runs the program with these arguments.
    pub(crate) fn run(url: &str, args: &[&str]) -> Self {
        Self::run_with(url, args, &[])
    }

    /// Runs the program with these arguments and variables.
    pub(crate) fn run_with(url: &str, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let command = Command::new(env!("CARGO_BIN_EXE_dlock")).args(args).env_remove("NO_COLOR");
        Self::start(command.env("LOCK_URL", url).envs(variables.iter().copied()))
    }

    /// Starts any command.
    pub(crate) fn start(command: Command) -> Self {
        let (pty, pts) = open().unwrap();
        pty.resize(Size::new(LINES.get(), COLUMNS.get())).unwrap();
        let command = command.env("TERM", "xterm-256color");
        let child = command.spawn(pts).unwrap();
        let pty = Arc::new(pty);
        let screen = vt100::Parser::new(LINES, COLUMNS, 0);
        let shown = Arc::new(Mutex::new(Shown { screen, raw: Vec::new() }));
        let reader = std::thread::spawn({
            let (pty, shown) = (Arc::clone(&pty), Arc::clone(&shown));
            move || {
                let mut room = [0; 4096];
                // The end of the program ends the terminal, with an error.
                while let Ok(length @ 1..) = (&*pty).read(&mut room) {
                    let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
                    shown.screen.process(&room[..length]);
                    shown.raw.extend_from_slice(&room[..length]);
                }
            }
        });
        Self { pty, child, shown, reader: Some(reader) }
    }

    pub(crate) fn press(&self, keys: &str) {
        (&*self.pty).write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What stands on the screen.
    pub(crate) fn screen(&self) -> String {
        self.shown.lock().unwrap().screen.screen().contents()
    }

    /// Waits until all these texts stand on the screen.
    ///
    /// # Panics
    ///
    /// If one of them does not appear in time. The message has the screen.
    #[track_caller]
    pub(crate) fn shows(&self, texts: &[&str]) {
        let has_all = |screen: &str| texts.iter().all(|text| screen.contains(text));
        self.until(&format!("{texts:?}"), has_all);
    }

    /// Waits until `is_so` accepts the screen.
    ///
    /// # Panics
    ///
    /// If that takes too long. The message has the screen.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        let start = Instant::now();
        loop {
            let screen = self.screen();
            if is_so(&screen) {
                return;
            }
            assert!(start.elapsed() < SOON, "the screen does not show {what}, but:\n{screen}");
            std::thread::sleep(LOOK);
        }
    }

    /// Waits until the program has ended. Returns its status, and everything that it wrote.
    pub(crate) fn end(&mut self) -> (ExitStatus, String) {
        let mut status = None;
        eventually("the program has ended", SOON, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        self.reader.take().unwrap().join().unwrap();
        let raw = self.shown.lock().unwrap().raw.clone();
        (status.unwrap(), String::from_utf8_lossy(&raw).into_owned())
    }

    /// Whether the terminal takes lines and echoes them, as shells expect.
    pub(crate) fn is_cooked(&self) -> bool {
        let modes = tcgetattr(&*self.pty).unwrap().local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
