//! `dlock`: distributed locks on the command line.
//!
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod cli;
mod view;

use std::process::ExitCode;

use cli::Parsed;

fn main() -> ExitCode {
    let (site, command) = match cli::parse() {
        Parsed::Command(site, command) => (site, command),
        Parsed::Ended(code) => return ExitCode::from(code),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime {
        Ok(runtime) => ExitCode::from(runtime.block_on(view::run(command, &site))),
        Err(error) => {
            eprintln!("dlock: cannot start its threads: {error}");
            ExitCode::FAILURE
        }
    }
}
