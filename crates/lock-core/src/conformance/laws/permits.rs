//! The state of a semaphore: how many permits there are, and whether it is closed.

use super::super::Harness;
use super::super::line::queued;
use super::super::scene::{Client, Scene, granted, in_mode};
use super::super::verdict::{Check, Failure, ensure};
use crate::{
    Acquire, Claim, Convert, Error, ErrorKind, Key, Mode, PermitBackend, Permits, Released,
};
use crate::{Resize, Resized};

pub(super) fn permits(take: u32, of: u32) -> Mode {
    Mode::Permits { take, of }
}

pub(in super::super) async fn the_first_user_declares_the_limit<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: PermitBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let ttl = scene.long();
    // The first user looks at the semaphore, or acquires a permit and gives it back.
    for looks in [true, false] {
        let key = scene.key()?;
        if looks {
            one.counts(&key, 31, Permits::new(31)).await?;
        } else {
            let held = in_mode(&key, permits(1, 31))?;
            one.obtains(&held, ttl).await?;
            one.freed(&held).await?;
        }
        for client in [&one, &other] {
            let asked = Acquire::new(in_mode(&key, permits(1, 57))?, ttl);
            names_both(client.try_acquire(&asked).await?)?;
            names_both(client.permits(&key, 57).await?)?;
            names_both(client.resize(&key, 57, Resize::Add(1)).await?)?;
            names_both(client.close(&key, 57).await?)?;
            client.counts(&key, 31, Permits::new(31)).await?;
        }
        other.obtains(&in_mode(&key, permits(31, 31))?, ttl).await?;
    }
    Ok(())
}

fn names_both<T: std::fmt::Debug>(answer: Result<T, Error>) -> Check {
    let error = match answer {
        Err(error) if error.kind() == ErrorKind::InvalidConfig => error,
        other => return Err(Failure::Broken(format!("57 were declared after 31, but {other:?}"))),
    };
    let message = error.to_string();
    let names_both = message.contains("31") && message.contains("57");
    ensure!(names_both, "the limits 31 and 57 are not in {message:?}");
    Ok(())
}

pub(in super::super) async fn the_state_of_a_semaphore_can_be_seen<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: PermitBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let state = |held, waiting| {
        let mut state = Permits::new(5);
        (state.held, state.waiting) = (held, waiting);
        state
    };
    other.counts(&key, 5, state(0, 0)).await?;
    let held = in_mode(&key, permits(2, 5))?;
    one.obtains(&held, ttl).await?;
    one.obtains(&in_mode(&key, permits(1, 5))?, scene.ttl()).await?;
    for client in [&one, &other] {
        client.counts(&key, 5, state(3, 0)).await?;
    }
    scene.outlast(scene.ttl().duration()).await;
    other.counts(&key, 5, state(2, 0)).await?;

    let mutex = scene.key()?;
    one.granted(&scene.claim(&mutex)?, ttl).await?;
    match other.permits(&mutex, 5).await? {
        Err(error) if error.kind() == ErrorKind::ForeignKey => {}
        answer => return Err(Failure::Broken(format!("the permits of a mutex are {answer:?}"))),
    }

    let waiter = other.waits(queued(&key, permits(4, 5), ttl)?).await?;
    let second = one.waits(queued(&key, permits(1, 5), ttl)?).await?;
    for client in [&one, &other] {
        client.counts(&key, 5, state(2, 2)).await?;
    }
    ensure!(!second.leaves().await?, "a small request overtook a large one");
    other.counts(&key, 5, state(2, 1)).await?;
    one.freed(&held).await?;
    other.counts(&key, 5, state(4, 0)).await?;
    ensure!(waiter.leaves().await?, "the lease was lost");
    one.counts(&key, 5, state(0, 0)).await
}

