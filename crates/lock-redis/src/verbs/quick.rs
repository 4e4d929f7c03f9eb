//! The quick scripts: the frequent cases of exclusive locks.

use std::time::Duration;

use lock_core::{
    Acquire, AcquireOutcome, Claim, Error, Grant, OwnerToken, Released, Renew, TokenRange, Ttl,
};

use super::brought::{bringing, split};
use super::{
    Acquired, NUMBERS, number, on, on_state, others, queued, remaining, time_left, unintelligible,
    valid_for,
};
use crate::hub::Inbox;
use crate::keys::Names;
use crate::link::Answer;
use crate::scripts::{
    NOTE_RELEASE, QUICK_ACQUIRE, QUICK_HAND_OVER, QUICK_RELEASE, QUICK_RENEW, QUICK_WAIT,
    SINGLE_RELEASE, TERM_ACQUIRE, TERM_HAND_OVER, TERM_RELEASE, TERM_RENEW, TERM_VALUE_ACQUIRE,
    TERM_WAIT, VALUE_ACQUIRE,
};
use crate::state::{self, reserved};
use crate::wire::{Call, Reply, Script};

/// The number of digits of an owner's token in a state.
const NAMED: usize = 16;

/// The outcome of a quick renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuickRenewal {
    /// Renewed, and no claim waits.
    Alone,
    /// Renewed, and a claim may wait.
    Marked,
    /// The full script has to decide.
    Undecided,
}

pub(crate) fn quick_acquire(names: &Names<'_>, request: &Acquire) -> Call {
    let Acquire { claim, ttl, .. } = request;
    let mut call = if request.value {
        let script = script(names, &VALUE_ACQUIRE, &TERM_VALUE_ACQUIRE);
        on_value(script, names, claim.owner.expose().len())
    } else {
        let script = script(names, &QUICK_ACQUIRE, &TERM_ACQUIRE);
        on_state(script, names, claim.owner.expose().len())
    };
    call.bytes(claim.owner.expose())
        .number(ttl.as_millis())
        .number(ttl.as_millis() + names.retention())
        .pieces([b"-", named(&claim.owner)]);
    call
}

/// The meaning of the reply to [`quick_acquire`]; `None` if the full script has to decide.
pub(crate) fn quickly_acquired(
    request: &Acquire,
    answer: &Answer,
) -> Result<Option<AcquireOutcome>, Error> {
    let (reply, value) = split(&answer.reply, &request.claim.owner);
    let Reply::Text(text) = reply else { return Err(unintelligible("acquire")) };
    if text == b"?" {
        return Ok(None);
    }
    let read = match text.strip_prefix(b"b ") {
        Some(left) => refused(left),
        None => {
            let grant = granted(text, request, answer);
            grant.map(|grant| AcquireOutcome::Granted(bringing(grant, value)))
        }
    };
    read.map(Some).ok_or_else(|| unintelligible("acquire"))
}

/// Reads `left`.
fn refused(left: &[u8]) -> Option<AcquireOutcome> {
    let left = time_left(std::str::from_utf8(left).ok()?)?;
    Some(AcquireOutcome::Busy { retry_after: remaining(left) })
}

/// Reads `state`, `state before`, or `r left state` if the owner holds the lock already.
fn granted(text: &[u8], request: &Acquire, answer: &Answer) -> Option<Grant> {
    let (range, valid_until) = if let Some(text) = text.strip_prefix(b"r ") {
        let (left, state) = halves(text)?;
        let lease = Duration::from_millis(number(left)?);
        (state::granted(state)?, valid_for(lease, answer.sent))
    } else {
        let range = range_of(text, request.tokens.get())?;
        (range, request.ttl.valid_until(answer.sent))
    };
    Some(Grant::new(range, valid_until))
}

/// The tokens of `state` or `state before`.
fn range_of(text: &[u8], count: u32) -> Option<TokenRange> {
    match halves(text) {
        Some((state, before)) => reserved(state, Some(before), count),
        None => reserved(text, None, count),
    }
}

/// Reads the vote `state before`, or `state` for a lock that had no state.
pub(crate) fn voted_quickly(text: &[u8], count: u32, ttl: Ttl, answer: &Answer) -> Option<Grant> {
    let range = range_of(text, count)?;
    Some(Grant::new(range, ttl.valid_until(answer.sent)))
}

