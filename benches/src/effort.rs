//! How long to measure.

use std::time::Duration;

/// How much time a benchmark takes, as the command line says.
///
/// | started by | effort |
/// | --- | --- |
/// | `cargo bench` | full |
/// | `cargo bench -- --quick` | about a third of the time |
/// | `cargo test`, or with `--test` | each measurement once and very short, to see that it works |
///
/// It ignores other options: they are criterion's.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Effort {
    /// The name of the effort.
    pub name: &'static str,
    /// How often each contestant has its turn.
    pub rounds: usize,
    /// The length of a turn that measures one pass after another.
    pub sample: Duration,
    /// The length of a turn in which many tasks run at once.
    pub window: Duration,
    /// The length of such a turn for a contestant that makes only some dozens of passes a second.
    pub slow_window: Duration,
    /// For how long a bench watches tasks that only wait.
    pub idle: Duration,
    /// How many of the sizes of a benchmark are measured.
    pub sizes: usize,
}

impl Effort {
    pub(crate) const SMOKE: &'static str = "smoke";

    /// The effort that the command line asks for; `None` if it asks for no measurement at all.
    pub fn from_args() -> Option<Self> {
        let args: Vec<String> = std::env::args().skip(1).collect();
        let has = |option: &str| args.iter().any(|arg| arg == option);
        if has("--list") {
            return None;
        }
        Some(if has("--test") || !has("--bench") {
            Self::smoke()
        } else if has("--quick") {
            Self::quick()
        } else {
            Self::full()
        })
    }

    pub(crate) fn full() -> Self {
        Self {
            name: "full",
            rounds: 9,
            sample: Duration::from_millis(50),
            window: Duration::from_millis(300),
            slow_window: Duration::from_millis(600),
            idle: Duration::from_secs(10),
            sizes: usize::MAX,
        }
    }

    fn quick() -> Self {
        Self {
            name: "quick",
            rounds: 5,
            sample: Duration::from_millis(25),
            window: Duration::from_millis(150),
            slow_window: Duration::from_millis(250),
            idle: Duration::from_secs(10),
            sizes: usize::MAX,
        }
    }

    fn smoke() -> Self {
        Self {
            name: Self::SMOKE,
            rounds: 1,
            sample: Duration::from_millis(1),
            window: Duration::from_millis(20),
            slow_window: Duration::from_millis(20),
            idle: Duration::from_millis(50),
            sizes: 1,
        }
    }
}
