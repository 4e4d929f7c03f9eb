//! Counting permits.

use async_trait::async_trait;
use lock_core::{Claim, Error, ErrorKind, Key, PermitBackend, Permits, Released, Resize, Resized};

use crate::hub::number;
use crate::link::Answer;
use crate::modes::Code;
use crate::scripts::{FORGET, PERMITS, UNDECLARE};
use crate::topology::Site;
use crate::wire::{Call, Reply};
use crate::{RedisBackend, verbs};

/// The number of permits is kept in a key of its own, `lock:{name}:limit`. That key outlives every
/// lease by an hour, and never expires once the number was changed.
#[async_trait]
impl PermitBackend for RedisBackend {
    async fn permits(&self, key: &Key, of: u32) -> Result<Permits, Error> {
        Ok(self.count(key, of, "look", 0).await?.permits)
    }

    async fn resize(&self, key: &Key, of: u32, change: Resize) -> Result<Resized, Error> {
        match change {
            Resize::Add(more) => self.count(key, of, "add", more).await,
            Resize::Remove(fewer) => self.count(key, of, "remove", fewer).await,
            Resize::Declare => self.count(key, of, "declare", 0).await,
            other => Err(Error::new(
                ErrorKind::Unsupported,
                format!("{other:?} is no change that this backend knows"),
            )),
        }
    }

    async fn forget(&self, claim: &Claim) -> Result<Released, Error> {
        if !claim.mode.counts() {
            let message = format!("only permits can be forgotten, not {:?}", claim.mode);
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        let names = &self.layout().names(&claim.key)?;
        let (owner, mode) = (claim.owner.expose(), Code::of(claim.mode)?);
        let forget = |site: Site| async move {
            site.hub().forget(names, claim);
            let mut call = verbs::on_keys(&FORGET, names, Some(names.limit()), owner.len());
            call.bytes(owner).text(mode);
            site.run(call).await
        };
        // No message is published: there is no room.
        verbs::released(self.route(names, forget).await, false)
    }

    async fn close(&self, key: &Key, of: u32) -> Result<(), Error> {
        self.count(key, of, "close", 0).await.map(drop)
    }

    async fn undeclare(&self, claim: &Claim) -> Result<bool, Error> {
        Permits::check_undeclaring(claim)?;
        let names = &self.layout().names(&claim.key)?;
        let (owner, limit) = (claim.owner.expose(), names.limit());
        let undeclare = |site: Site| async move {
            let keys = names.lock().len() + limit.map(<[u8]>::len).iter().sum::<usize>();
            let mut call = Call::new(&UNDECLARE, 2, keys + owner.len() + 64);
            call.bytes(names.lock()).pieces(limit).bytes(owner);
            let is_done = |answer: &Answer| answer.reply == Reply::Int(1);
            site.confirmed(names, || site.run(call), is_done).await
        };
        match self.route(names, undeclare).await??.reply {
            Reply::Int(is_done @ (0 | 1)) => Ok(is_done == 1),
            _ => Err(verbs::unintelligible("undeclare")),
        }
    }
}

impl RedisBackend {
    /// Reads or changes the number of permits of a key.
    async fn count(&self, key: &Key, of: u32, what: &str, count: u32) -> Result<Resized, Error> {
        let names = self.layout().names(key)?;
        let channel = names.released();
        let room = channel.map(<[u8]>::len).iter().sum();
        let call = || {
            let mut call = verbs::on_keys(&PERMITS, &names, Some(names.limit()), room);
            call.number(of.into()).text(what).number(count.into()).pieces(channel);
            call
        };
        match self.run(&names, call).await?.reply {
            Reply::Text(text) => counted(&text).ok_or_else(|| verbs::unintelligible("count")),
            _ => Err(verbs::unintelligible("count")),
        }
    }
}

/// Reads `changed limit held waiting closed`.
fn counted(text: &[u8]) -> Option<Resized> {
    let mut words = text.split(|byte| *byte == b' ');
    let changed = number(words.next()?)?;
    let mut permits = Permits::new(number(words.next()?)?);
    permits.held = number(words.next()?)?;
    permits.waiting = number(words.next()?)?;
    permits.closed = match words.next()? {
        b"0" => false,
        b"1" => true,
        _ => return None,
    };
    words.next().is_none().then(|| Resized::new(changed, permits))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::garbage::{self, is_number};

    #[test]
    fn counts_are_read_to_the_last_digit() {
        let Resized { changed, permits, .. } =
            counted(b"4294967294 4294967295 4294967293 7 1").unwrap();
        assert_eq!(changed, u32::MAX - 1);
        assert_eq!((permits.limit, permits.held, permits.waiting), (u32::MAX, u32::MAX - 2, 7));
        assert!(permits.closed);
        assert!(!counted(b"0 1 0 0 0").unwrap().permits.closed);
    }

    #[test]
    fn nonsense_is_no_count() {
        for text in ["", "1 2 3 4", "1 2 3 4 2", "1 2 3 4 1 5", "1 2 x 4 1", "1 4294967296 3 4 1"] {
            assert!(counted(text.as_bytes()).is_none(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_count_is_read_to_the_letter_or_not_at_all(text in garbage::texts()) {
            let words = std::str::from_utf8(&text).map(|text| text.split(' ').collect::<Vec<_>>());
            let is_count = match words.as_deref() {
                Ok([counts @ .., "0" | "1"]) if counts.len() == 4 => {
                    counts.iter().all(|word| is_number(word, u32::MAX.into()))
                }
                _ => false,
            };
            prop_assert_eq!(counted(&text).is_some(), is_count);
        }
    }
}