fn halves(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|byte| *byte == b' ')?;
    Some((&text[..at], &text[at + 1..]))
}

/// A renewal by the lock alone, or also by its state if that names the term. While the slot is `moving`, the call names
/// no second key.
pub(crate) fn quick_renew(names: &Names<'_>, request: &Renew, moving: bool) -> Call {
    let ttl = request.ttl.as_millis();
    if !names.has_terms() {
        let mut call = on_lock(&QUICK_RENEW, names, &request.claim, 0);
        call.number(ttl);
        return call;
    }
    let owner = request.claim.owner.expose();
    if moving {
        let room = names.lock().len() + 8;
        let mut call = on_lock(&TERM_RENEW, names, &request.claim, room);
        call.number(ttl).pieces(names.state());
        return call;
    }
    let mut call = on_state(&TERM_RENEW, names, owner.len());
    call.bytes(owner).number(ttl).bytes(b"");
    call
}

/// The meaning of the reply to [`quick_renew`].
pub(crate) fn quickly_renewed(answer: &Answer) -> Result<QuickRenewal, Error> {
    match &answer.reply {
        Reply::Text(text) if text.is_empty() => Ok(QuickRenewal::Alone),
        Reply::Text(text) if text == b"m" => Ok(QuickRenewal::Marked),
        Reply::Text(text) if text == b"?" => Ok(QuickRenewal::Undecided),
        _ => Err(unintelligible("renew")),
    }
}

pub(crate) fn quick_release(names: &Names<'_>, claim: &Claim) -> Call {
    if !names.has_terms() {
        return on_lock(&QUICK_RELEASE, names, claim, 0);
    }
    let owner = claim.owner.expose();
    let mut call = on_state(&TERM_RELEASE, names, owner.len());
    call.bytes(owner);
    call
}

/// A request for a place in the queue, for an exclusive claim.
pub(crate) fn quick_wait(names: &Names<'_>, request: &Acquire, inbox: &Inbox, limit: u32) -> Call {
    let mut call = on_queue(
        script(names, &QUICK_WAIT, &TERM_WAIT),
        names,
        &request.claim,
        None,
        inbox.id().len(),
    );
    call.number(limit.into())
        .number(request.ttl.for_place().as_millis())
        .text(rest_of(request, inbox));
    call
}

/// The meaning of the reply to [`quick_wait`]; `None` if the full script has to decide.
pub(crate) fn quickly_queued(
    request: &Acquire,
    answer: &Answer,
) -> Result<Option<Acquired>, Error> {
    match &answer.reply {
        Reply::Text(text) if text == b"?" => Ok(None),
        Reply::Text(text) => text
            .strip_prefix(b"q ")
            .and_then(|text| queued(text, request.ttl, answer.sent))
            .map(Some)
            .ok_or_else(|| unintelligible("acquire")),
        _ => Err(unintelligible("acquire")),
    }
}

/// A claim that wants a place in the queue once a lease is over, and its client's inbox.
pub(crate) type Next<'a> = (&'a Acquire, &'a Inbox);

/// A release of a lock that claims wait for, and a request for a place in the queue.
pub(crate) fn hand_over(
    names: &Names<'_>,
    claim: &Claim,
    tell: bool,
    next: Option<Next<'_>>,
) -> Call {
    let channel = names.released();
    let room = channel.map(<[u8]>::len).iter().sum::<usize>() + 2 * NUMBERS;
    let script = script(names, &QUICK_HAND_OVER, &TERM_HAND_OVER);
    let mut call = on_queue(script, names, claim, None, room);
    match next {
        Some((next, inbox)) => call
            .bytes(next.claim.owner.expose())
            .number(next.ttl.for_place().as_millis())
            .text(rest_of(next, inbox)),
        None => call.bytes(b"").number(0).bytes(b""),
    };
    if tell {
        call.pieces(channel)
    } else {
        call.bytes(b"")
    };
    call
}

