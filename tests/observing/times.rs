//! How long requests take, as observers hear it.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lock_core::observer::{Observer, StoreAnswered};
use lock_sync::LockGuard;
use lock_tests::{
    Direction, EtcdServer, PostgresServer, Proxy, RedisServer, SOON, eventually_async, soon,
};

/// What was asked for, and how long the answer took.
#[derive(Default)]
struct Answers(Mutex<Vec<(&'static str, Duration)>>);

impl Observer for Answers {
    fn store_answered(&self, event: &StoreAnswered<'_>) {
        self.0.lock().unwrap().push((event.verb, event.took));
    }
}

impl Answers {
    /// The longest time of all requests of this kind since the last call.
    fn longest(&self, verb: &str) -> Duration {
        let answers = std::mem::take(&mut *self.0.lock().unwrap());
        let of_verb = answers.iter().filter(|(of, _)| *of == verb);
        of_verb.map(|(_, took)| *took).max().unwrap_or_default()
    }
}

const DELAY: Duration = Duration::from_millis(200);

/// The answers come late, so the requests take as long.
async fn the_time_of_a_request_ends_with_its_answer(url: &str, proxy: &Proxy, verb: &str) {
    let answers = Arc::new(Answers::default());
    let locks = soon(lock_any::connect_observed(url, answers.clone())).await.unwrap();
    let first = soon(locks.lock("first")).await.unwrap();
    soon(LockGuard::release(first)).await.unwrap();
    proxy.delay(Direction::ToClient, DELAY);
    answers.longest(verb);
    let begin = Instant::now();
    let second = soon(locks.lock("second")).await.unwrap();
    let mut longest = Duration::ZERO;
    eventually_async("the answer has taken its time", SOON, async || {
        longest = longest.max(answers.longest(verb));
        longest >= DELAY
    })
    .await;
    assert!(longest <= begin.elapsed(), "{longest:?}");
    proxy.pass();
    soon(LockGuard::release(second)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_answer_of_redis_takes_its_time() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let url = server.url_through(proxy.addr());
    the_time_of_a_request_ends_with_its_answer(&url, &proxy, "acquire").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_answer_of_a_database_takes_its_time() {
    let server = PostgresServer::start();
    let proxy = Proxy::start(server.addr());
    let url = server.locks().replace(&server.addr().to_string(), &proxy.addr().to_string());
    the_time_of_a_request_ends_with_its_answer(&url, &proxy, "acquire").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_answer_of_etcd_takes_its_time() {
    let server = EtcdServer::start();
    let proxy = Proxy::start(server.addr());
    let url = server.locks().replace(&server.addr().to_string(), &proxy.addr().to_string());
    the_time_of_a_request_ends_with_its_answer(&url, &proxy, "Txn").await;
}
