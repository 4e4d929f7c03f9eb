//! Several locks in one step.

use std::collections::HashSet;

use lock_core::{Acquire, Attempt, Error, ErrorKind, Mode};

use crate::hub::Channel;
use crate::keys::Names;
use crate::link::Answer;
use crate::scripts::ACQUIRE_TOGETHER;
use crate::verbs::{granted, remaining, unintelligible};
use crate::wire::{Command, Reply};

/// How many locks one script takes at the most.
const MOST: usize = 64;

/// Whether these requests can be one script.
pub(crate) fn is_possible(requests: &[Acquire]) -> bool {
    let is_simple = |it: &Acquire| it.claim.mode == Mode::Exclusive && it.from.is_none();
    (2..=MOST).contains(&requests.len()) && requests.iter().all(is_simple)
}

/// Refuses requests of which two are for one lock.
///
/// # Errors
///
/// [`ErrorKind::InvalidConfig`].
pub(crate) fn check(names: &[Names<'_>]) -> Result<(), Error> {
    let mut locks = HashSet::with_capacity(names.len());
    if names.iter().all(|names| locks.insert(names.lock())) {
        return Ok(());
    }
    let message = "a lock is named twice among those that are to be granted together";
    Err(Error::new(ErrorKind::InvalidConfig, message))
}

/// The requests as one command, each with the channel on which its client hears.
pub(crate) fn acquire(
    names: &[Names<'_>],
    requests: &[Acquire],
    inboxes: &[Option<Channel>],
) -> Command {
    const KEYS_OF_EACH: usize = 4;
    const ROOM_OF_EACH: usize = 512;
    let keys = (KEYS_OF_EACH * names.len()) as u16;
    let mut command = Command::script(&ACQUIRE_TOGETHER, keys, ROOM_OF_EACH * names.len());
    for names in names {
        let [fence, queue, slots, ..] = names.satellites();
        command.bytes(names.lock()).pieces(fence).pieces(queue).pieces(slots);
    }
    for (Acquire { claim, ttl, tokens, .. }, inbox) in requests.iter().zip(inboxes) {
        command
            .bytes(claim.owner.expose())
            .number(ttl.as_millis())
            .number(tokens.get().into())
            .bytes(inbox.as_deref().unwrap_or_default());
    }
    command
}

/// What the reply to [`acquire`] means.
pub(crate) fn acquired(
    requests: &[Acquire],
    inboxes: &[Option<Channel>],
    answer: &Answer,
) -> Result<Vec<Attempt>, Error> {
    let Reply::List(replies) = &answer.reply else { return Err(unintelligible("acquire")) };
    let each = requests.iter().zip(inboxes).zip(replies);
    let attempts = each.map(|((request, inbox), reply)| match reply {
        Reply::Int(left) => Some(Attempt::Busy { retry_after: remaining(*left) }),
        Reply::Text(text) => {
            granted(text, request.ttl, inbox.is_some(), answer.sent).map(Attempt::Granted)
        }
        _ => None,
    });
    let attempts = attempts.collect::<Option<Vec<_>>>();
    let is_all_or_none = |attempts: &Vec<Attempt>| {
        let held = attempts.iter().filter(|attempt| matches!(attempt, Attempt::Granted(_)));
        attempts.len() == requests.len() && [0, attempts.len()].contains(&held.count())
    };
    attempts.filter(is_all_or_none).ok_or_else(|| unintelligible("acquire"))
}
