use std::time::Duration;

use lock_any::lock_sync::{LockGuard, Locks};
use lock_tests::{Direction, Proxy, RedisServer, soon};
use rustix::process::{Pid, Signal, kill_process};

use crate::program::client;
use crate::terminal::Terminal;

/// What a program writes that gives the screen back and shows the cursor.
const BACK: [&str; 2] = ["\x1b[?1049l", "\x1b[?25h"];

#[tokio::test(flavor = "multi_thread")]
async fn locks_come_and_go_and_can_be_sorted_filtered_and_released() {
    let server = RedisServer::start();
    let locks = client(&server.url(), "billing").await;
    let guard = locks.lock("orders/42").await.unwrap();
    let _report = locks.lock("report").await.unwrap();
    let mut top = Terminal::run(&server.url(), &["top", "--interval", "0.2"]);
    top.shows(&["orders/42", "report", "billing", "2 locks", "exclusive"]);
    assert!(!top.is_cooked());
    let other = client(&server.url(), "refunds").await;
    let waiting = tokio::spawn(async move { other.lock("orders/42").await.map(drop) });
    top.shows(&["1 waiters on 1 locks", "waits  refunds (exclusive, for "]);

    top.press("/42");
    top.shows(&["show names with: 42"]);
    top.press("\r");
    top.shows(&["1 shown by waiting"]);
    top.press("s");
    top.shows(&["1 shown by tokens/s", "TOKENS/S▼"]);
    top.press("xn");
    top.press("x");
    top.shows(&["End the leases on orders/42"]);
    assert!(LockGuard::lease(&guard).is_valid());
    top.press("y");
    soon(LockGuard::lease(&guard).lost()).await;
    soon(waiting).await.unwrap().unwrap();
    top.shows(&["1 lease ended on orders/42"]);
    top.press("q");
    let (status, text) = top.end();
    assert_eq!(status.code(), Some(0), "{text}");
    assert!(BACK.iter().all(|back| text.contains(back)) && top.is_cooked(), "{text:?}");
    let after = text.rsplit(BACK[0]).next().unwrap();
    assert!(after.contains("audit: ") && after.contains("`orders/42`"), "{after:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_the_program_and_gives_the_terminal_back() {
    let server = RedisServer::start();
    let locks = client(&server.url(), "billing").await;
    let _guard = locks.lock("orders/42").await.unwrap();
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130)] {
        let mut top = Terminal::run(&server.url(), &["top"]);
        top.shows(&["orders/42"]);
        kill_process(Pid::from_raw(top.pid() as i32).unwrap(), signal).unwrap();
        let (status, text) = top.end();
        assert_eq!(status.code(), Some(code), "{text}");
        assert!(BACK.iter().all(|back| text.contains(back)) && top.is_cooked(), "{text:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_away_is_a_message_and_comes_back() {
    let server = RedisServer::start();
    let top = Terminal::run(&server.url(), &["top", "--interval", "0.2"]);
    top.shows(&["0 locks", "no lock"]);
    server.kill();
    top.shows(&["cannot look at the store"]);
    server.restart();
    let locks = client(&server.url(), "billing").await;
    let _guard = locks.lock("orders/42").await.unwrap();
    top.shows(&["orders/42"]);
}

/// The number before this word in the line of sums.
fn sum(screen: &str, word: &str) -> f64 {
    let before = screen.split_once(word).map_or("", |(before, _)| before);
    before.rsplit(' ').next().unwrap().parse().unwrap_or_default()
}

/// The number in a column of the lock, by the place of the column from the right.
fn cell(screen: &str, lock: &str, place: usize) -> f64 {
    let line = screen.lines().find(|line| line.starts_with(lock)).unwrap_or_default();
    let cell = line.split_whitespace().rev().nth(place);
    cell.and_then(|it| it.parse().ok()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_goes_to_and_fro_has_turns() {
    let server = RedisServer::start();
    for label in ["billing", "refunds"] {
        let locks = client(&server.url(), label).await;
        tokio::spawn(async move {
            loop {
                let guard = locks.lock("orders/42").await.unwrap();
                // The work of a holder.
                tokio::time::sleep(Duration::from_millis(20)).await;
                _ = LockGuard::release(guard).await;
            }
        });
    }
    let top = Terminal::run(&server.url(), &["top", "--interval", "0.2"]);
    // On a busy machine, a lease may be lost. A turn is no loss.
    top.until("more turns than losses", |screen| {
        let [turns, losses] = [2, 0].map(|place| cell(screen, "orders/42", place));
        sum(screen, " turns/s") > 0.0 && turns > losses
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_runs_out_is_lost() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let url = server.url_through(proxy.addr());
    let mut guards = Vec::new();
    // A look that comes just before the end of one lease may miss its loss. So the leases end at different times.
    for (number, millis) in [3_000, 3_370, 3_740].into_iter().enumerate() {
        let store = lock_any::open(&url).await.unwrap();
        let locks = Locks::builder(store).ttl(Duration::from_millis(millis)).build().unwrap();
        let guard = locks.lock(format!("orders/{number}")).await.unwrap();
        guards.push((guard, locks));
    }
    let top = Terminal::run(&server.url(), &["top", "--interval", "0.2"]);
    top.shows(&["3 locks", " 0 lost"]);
    proxy.silence(Direction::ToServer);
    top.until("a loss", |screen| {
        let of_locks = (0..3).map(|number| cell(screen, &format!("orders/{number}"), 0));
        sum(screen, " lost") >= 1.0 && of_locks.sum::<f64>() == sum(screen, " lost")
    });
}
