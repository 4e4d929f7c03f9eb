//! A value beside a lock.

use futures::FutureExt;

use super::super::Harness;
use super::super::scene::{Client, Held, Scene, in_mode};
use super::super::verdict::{Check, Failure, ensure};
use crate::{Cell, CellBackend, Claim, Error, ErrorKind, FencingToken, Key, Mode, Stored};

/// A value that a careless store cuts short or rewrites.
const ODD: &[u8] = b"\0\r\n\xff {}\" odd \0";

pub(in super::super) async fn a_stored_value_can_be_loaded<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: CellBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, foreign, ttl) = (scene.key()?, scene.key()?, scene.long());
    other.has_no_value(&key).await?;
    let claim = scene.claim(&key)?;
    let token = one.granted(&claim, ttl).await?.tokens.first();
    other.has_no_value(&key).await?;
    for value in [ODD, b"", b"another"] {
        one.stores(&claim, token, Some(value)).await?;
        for client in [&one, &other] {
            let cell = client.has(&key, value).await?;
            ensure!(cell.token == token, "{token} has stored it, not {}", cell.token);
        }
    }
    other.has_no_value(&foreign).await
}

pub(in super::super) async fn a_value_outlives_its_lease<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: CellBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let key = scene.key()?;
    let claim = scene.claim(&key)?;
    let token = one.granted(&claim, scene.long()).await?.tokens.first();
    one.stores(&claim, token, Some(b"first")).await?;
    one.freed(&claim).await?;
    other.has(&key, b"first").await?;

    let claim = scene.claim(&key)?;
    let token = other.granted(&claim, scene.ttl()).await?.tokens.first();
    one.has(&key, b"first").await?;
    other.stores(&claim, token, Some(b"second")).await?;
    scene.outlast(scene.ttl().duration()).await;
    one.has(&key, b"second").await?;
    one.granted(&scene.claim(&key)?, scene.long()).await?;
    other.has(&key, b"second").await?;
    Ok(())
}

pub(in super::super) async fn only_the_holder_can_store<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: CellBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.ttl());
    let (held, stranger) = (scene.claim(&key)?, scene.claim(&key)?);
    let token = FencingToken::new(1 << 52);
    one.cannot_store(&stranger, token).await?;
    one.granted(&held, ttl).await?;
    for client in [&one, &other] {
        client.cannot_store(&stranger, token).await?;
    }
    one.freed(&held).await?;
    one.cannot_store(&held, token).await?;
    one.granted(&held, ttl).await?;
    scene.outlast(ttl.duration()).await;
    one.cannot_store(&held, token).await?;
    other.granted(&stranger, scene.long()).await?;
    one.cannot_store(&held, token).await?;
    other.has_no_value(&key).await?;

    let shared = in_mode(&key, Mode::Shared)?;
    match one.try_store(&shared, token, Some(ODD)).await? {
        Err(error) if error.kind() == ErrorKind::InvalidConfig => Ok(()),
        other => Err(Failure::Broken(format!("a claim that is not exclusive got {other:?}"))),
    }
}

pub(in super::super) async fn a_value_with_a_lower_token_is_refused<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: CellBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let key = scene.key()?;
    let claim = scene.claim(&key)?;
    let lower = one.granted(&claim, scene.long()).await?.tokens.first();
    // A higher token, as if the lease had been passed on within the process in between.
    let higher = FencingToken::new(lower.get() + 1);
    one.stores(&claim, lower, Some(b"first")).await?;
    one.stores(&claim, higher, Some(b"second")).await?;
    for value in [Some(&b"late"[..]), None] {
        let stored = one.try_store(&claim, lower, value).await??;
        ensure!(stored == Stored::NotHeld, "{lower} wrote over {higher}: {stored:?}");
        other.has(&key, b"second").await?;
    }
    one.stores(&claim, higher, Some(b"third")).await?;
    let cell = other.has(&key, b"third").await?;
    ensure!(cell.token == higher, "{higher} has stored it, not {}", cell.token);
    Ok(())
}

