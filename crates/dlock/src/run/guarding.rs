//! A program under a lease: signals go on to it, and it ends before the lease does.

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
use super::stage::{Stage, Variable};
use crate::tell::tell;

/// How a program under a lease has ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// The program has ended by itself or by a signal. The field says whether the user has asked
    /// `dlock` for the end.
    Exited(ExitStatus, bool),
    /// The lease was lost or about to end, and `dlock` has ended the program. The field is as above.
    Lost(bool),
}

/// Why to look at the lease.
enum News {
    Exited(ExitStatus),
    /// The program was stopped. It goes on if it still has its lease.
    WasStopped,
    Lease,
}

/// The lease under which a program runs, and the limits of its end.
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

/// Continues a stopped program. The shell may have brought the job to the foreground.
fn resume(foreground: &mut Option<Foreground>, child: &Child) {
    if foreground.is_none() {
        *foreground = Foreground::of_dlock();
    }
    give(foreground.as_ref(), child);
    child.signal(Signal::CONT);
}

/// Whether the job has to stop together with a stopped program. Continues a program that was stopped because it did not
/// have the terminal yet, and no other program: that would undo the key that stopped it.
fn stops_job(foreground: &mut Option<Foreground>, child: &Child) -> bool {
    let Some(stop) = child.stopped_by() else { return false };
    let wants_terminal = matches!(stop, Signal::TTIN | Signal::TTOU);
    if wants_terminal && foreground.is_none() {
        // The program itself asks for the terminal, so it comes before the other programs of a pipe. Or the shell has
        // brought the job to the foreground since.
        *foreground = Foreground::of_job();
        give(foreground.as_ref(), child);
    }
    match foreground {
        Some(foreground)
            if wants_terminal && child.group().is_some_and(|it| foreground.has(it)) =>
        {
            child.signal(Signal::CONT);
            false
        }
        // A key at the terminal of `dlock` has stopped the program, so the job stops.
        Some(_) => true,
        // The shell has to bring the job to the foreground.
        None => wants_terminal && signals::is_watched(),
    }
}

/// Waits a moment for a report, if there is one.
async fn told(report: Option<JoinHandle<()>>) {
    let Some(report) = report else { return };
    for _ in 0..400 {
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
    /// The errors of the system when it starts the program or writes the lease file.
    pub(super) async fn run(mut self, stage: Stage) -> io::Result<Ended> {
        let mut file = LeaseFile::new(self.lease.remaining())?;
        if !self.has_full_lease().await {
            tell(format_args!("the lease on {} was lost before the program began", self.key));
            return Ok(Ended::Lost(self.is_asked));
        }
        let mut child = stage.go(&self.environment(&file));
        let mut foreground = Foreground::of_dlock();
        give(foreground.as_ref(), &child);
        let (mut is_watched, mut report) = (true, None);
        loop {
            let news = match self.next(&mut child, &mut foreground, is_watched).await {
                Ok(News::Exited(status)) if self.may_exit() => {
                    told(report).await;
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
                report = self.report();
                if self.on_lost == OnLost::Kill {
                    child.end(self.limits.until_kill(left)).await;
                    told(report).await;
                    return Ok(Ended::Lost(self.is_asked));
                }
                is_watched = false;
            }
            if let News::WasStopped = news {
                resume(&mut foreground, &child);
            }
        }
    }

    /// Makes the lease long enough to begin, and says whether that worked. After a grant to a waiter, the lease is
    /// short until its first renewal.
    async fn has_full_lease(&self) -> bool {
        let is_short = self.limits.is_short(self.lease.remaining());
        !is_short || self.lease.extend(self.ttl).await.is_ok()
    }

    /// Waits for news: of the program, of a signal, or of the lease.
    async fn next(
        &mut self,
        child: &mut Child,
        foreground: &mut Option<Foreground>,
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
        // While `dlock` stands still, nothing ends the program in time. So `dlock` stops the
        // program with itself.
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

    /// Prints what happens. A standard error that takes no more text must not delay the end of the program, nor must a
    /// system that gives no thread: then nothing is printed.
    fn report(&self) -> Option<JoinHandle<()>> {
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
        thread::Builder::new().spawn(move || tell(line)).ok()
    }

    fn environment(&self, file: &LeaseFile) -> [Variable; 4] {
        let name = String::from_utf8_lossy(self.key.as_bytes()).into_owned();
        [
            ("LOCK_NAME", name.into()),
            ("LOCK_TOKEN", self.lease.fencing_token().to_string().into()),
            ("LOCK_DEADLINE_MS", deadline(self.lease.remaining()).to_string().into()),
            ("LOCK_FILE", file.path().into()),
        ]
    }
}
