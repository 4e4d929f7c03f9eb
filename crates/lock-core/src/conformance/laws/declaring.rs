//! Declarations of another number of permits.

use super::super::Harness;
use super::super::line::queued;
use super::super::scene::{Scene, in_mode};
use super::super::verdict::Check;
use super::permits::permits;
use crate::{Acquire, ErrorKind, PermitBackend, Permits, Resize};

pub(in super::super) async fn the_last_declaration_sets_the_limit<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: PermitBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    // The first declaration stores the limit, as every request does.
    one.changes(&key, 3, Resize::Declare, (0, 3)).await?;
    let held = in_mode(&key, permits(3, 3))?;
    one.obtains(&held, ttl).await?;
    let mut first = one.waits(queued(&key, permits(1, 3), ttl)?).await?;
    let mut watch = other.watch(&key).await?;
    other.changes(&key, 5, Resize::Declare, (2, 5)).await?;
    first.hears_grant().await?;
    first.claims().await?;
    other.hears_release(&mut watch).await?;
    other.obtains(&in_mode(&key, permits(1, 5))?, ttl).await?;
    other.is_refused(&in_mode(&key, permits(1, 5))?, ttl).await?;
    // A declaration also replaces what was added to the number before it.
    let key = scene.key()?;
    one.changes(&key, 3, Resize::Add(4), (4, 7)).await?;
    other.changes(&key, 2, Resize::Declare, (5, 2)).await?;
    one.obtains(&in_mode(&key, permits(2, 2))?, ttl).await?;
    other.is_refused(&in_mode(&key, permits(1, 2))?, ttl).await
}

pub(in super::super) async fn an_earlier_declaration_goes_on_under_the_limit<H>(
    scene: Scene<'_, H>,
) -> Check
where
    H: Harness<Client: PermitBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let before = in_mode(&key, permits(1, 31))?;
    one.obtains(&before, ttl).await?;
    other.changes(&key, 2, Resize::Declare, (29, 2)).await?;
    // A client of the first number and a client of the last one share two permits.
    let state = |held| {
        let mut state = Permits::new(2);
        state.held = held;
        state
    };
    one.counts(&key, 31, state(1)).await?;
    let second = in_mode(&key, permits(1, 2))?;
    other.obtains(&second, ttl).await?;
    one.is_refused(&in_mode(&key, permits(1, 31))?, ttl).await?;
    other.is_refused(&in_mode(&key, permits(1, 2))?, ttl).await?;
    one.renewed(&before, ttl).await?;
    let mut waiter = one.waits(queued(&key, permits(1, 31), ttl)?).await?;
    other.freed(&second).await?;
    waiter.hears_grant().await?;
    waiter.claims().await?;
    one.freed(&before).await?;
    one.changes(&key, 31, Resize::Add(1), (1, 3)).await?;
    let unknown = Acquire::new(in_mode(&key, permits(1, 57))?, ttl);
    other.fails(&unknown, ErrorKind::InvalidConfig).await?;
    // So many numbers are remembered.
    let most = Permits::DECLARATIONS as u32;
    for number in 0..most - 1 {
        other.resize(&key, 100 + number, Resize::Declare).await??;
    }
    one.obtains(&in_mode(&key, permits(1, 2))?, ttl).await?;
    let forgotten = Acquire::new(in_mode(&key, permits(1, 31))?, ttl);
    one.fails(&forgotten, ErrorKind::InvalidConfig).await?;
    Ok(())
}

pub(in super::super) async fn a_repeated_declaration_changes_nothing<H>(
    scene: Scene<'_, H>,
) -> Check
where
    H: Harness<Client: PermitBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let key = scene.key()?;
    one.counts(&key, 31, Permits::new(31)).await?;
    one.changes(&key, 5, Resize::Declare, (26, 5)).await?;
    other.changes(&key, 5, Resize::Add(2), (2, 7)).await?;
    for client in [&one, &other] {
        client.changes(&key, 5, Resize::Declare, (0, 7)).await?;
    }
    // The number that came before is another number again.
    one.changes(&key, 31, Resize::Declare, (24, 31)).await?;
    one.changes(&key, 5, Resize::Declare, (26, 5)).await?;
    Ok(())
}

pub(in super::super) async fn a_smaller_limit_ends_no_lease<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: PermitBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let leases = [3, 1, 1].map(|take| in_mode(&key, permits(take, 5)));
    let [three, second, third] = leases;
    let (three, second, third) = (three?, second?, third?);
    for held in [&three, &second, &third] {
        one.obtains(held, ttl).await?;
    }
    other.changes(&key, 2, Resize::Declare, (3, 2)).await?;
    let mut state = Permits::new(2);
    state.held = 5;
    other.counts(&key, 2, state).await?;
    for held in [&three, &second, &third] {
        one.renewed(held, ttl).await?;
    }
    let mut waiter = other.waits(queued(&key, permits(1, 2), ttl)?).await?;
    // Two permits are left of five, and the limit is two.
    one.freed(&three).await?;
    waiter.still_waits().await?;
    one.renewed(&second, ttl).await?;
    one.freed(&third).await?;
    waiter.hears_grant().await?;
    waiter.claims().await?;
    other.is_refused(&in_mode(&key, permits(1, 2))?, ttl).await
}
