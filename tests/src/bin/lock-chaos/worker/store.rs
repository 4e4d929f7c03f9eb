//! The faults of the memory backend, or of a client's connection to it.

use std::time::Duration;

use lock_core::ErrorKind;
use lock_core::memory::{Gate, MemoryBackend};

use super::orders::Mischief;

/// A client's connection to the memory backend.
pub(crate) struct Connection {
    memory: MemoryBackend,
    /// The requests or answers that hang.
    gates: Vec<Gate>,
}

impl Connection {
    pub(crate) fn new(memory: MemoryBackend) -> Self {
        Self { memory, gates: Vec::new() }
    }

    /// Applies the fault at once, whatever the client does.
    pub(crate) fn disturb(&mut self, mischief: Mischief) {
        let faults = self.memory.faults();
        match mischief {
            Mischief::Fail => faults.fail(ErrorKind::Unreachable),
            Mischief::Lose(count) => faults.lose_replies(count),
            Mischief::Hang => self.gates.push(faults.hold_requests()),
            Mischief::HangReplies => self.gates.push(faults.hold_replies()),
            Mischief::Delay(millis) => {
                faults.delay_requests(Duration::from_millis(millis));
                faults.delay_replies(Duration::from_millis(millis));
            }
            Mischief::Cut => faults.cut(),
            Mischief::Mute => faults.mute_hints(true),
            Mischief::Forget => self.memory.forget(),
            Mischief::Restart => self.memory.restart(),
            Mischief::Heal => {
                faults.heal();
                self.gates.clear();
            }
        }
    }
}
