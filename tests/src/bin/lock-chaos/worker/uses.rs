//! The resources of the process.

use std::fs;

use lock_tests::chaos::history::Deed;

/// The present use, with this many tasks on the runtime. Zero where the system does not say.
pub(crate) fn uses(tasks: usize) -> Deed {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    Deed::Uses {
        // One of the files is the folder that is being read.
        files: entries("/proc/self/fd").saturating_sub(1),
        threads: entries("/proc/self/task"),
        tasks: tasks as u64,
        memory: memory(&status).unwrap_or(0),
    }
}

fn entries(folder: &str) -> u64 {
    fs::read_dir(folder).map_or(0, |entries| entries.count() as u64)
}

/// The resident memory, in kibibytes.
fn memory(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read() {
        assert_eq!(memory("Name:\tx\nVmHWM:\t  9 kB\nVmRSS:\t   1234 kB\n"), Some(1234));
        assert_eq!(memory("Name:\tx\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_open_file_is_counted() {
        // More than other tests of this process open at the same time.
        let many: Vec<_> = (0..100).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        let Deed::Uses { files, threads, tasks, memory } = uses(3) else {
            panic!("of another kind")
        };
        assert!(files >= 100 && threads > 0 && tasks == 3 && memory > 0);
        drop(many);
        let Deed::Uses { files: fewer, .. } = uses(3) else { panic!("of another kind") };
        assert!(fewer < files - 50);
    }
}
