//! Programs under locks in stores other than Redis.

use lock_any::lock_sync::LockGuard;
use lock_tests::{EtcdServer, PostgresServer};

use crate::program::Scene;

async fn a_program_runs_under_a_lock(url: &str) {
    let scene = Scene::new();
    let start = |options: &[&str], script: &str| {
        let program = ["--", "sh", "-c", script];
        scene.start(&[&["--url", url, "run", "--name", "it"], options, &program].concat())
    };
    let locks = lock_any::connect(url).await.unwrap();
    let guard = locks.lock("it").await.unwrap();
    start(&["--try"], "echo never").ends_with(75);
    start(&["--timeout", "2s"], "echo never").ends_with(124);

    let waiting = start(&[], "echo $LOCK_TOKEN > token; exit 7");
    let token = LockGuard::lease(&guard).fencing_token().get();
    LockGuard::release(guard).await.unwrap();
    waiting.ends_with(7);
    let later: u64 = scene.written("token").trim().parse().unwrap();
    assert!(later > token, "{later} after {token}");

    // A lease that an operator ends is lost.
    let running = start(&["--grace", "100ms"], "echo > runs; exec sleep 1000");
    scene.written("runs");
    locks.force_release("it").await.unwrap();
    running.ends_with(76);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_runs_under_a_lock_in_a_database() {
    a_program_runs_under_a_lock(&PostgresServer::start().locks()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_runs_under_a_lock_in_etcd() {
    a_program_runs_under_a_lock(&EtcdServer::start().locks()).await;
}
