//! The holders of a lock, and its waiting claims.

use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{self, StreamExt};
use lock_core::{
    ClientMark, Error, ErrorKind, FencingToken, Holder, InspectBackend, Inspection, Key, Kind,
    List, Listed, Page, Waiter,
};

use crate::hub::number;
use crate::labels::{self, Marks};
use crate::listing;
use crate::scripts::{FORCE_RELEASE, INSPECT};
use crate::wire::Reply;
use crate::{RedisBackend, verbs};

/// A lock that another library holds is shown as one exclusive holder without a token. One case differs:
/// its text looks like ours (32 hexadecimal digits), and the key was ours within the hour. Then the
/// token of that time is shown.
#[async_trait]
impl InspectBackend for RedisBackend {
    async fn inspect(&self, key: &Key) -> Result<Inspection, Error> {
        let (mut inspection, marks) = look(self, key).await?;
        labels::add((self.fleet(), self.layout()), [(&mut inspection, &marks)]).await;
        Ok(inspection)
    }

    /// Walks through the keys of each primary with `SCAN`, and inspects the locks that it finds. All pages together
    /// look at every key of the database, whatever the prefix. One page looks at as many keys as it may list locks, and
    /// at a thousand at most. An inspection of each lock that the page finds follows, 32 of them at once.
    ///
    /// The user needs the right to [`SCAN`](crate#what-the-server-must-allow). A lock on an [exact key](Key::raw) is
    /// found by its state, so one that only clients of other libraries have held is not listed.
    ///
    /// If the primaries change between two pages, the cursor is invalid. If a server restarts with its data between two
    /// pages, or slots move between primaries, the list may miss locks.
    async fn list(&self, list: &List) -> Result<Page, Error> {
        let (keys, next) = listing::step(self.fleet(), self.layout(), list).await?;
        let looks = stream::iter(keys).map(async |key| {
            let seen = look(self, &key).await;
            (key, seen)
        });
        let mut found: Vec<(Key, (Inspection, Marks))> = Vec::new();
        let mut looks = std::pin::pin!(looks.buffer_unordered(AT_ONCE));
        while let Some((key, seen)) = looks.next().await {
            match seen {
                Ok(seen) => found.push((key, seen)),
                // One key of an alien kind hides no other lock.
                Err(error) if error.kind() == ErrorKind::ForeignKey => {}
                Err(error) => return Err(error),
            }
        }
        found.retain(|(_, (seen, _))| seen.holding + seen.waiting > 0);
        let seen = found.iter_mut().map(|(_, (inspection, marks))| (inspection, &*marks));
        labels::add((self.fleet(), self.layout()), seen).await;
        let locks = found.into_iter().map(|(key, (inspection, _))| Listed::new(key, inspection));
        Ok(Page::new(locks.collect(), next))
    }

    /// Deletes the key of the lock, if it holds a text.
    async fn force_release(&self, key: &Key) -> Result<u64, Error> {
        let names = self.layout().names(key)?;
        let channel = names.released();
        let room = channel.map(<[u8]>::len).iter().sum();
        let call = || {
            let mut call = verbs::on_keys(&FORCE_RELEASE, &names, Some(names.limit()), room);
            call.pieces(channel);
            call
        };
        match self.run(&names, call).await?.reply {
            Reply::Int(ended) => {
                u64::try_from(ended).map_err(|_| verbs::unintelligible("release by force"))
            }
            _ => Err(verbs::unintelligible("release by force")),
        }
    }
}

/// How many locks of a list are inspected at once.
const AT_ONCE: usize = 32;

/// The holders and the waiters of a key, without their labels.
async fn look(backend: &RedisBackend, key: &Key) -> Result<(Inspection, Marks), Error> {
    let names = backend.layout().names(key)?;
    let reply = backend.run(&names, || verbs::on_keys(&INSPECT, &names, None, 0)).await?.reply;
    inspected(&reply).ok_or_else(|| verbs::unintelligible("inspect"))
}

/// Reads the holders, their number, the waiting claims, and their number.
fn inspected(reply: &Reply) -> Option<(Inspection, Marks)> {
    let Reply::List(parts) = reply else { return None };
    let [Reply::List(holders), Reply::Int(holding), Reply::List(waiters), Reply::Int(waiting)] =
        parts.as_slice()
    else {
        return None;
    };
    let (holders, of_holders) = holders.iter().map(holder).collect::<Option<(Vec<_>, Vec<_>)>>()?;
    let (waiters, of_waiters) = waiters.iter().map(waiter).collect::<Option<(Vec<_>, Vec<_>)>>()?;
    let (holding, waiting) = (u64::try_from(*holding).ok()?, u64::try_from(*waiting).ok()?);
    let marks = Marks { holders: of_holders, waiters: of_waiters };
    Some((Inspection::new((holders, holding), (waiters, waiting)), marks))
}

