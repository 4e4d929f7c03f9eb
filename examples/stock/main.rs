//! Buying from a limited stock: first several tasks, then several processes.
//!
//! A purchase reads how much is left, waits for the customer to pay, and writes back one less. That
//! is not atomic, so buyers must take turns. With the lock nothing is oversold. `--no-lock`
//! shows what happens otherwise. The store also refuses every fencing token that is
//! lower than the highest it has seen. That protects it from a buyer that has lost the lock without
//! knowing it.
//!
//! ```text
//! cargo run --example stock
//! cargo run --example stock -- --no-lock
//! REDIS_URL=redis://127.0.0.1:6379 cargo run --example stock
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
use std::error::Error;
use std::process::ExitCode;

use crate::args::{Args, Command, REDIS_URL};

type AnyError = Box<dyn Error + Send + Sync>;

/// The locked run has oversold, or its fencing tokens did not increase.
const WENT_WRONG: u8 = 1;
const BAD_USAGE: u8 = 2;
/// The example could not be run to its end, so it has shown nothing.
const FAILED: u8 = 3;

#[tokio::main]
async fn main() -> ExitCode {
    let redis = env::var_os(REDIS_URL).map(|url| url.to_string_lossy().into_owned());
    let command = match args::parse(env::args().skip(1), redis) {
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

    println!("\n2. {} processes, over {}", args.processes, args.over);
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

/// An error with its causes.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Some errors repeat the text of their cause.
        let words = error.to_string();
        if !text.ends_with(&words) {
            text += &format!(": {words}");
        }
        cause = error.source();
    }
    text
}
