//! Shared deployments, clients that can be cut, and short forms of requests.

mod deployed;
mod guards;
mod set;
mod waiter;

use std::time::Duration;

use lock_core::{
    AcquireOutcome, Backend, Claim, FencingToken, Grant, Released, Renew, Renewal, Ttl,
};
use lock_redis::RedisBackend;
use lock_tests::requests;
pub(crate) use lock_tests::requests::claim;

pub(crate) use self::deployed::{Deployed, Kind};
pub(crate) use self::guards::{guards_go_through, locks};
pub(crate) use self::set::{Set, TIMEOUT};
pub(crate) use self::waiter::Waiter;

/// A lease that outlasts any test.
pub(crate) fn long() -> Ttl {
    Ttl::new(Duration::from_secs(300)).unwrap()
}

/// Asks for a lease that must be granted.
pub(crate) async fn granted(backend: &RedisBackend, claim: &Claim) -> Grant {
    requests::granted(backend, claim, long()).await
}

/// Renews until there is an answer, which must be that the lease is held.
pub(crate) async fn renewed(backend: &RedisBackend, claim: &Claim) {
    loop {
        match backend.renew(&Renew::new(claim.clone(), long())).await {
            Renewal::Renewed { .. } => return,
            Renewal::Unknown(error) if error.is_retryable() => {
                println!("not renewed yet: {error:?}")
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Releases until there is an answer. The first attempt may have worked without one.
pub(crate) async fn released(backend: &RedisBackend, claim: &Claim) -> Released {
    loop {
        match backend.release(claim).await {
            Ok(released) => return released,
            Err(error) if error.is_retryable() => println!("not released yet: {error:?}"),
            Err(error) => panic!("{error}"),
        }
    }
}

/// The first waiter got this grant after a holder with this token. The second waiter follows, and does not overtake.
pub(crate) async fn served_in_order(
    token: FencingToken,
    grant: &Grant,
    first: &Waiter,
    second: &mut Waiter,
) {
    assert!(grant.tokens.first() > token, "{grant:?} after {token}");
    // A lease that is handed over lives for a second.
    renewed(&first.backend, &first.request.claim).await;
    assert!(
        matches!(second.ask().await, AcquireOutcome::Queued { .. }),
        "the second waiter overtook"
    );
    released(&first.backend, &first.request.claim).await;
    let next = second.gets_it().await;
    assert!(next.tokens.first() > grant.tokens.last());
}