/// Reads `mode token left client`.
fn holder(reply: &Reply) -> Option<(Holder, Option<ClientMark>)> {
    let [kind_of, token, left, client] = words(reply)?;
    let token = match token {
        b"-" => None,
        token => Some(FencingToken::new(number(token)?)),
    };
    let remaining = match left {
        b"-1" => None,
        left => Some(Duration::from_millis(number(left)?)),
    };
    Some((Holder::new(kind(kind_of)?, token, remaining), mark(client)?))
}

/// Reads `mode left waited client`.
fn waiter(reply: &Reply) -> Option<(Waiter, Option<ClientMark>)> {
    let [kind_of, left, waited, client] = words(reply)?;
    let waited = match waited {
        b"-" => None,
        waited => Some(Duration::from_millis(number(waited)?)),
    };
    let waiter = Waiter::new(kind(kind_of)?, Duration::from_millis(number(left)?));
    Some((waiter.waiting_for(waited), mark(client)?))
}

/// Reads the mark of a client, or `-`.
fn mark(client: &[u8]) -> Option<Option<ClientMark>> {
    match client {
        b"-" => Some(None),
        digits => ClientMark::of_digits(digits).map(Some),
    }
}

fn words<const COUNT: usize>(reply: &Reply) -> Option<[&[u8]; COUNT]> {
    let Reply::Text(text) = reply else { return None };
    let words = text.split(|byte| *byte == b' ').collect::<Vec<_>>();
    words.try_into().ok()
}

