//! A small value beside a lock.

use async_trait::async_trait;
use lock_core::{Cell, CellBackend, Claim, Committed, Error, FencingToken, Key, Released, Stored};

use crate::hub::number;
use crate::keys::Names;
use crate::leases::Ended;
use crate::link::Answer;
use crate::scripts::{LOAD, STORE};
use crate::topology::Site;
use crate::wire::{Call, Failure, Reply, Script};
use crate::{RedisBackend, verbs};

/// The value is kept in a key of its own, `lock:{name}:cell`. It never expires, unless the app sets a
/// [retention](crate::Builder::value_retention): erase a value that is no longer wanted.
///
/// A message tells every watcher of a new value, whatever else the watcher listens to. A client whose
/// user may not subscribe to that message does not hear of new values.
#[async_trait]
impl CellBackend for RedisBackend {
    async fn load(&self, key: &Key) -> Result<Option<Cell>, Error> {
        let names = &self.layout().names(key)?;
        // A value that replicas do not have yet may be lost again. The answer would settle a commit in doubt.
        let load = |site: Site| async move {
            site.confirmed(names, || site.run(on_cell(&LOAD, names, 0)), |_| true).await
        };
        let reply = self.route(names, load).await??.reply;
        loaded(reply).ok_or_else(|| verbs::unintelligible("load"))
    }

    async fn store(
        &self,
        claim: &Claim,
        token: FencingToken,
        value: Option<&[u8]>,
    ) -> Result<Stored, Error> {
        Cell::check(claim, value)?;
        let names = self.layout().names(&claim.key)?;
        let (owner, channel) = (claim.owner.expose(), names.released());
        let room = owner.len()
            + channel.map(<[u8]>::len).iter().sum::<usize>()
            + value.map_or(0, <[u8]>::len);
        let call = || {
            let mut call = on_cell(&STORE, &names, room);
            call.bytes(owner).number(token.get()).pieces(channel).number(names.values_kept());
            if let Some(value) = value {
                call.bytes(value);
            }
            call
        };
        let (names, call) = (&names, &call);
        let store = |site: Site| async move {
            let is_written = |answer: &Answer| answer.reply == Reply::Int(1);
            site.confirmed(names, || site.run(call()), is_written).await
        };
        match self.route(names, store).await?.map_err(Stored::in_doubt)?.reply {
            Reply::Int(1) => Ok(Stored::Written),
            Reply::Int(0) => Ok(Stored::NotHeld),
            _ => Err(verbs::unintelligible("store")),
        }
    }

    /// One script, also if a claim waits. A lock on an exact key that is now and then
    /// [left to foreign clients](crate::Builder::gap) needs one more.
    async fn commit(
        &self,
        claim: &Claim,
        token: FencingToken,
        value: &[u8],
    ) -> Result<Committed, Error> {
        Cell::check(claim, Some(value))?;
        let names = &self.layout().names(&claim.key)?;
        let commit = |site: Site| async move {
            let is_done = |(committed, _): &(Committed, _)| *committed != Committed::NotHeld;
            site.confirmed(names, || site.commit(names, claim, (token, value)), is_done).await
        };
        let (committed, ended) = self.route(names, commit).await?.map_err(Stored::in_doubt)?;
        if let Some(ended) = ended {
            self.noted(names, claim, ended).await;
        }
        Ok(committed)
    }
}

impl Site {
    /// Writes the value and releases. Returns also how the release has ended, if that is to be noted.
    async fn commit(
        &self,
        names: &Names<'_>,
        claim: &Claim,
        (token, value): (FencingToken, &[u8]),
    ) -> Result<(Committed, Option<Ended>), Failure> {
        let hub = self.hub();
        if !hub.forget(names, claim) {
            let answer = self.run(verbs::value_release(names, claim, token, value)).await?;
            if let Some(Released::Freed { told }) = verbs::quickly_released(&answer)? {
                return Ok((Committed::Done { told }, None));
            }
        }
        let tell = hub.listening().release_messages;
        let answer = self.run(verbs::value_hand_over(names, claim, tell, (token, value))).await?;
        if let Some(committed) = verbs::committed(&answer, hub.hears_releases(names))? {
            return Ok((committed, None));
        }
        let ended = self.release_in_full(names, claim).await.map_err(after_writing)?;
        let told = match ended.released {
            Released::Freed { told } => told,
            _ => 0,
        };
        Ok((Committed::Done { told }, Some(ended)))
    }
}

