//! The verbs as commands, and the replies as outcomes.

use std::num::NonZeroU32;
use std::time::Duration;

use lock_core::{
    Acquire, Attempt, Claim, Error, ErrorKind, FencingToken, Grant, Instant, Released, Renewal,
    TokenRange, Ttl,
};

use crate::keys::Names;
use crate::link::Answer;
use crate::scripts::{ACQUIRE, RELEASE, RENEW};
use crate::wire::{Command, Reply};

/// The digits and separators of numbers among the arguments.
const NUMBERS: usize = 48;

/// How many milliseconds a fence outlives the lease.
const FENCE_REST: u64 = 60 * 60 * 1000;

pub(crate) fn acquire(names: &Names<'_>, request: &Acquire) -> Command {
    let owner = request.claim.owner.expose();
    let room = names.lock().len() + names.fence().map(<[u8]>::len).iter().sum::<usize>();
    let mut command = Command::script(&ACQUIRE, 2, room + owner.len() + NUMBERS);
    command
        .bytes(names.lock())
        .pieces(names.fence())
        .bytes(owner)
        .number(request.ttl.as_millis())
        .number(request.tokens.get().into())
        .number(request.ttl.as_millis() + FENCE_REST);
    command
}

/// What the reply to [`acquire`] means.
pub(crate) fn acquired(request: &Acquire, answer: &Answer) -> Result<Attempt, Error> {
    match &answer.reply {
        Reply::Int(left) => Ok(Attempt::Busy { retry_after: remaining(*left) }),
        Reply::Text(text) => granted(text, request.ttl, answer.sent)
            .map(Attempt::Granted)
            .ok_or_else(|| unintelligible("acquire")),
        _ => Err(unintelligible("acquire")),
    }
}

pub(crate) fn renew(names: &Names<'_>, claim: &Claim, ttl: Ttl) -> Command {
    let owner = claim.owner.expose();
    let mut command = Command::script(&RENEW, 1, names.lock().len() + owner.len() + NUMBERS);
    command.bytes(names.lock()).bytes(owner).number(ttl.as_millis());
    command
}

/// What the reply to [`renew`] means.
pub(crate) fn renewed(ttl: Ttl, answer: Result<Answer, Error>) -> Renewal {
    match answer {
        Ok(Answer { sent, reply: Reply::Int(1) }) => Renewal::until(ttl.valid_until(sent)),
        Ok(Answer { reply: Reply::Int(0), .. }) => Renewal::Lost,
        Ok(_) => Renewal::Unknown(unintelligible("renew")),
        // Whatever is at the key, it is not our lease any more.
        Err(error) if error.kind() == ErrorKind::ForeignKey => Renewal::Lost,
        Err(error) => Renewal::Unknown(error),
    }
}

pub(crate) fn release(names: &Names<'_>, claim: &Claim, tell: bool) -> Command {
    let owner = claim.owner.expose();
    let channel = names.released();
    let room = names.lock().len() + owner.len() + channel.map(<[u8]>::len).iter().sum::<usize>();
    let mut command = Command::script(&RELEASE, 1, room);
    command.bytes(names.lock()).bytes(owner);
    if tell {
        command.pieces(channel);
    }
    command
}

/// What the reply to [`release`] means to a client that hears of its own releases, or does not.
pub(crate) fn released(
    answer: Result<Answer, Error>,
    hears_itself: bool,
) -> Result<Released, Error> {
    match answer {
        Ok(Answer { reply: Reply::Int(-1), .. }) => Ok(Released::NotHeld),
        Ok(Answer { reply: Reply::Int(told), .. }) => {
            Ok(Released::Freed { contended: told > i64::from(hears_itself) })
        }
        Ok(_) => Err(unintelligible("release")),
        Err(error) if error.kind() == ErrorKind::ForeignKey => Ok(Released::NotHeld),
        Err(error) => Err(error),
    }
}

/// Reads `first last`, or `first last left`.
fn granted(text: &[u8], ttl: Ttl, sent: Instant) -> Option<Grant> {
    let mut words = std::str::from_utf8(text).ok()?.split(' ');
    let first: u64 = words.next()?.parse().ok()?;
    let last: u64 = words.next()?.parse().ok()?;
    let count = u32::try_from(last.checked_sub(first)?.checked_add(1)?).ok()?;
    let tokens = TokenRange::new(FencingToken::new(first), NonZeroU32::new(count)?);
    let left = match words.next() {
        Some(left) => remaining(left.parse().ok()?),
        None => None,
    };
    let valid_until = match left {
        Some(left) if left < ttl.duration() => valid_for(left, sent),
        _ => ttl.valid_until(sent),
    };
    Some(Grant::new(tokens, valid_until))
}

/// When a lease ends for its holder that the server gives no more than this.
fn valid_for(left: Duration, sent: Instant) -> Instant {
    match Ttl::new(left) {
        Ok(left) => left.valid_until(sent),
        Err(_) => sent + left.saturating_sub(Ttl::MIN.drift()),
    }
}

/// What PTTL says. A server that shows a key at all may say that nothing is left of it.
fn remaining(left: i64) -> Option<Duration> {
    match left {
        -1 => None,
        left => Some(Duration::from_millis(left.max(1).unsigned_abs())),
    }
}

fn unintelligible(verb: &str) -> Error {
    Error::new(ErrorKind::Protocol, format!("the script to {verb} was answered with nonsense"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ttl(millis: u64) -> Ttl {
        Ttl::new(Duration::from_millis(millis)).unwrap()
    }

    #[test]
    fn a_fresh_grant_is_dated_by_what_was_asked_for() {
        let sent = Instant::from_nanos(5);
        let grant = granted(b"1795000000000000 1795000000000063", ttl(30_000), sent).unwrap();
        assert_eq!(grant.tokens.first().get(), 1_795_000_000_000_000);
        assert_eq!(grant.tokens.count().get(), 64);
        assert_eq!(grant.valid_until, ttl(30_000).valid_until(sent));
    }

    #[test]
    fn a_repeated_grant_is_dated_by_what_is_left() {
        let sent = Instant::from_nanos(5);
        let until = |text: &[u8]| granted(text, ttl(30_000), sent).unwrap().valid_until;
        assert_eq!(until(b"7 7 1000"), ttl(1_000).valid_until(sent));
        assert_eq!(until(b"7 7 90000"), ttl(30_000).valid_until(sent));
        assert_eq!(until(b"7 7 -1"), ttl(30_000).valid_until(sent));
        assert_eq!(until(b"7 7 0"), sent);
        assert!(until(b"7 7 9") < sent + Duration::from_millis(9));
    }

    #[test]
    fn nonsense_is_no_grant() {
        for text in ["", "7", "7 6", "x y", "1 9999999999999", "1 2 x", "-1 2"] {
            assert_eq!(
                granted(text.as_bytes(), ttl(1_000), Instant::from_nanos(0)),
                None,
                "{text}"
            );
        }
    }

    #[test]
    fn the_end_of_a_lease_is_never_in_the_past() {
        assert_eq!(remaining(-1), None);
        for over in [0, -2] {
            assert_eq!(remaining(over), Some(Duration::from_millis(1)));
        }
    }
}
