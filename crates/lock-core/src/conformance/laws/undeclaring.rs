//! The end of what a semaphore keeps.

use super::super::Harness;
use super::super::scene::{Client, Scene, in_mode};
use super::super::verdict::{Check, ensure};
use super::permits::permits;
use crate::{Claim, ErrorKind, FencingToken, PermitBackend, Permits, Resize, Ttl};

pub(in super::super) async fn only_the_exclusive_holder_can_undeclare<H>(
    scene: Scene<'_, H>,
) -> Check
where
    H: Harness<Client: PermitBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    one.changes(&key, 3, Resize::Add(2), (2, 5)).await?;
    let permit = in_mode(&key, permits(1, 3))?;
    one.obtains(&permit, ttl).await?;
    let stranger = scene.claim(&key)?;
    for client in [&one, &other] {
        ensure!(!client.undeclares(&stranger).await?, "a claim that holds nothing undeclares");
    }
    match one.bounded("undeclare", one.backend.undeclare(&permit)).await? {
        Err(error) if error.kind() == ErrorKind::InvalidConfig => {}
        answer => ensure!(false, "under a claim of a permit it says {answer:?}"),
    }
    let mut state = Permits::new(5);
    state.held = 1;
    other.counts(&key, 3, state).await?;
    one.freed(&permit).await?;
    let held = scene.claim(&key)?;
    one.granted(&held, ttl).await?;
    ensure!(!other.undeclares(&stranger).await?, "a claim beside the holder undeclares");
    one.freed(&held).await?;
    ensure!(!one.undeclares(&held).await?, "a claim that is over undeclares");
    other.counts(&key, 3, Permits::new(5)).await
}

pub(in super::super) async fn an_undeclared_semaphore_begins_anew<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: PermitBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    one.changes(&key, 3, Resize::Add(2), (2, 5)).await?;
    one.bounded("close", one.backend.close(&key, 3)).await??;
    let highest = end(&one, &scene.claim(&key)?, ttl).await?;
    other.counts(&key, 7, Permits::new(7)).await?;
    let next = in_mode(&key, permits(1, 7))?;
    let token = other.granted(&next, ttl).await?.tokens.first();
    ensure!(token > highest, "{token} comes after {highest}");
    Ok(())
}

pub(in super::super) async fn undeclaring_twice_is_no_error<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: PermitBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    // Nothing was ever declared.
    end(&one, &scene.claim(&key)?, ttl).await?;
    one.counts(&key, 3, Permits::new(3)).await?;
    let held = scene.claim(&key)?;
    other.granted(&held, ttl).await?;
    for _ in 0..2 {
        ensure!(other.undeclares(&held).await?, "the holder cannot undeclare");
    }
    other.freed(&held).await?;
    one.counts(&key, 2, Permits::new(2)).await
}

/// Undeclares the semaphore under this claim. Returns the last token of the claim.
async fn end<B: PermitBackend>(client: &Client<B>, claim: &Claim, ttl: Ttl) -> Check<FencingToken> {
    let tokens = client.granted(claim, ttl).await?.tokens;
    ensure!(client.undeclares(claim).await?, "the holder cannot undeclare");
    client.freed(claim).await?;
    Ok(tokens.last())
}

impl<B: PermitBackend> Client<B> {
    async fn undeclares(&self, claim: &Claim) -> Check<bool> {
        Ok(self.bounded("undeclare", self.backend.undeclare(claim)).await??)
    }
}
