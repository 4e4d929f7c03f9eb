//! The primitives of apps, each with the least rights in the docs, and one user on both sides.

use std::time::Duration;

use lock_core::ErrorKind;
use lock_redis::check::Severity;
use lock_redis::{Builder, RedisBackend};
use lock_redlock::Redlock;
use lock_sync::{Handoff, LockError, Locks, MutexGuard, Owner, OwnerGuard, RwLockReadGuard};
use lock_tests::RedisServer;

use super::features::{Feature, all};

/// Longer than any step that works, and far shorter than a lease.
const SOON: Duration = Duration::from_secs(10);
const TTL: Duration = Duration::from_secs(30);

const USER: &str = "app";
const PASSWORD: &str = "secret";

fn feature(name: &str) -> Feature {
    all().into_iter().find(|feature| feature.name == name).unwrap()
}

/// A server with a user that has the rights of these features.
fn server(features: &[&str]) -> RedisServer {
    let mut words = vec!["on", ">secret", "resetkeys", "resetchannels", "-@all"];
    for name in features {
        words.extend(feature(name).rights.iter().map(|(right, _)| *right));
    }
    RedisServer::builder().user(USER, words.join(" ")).start()
}

fn backend(server: &RedisServer, setup: fn(Builder) -> Builder) -> RedisBackend {
    setup(RedisBackend::builder(server.url_as(USER, PASSWORD))).build().unwrap()
}

fn locks(backend: RedisBackend) -> Locks<RedisBackend> {
    Locks::builder(backend).ttl(TTL).handoff(Handoff::Fair).build().unwrap()
}

/// Two clients for each setup of the feature.
fn pairs(name: &str, server: &RedisServer) -> Vec<[Locks<RedisBackend>; 2]> {
    let setups = feature(name).setups.iter();
    setups.map(|&setup| [(); 2].map(|()| locks(backend(server, setup)))).collect()
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, what).await.expect("it takes too long")
}

#[tokio::test]
async fn what_a_mutex_takes_will_do_for_all_that_is_made_of_mutexes() {
    let server = server(&["mutex"]);
    for [here, there] in pairs("mutex", &server) {
        let (one, other) = (here.mutex("m", ()).unwrap(), there.mutex("m", ()).unwrap());
        let guard = soon(one.lock()).await.unwrap();
        let (released, next) =
            soon(async { tokio::join!(MutexGuard::release(guard), other.lock()) }).await;
        released.unwrap();
        drop(next.unwrap());

        let all = soon(here.lock_all(["m", "n"])).await.unwrap();
        assert!(soon(there.try_lock_all(["n", "o"])).await.is_err());
        soon(all.release()).await.unwrap();
        drop(soon(there.lock_all(["m", "n", "o"])).await.unwrap());

        let slots = [&here, &there].map(|locks| locks.slot_semaphore("s", 1).unwrap());
        let permit = soon(slots[0].acquire()).await.unwrap();
        assert!(soon(slots[1].try_acquire()).await.is_err());
        let (_, next) = soon(async { tokio::join!(permit.release(), slots[1].acquire()) }).await;
        drop(next.unwrap());

        let cells = [&here, &there].map(|locks| locks.once_cell::<u32, _>("c").unwrap());
        let (set, known) =
            soon(async { tokio::join!(cells[0].get_or_init(async || 7), cells[1].wait()) }).await;
        assert_eq!((set.unwrap(), known.unwrap()), (&7, &7));

        let elections = [&here, &there].map(|locks| locks.election("e").unwrap());
        let mut leads = soon(elections[0].campaign("one")).await.unwrap();
        assert_eq!(soon(elections[1].leader()).await.unwrap().unwrap().value, b"one");
        soon(leads.update("two")).await.unwrap();
        let (resigned, next) =
            soon(async { tokio::join!(leads.resign(), elections[1].campaign("three")) }).await;
        resigned.unwrap();
        soon(next.unwrap().resign()).await.unwrap();
        let mut cell = here.once_cell::<u32, _>("c").unwrap();
        soon(cell.reset()).await.unwrap();
    }
}

#[tokio::test]
async fn readers_and_writers_take_turns() {
    let server = server(&["reader-writer lock"]);
    for [here, there] in pairs("reader-writer lock", &server) {
        let (one, other) = (here.rwlock("r", ()).unwrap(), there.rwlock("r", ()).unwrap());
        let reads = soon(one.read()).await.unwrap();
        let also = soon(other.read()).await.unwrap();
        drop(also);
        let (_, writes) =
            soon(async { tokio::join!(RwLockReadGuard::release(reads), other.write()) }).await;
        drop(writes.unwrap());
        drop(soon(one.write()).await.unwrap());
    }
}

