//! Buying from a limited stock: first several tasks, then several processes.
//!
//! The number of pieces that are left is the value of a `StoredMutex`, so the store keeps it beside the lock. A
//! purchase locks it, waits for the customer to pay, tells the database of the shop, and commits one less. The lock
//! makes that one step for all other buyers. The commit stores nothing if the lease was lost.
//!
//! The database shows the customers what is left. It refuses every fencing token that is lower than the highest
//! that it has seen. That protects it from a buyer that has lost the lock without knowing it. With `--no-lock`, buyers
//! have the database alone: they read it and write to it, and sell pieces that are gone.
//!
//! ```text
//! cargo run --example stock
//! cargo run --example stock -- --no-lock
//! REDIS_URL=redis://127.0.0.1:6379 cargo run --example stock
//! LOCK_URL=postgres://locks@127.0.0.1/shop cargo run --example stock
//! cargo run --example stock -- --over cluster
//! cargo run --example stock -- --over sentinels
//! ```

#![forbid(unsafe_code)]

mod args;
mod buyer;
mod processes;
mod redis_store;
mod report;
mod store;
mod tasks;

use std::env;
use std::process::ExitCode;

use lock_examples::{AnyError, chain};

use crate::args::{Args, Command, REDIS_URL};

/// The locked run has oversold, or its fencing tokens did not increase.
const WENT_WRONG: u8 = 1;
const BAD_USAGE: u8 = 2;
/// The example could not be run to its end, so it has shown nothing.
const FAILED: u8 = 3;

#[tokio::main]
async fn main() -> ExitCode {
    let [locks, redis] = [lock_any::ENV, REDIS_URL]
        .map(|name| env::var_os(name).map(|url| url.to_string_lossy().into_owned()));
    let command = match args::parse(env::args().skip(1), locks, redis) {
        Ok(command) => command,
        Err(problem) => {
            eprintln!("{problem}\n\n{}", args::HELP);
            return ExitCode::from(BAD_USAGE);
        }
    };
    let result = match command {
        Command::Help => {
            println!("{}", args::HELP);
            Ok(true)
        }
        Command::Child => processes::child().await.map(|()| true),
        Command::Run(args) => run(&args).await,
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(WENT_WRONG),
        Err(error) => {
            eprintln!("error: {}", chain(&*error));
            ExitCode::from(FAILED)
        }
    }
}

/// Runs both parts. Returns whether they went as they should.
async fn run(args: &Args) -> Result<bool, AnyError> {
    println!("1. {} tasks of one process, over the embedded memory backend", args.tasks);
    let report = tasks::run(args).await?;
    print!("{report}");
    let mut good = report.is_good();

    let over = match args.locks {
        Some(_) => format!("the store in {}", lock_any::ENV),
        None => args.over.to_string(),
    };
    println!("\n2. {} processes, over {over}", args.processes);
    match processes::servers(args) {
        Ok(servers) => {
            println!("   {}", servers.description());
            let report = processes::run(args, &servers).await?;
            print!("{report}");
            good &= report.is_good();
        }
        Err(why) => println!("   skipped: {why}"),
    }
    println!("\n{}", verdict(args, good));
    Ok(good)
}

fn verdict(args: &Args, good: bool) -> &'static str {
    match (args.lock, good) {
        (true, true) => "Nothing was oversold. Run it with --no-lock to see it go wrong.",
        (true, false) => "This should not have happened: see above.",
        (false, _) => "That was without the lock. Run it without --no-lock to see it go right.",
    }
}
