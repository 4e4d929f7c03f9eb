//! The verbs as calls, and the replies as outcomes.

use std::time::Duration;

use lock_core::{
    Acquire, AcquireOutcome, Claim, Contention, Error, ErrorKind, Grant, Instant, Mode, Released,
    Renew, Renewal, Ttl,
};

use crate::hub::{Inbox, Sample, number, tokens};
use crate::keys::Names;
use crate::link::Answer;
use crate::modes::Code;
use crate::scripts::{ACQUIRE, ACQUIRE_COUNTED, ACQUIRE_WITH_VALUE, RELEASE, RENEW};
use crate::wire::{Call, Reply, Script};

mod brought;
mod many;
mod quick;
#[cfg(test)]
mod tests;
mod valued;

pub(crate) use many::{kept, renewed_of_many};
pub(crate) use quick::{
    Next, QuickRenewal, hand_over, handed_over, named, note_release, quick_acquire, quick_release,
    quick_renew, quick_wait, quickly_acquired, quickly_queued, quickly_released, quickly_renewed,
    single_release, voted_quickly,
};
pub(crate) use valued::{committed, value_hand_over, value_release};

/// The bytes of digits, separators and short words among the arguments.
const NUMBERS: usize = 96;

/// The inbox of the client of a request, and how many claims may wait for the lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting<'a> {
    pub(crate) inbox: Option<&'a Inbox>,
    pub(crate) limit: u32,
}

/// The meaning of the reply to [`acquire`].
#[derive(Debug)]
pub(crate) struct Acquired {
    pub(crate) attempt: AcquireOutcome,
    /// How the clocks stood, if the request was queued.
    pub(crate) sample: Option<Sample>,
}

/// The script that grants leases in a mode.
pub(crate) fn acquiring(mode: Mode) -> &'static Script {
    match mode {
        Mode::Permits { .. } | Mode::Joint { .. } => &ACQUIRE_COUNTED,
        _ => &ACQUIRE,
    }
}

/// A request for a lease, or for the conversion of the lease that its owner has in the mode `from`.
pub(crate) fn acquire(
    names: &Names<'_>,
    request: &Acquire,
    from: Option<Mode>,
    waiting: Waiting<'_>,
) -> Result<Call, Error> {
    let Acquire { claim, ttl, .. } = request;
    let mode = Code::of(claim.mode)?;
    let inbox = waiting.inbox.map_or(&b""[..], Inbox::id);
    let mut call = if request.value && claim.mode == Mode::Exclusive {
        let owner = claim.owner.expose();
        let room = owner.len() + inbox.len();
        let mut call = on_keys(&ACQUIRE_WITH_VALUE, names, Some(names.cell()), room);
        call.bytes(owner);
        call
    } else {
        about(acquiring(claim.mode), names, claim, inbox.len())
    };
    call.number(ttl.as_millis()).number(request.tokens.get().into()).bytes(inbox);
    let is_queued = request.queue && waiting.inbox.is_some();
    if mode.is_understood() && !is_queued && from.is_none() {
        return Ok(call);
    }
    call.text(mode);
    if is_queued {
        let (place, claim) = (ttl.for_place().as_millis(), ttl.for_grant().as_millis());
        call.text(format_args!("{} {place} {claim}", waiting.limit));
    } else {
        call.bytes(b"");
    }
    if let Some(from) = from {
        call.text(Code::of(from)?);
    }
    Ok(call)
}

/// The meaning of the reply to [`acquire`].
pub(crate) fn acquired(
    request: &Acquire,
    waiting: Waiting<'_>,
    answer: &Answer,
) -> Result<Acquired, Error> {
    let (reply, value) = brought::split(&answer.reply, &request.claim.owner);
    let read = match reply {
        Reply::Int(left) => Some(Acquired {
            attempt: AcquireOutcome::Busy { retry_after: remaining(*left) },
            sample: None,
        }),
        Reply::Text(text) => match text.strip_prefix(b"q ") {
            Some(text) => queued(text, request.ttl, answer.sent),
            None => granted(text, request.ttl, waiting.inbox.is_some(), answer.sent)
                .map(|grant| brought::bringing(grant, value))
                .map(|grant| Acquired { attempt: AcquireOutcome::Granted(grant), sample: None }),
        },
        _ => None,
    };
    read.ok_or_else(|| unintelligible("acquire"))
}

/// When a lease ends, in milliseconds of the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End(u64);

