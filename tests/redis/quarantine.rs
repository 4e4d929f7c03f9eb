//! Servers that may have forgotten leases, and how they get their vote back.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lock_core::{
    Acquire, Backend, Ballot, Claim, Ending, Error, ErrorKind, FencingToken, Membership, Mode,
    Quarantine, QuorumNode, Standing, Terms, Ttl, Vote,
};
use lock_redis::{Protocol, RedisBackend};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::support::{Client, Server, calls, claim, long, open, soon};

const NODE: &str = "lock:node@0";

fn terms() -> Terms {
    Terms::new(Membership::of(["a", "b", "c"]), long())
}

fn guarded(claim: &Claim, standing: &Standing) -> Ballot {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let ballot = Ballot::new(Acquire::new(claim.clone(), long()), FencingToken::floor(since));
    ballot.expecting(standing.clone())
}

async fn is_elected(backend: &RedisBackend, claim: &Claim, standing: &Standing) {
    let vote = backend.vote(&guarded(claim, standing)).await.unwrap();
    assert!(matches!(vote, Vote::Granted(_)), "{vote:?}");
}

/// The server has another record, or belongs to another run.
async fn is_unexpected(backend: &RedisBackend, standing: &Standing) {
    for mode in [Mode::Exclusive, Mode::Shared] {
        let claim = claim("abstains").in_mode(mode);
        let vote = answered(async || backend.vote(&guarded(&claim, standing)).await).await;
        assert_eq!(vote, Vote::Abstains);
    }
}

async fn votes(backend: &RedisBackend) {
    let standing = backend.standing(&terms()).await.unwrap();
    for mode in [Mode::Exclusive, Mode::Shared] {
        let claim = claim("votes").in_mode(mode);
        // Once more, for the answer to an owner that holds the lock already.
        for _ in 0..2 {
            is_elected(backend, &claim, &standing).await;
        }
        backend.release(&claim).await.unwrap();
    }
}

async fn abstains(backend: &RedisBackend) -> Quarantine {
    let standing = backend.standing(&terms()).await.unwrap();
    assert_eq!(standing.max_ttl, None);
    is_unexpected(backend, &standing).await;
    standing.quarantine
}

/// Ends the present quarantine.
async fn vouch(backend: &RedisBackend) -> Standing {
    let standing = backend.standing(&terms()).await.unwrap();
    assert!(backend.vouch(&standing.quarantine, long()).await.unwrap());
    votes(backend).await;
    backend.standing(&terms()).await.unwrap()
}