pub(in super::super) async fn loading_tells_whether_the_writer_still_holds<H>(
    scene: Scene<'_, H>,
) -> Check
where
    H: Harness<Client: CellBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.ttl());
    let first = scene.claim(&key)?;
    let token = one.granted(&first, scene.long()).await?.tokens.first();
    one.stores(&first, token, Some(b"first")).await?;
    other.has_held(&key, b"first", true).await?;
    one.freed(&first).await?;
    other.has_held(&key, b"first", false).await?;
    // Another holder did not write the value.
    let second = scene.claim(&key)?;
    let token = other.granted(&second, ttl).await?.tokens.first();
    one.has_held(&key, b"first", false).await?;
    other.stores(&second, token, Some(b"second")).await?;
    one.has_held(&key, b"second", true).await?;
    scene.outlast(ttl.duration()).await;
    one.has_held(&key, b"second", false).await
}

pub(in super::super) async fn what_was_written_is_settled<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: CellBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.ttl());
    for (client, value) in [(&one, &b"first"[..]), (&other, b"second")] {
        let claim = scene.claim(&key)?;
        let token = client.granted(&claim, ttl).await?.tokens.first();
        client.stores(&claim, token, Some(value)).await?;
        for reader in [&one, &other] {
            let cell = reader.has(&key, value).await?;
            ensure!(cell.settled, "it was written, but others may not see it: {cell:?}");
        }
        // It makes no difference whether the writer still holds the key.
        scene.outlast(ttl.duration()).await;
        for reader in [&one, &other] {
            let cell = reader.has(&key, value).await?;
            ensure!(cell.settled, "it was written, but others may not see it: {cell:?}");
        }
    }
    Ok(())
}

pub(in super::super) async fn the_holder_loads_all_that_there_is<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: CellBackend>,
{
    let Held { holder: one, other, key, ttl, held: first, grant } = scene.held().await?;
    let first_token = grant.tokens.first();
    let cell = one.load_under(&first).await?;
    ensure!(cell.is_none(), "there should be no value, but there is {cell:?}");
    one.stores(&first, first_token, Some(b"first")).await?;
    one.freed(&first).await?;
    let second = scene.claim(&key)?;
    let token = other.granted(&second, ttl).await?.tokens.first();
    // At the second load, a late request of the former holder has arrived.
    for _ in 0..2 {
        match other.load_under(&second).await? {
            Some(cell) if cell.value == b"first" && cell.token == first_token && cell.settled => {}
            cell => return Err(Failure::Broken(format!("the holder loaded {cell:?}"))),
        }
        one.cannot_store(&first, first_token).await?;
    }
    for value in [Some(&b"second"[..]), None] {
        other.stores(&second, token, value).await?;
        let cell = other.load_under(&second).await?.map(|cell| cell.value);
        ensure!(cell.as_deref() == value, "the holder did not load what it has stored itself");
    }
    Ok(())
}

pub(in super::super) async fn a_conclusive_load_is_final<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: CellBackend>,
{
    let (one, other) = scene.two_clients().await?;
    if !one.backend.load_is_conclusive() {
        return Ok(());
    }
    for _ in 0..8 {
        let (key, ttl) = (scene.key()?, scene.long());
        let [first, second] = [scene.claim(&key)?, scene.claim(&key)?];
        let token = one.granted(&first, ttl).await?.tokens.first();
        // The future is dropped at its first poll. The request may be on its way.
        let _unknown = one.backend.store(&first, token, Some(b"first")).now_or_never();
        one.freed(&first).await?;
        let seen = other.load(&key).await?.map(|cell| cell.value);
        other.granted(&second, ttl).await?;
        let found = other.load_under(&second).await?.map(|cell| cell.value);
        ensure!(found == seen, "a load returned {seen:?}, and a later one {found:?}");
    }
    Ok(())
}

pub(in super::super) async fn storing_wakes_watchers<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: CellBackend>,
{
    let Held { holder: one, other, key, held: claim, grant, .. } = scene.held().await?;
    let token = grant.tokens.first();
    let third = scene.client().await?;
    let mut watches = Vec::new();
    for client in [&other, &third, &other] {
        watches.push((client, client.watch(&key).await?));
    }
    // Twice, because one value must not use up the watch.
    for value in [&b"first"[..], b"second"] {
        // Hints about the grant may still come. They are not about the value.
        scene.pause(scene.ttl().duration() / 4).await;
        for (_, watch) in &mut watches {
            while let Some(Some(_)) = watch.next().now_or_never() {}
        }
        one.stores(&claim, token, Some(value)).await?;
        for (client, watch) in &mut watches {
            let hint = client.bounded("a hint of the value", watch.next()).await?;
            ensure!(hint.is_some(), "the watch ended");
            client.has(&key, value).await?;
        }
    }
    Ok(())
}

