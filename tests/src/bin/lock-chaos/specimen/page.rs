//! The value that is stored beside a mutex of the specimen: on one server.

use std::sync::Arc;

use lock_core::FencingToken;
use lock_tests::chaos::history::Sight;

use super::World;
use super::flaw::Flaw;
use super::link::Failed;
use super::store::{flag, name, satellite};
use crate::worker::pages::Page;

/// The fields of the two halves of a value, and of its version.
const FIELDS: [&str; 3] = ["first", "second", "version"];

pub(super) struct Pages {
    world: Arc<World>,
    key: String,
}

impl Pages {
    pub(super) fn new(world: &Arc<World>, key: &str) -> Self {
        Self { world: Arc::clone(world), key: key.to_owned() }
    }

    /// The value, and its version.
    pub(super) async fn load(&self) -> Result<Sight, Failed> {
        let script = "return redis.call('HMGET', KEYS[1], 'first', 'second', 'version')";
        let [first, second, version]: [Option<Vec<u8>>; 3] =
            self.world.link()?.call(script, &[self.at()], &[]).await?;
        let version = version.map(|digits| String::from_utf8(digits).map_err(|_| Failed));
        let version = version.transpose()?.map(|digits| digits.parse().map_err(|_| Failed));
        let version = version.transpose()?.map(FencingToken::new);
        let value = match (first, second) {
            (None, None) => Some(0),
            (first, second) => {
                let halves = [first.unwrap_or_default(), second.unwrap_or_default()];
                Page::of(&halves.concat()).number
            }
        };
        Ok(Sight { version, value })
    }

    /// Stores a value. Returns whether the lock was still held.
    pub(super) async fn store(
        &self,
        owner: &str,
        value: u64,
        version: FencingToken,
    ) -> Result<bool, Failed> {
        let text = String::from_utf8(Page::bytes(value)).map_err(|_| Failed)?;
        let (first, second) = text.split_at(text.len() / 2);
        let version = version.get().to_string();
        let mut texts = vec![(FIELDS[0], first), (FIELDS[1], second), (FIELDS[2], &version)];
        match self.world.flaw {
            Flaw::HalvedValue => {
                let rest = texts.split_off(1);
                Ok(self.set(owner, &texts).await? && self.set(owner, &rest).await?)
            }
            Flaw::ForgottenVersion if self.load().await?.version.is_some() => {
                texts.truncate(2);
                self.set(owner, &texts).await
            }
            _ => self.set(owner, &texts).await,
        }
    }

    async fn set(&self, owner: &str, texts: &[(&str, &str)]) -> Result<bool, Failed> {
        let checks = self.world.flaw != Flaw::BlindCommit;
        let texts = texts.iter().flat_map(|&(field, text)| [field.to_owned(), text.to_owned()]);
        let args: Vec<String> = [owner.to_owned(), flag(checks)].into_iter().chain(texts).collect();
        let keys = [name(&self.key), self.at()];
        let script = include_str!("scripts/page.lua");
        let stored: i64 = self.world.link()?.call(script, &keys, &args).await?;
        Ok(stored == 1)
    }

    fn at(&self) -> String {
        satellite(&self.key, "cell")
    }
}