/// The standing of the server once it is back.
async fn back(backend: &RedisBackend) -> Standing {
    answered(async || backend.standing(&terms()).await).await
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
async fn a_new_server_is_quarantined_until_one_client_vouches_for_all() {
    let server = Server::start();
    let resp2 = RedisBackend::builder(server.url()).protocol(Protocol::Resp2).build().unwrap();
    let clients = [open(&server), resp2, open(&server)];
    let quarantine = abstains(&clients[0]).await;
    for client in &clients {
        let standing = client.standing(&terms()).await.unwrap();
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
        assert_eq!(client.standing(&terms()).await.unwrap(), standing);
    }
    assert_eq!(server.client().command::<i64>(&["PTTL", NODE]), -1);
}

#[tokio::test]
async fn a_server_whose_data_was_deleted_is_quarantined() {
    let server = Server::start();
    let backend = open(&server);
    let before = vouch(&backend).await;
    for command in ["FLUSHALL", "FLUSHDB"] {
        let known = backend.standing(&terms()).await.unwrap();
        server.client().command::<()>(&[command]);
        is_unexpected(&backend, &known).await;
        let after = back(&backend).await;
        assert_eq!((after.max_ttl, &after.server), (None, &before.server), "{command}");
        assert_eq!(abstains(&backend).await, after.quarantine);
        // A client that watched the previous quarantine vouches in vain.
        assert!(!backend.vouch(&before.quarantine, long()).await.unwrap());
        assert_ne!(after.quarantine, before.quarantine);
        server.client().command::<()>(&["SCRIPT", "FLUSH"]);
        vouch(&backend).await;
    }
    let known = backend.standing(&terms()).await.unwrap();
    is_elected(&backend, &claim("a"), &known).await;
    server.client().command::<()>(&["SWAPDB", "0", "1"]);
    is_unexpected(&backend, &known).await;
    abstains(&backend).await;
}

#[tokio::test]
async fn a_server_that_restarts_empty_is_quarantined() {
    let server = Server::start();
    let backend = open(&server);
    let before = vouch(&backend).await;
    server.restart();
    is_unexpected(&backend, &before).await;
    let after = back(&backend).await;
    assert_eq!(after.max_ttl, None);
    assert_ne!(after.server, before.server);
    assert_ne!(after.quarantine, before.quarantine);
    assert!(!backend.vouch(&before.quarantine, long()).await.unwrap());
    abstains(&backend).await;
    vouch(&backend).await;
}

#[tokio::test]
async fn a_server_that_restarts_from_an_old_copy_is_quarantined() {
    let server = Server::start();
    let backend = open(&server);
    let before = vouch(&backend).await;
    let old = claim("old");
    is_elected(&backend, &old, &before).await;
    server.client().command::<()>(&["SAVE"]);
    let forgotten = claim("forgotten");
    is_elected(&backend, &forgotten, &before).await;
    server.restart();
    let mut raw = server.client();
    assert!(raw.command::<bool>(&["EXISTS", "lock:{old}"]), "it has the copy");
    assert!(!raw.command::<bool>(&["EXISTS", "lock:{forgotten}"]), "and no more");
    // The record of the previous run is no reason to believe it, although no client has looked yet.
    is_unexpected(&backend, &before).await;
    let is_vouched = async || backend.vouch(&before.quarantine, long()).await;
    assert!(!answered(is_vouched).await);
    let after = backend.standing(&terms()).await.unwrap();
    assert_eq!(after.max_ttl, None);
    assert_ne!(after.server, before.server);
    assert!(!is_vouched().await.unwrap());
    // Not even to the owner whose lease the server has.
    for claim in [&old, &forgotten] {
        for standing in [&before, &after] {
            let vote = backend.vote(&guarded(claim, standing)).await.unwrap();
            assert_eq!(vote, Vote::Abstains);
        }
    }
}

/// A server that does not wait before it serves a replica.
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
async fn a_replica_that_becomes_the_master_is_quarantined() {
    let (server, other) = (replicated(), replicated());
    let (here, there) = (open(&server), open(&other));
    let before = vouch(&here).await;
    follow(&other, Some(&server)).await;
    // The new replica is no reason to keep the server out.
    assert_eq!(here.standing(&terms()).await.unwrap(), before);
    votes(&here).await;
    let error = there.standing(&terms()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotReady, "{error}");

    follow(&other, None).await;
    assert!(other.client().command::<bool>(&["EXISTS", NODE]));
    // It has the record of its master.
    is_unexpected(&there, &before).await;
    let promoted = back(&there).await;
    assert_eq!(promoted.max_ttl, None);
    assert_ne!(promoted.server, before.server);
    abstains(&there).await;
    votes(&here).await;
}

#[tokio::test]
async fn a_master_that_was_a_replica_meanwhile_is_quarantined() {
    let (server, other) = (replicated(), replicated());
    let here = open(&server);
    let before = vouch(&here).await;
    follow(&other, Some(&server)).await;
    follow(&other, None).await;
    let forgotten = claim("forgotten");
    is_elected(&here, &forgotten, &before).await;
    follow(&server, Some(&other)).await;
    follow(&server, None).await;
    // The record belongs to this run, as no client asked the other server.
    let mut raw = server.client();
    assert!(raw.command::<String>(&["GET", NODE]).starts_with(before.server.as_str()));
    assert!(!raw.command::<bool>(&["EXISTS", "lock:{forgotten}"]));
    // The connection is the same, too. Only a look at the history shows it.
    is_unexpected(&here, &before).await;
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
        backend.standing(&terms()).await.unwrap().max_ttl
    };
    assert_eq!(longest(short).await, Some(short));
    let claim = claim("a");
    let standing = backend.standing(&terms()).await.unwrap();
    let error = backend.vote(&guarded(&claim, &standing)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(error.to_string().contains("60s") && error.to_string().contains("20s"), "{error}");
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
        assert_eq!(other.standing(&terms()).await.unwrap().server, standing.server);
        assert!(!other.vouch(&standing.quarantine, long()).await.unwrap());
    }
    let keys: Vec<String> = server.client().command(&["KEYS", "*node*"]);
    assert!(keys.len() == 2 && keys.contains(&"other:node@0".into()), "{keys:?}");
}

