//! Servers that may have forgotten leases, and how they come back to vote.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_core::{
    Acquire, Backend, Ballot, Claim, Error, ErrorKind, FencingToken, Mode, Quarantine, QuorumNode,
    Standing, Ttl, Vote,
};
use lock_redis::{Protocol, RedisBackend};

use crate::support::{Server, claim, long, soon};

const NODE: &str = "lock:node@0";

fn open(server: &Server) -> RedisBackend {
    RedisBackend::open(server.url()).unwrap()
}

fn guarded(claim: &Claim) -> Ballot {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Ballot::new(Acquire::new(claim.clone(), long()), FencingToken::floor(since)).guarded()
}

async fn votes(backend: &RedisBackend) {
    for mode in [Mode::Exclusive, Mode::Shared] {
        let claim = claim("votes").in_mode(mode);
        // Once more, for the answer to one that holds the lock already.
        for _ in 0..2 {
            let vote = backend.vote(&guarded(&claim)).await.unwrap();
            assert!(matches!(vote, Vote::Granted(_)), "{vote:?}");
        }
        backend.release(&claim).await.unwrap();
    }
}

async fn abstains(backend: &RedisBackend) -> Quarantine {
    let claim = claim("abstains");
    match backend.vote(&guarded(&claim)).await.unwrap() {
        Vote::Abstains(quarantine) => quarantine,
        other => panic!("expected none, got {other:?}"),
    }
}

/// Ends the present quarantine.
async fn vouch(backend: &RedisBackend) -> Standing {
    let standing = backend.standing().await.unwrap();
    assert!(backend.vouch(&standing.quarantine, long()).await.unwrap());
    votes(backend).await;
    backend.standing().await.unwrap()
}

/// How it stands with the server once it is there again.
async fn back(backend: &RedisBackend) -> Standing {
    answered(async || backend.standing().await).await
}

