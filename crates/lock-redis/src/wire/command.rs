//! What is sent.

use std::fmt;
use std::io::Write as _;

use redis::{Cmd, RedisWrite as _};

use crate::scripts::Script;

/// A command, written argument by argument into one buffer.
pub(crate) struct Command(pub(super) Cmd);

impl Command {
    /// A command of a few words, for what happens once per connection.
    pub(crate) fn words(words: &[&str]) -> Self {
        let mut command = Self(Cmd::new());
        for word in words {
            command.bytes(word.as_bytes());
        }
        command
    }

    /// A call of a script with so many keys, in a buffer with room for arguments of `room` bytes.
    pub(crate) fn script(script: &Script, keys: u16, room: usize) -> Self {
        const WORDS: usize = 8;
        let mut command = Self(Cmd::with_capacity(WORDS, script.digest().len() + 16 + room));
        command.bytes(b"EVALSHA").bytes(script.digest().as_bytes()).number(keys.into());
        command
    }

    pub(super) fn load(script: &Script) -> Self {
        Self::words(&["SCRIPT", "LOAD", script.body()])
    }

    /// Adds an argument.
    pub(crate) fn bytes(&mut self, argument: &[u8]) -> &mut Self {
        self.0.write_arg(argument);
        self
    }

    /// Adds one argument that comes in two pieces.
    pub(crate) fn pieces(&mut self, [first, second]: [&[u8]; 2]) -> &mut Self {
        let mut argument = self.0.writer_for_next_arg();
        // Writing to memory does not fail.
        let _ = argument.write_all(first);
        let _ = argument.write_all(second);
        drop(argument);
        self
    }

    /// Adds an argument in decimal digits.
    pub(crate) fn number(&mut self, argument: u64) -> &mut Self {
        self.text(argument)
    }

    /// Adds an argument as it is shown.
    pub(crate) fn text(&mut self, argument: impl fmt::Display) -> &mut Self {
        self.0.write_arg_fmt(argument);
        self
    }
}

/// Arguments hold owner tokens, so that only the first word is shown.
impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.0.args_iter().next();
        let name = match first {
            Some(redis::Arg::Simple(name)) => String::from_utf8_lossy(name),
            _ => "".into(),
        };
        f.debug_tuple("Command").field(&name).finish()
    }
}

/// The SHA-1 of a script, by which a server knows it.
pub(crate) fn script_digest(body: &str) -> String {
    redis::Script::new(body).get_hash().to_owned()
}
