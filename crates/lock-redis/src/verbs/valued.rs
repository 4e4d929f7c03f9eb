//! The value beside a lock, as it is written in the step that releases the lock.

use lock_core::{Claim, Committed, Error, FencingToken};

use super::quick::{on_queue, on_value, script};
use super::{NUMBERS, number, others, unintelligible};
use crate::keys::Names;
use crate::link::Answer;
use crate::scripts::{TERM_VALUE_HAND_OVER, VALUE_HAND_OVER, VALUE_RELEASE};
use crate::wire::{Call, Reply};

/// Writes the value and releases a lock that no claim waits for. The reply is that of a quick release.
pub(crate) fn value_release(
    names: &Names<'_>,
    claim: &Claim,
    token: FencingToken,
    value: &[u8],
) -> Call {
    let (owner, channel) = (claim.owner.expose(), names.released());
    let room = owner.len() + value.len() + channel.map(<[u8]>::len).iter().sum::<usize>();
    let mut call = on_value(VALUE_RELEASE.with_terms(names.has_terms()), names, room);
    call.bytes(owner).number(token.get()).bytes(value).pieces(channel).number(names.values_kept());
    call
}

/// Writes the value and hands the lock over, or frees it.
pub(crate) fn value_hand_over(
    names: &Names<'_>,
    claim: &Claim,
    tell: bool,
    (token, value): (FencingToken, &[u8]),
) -> Call {
    let channel = names.released();
    let room = 2 * channel.map(<[u8]>::len).iter().sum::<usize>() + value.len() + 2 * NUMBERS;
    let script = script(names, &VALUE_HAND_OVER, &TERM_VALUE_HAND_OVER);
    let mut call = on_queue(script, names, claim, Some(names.cell()), room);
    call.bytes(b"").number(0).bytes(b"");
    if tell {
        call.pieces(channel);
    } else {
        call.bytes(b"");
    }
    call.number(token.get()).bytes(value).pieces(channel).number(names.values_kept());
    call
}

/// The meaning of the reply to [`value_hand_over`], for a client that hears of its own releases, or for one that does
/// not; `None` if the value was written and the full script has to release the lock.
pub(crate) fn committed(answer: &Answer, hears_itself: bool) -> Result<Option<Committed>, Error> {
    let nonsense = || unintelligible("commit");
    let Reply::Text(text) = &answer.reply else { return Err(nonsense()) };
    let told = match &text[..] {
        b"?" => return Ok(None),
        b"n" => return Ok(Some(Committed::NotHeld)),
        b"" | b"d" => 0,
        text => {
            let told = text.strip_prefix(b"f ").ok_or_else(nonsense)?;
            others(number(told).ok_or_else(nonsense)?, hears_itself)
        }
    };
    Ok(Some(Committed::Done { told }))
}

#[cfg(test)]
mod tests {
    use lock_core::Instant;
    use proptest::prelude::*;

    use super::*;
    use crate::wire::garbage;

    proptest! {
        #[test]
        fn nonsense_commits_nothing(reply in garbage::replies()) {
            let answer = Answer { sent: Instant::from_nanos(5), reply: reply.clone() };
            if let Ok(Some(Committed::Done { .. })) = committed(&answer, false) {
                let Reply::Text(said) = &reply else { panic!("{reply:?}") };
                prop_assert!(said.is_empty() || said == b"d" || said.starts_with(b"f "));
            }
        }
    }
}
