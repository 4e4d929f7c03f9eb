//! A value that comes with the grant, and a value that is stored in the step that releases the lock.

use super::super::Harness;
use super::super::line::Waiter;
use super::super::scene::{Client, Held, Scene, granted, in_mode};
use super::super::verdict::{Check, Failure, ensure};
use crate::{Acquire, Cell, CellBackend, Claim, Committed, Error, ErrorKind, FencingToken};
use crate::{Grant, Hint, Mode, Ttl, Watch};

pub(in super::super) async fn a_grant_brings_what_its_holder_would_load<H>(
    scene: Scene<'_, H>,
) -> Check
where
    H: Harness<Client: CellBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    for (client, value) in [(&one, &b"first"[..]), (&other, b"second \0\r\n"), (&one, b"")] {
        let claim = scene.claim(&key)?;
        let grant = client.granted_with_value(&claim, ttl).await?;
        client.brings_what_it_loads(&claim, &grant).await?;
        let token = grant.tokens.first();
        client.stores(&claim, token, Some(value)).await?;
        // The repetition finds the value that was stored meanwhile.
        let again = client.granted_with_value(&claim, ttl).await?;
        ensure!(again.tokens.first() == token, "{again:?} repeats {grant:?}");
        client.brings_what_it_loads(&claim, &again).await?;
        client.freed(&claim).await?;
    }
    let claim = scene.claim(&key)?;
    let grant = other.granted_with_value(&claim, ttl).await?;
    other.brings_what_it_loads(&claim, &grant).await?;
    other.stores(&claim, grant.tokens.first(), None).await?;
    let again = other.granted_with_value(&claim, ttl).await?;
    other.brings_what_it_loads(&claim, &again).await
}

pub(in super::super) async fn a_pushed_grant_brings_what_its_holder_would_load<H>(
    scene: Scene<'_, H>,
) -> Check
where
    H: Harness<Client: CellBackend>,
{
    let Held { holder: one, other, key, ttl, held, grant } = scene.held().await?;
    let token = grant.tokens.first();
    one.stores(&held, token, Some(b"first")).await?;
    let mut second = other.waits(scene.queued(&key, ttl)?.with_value()).await?;
    one.commits(&held, token, b"second").await?;
    other.has_under(second.claim(), b"second").await?;
    second.arrives_with_value().await?;
    // The second holder stores nothing, so its release passes on the value of the first.
    let mut third = one.waits(scene.queued(&key, ttl)?.with_value()).await?;
    other.freed(second.claim()).await?;
    one.has_under(third.claim(), b"second").await?;
    third.arrives_with_value().await
}

pub(in super::super) async fn a_commit_stores_and_releases<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: CellBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let mut last = FencingToken::new(0);
    for (client, value) in [(&one, &b"first"[..]), (&other, b"\0\r\n second"), (&one, b"")] {
        let claim = scene.claim(&key)?;
        let token = client.granted(&claim, ttl).await?.tokens.first();
        ensure!(token > last, "{token} follows {last}");
        last = token;
        client.commits(&claim, token, value).await?;
        client.not_held(&claim).await?;
        for reader in [&one, &other] {
            let cell = reader.has(&key, value).await?;
            ensure!(cell.token == token, "{token} has committed it, not {}", cell.token);
            ensure!(cell.settled && !cell.held, "it was committed, but: {cell:?}");
        }
    }
    let too_long = vec![b'x'; Cell::MAX_LEN + 1];
    let claim = scene.claim(&key)?;
    let token = one.granted(&claim, ttl).await?.tokens.first();
    let shared = in_mode(&key, Mode::Shared)?;
    for (claim, value) in [(&claim, &too_long[..]), (&shared, b"shared")] {
        match one.try_commit(claim, token, value).await? {
            Err(error) if error.kind() == ErrorKind::InvalidConfig => {}
            answer => return Err(Failure::Broken(format!("a bad commit got {answer:?}"))),
        }
    }
    other.refused(&key, ttl).await?;
    Ok(())
}

pub(in super::super) async fn only_the_holder_can_commit<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: CellBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.ttl());
    let (first, second) = (scene.claim(&key)?, scene.claim(&key)?);
    let high = FencingToken::new(1 << 52);
    one.cannot_commit(&first, high).await?;
    one.granted(&first, ttl).await?;
    other.cannot_commit(&second, high).await?;
    other.has_no_value(&key).await?;
    scene.outlast(ttl.duration()).await;
    one.cannot_commit(&first, high).await?;
    let token = other.granted(&second, scene.long()).await?.tokens.first();
    one.cannot_commit(&first, high).await?;
    other.has_no_value(&key).await?;
    // The refused commits have not ended the lease of the present holder.
    one.refused(&key, ttl).await?;
    other.commits(&second, token, b"second").await?;
    one.cannot_commit(&first, token).await?;
    other.has(&key, b"second").await?;
    // A hold of a process that passes its lease on: the next hold has a higher token.
    let claim = scene.claim(&key)?;
    let lower = one.granted(&claim, scene.long()).await?.tokens.first();
    let higher = FencingToken::new(lower.get() + 1);
    one.stores(&claim, higher, Some(b"higher")).await?;
    one.cannot_commit(&claim, lower).await?;
    other.has(&key, b"higher").await?;
    other.refused(&key, ttl).await?;
    Ok(())
}