/// The meaning of the reply to [`hand_over`], for a client that hears of its own releases, or for one that does not;
/// `None` if the full script has to decide.
pub(crate) fn handed_over(
    next: Option<Next<'_>>,
    answer: &Answer,
    hears_itself: bool,
) -> Result<Option<(Released, Option<Acquired>)>, Error> {
    let nonsense = || unintelligible("release");
    let Reply::Text(text) = &answer.reply else { return Err(nonsense()) };
    if text == b"?" {
        return Ok(None);
    }
    let (mut told, mut acquired) = (0, None);
    if let Some(heard) = text.strip_prefix(b"f ") {
        told = others(number(heard).ok_or_else(nonsense)?, hears_itself);
    } else if !text.is_empty() {
        let (next, _) = next.ok_or_else(nonsense)?;
        let left = text.strip_prefix(b"q ").ok_or_else(nonsense)?;
        acquired = Some(queued(left, next.ttl, answer.sent).ok_or_else(nonsense)?);
    }
    Ok(Some((Released::Freed { told }, acquired)))
}

/// The end of a place, after its times: how long a lease lives that is handed over, how many tokens it reserves, and
/// the inbox.
fn rest_of(request: &Acquire, inbox: &Inbox) -> String {
    let (claim, tokens) = (request.ttl.for_grant().as_millis(), request.tokens);
    format!("{claim} {tokens} {}", String::from_utf8_lossy(inbox.id()))
}

/// A release by a script that names the lock alone, and makes all clients that watch the lock ask for it.
pub(crate) fn single_release(names: &Names<'_>, claim: &Claim, tell: bool) -> Call {
    let channel = names.released();
    let mut call = on_lock(&SINGLE_RELEASE, names, claim, channel.map(<[u8]>::len).iter().sum());
    if tell {
        call.pieces(channel)
    } else {
        call.bytes(b"")
    };
    call
}

/// Notes a release in the state of the lock, which alone it names.
pub(crate) fn note_release(names: &Names<'_>, claim: &Claim) -> Call {
    let state = names.state();
    let room = state.map(<[u8]>::len).iter().sum::<usize>() + NUMBERS;
    let mut call = Call::new(&NOTE_RELEASE, 1, room);
    call.pieces(state).bytes(named(&claim.owner));
    call
}

/// The meaning of the reply to [`quick_release`] or [`single_release`]; `None` if the full script has to decide.
pub(crate) fn quickly_released(answer: &Answer) -> Result<Option<Released>, Error> {
    match &answer.reply {
        Reply::Text(text) if text.is_empty() => Ok(Some(Released::Freed { told: 0 })),
        Reply::Text(text) if text == b"?" => Ok(None),
        _ => Err(unintelligible("release")),
    }
}

/// The first script, or the second one if the state of the lock names the term.
pub(super) fn script(
    names: &Names<'_>,
    plain: &'static Script,
    with_term: &'static Script,
) -> &'static Script {
    if names.has_terms() { with_term } else { plain }
}

/// A call that names the lock, its state, its queue, and a fifth key if there is one, with the owner's token and how
/// long the state is kept.
pub(super) fn on_queue(
    script: &'static Script,
    names: &Names<'_>,
    claim: &Claim,
    fifth: Option<[&[u8]; 2]>,
    room: usize,
) -> Call {
    let owner = claim.owner.expose();
    let [state, queue, places, ..] = names.satellites();
    let satellites = [state, queue, places].into_iter().chain(fifth);
    let mut call = on(script, names, satellites, 2 * owner.len() + room);
    call.bytes(owner).number(names.retention());
    call
}

/// A call that names the lock, its state and its value.
pub(super) fn on_value(script: &'static Script, names: &Names<'_>, room: usize) -> Call {
    on(script, names, [names.state(), names.cell()].into_iter(), room)
}

/// A call that names the lock alone, with the owner's token.
fn on_lock(script: &'static Script, names: &Names<'_>, claim: &Claim, room: usize) -> Call {
    let owner = claim.owner.expose();
    let mut call = Call::new(script, 1, names.lock().len() + owner.len() + NUMBERS + room);
    call.bytes(names.lock()).bytes(owner);
    call
}

/// The beginning of an owner's token, which alone is no secret.
pub(crate) fn named(owner: &OwnerToken) -> &[u8] {
    &owner.expose()[..NAMED]
}

