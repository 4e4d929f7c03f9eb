//! A database as a node of a quorum: every law of a node, and what a crash forgets.

use std::sync::LazyLock;

use async_trait::async_trait;
use lock_core::conformance::{Harness, Hook, Suite};
use lock_core::{
    Acquire, Ballot, Error, FencingToken, Membership, QuorumNode, Standing, Terms, Ttl, Vote,
};
use lock_postgres::PostgresBackend;
use lock_tests::{PostgresServer, SOON, eventually, eventually_async, process};
use tokio::runtime;

use crate::support::{Database, claim, long};

/// A server with the schema in its database `locks`, for tests in which the server dies.
fn server() -> PostgresServer {
    let server = PostgresServer::durable();
    server.sql("postgres", "CREATE DATABASE locks");
    server.sql("locks", &PostgresBackend::schema());
    server
}

/// Where the node is.
enum OneNode {
    /// In a database of the server of all tests. Its neighbours are other nodes.
    Shared(Database),
    Own(PostgresServer),
}

/// The server of all other nodes, each with a database of its own.
static ELSEWHERE: LazyLock<(PostgresServer, String)> = LazyLock::new(|| {
    let server = PostgresServer::start();
    let template = server.database();
    server.sql(&template, &PostgresBackend::schema());
    (server, template)
});

async fn client_of(url: String) -> Result<PostgresBackend, Error> {
    let client = PostgresBackend::open(url)?;
    client.connect().await?;
    Ok(client)
}

#[async_trait]
impl Harness for OneNode {
    type Client = PostgresBackend;

    async fn client(&self) -> Result<PostgresBackend, Error> {
        client_of(match self {
            Self::Shared(database) => database.url(),
            Self::Own(server) => server.url("locks"),
        })
        .await
    }

    async fn other_server(&self) -> Result<Option<PostgresBackend>, Error> {
        let (server, template) = &*ELSEWHERE;
        client_of(server.url(&server.copy(template))).await.map(Some)
    }

    async fn cut(&self, _: &PostgresBackend) -> Hook {
        Hook::NotApplicable("the laws of a backend cut clients")
    }

    async fn forget(&self) -> Hook {
        let all =
            "TRUNCATE lock_v1.key, lock_v1.holder, lock_v1.waiter, lock_v1.node, lock_v1.standing";
        match self {
            Self::Shared(database) => database.sql(all),
            Self::Own(server) => server.sql("locks", all),
        };
        Hook::Done
    }

    async fn restart(&self) -> Hook {
        match self {
            Self::Shared(_) => Hook::NotApplicable("the server has other tests"),
            Self::Own(server) => {
                server.restart();
                Hook::Done
            }
        }
    }
}

fn enforce(law: &str) {
    let node = match law {
        "a_restarted_node_abstains" => OneNode::Own(server()),
        _ => OneNode::Shared(Database::new()),
    };
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { Suite::quorum().enforce(law, &node).await });
}

/// Makes a test of each law.
macro_rules! tests_of_laws {
    (quorum () () $($group:ident { $($law:ident: $sentence:literal,)* })*) => {$($(
        #[doc = $sentence]
        #[test]
        fn $law() {
            enforce(stringify!($law));
        }
    )*)*};
}

lock_core::__lock_core_quorum_laws! { [tests_of_laws] quorum () () }

fn terms() -> Terms {
    Terms::new(Membership::of(["a", "b", "c"]), Ttl::DEFAULT)
}

/// A client of a node that votes, and the standing of the node.
async fn voting(server: &PostgresServer) -> (PostgresBackend, Standing) {
    let store = client_of(server.url("locks")).await.unwrap();
    let standing = vouched(&store).await;
    (store, standing)
}

/// Ends the quarantine of a node. Returns its standing.
pub(crate) async fn vouched(store: &PostgresBackend) -> Standing {
    let out = store.standing(&terms()).await.unwrap();
    assert!(store.vouch(&out.quarantine, Ttl::DEFAULT).await.unwrap());
    store.standing(&terms()).await.unwrap()
}

/// A ballot for the lock "a".
pub(crate) fn ballot(standing: &Standing) -> Ballot {
    let request = Acquire::new(claim("a"), Ttl::DEFAULT);
    Ballot::new(request, FencingToken::new(0)).expecting(standing.clone())
}