/// The failure of a step after the write. If the client repeated the commit by itself, and another holder had written
/// meanwhile, the answer would be that nothing was written. So only the caller repeats the commit.
fn after_writing(failure: Failure) -> Failure {
    Failure::Error(Stored::in_doubt(failure.into_error()))
}

fn on_cell(script: &'static Script, names: &Names<'_>, room: usize) -> Call {
    const NUMBERS: usize = 64;
    let (lock, cell) = (names.lock(), names.cell());
    let keys = lock.len() + cell.map(<[u8]>::len).iter().sum::<usize>();
    let mut call = Call::new(script, 2, keys + NUMBERS + room);
    call.bytes(lock).pieces(cell);
    call
}

/// Reads an empty reply, or the token, whether the lease is held, and the value.
fn loaded(reply: Reply) -> Option<Option<Cell>> {
    let parts = match reply {
        Reply::Nil => return Some(None),
        Reply::List(parts) => <[Reply; 3]>::try_from(parts).ok()?,
        _ => return None,
    };
    let [Reply::Text(token), Reply::Int(held @ (0 | 1)), Reply::Text(value)] = parts else {
        return None;
    };
    Some(Some(Cell::new(value, FencingToken::new(number(&token)?), held == 1)))
}

#[cfg(test)]
mod tests {
    use lock_core::ErrorKind;
    use proptest::prelude::*;

    use super::*;
    use crate::wire::garbage::{self, is_number};

    fn text(text: &str) -> Reply {
        Reply::Text(text.into())
    }

    #[test]
    fn a_commit_that_has_written_is_repeated_by_its_caller_alone() {
        let error = || Error::new(ErrorKind::Denied, "no");
        for failure in
            [Failure::Unsent(error()), Failure::Demoted(error()), Failure::Later(error())]
        {
            let after = after_writing(failure);
            assert!(matches!(&after, Failure::Error(error) if error.is_retryable()), "{after:?}");
        }
    }

    #[test]
    fn a_value_is_read_whatever_its_bytes() {
        let value = b" \0\xff\r\n";
        let list = vec![text("18446744073709551615"), Reply::Int(1), Reply::Text(value.to_vec())];
        let cell = loaded(Reply::List(list)).unwrap().unwrap();
        assert_eq!(
            (cell.value.as_slice(), cell.token.get(), cell.held),
            (&value[..], u64::MAX, true)
        );
        assert_eq!(loaded(Reply::Nil), Some(None));
    }

    #[test]
    fn nonsense_is_no_value() {
        for parts in [
            vec![],
            vec![text("7"), Reply::Int(1)],
            vec![text("7"), Reply::Int(2), text("")],
            vec![text("x"), Reply::Int(1), text("")],
            vec![text("7"), Reply::Int(1), Reply::Nil],
            vec![text("7"), Reply::Int(1), text(""), text("")],
        ] {
            assert_eq!(loaded(Reply::List(parts)), None);
        }
        assert_eq!(loaded(Reply::Int(0)), None);
    }

    proptest! {
        #[test]
        fn a_value_is_what_was_sent_or_nothing(
            parts in prop::collection::vec(garbage::replies(), 0..5),
            held in prop_oneof![Just(None), prop::sample::select(vec![Some(0), Some(1), Some(2)])],
        ) {
            let mut parts = parts;
            if let (Some(held), Some(part)) = (held, parts.get_mut(1)) {
                *part = Reply::Int(held);
            }
            let is_cell = match &parts[..] {
                [Reply::Text(token), Reply::Int(0 | 1), Reply::Text(_)] => {
                    std::str::from_utf8(token).is_ok_and(|token| is_number(token, u64::MAX))
                }
                _ => false,
            };
            match loaded(Reply::List(parts.clone())) {
                Some(Some(cell)) => {
                    prop_assert!(is_cell, "{:?}", parts);
                    prop_assert_eq!(&Reply::Text(cell.value), &parts[2]);
                    prop_assert_eq!(Reply::Int(cell.held.into()), parts[1].clone());
                }
                other => prop_assert!(other.is_none() && !is_cell, "{:?}", parts),
            }
        }
    }
}