#[cfg(test)]
mod tests {
    use lock_core::{Instant, Key};
    use proptest::prelude::*;

    use super::*;
    use crate::wire::garbage::{self, is_left};

    const STATE: &str = "1795000000000000-0123456789abcdef";
    const BEFORE: &str = "1794000000000000-fedcba9876543210";

    fn request() -> Acquire {
        let claim = Claim::exclusive(Key::new("a").unwrap(), OwnerToken::from_bytes([7; 16]));
        let count = std::num::NonZeroU32::new(8).unwrap();
        Acquire::new(claim, Ttl::DEFAULT).reserving(count)
    }

    fn answer(text: &str) -> Answer {
        Answer { sent: Instant::from_nanos(5), reply: Reply::Text(text.into()) }
    }

    fn count(text: &str) -> Option<u32> {
        match quickly_acquired(&request(), &answer(text)).unwrap() {
            Some(AcquireOutcome::Granted(grant)) => Some(grant.tokens.count().get()),
            _ => None,
        }
    }

    #[test]
    fn a_grant_has_the_tokens_of_its_state() {
        assert_eq!(count(STATE), Some(1));
        assert_eq!(count(&format!("{STATE} {BEFORE}")), Some(8));
        assert_eq!(count(&format!("{STATE} {BEFORE} i0123")), Some(8));
        assert_eq!(count(&format!("r 300 {STATE} g77")), Some(1));
    }

    #[test]
    fn a_refusal_and_no_decision_are_told_apart() {
        let refused = quickly_acquired(&request(), &answer("b 300")).unwrap();
        let after = Duration::from_millis(300);
        assert_eq!(refused, Some(AcquireOutcome::Busy { retry_after: Some(after) }));
        let refused = quickly_acquired(&request(), &answer("b -1")).unwrap();
        assert_eq!(refused, Some(AcquireOutcome::Busy { retry_after: None }));
        assert_eq!(quickly_acquired(&request(), &answer("?")).unwrap(), None);
    }

    /// The text of a reply, alone or before a value.
    fn said(reply: &Reply) -> Option<&[u8]> {
        match reply {
            Reply::Text(text) => Some(text),
            Reply::List(parts) => match &parts[..] {
                [Reply::Text(text), Reply::Nil | Reply::Text(_)] => Some(text),
                _ => None,
            },
            _ => None,
        }
    }

    proptest! {
        #[test]
        fn only_a_state_is_a_grant(reply in garbage::replies()) {
            let answer = Answer { sent: Instant::from_nanos(5), reply: reply.clone() };
            match quickly_acquired(&request(), &answer) {
                Ok(Some(AcquireOutcome::Granted(_))) => {
                    let text = said(&reply).unwrap_or_else(|| panic!("{reply:?}"));
                    let digits = text.iter().filter(|byte| byte.is_ascii_digit()).count();
                    prop_assert!(digits >= 16, "{:?}", text);
                }
                Ok(Some(AcquireOutcome::Busy { .. })) => {
                    let text = said(&reply).unwrap_or_else(|| panic!("{reply:?}"));
                    let left = text.strip_prefix(b"b ").and_then(|it| std::str::from_utf8(it).ok());
                    prop_assert!(left.is_some_and(|it| is_left(it) || it.parse::<u64>().is_ok()));
                }
                Ok(None) => prop_assert_eq!(said(&reply), Some(&b"?"[..])),
                Ok(other) => panic!("{other:?}"),
                Err(error) => prop_assert_eq!(error.kind(), lock_core::ErrorKind::Protocol),
            }
            let queued = quickly_queued(&request(), &answer);
            prop_assert!(queued.is_err() || matches!(&reply, Reply::Text(text) if text == b"?" || text.starts_with(b"q ")));
            let renewed = quickly_renewed(&answer).is_ok();
            let released = quickly_released(&answer).is_ok();
            let is = |texts: &[&str]| matches!(&reply, Reply::Text(text) if texts.iter().any(|it| it.as_bytes() == text));
            prop_assert_eq!((renewed, released), (is(&["", "m", "?"]), is(&["", "?"])));
        }
    }
}
