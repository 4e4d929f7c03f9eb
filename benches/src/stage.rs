//! The runtime on which the measured code runs.

use std::fmt;
use std::io;

use tokio::runtime::{Builder, Runtime};

use crate::Failure;

/// Which thread polls the measured future, and which thread polls the connection.
///
/// The setting decides about half of the cost of a round trip, because waking another thread takes as long as a
/// command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums)]
pub enum Setting {
    /// On the main thread, in `block_on` of a runtime with several threads. The connection lives on one of these
    /// threads.
    BlockOn,
    /// In a task of a runtime with several threads, as in most servers.
    Spawned,
    /// On the only thread of a runtime.
    CurrentThread,
}

impl Setting {
    /// All settings.
    pub const ALL: [Self; 3] = [Self::BlockOn, Self::Spawned, Self::CurrentThread];

    /// The name of the setting in the names of files.
    pub fn name(self) -> &'static str {
        match self {
            Self::BlockOn => "block_on",
            Self::Spawned => "spawned",
            Self::CurrentThread => "current_thread",
        }
    }

    /// The setting of this [name](Self::name).
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|setting| setting.name() == name)
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BlockOn => "multi-thread runtime, in block_on",
            Self::Spawned => "multi-thread runtime, in a spawned task",
            Self::CurrentThread => "current-thread runtime",
        })
    }
}

/// A runtime, and the way to run futures on it.
#[derive(Debug)]
pub struct Stage {
    runtime: Runtime,
    setting: Setting,
}

impl Stage {
    /// A runtime for this setting, with as many threads as tokio gives it.
    ///
    /// # Errors
    ///
    /// If the system gives no threads.
    pub fn new(setting: Setting) -> io::Result<Self> {
        let mut builder = match setting {
            Setting::BlockOn | Setting::Spawned => Builder::new_multi_thread(),
            Setting::CurrentThread => Builder::new_current_thread(),
        };
        Ok(Self { runtime: builder.enable_all().build()?, setting })
    }

    /// Runs a future to its end.
    ///
    /// # Errors
    ///
    /// Those of the future; and if it panicked in a task.
    pub fn run<T, F>(&self, future: F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>> + Send + 'static,
        T: Send + 'static,
    {
        match self.setting {
            Setting::BlockOn | Setting::CurrentThread => self.runtime.block_on(future),
            Setting::Spawned => {
                let task = self.runtime.spawn(future);
                self.runtime.block_on(task)?
            }
        }
    }
}