#[tokio::test]
async fn what_is_not_a_record_is_left_alone() {
    let server = Server::start();
    let (backend, mut raw) = (open(&server), server.client());
    let known = vouch(&backend).await;
    for command in [&["SET", NODE, "mine"][..], &["LPUSH", NODE, "mine"]] {
        raw.command::<()>(&["DEL", NODE]);
        raw.command::<()>(command);
        let error = backend.standing(&terms()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ForeignKey, "{error}");
        let vote = backend.vote(&guarded(&claim("a"), &known)).await;
        let is_refused = |error: &Error| error.kind() == ErrorKind::ForeignKey;
        assert!(vote.as_ref().map_or_else(is_refused, |vote| *vote == Vote::Abstains), "{vote:?}");
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
    let known = vouch(&open(&Server::start())).await;
    let mut unguarded = guarded(&claim("a"), &known);
    unguarded.expects = None;
    assert!(matches!(backend.vote(&unguarded).await.unwrap(), Vote::Granted(_)));
    assert!(backend.confirm(&unguarded.request.claim, unguarded.floor).await.unwrap());
    for error in [
        backend.standing(&terms()).await.unwrap_err(),
        backend.admit(&terms()).await.unwrap_err(),
        backend.vouch(&Quarantine::new("x"), long()).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("cluster"), "{error}");
    }
    let error = backend.vote(&guarded(&claim("b"), &known)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

/// Votes do not run `INFO`, which costs more than all the rest, except every few milliseconds.
#[tokio::test]
async fn a_vote_looks_at_the_server_now_and_then() {
    let server = Server::start();
    let (backend, mut raw) = (open(&server), server.client());
    let known = vouch(&backend).await;
    let looks = |raw: &mut Client| calls(raw, "info");
    let before = looks(&mut raw);
    let begun = Instant::now();
    for number in 0..500 {
        let claim = claim(format!("lock {number}"));
        is_elected(&backend, &claim, &known).await;
    }
    // Each look is two calls.
    let most = 2 * (begun.elapsed().as_millis() as u64 / 5 + 2);
    let looked = looks(&mut raw) - before;
    assert!((2..=most).contains(&looked), "{looked} calls where {most} are enough");
}

/// A name or a virtual address may lead to another server after a connection has ended.
#[tokio::test]
async fn a_new_connection_to_a_twin_gets_no_vote() {
    let (server, twin) = (Server::start(), Server::start());
    let way = Switch::to(&server).await;
    let backend = RedisBackend::open(format!("redis://{}", way.addr)).unwrap();
    let known = vouch(&backend).await;
    // The twin has a copy of the data, and of the record.
    twin.client().command::<()>(&["SET", NODE, &known.record]);
    way.lead_to(&twin);
    is_unexpected(&backend, &known).await;
    let found = backend.standing(&terms()).await.unwrap();
    assert_ne!(found.server, known.server);
    assert_eq!(found.max_ttl, None);
}

/// A way to one server, and later to another.
struct Switch {
    addr: SocketAddr,
    target: watch::Sender<u16>,
}

impl Switch {
    async fn to(server: &Server) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (target, mut targets) = watch::channel(server.port());
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let port = *targets.borrow_and_update();
                let mut changed = targets.clone();
                tokio::spawn(async move {
                    let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                        _ = changed.changed() => {}
                    }
                });
            }
        });
        Self { addr, target }
    }

    /// Ends every connection. The next ones lead to another server.
    fn lead_to(&self, server: &Server) {
        self.target.send(server.port()).unwrap();
    }
}

#[tokio::test]
async fn a_quarantine_ends_by_the_clock_of_the_server() {
    let server = Server::start();
    let backend = open(&server);
    let mut raw = server.client();
    let short = Terms::new(terms().membership, Ttl::new(Duration::from_millis(200)).unwrap());
    let begun = backend.standing(&short).await.unwrap();
    assert_eq!(begun.max_ttl, None);
    let later = short.clone().ending(Ending::Later);
    let end = soon(async {
        loop {
            assert_eq!(backend.standing(&later).await.unwrap().max_ttl, None);
            let standing = backend.standing(&short).await.unwrap();
            if standing.max_ttl.is_some() {
                return standing;
            }
        }
    })
    .await;
    assert_eq!((&end.quarantine, end.max_ttl), (&begun.quarantine, Some(short.max_ttl)));
    // The record says when it began: another 400 ms ago, by the clock of the server.
    let time: Vec<u64> = raw.command(&["TIME"]);
    let since: u64 = end.record.split(' ').nth(5).unwrap().parse().unwrap();
    assert!(time[0] * 1000 + time[1] / 1000 - since >= 400, "{since} {time:?}");
}

#[tokio::test]
async fn a_clock_that_was_set_back_ends_no_quarantine_early() {
    let server = Server::start();
    let (backend, mut raw) = (open(&server), server.client());
    let begun = backend.standing(&terms()).await.unwrap();
    let (rest, _) = begun.record.rsplit_once(' ').unwrap();
    // As if the clock had been in the year 2100 when the quarantine began.
    raw.command::<()>(&["SET", NODE, &format!("{rest} 4102444800000")]);
    let after = backend.standing(&terms()).await.unwrap();
    assert_eq!((after.max_ttl, &after.quarantine), (None, &begun.quarantine));
    let since: u64 = after.record.split(' ').nth(5).unwrap().parse().unwrap();
    assert!(since < 4_102_444_800_000);
    // And long ago, which is over.
    raw.command::<()>(&["SET", NODE, &format!("{rest} 1577836800000")]);
    assert_eq!(backend.standing(&terms()).await.unwrap().max_ttl, Some(long()));
}

/// Clients of an earlier version did not name members.
#[tokio::test]
async fn a_record_of_an_earlier_form_is_replaced_by_a_quarantine() {
    let server = Server::start();
    let (backend, mut raw) = (open(&server), server.client());
    let known = vouch(&backend).await;
    let words: Vec<_> = known.record.split(' ').take(3).collect();
    raw.command::<()>(&["SET", NODE, &words.join(" ")]);
    is_unexpected(&backend, &known).await;
    assert_ne!(abstains(&backend).await, known.quarantine);
}