pub(in super::super) async fn added_permits_serve_the_waiters<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: PermitBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let held = in_mode(&key, permits(2, 2))?;
    one.obtains(&held, ttl).await?;
    // So many permits cannot exist.
    match other.resize(&key, 2, Resize::Add(Permits::MAX - 1)).await? {
        Err(error) if error.kind() == ErrorKind::InvalidConfig => {}
        answer => return Err(Failure::Broken(format!("too many permits came to {answer:?}"))),
    }
    other.changes(&key, 2, Resize::Add(3), (3, 5)).await?;
    let more = in_mode(&key, permits(3, 2))?;
    other.obtains(&more, ttl).await?;
    one.is_refused(&in_mode(&key, permits(1, 2))?, ttl).await?;
    other.freed(&more).await?;
    one.freed(&held).await?;
    let all = in_mode(&key, permits(5, 2))?;
    one.obtains(&all, ttl).await?;

    let mut first = other.waits(queued(&key, permits(2, 2), ttl)?).await?;
    let mut second = one.waits(queued(&key, permits(1, 2), ttl)?).await?;
    one.changes(&key, 2, Resize::Add(1), (1, 6)).await?;
    // The first waiter waits for all its permits, and no other waiter overtakes it.
    second.still_waits().await?;
    first.still_waits().await?;
    other.changes(&key, 2, Resize::Add(2), (2, 8)).await?;
    for waiter in [&mut first, &mut second] {
        waiter.hears_grant().await?;
        waiter.claims().await?;
    }
    one.is_refused(&in_mode(&key, permits(1, 2))?, ttl).await?;
    one.renewed(&all, ttl).await?;
    Ok(())
}

pub(in super::super) async fn more_than_there_are_can_be_waited_for<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: PermitBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let ttl = scene.long();
    // A semaphore that is declared without permits is a gate.
    for declared in [0, 1] {
        let key = scene.key()?;
        other.counts(&key, declared, Permits::new(declared)).await?;
        let two = in_mode(&key, permits(2, declared))?;
        other.is_refused(&two, ttl).await?;
        one.changes(&key, declared, Resize::Add(2), (2, declared + 2)).await?;
        other.obtains(&two, ttl).await?;
        let mut waiter = other.waits(queued(&key, permits(4, declared), ttl)?).await?;
        let mut later = one.waits(queued(&key, permits(1, declared), ttl)?).await?;
        other.freed(&two).await?;
        waiter.still_waits().await?;
        later.still_waits().await?;
        one.changes(&key, declared, Resize::Add(3), (3, declared + 5)).await?;
        for waiter in [&mut waiter, &mut later] {
            waiter.hears_grant().await?;
            waiter.claims().await?;
        }
    }
    Ok(())
}

pub(in super::super) async fn added_permits_wake_every_watcher<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: PermitBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let key = scene.key()?;
    let claim = in_mode(&key, permits(1, 0))?;
    // None of the watchers is in the queue.
    let mut watches = Vec::new();
    for client in [&one, &other, &other] {
        watches.push((client, client.watch(&key).await?));
    }
    other.is_refused(&claim, scene.long()).await?;
    one.changes(&key, 0, Resize::Add(1), (1, 1)).await?;
    for (client, watch) in &mut watches {
        client.hears_release(watch).await?;
    }
    other.obtains(&claim, scene.long()).await?;
    Ok(())
}

pub(in super::super) async fn only_free_permits_can_be_removed<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: PermitBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let held = in_mode(&key, permits(2, 6))?;
    one.obtains(&held, ttl).await?;
    other.changes(&key, 6, Resize::Remove(1), (1, 5)).await?;
    other.changes(&key, 6, Resize::Remove(10), (3, 2)).await?;
    one.changes(&key, 6, Resize::Remove(1), (0, 2)).await?;
    one.renewed(&held, ttl).await?;
    other.is_refused(&in_mode(&key, permits(1, 6))?, ttl).await?;
    one.freed(&held).await?;
    // A request for as many permits as there were waits.
    one.is_refused(&in_mode(&key, permits(3, 6))?, ttl).await?;
    let held = in_mode(&key, permits(1, 6))?;
    one.obtains(&held, ttl).await?;
    let mut waiter = other.waits(queued(&key, permits(2, 6), ttl)?).await?;
    // One permit is free, but a waiter wants it and another one.
    one.changes(&key, 6, Resize::Remove(1), (0, 2)).await?;
    one.freed(&held).await?;
    waiter.hears_grant().await?;
    waiter.claims().await?;
    Ok(())
}

