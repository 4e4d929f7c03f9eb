//! The answers for one request of many that were sent together.

use lock_core::{Acquire, Error, Renew, Renewal};

use super::{Acquired, queued, renewed, unintelligible};
use crate::link::Answer;
use crate::wire::Reply;

/// What the answer for one lease means. It names no tokens, which no such renewal asks for.
pub(crate) fn renewed_of_many(request: &Renew, answer: Answer) -> Renewal {
    match &answer.reply {
        Reply::Text(text) if text.contains(&b' ') => Renewal::Unknown(unintelligible("renew")),
        _ => renewed(request, Ok(answer)),
    }
}

/// What the answer for one claim that had its place means. It grants nothing.
pub(crate) fn kept(request: &Acquire, answer: &Answer) -> Result<Acquired, Error> {
    let Reply::Text(text) = &answer.reply else { return Err(unintelligible("acquire")) };
    let queued = text.strip_prefix(b"q ").and_then(|text| queued(text, request.ttl, answer.sent));
    queued.ok_or_else(|| unintelligible("acquire"))
}
