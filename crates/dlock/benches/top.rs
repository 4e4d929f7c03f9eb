//! What `dlock top` costs: the processor time of the program and of the server, while 10 000 locks are held and some of
//! them are wanted.
//!
//! ```text
//! cargo bench -p dlock --bench top                # 10 000 locks for 20 seconds
//! cargo bench -p dlock --bench top -- 1000 5      # 1000 locks for 5 seconds
//! cargo bench -p dlock --bench top -- 1000 5 3000 # with --keys 3000
//! ```

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

use std::io::Read;
use std::process::Child;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lock_any::lock_sync::{LockGuard, Locks};
use lock_tests::RedisServer;
use pty_process::Size;
use pty_process::blocking::{Command, open};

fn main() {
    let numbers: Vec<u64> = std::env::args().filter_map(|arg| arg.parse().ok()).collect();
    let (count, seconds, walk) = match numbers[..] {
        [count, seconds, walk] => (count, seconds, Some(walk)),
        [count, seconds] => (count, seconds, None),
        _ => (10_000, 20, None),
    };
    let server = RedisServer::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let url = server.url();
    let held = runtime.block_on(hold(&url, count));
    let wanted = runtime.block_on(want(&url, count));
    let keys = server.cli(&["DBSIZE"]).int();

    let idle = server_time(&server);
    std::thread::sleep(Duration::from_secs(2));
    let idle = (server_time(&server) - idle) / 2;

    let (mut top, reader) = top(&url, walk);
    // The first second opens the connection and draws the first screen.
    std::thread::sleep(Duration::from_secs(1));
    let (begin, client, at_server) = (Instant::now(), time_of(top.id()), server_time(&server));
    let stats = server.commandstats();
    std::thread::sleep(Duration::from_secs(seconds));
    let wall = begin.elapsed().as_secs_f64();
    let (client, at_server) = (time_of(top.id()) - client, server_time(&server) - at_server);
    let calls = server.commandstats().since(&stats);
    top.kill().unwrap();
    top.wait().unwrap();
    let bytes = reader.join().unwrap();

    let share = |time: Duration| time.as_secs_f64() / wall * 100.0;
    println!("{count} locks held, {WANTED} wanted, {keys} keys, {wall:.1} s, {bytes} bytes drawn");
    println!("client: {:.2} s, {:.2} % of a core", client.as_secs_f64(), share(client));
    println!("server: {:.2} s, {:.2} % of a core", at_server.as_secs_f64(), share(at_server));
    println!("server without top: {:.2} % of a core", idle.as_secs_f64() * 100.0);
    println!("scripts: {:.0} per second", calls.calls("evalsha") as f64 / wall);
    drop((held, wanted));
}

/// How many locks have a waiter: twice as many as `top` looks at in each interval.
const WANTED: u64 = 128;

/// The program in a terminal. The thread counts what it draws.
fn top(url: &str, walk: Option<u64>) -> (Child, JoinHandle<usize>) {
    let (pty, pts) = open().unwrap();
    pty.resize(Size::new(40, 120)).unwrap();
    let top = Command::new(env!("CARGO_BIN_EXE_dlock")).arg("top").env("TERM", "xterm");
    let top = match walk {
        Some(keys) => top.args(["--keys", &keys.to_string()]),
        None => top,
    };
    let top = top.env("LOCK_URL", url).spawn(pts).unwrap();
    let reader = std::thread::spawn(move || {
        let (mut room, mut bytes) = ([0; 65_536], 0);
        while let Ok(length @ 1..) = (&pty).read(&mut room) {
            bytes += length;
        }
        bytes
    });
    (top, reader)
}

/// Holds so many locks by leases that need no renewal for now.
async fn hold(url: &str, count: u64) -> (Locks, Vec<LockGuard>) {
    let store = lock_any::open(url).await.unwrap();
    let locks = Locks::builder(store).ttl(Duration::from_secs(600)).build().unwrap();
    let mut guards = Vec::new();
    for number in 0..count {
        guards.push(locks.lock(name(number)).await.unwrap());
    }
    (locks, guards)
}

/// Waits for some of the locks, as another client.
async fn want(url: &str, count: u64) -> Locks {
    let locks = Locks::new(lock_any::open(url).await.unwrap());
    for number in 0..WANTED.min(count) {
        let locks = locks.clone();
        tokio::spawn(async move { locks.lock(name(number)).await.map(drop) });
    }
    for number in 0..WANTED.min(count) {
        while locks.inspect(name(number)).await.unwrap().waiters.is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    locks
}

fn name(number: u64) -> String {
    format!("orders/{number:05}")
}

/// The processor time of a process, in the user's code and in the system's.
fn time_of(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name = stat.rsplit_once(')').unwrap().1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    let in_second = rustix::param::clock_ticks_per_second();
    Duration::from_secs_f64(ticks as f64 / in_second as f64)
}

/// The processor time of the server, by its own account.
fn server_time(server: &RedisServer) -> Duration {
    let info = server.cli(&["INFO", "cpu"]).text();
    let lines = info.lines().filter_map(|line| line.split_once(':'));
    let parts = lines.filter(|(name, _)| matches!(*name, "used_cpu_user" | "used_cpu_sys"));
    parts.map(|(_, seconds)| Duration::from_secs_f64(seconds.trim().parse().unwrap())).sum()
}
