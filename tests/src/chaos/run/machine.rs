//! The lateness of the machine: a time limit proves nothing when the machine is late.

use std::collections::HashMap;
use std::fs;
use std::io;
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
struct Waited(HashMap<(u32, String), Duration>);

impl Waited {
    /// The longest wait of any thread of these processes since the last read.
    fn look(&mut self, processes: &[u32]) -> Duration {
        let mut now = HashMap::new();
        let mut longest = Duration::ZERO;
        let own = std::process::id();
        for &process in processes.iter().chain([&own]) {
            for (thread, waited) in threads(process, |name| process != own || carries(name)) {
                let name = (process, thread);
                if let Some(before) = self.0.get(&name) {
                    longest = longest.max(waited.saturating_sub(*before));
                }
                now.insert(name, waited);
            }
        }
        self.0 = now;
        longest
    }
}

/// Whether workers wait for this thread of the harness: a proxy, or the resource.
fn carries(name: &str) -> bool {
    name.starts_with("proxy") || name.starts_with("resource")
}

/// The threads of a process with such names, and how long each has waited for a processor. None if the process
/// is gone, or the system does not say.
fn threads(process: u32, is_meant: impl Fn(&str) -> bool) -> Vec<(String, Duration)> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    let waited = |task: fs::DirEntry| {
        let name = fs::read_to_string(task.path().join("comm")).ok()?;
        if !is_meant(name.trim_end()) {
            return None;
        }
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        Some((task.file_name().to_string_lossy().into_owned(), waited(&text)?))
    };
    tasks.filter_map(Result::ok).filter_map(waited).collect()
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
