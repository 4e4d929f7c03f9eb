//! Signals to processes that the kit started.

use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::eventually;

/// How long a signal may take to show its effect on a loaded machine.
const LIMIT: Duration = Duration::from_secs(10);

/// Stops a process, and returns once it stands still or has ended.
///
/// # Panics
///
/// If there is no such process.
#[track_caller]
pub fn stop(pid: u32) {
    signal(pid, Signal::STOP);
    // A process that has ended meanwhile does not stop.
    eventually("the process has stopped", LIMIT, || is_stopped(pid) || !is_alive(pid));
}

/// Processes that stand still until this is dropped. So they go on if a test fails, and a server of several tests does
/// too.
#[must_use]
#[derive(Debug)]
pub struct Standstill(Vec<u32>);

impl Standstill {
    /// Stops these processes, and returns once they stand still.
    ///
    /// # Panics
    ///
    /// If there is no such process, or if one of them ends.
    #[track_caller]
    pub fn of(pids: &[u32]) -> Self {
        let stopped = Self(pids.to_vec());
        pids.iter().copied().for_each(stop);
        assert!(pids.iter().all(|pid| is_stopped(*pid)), "a process has ended: {pids:?}");
        stopped
    }
}

impl Drop for Standstill {
    fn drop(&mut self) {
        for &pid in &self.0 {
            // The process may be gone.
            _ = kill_process(raw(pid), Signal::CONT);
        }
    }
}

/// Lets a stopped process continue.
///
/// # Panics
///
/// If there is no such process.
#[track_caller]
pub fn cont(pid: u32) {
    signal(pid, Signal::CONT);
}

/// Kills a process without letting it clean up, and returns once it is dead.
///
/// Its parent still has to reap it. No error if it is dead already.
pub fn kill(pid: u32) {
    if kill_process(raw(pid), Signal::KILL).is_ok() {
        eventually("the process is dead", LIMIT, || !is_alive(pid));
    }
}

/// The processes that this one has started and that are alive.
pub fn children(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(path).unwrap_or_else(|_| {
        let output = std::process::Command::new("pgrep").args(["-P", &pid.to_string()]).output();
        output.map(|it| String::from_utf8_lossy(&it.stdout).into_owned()).unwrap_or_default()
    });
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Whether the process runs or stands still: neither gone, nor dead and waiting to be reaped.
pub fn is_alive(pid: u32) -> bool {
    !matches!(state(pid), None | Some('Z' | 'X'))
}

/// Whether the process stands still.
pub fn is_stopped(pid: u32) -> bool {
    matches!(state(pid), Some('T' | 't'))
}

#[track_caller]
fn signal(pid: u32, signal: Signal) {
    if let Err(error) = kill_process(raw(pid), signal) {
        panic!("cannot send {signal:?} to process {pid}: {error}");
    }
}

fn raw(pid: u32) -> Pid {
    i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .unwrap_or_else(|| panic!("{pid} is no process id"))
}

/// The letter by which the system names the state of a process.
fn state(pid: u32) -> Option<char> {
    if Path::new("/proc/self/stat").exists() {
        // The name before it stands in brackets and may contain anything, brackets too.
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        return stat.rsplit_once(')')?.1.trim_start().chars().next();
    }
    let ps = std::process::Command::new("ps")
        .args(["-o", "state=", "-p", &pid.to_string()])
        .output()
        .ok()?;
    String::from_utf8_lossy(&ps.stdout).trim_start().chars().next()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_stops_goes_on_and_dies() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        assert!(is_alive(pid));
        stop(pid);
        assert!(is_alive(pid) && is_stopped(pid));
        cont(pid);
        eventually("it goes on", LIMIT, || !is_stopped(pid));
        kill(pid);
        assert!(!is_alive(pid));
        child.wait().unwrap();
    }
}
