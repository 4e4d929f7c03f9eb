//! The verbs as commands, and the replies as outcomes.

use std::time::Duration;

use lock_core::{
    Acquire, Attempt, Claim, Demand, Error, ErrorKind, Grant, Instant, Mode, Released, Renew,
    Renewal, Ttl,
};

use crate::hub::{Inbox, Sample, number, tokens};
use crate::keys::Names;
use crate::link::Answer;
use crate::modes::Code;
use crate::scripts::{ACQUIRE, ACQUIRE_COUNTED, RELEASE, RENEW, Script};
use crate::wire::{Call, Reply};

mod many;
mod quick;

pub(crate) use many::{kept, renewed_of_many};
pub(crate) use quick::{
    Next, QuickRenewal, hand_over, handed_over, named, quick_acquire, quick_release, quick_renew,
    quick_wait, quickly_acquired, quickly_queued, quickly_released, quickly_renewed,
    single_release, voted_quickly,
};

/// The digits, separators and short words among the arguments.
const NUMBERS: usize = 96;

/// How the client of a request is told about a lock, and how many may wait for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting<'a> {
    pub(crate) inbox: Option<&'a Inbox>,
    pub(crate) limit: u32,
}

/// What the reply to [`acquire`] means.
#[derive(Debug)]
pub(crate) struct Acquired {
    pub(crate) attempt: Attempt,
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

pub(crate) fn acquire(
    names: &Names<'_>,
    request: &Acquire,
    waiting: Waiting<'_>,
) -> Result<Call, Error> {
    let Acquire { claim, ttl, .. } = request;
    let mode = Code::of(claim.mode)?;
    let inbox = waiting.inbox.map_or(&b""[..], Inbox::id);
    let mut call = about(acquiring(claim.mode), names, claim, inbox.len());
    call.number(ttl.as_millis()).number(request.tokens.get().into()).bytes(inbox);
    let is_queued = request.queue && waiting.inbox.is_some();
    if mode.is_understood() && !is_queued && request.from.is_none() {
        return Ok(call);
    }
    call.text(mode);
    if is_queued {
        let (place, claim) = (ttl.place().as_millis(), ttl.claim().as_millis());
        call.text(format_args!("{} {place} {claim}", waiting.limit));
    } else {
        call.bytes(b"");
    }
    if let Some(from) = request.from {
        call.text(Code::of(from)?);
    }
    Ok(call)
}

/// What the reply to [`acquire`] means.
pub(crate) fn acquired(
    request: &Acquire,
    waiting: Waiting<'_>,
    answer: &Answer,
) -> Result<Acquired, Error> {
    let read = match &answer.reply {
        Reply::Int(left) => Some(Acquired {
            attempt: Attempt::Busy { retry_after: remaining(*left) },
            sample: None,
        }),
        Reply::Text(text) => match text.strip_prefix(b"q ") {
            Some(text) => queued(text, request.ttl, answer.sent),
            None => granted(text, request.ttl, waiting.inbox.is_some(), answer.sent)
                .map(|grant| Acquired { attempt: Attempt::Granted(grant), sample: None }),
        },
        _ => None,
    };
    read.ok_or_else(|| unintelligible("acquire"))
}

pub(crate) fn renew(
    names: &Names<'_>,
    request: &Renew,
    inbox: Option<&Inbox>,
) -> Result<Call, Error> {
    let mode = Code::of(request.claim.mode)?;
    let inbox = inbox.map_or(&b""[..], Inbox::id);
    let mut call = about(&RENEW, names, &request.claim, inbox.len());
    call.number(request.ttl.as_millis()).number(request.tokens.into()).bytes(inbox);
    if !mode.is_understood() {
        call.text(mode);
    }
    Ok(call)
}

/// What the reply to [`renew`] means.
pub(crate) fn renewed(request: &Renew, answer: Result<Answer, Error>) -> Renewal {
    match answer {
        Ok(Answer { reply: Reply::Int(0), .. }) => Renewal::Lost,
        Ok(Answer { sent, reply: Reply::Text(text) }) => extended(&text, request.ttl, sent)
            .unwrap_or_else(|| Renewal::Unknown(unintelligible("renew"))),
        Ok(_) => Renewal::Unknown(unintelligible("renew")),
        // Whatever is at the key, it is not our lease any more.
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

/// What the reply to [`release`] means to a client that hears of its own releases, or does not.
pub(crate) fn released(
    answer: Result<Answer, Error>,
    hears_itself: bool,
) -> Result<Released, Error> {
    match answer {
        Ok(Answer { reply: Reply::Int(-1), .. }) => Ok(Released::NotHeld),
        Ok(Answer { reply: Reply::Int(told @ 0..), .. }) => {
            Ok(Released::Freed { contended: told > i64::from(hears_itself) })
        }
        Ok(_) => Err(unintelligible("release")),
        Err(error) if error.kind() == ErrorKind::ForeignKey => Ok(Released::NotHeld),
        Err(error) => Err(error),
    }
}

/// The beginning that all have in common: the keys, and the owner's token.
fn about(script: &'static Script, names: &Names<'_>, claim: &Claim, room: usize) -> Call {
    let limit = matches!(claim.mode, Mode::Permits { .. }).then(|| names.limit());
    let owner = claim.owner.expose();
    let mut call = on_keys(script, names, limit, owner.len() + room);
    call.bytes(owner);
    call
}

/// A call of a script on the key of a lock, that of its state, and on a third if there is one.
pub(crate) fn on_state_and(
    script: &'static Script,
    names: &Names<'_>,
    third: Option<&[u8]>,
    room: usize,
) -> Call {
    let state = names.state();
    let bytes = names.lock().len() + state[0].len() + state[1].len() + third.map_or(0, <[u8]>::len);
    let keys = if third.is_some() { 3 } else { 2 };
    let mut call = Call::new(script, keys, bytes + NUMBERS + room);
    call.bytes(names.lock()).pieces(state);
    if let Some(third) = third {
        call.bytes(third);
    }
    call
}

pub(crate) fn on_state(script: &'static Script, names: &Names<'_>, room: usize) -> Call {
    on_state_and(script, names, None, room)
}

/// A call of a script on the keys of a lock, and on one more if it takes a seventh.
pub(crate) fn on_keys(
    script: &'static Script,
    names: &Names<'_>,
    seventh: Option<[&[u8]; 2]>,
    room: usize,
) -> Call {
    let satellites = names.satellites().into_iter().chain(seventh);
    let (keys, bytes) =
        satellites.clone().fold((1, names.lock().len()), |(keys, bytes), pieces| {
            (keys + 1, bytes + pieces[0].len() + pieces[1].len())
        });
    let mut call = Call::new(script, keys, bytes + NUMBERS + room).keeping(names.keeping());
    call.bytes(names.lock());
    for satellite in satellites {
        call.pieces(satellite);
    }
    call
}

/// Reads `first last`, or `first last left demand`, to a client that hears of others who join the
/// queue, or does not.
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
    let demand = match (wanted, hears) {
        (true, _) => Demand::Wanted,
        (false, true) => Demand::Quiet,
        (false, false) => Demand::Unknown,
    };
    words.next().is_none().then(|| Grant::new(tokens, valid_for(lease, sent)).in_demand(demand))
}

/// Reads `left micros`.
fn queued(text: &[u8], ttl: Ttl, sent: Instant) -> Option<Acquired> {
    let (left, seen) = std::str::from_utf8(text).ok()?.split_once(' ')?;
    let repeat = ttl.place().duration() / 3;
    let left = remaining(time_left(left)?).map_or(repeat, |left| left.min(repeat));
    let sample = Sample { sent, seen: number(seen.as_bytes())? };
    let attempt = Attempt::Queued { retry_after: Some(left) };
    Some(Acquired { attempt, sample: Some(sample) })
}

/// Reads `demand`, or `demand first last`.
fn extended(text: &[u8], ttl: Ttl, sent: Instant) -> Option<Renewal> {
    let mut words = text.split(|byte| *byte == b' ');
    let demand = match words.next()? {
        b"w" => Demand::Wanted,
        b"q" => Demand::Quiet,
        b"u" => Demand::Unknown,
        _ => return None,
    };
    let tokens = match words.next() {
        Some(first) => Some(tokens(number(first)?, number(words.next()?)?)?),
        None => None,
    };
    let valid_until = ttl.valid_until(sent);
    let renewed = Renewal::Renewed { valid_until, tokens, demand };
    words.next().is_none().then_some(renewed)
}

/// When a lease ends for its holder to which the server gives so much.
fn valid_for(lease: Duration, sent: Instant) -> Instant {
    match Ttl::new(lease) {
        Ok(lease) => lease.valid_until(sent),
        Err(_) => sent + lease.min(Ttl::MAX.duration()).saturating_sub(Ttl::MIN.drift()),
    }
}

/// Reads a time that is left, or that a lease has no end.
pub(crate) fn time_left(text: &str) -> Option<i64> {
    if text == "-1" { Some(-1) } else { number(text.as_bytes()) }
}

/// What PTTL says. A server that shows a key at all may say that nothing is left of it.
pub(crate) fn remaining(left: i64) -> Option<Duration> {
    match left {
        -1 => None,
        left => Some(Duration::from_millis(left.max(1).unsigned_abs())),
    }
}

pub(crate) fn unintelligible(verb: &str) -> Error {
    Error::new(ErrorKind::Protocol, format!("the script to {verb} was answered with nonsense"))
}

#[cfg(test)]
mod tests {
    use lock_core::{Key, OwnerToken};
    use proptest::prelude::*;

    use super::*;
    use crate::wire::garbage::{self, is_left, is_number};

    fn ttl(millis: u64) -> Ttl {
        Ttl::new(Duration::from_millis(millis)).unwrap()
    }

    #[test]
    fn a_fresh_grant_is_dated_by_what_was_asked_for() {
        let sent = Instant::from_nanos(5);
        let text = b"1795000000000000 1795000000000063";
        let grant = granted(text, ttl(30_000), false, sent).unwrap();
        assert_eq!(grant.tokens.first().get(), 1_795_000_000_000_000);
        assert_eq!(grant.tokens.count().get(), 64);
        assert_eq!(grant.valid_until, ttl(30_000).valid_until(sent));
        assert_eq!(grant.demand, Demand::Unknown);
        assert_eq!(granted(text, ttl(30_000), true, sent).unwrap().demand, Demand::Quiet);
    }

    #[test]
    fn another_grant_is_dated_by_what_the_server_gives() {
        let sent = Instant::from_nanos(5);
        let grant = |text: &[u8]| granted(text, ttl(30_000), true, sent).unwrap();
        assert_eq!(grant(b"7 7 1000 q").valid_until, ttl(1_000).valid_until(sent));
        assert_eq!(grant(b"7 7 90000 q").valid_until, ttl(90_000).valid_until(sent));
        assert_eq!(grant(b"7 7 0 q").valid_until, sent);
        assert!(grant(b"7 7 9 q").valid_until < sent + Duration::from_millis(9));
        assert!(grant(b"7 7 99999999999 q").valid_until < sent + Ttl::MAX.duration());
        assert_eq!(grant(b"7 7 9 q").demand, Demand::Quiet);
        assert_eq!(grant(b"7 7 9 w").demand, Demand::Wanted);
    }

    #[test]
    fn a_place_is_renewed_after_a_third_of_its_time_or_when_the_lease_ends() {
        let sent = Instant::from_nanos(5);
        let after = |text: &[u8]| {
            let Acquired { attempt, sample } = queued(text, ttl(30_000), sent).unwrap();
            assert_eq!(sample, Some(Sample { sent, seen: 1_795_000_000_000_000 }));
            let Attempt::Queued { retry_after } = attempt else { panic!() };
            retry_after.unwrap()
        };
        assert_eq!(after(b"300 1795000000000000"), Duration::from_millis(300));
        assert_eq!(after(b"20000 1795000000000000"), Duration::from_secs(10));
        assert_eq!(after(b"-1 1795000000000000"), Duration::from_secs(10));
    }

    #[test]
    fn a_renewal_may_bring_tokens() {
        let sent = Instant::from_nanos(5);
        let renewed = |text: &[u8]| match extended(text, ttl(1_000), sent).unwrap() {
            Renewal::Renewed { valid_until, tokens, demand } => {
                assert_eq!(valid_until, ttl(1_000).valid_until(sent));
                (tokens.map(|range| range.count().get()), demand)
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(renewed(b"w"), (None, Demand::Wanted));
        assert_eq!(renewed(b"q 7 9"), (Some(3), Demand::Quiet));
        assert_eq!(renewed(b"u 7 7"), (Some(1), Demand::Unknown));
    }

    #[test]
    fn nonsense_is_no_answer() {
        let sent = Instant::from_nanos(0);
        for text in [
            "",
            "7",
            "7 6",
            "x y",
            "1 9999999999999",
            "1 2 x",
            "-1 2",
            "1 2 3",
            "1 2 3 x",
            "1 2 3 q 4",
        ] {
            assert_eq!(granted(text.as_bytes(), ttl(30_000), true, sent), None, "{text}");
        }
        for text in ["", "x", "w 1", "w 2 1", "w 1 2 3", "w  "] {
            assert!(extended(text.as_bytes(), ttl(30_000), sent).is_none(), "{text}");
        }
        for text in ["", "1", "x 1", "1 x", "1 -1", "1 2 3"] {
            assert!(queued(text.as_bytes(), ttl(1_000), sent).is_none(), "{text}");
        }
    }

    #[test]
    fn the_end_of_a_lease_is_never_in_the_past() {
        assert_eq!(remaining(-1), None);
        for over in [0, -2] {
            assert_eq!(remaining(over), Some(Duration::from_millis(1)));
        }
    }

    fn words(text: &[u8]) -> Option<Vec<&str>> {
        Some(std::str::from_utf8(text).ok()?.split(' ').collect())
    }

    /// Whether two words are the first and the last of at most so many tokens.
    fn is_range(first: &str, last: &str) -> bool {
        let number = |word: &str| word.parse::<u128>().unwrap();
        [first, last].iter().all(|word| is_number(word, u64::MAX))
            && number(first) <= number(last)
            && number(last) - number(first) < u128::from(u32::MAX)
    }

    fn is_granted(text: &[u8]) -> bool {
        match words(text).as_deref() {
            Some([first, last]) => is_range(first, last),
            Some([first, last, left, "q" | "w"]) => {
                is_range(first, last) && is_number(left, u64::MAX)
            }
            _ => false,
        }
    }

    fn is_queued(text: &[u8]) -> bool {
        matches!(words(text).as_deref(), Some(["q", left, seen]) if is_left(left) && is_number(seen, u64::MAX))
    }

    fn is_extended(text: &[u8]) -> bool {
        match words(text).as_deref() {
            Some(["q" | "w" | "u"]) => true,
            Some(["q" | "w" | "u", first, last]) => is_range(first, last),
            _ => false,
        }
    }

    fn request() -> Acquire {
        let claim = Claim::exclusive(Key::new("a").unwrap(), OwnerToken::from_bytes([7; 16]));
        Acquire::new(claim, ttl(30_000)).queued()
    }

    fn renewal() -> Renew {
        Renew::new(request().claim, ttl(30_000))
    }

    fn text_of(reply: &Reply) -> &[u8] {
        if let Reply::Text(text) = reply { text } else { b"no text" }
    }

    fn answers() -> impl Strategy<Value = Reply> {
        let queued = garbage::texts().prop_map(|text| Reply::Text([b"q ", &text[..]].concat()));
        let texts = garbage::texts().prop_map(Reply::Text);
        prop_oneof![2 => garbage::replies(), 1 => queued, 2 => texts]
    }

    const SENT: Instant = Instant::from_nanos(1 << 40);

    proptest! {
        /// Every answer is what a script says, to the letter, or an error.
        #[test]
        fn an_answer_to_acquire_is_read_or_refused(reply in answers(), hears: bool) {
            let inbox = Inbox::new(b"lock:inbox:0123456789abcdef");
            let waiting = Waiting { inbox: hears.then_some(&inbox), limit: 9 };
            let answer = Answer { sent: SENT, reply: reply.clone() };
            let text = text_of(&reply);
            match acquired(&request(), waiting, &answer) {
                Ok(Acquired { attempt: Attempt::Granted(grant), sample: None }) => {
                    prop_assert!(is_granted(text), "{:?}", reply);
                    prop_assert!(grant.tokens.first() <= grant.tokens.last());
                    prop_assert!(grant.valid_until < SENT + Ttl::MAX.duration());
                    let is_fresh = words(text).unwrap().len() == 2;
                    prop_assert!(!is_fresh || grant.valid_until == ttl(30_000).valid_until(SENT));
                }
                Ok(Acquired { attempt: Attempt::Queued { retry_after }, sample: Some(_) }) => {
                    prop_assert!(is_queued(text), "{:?}", reply);
                    let (least, most) = (Duration::from_millis(1), Duration::from_secs(10));
                    prop_assert!((least..=most).contains(&retry_after.unwrap()));
                }
                Ok(Acquired { attempt: Attempt::Busy { .. }, sample: None }) => {
                    prop_assert!(matches!(reply, Reply::Int(_)));
                }
                Ok(other) => prop_assert!(false, "{:?}", other),
                Err(error) => {
                    prop_assert_eq!(error.kind(), ErrorKind::Protocol);
                    let is_sense = is_granted(text) || is_queued(text) || matches!(reply, Reply::Int(_));
                    prop_assert!(!is_sense, "{:?}", reply);
                }
            }
        }

        #[test]
        fn an_answer_to_renew_is_read_or_says_nothing(reply in answers()) {
            let answer = Answer { sent: SENT, reply: reply.clone() };
            match renewed(&renewal(), Ok(answer)) {
                Renewal::Renewed { valid_until, .. } => {
                    prop_assert!(is_extended(text_of(&reply)), "{:?}", reply);
                    prop_assert_eq!(valid_until, ttl(30_000).valid_until(SENT));
                }
                Renewal::Lost => prop_assert_eq!(reply, Reply::Int(0)),
                Renewal::Unknown(error) => {
                    prop_assert_eq!(error.kind(), ErrorKind::Protocol);
                    prop_assert!(!is_extended(text_of(&reply)), "{:?}", reply);
                }
                other => prop_assert!(false, "{:?}", other),
            }
        }

        #[test]
        fn an_answer_to_release_is_read_or_refused(reply in answers(), hears: bool) {
            let answer = Answer { sent: SENT, reply: reply.clone() };
            let released = released(Ok(Answer { sent: SENT, reply: reply.clone() }), hears);
            match (&reply, &released) {
                (Reply::Int(-1), Ok(Released::NotHeld)) => {}
                (Reply::Int(told @ 0..), Ok(Released::Freed { contended })) => {
                    prop_assert_eq!(*contended, *told > i64::from(hears));
                }
                (Reply::Int(-1..) , _) => prop_assert!(false, "{:?}", released),
                (_, Err(error)) => prop_assert_eq!(error.kind(), ErrorKind::Protocol),
                (reply, _) => prop_assert!(false, "{:?} {:?}", reply, released),
            }
            let (next, inbox) = (request(), Inbox::new(b"lock:inbox:0123456789abcdef"));
            for next in [None, Some((&next, &inbox))] {
                let text = matches!(reply, Reply::Text(_)).then(|| text_of(&reply));
                match handed_over(next, &answer, hears) {
                    Ok(Some((_, Some(_)))) => prop_assert!(is_queued(text_of(&reply)), "{:?}", reply),
                    Ok(Some((Released::Freed { contended }, None))) => {
                        let told = text.and_then(|it| it.strip_prefix(b"f ")).map(number::<u64>);
                        let more = told.flatten().is_some_and(|told| told > u64::from(hears));
                        prop_assert!(text == Some(b"") || told.is_some(), "{:?}", reply);
                        prop_assert_eq!(contended, more);
                    }
                    Ok(Some(other)) => prop_assert!(false, "{:?}", other),
                    Ok(None) => prop_assert_eq!(text, Some(&b"?"[..])),
                    Err(error) => {
                        prop_assert_eq!(error.kind(), ErrorKind::Protocol);
                        prop_assert!(next.is_none() || !is_queued(text_of(&reply)));
                    }
                }
            }
        }

        #[test]
        fn a_damaged_grant_is_nonsense_or_another(at in 0usize..40, byte: u8, cut: bool) {
            let good = b"1795000000000000 1795000000000063 900 w";
            let mut text = good.to_vec();
            if cut { text.truncate(at) } else if let Some(place) = text.get_mut(at) { *place = byte }
            prop_assert_eq!(granted(&text, ttl(30_000), true, SENT).is_some(), is_granted(&text));
        }
    }
}
