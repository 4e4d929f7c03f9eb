//! The answers for many requests in one call.

use lock_core::{Acquire, Error, Renew, Renewal};

use super::{Acquired, queued, renewed, unintelligible};
use crate::link::Answer;
use crate::wire::Reply;

/// The meaning of the answer for one lease. It names no tokens, which such a renewal never asks
/// for.
pub(crate) fn renewed_of_many(request: &Renew, answer: Answer) -> Renewal {
    match &answer.reply {
        Reply::Text(text) if text.contains(&b' ') => Renewal::Unknown(unintelligible("renew")),
        _ => renewed(request, Ok(answer)),
    }
}

/// The meaning of the answer for one claim that kept its place. It grants nothing.
pub(crate) fn kept(request: &Acquire, answer: &Answer) -> Result<Acquired, Error> {
    let Reply::Text(text) = &answer.reply else { return Err(unintelligible("acquire")) };
    let queued = text.strip_prefix(b"q ").and_then(|text| queued(text, request.ttl, answer.sent));
    queued.ok_or_else(|| unintelligible("acquire"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lock_core::{
        AcquireOutcome, Claim, Contention, ErrorKind, Instant, Key, OwnerToken, Renewal::Renewed,
        Ttl,
    };
    use proptest::prelude::*;

    use super::*;
    use crate::wire::garbage::{self, is_left, is_number};

    const SENT: Instant = Instant::from_nanos(1 << 40);

    fn claim() -> Claim {
        Claim::exclusive(Key::new("a").unwrap(), OwnerToken::from_bytes([7; 16]))
    }

    fn replies() -> impl Strategy<Value = Reply> {
        let queued = garbage::texts().prop_map(|text| Reply::Text([b"q ", &text[..]].concat()));
        prop_oneof![garbage::replies(), queued]
    }

    proptest! {
        #[test]
        fn a_lease_among_many_is_renewed_to_the_letter(reply in replies()) {
            let answer = Answer { sent: SENT, reply: reply.clone() };
            let contention = |contention| Some(Some(contention));
            let expected = match &reply {
                Reply::Int(0) => Some(None),
                Reply::Text(text) if text == b"w" => contention(Contention::Contended),
                Reply::Text(text) if text == b"q" => contention(Contention::Quiet),
                Reply::Text(text) if text == b"u" => contention(Contention::Unknown),
                _ => None,
            };
            match renewed_of_many(&Renew::new(claim(), Ttl::DEFAULT), answer) {
                Renewed { valid_until, tokens, contention } => {
                    prop_assert_eq!(Some(Some(contention)), expected, "{:?}", reply);
                    prop_assert_eq!(valid_until, Ttl::DEFAULT.valid_until(SENT));
                    prop_assert_eq!(tokens, None);
                }
                Renewal::Lost => prop_assert_eq!(expected, Some(None)),
                Renewal::Unknown(error) => {
                    prop_assert_eq!((error.kind(), expected), (ErrorKind::Protocol, None));
                }
                other => prop_assert!(false, "{:?}", other),
            }
        }

        #[test]
        fn a_place_among_many_is_kept_to_the_letter(reply in replies()) {
            let answer = Answer { sent: SENT, reply: reply.clone() };
            let text = if let Reply::Text(text) = &reply { &text[..] } else { b"" };
            let words = std::str::from_utf8(text).unwrap_or_default().split(' ').collect::<Vec<_>>();
            let is_queued = matches!(
                words[..], ["q", left, micros] if is_left(left) && is_number(micros, u64::MAX)
            );
            match kept(&Acquire::new(claim(), Ttl::DEFAULT).queued(), &answer) {
                Ok(Acquired { attempt: AcquireOutcome::Queued { retry_after }, sample: Some(_) }) => {
                    prop_assert!(is_queued, "{:?}", reply);
                    let third = Ttl::DEFAULT.for_place().duration() / 3;
                    prop_assert!((Duration::from_millis(1)..=third).contains(&retry_after.unwrap()));
                }
                Ok(other) => prop_assert!(false, "{:?}", other),
                Err(error) => {
                    prop_assert_eq!(error.kind(), ErrorKind::Protocol);
                    prop_assert!(!is_queued, "{:?}", reply);
                }
            }
        }
    }
}
