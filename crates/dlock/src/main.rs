//! `dlock`: distributed locks on the command line.
//!
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod cli;
mod run;
mod tell;
mod view;

use std::process::ExitCode;

use cli::{Command, Parsed};
use tokio::runtime::Builder;

// The allocator of musl asks the system for memory a page or two at a time, and gives it back as soon.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|first| first == run::STAGE) {
        return ExitCode::from(run::stage(args));
    }
    let (site, command) = match cli::parse() {
        Parsed::Command(site, command) => (site, command),
        Parsed::Ended(code) => return ExitCode::from(code),
    };
    let runtime = match command {
        // The kernel ends the program when the thread that started it ends. So this thread, which
        // lives as long as the process, starts it.
        Command::Run(_) => Builder::new_current_thread().enable_all().build(),
        Command::View(_) => Builder::new_multi_thread().enable_all().build(),
    };
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            tell::tell(format_args!("cannot start its threads: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(async {
        match command {
            Command::Run(command) => run::run(command, &site).await,
            Command::View(command) => view::run(command, &site).await,
        }
    });
    // Every command has cleaned up by now. To take the runtime apart would only delay the caller.
    std::process::exit(code.into())
}