/// A renewal. If it `shortens` the lease, it has to name the end of the lease.
pub(crate) fn renew(
    names: &Names<'_>,
    request: &Renew,
    inbox: Option<&Inbox>,
    shortens: Option<End>,
) -> Result<Call, Error> {
    let mode = Code::of(request.claim.mode)?;
    let inbox = inbox.map_or(&b""[..], Inbox::id);
    let mut call = about(&RENEW, names, &request.claim, inbox.len());
    call.number(request.ttl.as_millis()).number(request.tokens.into()).bytes(inbox);
    if !mode.is_understood() || shortens.is_some() {
        call.text(mode);
    }
    if let Some(End(ends)) = shortens {
        call.number(ends);
    }
    Ok(call)
}

/// The end of the lease, if the server would shorten it by a renewal that does not name that end.
pub(crate) fn would_shorten(answer: &Answer) -> Option<End> {
    match &answer.reply {
        Reply::Text(text) => number(text.strip_prefix(b"l ")?).map(End),
        _ => None,
    }
}

/// The meaning of the reply to [`renew`].
pub(crate) fn renewed(request: &Renew, answer: Result<Answer, Error>) -> Renewal {
    match answer {
        Ok(Answer { reply: Reply::Int(0), .. }) => Renewal::Lost,
        Ok(answer) if would_shorten(&answer).is_some() => {
            let message = "the lease was renewed by another request meanwhile";
            Renewal::Unknown(Error::new(ErrorKind::NotReady, message))
        }
        Ok(Answer { sent, reply: Reply::Text(text) }) => extended(&text, request.ttl, sent)
            .unwrap_or_else(|| Renewal::Unknown(unintelligible("renew"))),
        Ok(_) => Renewal::Unknown(unintelligible("renew")),
        // Whatever the key holds, it is not our lease any more.
        Err(error) if error.kind() == ErrorKind::ForeignKey => Renewal::Lost,
        Err(error) => Renewal::Unknown(error),
    }
}

pub(crate) fn release(names: &Names<'_>, claim: &Claim, tell: bool) -> Result<Call, Error> {
    let mode = Code::of(claim.mode)?;
    let channel = names.released();
    let room = channel.map(<[u8]>::len).iter().sum();
    let mut call = about(&RELEASE, names, claim, room);
    if tell {
        call.pieces(channel);
    } else {
        call.bytes(b"");
    }
    if !mode.is_understood() {
        call.text(mode);
    }
    if claim.mode == Mode::Shared && !tell {
        call.pieces(channel);
    }
    Ok(call)
}

/// How many other clients heard a message, if this client hears its own messages, or if it does not.
pub(crate) fn others(told: u64, hears_itself: bool) -> u32 {
    told.saturating_sub(u64::from(hears_itself)).try_into().unwrap_or(u32::MAX)
}

/// The meaning of the reply to [`release`], for a client that hears of its own releases, or for one
/// that does not.
pub(crate) fn released(
    answer: Result<Answer, Error>,
    hears_itself: bool,
) -> Result<Released, Error> {
    match answer {
        Ok(Answer { reply: Reply::Int(-1), .. }) => Ok(Released::NotHeld),
        Ok(Answer { reply: Reply::Int(told @ 0..), .. }) => {
            Ok(Released::Freed { told: others(told.unsigned_abs(), hears_itself) })
        }
        Ok(_) => Err(unintelligible("release")),
        Err(error) if error.kind() == ErrorKind::ForeignKey => Ok(Released::NotHeld),
        Err(error) => Err(error),
    }
}

/// The common beginning: the keys, and the owner's token.
fn about(script: &'static Script, names: &Names<'_>, claim: &Claim, room: usize) -> Call {
    let limit = claim.mode.counts().then(|| names.limit());
    let owner = claim.owner.expose();
    let mut call = on_keys(script, names, limit, owner.len() + room);
    call.bytes(owner);
    call
}

/// A call of a script on the key of a lock and the key of its state.
pub(crate) fn on_state(script: &'static Script, names: &Names<'_>, room: usize) -> Call {
    on(script, names, [names.state()].into_iter(), room)
}

/// A call of a script on the key of a lock, its state and its queue, and on a fourth key if there is one.
pub(crate) fn on_state_and_queue(
    script: &'static Script,
    names: &Names<'_>,
    fourth: Option<&[u8]>,
    room: usize,
) -> Call {
    let [state, queue, ..] = names.satellites();
    let fourth = fourth.map(|key| [key, b""]);
    on(script, names, [state, queue].into_iter().chain(fourth), room)
}

