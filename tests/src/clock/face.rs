//! The setting of a clock: a file that the server's library reads whenever the server asks for the
//! time.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::now;

/// The setting. The file contains these three numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Setting {
    since: i64,
    ahead: i64,
    rate: i64,
}

#[derive(Debug)]
pub(super) struct Face {
    file: File,
    which: i64,
    setting: Setting,
}

impl Face {
    /// Shows the true time.
    pub(super) fn new(path: &Path) -> Self {
        let made = File::create(path).and_then(|file| {
            // As long as the library assumes.
            file.set_len((size_of::<i64>() + 2 * size_of::<Setting>()) as u64)?;
            Ok(file)
        });
        let file = made.unwrap_or_else(|error| panic!("no clock at {}: {error}", path.display()));
        let mut face = Self { file, which: 0, setting: Setting::default() };
        face.set(Setting::default());
        face
    }

    pub(super) fn jump(&mut self, micros: i64) {
        self.set(self.setting.moved(now(), micros));
    }

    pub(super) fn set_rate(&mut self, per_million: i64) {
        self.set(Setting { rate: per_million, ..self.setting.moved(now(), 0) });
    }

    pub(super) fn ahead(&self) -> i64 {
        self.setting.at(now())
    }

    /// Writes the setting that does not count yet, and then makes it count: the server must not see a
    /// half of it.
    fn set(&mut self, setting: Setting) {
        let which = 1 - self.which;
        let words = [setting.since, setting.ahead, setting.rate].map(i64::to_ne_bytes).concat();
        let begin = size_of::<i64>() + which as usize * size_of::<Setting>();
        let written = self.file.write_all_at(&words, begin as u64);
        let written = written.and_then(|()| self.file.write_all_at(&which.to_ne_bytes(), 0));
        written.unwrap_or_else(|error| panic!("the clock cannot be set: {error}"));
        (self.which, self.setting) = (which, setting);
    }
}

impl Setting {
    /// How far it is ahead at this time.
    fn at(self, now: i64) -> i64 {
        self.ahead + ((now - self.since) as f64 * self.rate as f64 / 1e6) as i64
    }

    /// This setting from now on, without a jump.
    fn moved(self, now: i64, micros: i64) -> Self {
        Self { since: now, ahead: self.at(now) + micros, rate: self.rate }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_gained_stays_when_the_rate_changes() {
        const SECOND: i64 = 1_000_000;
        let fast = Setting { since: 0, ahead: 0, rate: 500_000 };
        assert_eq!(fast.at(4 * SECOND), 2 * SECOND);
        let jumped = fast.moved(4 * SECOND, -3 * SECOND);
        assert_eq!((jumped.at(4 * SECOND), jumped.at(6 * SECOND)), (-SECOND, 0));
        let slow = Setting { rate: -250_000, ..jumped.moved(6 * SECOND, 0) };
        assert_eq!(slow.at(10 * SECOND), -SECOND);
    }
}
