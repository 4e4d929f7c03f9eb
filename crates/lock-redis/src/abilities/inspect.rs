//! Who holds a lock, and who waits for it.

use std::time::Duration;

use async_trait::async_trait;
use lock_core::{Error, FencingToken, Holder, InspectBackend, Inspection, Key, Kind, Waiter};

use crate::hub::number;
use crate::scripts::{FORCE_RELEASE, INSPECT};
use crate::wire::Reply;
use crate::{RedisBackend, verbs};

/// A lock that another library holds is one exclusive holder without a token: unless its text looks like
/// ours, of 32 hexadecimal digits, on a key that was ours within the hour. Then it is shown with the
/// token of that time.
#[async_trait]
impl InspectBackend for RedisBackend {
    async fn inspect(&self, key: &Key) -> Result<Inspection, Error> {
        let command = verbs::on_keys(&INSPECT, &self.layout().names(key), None, 0);
        let reply = self.link().run(&INSPECT, &command).await?.reply;
        inspected(&reply).ok_or_else(|| verbs::unintelligible("inspect"))
    }

    /// Deletes the key of the lock, if it holds a text.
    async fn force_release(&self, key: &Key) -> Result<u64, Error> {
        let names = self.layout().names(key);
        let channel = names.released();
        let room = channel.map(<[u8]>::len).iter().sum();
        let mut command = verbs::on_keys(&FORCE_RELEASE, &names, Some(names.limit()), room);
        command.pieces(channel);
        match self.link().run(&FORCE_RELEASE, &command).await?.reply {
            Reply::Int(ended) => {
                u64::try_from(ended).map_err(|_| verbs::unintelligible("release by force"))
            }
            _ => Err(verbs::unintelligible("release by force")),
        }
    }
}

/// Reads holders, how many, waiters, and how many.
fn inspected(reply: &Reply) -> Option<Inspection> {
    let Reply::List(parts) = reply else { return None };
    let [Reply::List(holders), Reply::Int(holding), Reply::List(waiters), Reply::Int(waiting)] =
        parts.as_slice()
    else {
        return None;
    };
    let holders = holders.iter().map(holder).collect::<Option<_>>()?;
    let waiters = waiters.iter().map(waiter).collect::<Option<_>>()?;
    let (holding, waiting) = (u64::try_from(*holding).ok()?, u64::try_from(*waiting).ok()?);
    Some(Inspection::new((holders, holding), (waiters, waiting)))
}

/// Reads `mode token left`.
fn holder(reply: &Reply) -> Option<Holder> {
    let [kind_of, token, left] = words(reply)?;
    let token = match token {
        b"-" => None,
        token => Some(FencingToken::new(number(token)?)),
    };
    let remaining = match left {
        b"-1" => None,
        left => Some(Duration::from_millis(number(left)?)),
    };
    Some(Holder::new(kind(kind_of)?, token, remaining))
}

/// Reads `mode left`.
fn waiter(reply: &Reply) -> Option<Waiter> {
    let [kind_of, left] = words(reply)?;
    Some(Waiter::new(kind(kind_of)?, Duration::from_millis(number(left)?)))
}

fn words<const COUNT: usize>(reply: &Reply) -> Option<[&[u8]; COUNT]> {
    let Reply::Text(text) = reply else { return None };
    let words = text.split(|byte| *byte == b' ').collect::<Vec<_>>();
    words.try_into().ok()
}

/// Reads a mode as the scripts know it, without its secrets.
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
    use super::*;

    fn texts(texts: &[&str]) -> Reply {
        Reply::List(texts.iter().map(|text| Reply::Text(text.as_bytes().to_vec())).collect())
    }

    #[test]
    fn every_kind_is_read() {
        let holders = texts(&["x - -1", "s 7 0", "u 8 1", "p4294967295 9 2", "j 10 3"]);
        let reply = Reply::List(vec![holders, Reply::Int(5), texts(&["s 4"]), Reply::Int(2000)]);
        let found = inspected(&reply).unwrap();
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
        assert_eq!(found.waiters, [Waiter::new(Kind::Shared, left(4))]);
        assert_eq!((found.holding, found.waiting), (5, 2000));
    }

    #[test]
    fn nonsense_is_no_inspection() {
        let with = |holder: &str, waiter: &str| {
            let (holders, waiters) = (texts(&[holder]), texts(&[waiter]));
            inspected(&Reply::List(vec![holders, Reply::Int(1), waiters, Reply::Int(1)]))
        };
        assert!(with("x 7 1", "x 1").is_some());
        for bad in ["", "x", "x 7", "y 7 1", "p 7 1", "px 7 1", "x x 1", "x 7 -2", "x 7 1 1"] {
            assert_eq!(with(bad, "x 1"), None, "{bad}");
        }
        for bad in ["", "x", "x -1", "y 1", "x 1 1"] {
            assert_eq!(with("x 7 1", bad), None, "{bad}");
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
}
