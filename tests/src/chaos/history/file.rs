//! The files of a history.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use lock_core::{Clock, Instant};

use super::{Deed, Event};

/// The end of the files' names. The beginning is the name of the client.
const EXTENSION: &str = "events";

/// Appends the events of one client to its file.
///
/// Recorded events survive a kill of the process: each event is one unbuffered write.
#[derive(Debug)]
pub struct Recorder {
    file: File,
    clock: Clock,
}

impl Recorder {
    /// For the client of this name, in the folder of the history. An existing file is continued.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened.
    pub fn open(folder: &Path, client: &str) -> io::Result<Self> {
        let path = folder.join(format!("{client}.{EXTENSION}"));
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self { file, clock: Clock::boot() })
    }

    /// The clock that stamps events.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Records an event at the present time.
    ///
    /// # Panics
    ///
    /// If it cannot be written: later events would prove nothing.
    pub fn record(&self, deed: &Deed) {
        self.record_at(self.now(), deed);
    }

    /// Records an event at a time that was read before.
    ///
    /// # Panics
    ///
    /// As [`record`](Self::record).
    pub fn record_at(&self, at: Instant, deed: &Deed) {
        let line = format!("{} {deed}\n", at.as_nanos());
        if let Err(error) = (&self.file).write_all(line.as_bytes()) {
            panic!("the history cannot be written: {error}");
        }
    }
}

/// All events of all clients in a folder, in the order of their times. Events of one client with equal times
/// stay in the order in which they were written.
///
/// The last line of a file is left out if it is not complete: its client was killed.
///
/// # Errors
///
/// If a file cannot be read, or has a line that is no event.
pub fn read(folder: &Path) -> io::Result<Vec<Event>> {
    let mut events = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) {
            let client = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let text = fs::read_to_string(&path)?;
            for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
                let event = parse(line.trim_end(), &client).ok_or_else(|| {
                    let what = format!("{}: no event: {line}", path.display());
                    io::Error::new(io::ErrorKind::InvalidData, what)
                })?;
                events.push(event);
            }
        }
    }
    events.sort_by_key(|event| event.at);
    Ok(events)
}

fn parse(line: &str, client: &str) -> Option<Event> {
    let (at, deed) = line.split_once(' ')?;
    let at = Instant::from_nanos(at.parse().ok()?);
    Some(Event { at, client: client.to_owned(), deed: deed.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_merged_by_time_and_half_a_line_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let at = |nanos| Instant::from_nanos(nanos);
        let late = |millis| Deed::Late { millis };
        // Of several clients in one process.
        for (client, times) in [("a.0", [1, 4, 4]), ("a.1", [2, 3, 5])] {
            let recorder = Recorder::open(folder.path(), client).unwrap();
            for (number, time) in times.into_iter().enumerate() {
                recorder.record_at(at(time), &late(number as u64));
            }
        }
        fs::write(folder.path().join("redis.log"), "not an event").unwrap();
        Recorder::open(folder.path(), "a.1").unwrap().file.write_all(b"9 lat").unwrap();
        let events = read(folder.path()).unwrap();
        let seen: Vec<_> = events
            .iter()
            .map(|event| (event.at.as_nanos(), event.client.clone(), event.deed.clone()))
            .collect();
        let expected =
            [(1, "0", 0), (2, "1", 0), (3, "1", 1), (4, "0", 1), (4, "0", 2), (5, "1", 2)];
        let name = |number: &str| format!("a.{number}");
        let expected = expected.map(|(at, client, number)| (at, name(client), late(number)));
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_line_that_is_no_event_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.events"), "1 late 1\n2 lat\n").unwrap();
        let error = read(folder.path()).unwrap_err();
        assert!(error.to_string().contains("no event: 2 lat"), "{error}");
    }
}
