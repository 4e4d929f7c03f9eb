//! Several locks in one step.

use std::collections::HashSet;

use lock_core::{Acquire, AcquireOutcome, Error, ErrorKind, Mode};

use crate::hub::Inbox;
use crate::keys::Names;
use crate::link::Answer;
use crate::scripts::ACQUIRE_TOGETHER;
use crate::verbs::{granted, remaining, unintelligible};
use crate::wire::{Call, Reply};

/// The most locks in one script.
const MOST_LOCKS: usize = 64;

/// Whether one script can serve these requests.
pub(crate) fn is_possible(requests: &[Acquire]) -> bool {
    let is_simple = |it: &Acquire| it.claim.mode == Mode::Exclusive;
    (2..=MOST_LOCKS).contains(&requests.len()) && requests.iter().all(is_simple)
}

/// Refuses requests of which two name one lock.
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

/// The requests as one call, each with its client's inbox.
pub(crate) fn acquire(
    names: &[Names<'_>],
    requests: &[Acquire],
    inboxes: &[Option<Inbox>],
) -> Call {
    const KEYS_OF_EACH: usize = 4;
    const ROOM_OF_EACH: usize = 512;
    let keys = (KEYS_OF_EACH * names.len()) as u16;
    let mut call = Call::new(&ACQUIRE_TOGETHER, keys, ROOM_OF_EACH * names.len());
    if let Some(first) = names.first() {
        call = call.keeping(first.keeping().gapless());
    }
    for names in names {
        let [state, queue, places, ..] = names.satellites();
        call.bytes(names.lock()).pieces(state).pieces(queue).pieces(places);
    }
    for (Acquire { claim, ttl, tokens, .. }, inbox) in requests.iter().zip(inboxes) {
        call.bytes(claim.owner.expose())
            .number(ttl.as_millis())
            .number(tokens.get().into())
            .bytes(inbox.as_ref().map_or(&[], Inbox::id));
    }
    call
}

/// The meaning of the reply to [`acquire`].
pub(crate) fn acquired(
    requests: &[Acquire],
    inboxes: &[Option<Inbox>],
    answer: &Answer,
) -> Result<Vec<AcquireOutcome>, Error> {
    let Reply::List(replies) = &answer.reply else { return Err(unintelligible("acquire")) };
    let each = requests.iter().zip(inboxes).zip(replies);
    let attempts = each.map(|((request, inbox), reply)| match reply {
        Reply::Int(left) => Some(AcquireOutcome::Busy { retry_after: remaining(*left) }),
        Reply::Text(text) => {
            granted(text, request.ttl, inbox.is_some(), answer.sent).map(AcquireOutcome::Granted)
        }
        _ => None,
    });
    let attempts = attempts.collect::<Option<Vec<_>>>();
    let is_all_or_none = |attempts: &Vec<AcquireOutcome>| {
        let held = attempts.iter().filter(|attempt| matches!(attempt, AcquireOutcome::Granted(_)));
        replies.len() == requests.len() && [0, attempts.len()].contains(&held.count())
    };
    attempts.filter(is_all_or_none).ok_or_else(|| unintelligible("acquire"))
}

#[cfg(test)]
mod tests {
    use lock_core::{Claim, Instant, Key, OwnerToken, Ttl};
    use proptest::prelude::*;

    use super::*;
    use crate::wire::garbage;

    fn requests(count: usize) -> Vec<Acquire> {
        let claim = |index: usize| {
            let key = Key::new(index.to_string()).unwrap();
            Claim::exclusive(key, OwnerToken::from_bytes([7; 16]))
        };
        (0..count).map(|index| Acquire::new(claim(index), Ttl::DEFAULT)).collect()
    }

    /// Lists of which many have the right length, and are nearly lists of only grants or only
    /// refusals.
    fn answers() -> impl Strategy<Value = Reply> {
        let grants = prop_oneof![9 => Just(Reply::Text(b"7 9".to_vec())), 1 => garbage::replies()];
        let refusals = prop_oneof![9 => Just(Reply::Int(20)), 1 => garbage::replies()];
        prop_oneof![
            prop::collection::vec(grants, 0..5).prop_map(Reply::List),
            prop::collection::vec(refusals, 0..5).prop_map(Reply::List),
            garbage::replies(),
        ]
    }

    proptest! {
        #[test]
        fn several_locks_are_granted_all_or_none(reply in answers(), count in 2usize..5) {
            let (requests, inboxes) = (requests(count), vec![None; count]);
            let answer = Answer { sent: Instant::from_nanos(5), reply: reply.clone() };
            let is = |wanted: fn(&Reply) -> bool| match &reply {
                Reply::List(items) => items.len() == count && items.iter().all(wanted),
                _ => false,
            };
            match acquired(&requests, &inboxes, &answer) {
                Ok(attempts) if attempts.iter().all(|it| matches!(it, AcquireOutcome::Granted(_))) => {
                    prop_assert!(is(|item| matches!(item, Reply::Text(_))), "{:?}", reply);
                    prop_assert_eq!(attempts.len(), count);
                }
                Ok(attempts) => {
                    let is_busy = |it: &AcquireOutcome| matches!(it, AcquireOutcome::Busy { .. });
                    prop_assert!(attempts.iter().all(is_busy), "{:?}", attempts);
                    prop_assert!(is(|item| matches!(item, Reply::Int(_))), "{:?}", reply);
                }
                Err(error) => {
                    prop_assert_eq!(error.kind(), ErrorKind::Protocol);
                    let good = |item: &Reply| *item == Reply::Text(b"7 9".to_vec());
                    prop_assert!(!is(good) && !is(|item| matches!(item, Reply::Int(_))), "{:?}", reply);
                }
            }
        }
    }
}
