//! A floor: many withdrawals from one account at once, and the balance never falls below its limit.
//!
//! The balance is the value of a `StoredMutex`. Each withdrawal looks at the balance and changes it under the lock, and
//! the commit stores it in the step that releases the lock. A withdrawal whose lease is lost stores nothing.
//!
//! The page `lock_sync::guide::patterns` has the core of it: "A counter with a floor".
//!
//! ```text
//! cargo run --example floor
//! LOCK_URL=redis://127.0.0.1:6379 cargo run --example floor
//! ```

#![forbid(unsafe_code)]

use std::process::ExitCode;

use futures::StreamExt;
use lock_any::lock_sync::{CommitError, StoredMutex};
use lock_examples::{AnyError, exit, fresh, url};
use tokio::task::JoinSet;

const OPENING: i64 = 1_000;
/// The account may not have less than this.
const FLOOR: i64 = 100;
const SERVICES: i64 = 3;
const WITHDRAWALS_OF_A_SERVICE: i64 = 8;
/// How often a service repeats a withdrawal that has lost its lease.
const REPEATS: u32 = 3;

#[tokio::main]
async fn main() -> ExitCode {
    exit(run(&url()).await)
}

/// Withdraws more than there is, from several services at once, and checks the balance.
async fn run(url: &str) -> Result<(), AnyError> {
    let name = fresh("balance");
    // The auditor is a service as well. It follows the balance without the lock.
    let audited = lock_any::connect(url).await?.stored_mutex(name.as_str(), OPENING)?;
    let mut balances = audited.subscribe();

    let mut withdrawals = JoinSet::new();
    for service in 1..=SERVICES {
        let locks = lock_any::connect(url).await?;
        for number in 1..=WITHDRAWALS_OF_A_SERVICE {
            let account = locks.stored_mutex(name.as_str(), OPENING)?;
            withdrawals.spawn(withdraw(account, service, 20 * service + 10 * number));
        }
    }
    let (mut paid, mut lowest) = (0, OPENING);
    while !withdrawals.is_empty() {
        tokio::select! {
            Some(amount) = withdrawals.join_next() => paid += amount??,
            Some(seen) = balances.next() => lowest = lowest.min(seen?.value),
        }
    }

    let left = audited.snapshot().await?.value;
    if left != OPENING - paid || lowest.min(left) < FLOOR {
        return Err(format!("{paid} paid out, {left} left, {lowest} seen by the auditor").into());
    }
    println!(
        "\n{paid} of {OPENING} were paid out, and {left} are left. The floor of {FLOOR} has held."
    );
    Ok(())
}

/// Takes an amount out of the account, unless that would break the floor. Returns what was paid out.
async fn withdraw(account: StoredMutex<i64>, service: i64, amount: i64) -> Result<i64, AnyError> {
    let mut repeats = 0..REPEATS;
    loop {
        let mut balance = account.lock().await?;
        if *balance - amount < FLOOR {
            println!("service {service}: {amount} refused, the balance is {}", *balance);
            return Ok(0); // the guard is dropped, and the balance stays as it is
        }
        *balance -= amount;
        let left = *balance;
        match balance.commit().await {
            Ok(_) => {
                println!("service {service}: {amount} paid out, {left} left");
                return Ok(amount);
            }
            // Nothing was stored, so the service looks at the balance again.
            Err(CommitError::Lost { .. }) if repeats.next().is_some() => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use lock_tests::{EtcdServer, PostgresServer, RedisServer};

    #[tokio::test(flavor = "multi_thread")]
    async fn the_floor_holds_over_memory() {
        super::run("memory:").await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_floor_holds_over_redis() {
        super::run(&RedisServer::start().url()).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_floor_holds_over_postgres() {
        let server = PostgresServer::start();
        super::run(&server.locks()).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_floor_holds_over_etcd() {
        let server = EtcdServer::start();
        super::run(&server.locks()).await.unwrap();
    }
}
