//! Renewals and repeats of places that begin together, and need few calls.

mod harm;
mod places;
mod renewals;

use std::pin::Pin;
use std::time::Duration;

use futures::future::join_all;
use futures::poll;
use lock_core::{Backend, Claim, Clock, Contention, Renew, Renewal};
use lock_redis::RedisBackend;

use crate::support::{Client, Waiter, calls, claim, claim_of, granted, long, open};

const MANY: usize = 100;

type Running<'a> = Pin<Box<dyn Future<Output = Renewal> + Send + 'a>>;

fn claims(count: usize) -> Vec<Claim> {
    (0..count).map(|number| claim(number.to_string())).collect()
}

/// The number of scripts that ran.
fn scripts(raw: &mut Client) -> u64 {
    calls(raw, "evalsha")
}

async fn hold(backend: &RedisBackend, claims: &[Claim]) {
    join_all(claims.iter().map(|claim| granted(backend, claim))).await;
}

fn renewals<'a>(backend: &'a RedisBackend, claims: &'a [Claim]) -> Vec<Running<'a>> {
    let running = claims.iter().map(|claim| -> Running<'a> {
        Box::pin(async { backend.renew(&Renew::new(claim.clone(), long())).await })
    });
    running.collect()
}

/// Renews all leases, with renewals that begin together.
async fn renew(backend: &RedisBackend, claims: &[Claim]) -> Vec<Renewal> {
    join_all(renewals(backend, claims)).await
}

/// The contention that a renewal returns; nothing, if the lease is lost.
fn contention(renewal: &Renewal) -> Option<Contention> {
    match renewal {
        Renewal::Renewed { valid_until, tokens: None, contention } => {
            let until = Clock::boot().now() + long().duration();
            assert!(*valid_until <= until && *valid_until + Duration::from_secs(30) > until);
            Some(*contention)
        }
        Renewal::Lost => None,
        other => panic!("{other:?}"),
    }
}

fn pttl(raw: &mut Client, key: &str) -> i64 {
    raw.command(&["PTTL", key])
}

/// A claim in the queue of each of these locks.
async fn queue_for(backend: &RedisBackend, held: &[Claim]) -> Vec<Waiter> {
    let mut line = Vec::new();
    for claim in held {
        line.push(Waiter::queue(backend, claim_of(claim.key.clone())).await);
    }
    line
}

/// Polls each of these requests once.
async fn begin(running: &mut [Running<'_>]) {
    for renewal in running {
        assert!(poll!(renewal).is_pending());
    }
}
