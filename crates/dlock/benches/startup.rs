//! What `dlock run` adds to a short program, beside `flock` with a connection and two PINGs.
//!
//! ```text
//! cargo bench -p dlock --bench startup                 # 300 rounds
//! cargo bench -p dlock --bench startup -- 50           # fewer
//! cargo bench -p dlock --bench startup --profile dist --target x86_64-unknown-linux-musl # as users get the program
//! ```

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lock_tests::RedisServer;
use lock_tests::resp::Client;

fn main() {
    let rounds = std::env::args().find_map(|arg| arg.parse().ok()).unwrap_or(300);
    let server = RedisServer::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let url = server.url();
    // As an installation does. The system maps a copy faster than the file that a linker has written page by page.
    let program = folder.path().join("dlock");
    std::fs::copy(env!("CARGO_BIN_EXE_dlock"), &program).unwrap();
    let mut times: [Vec<Duration>; 3] = Default::default();
    // In turns, so that whatever else the machine does concerns all of them.
    for _ in 0..rounds {
        times[0].push(timed(|| {
            run(Command::new(&program).args(["--url", &url, "run", "--name", "a", "--", "true"]));
        }));
        times[1].push(timed(|| {
            run(Command::new("flock").arg(&file).arg("true"));
            let mut client = Client::connect(server.addr(), Duration::from_secs(5)).unwrap();
            client.command(&["PING"]).unwrap();
            client.command(&["PING"]).unwrap();
        }));
        times[2].push(timed(|| run(&mut Command::new("true"))));
    }
    let [dlock, flock, bare] = times.map(median);
    println!("medians of {rounds} rounds, in turns");
    println!("dlock run a -- true:                     {dlock:?}");
    println!("flock FILE true, a connect and two PINGs: {flock:?}");
    println!("true:                                    {bare:?}");
    println!(
        "dlock in units of flock with PINGs:      {:.2}",
        dlock.as_secs_f64() / flock.as_secs_f64()
    );
}

fn run(command: &mut Command) {
    assert!(command.stdin(Stdio::null()).status().unwrap().success());
}

fn timed(work: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    work();
    begin.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
