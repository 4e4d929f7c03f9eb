//! Runs in which everything that can fail does fail: see `lock_tests::chaos`.
//!
//! It is also the program of every worker. `lock-chaos worker` is one of the processes of a run, which the harness
//! starts, and `lock-chaos obey` is a [`Worker`](lock_tests::Worker), which a test starts. The other commands are for
//! engineers: see `tests/PROOF.md`.

#![forbid(unsafe_code)]

mod harness;
mod obeying;
mod specimen;
mod voice;
mod worker;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (command, args) =
        args.split_first().map_or(("", &[][..]), |(it, args)| (it.as_str(), args));
    let done = match command {
        "worker" => {
            let args = args.to_vec();
            // A lock that is broken on purpose is not that of the library.
            let broken = args.iter().any(|arg| arg == "--flaw");
            if broken { specimen::main(args.into_iter()) } else { worker::main(args.into_iter()) }
        }
        "obey" => obeying::main(args.iter().cloned()),
        "run" => harness::run(args),
        "replay" => harness::replay(args),
        "show" => harness::show(args),
        "soak" => harness::soak_all(args),
        _ => Err(harness::HELP.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
