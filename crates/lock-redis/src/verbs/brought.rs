//! The value beside a lock, as it comes with a grant.

use lock_core::{Cell, FencingToken, Grant, LoadedValue, OwnerToken};

use crate::hub::number;
use crate::wire::Reply;

/// What a grant says of the value: nothing, or what its holder would load.
pub(super) type Brought = Option<LoadedValue>;

/// The reply without the value, and the value. `owner` asks for the grant. Any other reply stays as it is.
pub(super) fn split<'a>(reply: &'a Reply, owner: &OwnerToken) -> (&'a Reply, Brought) {
    let Reply::List(parts) = reply else { return (reply, None) };
    let [grant @ Reply::Text(_), value] = &parts[..] else { return (reply, None) };
    let brought = match value {
        Reply::Nil => Some(LoadedValue::new(None)),
        Reply::Text(text) => kept(text, owner).map(|cell| LoadedValue::new(Some(cell))),
        _ => return (reply, None),
    };
    (grant, brought)
}

pub(super) fn bringing(grant: Grant, value: Brought) -> Grant {
    match value {
        Some(value) => grant.bringing(value),
        None => grant,
    }
}

/// Reads `owner token value` for `owner`, which holds the lock alone. `None` for other content.
fn kept(text: &[u8], owner: &OwnerToken) -> Option<Cell> {
    let mut words = text.splitn(3, |byte| *byte == b' ');
    let (writer, token, value) = (words.next()?, words.next()?, words.next()?);
    let token = FencingToken::new(number(token)?);
    let is_writer = writer.len() == 32 && writer.iter().all(u8::is_ascii_hexdigit);
    is_writer.then(|| Cell::new(value.to_vec(), token, writer == owner.expose()))
}

#[cfg(test)]
mod tests {
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
        fn nonsense_brings_nothing(reply in garbage::replies()) {
            let list = Reply::List(vec![text(b"state"), reply.clone()]);
            let (_, brought) = split(&list, &owner());
            match &reply {
                Reply::Nil => prop_assert!(brought.is_some()),
                Reply::Text(_) => {}
                _ => prop_assert!(brought.is_none()),
            }
        }
    }
}
