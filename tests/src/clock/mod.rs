//! Clocks of servers that can be set.
//!
//! The server runs with a small library that changes the time that it reads. `cc` compiles that library from
//! C. It exists wherever Rust uses it as its linker, as on Linux by default. Elsewhere the kit changes the
//! times that a server computes from its clock: the ends of its keys.

mod face;
mod shim;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::face::Face;
use crate::clock::shim::Shim;
use crate::{RedisServer, RedisServerBuilder};

/// The clock of one server: first true, then as set.
///
/// # Examples
///
/// ```
/// use lock_tests::{RedisServer, SOON, ServerClock, eventually};
///
/// let clock = ServerClock::new();
/// let server = clock.options(RedisServer::builder()).start();
/// server.cli(&["SET", "k", "v", "PX", "60000"]);
/// clock.jump(&server, 3_600_000);
/// eventually("the server has looked at its clock", SOON, || clock.is_told_by(&server));
/// assert!(server.cli(&["GET", "k"]).is_nil());
/// ```
#[derive(Debug)]
pub struct ServerClock {
    /// `None` if there is no library to change the time.
    moved: Option<Moved>,
}

#[derive(Debug)]
struct Moved {
    path: PathBuf,
    face: Mutex<Face>,
    shim: Arc<Shim>,
}

impl ServerClock {
    /// A clock that shows the true time.
    ///
    /// # Panics
    ///
    /// If its files cannot be written.
    pub fn new() -> Self {
        Self { moved: Shim::get().map(Moved::new) }
    }

    /// Whether the time of the server is changed, and not only the ends of its keys.
    pub fn is_real(&self) -> bool {
        self.moved.is_some()
    }

    /// Makes a server use this clock.
    pub fn options(&self, server: RedisServerBuilder) -> RedisServerBuilder {
        match &self.moved {
            Some(moved) => server
                .env("CLOCK_FACE", moved.path.display().to_string())
                .env("LD_PRELOAD", moved.shim.object().display().to_string()),
            None => server,
        }
    }

    /// Sets the clock forward by this many milliseconds, or back. The server may be down, if the clock [is
    /// real](Self::is_real). Valkey 9.1 reads the time once in a millisecond, so it may take a moment until a
    /// running server [gives](Self::is_told_by) the new time.
    ///
    /// # Panics
    ///
    /// If the clock cannot be set, or the server does not answer and must.
    #[track_caller]
    pub fn jump(&self, server: &RedisServer, millis: i64) {
        match &self.moved {
            Some(moved) => moved.face().jump(millis * 1_000),
            None => move_ends(server, millis),
        }
    }

    /// Whether a running server gives the time of this clock.
    ///
    /// # Panics
    ///
    /// If the server does not answer.
    #[track_caller]
    pub fn is_told_by(&self, server: &RedisServer) -> bool {
        /// How far a server may be behind, in microseconds.
        const OLD: i64 = 1_100;
        let (begin, ahead) = (now(), self.ahead());
        let told = server.cli(&["TIME"]);
        let part = |index: usize| told.array()[index].text().parse::<i64>().unwrap_or_default();
        let time = part(0) * 1_000_000 + part(1);
        (begin + ahead - OLD..=now() + self.ahead() + OLD).contains(&time)
    }

    /// Makes the clock gain this many microseconds each second from now on, or lose them. With zero it keeps
    /// its gain, and runs at the true rate.
    ///
    /// A clock that is not [real](Self::is_real) does not change: [`jump`](Self::jump) over and over instead.
    ///
    /// # Panics
    ///
    /// If the clock cannot be set.
    pub fn set_rate(&self, per_million: i64) {
        if let Some(moved) = &self.moved {
            moved.face().set_rate(per_million);
        }
    }

    /// How far it is ahead of the true time, in microseconds. Zero for a clock that is not
    /// [real](Self::is_real).
    pub fn ahead(&self) -> i64 {
        self.moved.as_ref().map_or(0, |moved| moved.face().ahead())
    }
}

impl Default for ServerClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Moved {
    fn new(shim: Arc<Shim>) -> Self {
        let path = shim.face();
        Self { face: Mutex::new(Face::new(&path)), path, shim }
    }

    fn face(&self) -> MutexGuard<'_, Face> {
        self.face.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shortens the lives of all keys with an end by this time, or prolongs them if negative.
#[track_caller]
fn move_ends(server: &RedisServer, millis: i64) {
    for key in server.keys("*") {
        let left = server.cli(&["PTTL", &key]).int();
        if left > 0 {
            server.cli(&["PEXPIRE", &key, &(left - millis).to_string()]);
        }
    }
}

/// The true time of day.
fn now() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap_or(Duration::ZERO).as_micros() as i64
}
