//! A question of a few words, and an answer that makes no sense.

use lock_core::{Error, ErrorKind};

use crate::link::Live;
use crate::wire::{Command, Failure, Reply};

/// Sends a command of a few words.
pub(super) async fn ask(live: &Live, words: &[&str]) -> Result<Reply, Error> {
    live.call(&Command::words(words)).await.map_err(Failure::into_error)
}

pub(super) fn nonsense(command: &str) -> Error {
    Error::new(ErrorKind::Protocol, format!("{command} was answered with nonsense"))
}