pub(in super::super) async fn a_changed_limit_stays<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: PermitBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.ttl());
    one.changes(&key, 3, Resize::Add(2), (2, 5)).await?;
    let all = in_mode(&key, permits(5, 3))?;
    other.obtains(&all, ttl).await?;
    scene.outlast(ttl.duration()).await;
    other.counts(&key, 3, Permits::new(5)).await?;
    other.changes(&key, 3, Resize::Remove(4), (4, 1)).await?;
    let held = in_mode(&key, permits(1, 3))?;
    one.obtains(&held, ttl).await?;
    other.is_refused(&in_mode(&key, permits(1, 3))?, ttl).await?;
    one.freed(&held).await?;
    scene.outlast(ttl.duration()).await;
    one.counts(&key, 3, Permits::new(1)).await?;
    // The semaphore is known by the limit that was declared first.
    let renamed = Acquire::new(in_mode(&key, permits(1, 5))?, ttl);
    other.fails(&renamed, ErrorKind::InvalidConfig).await?;
    Ok(())
}

pub(in super::super) async fn a_lease_can_give_back_some_permits<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: PermitBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let held = in_mode(&key, permits(4, 4))?;
    let before = one.obtains(&held, ttl).await?;
    let convert = Convert::new(held.clone(), permits(2, 4), ttl);
    for client in [&one, &other, &one] {
        let after = granted(client.ask(&convert).await?)?;
        ensure!(after.tokens == before.tokens, "the tokens are {:?} with fewer", after.tokens);
    }
    one.lost(&held, ttl).await?;
    one.not_held(&held).await?;
    one.renewed(&convert.request.claim, ttl).await?;
    let theirs = in_mode(&key, permits(2, 4))?;
    other.obtains(&theirs, ttl).await?;

    for take in [3, 0] {
        let senseless = Convert::new(convert.request.claim.clone(), permits(take, 4), ttl);
        one.fails(&senseless, ErrorKind::InvalidConfig).await?;
    }
    let never = in_mode(&key, permits(2, 4))?;
    one.fails(&Convert::new(never.clone(), permits(1, 4), ttl), ErrorKind::NotHeld).await?;

    let mut first = other.waits(queued(&key, permits(1, 4), ttl)?).await?;
    let mut second = one.waits(queued(&key, permits(1, 4), ttl)?).await?;
    let convert = Convert::new(convert.request.claim.clone(), permits(1, 4), ttl);
    let after = granted(one.ask(&convert).await?)?;
    ensure!(after.tokens == before.tokens, "the tokens are {:?} now", after.tokens);
    first.hears_grant().await?;
    first.claims().await?;
    second.still_waits().await?;
    one.freed(&convert.request.claim).await?;
    second.hears_grant().await?;
    second.claims().await?;

    // A store that has forgotten the declared number still knows the lease.
    let key = scene.key()?;
    let held = in_mode(&key, permits(2, 4))?;
    one.obtains(&held, ttl).await?;
    for of in (10..).take(Permits::DECLARATIONS) {
        other.resize(&key, of, Resize::Declare).await??;
    }
    granted(one.ask(&Convert::new(held, permits(1, 4), ttl)).await?).map(drop)
}

pub(in super::super) async fn forgotten_permits_are_gone_for_good<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: PermitBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let lost = in_mode(&key, permits(2, 3))?;
    one.obtains(&lost, ttl).await?;
    let released = one.forgets(&lost).await?;
    ensure!(matches!(released, Released::Freed { .. }), "it was held, but got {released:?}");
    one.lost(&lost, ttl).await?;
    other.counts(&key, 3, Permits::new(1)).await?;
    let last = in_mode(&key, permits(1, 3))?;
    other.obtains(&last, ttl).await?;
    one.is_refused(&in_mode(&key, permits(1, 3))?, ttl).await?;

    // Permits that do not come back serve no waiter.
    let mut waiter = one.waits(queued(&key, permits(1, 3), ttl)?).await?;
    other.forgets(&last).await?;
    waiter.still_waits().await?;
    other.changes(&key, 3, Resize::Add(1), (1, 1)).await?;
    waiter.hears_grant().await?;
    waiter.claims().await?;
    Ok(())
}

