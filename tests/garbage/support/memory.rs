//! The peak memory of this process.

use std::fs;

/// More than is kept of all replies that never end, and less than any length that they announce.
const MOST: u64 = 512 << 20;

/// The peak memory of this process when the watch began.
#[derive(Debug)]
pub(crate) struct Memory(u64);

impl Memory {
    pub(crate) fn watch() -> Self {
        Self(peak())
    }

    /// Fails if the peak has grown by much since.
    #[track_caller]
    pub(crate) fn is_bounded(&self) {
        let more = peak().saturating_sub(self.0);
        assert!(more < MOST, "it took {} MiB", more >> 20);
    }
}

/// The peak in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
}

#[test]
fn what_is_taken_is_seen() {
    let memory = Memory::watch();
    let taken = vec![1_u8; 64 << 20];
    assert!(taken.iter().all(|byte| *byte == 1));
    // Memory that was freed before is used first.
    assert!(peak() >= memory.0 && peak() > 64 << 20);
    memory.is_bounded();
}