/// A call of a script on the keys of a lock, and on a seventh key if there is one.
pub(crate) fn on_keys(
    script: &'static Script,
    names: &Names<'_>,
    seventh: Option<[&[u8]; 2]>,
    room: usize,
) -> Call {
    let satellites = names.satellites().into_iter().chain(seventh);
    on(script, names, satellites, room).keeping(names.keeping())
}

/// A call of a script on the key of a lock and on these keys.
fn on<'a>(
    script: &'static Script,
    names: &Names<'_>,
    others: impl Iterator<Item = [&'a [u8]; 2]> + Clone,
    room: usize,
) -> Call {
    let (keys, bytes) = others.clone().fold((1, names.lock().len()), |(keys, bytes), it| {
        (keys + 1, bytes + it[0].len() + it[1].len())
    });
    let mut call = Call::new(script, keys, bytes + NUMBERS + room);
    call.bytes(names.lock());
    for key in others {
        call.pieces(key);
    }
    call
}

/// Reads `first last`, or `first last left contention`, for a client that hears of claims that join the
/// queue, or for one that does not.
pub(crate) fn granted(text: &[u8], ttl: Ttl, hears: bool, sent: Instant) -> Option<Grant> {
    let mut words = text.split(|byte| *byte == b' ');
    let tokens = tokens(number(words.next()?)?, number(words.next()?)?)?;
    let (mut lease, mut wanted) = (ttl.duration(), false);
    if let Some(left) = words.next() {
        lease = Duration::from_millis(number(left)?);
        wanted = match words.next()? {
            b"w" => true,
            b"q" => false,
            _ => return None,
        };
    }
    let contention = match (wanted, hears) {
        (true, _) => Contention::Contended,
        (false, true) => Contention::Quiet,
        (false, false) => Contention::Unknown,
    };
    words
        .next()
        .is_none()
        .then(|| Grant::new(tokens, valid_for(lease, sent)).with_contention(contention))
}

/// Reads `left micros`.
fn queued(text: &[u8], ttl: Ttl, sent: Instant) -> Option<Acquired> {
    let (left, seen) = std::str::from_utf8(text).ok()?.split_once(' ')?;
    let repeat = ttl.for_place().duration() / 3;
    let left = remaining(time_left(left)?).map_or(repeat, |left| left.min(repeat));
    let sample = Sample { sent, seen: number(seen.as_bytes())? };
    let attempt = AcquireOutcome::Queued { retry_after: Some(left) };
    Some(Acquired { attempt, sample: Some(sample) })
}

/// Reads `contention`, or `contention first last`.
fn extended(text: &[u8], ttl: Ttl, sent: Instant) -> Option<Renewal> {
    let mut words = text.split(|byte| *byte == b' ');
    let contention = match words.next()? {
        b"w" => Contention::Contended,
        b"q" => Contention::Quiet,
        b"u" => Contention::Unknown,
        _ => return None,
    };
    let tokens = match words.next() {
        Some(first) => Some(tokens(number(first)?, number(words.next()?)?)?),
        None => None,
    };
    let valid_until = ttl.valid_until(sent);
    let renewed = Renewal::Renewed { valid_until, tokens, contention };
    words.next().is_none().then_some(renewed)
}

/// The end of a lease, for its holder, when the server says that this much is left.
fn valid_for(lease: Duration, sent: Instant) -> Instant {
    match Ttl::new(lease) {
        Ok(lease) => lease.valid_until(sent),
        Err(_) => sent + lease.min(Ttl::MAX.duration()).saturating_sub(Ttl::MIN.drift()),
    }
}

/// Reads a remaining time, or that a lease has no end.
pub(crate) fn time_left(text: &str) -> Option<i64> {
    if text == "-1" { Some(-1) } else { number(text.as_bytes()) }
}

/// The answer of PTTL. A server may say that nothing is left of a key that it still shows.
pub(crate) fn remaining(left: i64) -> Option<Duration> {
    match left {
        -1 => None,
        left => Some(Duration::from_millis(left.max(1).unsigned_abs())),
    }
}

pub(crate) fn unintelligible(verb: &str) -> Error {
    Error::new(ErrorKind::Protocol, format!("the script to {verb} was answered with nonsense"))
}