/// Reads a mode in the notation of the scripts, without its secrets.
fn kind(mode: &[u8]) -> Option<Kind> {
    Some(match mode {
        b"x" => Kind::Exclusive,
        b"s" => Kind::Shared,
        b"u" => Kind::Upgradable,
        b"j" => Kind::Joint,
        permits => Kind::Permits(number(permits.strip_prefix(b"p")?)?),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::garbage::{self, is_left, is_number};

    fn texts(texts: &[&str]) -> Reply {
        Reply::List(texts.iter().map(|text| Reply::Text(text.as_bytes().to_vec())).collect())
    }

    #[test]
    fn every_kind_is_read() {
        let holders =
            texts(&["x - -1 -", "s 7 0 00ff00ff00", "u 8 1 -", "p4294967295 9 2 -", "j 10 3 -"]);
        let reply = Reply::List(vec![
            holders,
            Reply::Int(5),
            texts(&["s 4 7 0123456789", "x 5 - -"]),
            Reply::Int(2000),
        ]);
        let (found, marks) = inspected(&reply).unwrap();
        let (token, left) = (|number| Some(FencingToken::new(number)), Duration::from_millis);
        assert_eq!(
            found.holders,
            [
                Holder::new(Kind::Exclusive, None, None),
                Holder::new(Kind::Shared, token(7), Some(left(0))),
                Holder::new(Kind::Upgradable, token(8), Some(left(1))),
                Holder::new(Kind::Permits(u32::MAX), token(9), Some(left(2))),
                Holder::new(Kind::Joint, token(10), Some(left(3))),
            ]
        );
        let waiters = [
            Waiter::new(Kind::Shared, left(4)).waiting_for(Some(left(7))),
            Waiter::new(Kind::Exclusive, left(5)),
        ];
        assert_eq!(found.waiters, waiters);
        assert_eq!((found.holding, found.waiting), (5, 2000));
        let mark = ClientMark::of_digits;
        assert_eq!(marks.holders, [None, mark(b"00ff00ff00"), None, None, None]);
        assert_eq!(marks.waiters, [mark(b"0123456789"), None]);
    }

    #[test]
    fn nonsense_is_no_inspection() {
        let with = |holder: &str, waiter: &str| {
            let (holders, waiters) = (texts(&[holder]), texts(&[waiter]));
            inspected(&Reply::List(vec![holders, Reply::Int(1), waiters, Reply::Int(1)]))
        };
        assert!(with("x 7 1 -", "x 1 - -").is_some());
        let holders = [
            "", "x", "x 7 -", "y 7 1 -", "p 7 1 -", "px 7 1 -", "x x 1 -", "x 7 -2 -", "x 7 1",
            "x 7 1 ?",
        ];
        for bad in holders {
            assert_eq!(with(bad, "x 1 2 -"), None, "{bad}");
        }
        let waiters =
            ["", "x", "x 1 -", "x -1 2 -", "x 1 -2 -", "y 1 2 -", "x 1 2", "x 1 2 012345678"];
        for bad in waiters {
            assert_eq!(with("x 7 1 -", bad), None, "{bad}");
        }
        let empty = || Reply::List(Vec::new());
        for parts in [
            vec![empty(), Reply::Int(-1), empty(), Reply::Int(0)],
            vec![empty(), Reply::Int(0), empty()],
            vec![empty(), Reply::Int(0), Reply::Int(0), empty()],
        ] {
            assert_eq!(inspected(&Reply::List(parts)), None);
        }
    }

    fn is_kind(word: &str) -> bool {
        let permits =
            |word: &str| word.strip_prefix('p').is_some_and(|it| is_number(it, u32::MAX.into()));
        matches!(word, "x" | "s" | "u" | "j") || permits(word)
    }

    fn is_holder(text: &[u8]) -> bool {
        let words = std::str::from_utf8(text).map(|text| text.split(' ').collect::<Vec<_>>());
        match words.as_deref() {
            Ok([kind, token, left, client]) => {
                is_kind(kind)
                    && is_mark(client)
                    && (*token == "-" || is_number(token, u64::MAX))
                    && (is_left(left) || is_number(left, u64::MAX))
            }
            _ => false,
        }
    }

    fn is_waiter(text: &[u8]) -> bool {
        let words = std::str::from_utf8(text).map(|text| text.split(' ').collect::<Vec<_>>());
        match words.as_deref() {
            Ok([kind, left, waited, client]) => {
                is_kind(kind)
                    && is_number(left, u64::MAX)
                    && (*waited == "-" || is_number(waited, u64::MAX))
                    && is_mark(client)
            }
            _ => false,
        }
    }

    fn is_mark(word: &str) -> bool {
        word == "-" || word.len() == 10 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
    }

    /// The possible parts of an answer, and other values.
    fn answers() -> impl Strategy<Value = Reply> {
        let holders = prop_oneof![
            3 => Just(texts(&["x 7 1 -", "p3 9 -1 0123456789"])),
            1 => prop::collection::vec(garbage::replies(), 0..3).prop_map(Reply::List),
        ];
        let count = prop_oneof![Just(Reply::Int(1)), garbage::replies()];
        let waiters = prop_oneof![
            3 => Just(texts(&["s 4 9 -", "x 1 - 0123456789"])),
            1 => prop::collection::vec(garbage::replies(), 0..3).prop_map(Reply::List),
        ];
        (holders, count.clone(), waiters, count, 0usize..6).prop_map(|(h, n, w, m, cut)| {
            let mut parts = vec![h, n, w, m];
            parts.truncate(cut.max(1));
            if cut == 5 {
                parts.push(Reply::Nil)
            }
            Reply::List(parts)
        })
    }

    proptest! {
        #[test]
        fn each_shown_owner_was_in_the_reply(text in garbage::texts()) {
            let reply = Reply::Text(text.clone());
            prop_assert_eq!(holder(&reply).is_some(), is_holder(&text));
            prop_assert_eq!(waiter(&reply).is_some(), is_waiter(&text));
        }

        #[test]
        fn an_inspection_is_whole_or_nothing(reply in prop_oneof![answers(), garbage::replies()]) {
            let Some((found, marks)) = inspected(&reply) else { return Ok(()) };
            let Reply::List(parts) = &reply else { panic!("{reply:?}") };
            let [Reply::List(holders), Reply::Int(holding), Reply::List(waiters), Reply::Int(waiting)] =
                &parts[..]
            else {
                panic!("{reply:?}")
            };
            prop_assert_eq!((found.holders.len(), found.waiters.len()), (holders.len(), waiters.len()));
            prop_assert_eq!((found.holding as i64, found.waiting as i64), (*holding, *waiting));
            prop_assert!(*holding >= 0 && *waiting >= 0);
            prop_assert_eq!((marks.holders.len(), marks.waiters.len()), (holders.len(), waiters.len()));
        }
    }
}
