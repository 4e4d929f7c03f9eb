//! A gapless sequence: invoices are numbered 1, 2, 3 …, and no number is missing.
//!
//! A sequence of a database leaves a gap when a transaction that took a number is rolled back. Here the last number is
//! the value of a `StoredMutex`. A clerk that gives up drops the guard without a commit, and the next clerk gets the
//! number.
//!
//! The page `lock_sync::guide::patterns` has the core of it: "A sequence without gaps".
//!
//! ```text
//! cargo run --example gapless
//! LOCK_URL=redis://127.0.0.1:6379 cargo run --example gapless
//! ```

#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use lock_any::lock_sync::{CommitError, StoredMutex};
use lock_examples::{AnyError, exit, fresh, url};
use tokio::task::JoinSet;
use tokio::time::sleep;

const SERVICES: u64 = 3;
const CLERKS_OF_A_SERVICE: u64 = 2;
const ORDERS_OF_A_CLERK: u64 = 4;
/// How often a clerk takes a number again after it has lost its lease.
const REPEATS: u64 = 3;

#[tokio::main]
async fn main() -> ExitCode {
    exit(run(&url()).await)
}

/// Has clerks issue invoices, and checks the numbers.
async fn run(url: &str) -> Result<(), AnyError> {
    let name = fresh("invoice-number");
    let mut clerks = JoinSet::new();
    for service in 1..=SERVICES {
        // Each service is a client of its own, as a process would be.
        let locks = lock_any::connect(url).await?;
        for clerk in 1..=CLERKS_OF_A_SERVICE {
            let numbers = locks.stored_mutex(name.as_str(), 0)?;
            clerks.spawn(work(numbers, format!("service {service}, clerk {clerk}")));
        }
    }
    let mut issued = Vec::new();
    for of_a_clerk in clerks.join_all().await {
        issued.extend(of_a_clerk?);
    }
    issued.sort_unstable();

    let numbers = lock_any::connect(url).await?.stored_mutex(name.as_str(), 0)?;
    let last: u64 = numbers.snapshot().await?.value;
    if !issued.iter().copied().eq(1..=last) {
        return Err(format!("a number is missing, or was issued twice: {issued:?}").into());
    }
    println!("\nThe invoices have the numbers from 1 to {last}. No number is missing.");
    Ok(())
}

/// Handles the orders of one clerk. Returns the numbers of the invoices.
async fn work(numbers: StoredMutex<u64>, clerk: String) -> Result<Vec<u64>, AnyError> {
    let mut issued = Vec::new();
    for order in 1..=ORDERS_OF_A_CLERK {
        // Every clerk has one customer who does not pay.
        match issue(&numbers, order != 2).await? {
            (number, true) => {
                println!("{clerk}: invoice {number}");
                issued.push(number);
            }
            (number, false) => println!("{clerk}: the customer has left; {number} stays free"),
        }
    }
    Ok(issued)
}

/// Takes the next number, if the customer pays. Returns the number, and whether an invoice has it.
async fn issue(numbers: &StoredMutex<u64>, pays: bool) -> Result<(u64, bool), AnyError> {
    let mut repeats = 0..REPEATS;
    loop {
        let mut last = numbers.lock().await?;
        *last += 1;
        let number = *last;
        sleep(Duration::from_millis(2)).await; // the customer takes out a card
        if !pays {
            return Ok((number, false)); // a guard that is dropped discards the change
        }
        match last.commit().await {
            // The number counts from here on. Write the invoice after the commit, and repeat that until it succeeds.
            Ok(_) => return Ok((number, true)),
            // Nothing was stored, so another clerk may get this number.
            Err(CommitError::Lost { .. }) if repeats.next().is_some() => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use lock_tests::{EtcdServer, PostgresServer, RedisServer};

    #[tokio::test(flavor = "multi_thread")]
    async fn no_number_is_missing_over_memory() {
        super::run("memory:").await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn no_number_is_missing_over_redis() {
        super::run(&RedisServer::start().url()).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn no_number_is_missing_over_postgres() {
        let server = PostgresServer::start();
        super::run(&server.locks()).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn no_number_is_missing_over_etcd() {
        let server = EtcdServer::start();
        super::run(&server.locks()).await.unwrap();
    }
}
