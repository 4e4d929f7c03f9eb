//! Lists of locks: walks through the keys of the servers.

use std::collections::HashSet;

use lock_core::{Cursor, Error, ErrorKind, Key, List};

use crate::hub::number;
use crate::keys::Layout;
use crate::scripts::LIST;
use crate::topology::{Fleet, Site};
use crate::verbs;
use crate::wire::{Call, Failure, Reply};

/// The most keys that a server looks at in one step, so that a step is short.
const MOST_KEYS: u32 = 1000;

/// One step of a walk: the locks that one server may hold, and where the next step begins.
pub(crate) async fn step(
    fleet: &Fleet,
    layout: &Layout,
    list: &List,
) -> Result<(Vec<Key>, Option<Cursor>), Error> {
    let (sites, print) = servers(fleet).await?;
    let at = match &list.from {
        Some(cursor) => {
            Position::read(cursor).filter(|at| at.print == print).ok_or_else(foreign)?
        }
        None => Position { print, server: 0, begin: "0".to_owned() },
    };
    let site = sites.get(at.server).ok_or_else(foreign)?;
    let answer = site.run(call(layout, list, &at.begin)).await.map_err(Failure::into_error)?;
    let (begin, found) = stepped(answer.reply).ok_or_else(|| verbs::unintelligible("list"))?;
    // A lock may show by several keys.
    let keys: HashSet<Key> =
        found.iter().filter_map(|found| layout.lock_at(found, list.raw)).collect();
    let next = match begin.as_str() {
        "0" => Position { server: at.server + 1, begin, ..at },
        _ => Position { begin, ..at },
    };
    let next = (next.server < sites.len()).then(|| next.cursor());
    Ok((keys.into_iter().filter(|key| list.has(key)).collect(), next))
}

/// The primaries in the order of their addresses, and a number that differs for other primaries.
async fn servers(fleet: &Fleet) -> Result<(Vec<Site>, u64), Error> {
    let mut servers = Vec::new();
    for site in fleet.all().await?.0 {
        let address = site.link().connected().await?.endpoint().address.to_string();
        servers.push((address, site));
    }
    servers.sort_by(|(one, _), (other, _)| one.cmp(other));
    let print = fingerprint(servers.iter().map(|(address, _)| address.as_str()));
    Ok((servers.into_iter().map(|(_, site)| site).collect(), print))
}

/// FNV-1a, which gives one result in every process.
fn fingerprint<'a>(texts: impl Iterator<Item = &'a str>) -> u64 {
    let bytes = texts.flat_map(|text| text.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn call(layout: &Layout, list: &List, begin: &str) -> Call {
    let (pattern, endings) = (layout.pattern(&list.prefix, list.raw), Layout::endings(list.raw));
    let room = pattern.len() + begin.len() + 96;
    let mut call = Call::new(&LIST, 0, room);
    call.bytes(begin.as_bytes()).bytes(&pattern).number(list.most.get().min(MOST_KEYS).into());
    for ending in endings {
        call.bytes(ending);
    }
    call
}

/// Where a step begins: among which servers, at which of them, and where in its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Position {
    print: u64,
    server: usize,
    begin: String,
}

impl Position {
    fn read(cursor: &Cursor) -> Option<Self> {
        let mut words = std::str::from_utf8(cursor.as_bytes()).ok()?.split(' ');
        let print = u64::from_str_radix(words.next()?, 16).ok()?;
        let (server, begin) = (words.next()?.parse().ok()?, words.next()?.to_owned());
        let is_whole = words.next().is_none() && is_number(&begin);
        is_whole.then_some(Self { print, server, begin })
    }

    fn cursor(&self) -> Cursor {
        let Self { print, server, begin } = self;
        Cursor::new(format!("{print:016x} {server} {begin}").into_bytes())
    }
}

/// Whether the server that gave this text out may read it as a cursor.
fn is_number(text: &str) -> bool {
    number::<u64>(text.as_bytes()).is_some()
}

fn foreign() -> Error {
    let message =
        "a cursor of the list of another store, or of servers that have changed: begin anew";
    Error::new(ErrorKind::InvalidConfig, message)
}

/// Reads where the next step begins, and the keys.
fn stepped(reply: Reply) -> Option<(String, Vec<Vec<u8>>)> {
    let Reply::List(parts) = reply else { return None };
    let text = |part| if let Reply::Text(text) = part { Some(text) } else { None };
    let mut parts = parts.into_iter().map(text);
    let next = String::from_utf8(parts.next()??).ok()?;
    is_number(&next).then_some((next, parts.collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::garbage;

    #[test]
    fn a_cursor_leads_back_to_its_place() {
        let at = Position { print: 7, server: 2, begin: "123".to_owned() };
        assert_eq!(Position::read(&at.cursor()), Some(at));
        for bad in
            [&b""[..], b"7", b"7 1", b"7 1 ", b"x 1 1", b"7 x 1", b"7 1 x", b"7 1 2 3", b"\xff 1 1"]
        {
            assert_eq!(Position::read(&Cursor::new(bad)), None);
        }
    }

    #[test]
    fn other_servers_have_another_fingerprint() {
        let print = |texts: &[&str]| fingerprint(texts.iter().copied());
        assert_eq!(print(&["a:1", "b:2"]), print(&["a:1", "b:2"]));
        for other in [&["a:1"][..], &["a:1", "b:3"], &["a:1b:2"], &[]] {
            assert_ne!(print(other), print(&["a:1", "b:2"]), "{other:?}");
        }
    }

    proptest! {
        #[test]
        fn a_step_is_read_whole_or_not_at_all(reply in garbage::replies()) {
            let count = if let Reply::List(parts) = &reply { parts.len() } else { 0 };
            if let Some((next, keys)) = stepped(reply) {
                prop_assert_eq!(keys.len() + 1, count);
                prop_assert!(is_number(&next));
            }
        }
    }
}