pub(in super::super) async fn forgetting_twice_takes_once<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: PermitBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let key = scene.key()?;
    let lost = in_mode(&key, permits(2, 7))?;
    one.obtains(&lost, scene.long()).await?;
    one.forgets(&lost).await?;
    let never = in_mode(&key, permits(1, 7))?;
    let released = in_mode(&key, permits(1, 7))?;
    one.obtains(&released, scene.long()).await?;
    one.freed(&released).await?;
    let expired = in_mode(&key, permits(1, 7))?;
    one.obtains(&expired, scene.ttl()).await?;
    scene.outlast(scene.ttl().duration()).await;
    for claim in [&lost, &never, &released, &expired] {
        for client in [&one, &other] {
            let again = client.forgets(claim).await?;
            ensure!(again == Released::NotHeld, "nothing was held, but got {again:?}");
        }
    }
    other.counts(&key, 7, Permits::new(5)).await?;
    other.obtains(&in_mode(&key, permits(5, 7))?, scene.long()).await?;
    Ok(())
}

pub(in super::super) async fn a_closed_semaphore_grants_nothing<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: PermitBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let held = in_mode(&key, permits(2, 3))?;
    let first = one.obtains(&held, ttl).await?;
    for client in [&other, &one] {
        client.close(&key, 3).await??;
    }
    for client in [&one, &other] {
        // One permit is free, but no request gets it.
        let request = queued(&key, permits(1, 3), ttl)?;
        client.fails(&request, ErrorKind::Closed).await?;
        let state = client.permits(&key, 3).await??;
        ensure!(state.closed && state.held == 2, "it was closed, but is {state:?}");
        client.renewed(&held, ttl).await?;
        let again = client.obtains(&held, ttl).await?;
        ensure!(again.tokens == first.tokens, "the lease has {:?} now", again.tokens);
    }
    other.resize(&key, 3, Resize::Add(1)).await??;
    let fewer = Convert::new(held.clone(), permits(1, 3), ttl);
    granted(one.ask(&fewer).await?)?;
    one.freed(&fewer.request.claim).await?;
    one.fails(&Acquire::new(in_mode(&key, permits(1, 3))?, ttl), ErrorKind::Closed).await?;

    let key = scene.key()?;
    let held = in_mode(&key, permits(3, 3))?;
    one.obtains(&held, ttl).await?;
    let mut waiter = other.waits(queued(&key, permits(1, 3), ttl)?).await?;
    one.close(&key, 3).await??;
    let hint = other.bounded("a hint that it is closed", waiter.watch.next()).await?;
    ensure!(hint.is_some(), "the watch ended");
    one.freed(&held).await?;
    // Nor do returned permits serve the waiter.
    other.fails(&waiter.request, ErrorKind::Closed).await?;
    other.lost(waiter.claim(), ttl).await?;
    Ok(())
}

impl<B: PermitBackend> Client<B> {
    async fn permits(&self, key: &Key, of: u32) -> Check<Result<Permits, Error>> {
        self.bounded("permits", self.backend.permits(key, of)).await
    }

    pub(super) async fn resize(
        &self,
        key: &Key,
        of: u32,
        change: Resize,
    ) -> Check<Result<Resized, Error>> {
        self.bounded("resize", self.backend.resize(key, of, change)).await
    }

    async fn close(&self, key: &Key, of: u32) -> Check<Result<(), Error>> {
        self.bounded("close", self.backend.close(key, of)).await
    }

    async fn forgets(&self, claim: &Claim) -> Check<Released> {
        Ok(self.bounded("forget", self.backend.forget(claim)).await??)
    }

    /// Looks at the semaphore, which must be in this state.
    pub(super) async fn counts(&self, key: &Key, of: u32, expected: Permits) -> Check {
        let state = self.permits(key, of).await??;
        ensure!(state == expected, "it should be {expected:?}, but it is {state:?}");
        Ok(())
    }

    /// Makes a change that must change this number of permits, to this number in all.
    pub(super) async fn changes(
        &self,
        key: &Key,
        of: u32,
        change: Resize,
        (changed, limit): (u32, u32),
    ) -> Check {
        let resized = self.resize(key, of, change).await??;
        ensure!(
            resized.changed == changed && resized.permits.limit == limit,
            "{change:?} should have changed {changed}, to {limit} in all, but {resized:?}"
        );
        let state = self.permits(key, of).await??;
        ensure!(state == resized.permits, "it was {resized:?}, but it is {state:?} now");
        Ok(())
    }
}