#[tokio::test]
async fn permits_are_passed_on() {
    let server = server(&["semaphore"]);
    for [here, there] in pairs("semaphore", &server) {
        let permits = [&here, &there].map(|locks| locks.semaphore("p", 2).unwrap());
        let both = soon(permits[0].acquire_many(2)).await.unwrap();
        assert!(soon(permits[1].try_acquire()).await.is_err());
        let (_, next) = soon(async { tokio::join!(both.release(), permits[1].acquire()) }).await;
        next.unwrap().forget();
        assert_eq!(soon(permits[0].available_permits()).await.unwrap(), 1);
        soon(permits[0].close_for_all()).await.unwrap();
        assert!(soon(permits[1].acquire()).await.is_err());
        server.flushall();
    }
}

#[tokio::test]
async fn participants_that_meet_pass() {
    let server = server(&["mutex", "semaphore"]);
    for [here, there] in pairs("mutex", &server) {
        for _ in 0..2 {
            let barriers = [&here, &there].map(|locks| locks.barrier("b", 2).unwrap());
            let (one, other) =
                soon(async { tokio::join!(barriers[0].wait(), barriers[1].wait()) }).await;
            assert_ne!(one.unwrap().is_leader(), other.unwrap().is_leader());
        }
    }
}

#[tokio::test]
async fn an_owner_is_in_two_processes() {
    let server = server(&["reentrant mutex"]);
    for [here, there] in pairs("reentrant mutex", &server) {
        let mutexes = [&here, &there].map(|locks| locks.reentrant_mutex("o", ()).unwrap());
        let mut owner = Owner::new().unwrap();
        let mut same = there.owner(&owner.pass()).unwrap();
        let mut another = Owner::new().unwrap();
        let guard = soon(mutexes[0].lock_as(&mut owner)).await.unwrap();
        let entered = soon(mutexes[1].lock_as(&mut same)).await.unwrap();
        drop(entered);
        let third = mutexes[1].lock_as(&mut another);
        let (_, next) = soon(async { tokio::join!(OwnerGuard::release(guard), third) }).await;
        drop(next.unwrap());
    }
}

#[tokio::test]
async fn nodes_form_a_quorum() {
    let servers: Vec<_> = (0..3).map(|_| server(&["node of a quorum"])).collect();
    for &setup in feature("node of a quorum").setups {
        let client = async || {
            let nodes = servers.iter().map(|server| backend(server, setup));
            Redlock::builder().nodes(nodes).build().await.unwrap()
        };
        let (one, other) = (client().await, client().await);
        soon(one.init()).await.unwrap();
        let [here, there] =
            [one, other].map(|quorum| Locks::builder(quorum).ttl(TTL).build().unwrap());

        let mutexes = [&here, &there].map(|locks| locks.mutex("m", ()).unwrap());
        let guard = soon(mutexes[0].lock()).await.unwrap();
        let (released, next) =
            soon(async { tokio::join!(MutexGuard::release(guard), mutexes[1].lock()) }).await;
        released.unwrap();
        drop(next.unwrap());

        let (one, other) = (here.rwlock("r", ()).unwrap(), there.rwlock("r", ()).unwrap());
        let reads = soon(one.read()).await.unwrap();
        drop(soon(other.read()).await.unwrap());
        drop(reads);
        drop(soon(other.write()).await.unwrap());

        let cells = [&here, &there].map(|locks| locks.once_cell::<u32, _>("c").unwrap());
        soon(cells[0].get_or_init(async || 7)).await.unwrap();
        assert_eq!(soon(cells[1].load()).await.unwrap(), Some(&7));
        for server in &servers {
            server.cli(&["DEL", "lock:{c}:cell"]);
        }
    }
}

#[tokio::test]
async fn a_database_of_its_own_takes_one_right_more() {
    let server = server(&["mutex"]);
    let url = format!("{}/1", server.url_as(USER, PASSWORD));
    let denied = Locks::new(RedisBackend::open(&url).unwrap()).mutex("m", ()).unwrap();
    let error = soon(denied.lock()).await.unwrap_err();
    assert!(matches!(&error, LockError::Backend(e) if e.kind() == ErrorKind::Denied), "{error:?}");
    server.cli(&["ACL", "SETUSER", USER, "+select"]);
    let mutex = Locks::new(RedisBackend::open(&url).unwrap()).mutex("m", ()).unwrap();
    drop(soon(mutex.lock()).await.unwrap());
}

#[tokio::test]
async fn the_check_says_more_to_a_user_with_more_rights() {
    let server = server(&["mutex"]);
    let report = async || backend(&server, |it| it).check().await.unwrap();
    let least = report().await;
    let told = &least.servers[0];
    assert_eq!((&told.version, &told.eviction_policy, &told.notifications), (&None, &None, &None));
    // A user that may use mutexes can also inspect them.
    assert_eq!(least.with_code("holders-unseen").count(), 0, "{least}");
    // What the other kinds of locks need is named.
    assert!(least.with_code("rights-missing").all(|it| it.severity == Severity::Info), "{least}");
    server.cli(&["ACL", "SETUSER", USER, "+info", "+config|get"]);
    let more = report().await;
    let told = &more.servers[0];
    assert!(told.version.is_some() && told.notifications.is_some(), "{more}");
    assert_eq!(told.eviction_policy.as_deref(), Some("noeviction"));
}
