//! A cluster as a node of a quorum, when it restarts, has another leader, or is restored.

use std::time::Duration;

use async_trait::async_trait;
use lock_core::conformance::{Harness, Hook, Suite};
use lock_core::{
    Acquire, Backend, Ballot, Error, FencingToken, Membership, QuorumNode, Standing, Terms, Ttl,
    Vote,
};
use lock_etcd::EtcdBackend;
use lock_tests::{EtcdCluster, EtcdServer};

use crate::support::{Part, builder, claim, open, until_ok};

/// A server that restarts.
struct OneServer(EtcdServer);

#[async_trait]
impl Harness for OneServer {
    type Client = EtcdBackend;

    async fn client(&self) -> Result<EtcdBackend, Error> {
        builder(self.0.url()).build()
    }

    async fn cut(&self, _: &EtcdBackend) -> Hook {
        Hook::NotApplicable("the laws of a backend cut clients")
    }

    async fn forget(&self) -> Hook {
        Hook::NotApplicable("this server is there to restart")
    }

    async fn restart(&self) -> Hook {
        tokio::task::block_in_place(|| self.0.restart());
        Hook::Done
    }

    /// A whole number of seconds, and more than the shortest time.
    fn ttl(&self) -> Ttl {
        Ttl::new(Duration::from_secs(3)).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_abstains_after_a_restart() {
    let node = OneServer(EtcdServer::durable());
    Suite::quorum().enforce("a_restarted_node_abstains", &node).await;
}

fn terms() -> Terms {
    Terms::new(Membership::of(["a", "b", "c"]), Ttl::DEFAULT)
}

/// Has a node vote, and returns its standing.
async fn voting(store: &EtcdBackend) -> Standing {
    let out = until_ok("it answers", async || store.standing(&terms()).await).await;
    assert_eq!(out.max_ttl, None);
    assert!(store.vouch(&out.quarantine, Ttl::DEFAULT).await.unwrap());
    store.standing(&terms()).await.unwrap()
}

fn ballot(key: &str, standing: &Standing) -> Ballot {
    let request = Acquire::new(claim(key), Ttl::DEFAULT);
    Ballot::new(request, FencingToken::new(0)).expecting(standing.clone())
}

async fn elected(store: &EtcdBackend, ballot: &Ballot) {
    let vote = until_ok("it votes", async || store.vote(ballot).await).await;
    assert!(matches!(vote, Vote::Granted(_)), "{vote:?}");
}

/// Neither a new client nor one that knows the old record has a vote of a node in quarantine.
async fn abstains(clients: &[&EtcdBackend], known: &Standing) {
    for store in clients {
        let vote = until_ok("it answers", async || store.vote(&ballot("b", known)).await).await;
        assert_eq!(vote, Vote::Abstains);
    }
    for store in clients {
        let out = store.standing(&terms()).await.unwrap();
        assert_eq!(out.max_ttl, None);
        assert_ne!(out.quarantine, known.quarantine);
        assert_ne!(out.server, known.server);
        assert_eq!(store.vote(&ballot("b", &out)).await.unwrap(), Vote::Abstains);
        assert_eq!(store.vote(&ballot("b", known)).await.unwrap(), Vote::Abstains);
    }
}

/// The cluster and the term in the name of a server.
fn run_of(standing: &Standing) -> String {
    standing.server.as_str().rsplit_once('-').unwrap().0.to_owned()
}

/// A restore brings the record back with the votes of its time, and forgets the later ones. A cluster that is set up as
/// before has the number of before, and its first leader has the term of the first leader of before. Only the log
/// tells.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_restored_from_a_snapshot_abstains() {
    let server = EtcdServer::durable();
    let (busy, idle) = (open(server.url()), open(server.url()));
    let known = voting(&busy).await;
    // This client sees nothing of what is lost.
    elected(&idle, &ballot("a", &known)).await;
    let snapshot = tokio::task::block_in_place(|| server.snapshot());
    elected(&busy, &ballot("b", &known)).await;
    tokio::task::block_in_place(|| server.restore(&snapshot));
    let new = open(server.url());
    abstains(&[&idle, &new, &busy], &known).await;
    let out = new.standing(&terms()).await.unwrap();
    assert_eq!(run_of(&out), run_of(&known));

    // After its quarantine it votes again, and remembers what the snapshot had.
    assert!(idle.vouch(&out.quarantine, Ttl::DEFAULT).await.unwrap());
    let back = busy.standing(&terms()).await.unwrap();
    elected(&new, &ballot("b", &back)).await;
    let held = until_ok("it answers", async || new.vote(&ballot("a", &back)).await).await;
    assert!(matches!(held, Vote::Busy { .. }), "{held:?}");
}

/// The data of an earlier run have the record of that run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_an_old_copy_of_its_data_abstains() {
    let server = EtcdServer::durable();
    let store = open(server.url());
    voting(&store).await;
    let copy = tokio::task::block_in_place(|| {
        server.kill();
        server.copy_data()
    });
    tokio::task::block_in_place(|| server.restart());
    let known = voting(&store).await;
    elected(&store, &ballot("b", &known)).await;
    tokio::task::block_in_place(|| {
        server.kill();
        server.restore_data(copy);
        server.restart();
    });
    abstains(&[&store, &open(server.url())], &known).await;
}

