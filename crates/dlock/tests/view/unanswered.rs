//! Forced releases that the store does not answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use lock_any::lock_sync::LockGuard;
use lock_tests::{Fate, Mediator, RedisServer, SOON, eventually};
use rustix::process::{Pid, Signal, kill_process};

use crate::program::{client, dlock};
use crate::terminal::Terminal;

/// A server that stands still as soon as it gets a forced release. The server never answers that request.
struct Silent {
    server: Arc<RedisServer>,
    proxy: Mediator,
    stands_still: Arc<AtomicBool>,
}

impl Silent {
    /// A lock of its own is released first, to learn the digest of the script.
    async fn start() -> Self {
        let server = Arc::new(RedisServer::start());
        let (latest, script) = (Arc::<Mutex<Vec<u8>>>::default(), Arc::<Mutex<Vec<u8>>>::default());
        let stands_still = Arc::new(AtomicBool::new(false));
        let proxy = Mediator::start(&[server.addr()], {
            let (latest, script) = (Arc::clone(&latest), Arc::clone(&script));
            let (server, stands_still) = (Arc::clone(&server), Arc::clone(&stands_still));
            move |words| {
                // The label of the program is another script, which may come at any time.
                let is_about = |lock: &[u8]| words.iter().any(|word| word.ends_with(lock));
                let is_script = words[0].eq_ignore_ascii_case(b"EVALSHA");
                if is_script && (is_about(b"{first}") || is_about(b"{orders/42}")) {
                    *latest.lock().unwrap() = words[1].to_vec();
                    if words[1] == *script.lock().unwrap() {
                        server.stop();
                        stands_still.store(true, Ordering::Release);
                    }
                }
                Fate::Passes
            }
        });
        let silent = Self { server, proxy, stands_still };
        let locks = client(&silent.server.url(), "billing").await;
        let _guard = locks.lock("first").await.unwrap();
        let args = ["release", "first", "--force", "--yes"];
        dlock(&silent.url(), &args).ends_with(0);
        let digest = latest.lock().unwrap().clone();
        assert!(!digest.is_empty());
        *script.lock().unwrap() = digest;
        silent
    }

    fn url(&self) -> String {
        self.proxy.url()
    }

    /// Waits until the server has a forced release that it does not answer.
    fn has_release(&self) {
        let stands_still = || self.stands_still.load(Ordering::Acquire);
        eventually("the server stands still", SOON, stands_still);
    }
}

/// Checks that there is one audit line, with this outcome.
#[track_caller]
fn is_audited(text: &str, why: &str) {
    assert_eq!(text.matches("audit: ").count(), 1, "{text:?}");
    let audit = text.lines().find(|line| line.contains("audit: ")).unwrap();
    let outcome =
        format!("released `orders/42` by force: outcome unknown, because {why}; held by ");
    assert!(audit.contains(&outcome), "{text:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_the_store_does_not_answer_has_an_audit_line() {
    let silent = Silent::start().await;
    let locks = client(&silent.server.url(), "billing").await;
    let _guard = locks.lock("orders/42").await.unwrap();
    let ran = dlock(&silent.url(), &["release", "orders/42", "--force", "--yes"]).ends_with(69);
    is_audited(&ran.err(), "the store gave no clear answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_a_signal_ends_before_the_answer_has_an_audit_line() {
    let silent = Silent::start().await;
    let locks = client(&silent.server.url(), "billing").await;
    let _guard = locks.lock("orders/42").await.unwrap();
    let mut release = Terminal::run(&silent.url(), &["release", "orders/42", "--force", "--yes"]);
    silent.has_release();
    kill_process(Pid::from_raw(release.pid() as i32).unwrap(), Signal::INT).unwrap();
    let (status, text) = release.end();
    assert_eq!(status.code(), Some(130), "{text}");
    is_audited(&text, "dlock ended before the answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_leaves_top_before_the_answer_gets_an_audit_line() {
    let silent = Silent::start().await;
    let locks = client(&silent.server.url(), "billing").await;
    let guard = locks.lock("orders/42").await.unwrap();
    assert!(LockGuard::lease(&guard).is_valid());
    let mut top = Terminal::run(&silent.url(), &["top", "--interval", "0.2"]);
    top.shows(&["orders/42", "billing"]);
    top.press("/42\rxy");
    silent.has_release();
    top.press("q");
    let (status, text) = top.end();
    assert_eq!(status.code(), Some(0), "{text}");
    is_audited(&text, "dlock ended before the answer");
}