pub(in super::super) async fn an_erased_value_is_gone<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: CellBackend>,
{
    let Held { holder: one, other, key, held: claim, grant, .. } = scene.held().await?;
    let token = grant.tokens.first();
    for value in [&b"first"[..], b"second"] {
        one.stores(&claim, token, Some(value)).await?;
        other.has(&key, value).await?;
        // Again, because the first answer may have been lost.
        for client in [&one, &other] {
            client.stores(&claim, token, None).await?;
            other.has_no_value(&key).await?;
        }
    }
    one.freed(&claim).await?;
    other.has_no_value(&key).await
}

pub(in super::super) async fn storing_twice_is_no_error<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: CellBackend>,
{
    let Held { holder: one, other, key, held: claim, grant, .. } = scene.held().await?;
    let token = grant.tokens.first();
    for value in [&b"first"[..], b"second"] {
        for client in [&one, &one, &other] {
            client.stores(&claim, token, Some(value)).await?;
            other.has(&key, value).await?;
        }
    }
    Ok(())
}

pub(in super::super) async fn a_value_has_a_limit<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: CellBackend>,
{
    let Held { holder: one, other, key, held: claim, grant, .. } = scene.held().await?;
    let token = grant.tokens.first();
    let longest = vec![b'\xfe'; Cell::MAX_LEN];
    one.stores(&claim, token, Some(&longest)).await?;
    other.has(&key, &longest).await?;
    let too_long = vec![b'x'; Cell::MAX_LEN + 1];
    match one.try_store(&claim, token, Some(&too_long)).await? {
        Err(error) if error.kind() == ErrorKind::InvalidConfig => {}
        other => return Err(Failure::Broken(format!("too long a value came to {other:?}"))),
    }
    other.has(&key, &longest).await?;
    Ok(())
}

impl<B: CellBackend> Client<B> {
    async fn try_store(
        &self,
        claim: &Claim,
        token: FencingToken,
        value: Option<&[u8]>,
    ) -> Check<Result<Stored, Error>> {
        self.bounded("store", self.backend.store(claim, token, value)).await
    }

    /// Stores a value, which must succeed.
    pub(super) async fn stores(
        &self,
        claim: &Claim,
        token: FencingToken,
        value: Option<&[u8]>,
    ) -> Check {
        match self.try_store(claim, token, value).await?? {
            Stored::Written => Ok(()),
            Stored::NotHeld => Err(Failure::Broken("the holder could not store a value".into())),
        }
    }

    /// Tries to store under a claim that does not hold the key.
    async fn cannot_store(&self, claim: &Claim, token: FencingToken) -> Check {
        match self.try_store(claim, token, Some(ODD)).await?? {
            Stored::NotHeld => Ok(()),
            Stored::Written => Err(Failure::Broken("a value was stored without the key".into())),
        }
    }

    async fn load(&self, key: &Key) -> Check<Option<Cell>> {
        Ok(self.bounded("load", self.backend.load(key)).await??)
    }

    pub(super) async fn load_under(&self, claim: &Claim) -> Check<Option<Cell>> {
        Ok(self.bounded("load under a claim", self.backend.load_under(claim)).await??)
    }

    pub(super) async fn has_no_value(&self, key: &Key) -> Check {
        let cell = self.load(key).await?;
        ensure!(cell.is_none(), "there should be no value, but there is {cell:?}");
        Ok(())
    }

    /// Loads the value, which must be `value`.
    pub(super) async fn has(&self, key: &Key, value: &[u8]) -> Check<Cell> {
        match self.load(key).await? {
            Some(cell) if cell.value == value => Ok(cell),
            other => Err(Failure::Broken(format!(
                "{} bytes were stored, but loading gave {other:?}",
                value.len()
            ))),
        }
    }

    /// Loads the value, and checks whether the lease of its writer is still held.
    async fn has_held(&self, key: &Key, value: &[u8], held: bool) -> Check {
        let cell = self.has(key, value).await?;
        ensure!(cell.held == held, "that its writer holds the key is {held}, but got {cell:?}");
        Ok(())
    }
}
