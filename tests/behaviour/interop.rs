//! Clients of other libraries at the same key.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_core::Key;
use lock_sync::{Mutex, MutexGuard, OwnedMutexGuard, TryLockError};
use lock_tests::RedisServer;
use lock_tests::resp::{Client, Value};

use crate::support::{Leftovers, TTL, client, soon, ttl_of, until_heard, waiting};

const KEY: &str = "jobs:nightly";

/// The release of the other libraries: delete the key if it still holds their token.
const COMPARE_AND_DELETE: &str = "
    local holder = redis.call('get', KEYS[1])
    if holder == ARGV[1] then return redis.call('del', KEYS[1]) end
    return 0";

/// A client of the pattern that the Redis documentation describes.
struct Plain {
    client: Client,
    token: &'static str,
}

impl Plain {
    fn of(server: &RedisServer, token: &'static str) -> Self {
        Self { client: server.connect().unwrap(), token }
    }

    fn take(&mut self, lease: Duration) -> bool {
        let lease = lease.as_millis().to_string();
        let reply = self.client.command(&["SET", KEY, self.token, "NX", "PX", &lease]).unwrap();
        !reply.is_nil()
    }

    fn release(&mut self) -> bool {
        let words = ["EVAL", COMPARE_AND_DELETE, "1", KEY, self.token];
        self.client.command(&words).unwrap() == Value::Int(1)
    }
}

fn notifying() -> RedisServer {
    RedisServer::builder().config("notify-keyspace-events", "Kgxe").start()
}

fn ours(server: &RedisServer) -> Arc<Mutex<()>> {
    Arc::new(client(server.url()).mutex(Key::raw(KEY).unwrap(), ()).unwrap())
}

#[tokio::test]
async fn a_plain_client_keeps_us_out_and_we_keep_it_out() {
    let server = RedisServer::start();
    let (ours, mut theirs) = (ours(&server), Plain::of(&server, "theirs"));

    assert!(theirs.take(TTL));
    assert!(matches!(soon(ours.try_lock()).await, Err(TryLockError::WouldBlock)));
    assert_eq!(server.cli(&["GET", KEY]).text(), "theirs");
    assert!(theirs.release());

    let guard = soon(ours.try_lock()).await.unwrap();
    assert!(!theirs.take(TTL) && !theirs.release());
    assert!(MutexGuard::lease(&guard).is_valid());
    assert!(ttl_of(&server, KEY).is_some());
    soon(MutexGuard::release(guard)).await.unwrap();

    assert!(theirs.take(TTL));
    assert!(theirs.release());
    server.assert_all_free();
}

#[tokio::test]
async fn a_plain_client_that_releases_wakes_us() {
    let server = notifying();
    let (ours, mut theirs) = (ours(&server), Plain::of(&server, "theirs"));
    for _ in 0..5 {
        assert!(theirs.take(TTL));
        let waiting = waiting(&ours);
        until_heard(&server).await;
        assert!(theirs.release());
        // Half a minute before its lease would have ended.
        soon(OwnedMutexGuard::release(waiting.served().await)).await.unwrap();
    }
}

#[tokio::test]
async fn a_plain_client_whose_lease_ends_lets_us_in_with_and_without_notifications() {
    for server in [notifying(), RedisServer::start()] {
        let (ours, mut theirs) = (ours(&server), Plain::of(&server, "theirs"));
        assert!(theirs.take(Duration::from_millis(700)));
        let guard = soon(ours.lock()).await.unwrap();
        assert!(!theirs.release(), "it is not theirs any more");
        assert!(MutexGuard::lease(&guard).is_valid());
    }
}

#[tokio::test]
async fn without_notifications_the_timer_alone_sees_a_release() {
    let server = RedisServer::start();
    let (ours, mut theirs) = (ours(&server), Plain::of(&server, "theirs"));
    assert!(theirs.take(Duration::from_secs(3)));
    let waiting = waiting(&ours);
    until_heard(&server).await;
    assert!(theirs.release());
    // No message comes; at the latest when the lease would have ended, a waiter asks.
    assert!(OwnedMutexGuard::lease(&waiting.served().await).is_valid());
}

