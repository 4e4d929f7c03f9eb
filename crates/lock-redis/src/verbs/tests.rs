//! The calls that requests become, and the outcomes that replies become.

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
    assert_eq!(grant.contention, Contention::Unknown);
    assert_eq!(granted(text, ttl(30_000), true, sent).unwrap().contention, Contention::Quiet);
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
    assert_eq!(grant(b"7 7 9 q").contention, Contention::Quiet);
    assert_eq!(grant(b"7 7 9 w").contention, Contention::Contended);
}

#[test]
fn a_place_is_renewed_after_a_third_of_its_time_or_when_the_lease_ends() {
    let sent = Instant::from_nanos(5);
    let after = |text: &[u8]| {
        let Acquired { attempt, sample } = queued(text, ttl(30_000), sent).unwrap();
        assert_eq!(sample, Some(Sample { sent, seen: 1_795_000_000_000_000 }));
        let AcquireOutcome::Queued { retry_after } = attempt else { panic!() };
        retry_after.unwrap()
    };
    assert_eq!(after(b"300 1795000000000000"), Duration::from_millis(300));
    assert_eq!(after(b"20000 1795000000000000"), Duration::from_secs(10));
    assert_eq!(after(b"-1 1795000000000000"), Duration::from_secs(10));
}

#[test]
fn a_renewal_that_would_shorten_the_lease_learns_its_end() {
    let said =
        |text: &str| Answer { sent: Instant::from_nanos(5), reply: Reply::Text(text.into()) };
    assert_eq!(would_shorten(&said("l 1795000000000")), Some(End(1_795_000_000_000)));
    for other in ["l", "l ", "l -1", "l 1 2", "u", "q 1 2"] {
        assert_eq!(would_shorten(&said(other)), None, "{other}");
    }
}

#[test]
fn a_renewal_may_bring_tokens() {
    let sent = Instant::from_nanos(5);
    let renewed = |text: &[u8]| match extended(text, ttl(1_000), sent).unwrap() {
        Renewal::Renewed { valid_until, tokens, contention } => {
            assert_eq!(valid_until, ttl(1_000).valid_until(sent));
            (tokens.map(|range| range.count().get()), contention)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(renewed(b"w"), (None, Contention::Contended));
    assert_eq!(renewed(b"q 7 9"), (Some(3), Contention::Quiet));
    assert_eq!(renewed(b"u 7 7"), (Some(1), Contention::Unknown));
}

#[test]
fn nonsense_is_no_answer() {
    let sent = Instant::from_nanos(0);
    for text in
        ["", "7", "7 6", "x y", "1 9999999999999", "1 2 x", "-1 2", "1 2 3", "1 2 3 x", "1 2 3 q 4"]
    {
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

/// Whether two words are the first and the last of a range of tokens, of at most this many.
fn is_range(first: &str, last: &str) -> bool {
    let number = |word: &str| word.parse::<u128>().unwrap();
    [first, last].iter().all(|word| is_number(word, u64::MAX))
        && number(first) <= number(last)
        && number(last) - number(first) < u128::from(u32::MAX)
}

fn is_granted(text: &[u8]) -> bool {
    match words(text).as_deref() {
        Some([first, last]) => is_range(first, last),
        Some([first, last, left, "q" | "w"]) => is_range(first, last) && is_number(left, u64::MAX),
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
    /// Every answer is exactly that of a script, or an error.
    #[test]
    fn an_answer_to_acquire_is_read_or_refused(reply in answers(), hears: bool) {
        let inbox = Inbox::new(b"lock:inbox:0123456789abcdef");
        let waiting = Waiting { inbox: hears.then_some(&inbox), limit: 9 };
        let answer = Answer { sent: SENT, reply: reply.clone() };
        let text = text_of(&reply);
        match acquired(&request(), waiting, &answer) {
            Ok(Acquired { attempt: AcquireOutcome::Granted(grant), sample: None }) => {
                prop_assert!(is_granted(text), "{:?}", reply);
                prop_assert!(grant.tokens.first() <= grant.tokens.last());
                prop_assert!(grant.valid_until < SENT + Ttl::MAX.duration());
                let is_fresh = words(text).unwrap().len() == 2;
                prop_assert!(!is_fresh || grant.valid_until == ttl(30_000).valid_until(SENT));
            }
            Ok(Acquired { attempt: AcquireOutcome::Queued { retry_after }, sample: Some(_) }) => {
                prop_assert!(is_queued(text), "{:?}", reply);
                let (least, most) = (Duration::from_millis(1), Duration::from_secs(10));
                prop_assert!((least..=most).contains(&retry_after.unwrap()));
            }
            Ok(Acquired { attempt: AcquireOutcome::Busy { .. }, sample: None }) => {
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
        let is_late = would_shorten(&answer).is_some();
        match renewed(&renewal(), Ok(answer)) {
            Renewal::Renewed { valid_until, .. } => {
                prop_assert!(is_extended(text_of(&reply)), "{:?}", reply);
                prop_assert_eq!(valid_until, ttl(30_000).valid_until(SENT));
            }
            Renewal::Lost => prop_assert_eq!(reply, Reply::Int(0)),
            Renewal::Unknown(error) => {
                let kind = if is_late { ErrorKind::NotReady } else { ErrorKind::Protocol };
                prop_assert_eq!(error.kind(), kind);
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
            (Reply::Int(told @ 0..), Ok(Released::Freed { told: others })) => {
                prop_assert_eq!(i64::from(*others), (*told - i64::from(hears)).clamp(0, u32::MAX.into()));
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
                Ok(Some((Released::Freed { told: others }, None))) => {
                    let told = text.and_then(|it| it.strip_prefix(b"f ")).map(number::<u64>);
                    let told_others = told.flatten().map_or(0, |told| told.saturating_sub(u64::from(hears)));
                    prop_assert!(text == Some(b"") || told.is_some(), "{:?}", reply);
                    prop_assert_eq!(u64::from(others), told_others.min(u32::MAX.into()));
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
