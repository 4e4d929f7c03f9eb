//! The outcome of many tasks.

use std::time::Duration;

use serde_json::{Value, json};

use crate::Failure;

/// The outcome of a crowd within its window.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Window {
    /// The real length of the window.
    pub elapsed: Duration,
    /// How often each task held its lock.
    pub passes: Vec<u64>,
    /// How often a lock went from one task to another, if it is exclusive.
    pub handovers: u64,
    /// The waits of all tasks; with readers and writers, those of the writers. A wait that goes on at the end counts
    /// with its length so far.
    pub waits: Vec<Duration>,
    /// The processor time of this process.
    pub cpu: Duration,
    /// The processor time of all servers together.
    pub server: Duration,
    /// How many commands the servers received over the network.
    pub commands: u64,
    /// How many updates of a counter were lost from beginning to end: none if the lock is correct.
    pub lost: u64,
    /// How often a task found another task inside that the lock must keep out: never if the lock is correct.
    pub intrusions: u64,
}

impl Window {
    /// How often a lock was held.
    pub fn total(&self) -> u64 {
        self.passes.iter().sum()
    }

    /// Encodes it for another process, without the waits.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "elapsed": nanos(self.elapsed),
            "passes": self.passes,
            "handovers": self.handovers,
            "cpu": nanos(self.cpu),
            "server": nanos(self.server),
            "commands": self.commands,
            "lost": self.lost,
            "intrusions": self.intrusions,
        })
    }

    /// Decodes it from another process.
    pub(crate) fn from_json(window: &Value) -> Result<Self, Failure> {
        let number = |name: &str| number(window, name);
        let time = |name: &str| number(name).map(Duration::from_nanos);
        let passes = window["passes"].as_array().ok_or("a window without passes")?;
        Ok(Self {
            elapsed: time("elapsed")?,
            passes: passes.iter().filter_map(Value::as_u64).collect(),
            handovers: number("handovers")?,
            waits: Vec::new(),
            cpu: time("cpu")?,
            server: time("server")?,
            commands: number("commands")?,
            lost: number("lost")?,
            intrusions: number("intrusions")?,
        })
    }
}

/// A time, encoded for another process.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A number from another process.
pub(crate) fn number(message: &Value, name: &str) -> Result<u64, Failure> {
    message[name].as_u64().ok_or_else(|| format!("a message without {name}: {message}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_travels() {
        let window = Window {
            elapsed: Duration::from_nanos(1),
            passes: vec![2, 3],
            cpu: Duration::from_nanos(4),
            server: Duration::from_nanos(5),
            commands: 6,
            ..Window::default()
        };
        let there = Window::from_json(&window.to_json()).unwrap();
        assert_eq!(format!("{there:?}"), format!("{window:?}"));
        assert!(Window::from_json(&json!({ "passes": [] })).is_err());
    }
}