#[tokio::test]
async fn no_two_clients_of_any_kind_hold_the_key_at_once() {
    let server = notifying();
    let (one, other) = (ours(&server), ours(&server));
    let held = Arc::new(AtomicBool::new(false));
    let enter = |held: &AtomicBool| {
        assert!(!held.swap(true, Ordering::SeqCst), "two holders");
    };
    let leave = |held: &AtomicBool| {
        assert!(held.swap(false, Ordering::SeqCst), "no holder");
    };
    let plain = std::thread::spawn({
        let (mut theirs, held) = (Plain::of(&server, "theirs"), held.clone());
        move || {
            let mut turns = 0;
            while turns < 100 {
                if theirs.take(TTL) {
                    enter(&held);
                    std::thread::yield_now();
                    leave(&held);
                    assert!(theirs.release());
                    turns += 1;
                }
            }
        }
    });
    let take = async |mutex: &Mutex<()>| {
        for _ in 0..100 {
            let guard = soon(mutex.lock()).await.unwrap();
            enter(&held);
            tokio::task::yield_now().await;
            leave(&held);
            soon(MutexGuard::release(guard)).await.unwrap();
        }
    };
    tokio::join!(take(&one), take(&other));
    tokio::task::spawn_blocking(|| plain.join()).await.unwrap().unwrap();
    server.assert_all_free();
}

/// Executes commands, line by line, with the lock of the Python library.
const PYTHON: &str = r#"
import sys, redis
client = redis.Redis(host="127.0.0.1", port=int(sys.argv[1]))
held = client.lock(sys.argv[2], timeout=30)
for order in sys.stdin:
    order = order.strip()
    if order == "try":
        answer = held.acquire(blocking=False)
    elif order == "wait":
        answer = held.acquire(blocking_timeout=10)
    elif order == "owned":
        answer = held.owned()
    elif order == "release":
        held.release()
        answer = True
    print(answer, flush=True)
"#;

#[tokio::test]
async fn the_lock_of_redis_py_keeps_us_out_and_wakes_us_and_we_keep_it_out() {
    let importable = Command::new("python3")
        .args(["-c", "import redis.lock"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !importable {
        // Written past the macros whose output the test runner hides.
        let note = b"note: python3 cannot import redis: its own Lock was not tried\n";
        std::io::stderr().write_all(note).unwrap();
        return;
    }
    let server = notifying();
    let ours = ours(&server);
    let mut theirs = Python::start(&server);

    assert!(theirs.does("try"));
    assert!(matches!(soon(ours.try_lock()).await, Err(TryLockError::WouldBlock)));
    let waiting = waiting(&ours);
    until_heard(&server).await;
    assert!(theirs.does("owned"));
    assert!(theirs.does("release"));
    let guard = waiting.served().await;

    assert!(!theirs.does("try"));
    assert!(OwnedMutexGuard::lease(&guard).is_valid());
    theirs.tell("wait");
    soon(OwnedMutexGuard::release(guard)).await.unwrap();
    assert!(theirs.answer(), "it polls, and gets in");
    assert!(matches!(soon(ours.try_lock()).await, Err(TryLockError::WouldBlock)));
    assert!(theirs.does("release"));
    assert!(soon(ours.try_lock()).await.is_ok());
}

/// A Python process with one lock.
struct Python {
    process: std::process::Child,
    answers: std::io::Lines<std::io::BufReader<std::process::ChildStdout>>,
}

impl Python {
    fn start(server: &RedisServer) -> Self {
        use std::io::BufRead;

        let mut process = Command::new("python3")
            .args(["-c", PYTHON, &server.port().to_string(), KEY])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = std::io::BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, answers }
    }

    fn tell(&mut self, order: &str) {
        let orders = self.process.stdin.as_mut().unwrap();
        writeln!(orders, "{order}").and_then(|()| orders.flush()).unwrap();
    }

    fn answer(&mut self) -> bool {
        self.answers.next().unwrap().unwrap() == "True"
    }

    fn does(&mut self, order: &str) -> bool {
        self.tell(order);
        self.answer()
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        // The process may have ended already, if the test failed because of that.
        _ = self.process.kill();
        _ = self.process.wait();
    }
}