pub(in super::super) async fn committing_twice_is_no_error<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: CellBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    for value in [&b"first"[..], b"second"] {
        let claim = scene.claim(&key)?;
        let token = one.granted(&claim, ttl).await?.tokens.first();
        for client in [&one, &one, &other] {
            client.commits(&claim, token, value).await?;
            other.has(&key, value).await?;
        }
        // Also while the next holder has the key and has stored nothing. The repetition does not end that lease.
        let next = scene.claim(&key)?;
        other.granted(&next, ttl).await?;
        one.commits(&claim, token, value).await?;
        one.refused(&key, ttl).await?;
        other.freed(&next).await?;
    }
    Ok(())
}

pub(in super::super) async fn a_commit_passes_the_key_on<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: CellBackend>,
{
    let Held { holder: one, other, key, ttl, held: claim, grant } = scene.held().await?;
    let token = grant.tokens.first();
    let third = scene.client().await?;
    let mut watch = third.watch(&key).await?;
    third.refused(&key, ttl).await?;
    one.commits(&claim, token, b"first").await?;
    third.hears_of_a_commit(&mut watch).await?;

    let held = scene.claim(&key)?;
    let token = one.granted(&held, ttl).await?.tokens.first();
    if let Some(mut waiter) = other.joins(scene.queued(&key, ttl)?).await? {
        one.commits(&held, token, b"second").await?;
        third.hears_of_a_commit(&mut watch).await?;
        // The waiter has done nothing, and yet it holds the key.
        third.refused(&key, ttl).await?;
        waiter.hears_grant().await?;
        let grant = waiter.claims().await?;
        ensure!(grant.tokens.first() > token, "{grant:?} follows {token}");
        other.has_under(waiter.claim(), b"second").await?;
    }
    Ok(())
}

impl<B: CellBackend> Client<B> {
    /// Asks for a lease with the value, which must be granted.
    async fn granted_with_value(&self, claim: &Claim, ttl: Ttl) -> Check<Grant> {
        let request = Acquire::new(claim.clone(), ttl).with_value();
        granted(self.try_acquire(&request).await??)
    }

    /// Checks that a grant brings no value other than the one that its holder loads.
    async fn brings_what_it_loads(&self, claim: &Claim, grant: &Grant) -> Check {
        let loaded = self.load_under(claim).await?;
        let Some(brought) = &grant.value else { return Ok(()) };
        let essence = |cell: &Cell| (cell.value.clone(), cell.token, cell.settled);
        let (brought, loads) = (brought.cell().map(essence), loaded.as_ref().map(essence));
        ensure!(brought == loads, "the grant brought {brought:?}, but its holder loads {loads:?}");
        Ok(())
    }

    /// Checks what the holder loads.
    async fn has_under(&self, claim: &Claim, value: &[u8]) -> Check {
        match self.load_under(claim).await? {
            Some(cell) if cell.value == value => Ok(()),
            other => Err(Failure::Broken(format!("the holder loaded {other:?}"))),
        }
    }

    async fn try_commit(
        &self,
        claim: &Claim,
        token: FencingToken,
        value: &[u8],
    ) -> Check<Result<Committed, Error>> {
        self.bounded("commit", self.backend.commit(claim, token, value)).await
    }

    /// Commits a value, which must succeed.
    async fn commits(&self, claim: &Claim, token: FencingToken, value: &[u8]) -> Check {
        match self.try_commit(claim, token, value).await?? {
            Committed::Done { .. } => Ok(()),
            Committed::NotHeld => Err(Failure::Broken("the holder could not commit".into())),
        }
    }

    /// Tries to commit under a claim that does not hold the key.
    async fn cannot_commit(&self, claim: &Claim, token: FencingToken) -> Check {
        match self.try_commit(claim, token, b"not held").await?? {
            Committed::NotHeld => Ok(()),
            Committed::Done { .. } => {
                Err(Failure::Broken("a value was committed without the key".into()))
            }
        }
    }

    /// Waits for a hint that a waiter or a reader of the value acts on.
    async fn hears_of_a_commit(&self, watch: &mut Watch) -> Check {
        let hint = async {
            loop {
                match watch.next().await {
                    Some(Hint::Released | Hint::Changed) => return Ok(()),
                    Some(_) => {}
                    None => return Err(Failure::Broken("the watch ended".into())),
                }
            }
        };
        self.bounded("a hint of the commit", hint).await?
    }
}

impl<B: CellBackend> Waiter<'_, B> {
    /// Waits for the hint of the grant and claims the lease. Checks the value that each of the two brings.
    async fn arrives_with_value(&mut self) -> Check {
        let pushed = self.hears_grant().await?;
        let claimed = self.claims().await?;
        for grant in pushed.iter().chain([&claimed]) {
            self.client.brings_what_it_loads(&self.request.claim, grant).await?;
        }
        Ok(())
    }
}