/// Asks until the server answers.
async fn answered<T>(ask: impl AsyncFn() -> Result<T, Error>) -> T {
    soon(async {
        loop {
            match ask().await {
                Ok(answer) => return answer,
                Err(error) => assert!(error.is_retryable(), "{error:?}"),
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_new_server_is_kept_out_until_one_client_vouches_for_all() {
    let server = Server::start();
    let resp2 = RedisBackend::builder(server.url()).protocol(Protocol::Resp2).build().unwrap();
    let clients = [open(&server), resp2, open(&server)];
    let quarantine = abstains(&clients[0]).await;
    for client in &clients {
        let standing = client.standing().await.unwrap();
        assert_eq!((&standing.quarantine, standing.max_ttl), (&quarantine, None));
        assert_eq!(abstains(client).await, quarantine);
    }
    assert!(!server.client().command::<bool>(&[
        "EXISTS",
        "lock:{abstains}",
        "lock:{abstains}:state"
    ]));
    let standing = vouch(&clients[1]).await;
    assert_eq!(standing.max_ttl, Some(long()));
    for client in &clients {
        votes(client).await;
        assert_eq!(client.standing().await.unwrap(), standing);
    }
    assert_eq!(server.client().command::<i64>(&["PTTL", NODE]), -1);
}

#[tokio::test]
async fn a_server_whose_data_was_deleted_is_kept_out() {
    let server = Server::start();
    let backend = open(&server);
    let before = vouch(&backend).await;
    for command in ["FLUSHALL", "FLUSHDB"] {
        server.client().command::<()>(&[command]);
        let after = back(&backend).await;
        assert_eq!((after.max_ttl, &after.server), (None, &before.server), "{command}");
        assert_eq!(abstains(&backend).await, after.quarantine);
        // Who watched the quarantine before this one vouches in vain.
        assert!(!backend.vouch(&before.quarantine, long()).await.unwrap());
        assert_ne!(after.quarantine, before.quarantine);
        server.client().command::<()>(&["SCRIPT", "FLUSH"]);
        vouch(&backend).await;
    }
    server.client().command::<()>(&["SWAPDB", "0", "1"]);
    abstains(&backend).await;
}

#[tokio::test]
async fn a_server_that_restarts_empty_is_kept_out() {
    let server = Server::start();
    let backend = open(&server);
    let before = vouch(&backend).await;
    server.restart();
    let after = back(&backend).await;
    assert_eq!(after.max_ttl, None);
    assert_ne!(after.server, before.server);
    assert_ne!(after.quarantine, before.quarantine);
    assert!(!backend.vouch(&before.quarantine, long()).await.unwrap());
    abstains(&backend).await;
    vouch(&backend).await;
}

#[tokio::test]
async fn a_server_that_restarts_from_an_old_copy_is_kept_out() {
    let server = Server::start();
    let backend = open(&server);
    let before = vouch(&backend).await;
    let old = claim("old");
    assert!(matches!(backend.vote(&guarded(&old)).await.unwrap(), Vote::Granted(_)));
    server.client().command::<()>(&["SAVE"]);
    let forgotten = claim("forgotten");
    assert!(matches!(backend.vote(&guarded(&forgotten)).await.unwrap(), Vote::Granted(_)));
    server.restart();
    let mut raw = server.client();
    assert!(raw.command::<bool>(&["EXISTS", "lock:{old}"]), "it has the copy");
    assert!(!raw.command::<bool>(&["EXISTS", "lock:{forgotten}"]), "and no more");
    // The record of the run before is no reason to believe it, although nobody has looked yet.
    let is_vouched = async || backend.vouch(&before.quarantine, long()).await;
    assert!(!answered(is_vouched).await);
    let after = backend.standing().await.unwrap();
    assert_eq!(after.max_ttl, None);
    assert_ne!(after.server, before.server);
    assert!(!is_vouched().await.unwrap());
    // Not even to the one whose lease it has.
    for claim in [&old, &forgotten] {
        assert_eq!(
            backend.vote(&guarded(claim)).await.unwrap(),
            Vote::Abstains(after.quarantine.clone())
        );
    }
}

/// A server that a replica need not wait for.
fn replicated() -> Server {
    Server::with(&["--repl-diskless-sync-delay", "0"])
}

/// Makes one server follow another, or none.
async fn follow(server: &Server, master: Option<&Server>) {
    let mut raw = server.client();
    let Some(master) = master else { return raw.command(&["REPLICAOF", "NO", "ONE"]) };
    raw.command::<()>(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    soon(async {
        while !raw.command::<String>(&["INFO", "replication"]).contains("master_link_status:up") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_replica_that_becomes_the_master_is_kept_out() {
    let (server, other) = (replicated(), replicated());
    let (here, there) = (open(&server), open(&other));
    let before = vouch(&here).await;
    follow(&other, Some(&server)).await;
    // That it has a replica now is no reason to keep it out.
    assert_eq!(here.standing().await.unwrap(), before);
    votes(&here).await;
    let error = there.standing().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotReady, "{error}");

    follow(&other, None).await;
    assert!(other.client().command::<bool>(&["EXISTS", NODE]));
    let promoted = back(&there).await;
    assert_eq!(promoted.max_ttl, None);
    assert_ne!(promoted.server, before.server);
    abstains(&there).await;
    votes(&here).await;
}

#[tokio::test]
async fn a_master_that_was_a_replica_meanwhile_is_kept_out() {
    let (server, other) = (replicated(), replicated());
    let here = open(&server);
    let before = vouch(&here).await;
    follow(&other, Some(&server)).await;
    follow(&other, None).await;
    let forgotten = claim("forgotten");
    assert!(matches!(here.vote(&guarded(&forgotten)).await.unwrap(), Vote::Granted(_)));
    follow(&server, Some(&other)).await;
    follow(&server, None).await;
    // The record is that of this very run, as nobody asked the other one.
    let mut raw = server.client();
    assert!(raw.command::<String>(&["GET", NODE]).starts_with(before.server.as_str()));
    assert!(!raw.command::<bool>(&["EXISTS", "lock:{forgotten}"]));
    let after = back(&here).await;
    assert_eq!((&after.server, after.max_ttl), (&before.server, None));
    assert_eq!(abstains(&here).await, after.quarantine);
    vouch(&here).await;
}

#[tokio::test]
async fn a_lease_is_no_longer_than_vouched_for() {
    let server = Server::start();
    let backend = open(&server);
    let quarantine = abstains(&backend).await;
    let [short, day] = [Ttl::new(Duration::from_secs(20)).unwrap(), Ttl::MAX];
    let longest = async |ttl| {
        assert!(backend.vouch(&quarantine, ttl).await.unwrap());
        backend.standing().await.unwrap().max_ttl
    };
    assert_eq!(longest(short).await, Some(short));
    let claim = claim("a");
    let error = backend.vote(&guarded(&claim)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(error.to_string().contains("60000") && error.to_string().contains("20000"), "{error}");
    assert_eq!(longest(day).await, Some(day));
    assert_eq!(longest(short).await, Some(day));
    votes(&backend).await;
}

#[tokio::test]
async fn prefixes_and_databases_stand_for_themselves() {
    let server = Server::start();
    let one = open(&server);
    let two = RedisBackend::builder(server.url()).prefix("other:").build().unwrap();
    let three = RedisBackend::open(server.url() + "/3").unwrap();
    let standing = vouch(&one).await;
    for other in [&two, &three] {
        let quarantine = abstains(other).await;
        assert_ne!(quarantine, standing.quarantine);
        // It is the same server all the same.
        assert_eq!(other.standing().await.unwrap().server, standing.server);
        assert!(!other.vouch(&standing.quarantine, long()).await.unwrap());
    }
    let keys: Vec<String> = server.client().command(&["KEYS", "*node*"]);
    assert!(keys.len() == 2 && keys.contains(&"other:node@0".into()), "{keys:?}");
}

#[tokio::test]
async fn what_is_not_a_record_is_left_alone() {
    let server = Server::start();
    let (backend, mut raw) = (open(&server), server.client());
    for command in [&["SET", NODE, "mine"][..], &["LPUSH", NODE, "mine"]] {
        raw.command::<()>(&["DEL", NODE]);
        raw.command::<()>(command);
        for error in [
            backend.standing().await.unwrap_err(),
            backend.vote(&guarded(&claim("a"))).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::ForeignKey, "{error}");
        }
    }
    assert!(!raw.command::<bool>(&["EXISTS", "lock:{a}"]));
}

#[tokio::test]
async fn a_node_of_a_cluster_votes_but_has_no_standing() {
    let server = Server::with(&["--cluster-enabled", "yes"]);
    let slots: Vec<_> = (0..16_384).map(|slot| slot.to_string()).collect();
    let words = ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str));
    server.client().command::<()>(&words.collect::<Vec<_>>());
    let backend = open(&server);
    soon(async {
        while !server.client().command::<String>(&["CLUSTER", "INFO"]).contains("cluster_state:ok")
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let mut unguarded = guarded(&claim("a"));
    unguarded.guarded = false;
    assert!(matches!(backend.vote(&unguarded).await.unwrap(), Vote::Granted(_)));
    assert!(backend.confirm(&unguarded.request.claim, unguarded.floor).await.unwrap());
    for error in [
        backend.standing().await.unwrap_err(),
        backend.vote(&guarded(&claim("b"))).await.unwrap_err(),
        backend.vouch(&Quarantine::new("x"), long()).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("cluster"), "{error}");
    }
}