/// A role that may call the verbs is enough for a node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rights_of_a_client_are_enough_to_vote() {
    let database = Database::new();
    let role = format!("voter_{}", database.name);
    database.sql(&format!("CREATE ROLE {role} LOGIN PASSWORD 'pw'; CALL lock_v1.allow('{role}')"));
    let store = client_of(database.server.url_as(&role, "pw", &database.name)).await.unwrap();
    let ballot = ballot(&vouched(&store).await);
    let Vote::Granted(grant) = store.vote(&ballot).await.unwrap() else { panic!("no vote") };
    assert!(store.confirm(&ballot.request.claim, grant.tokens.last()).await.unwrap());
}

/// When one process of the server dies, the server recovers from its log, and its first process goes on. Votes that did
/// not wait for the disk may be forgotten, so the node abstains.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_recovers_from_a_crash_abstains() {
    let server = server();
    let (store, known) = voting(&server).await;
    let vote = store.vote(&ballot(&known)).await.unwrap();
    assert!(matches!(vote, Vote::Granted(_)), "{vote:?}");
    let first = server.pid();
    let of_a_client =
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'lock-postgres' LIMIT 1";
    process::kill(server.sql("postgres", of_a_client).trim().parse().unwrap());
    let mut standing = None;
    // Until its first process hears of the death, the server goes on.
    eventually_async("the server has recovered", SOON * 3, async || {
        let now = store.standing(&terms()).await.ok();
        standing = now.filter(|it| it.quarantine != known.quarantine);
        standing.is_some()
    })
    .await;
    assert_eq!(server.pid(), first);
    let standing = standing.unwrap();
    assert_eq!((standing.max_ttl, standing.membership), (None, known.membership.clone()));
    assert_eq!(store.vote(&ballot(&known)).await.unwrap(), Vote::Abstains);
}

/// A node that another one has replaced does not come back through a crash.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_ends_no_membership() {
    let server = server();
    let (store, before) = voting(&server).await;
    let next = Terms::new(Membership::of(["a", "b", "d"]), Ttl::DEFAULT);
    let after = store.reassign(&before.membership, &next).await.unwrap();
    assert_eq!(after.membership, next.membership);
    tokio::task::block_in_place(|| server.restart());
    let store = client_of(server.url("locks")).await.unwrap();
    let standing = store.standing(&terms()).await.unwrap();
    assert_eq!((standing.membership, standing.max_ttl), (next.membership, None));
}

/// A dump has the record of the node, and the run of the server is the one in the record. But the votes after the dump
/// are gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_was_restored_from_a_dump_abstains() {
    let database = Database::new();
    let store = client_of(database.url()).await.unwrap();
    let known = vouched(&store).await;
    drop(store);
    let sessions =
        format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{}'", database.name);
    eventually("no session keeps the database", SOON, || {
        database.server.sql("postgres", &sessions) == "0\n"
    });
    // As a dump is restored: the rows come into tables that are new.
    for restored in [database.server.copy(&database.name), {
        database.sql(
            "CREATE TABLE kept AS SELECT * FROM lock_v1.standing; TRUNCATE lock_v1.standing; \
                 INSERT INTO lock_v1.standing SELECT * FROM kept; DROP TABLE kept",
        );
        database.name.clone()
    }] {
        let rows = database
            .server
            .sql(&restored, "SELECT count(*) FROM lock_v1.standing WHERE most IS NOT NULL");
        assert_eq!(rows, "1\n");
        let store = client_of(database.server.url(&restored)).await.unwrap();
        assert_eq!(store.vote(&ballot(&known)).await.unwrap(), Vote::Abstains);
        assert!(!store.vouch(&known.quarantine, Ttl::DEFAULT).await.unwrap());
        let standing = store.standing(&terms()).await.unwrap();
        assert_eq!((standing.max_ttl, standing.membership), (None, known.membership.clone()));
        assert_ne!(standing.quarantine, known.quarantine);
    }
}

/// A vote that a client expects something of does not wait for the disk; another grant does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vote_need_not_wait_for_the_disk() {
    let server = server();
    let (store, known) = voting(&server).await;
    let limit = std::time::Duration::from_millis(1500);
    let hasty =
        PostgresBackend::builder(server.url("locks")).command_timeout(limit).build().unwrap();
    server.sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    server.sql("postgres", "SET synchronous_commit = off; SELECT pg_reload_conf()");
    eventually_async("grants wait", SOON * 3, async || {
        let probe = Acquire::new(claim("probe"), long());
        lock_core::Backend::try_acquire(&hasty, &probe).await.is_err()
    })
    .await;
    let vote = store.vote(&ballot(&known)).await.unwrap();
    assert!(matches!(vote, Vote::Granted(_)), "{vote:?}");
}
