//! The value beside a lock: as it comes with a grant, and as it is written in the step that releases the lock.

use lock_core::{Cell, Claim, Committed, Error, FencingToken, Grant, LoadedValue, OwnerToken};

use super::quick::{on_queue, script};
use super::{NUMBERS, number, unintelligible};
use crate::keys::Names;
use crate::link::Answer;
use crate::scripts::{TERM_VALUE_HAND_OVER, VALUE_HAND_OVER, VALUE_RELEASE};
use crate::wire::{Call, Reply, Script};

/// What a grant says of the value: nothing, or what its holder would load.
pub(super) type Brought = Option<LoadedValue>;

/// The reply without the value, and the value. `owner` asks for the grant.
pub(super) fn split<'a>(reply: &'a Reply, owner: &OwnerToken) -> (&'a Reply, Brought) {
    let Reply::List(parts) = reply else { return (reply, None) };
    let [grant @ Reply::Text(_), value] = &parts[..] else { return (reply, None) };
    let brought = match value {
        Reply::Nil => Some(LoadedValue::new(None)),
        Reply::Text(text) => kept(text, owner).map(|cell| LoadedValue::new(Some(cell))),
        _ => None,
    };
    (grant, brought)
}

pub(super) fn bringing(grant: Grant, value: Brought) -> Grant {
    match value {
        Some(value) => grant.bringing(value),
        None => grant,
    }
}

/// Reads `owner token value`, as `owner` finds it, who holds the lock alone. `None` if it is something else.
fn kept(text: &[u8], owner: &OwnerToken) -> Option<Cell> {
    let mut words = text.splitn(3, |byte| *byte == b' ');
    let (writer, token, value) = (words.next()?, words.next()?, words.next()?);
    let token = FencingToken::new(number(token)?);
    let is_writer = writer.len() == 32 && writer.iter().all(u8::is_ascii_hexdigit);
    is_writer.then(|| Cell::new(value.to_vec(), token, writer == owner.expose()))
}

/// A call that names the lock, its state and its value.
pub(super) fn on_value(script: &'static Script, names: &Names<'_>, room: usize) -> Call {
    let (lock, keys) = (names.lock(), [names.state(), names.cell()]);
    let bytes: usize = keys.iter().flatten().map(|piece| piece.len()).sum();
    let mut call = Call::new(script, 3, lock.len() + bytes + NUMBERS + room);
    call.bytes(lock).pieces(keys[0]).pieces(keys[1]);
    call
}

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
    let contended = match &text[..] {
        b"?" => return Ok(None),
        b"n" => return Ok(Some(Committed::NotHeld)),
        b"" | b"d" => false,
        text => {
            let told = text.strip_prefix(b"f ").ok_or_else(nonsense)?;
            number::<u64>(told).ok_or_else(nonsense)? > u64::from(hears_itself)
        }
    };
    Ok(Some(Committed::Done { contended }))
}

#[cfg(test)]
mod tests {
    use lock_core::Instant;
    use proptest::prelude::*;

    use super::*;
    use crate::wire::garbage;

    fn owner() -> OwnerToken {
        OwnerToken::from_bytes([7; 16])
    }

    fn text(bytes: &[u8]) -> Reply {
        Reply::Text(bytes.to_vec())
    }

    #[test]
    fn a_grant_brings_a_value_whatever_its_bytes() {
        let cell = [owner().expose(), b" 18446744073709551615  a \0\r\n"].concat();
        let reply = Reply::List(vec![text(b"state"), text(&cell)]);
        let (grant, brought) = split(&reply, &owner());
        assert_eq!(grant, &text(b"state"));
        let brought = brought.unwrap();
        let cell = brought.cell().unwrap();
        assert_eq!((&cell.value[..], cell.token.get()), (&b" a \0\r\n"[..], u64::MAX));
        assert!(cell.held);
        let none = Reply::List(vec![text(b"state"), Reply::Nil]);
        assert_eq!(split(&none, &owner()).1, Some(LoadedValue::new(None)));
        assert_eq!(split(&text(b"state"), &owner()).1, None);
    }

    proptest! {
        #[test]
        fn nonsense_brings_nothing_and_commits_nothing(reply in garbage::replies()) {
            let list = Reply::List(vec![text(b"state"), reply.clone()]);
            let (_, brought) = split(&list, &owner());
            match &reply {
                Reply::Nil => prop_assert!(brought.is_some()),
                Reply::Text(_) => {}
                _ => prop_assert!(brought.is_none()),
            }
            let answer = Answer { sent: Instant::from_nanos(5), reply: reply.clone() };
            if let Ok(Some(Committed::Done { .. })) = committed(&answer, false) {
                let Reply::Text(said) = &reply else { panic!("{reply:?}") };
                prop_assert!(said.is_empty() || said == b"d" || said.starts_with(b"f "));
            }
        }
    }
}
