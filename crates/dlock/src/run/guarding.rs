//! A program under a lease: signals go on to it, and it ends before the lease does.

use std::ffi::OsString;
use std::io;
use std::process::ExitStatus;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lock_core::{Key, Ttl};
use lock_sync::Lease;
use rustix::process::Signal;
use tokio::time::sleep;

use super::args::OnLost;
use super::child::Child;
use super::foreground::Foreground;
use super::lease_file::{LeaseFile, deadline};
use super::limits::Limits;
use super::signals::{self, Signals};
use super::tell;

/// How a program under a lease has ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// By itself, or by a signal; and whether the user has asked `dlock` for the end.
    Exited(ExitStatus, bool),
    /// The lease was lost or about to end, and the program was ended.
    Lost,
}

/// Why to look at the lease.
enum News {
    Exited(ExitStatus),
    /// The program was stopped, and is to go on if it still has its lease.
    WasStopped,
    Lease,
}

/// What a program runs under.
pub(super) struct Guarding<'a> {
    pub(super) key: &'a Key,
    pub(super) lease: &'a Lease,
    pub(super) ttl: Ttl,
    pub(super) limits: Limits,
    pub(super) on_lost: OnLost,
    pub(super) signals: &'a mut Signals,
    /// Whether the user has asked for the end.
    pub(super) is_asked: bool,
}

/// Gives the program the terminal.
fn give(foreground: Option<&Foreground>, child: &Child) {
    if let (Some(foreground), Some(group)) = (foreground, child.group()) {
        foreground.give(group);
    }
}

/// Lets a program go on that was stopped. The shell may have brought the job to the foreground.
fn resume(foreground: &mut Option<Foreground>, child: &Child) {
    if foreground.is_none() {
        *foreground = Foreground::of_dlock();
    }
    give(foreground.as_ref(), child);
    child.signal(Signal::CONT);
}

/// Whether the job has to stop with the program, if that was stopped. Lets a program go on that was stopped because it did not
/// have the terminal yet. Only such a program: to let any other go on would undo a key that stops it.
fn stops_job(foreground: Option<&Foreground>, child: &Child) -> bool {
    let Some(stop) = child.stopped_by() else { return false };
    let wants_terminal = matches!(stop, Signal::TTIN | Signal::TTOU);
    match foreground {
        Some(foreground)
            if wants_terminal && child.group().is_some_and(|it| foreground.has(it)) =>
        {
            child.signal(Signal::CONT);
            false
        }
        // A key at the terminal of `dlock` has stopped the program.
        Some(_) => true,
        // The shell has to bring the job to the foreground.
        None => wants_terminal && signals::is_watched(),
    }
}

/// Waits a moment for a report.
async fn told(report: JoinHandle<()>) {
    for _ in 0..100 {
        if report.is_finished() {
            return;
        }
        sleep(Duration::from_millis(5)).await;
    }
}

impl Guarding<'_> {
    /// Runs the program to its end.
    ///
    /// # Errors
    ///
    /// Those of the system that starts programs and writes files.
    pub(super) async fn run(mut self, command: &[OsString]) -> io::Result<Ended> {
        let mut file = LeaseFile::new(self.lease.remaining())?;
        if !self.has_full_lease().await {
            tell(&format!("the lease on {} was lost before the program began", self.key));
            return Ok(Ended::Lost);
        }
        let mut child = Child::spawn(command, &self.environment(&file))?;
        let mut foreground = Foreground::of_dlock();
        give(foreground.as_ref(), &child);
        let mut is_watched = true;
        loop {
            let news = self.next(&mut child, foreground.as_ref(), is_watched).await;
            let news = match news {
                Ok(News::Exited(status)) if self.may_exit() => {
                    return Ok(Ended::Exited(status, self.is_asked));
                }
                Ok(news) => news,
                Err(error) => {
                    // Without a watch, the program must not go on.
                    child.end(Duration::ZERO).await;
                    return Err(error);
                }
            };
            let left = self.lease.remaining();
            if is_watched {
                file.renew(left);
            }
            if is_watched && self.is_over() {
                let report = self.report();
                if self.on_lost == OnLost::Kill {
                    child.end(self.limits.until_kill(left)).await;
                    told(report).await;
                    return Ok(Ended::Lost);
                }
                is_watched = false;
            }
            if let News::WasStopped = news {
                resume(&mut foreground, &child);
            }
        }
    }

    /// Whether the lease is long enough to begin. That of a grant to a waiter is short until its first renewal.
    async fn has_full_lease(&self) -> bool {
        let is_short = self.limits.is_due(self.lease.remaining());
        !is_short || self.lease.extend(self.ttl).await.is_ok()
    }

    /// Waits for news: of the program, of a signal, or of the lease.
    async fn next(
        &mut self,
        child: &mut Child,
        foreground: Option<&Foreground>,
        is_watched: bool,
    ) -> io::Result<News> {
        let look = sleep(self.limits.next_look(self.lease.remaining()));
        // Whether the other processes of the job have to be stopped, too.
        let mut is_whole = foreground.is_some();
        let was_stopped = tokio::select! {
            status = child.wait() => return Ok(News::Exited(status?)),
            signal = self.signals.next() => match signal {
                Signal::CHILD => {
                    is_whole = true;
                    stops_job(foreground, child)
                }
                Signal::TSTP | Signal::TTIN => true,
                end if signals::is_end(end) => {
                    self.is_asked = true;
                    child.signal_stopped(end);
                    false
                }
                other => {
                    child.signal(other);
                    false
                }
            },
            _ = self.lease.lost(), if is_watched => false,
            () = look, if is_watched => false,
        };
        if !was_stopped {
            return Ok(News::Lease);
        }
        // Without `dlock`, nothing would end the program in time: they stop together.
        child.signal(Signal::STOP);
        if let Some(foreground) = foreground {
            foreground.take_back();
        }
        if is_whole {
            signals::stop_job()
        } else {
            signals::stop()
        }
        Ok(News::WasStopped)
    }

    /// Whether to act: in time to end the program, or else when the lease is lost.
    fn is_over(&self) -> bool {
        match self.on_lost {
            OnLost::Kill => !self.lease.is_valid() || self.limits.is_due(self.lease.remaining()),
            OnLost::Warn => !self.lease.is_valid(),
        }
    }

    /// Whether a program that has ended did so under its lease.
    fn may_exit(&self) -> bool {
        self.on_lost == OnLost::Warn || self.lease.is_valid()
    }

    /// Says what happens. Standard error may take no more text, and that must not delay the end of the program.
    fn report(&self) -> JoinHandle<()> {
        let name = self.key;
        let what = match self.lease.check() {
            Err(lost) => format!("the lease on {name} is lost ({})", lost.reason()),
            Ok(()) => format!(
                "the lease on {name} ends in {:.1?}, and cannot be renewed",
                self.lease.remaining()
            ),
        };
        let then = match self.on_lost {
            OnLost::Kill => "the program is ended",
            OnLost::Warn => "the program goes on without the lock",
        };
        let line = format!("{what}: {then}");
        thread::spawn(move || tell(&line))
    }

    fn environment(&self, file: &LeaseFile) -> [(&'static str, OsString); 4] {
        let name = String::from_utf8_lossy(self.key.as_bytes()).into_owned();
        [
            ("LOCK_NAME", name.into()),
            ("LOCK_TOKEN", self.lease.fencing_token().to_string().into()),
            ("LOCK_DEADLINE_MS", deadline(self.lease.remaining()).to_string().into()),
            ("LOCK_FILE", file.path().into()),
        ]
    }
}
