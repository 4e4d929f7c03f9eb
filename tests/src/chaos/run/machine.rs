//! The lateness of the machine: a time limit proves nothing when the machine is late.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::super::history::{Deed, Recorder};
use super::super::stage::Stage;

/// Its name in the history.
const MACHINE: &str = "machine";

/// How often the lateness is read.
const LOOK: Duration = Duration::from_millis(50);

/// The least wait between two reads that is recorded.
const LATE: Duration = Duration::from_millis(25);

/// Runs a function, and meanwhile reads how long servers and workers have to wait for a processor, and writes
/// that to the history.
///
/// Linux reports it for each thread: the second number of its `schedstat`, in nanoseconds. A stopped thread
/// does not wait. If the machine itself gets no time, a sleep takes too long.
pub(super) fn watched<T>(stage: &Stage, folder: &Path, act: impl FnOnce() -> T) -> io::Result<T> {
    let recorder = Recorder::open(folder, MACHINE)?;
    // Its end ends the watch, also after a panic.
    let (going_on, over) = mpsc::channel::<()>();
    let over = Mutex::new(over);
    Ok(thread::scope(|scope| {
        scope.spawn(|| {
            let over = over.lock().unwrap_or_else(PoisonError::into_inner);
            let mut waited = Waited::default();
            loop {
                let begin = Instant::now();
                match over.recv_timeout(LOOK) {
                    Err(RecvTimeoutError::Timeout) => {}
                    _ => return,
                }
                let own = begin.elapsed().saturating_sub(LOOK);
                let late = own.max(waited.look(&stage.processes()));
                if late > LATE {
                    let millis = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
                    recorder.record(&Deed::Late { millis });
                }
            }
        });
        let _going_on = going_on;
        act()
    }))
}

/// How long each thread has waited so far: by its process and its own number.
#[derive(Debug, Default)]
struct Waited(HashMap<(u32, OsString), Thread>);

impl Waited {
    /// The longest wait of any thread of these processes since the last read.
    fn look(&mut self, processes: &[u32]) -> Duration {
        let own = std::process::id();
        let mut before = std::mem::take(&mut self.0);
        let mut longest = Duration::ZERO;
        for &process in processes.iter().chain([&own]) {
            for number in threads(process) {
                let name = (process, number);
                let is_meant = |comm: &str| process != own || carries(comm);
                let thread = match before.remove(&name) {
                    None => Thread::named(&name, is_meant, Thread::Unknown),
                    Some(Thread::Unknown) => Thread::named(&name, is_meant, Thread::Other),
                    Some(thread) => thread.looked_at(&mut longest),
                };
                self.0.extend(thread.map(|thread| (name, thread)));
            }
        }
        longest
    }
}

/// A thread that was there at the last read.
#[derive(Debug)]
enum Thread {
    /// It may be about to take its name.
    Unknown,
    /// No worker waits for it.
    Other,
    /// Its `schedstat`, which stays open because to open it takes most of the time of a read, and how long it has
    /// waited.
    Meant(File, Duration),
}

impl Thread {
    /// A thread whose name is not meant is an `other`. None if the thread is gone, or the system does not say how long
    /// it has waited.
    fn named(
        (process, number): &(u32, OsString),
        is_meant: impl Fn(&str) -> bool,
        other: Self,
    ) -> Option<Self> {
        let folder = Path::new("/proc").join(process.to_string()).join("task").join(number);
        let comm = fs::read_to_string(folder.join("comm")).ok()?;
        if !is_meant(comm.trim_end()) {
            return Some(other);
        }
        let file = File::open(folder.join("schedstat")).ok()?;
        let waited = read(&file)?;
        Some(Self::Meant(file, waited))
    }

    /// Makes `longest` the wait since the last read, if that is longer.
    fn looked_at(self, longest: &mut Duration) -> Option<Self> {
        let Self::Meant(file, before) = self else { return Some(self) };
        let now = read(&file)?;
        *longest = (*longest).max(now.saturating_sub(before));
        Some(Self::Meant(file, now))
    }
}

/// Whether workers wait for this thread of the harness: a proxy, or the resource.
fn carries(name: &str) -> bool {
    name.starts_with("proxy") || name.starts_with("resource")
}

/// The numbers of the threads of a process. None if the process is gone, or the system does not say.
fn threads(process: u32) -> Vec<OsString> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    tasks.filter_map(Result::ok).map(|task| task.file_name()).collect()
}

fn read(schedstat: &File) -> Option<Duration> {
    let mut bytes = [0; 64];
    let length = schedstat.read_at(&mut bytes, 0).ok()?;
    waited(std::str::from_utf8(&bytes[..length]).ok()?)
}

/// The time on a processor, the time of waiting for one, and how often: this is the second.
fn waited(schedstat: &str) -> Option<Duration> {
    let nanos = schedstat.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn the_time_of_waiting_is_read() {
        assert_eq!(waited("175727808 24233712 344\n"), Some(Duration::from_nanos(24_233_712)));
        assert_eq!(waited("0\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_that_shares_a_processor_waits_and_a_new_thread_does_not() {
        let cores = thread::available_parallelism().unwrap().get();
        let mut waited = Waited::default();
        assert_eq!(waited.look(&[]), Duration::ZERO);
        let deadline = Instant::now() + Duration::from_secs(20);
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..3 * cores {
                let name = thread::Builder::new().name("proxy to nowhere".to_owned());
                let work = || {
                    while !over.load(Ordering::Relaxed) {
                        std::hint::spin_loop()
                    }
                };
                name.spawn_scoped(scope, work).unwrap();
            }
            while waited.look(&[]) < LATE && Instant::now() < deadline {
                thread::sleep(LOOK);
            }
            over.store(true, Ordering::Relaxed);
        });
        assert!(Instant::now() < deadline, "no thread waited");
    }
}
