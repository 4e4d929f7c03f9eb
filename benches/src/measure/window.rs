//! What many tasks did.

use std::time::Duration;

use serde_json::{Value, json};

use crate::Failure;

/// What a crowd did within its window.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Window {
    /// How long it was in the end.
    pub elapsed: Duration,
    /// How often each task held its lock.
    pub passes: Vec<u64>,
    /// How often a lock went from one task to another, if one alone can have it.
    pub handovers: u64,
    /// How long they waited for that; among readers and writers, how long the writers did. Who still
    /// waits at the end counts with what it has waited.
    pub waits: Vec<Duration>,
    /// What this process has computed.
    pub cpu: Duration,
    /// What the servers have computed, all together.
    pub server: Duration,
    /// How many commands came to the servers over the network.
    pub commands: u64,
    /// How many updates of a counter were lost from beginning to end: none if the lock locks.
    pub lost: u64,
    /// How often a task found another task inside that the lock must keep out: never if the lock locks.
    pub intrusions: u64,
}

impl Window {
    /// How often a lock was held.
    pub fn total(&self) -> u64 {
        self.passes.iter().sum()
    }

    /// For another process. The waits do not travel.
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

    /// From another process.
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

/// A time as it travels between processes.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A number that has travelled.
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