/// A cluster whose leader stays, also if the machine is busy.
fn calm_cluster() -> EtcdCluster {
    EtcdCluster::with(&["--election-timeout=10000"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_the_leader_begins_a_quarantine() {
    let cluster = calm_cluster();
    let (one, other) = (open(cluster.url()), open(cluster.url()));
    let known = voting(&one).await;
    elected(&other, &ballot("a", &known)).await;
    tokio::task::block_in_place(|| cluster.move_leader());
    let out = until_ok("it answers", async || other.standing(&terms()).await).await;
    assert_eq!((out.max_ttl, &out.membership), (None, &known.membership));
    let vote = until_ok("it answers", async || one.vote(&ballot("b", &known)).await).await;
    assert_eq!(vote, Vote::Abstains);
}

/// Entries of the log that change no key are no sign of a restore, and neither are members that lag behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_agree_on_the_record() {
    let cluster = calm_cluster();
    let clients = cluster.members().each_ref().map(|member| open(member.url()));
    let known = voting(&clients[0]).await;
    for round in 0..5 {
        let lease = cluster.members()[0].ctl(&["lease", "grant", "60"]);
        assert!(lease.contains("granted"), "{lease}");
        for (index, store) in clients.iter().enumerate() {
            assert_eq!(store.standing(&terms()).await.unwrap(), known);
            elected(store, &ballot(&format!("{round}/{index}"), &known)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rights_to_a_prefix_are_enough_to_vote() {
    let server = EtcdServer::start();
    tokio::task::block_in_place(|| server.require_users(&[("voter", "secret", "lock/")]));
    let store = open(server.url_as("voter", "secret"));
    let ballot = ballot("a", &voting(&store).await);
    let Vote::Granted(grant) = store.vote(&ballot).await.unwrap() else { panic!("no vote") };
    assert!(store.confirm(&ballot.request.claim, grant.tokens.last()).await.unwrap());
}

/// Two prefixes are two nodes, and a client of one of them says nothing about the other one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_prefix_has_a_record_of_its_own() {
    let (one, other) = (Part::new().open(), Part::new().open());
    let (known, foreign) = (voting(&one).await, voting(&other).await);
    assert_ne!(known.server, foreign.server);
    assert_eq!(one.vote(&ballot("a", &foreign)).await.unwrap(), Vote::Abstains);
    elected(&one, &ballot("a", &known)).await;
    assert!(other.limits().min_ttl == other.shortest_ttl());
}
