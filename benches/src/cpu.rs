//! Processor time.

use std::fs;
use std::time::Duration;

use lock_tests::process;
use rustix::time::{ClockId, clock_gettime};

use crate::Failure;

/// The processor time of all threads of this process since it began. It does not include servers.
pub(crate) fn used() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(used.tv_sec).unwrap_or(0), u32::try_from(used.tv_nsec).unwrap_or(0))
}

/// The processor time of another process and of its children, of those threads that live.
///
/// The kernel of Linux counts it in nanoseconds. It updates the count when a thread pauses, and at each tick of its
/// clock.
///
/// # Errors
///
/// If there is no such process, or the kernel does not tell.
pub(crate) fn of_process(pid: u32) -> Result<Duration, Failure> {
    let mut used =
        of_threads(pid).map_err(|error| format!("the time of process {pid}: {error}"))?;
    for child in process::children(pid) {
        // It may have ended since.
        used += of_threads(child).unwrap_or_default();
    }
    Ok(used)
}

fn of_threads(pid: u32) -> std::io::Result<Duration> {
    let mut nanos = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        // It may have ended since.
        let told = fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
        nanos += told.split(' ').next().and_then(|it| it.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_child_that_computes_is_seen() {
        // The child lives until its input ends. The shell would give it an empty input.
        let child = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done; read -r end";
        let loops = format!("exec 3<&0; sh -c '{child}' <&3 & wait");
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", &loops]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let mut out = std::io::BufReader::new(shell.stdout.take().unwrap());
        let before = of_process(shell.id()).unwrap();
        std::io::BufRead::read_line(&mut out, &mut String::new()).unwrap();
        let used = of_process(shell.id()).map(|after| after - before);
        shell.kill().unwrap();
        shell.wait().unwrap();
        assert!(used.unwrap() > Duration::from_millis(5));
        assert!(of_process(u32::MAX).is_err());
    }
}
