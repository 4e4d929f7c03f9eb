//! Programs under locks in stores other than Redis.

use lock_any::lock_sync::LockGuard;
use lock_tests::{EtcdServer, Port, PostgresServer, RedisCluster, RedisServer, Sentinels};

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

/// A short look at one way to a server of Redis.
async fn a_program_runs_over(url: &str) {
    let scene = Scene::new();
    let guard = lock_any::connect(url).await.unwrap().lock("it").await.unwrap();
    let run = |option: &str| {
        let program = ["it", option, "--", "sh", "-c", "echo $LOCK_NAME; exit 7"];
        scene.start(&[&["--url", url, "run"][..], &program].concat())
    };
    run("--try").ends_with(75);
    let waiting = run("--timeout=60s");
    LockGuard::release(guard).await.unwrap();
    assert_eq!(waiting.ends_with(7).out, "it\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_runs_over_a_cluster_sentinels_and_a_socket() {
    let socket = RedisServer::start();
    let (cluster, sentinels) = (RedisCluster::start(3, 0), Sentinels::start(1, 1));
    let socket_url = format!("unix://{}", socket.socket().display());
    for url in [cluster.url(), sentinels.url(), socket_url] {
        a_program_runs_over(&url).await;
    }
}

#[test]
fn a_program_runs_over_tls() {
    let scene = Scene::new();
    let issued = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let [cert, key] = ["cert", "key"].map(|name| scene.path(name));
    std::fs::write(&cert, issued.cert.pem()).unwrap();
    std::fs::write(&key, issued.signing_key.serialize_pem()).unwrap();
    let port = Port::reserve();
    let server = RedisServer::builder()
        .config("tls-port", port.number().to_string())
        .config("tls-auth-clients", "no")
        .config("tls-cert-file", cert.display().to_string())
        .config("tls-key-file", key.display().to_string());
    let _server = server.start();
    let url = format!("rediss://localhost:{}", port.number());
    let run = ["--url", &url, "run", "it", "--try", "--", "sh", "-c", "exit 7"];
    let code = |trusted: &std::path::Path| {
        scene.command(&run).env("SSL_CERT_FILE", trusted).status().unwrap().code()
    };
    assert_eq!(code(&cert), Some(7));
    // A certificate that is not trusted ends the attempt.
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(scene.path("other"), other.cert.pem()).unwrap();
    assert_eq!(code(&scene.path("other")), Some(69));
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_run_over_a_quorum() {
    let scene = Scene::new();
    let servers = [0; 3].map(|_| RedisServer::start());
    let hosts = servers.each_ref().map(|server| server.addr().to_string());
    let url = format!("redlock+redis://{}", hosts.join(","));
    lock_any::init(&url).await.unwrap();
    let start = |args: &[&str], script: &str| {
        scene.start(&[&["--url", &url], args, &["--", "sh", "-c", script]].concat())
    };
    let guard = lock_any::connect(&url).await.unwrap().lock("it").await.unwrap();
    start(&["run", "it", "--try"], "echo never").ends_with(75);
    let waiting = start(&["run", "it"], "test $LOCK_TOKEN -gt 0 && exit 7");
    LockGuard::release(guard).await.unwrap();
    waiting.ends_with(7);
    assert_eq!(start(&["elect", "boss"], "echo $LOCK_NAME; exit 8").ends_with(8).out, "boss\n");
    // Each program holds a slot. So one more finds none, and none of the former programs ends before.
    let slot = ["run", "--semaphore", "slots", "--permits", "2"];
    let script = "echo > $LOCK_TOKEN.slot; while ! test -e end; do sleep 0.01; done";
    let two = [start(&slot, script), start(&slot, script)];
    let slots = || {
        let files = std::fs::read_dir(scene.path("")).unwrap();
        files.filter(|file| file.as_ref().unwrap().path().extension().is_some()).count()
    };
    lock_tests::eventually("both have a slot", lock_tests::SOON, || slots() == 2);
    start(&[&slot[..], &["--try"]].concat(), "echo never").ends_with(75);
    std::fs::write(scene.path("end"), "").unwrap();
    for it in two {
        it.ends_with(0);
    }
}
