//! Code that both kinds of tests of the machine share.

use std::time::Duration;

use lock_core::{Error, ErrorKind, Instant, Ttl};
use proptest::prelude::*;

use crate::engine::policy::Policy;
use crate::engine::queue::Patience;

/// The length of the leases of every machine.
pub(in crate::engine) const TTL: Duration = Duration::from_secs(3);

/// The promises of a lock without options.
pub(in crate::engine) fn policy() -> Policy {
    Policy {
        ttl: Ttl::new(TTL).unwrap(),
        renew: true,
        max_hold: None,
        outage_limit: None,
        converts: true,
        label: None,
    }
}

/// How many cases a property tries: `LOCK_ENGINE_CASES`, or this number.
pub(in crate::engine) fn cases(default: u32) -> u32 {
    std::env::var("LOCK_ENGINE_CASES").map_or(default, |cases| cases.parse().expect("a number"))
}

/// How long a caller waits.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) enum Limit {
    Try,
    Millis(u64),
    None,
}

impl Limit {
    pub(in crate::engine) fn patience(self, now: Instant) -> Patience {
        match self {
            Self::Try => Patience::Try,
            Self::Millis(millis) => Patience::Until(now + Duration::from_millis(millis)),
            Self::None => Patience::Forever,
        }
    }
}

/// The outcome of a request: whether the store applied it, and which answer the client gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::engine) enum Answer {
    Truth,
    /// The store applied the request, and the reply was lost.
    ReplyLost,
    /// The request never arrived.
    Lost,
    /// The store refused the request for good.
    Denied,
}

/// Any answer, all with equal probability.
pub(in crate::engine) fn any_answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        Just(Answer::Truth),
        Just(Answer::ReplyLost),
        Just(Answer::Lost),
        Just(Answer::Denied)
    ]
}

/// The error of a request with this answer, if the request fails on this leg of the trip.
pub(in crate::engine) fn failure(answer: Answer, at: Answer) -> Result<(), Error> {
    match answer {
        Answer::Denied => Err(Error::new(ErrorKind::Denied, "no")),
        answer if answer == at => Err(Error::new(ErrorKind::Unreachable, "lost")),
        _ => Ok(()),
    }
}
