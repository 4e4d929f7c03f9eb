//! The signals that concern the program.

use std::io::{self, Read};

use futures::stream::{FuturesUnordered, StreamExt};
use nix::unistd::{getppid, getsid};
use rustix::process::{Signal, getpid, kill_current_process_group, kill_process};
use tokio::signal::unix::{Signal as Listener, SignalKind, signal};

/// The signals that go on to the program, the signal by which a terminal stops a job, and the signal that reports stops
/// of the program.
const ALL: [Signal; 11] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
    Signal::ALARM,
    Signal::WINCH,
    Signal::TSTP,
    Signal::TTIN,
    Signal::CHILD,
];

/// Listens to these signals from its construction on.
pub(super) struct Signals(Vec<(Signal, Listener)>);

impl Signals {
    /// If the parent of `dlock` ignores a signal, as `nohup` does, `dlock` and the program ignore it as well.
    pub(super) fn new() -> io::Result<Self> {
        let ignored = ignored();
        let heard = ALL
            .into_iter()
            .filter(|it| *it == Signal::CHILD || ignored & (1 << (it.as_raw() - 1)) == 0);
        let listen =
            |it: Signal| Ok::<_, io::Error>((it, signal(SignalKind::from_raw(it.as_raw()))?));
        heard.map(listen).collect::<Result<_, _>>().map(Self)
    }

    /// The next signal.
    pub(super) async fn next(&mut self) -> Signal {
        let all = self.0.iter_mut().map(|(signal, listener)| async {
            listener.recv().await;
            *signal
        });
        let mut all: FuturesUnordered<_> = all.collect();
        match all.next().await {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    }

    /// The next signal that ends a wait for a lock. All other signals are for the program, which does not run yet.
    pub(super) async fn next_end(&mut self) -> Signal {
        loop {
            match self.next().await {
                Signal::TSTP | Signal::TTIN => stop(),
                end if is_end(end) => return end,
                _ => {}
            }
        }
    }
}

/// Whether the signal asks a program to end.
pub(super) fn is_end(signal: Signal) -> bool {
    matches!(signal, Signal::HUP | Signal::INT | Signal::QUIT | Signal::TERM)
}

/// Stops this process, as the terminal asked. Returns when the process goes on.
pub(super) fn stop() {
    _ = kill_process(getpid(), Signal::STOP);
}

/// Stops the whole job of this process, as the terminal has stopped the group of the program. Returns when the job goes
/// on. If no shell watches the job, nothing would continue it: this process then does not stop.
pub(super) fn stop_job() {
    if is_watched() {
        _ = kill_current_process_group(Signal::STOP);
    }
}

/// Whether a shell of this session watches the job.
pub(super) fn is_watched() -> bool {
    // In a container, the kernel has no number for a session that began outside. It answers 0, which `rustix` takes for
    // a fault.
    getsid(Some(getppid())) == getsid(None)
}

/// The signals that this process ignores, as bits. Zero where the system does not say.
fn ignored() -> u64 {
    // With room for the whole text, one read takes it.
    let mut status = String::with_capacity(8192);
    let file = std::fs::File::open("/proc/self/status");
    _ = file.and_then(|mut file| file.read_to_string(&mut status));
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
